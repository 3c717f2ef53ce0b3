//! From block-layer events to operations: an arrival, its issue and its completion are one row.
//!
//! Decision: a completion is matched by device and sectors, not by an id (blktrace has none): it
//! ends the oldest unfinished arrival of its kind at every sector that it covers, so that requests which the
//! block layer merged end together. Rows come out in the order of arrival, so an arrival is held
//! until it has ended, 60 s have passed or 65,536 are held: memory stays bounded.

use crate::entry::{Devices, Entry, transferred};
use crate::fault::{Fault, Place};
use crate::formats::SECTOR_BYTES;
use crate::input::Arrivals;
use crate::source::{Account, Source, Stamped};
use bw_schedule::operation::Kind;
use bw_units::Nanos;
use std::collections::{BTreeSet, VecDeque};

/// What the block layer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Q: a request enters the queue.
    Queue,
    /// D: it is issued to the driver.
    Issue,
    /// C: it has ended.
    Complete,
}

/// One event of the three that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockEvent {
    /// When [ns].
    pub at: u64,
    /// What happened.
    pub action: Action,
    /// What the request does.
    pub kind: Kind,
    /// The device's number.
    pub device: u16,
    /// Where [512 bytes].
    pub sector: u64,
    /// How much.
    pub bytes: u64,
    /// The process.
    pub pid: u32,
    /// Zero, or a negative errno.
    pub error: i32,
    /// Where it was read.
    pub place: Place,
    /// In which file.
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
    source: Box<dyn Source<BlockEvent>>,
    arrivals: Option<Arrivals>,
    undecided: VecDeque<BlockEvent>,
    ended: bool,
    held: Held,
    unmatched: u64,
}

impl Matcher {
    /// Returns the operations of `source`; `arrivals` None: by Q where there are any, else by D.
    pub fn new(source: Box<dyn Source<BlockEvent>>, arrivals: Option<Arrivals>) -> Self {
        Self {
            source,
            arrivals,
            undecided: VecDeque::new(),
            ended: false,
            held: Held::default(),
            unmatched: 0,
        }
    }

    /// Returns the next event once it is clear which events are the arrivals.
    fn next_event(&mut self, devices: &mut Devices) -> Result<Option<BlockEvent>, Fault> {
        while self.arrivals.is_none() {
            match self.source.next(devices)? {
                Some(event) => {
                    if event.action == Action::Queue {
                        self.arrivals = Some(Arrivals::Queue);
                    } else if self.undecided.len() >= MOST_HELD {
                        self.arrivals = Some(Arrivals::Issue);
                    }
                    self.undecided.push_back(event);
                }
                None => self.arrivals = Some(Arrivals::Issue),
            }
        }
        match self.undecided.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.source.next(devices),
        }
    }

    fn take(&mut self, event: &BlockEvent) {
        match (event.action, self.arrivals) {
            (Action::Queue, Some(Arrivals::Queue)) | (Action::Issue, Some(Arrivals::Issue)) => {
                self.held.arrive(event, self.arrivals);
            }
            (Action::Issue, _) => self.held.issue(event),
            (Action::Complete, _) => self.unmatched += u64::from(!self.held.complete(event)),
            (Action::Queue, _) => {}
        }
    }
}

impl Source<Entry> for Matcher {
    fn next(&mut self, devices: &mut Devices) -> Result<Option<Entry>, Fault> {
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

/// The arrivals that wait for their completion, in the order of arrival.
#[derive(Default)]
struct Held {
    entries: VecDeque<Entry>,
    /// The number of the first of `entries`.
    first: u64,
    /// Device, sector and number of those without an end.
    open: BTreeSet<(u16, u64, u64)>,
    newest: u64,
}

impl Held {
    fn arrive(&mut self, event: &BlockEvent, arrivals: Option<Arrivals>) {
        let offset = event.sector.saturating_mul(SECTOR_BYTES);
        let mut entry = Entry::new(event.at, event.kind, offset, event.bytes).on(event.device);
        entry.row.stream = event.pid;
        entry.place = event.place;
        entry.file = event.file;
        if arrivals == Some(Arrivals::Issue) {
            entry.row.issued = Nanos(event.at);
        }
        let number = self.first + self.entries.len() as u64;
        self.open.insert((event.device, event.sector, number));
        self.entries.push_back(entry);
        self.newest = self.newest.max(event.at);
    }

    /// Returns the numbers of the oldest open arrivals of the event's kind at each of its sectors.
    fn covered(&self, event: &BlockEvent) -> Vec<u64> {
        let sectors = event.bytes.div_ceil(SECTOR_BYTES).max(1);
        let end = event.sector.saturating_add(sectors);
        let from = (event.device, event.sector, 0);
        let mut found = Vec::new();
        let mut last_sector = None;
        for (_, sector, number) in self.open.range(from..(event.device, end, 0)) {
            let entry = self.entries.get(self.place(*number));
            let same_kind = entry.is_some_and(|entry| entry.row.kind == event.kind);
            if same_kind && last_sector != Some(*sector) {
                last_sector = Some(*sector);
                found.push(*number);
            }
        }
        found
    }

    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    fn issue(&mut self, event: &BlockEvent) {
        for number in self.covered(event) {
            let place = self.place(number);
            if let Some(entry) = self.entries.get_mut(place)
                && entry.row.issued == Nanos::NEVER
            {
                entry.row.issued = Nanos(event.at);
            }
        }
    }

    /// Ends what the event covers; returns whether that was anything.
    fn complete(&mut self, event: &BlockEvent) -> bool {
        let numbers = self.covered(event);
        self.newest = self.newest.max(event.at);
        for number in &numbers {
            let place = self.place(*number);
            if let Some(entry) = self.entries.get_mut(place) {
                let sector = entry.row.offset / SECTOR_BYTES;
                entry.row.completed = Nanos(event.at.max(entry.at()));
                entry.row.result = match event.error {
                    0 => transferred(entry.row.size),
                    error => error,
                };
                self.open.remove(&(entry.row.device, sector, *number));
            }
        }
        !numbers.is_empty()
    }

    /// Returns the oldest arrival if it has ended or need not wait any longer.
    fn release(&mut self, all: bool) -> Option<Entry> {
        let oldest = self.entries.front()?;
        let waits = oldest.row.completed == Nanos::NEVER
            && self.entries.len() < MOST_HELD
            && self.newest.saturating_sub(oldest.at()) < LONGEST_HELD_NS;
        if waits && !all {
            return None;
        }
        let sector = oldest.row.offset / SECTOR_BYTES;
        self.open.remove(&(oldest.row.device, sector, self.first));
        self.first += 1;
        self.entries.pop_front()
    }
}

/// Returns the errno of blktrace's 16-bit error field as a negative number, whatever its sign was.
#[allow(clippy::cast_possible_wrap)]
pub(crate) fn errno(field: u16) -> i32 {
    let signed = i32::from(field as i16);
    -signed.abs()
}
