//! A trace whose operations start at other times than it has: later by a delay, or at multiples of a duration.
//!
//! This is the experiment on sensitivity of the Buttress paper (section 6.4, Figure 9): how much do response times and
//! queue change if a generator issues late, as delays and the ticks of a scheduler make it.
//!
//! Decision: the intended start becomes the altered time, so response times count from the altered issue, as in the
//! paper, and the generator's own lateness stays apart from the one that is simulated. Operations are emitted in the
//! order of their altered times, because [`Operations`](super::open::Operations) asks for more at the middle of a block. An
//! operation is emitted once every operation after it in the trace must be altered to a later time; until then it is
//! held. Rejected: emission in the trace's order, with which an operation of the next block could be due before that block
//! is asked for.

use crate::distribution::Distribution;
use crate::filaments::open::{BLOCK_OPERATIONS, OperationSource, SourceState};
use crate::random::Stream;
use bw_model::{Nanos, Operation};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The latest altered time: an operation after [`Nanos::NEVER`] would keep a run from ending.
const LATEST: u64 = u64::MAX / 4;

/// Operations held at first without another allocation.
const HELD: usize = 4096;

/// How the times of a trace are altered.
#[derive(Debug)]
pub(crate) struct Alteration {
    /// Added to each operation's time [ns], drawn with this stream.
    pub delay: Option<(Distribution, Stream)>,
    /// Times are then rounded up to multiples of this [ns]; at least 1.
    pub quantum: u64,
}

impl Alteration {
    /// Returns the smallest delay that may be drawn.
    fn least(&self) -> u64 {
        self.delay.as_ref().map_or(0, |(delay, _)| delay.range().0)
    }

    /// Returns the altered time of an operation. Draws once for each call, so calls must be in the trace's order.
    fn altered(&mut self, at: Nanos) -> Nanos {
        let delay = match &mut self.delay {
            Some((delay, stream)) => delay.draw(stream),
            None => 0,
        };
        self.rounded(at.0.saturating_add(delay))
    }

    fn rounded(&self, at: u64) -> Nanos {
        let at = at.min(LATEST);
        Nanos(
            at.div_ceil(self.quantum)
                .saturating_mul(self.quantum)
                .min(LATEST),
        )
    }
}

/// An operation whose turn has not come; the one altered to the earliest time is the least.
#[derive(Debug)]
struct Held {
    order: u64,
    operation: Operation,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.operation.at, self.order).cmp(&(other.operation.at, other.order))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

/// The operations of a source at altered times. It allocates if more operations than ever before are held: as many as
/// the trace has within the longest delay.
pub(crate) struct Altered<S> {
    source: S,
    alteration: Alteration,
    read: Vec<Operation>,
    held: BinaryHeap<Reverse<Held>>,
    order: u64,
    /// No operation that is not held yet is altered to an earlier time.
    horizon: Nanos,
    ended: bool,
}

impl<S: OperationSource> Altered<S> {
    pub(crate) fn new(source: S, alteration: Alteration) -> Self {
        Self {
            source,
            alteration,
            read: Vec::with_capacity(BLOCK_OPERATIONS),
            held: BinaryHeap::with_capacity(HELD),
            order: 0,
            horizon: Nanos::ZERO,
            ended: false,
        }
    }

    /// Holds the operations that were read.
    fn hold(&mut self) {
        let mut last = None;
        for operation in self.read.drain(..) {
            last = Some(operation.at);
            let at = self.alteration.altered(operation.at);
            let operation = Operation { at, ..operation };
            let order = self.order;
            self.order += 1;
            self.held.push(Reverse(Held { order, operation }));
        }
        if self.ended {
            self.horizon = Nanos::NEVER;
        } else if let Some(last) = last {
            let earliest = last.0.saturating_add(self.alteration.least());
            self.horizon = self.alteration.rounded(earliest);
        }
    }

    /// Moves operations whose turn has come to `block`.
    fn release(&mut self, block: &mut Vec<Operation>) {
        while block.len() < BLOCK_OPERATIONS {
            match self.held.peek() {
                Some(Reverse(first)) if first.operation.at <= self.horizon => {}
                _ => return,
            }
            block.extend(self.held.pop().map(|Reverse(first)| first.operation));
        }
    }
}

