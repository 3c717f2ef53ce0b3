//! From block-layer events to operations: an arrival, its issue and its completion are one row.
//!
//! Decision: a completion is matched by device and sectors, not by an id (blktrace has none). It
//! ends the oldest unfinished arrival of its kind at every sector that it covers, so requests that the
//! block layer merged end together. An arrival that was split ends with the last of its parts, whatever their
//! order. Rows are returned in the order of arrival, so an arrival is held
//! until it has ended, 60 s have passed or 65,536 are held: memory stays bounded.

use crate::entry::SECTOR_BYTES;
use crate::entry::{DeviceNames, ParseError, Position, TraceEntry, transferred};
use crate::input::ArrivalEvent;
use crate::source::{Account, Stamped, TraceSource};
use bw_model::{Kind, Nanos};
use std::collections::{BTreeSet, VecDeque};

/// What the block layer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockAction {
    /// Q: a request enters the queue.
    Queue,
    /// D: it is issued to the driver.
    Issue,
    /// C: it has completed.
    Complete,
}

/// One event of these three actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockEvent {
    /// Time [ns].
    pub at: u64,
    /// Action.
    pub action: BlockAction,
    /// Operation.
    pub kind: Kind,
    /// The device's number.
    pub device: u16,
    /// First sector [512 bytes].
    pub sector: u64,
    /// Size.
    pub bytes: u64,
    /// The process.
    pub pid: u32,
    /// Zero, or a negative errno.
    pub error: i32,
    /// Position in the file.
    pub place: Position,
    /// The file.
    pub file: u16,
}

impl Stamped for BlockEvent {
    fn stamp(&self) -> u64 {
        self.at
    }

    fn mark_file(&mut self, file: u16) {
        self.file = file;
    }
}

/// How many arrivals may wait for their completion, and how many events for the first Q.
const MOST_HELD: usize = 65_536;

/// How long an arrival may wait for its completion [ns].
const LONGEST_HELD_NS: u64 = 60_000_000_000;

/// The operations of a stream of events.
pub(crate) struct Matcher {
    source: Box<dyn TraceSource<BlockEvent>>,
    arrivals: Option<ArrivalEvent>,
    undecided: VecDeque<BlockEvent>,
    ended: bool,
    held: PendingArrivals,
    unmatched: u64,
}

impl Matcher {
    /// Returns the operations of `source`. With `arrivals` None, arrivals are Q events if there are any, otherwise D.
    pub(crate) fn new(
        source: Box<dyn TraceSource<BlockEvent>>,
        arrivals: Option<ArrivalEvent>,
    ) -> Self {
        Self {
            source,
            arrivals,
            undecided: VecDeque::new(),
            ended: false,
            held: PendingArrivals::default(),
            unmatched: 0,
        }
    }

    /// Returns the next event once it is clear which events are the arrivals.
    fn next_event(&mut self, devices: &mut DeviceNames) -> Result<Option<BlockEvent>, ParseError> {
        while self.arrivals.is_none() {
            match self.source.next(devices)? {
                Some(event) => {
                    if event.action == BlockAction::Queue {
                        self.arrivals = Some(ArrivalEvent::Queue);
                    } else if self.undecided.len() >= MOST_HELD {
                        self.arrivals = Some(ArrivalEvent::Issue);
                    }
                    self.undecided.push_back(event);
                }
                None => self.arrivals = Some(ArrivalEvent::Issue),
            }
        }
        match self.undecided.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.source.next(devices),
        }
    }

    fn take(&mut self, event: &BlockEvent) {
        match (event.action, self.arrivals) {
            (BlockAction::Queue, Some(ArrivalEvent::Queue))
            | (BlockAction::Issue, Some(ArrivalEvent::Issue)) => {
                self.held.arrive(event, self.arrivals);
            }
            (BlockAction::Issue, _) => self.held.issue(event),
            (BlockAction::Complete, _) => self.unmatched += u64::from(!self.held.complete(event)),
            (BlockAction::Queue, _) => {}
        }
    }
}

impl TraceSource<TraceEntry> for Matcher {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        loop {
            if let Some(entry) = self.held.release(self.ended) {
                return Ok(Some(entry));
            }
            if self.ended {
                return Ok(None);
            }
            match self.next_event(devices)? {
                Some(event) => self.take(&event),
                None => self.ended = true,
            }
        }
    }

    fn account(&self) -> Account {
        self.source.account().with(Account {
            unmatched_completions: self.unmatched,
            ..Account::default()
        })
    }
}

/// How many arrivals before a part's sector are searched for the one that it belongs to.
const LOOKED_BACK: usize = 64;

/// An arrival that waits for its completion.
struct PendingArrival {
    entry: TraceEntry,
    /// Number of its sectors that have not ended.
    left: u64,
}

impl PendingArrival {
    fn is_issued(&self) -> bool {
        self.entry.row.issued != Nanos::NEVER
    }

