//! Runs filaments in virtual time: the whole schedule of a workload, without a clock or a target.
//!
//! For tests and simulations. The target is a function from an operation to its service time, so
//! a stall, a queue or a slow disk is a closure. It has no limit of operations in flight and
//! never issues late: what it returns is what a perfect engine would issue.
//!
//! Decision: one heap of events, ordered by time and then by the order in which they were emitted.
//! That is a total order, so the same filaments give the same operations on every machine, and the
//! order among one filament's own events does not depend on the other filaments.

use crate::filaments::{Completion, Emissions, Event, Filament, FilamentId, SequenceEnd};
use bw_model::{Nanos, Operation};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// A filament with its id. Parts of one filament that live on several workers share the id.
pub type Placed = (FilamentId, Box<dyn Filament>);

/// Returns every operation that starts before `until`, in the order of issue, with its filament.
///
/// `service` is called once for each operation, in the order of issue, and returns how long the
/// operation takes [ns]; operations are issued at their `at`, so this is also the response time.
/// A message to an id that several parts share goes to the first. If service time and think time
/// are both zero, a closed loop never advances the time, and this function does not return.
///
/// # Panics
/// A filament sends a message to an id that does not exist: an error in the filament.
#[must_use]
pub fn drive(
    filaments: Vec<Placed>,
    mut service: impl FnMut(&Operation) -> Nanos,
    until: Nanos,
) -> Vec<(FilamentId, Operation)> {
    let succeed = |operation: &Operation| {
        let bytes = i32::try_from(operation.size).unwrap_or(i32::MAX);
        (service(operation), bytes)
    };
    replay(filaments, succeed, until).issued
}

/// What filaments did.
pub struct Replayed {
    /// Every operation, in the order of issue, with its filament.
    pub issued: Vec<(FilamentId, Operation)>,
    /// The sequences that ended, in the order of their ends, then those that did not.
    pub sequences: Vec<SequenceEnd>,
}

/// As [`drive`], with results: `service` returns how long an operation takes [ns] and its result, bytes or a negative
/// errno.
///
/// # Panics
/// As [`drive`].
#[must_use]
pub fn replay(
    filaments: Vec<Placed>,
    service: impl FnMut(&Operation) -> (Nanos, i32),
    until: Nanos,
) -> Replayed {
    let mut drive = Drive::new(filaments, service);
    while let Some(due) = drive.heap.pop() {
        if due.at >= until {
            break;
        }
        drive.execute(due);
    }
    let mut sequences = drive.sequences;
    for (_, filament) in &drive.filaments {
        filament.unfinished(until, &mut sequences);
    }
    Replayed {
        issued: drive.issued,
        sequences,
    }
}

/// An action for the filament at this index of the list.
#[derive(Clone, Copy)]
enum ReplayAction {
    Issue(usize, Operation),
    Wake(usize, Event),
}

/// An action in the heap; the earliest is the greatest, as `BinaryHeap` requires.
struct ReplayEvent {
    at: Nanos,
    order: u64,
    action: ReplayAction,
}

impl Ord for ReplayEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for ReplayEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ReplayEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ReplayEvent {}

/// The state of a call of [`replay`].
struct Drive<S> {
    filaments: Vec<Placed>,
    places: HashMap<FilamentId, usize>,
    service: S,
    heap: BinaryHeap<ReplayEvent>,
    emitted: u64,
    emissions: Emissions,
    issued: Vec<(FilamentId, Operation)>,
    sequences: Vec<SequenceEnd>,
}

impl<S: FnMut(&Operation) -> (Nanos, i32)> Drive<S> {
    fn new(filaments: Vec<Placed>, service: S) -> Self {
        let mut places = HashMap::new();
        for (place, (id, _)) in filaments.iter().enumerate() {
            places.entry(*id).or_insert(place);
        }
        let mut drive = Self {
            filaments,
            places,
            service,
            heap: BinaryHeap::new(),
            emitted: 0,
            emissions: Emissions::default(),
            issued: Vec::new(),
            sequences: Vec::new(),
        };
        for place in 0..drive.filaments.len() {
            drive.push(Nanos::ZERO, ReplayAction::Wake(place, Event::Start));
        }
        drive
    }

    fn push(&mut self, at: Nanos, action: ReplayAction) {
        let order = self.emitted;
        self.emitted += 1;
        self.heap.push(ReplayEvent { at, order, action });
    }

    fn execute(&mut self, due: ReplayEvent) {
        match due.action {
            ReplayAction::Issue(place, operation) => self.issue(place, operation, due.at),
            ReplayAction::Wake(place, event) => self.wake(place, event, due.at),
        }
    }

    fn issue(&mut self, place: usize, operation: Operation, now: Nanos) {
        let (length, result) = (self.service)(&operation);
        let ends = now + length;
        self.issued.push((self.filaments[place].0, operation));
        if operation.notify {
            let event = Event::Completed(Completion {
                at: ends,
                intended: operation.at,
                kind: operation.kind,
                tag: operation.tag,
                result,
            });
            self.push(ends, ReplayAction::Wake(place, event));
        }
    }

    fn wake(&mut self, place: usize, event: Event, now: Nanos) {
        let mut emissions = std::mem::take(&mut self.emissions);
        let from = self.filaments[place].0;
        self.filaments[place].1.wake(event, &mut emissions);
        for (at, tag) in emissions.timers.drain(..) {
            let timer = Event::Timer { at, tag };
            self.push(at.max(now), ReplayAction::Wake(place, timer));
        }
        for operation in emissions.operations.drain(..) {
            self.push(operation.at.max(now), ReplayAction::Issue(place, operation));
        }
        for (at, to, payload) in emissions.messages.drain(..) {
            let message = Event::Message { at, from, payload };
            let receiver = self.places.get(&to);
            let receiver = *receiver.unwrap_or_else(|| panic!("filament {to} is not here"));
            self.push(at.max(now), ReplayAction::Wake(receiver, message));
        }
        self.sequences.append(&mut emissions.sequences);
        self.emissions = emissions;
    }
}
