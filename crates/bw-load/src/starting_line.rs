//! Where threads wait until all are ready and time zero is set.
//!
//! Decision: threads with locked stacks and filled buffers take tenths of a second to come into being; if
//! zero were set before, the first operations would be late for a reason that is not the pacer's.

use crate::timekeeper::AnyClock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The line. One thread of a run waits for all others there, then lets them go.
#[derive(Default)]
pub struct StartingLine {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: usize,
    word: Option<Word>,
}

/// What the waiting threads are told.
#[derive(Clone)]
enum Word {
    Go(AnyClock),
    Home,
}

impl StartingLine {
    /// Says that this thread is ready, and waits; returns the clock from time zero, or None when
    /// the run does not begin.
    pub fn ready(&self) -> Option<AnyClock> {
        let mut state = self.lock();
        state.ready += 1;
        self.changed.notify_all();
        loop {
            match &state.word {
                Some(Word::Go(clock)) => return Some(clock.clone()),
                Some(Word::Home) => return None,
                None => state = self.wait(state),
            }
        }
    }

    /// Waits until so many threads are ready.
    pub fn wait_for(&self, threads: usize) {
        let mut state = self.lock();
        while state.ready < threads {
            state = self.wait(state);
        }
    }

    /// Lets all go, by this clock.
    pub fn go(&self, clock: AnyClock) {
        self.tell(Word::Go(clock));
    }

    /// Sends all home: the run does not begin. Those that have gone do not hear it.
    pub fn send_home(&self) {
        self.tell(Word::Home);
    }

    fn tell(&self, word: Word) {
        self.lock().word.get_or_insert(word);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Monotonic;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn begun(say: impl FnOnce(&StartingLine)) -> usize {
        let (line, begun) = (StartingLine::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    begun.fetch_add(usize::from(line.ready().is_some()), Ordering::SeqCst)
                });
            }
            line.wait_for(3);
            assert_eq!(begun.load(Ordering::SeqCst), 0);
            say(&line);
        });
        begun.into_inner()
    }

    #[test]
    fn nobody_begins_before_all_are_ready_and_then_all_do() {
        let clock = || AnyClock::Monotonic(Monotonic::starting_at(0));
        assert_eq!(begun(|line| line.go(clock())), 3);
    }

    #[test]
    fn nobody_begins_when_sent_home() {
        assert_eq!(begun(StartingLine::send_home), 0);
    }
}
