//! The null target: operations end after a fixed time. It measures the engine alone, and shows what a slow
//! or stalled target does to the results.
//!
//! Decision: the service time is the same for all operations, so the first in is the first out and a
//! queue is enough; a stall delays every end that falls into it until the stall is over. Without service time
//! and stalls no clock is read.

use crate::clock::Clock;
use crate::target::{Awaited, Reaped, Target};
use crate::worker::BATCH;
use bw_model::{Nanos, Operation};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;

/// A period in which nothing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Its start, since the start of the run.
    pub at_ns: Nanos,
    /// Its length.
    pub for_ns: Nanos,
}

/// The null target's specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullSpec {
    /// How long after its start an operation ends.
    #[serde(default)]
    pub service_ns: Nanos,
    /// The periods in which nothing ends.
    #[serde(default)]
    pub stalls: Vec<Stall>,
}

impl NullSpec {
    /// The size that the null target reports: 1 TiB.
    pub(crate) const SIZE_BYTES: u64 = 1 << 40;

    /// Returns when an operation that starts at `start` ends.
    #[must_use]
    pub fn end_of(&self, start: Nanos) -> Nanos {
        self.stalls
            .iter()
            .fold(start + self.service_ns, |end, stall| {
                let over = stall.at_ns + stall.for_ns;
                if stall.at_ns <= end && end < over {
                    over
                } else {
                    end
                }
            })
    }
}

/// The null target of one worker.
#[derive(Debug)]
pub struct Null<C> {
    clock: C,
    spec: NullSpec,
    timed: bool,
    capacity: u32,
    pending: VecDeque<(Nanos, Reaped)>,
}

impl<C: Clock> Null<C> {
    /// Returns a null target for `capacity` operations in flight; sorts the stalls.
    #[must_use]
    pub fn new(mut spec: NullSpec, clock: C, capacity: u32) -> Self {
        spec.stalls.sort_by_key(|stall| stall.at_ns);
        Self {
            timed: spec.service_ns > Nanos::ZERO || !spec.stalls.is_empty(),
            clock,
            spec,
            capacity,
            pending: VecDeque::with_capacity(capacity as usize),
        }
    }

    /// Sets the clock, once time zero is known.
    pub(crate) fn set_clock(&mut self, clock: C) {
        self.clock = clock;
    }

    /// Reads the clock if the target needs one; otherwise every end is due at once.
    #[inline]
    fn now(&mut self) -> Nanos {
        if self.timed {
            self.clock.now()
        } else {
            Nanos::ZERO
        }
    }
}

impl<C: Clock + 'static> Target for Null<C> {
    #[inline]
    fn flush_calls_kernel(&self) -> bool {
        false
    }

    #[inline]
    fn batch(&self) -> usize {
        BATCH
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn submit(&mut self, slot: u32, operation: &Operation) {
        let end = if self.timed {
            self.spec.end_of(self.clock.now())
        } else {
            Nanos::ZERO
        };
        let result = i64::from(operation.size);
        let unseen = Nanos::ZERO;
        self.pending.push_back((
            end,
            Reaped {
                slot,
                result,
                unseen,
            },
        ));
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let now = self.now();
        while ends.len() < ends.capacity() {
            match self.pending.front() {
                Some((end, reaped)) if *end <= now => ends.push(Reaped {
                    unseen: now.since(*end),
                    ..*reaped
                }),
                _ => break,
            }
            self.pending.pop_front();
        }
        Ok(())
    }

    fn awaited(&mut self) -> Awaited {
        let now = self.clock.now();
        let end = self.pending.front().map_or(Nanos::NEVER, |(end, _)| *end);
        Awaited {
            descriptor: None,
            at_most: end.since(now),
        }
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let length = self.awaited().at_most.min(at_most);
        if length > Nanos::ZERO {
            self.clock.sleep(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_in_a_stall_waits_for_its_end_and_one_after_it_does_not() {
        let spec = NullSpec {
            service_ns: Nanos(10),
            stalls: vec![Stall {
                at_ns: Nanos(100),
                for_ns: Nanos(50),
            }],
        };
        let ends = [80, 89, 90, 139, 140].map(|start| spec.end_of(Nanos(start)).0);
        assert_eq!(ends, [90, 99, 150, 150, 150]);
    }
}
