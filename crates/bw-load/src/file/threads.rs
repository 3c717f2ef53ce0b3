//! The threads engine: a pool of threads around blocking system calls, for kernels without io_uring and for operations
//! that a ring does not have.
//!
//! Decision: submitted and completed slots go through two rings of atomic numbers (`handover`), and
//! sleepers sleep on a futex; nothing is locked or allocated after the run has started. Rejected: a
//! mutex with a condition variable: the issuing thread waits for a
//! thread of the pool that was preempted while it held the lock.
//!
//! A slot's job is written before its number is published.
//!
//! Results are the same as those of the io_uring engine.

use crate::file::blocking::negative;
use crate::file::buffers::Buffers;
use crate::file::handover::Handover;
use crate::file::operand::{Operand, Scratch};
use crate::file::spec::FileDescription;
use crate::target::{Reaped, Target};
use crate::worker::BATCH;
use bw_model::{Kind, Nanos, Operation};
use bw_sys::cpus::Affinity;
use rustix::fd::OwnedFd;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long dropping waits for the calls in progress. After that the buffers are leaked rather
/// than freed during a call: a device that hangs must not delay the run's result.
const PATIENCE: Duration = Duration::from_secs(10);

/// The operation of a slot, and its result.
#[derive(Debug, Default)]
struct Job {
    offset: AtomicU64,
    size: AtomicU32,
    kind: AtomicU8,
    address: AtomicPtr<u8>,
    result: AtomicI32,
}

/// What the worker and its pool share.
#[derive(Debug)]
struct Shared {
    operand: Operand,
    jobs: Box<[Job]>,
    handover: Handover,
    /// An eventfd on which the worker sleeps instead.
    bell: Option<Arc<OwnedFd>>,
}

impl Shared {
    fn new(operand: Operand, depth: u32, bell: Option<Arc<OwnedFd>>) -> Self {
        Self {
            operand,
            jobs: (0..depth).map(|_| Job::default()).collect(),
            handover: Handover::new(depth),
            bell,
        }
    }

    /// The loop of a pool thread, until it is stopped.
    fn serve(&self) {
        let mut scratch = Scratch::default();
        while let Some(slot) = self.handover.next() {
            self.execute(slot, &mut scratch);
        }
    }

    fn execute(&self, slot: u32, scratch: &mut Scratch) {
        let job = &self.jobs[slot as usize];
        let operation = Operation::new(
            Kind::from_number(job.kind.load(Relaxed)).unwrap_or(Kind::Exchange),
            job.offset.load(Relaxed),
            job.size.load(Relaxed),
        );
        let address = job.address.load(Relaxed);
        let result = self.operand.execute(&operation, address, scratch);
        self.finish(slot, result);
    }

    /// Reports the completion of `slot` to the worker.
    fn finish(&self, slot: u32, result: i32) {
        self.jobs[slot as usize].result.store(result, Relaxed);
        if self.handover.finish(slot) {
            match &self.bell {
                None => self.handover.wake_worker(),
                // It cannot overflow: the worker resets it each time it wakes up.
                Some(bell) => drop(rustix::io::write(bell, &1_u64.to_ne_bytes())),
            }
        }
    }
}

/// A file as the target of one worker, by a pool of threads.
#[derive(Debug)]
pub struct ThreadsTarget {
    shared: Arc<Shared>,
    pool: Vec<JoinHandle<()>>,
    buffers: ManuallyDrop<Buffers>,
    /// Entries of `ready` written, not all of them published.
    prepared: u64,
    /// Operations that ended without an entry of `ready`: they had no buffer.
    refused: u64,
    /// Entries of `ended` taken.
    taken: u64,
    busy: Box<[bool]>,
    description: FileDescription,
}

impl ThreadsTarget {
    /// Makes the target on `operand` for `depth` operations in flight, with `count` threads that
    /// run on the CPUs of `affinity`. With a `bell`, the worker sleeps on that, between
    /// [`falls_asleep`](ThreadsTarget::falls_asleep) and [`woke_up`](ThreadsTarget::woke_up).
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn new(
        operand: Operand,
        buffers: Buffers,
        (depth, count): (u32, u32),
        affinity: &Affinity,
        bell: Option<Arc<OwnedFd>>,
    ) -> io::Result<Self> {
        let mut target = Self {
            shared: Arc::new(Shared::new(operand, depth, bell)),
            pool: Vec::with_capacity(count as usize),
            buffers: ManuallyDrop::new(buffers),
            prepared: 0,
            refused: 0,
            taken: 0,
            busy: vec![false; depth as usize].into_boxed_slice(),
            description: FileDescription {
                engine: "threads",
                features: vec![format!("{count} threads")],
                absent: Vec::new(),
            },
        };
        for index in 0..count {
            let shared = Arc::clone(&target.shared);
            let affinity = affinity.clone();
            let named = std::thread::Builder::new().name(format!("bw-file-{index}"));
            target.pool.push(named.spawn(move || {
                // If it fails, the thread stays on the CPU of the thread that started it, which may be pinned and
                // spinning.
                let _ = affinity.apply();
                shared.serve();
            })?);
        }
        Ok(target)
    }

