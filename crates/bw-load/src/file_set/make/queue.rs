//! The tasks of a pass, for several threads.

use super::tally::Failure;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The tasks of all threads. The last one that was added is the next, so that few directories are open at a time.
pub(super) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

pub(super) struct QueueState<T> {
    pub(super) tasks: Vec<T>,
    /// Threads that work on a task, and may add more.
    working: usize,
    /// The first failure ends the work.
    pub(super) failure: Option<Failure>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = QueueState {
            tasks: Vec::new(),
            working: 0,
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // A thread that panics while it holds the lock ends the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next task; None if no task is left and none will come, or after a failure.
    pub(super) fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a task that [`take`](Queue::take) returned.
    pub(super) fn done(&self, outcome: Result<Vec<T>, Failure>) {
        let mut state = self.lock();
        state.working -= 1;
        match outcome {
            Ok(more) => state.tasks.extend(more),
            Err(failure) => drop(state.failure.get_or_insert(failure)),
        }
        self.changed.notify_all();
    }
}
