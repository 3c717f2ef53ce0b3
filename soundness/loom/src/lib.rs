//! Every order in which threads can see the lock-free parts, tried by loom (`make soundness`).
//!
//! The files are those of the engine; `sync` below replaces its module of that name. A futex is a mutex with a condition
//! variable here, whose wait compares the word by an operation that reads its latest value, as the kernel does under its lock.
//! loom reports a lost wake-up as a deadlock, and an access that is not ordered after the write as a race.

#![cfg(test)]
#![allow(dead_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    /// As in bw-sys.
    pub(crate) enum Scope {
        Private,
    }

    pub(crate) mod futex {
        use super::{AtomicU32, Ordering, Scope};
        use loom::sync::{Condvar, Mutex};
        use std::time::Duration;

        loom::lazy_static! {
            static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
        }

        pub(crate) fn wait(word: &AtomicU32, expected: u32, _: Option<Duration>, _: Scope) {
            let held = QUEUE.0.lock().unwrap();
            if word.fetch_add(0, Ordering::SeqCst) == expected {
                drop(QUEUE.1.wait(held).unwrap());
            }
        }

        pub(crate) fn wake(_: &AtomicU32, _: u32, _: Scope) {
            let held = QUEUE.0.lock().unwrap();
            QUEUE.1.notify_all();
            drop(held);
        }
    }
}

#[path = "../../../crates/bw-load/src/file/handover.rs"]
mod handover;
#[path = "../../../crates/bw-load/src/sequence_lock.rs"]
mod sequence_lock;

use handover::Handover;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use sequence_lock::SequenceLock;

/// Runs `body` in every order with at most `preemptions` switches that no thread asked for.
fn every_order(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Hands `slots` slots to `threads` threads and back. What one side wrote for a slot, the other one reads.
fn round_trip(slots: u32, threads: usize) {
    let handover = Arc::new(Handover::new(slots));
    let jobs: Arc<Vec<UnsafeCell<u32>>> = Arc::new((0..slots).map(|_| UnsafeCell::new(0)).collect());
    let pool: Vec<_> = (0..threads)
        .map(|_| {
            let (handover, jobs) = (Arc::clone(&handover), Arc::clone(&jobs));
            thread::spawn(move || {
                while let Some(slot) = handover.next() {
                    // SAFETY: the slot is this thread's until it is finished; loom verifies that.
                    jobs[slot as usize].with_mut(|job| unsafe { *job += 1 });
                    if handover.finish(slot) {
                        handover.wake_worker();
                    }
                }
            })
        })
        .collect();
    for slot in 0..slots {
        // SAFETY: not handed over yet; loom verifies that.
        jobs[slot as usize].with_mut(|job| unsafe { *job = 10 * slot });
        handover.prepare(u64::from(slot), slot);
        handover.publish(u64::from(slot) + 1);
    }
    let mut taken = 0;
    while taken < u64::from(slots) {
        match handover.take_end(taken) {
            None => handover.wait(taken, None),
            Some(slot) => {
                taken += 1;
                // SAFETY: handed back; loom verifies that.
                let job = jobs[slot as usize].with(|job| unsafe { *job });
                assert_eq!(job, 10 * slot + 1, "each slot is executed once");
            }
        }
    }
    handover.stop();
    for thread in pool {
        thread.join().unwrap();
    }
}

#[test]
fn one_thread_and_two_slots() {
    every_order(3, || round_trip(2, 1));
}

#[test]
fn two_threads_compete_for_one_slot() {
    every_order(2, || round_trip(1, 2));
}

#[test]
fn a_reader_sees_all_numbers_of_one_write() {
    every_order(4, || {
        let lock = Arc::new(SequenceLock::new());
        let writer = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                lock.write([1, 10]);
                lock.write([2, 20]);
            })
        };
        let mut seen = 0;
        for _ in 0..2 {
            if let Some((version, [one, ten])) = lock.read(seen) {
                assert!(version > seen, "versions ascend");
                assert_eq!(10 * one, ten, "both are of one write");
                seen = version;
            }
        }
        writer.join().unwrap();
        if let Some((_, numbers)) = lock.read(seen) {
            assert_eq!(numbers, [2, 20]);
        }
    });
}

/// Of two writers one may give way; a reader always has the numbers of one write.
#[test]
fn two_writers_of_a_sequence_lock_never_mix_their_numbers() {
    every_order(3, || {
        let lock = Arc::new(SequenceLock::new());
        let writers = [1, 2].map(|number| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.write([number, 10 * number]))
        });
        if let Some([one, ten]) = lock.latest() {
            assert_eq!(10 * one, ten, "both are of one write");
        }
        for writer in writers {
            writer.join().unwrap();
        }
        let [one, ten] = lock.latest().unwrap();
        assert_eq!(10 * one, ten, "both are of one write");
    });
}
