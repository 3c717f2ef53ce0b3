//! When tokens are due.

use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The plan of a stream's times.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Pace {
    /// Each stream by itself: its first token after the arrival of its request, the others evenly.
    Fixed {
        /// From the arrival to the first token.
        first_ns: u64,
        /// From token to token.
        gap_ns: u64,
    },
    /// All streams in steps, as servers with continuous batching have them: a step gives each stream of the batch one
    /// token, and those that wait join between steps.
    Batching {
        /// Of each step.
        step_ns: u64,
        /// Of a step for each stream in it.
        stream_ns: u64,
        /// Of a step for each stream that has just joined.
        prefill_ns: u64,
        /// The largest batch.
        most: usize,
    },
}

/// Which streams have a token due when. A stream is named by its connection, which has one at a time.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    /// Fixed: when, which addition, whose.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Fixed: the addition that counts for each connection; 0: none, because its stream has ended.
    live: Vec<u64>,
    additions: u64,
    batches: Batches,
}

/// The steps of a server with continuous batching.
#[derive(Debug, Default)]
struct Batches {
    /// Streams that have not yet joined.
    waiting: VecDeque<usize>,
    /// Streams of the step that runs, or, between steps, those that go on.
    batch: Vec<usize>,
    /// Streams that have not yet had their token of the step that has ended.
    given: VecDeque<usize>,
    running: bool,
    /// When the step that runs ends, or the last one ended.
    end_ns: u64,
}

impl Batches {
    fn idle(&self) -> bool {
        !self.running && self.batch.is_empty() && self.given.is_empty()
    }
}

impl Schedule {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            due: BinaryHeap::new(),
            live: Vec::new(),
            additions: 0,
            batches: Batches::default(),
        }
    }

    /// Adds a stream whose request arrived at a time.
    pub(crate) fn add(&mut self, key: usize, arrived_ns: u64) {
        match self.pace {
            Pace::Fixed { first_ns, .. } => self.push(key, arrived_ns + first_ns),
            Pace::Batching { .. } => {
                self.batches.waiting.push_back(key);
                if self.batches.idle() {
                    self.begin_step(arrived_ns);
                }
            }
        }
    }

    /// Returns when the next token is due; None: there is no stream.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.pace {
            Pace::Fixed { .. } => self.due.peek().map(|Reverse((due, _, _))| *due),
            Pace::Batching { .. } => self.batches.running.then_some(self.batches.end_ns),
        }
    }

    /// Takes a stream whose token is due, and when that was. It is in the schedule again only after [`Self::again`].
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        if matches!(self.pace, Pace::Batching { .. }) {
            return self.due_of_batch(now_ns);
        }
        loop {
            let (due_ns, addition, key) = self.due.peek()?.0;
            if due_ns > now_ns {
                return None;
            }
            self.due.pop();
            if self.live[key] == addition {
                return Some((key, due_ns));
            }
        }
    }

    fn due_of_batch(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        loop {
            let end_ns = self.batches.end_ns;
            if let Some(key) = self.batches.given.pop_front() {
                return Some((key, end_ns));
            }
            if !self.batches.running {
                self.begin_step(end_ns);
            }
            if !self.batches.running || self.batches.end_ns > now_ns {
                return None;
            }
            self.batches.running = false;
            self.batches.given = self.batches.batch.drain(..).collect();
        }
    }

    /// Begins a step of the streams that go on and of those that wait, if there are any.
    fn begin_step(&mut self, at_ns: u64) {
        let Pace::Batching {
            step_ns,
            stream_ns,
            prefill_ns,
            most,
        } = self.pace
        else {
            return;
        };
        let steps = &mut self.batches;
        let joining = steps
            .waiting
            .len()
            .min(most.saturating_sub(steps.batch.len()));
        steps.batch.extend(steps.waiting.drain(..joining));
        steps.running = !steps.batch.is_empty();
        steps.end_ns =
            at_ns + step_ns + stream_ns * steps.batch.len() as u64 + prefill_ns * joining as u64;
    }

    /// Schedules the next token of a stream after one that was due at a time.
    pub(crate) fn again(&mut self, key: usize, due_ns: u64) {
        match self.pace {
            Pace::Fixed { gap_ns, .. } => self.push(key, due_ns + gap_ns),
            Pace::Batching { .. } => self.batches.batch.push(key),
        }
    }

    /// Forgets a connection's stream.
    pub(crate) fn remove(&mut self, key: usize) {
        if let Some(live) = self.live.get_mut(key) {
            *live = 0;
        }
        self.batches.waiting.retain(|one| *one != key);
        self.batches.batch.retain(|one| *one != key);
        self.batches.given.retain(|one| *one != key);
    }

    fn push(&mut self, key: usize, due_ns: u64) {
        self.additions += 1;
        if self.live.len() <= key {
            self.live.resize(key + 1, 0);
        }
        self.live[key] = self.additions;
        self.due.push(Reverse((due_ns, self.additions, key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives every stream of the schedule `tokens` tokens; returns when each was due, by stream.
    fn all(schedule: &mut Schedule, streams: usize, tokens: usize) -> Vec<Vec<u64>> {
        let mut times = vec![Vec::new(); streams];
        while let Some(next) = schedule.next() {
            while let Some((key, due)) = schedule.due(next) {
                times[key].push(due);
                if times[key].len() < tokens {
                    schedule.again(key, due);
                }
            }
        }
        times
    }

    #[test]
    fn streams_of_fixed_times_do_not_know_of_each_other() {
        let pace = Pace::Fixed {
            first_ns: 50,
            gap_ns: 10,
        };
        let mut schedule = Schedule::new(pace);
        schedule.add(1, 0);
        schedule.add(0, 3);
        assert_eq!(all(&mut schedule, 2, 3), [[53, 63, 73], [50, 60, 70]]);
    }

    #[test]
    fn a_stream_whose_client_has_gone_is_never_due() {
        let pace = Pace::Fixed {
            first_ns: 50,
            gap_ns: 10,
        };
        let mut schedule = Schedule::new(pace);
        schedule.add(0, 0);
        schedule.remove(0);
        schedule.add(0, 7);
        assert_eq!(all(&mut schedule, 1, 2), [[57, 67]]);
    }

    #[test]
    fn steps_grow_with_the_batch_and_those_beyond_it_wait() {
        let pace = Pace::Batching {
            step_ns: 100,
            stream_ns: 10,
            prefill_ns: 1000,
            most: 2,
        };
        let mut schedule = Schedule::new(pace);
        for key in 0..3 {
            schedule.add(key, 0);
        }
        // The first had joined alone before the others came; the second joins at its first token, the third when a
        // place is free.
        let times = all(&mut schedule, 3, 2);
        assert_eq!(times, [[1110, 2230], [2230, 3350], [3350, 3460]]);
    }
}