impl<S: OperationSource> OperationSource for Altered<S> {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        loop {
            self.release(block);
            if self.ended && self.held.is_empty() {
                return SourceState::Ended;
            }
            if !block.is_empty() {
                return SourceState::Ready;
            }
            match self.source.next_block(&mut self.read) {
                SourceState::NotYet => return SourceState::NotYet,
                SourceState::Ready => {}
                SourceState::Ended => self.ended = true,
            }
            self.hold();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::DistributionSpec;
    use bw_model::Kind;
    use proptest::prelude::*;

    /// Hands out blocks of this many operations; behind before each of them.
    struct Blocks {
        times: Vec<u64>,
        size: usize,
        next: usize,
        behind: bool,
    }

    impl OperationSource for Blocks {
        fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
            assert!(block.is_empty());
            self.behind = !self.behind;
            if self.behind {
                return SourceState::NotYet;
            }
            let end = self.times.len().min(self.next + self.size);
            for place in self.next..end {
                block.push(Operation {
                    at: Nanos(self.times[place]),
                    ..Operation::new(Kind::Read, place as u64, 1)
                });
            }
            self.next = end;
            if end == self.times.len() {
                SourceState::Ended
            } else {
                SourceState::Ready
            }
        }
    }

    /// Returns the altered times with the places in the trace, in the order of emission.
    fn played(times: &[u64], size: usize, alteration: Alteration) -> Vec<(u64, u64)> {
        let source = Blocks {
            times: times.to_vec(),
            size,
            next: 0,
            behind: true,
        };
        let mut altered = Altered::new(source, alteration);
        let mut found = Vec::new();
        loop {
            let mut block = Vec::new();
            let state = altered.next_block(&mut block);
            assert_eq!(
                state == SourceState::NotYet,
                block.is_empty() && state != SourceState::Ended
            );
            found.extend(block.iter().map(|one| (one.at.0, one.offset)));
            if state == SourceState::Ended {
                return found;
            }
        }
    }

    fn delay(spec: &DistributionSpec) -> Option<(Distribution, Stream)> {
        Some((Distribution::new(spec).unwrap(), Stream::new(7, 0)))
    }

    fn only_quantum(quantum: u64) -> Alteration {
        Alteration {
            delay: None,
            quantum,
        }
    }

    #[test]
    fn a_constant_delay_moves_every_operation_by_as_much() {
        let alteration = Alteration {
            delay: delay(&DistributionSpec::Constant { value: 1000 }),
            quantum: 1,
        };
        let expected = [(1000, 0), (1010, 1), (1010, 2), (1500, 3)];
        assert_eq!(played(&[0, 10, 10, 500], 2, alteration), expected);
    }

    #[test]
    fn times_are_rounded_up_and_those_at_a_multiple_stay() {
        let expected = [(0, 0), (100, 1), (100, 2), (100, 3), (200, 4)];
        assert_eq!(
            played(&[0, 1, 99, 100, 101], 1, only_quantum(100)),
            expected
        );
    }

    #[test]
    fn an_operation_that_is_delayed_longer_is_overtaken() {
        let values = DistributionSpec::Uniform { low: 0, high: 900 };
        let times: Vec<u64> = (0..200).map(|n| n * 100).collect();
        let alteration = Alteration {
            delay: delay(&values),
            quantum: 1,
        };
        let found = played(&times, 16, alteration);
        let order: Vec<u64> = found.iter().map(|(_, place)| *place).collect();
        assert!(!order.is_sorted());
        assert!(
            found
                .iter()
                .all(|(at, place)| (place * 100..=place * 100 + 900).contains(at))
        );
    }

    proptest! {
        #[test]
        fn the_schedule_is_in_order_whole_and_independent_of_the_readers_blocks(
            mut times in prop::collection::vec(0_u64..50_000, 0..300),
            mean in 1_u64..5_000,
            quantum in 1_u64..4_000,
            sizes in (1_usize..70, 1_usize..70),
        ) {
            times.sort_unstable();
            let alteration = || Alteration {
                delay: delay(&DistributionSpec::Exponential { mean }),
                quantum,
            };
            let found = played(&times, sizes.0, alteration());
            prop_assert_eq!(&found, &played(&times, sizes.1, alteration()));
            prop_assert!(found.is_sorted_by_key(|(at, _)| *at));
            let mut places: Vec<u64> = found.iter().map(|(_, place)| *place).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..times.len() as u64).collect::<Vec<_>>());
            prop_assert!(found.iter().all(|(at, place)| *at >= times[*place as usize] && at % quantum == 0));
        }
    }
}