    /// Ends `sectors` of its sectors. A failed part fails the whole.
    fn end(&mut self, sectors: u64, event: &BlockEvent) {
        self.left = self.left.saturating_sub(sectors);
        let at = event.at.max(self.entry.at());
        let row = &mut self.entry.row;
        if event.error != 0 {
            row.result = event.error;
        }
        if self.left == 0 {
            row.completed = Nanos(at);
            if row.result == 0 {
                row.result = transferred(row.size);
            }
        }
    }
}

/// Returns the number of sectors of `bytes`; a flush counts as one.
fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR_BYTES).max(1)
}

/// The arrivals that wait for their completion, in the order of arrival.
#[derive(Default)]
struct PendingArrivals {
    waiting: VecDeque<PendingArrival>,
    /// The number of the first of `waiting`.
    first: u64,
    /// Device, sector and number of the arrivals without a completion.
    open: BTreeSet<(u16, u64, u64)>,
    newest: u64,
}

impl PendingArrivals {
    fn arrive(&mut self, event: &BlockEvent, arrivals: Option<ArrivalEvent>) {
        let offset = event.sector.saturating_mul(SECTOR_BYTES);
        let mut entry = TraceEntry::new(event.at, event.kind, offset, event.bytes).on(event.device);
        entry.row.stream = event.pid;
        entry.place = event.place;
        entry.file = event.file;
        if arrivals == Some(ArrivalEvent::Issue) {
            entry.row.issued = Nanos(event.at);
        }
        let number = self.first + self.waiting.len() as u64;
        self.open.insert((event.device, event.sector, number));
        let left = sectors(u64::from(entry.row.size));
        self.waiting.push_back(PendingArrival { entry, left });
        self.newest = self.newest.max(event.at);
    }

    /// Returns the oldest open `wanted` arrivals of the event's kind at each of its sectors, and the one that starts
    /// before and reaches into it, with the number of their sectors that the event covers.
    fn covered(&self, event: &BlockEvent, wanted: fn(&PendingArrival) -> bool) -> Vec<(u64, u64)> {
        let end = event.sector.saturating_add(sectors(event.bytes));
        let fits = |number: u64| {
            let waiting = self.waiting.get(self.place(number))?;
            (waiting.entry.row.kind == event.kind && wanted(waiting)).then_some(waiting)
        };
        let reach = |sector: u64, waiting: &PendingArrival| {
            let bytes = u64::from(waiting.entry.row.size);
            sector.saturating_add(sectors(bytes)).min(end)
        };
        let mut found = Vec::new();
        let mut last_sector = None;
        let from = (event.device, event.sector, 0);
        for (_, sector, number) in self.open.range(from..(event.device, end, 0)) {
            if let Some(waiting) = fits(*number)
                && last_sector != Some(*sector)
            {
                last_sector = Some(*sector);
                found.push((*number, reach(*sector, waiting) - sector));
            }
        }
        let begins_here = found
            .first()
            .and_then(|(number, _)| self.waiting.get(self.place(*number)))
            .is_some_and(|first| first.entry.row.offset / SECTOR_BYTES == event.sector);
        if !begins_here {
            let before = self.open.range((event.device, 0, 0)..from).rev();
            let part = before.take(LOOKED_BACK).find_map(|(_, sector, number)| {
                let reached = reach(*sector, fits(*number)?);
                (reached > event.sector).then(|| (*number, reached - event.sector))
            });
            found.extend(part);
        }
        found
    }

    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    fn issue(&mut self, event: &BlockEvent) {
        for (number, _) in self.covered(event, |waiting| !waiting.is_issued()) {
            let place = self.place(number);
            if let Some(waiting) = self.waiting.get_mut(place) {
                waiting.entry.row.issued = Nanos(event.at);
            }
        }
    }

    /// Ends what the event covers; returns whether it covered anything.
    fn complete(&mut self, event: &BlockEvent) -> bool {
        let covered = self.covered(event, |_| true);
        self.newest = self.newest.max(event.at);
        for (number, sectors) in &covered {
            let place = self.place(*number);
            let Some(waiting) = self.waiting.get_mut(place) else {
                continue;
            };
            waiting.end(*sectors, event);
            let row = &waiting.entry.row;
            if waiting.left == 0 {
                self.open
                    .remove(&(row.device, row.offset / SECTOR_BYTES, *number));
            }
        }
        !covered.is_empty()
    }

    /// Returns the oldest arrival if it has ended or need not wait any longer.
    fn release(&mut self, all: bool) -> Option<TraceEntry> {
        let oldest = self.waiting.front()?;
        let row = &oldest.entry.row;
        let waits = row.completed == Nanos::NEVER
            && self.waiting.len() < MOST_HELD
            && self.newest.saturating_sub(oldest.entry.at()) < LONGEST_HELD_NS;
        if waits && !all {
            return None;
        }
        let sector = row.offset / SECTOR_BYTES;
        self.open.remove(&(row.device, sector, self.first));
        self.first += 1;
        self.waiting.pop_front().map(|waiting| waiting.entry)
    }
}

/// Returns the errno of blktrace's 16-bit error field as a negative number, whatever its sign.
#[allow(clippy::cast_possible_wrap)]
pub(crate) fn errno(field: u16) -> i32 {
    let signed = i32::from(field as i16);
    -signed.abs()
}