    /// Returns the description for the result.
    #[must_use]
    pub(crate) fn description(&self) -> &FileDescription {
        &self.description
    }

    /// Adds features in use, and unavailable ones.
    pub(crate) fn note(&mut self, features: &[String], absent: &[String]) {
        self.description.features.extend_from_slice(features);
        self.description.absent.extend_from_slice(absent);
    }

    /// Returns whether no operation is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.prepared + self.refused == self.taken
    }

    /// Returns the bell.
    pub(crate) fn bell(&self) -> Option<&OwnedFd> {
        self.shared.bell.as_deref()
    }

    /// Returns whether the worker may sleep on the bell: no completion is there, and the next one rings.
    pub(crate) fn falls_asleep(&self) -> bool {
        self.shared.handover.falls_asleep(self.taken)
    }

    /// Ends the time in which completions ring.
    pub(crate) fn woke_up(&self) {
        self.shared.handover.woke_up();
    }

    /// See [`FileTarget::data`](crate::file::FileTarget::data).
    #[must_use]
    pub(crate) fn data(&self, slot: u32, size: u32) -> Option<&[u8]> {
        let idle = !*self.busy.get(slot as usize)?;
        // SAFETY: the slot is not in flight, and cannot be while `self` is borrowed.
        idle.then(|| unsafe { self.buffers.data(slot, size) })
            .flatten()
    }
}

impl Target for ThreadsTarget {
    /// One call wakes as many threads as operations were published.
    fn batch(&self) -> usize {
        BATCH
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.busy.len()).unwrap_or(u32::MAX)
    }

    fn submit(&mut self, slot: u32, operation: &Operation) {
        let busy = std::mem::replace(&mut self.busy[slot as usize], true);
        assert!(!busy, "a slot in flight is used again");
        let address = match self
            .shared
            .operand
            .place(&mut self.buffers, slot, operation)
        {
            Ok(place) => place.address,
            Err(error) => {
                self.refused += 1;
                return self.shared.finish(slot, negative(&error));
            }
        };
        let job = &self.shared.jobs[slot as usize];
        job.offset.store(operation.offset, Relaxed);
        job.size.store(operation.size, Relaxed);
        job.kind.store(operation.kind as u8, Relaxed);
        job.address.store(address, Relaxed);
        self.shared.handover.prepare(self.prepared, slot);
        self.prepared += 1;
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shared.handover.publish(self.prepared);
        Ok(())
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        while ends.len() < ends.capacity() {
            let Some(slot) = self.shared.handover.take_end(self.taken) else {
                return Ok(());
            };
            self.taken += 1;
            self.busy[slot as usize] = false;
            let result = self.shared.jobs[slot as usize].result.load(Relaxed);
            ends.push(Reaped {
                slot,
                result: result.into(),
                unseen: Nanos::ZERO,
            });
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let at_most = Duration::from_nanos(at_most.0);
        self.shared.handover.wait(self.taken, Some(at_most));
        Ok(())
    }
}

impl Drop for ThreadsTarget {
    fn drop(&mut self) {
        self.shared.handover.stop();
        if join(&mut self.pool, PATIENCE) {
            // SAFETY: dropped here once and never used again; every thread has left the buffers.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

/// Waits at most `poll_limit` for the threads to end; returns whether all have. Threads that
/// a device blocks in a call keep running.
fn join(pool: &mut Vec<JoinHandle<()>>, poll_limit: Duration) -> bool {
    let end = Instant::now() + poll_limit;
    while !pool.iter().all(JoinHandle::is_finished) {
        if Instant::now() > end {
            pool.clear();
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    for thread in pool.drain(..) {
        // The panic hook has already reported its panic.
        let _ = thread.join();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::mpsc::channel;

    #[test]
    fn an_operation_without_a_buffer_ends_and_leaves_the_pool_idle() {
        let operand = Operand::File(Arc::new(File::open("/dev/null").unwrap()));
        let buffers = Buffers::new(2, 4096, false).unwrap();
        let mut target =
            ThreadsTarget::new(operand, buffers, (2, 1), &Affinity::current(), None).unwrap();
        let operation = Operation::new(Kind::Exchange, 0, 512);
        let mut ends = Vec::with_capacity(2);
        target.submit(0, &operation);
        assert!(!target.is_idle());
        target.reap(&mut ends).unwrap();
        assert_eq!(
            (ends[0].slot, ends[0].result),
            (0, i64::from(-libc::EINVAL))
        );
        assert!(target.is_idle());
    }

    #[test]
    fn a_thread_that_does_not_end_is_waited_for_only_so_long() {
        let (go, held) = channel::<()>();
        let held = move || {
            let _ = held.recv();
        };
        let mut pool = vec![std::thread::spawn(|| {}), std::thread::spawn(held)];
        assert!(!join(&mut pool, Duration::from_millis(5)));
        drop(go);
        let mut pool = vec![std::thread::spawn(|| {})];
        assert!(join(&mut pool, PATIENCE) && pool.is_empty());
    }
}
