//! The threads engine: a pool of threads around pread and pwrite, for kernels without io_uring.
//!
//! Decision: submitted and completed slots go through two rings of atomic numbers, and
//! sleepers sleep on a futex; nothing is locked or allocated after the run has started. Rejected: a
//! mutex with a condition variable: the issuing thread waits for a
//! thread of the pool that was preempted while it held the lock.
//!
//! A slot's job is written before its number is published, and its number is in each ring at most
//! once at a time, so neither ring can overflow.
//!
//! Operations are blocking system calls: pread, pwrite, fsync, discard. Short transfers are completed.
//! Results are the same as those of the io_uring engine.

use crate::file::buffers::{Buffers, IoBuffer};
use crate::file::spec::FileDescription;
use crate::target::{Reaped, Target};
use crate::worker::BATCH;
use bw_model::{Kind, Nanos, Operation};
use bw_sys::cpus::Affinity;
use bw_sys::futex::{self, Scope};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
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
    file: Arc<File>,
    jobs: Box<[Job]>,
    /// Slots to be executed: the worker appends, any thread of the pool takes.
    ready: Box<[AtomicU32]>,
    ready_head: AtomicU64,
    ready_tail: AtomicU64,
    /// Slots that ended, plus one; zero: empty. The pool appends, the worker takes.
    ended: Box<[AtomicU32]>,
    ended_tail: AtomicU64,
    /// Changes with each submission; the pool's threads sleep on it.
    submitted: AtomicU32,
    sleepers: AtomicU32,
    /// Changes with each completion; the worker sleeps on it.
    completed: AtomicU32,
    waiting: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn new(file: Arc<File>, depth: u32) -> Self {
        let room = depth.next_power_of_two();
        let numbers = || (0..room).map(|_| AtomicU32::new(0)).collect();
        Self {
            file,
            jobs: (0..depth).map(|_| Job::default()).collect(),
            ready: numbers(),
            ready_head: AtomicU64::new(0),
            ready_tail: AtomicU64::new(0),
            ended: numbers(),
            ended_tail: AtomicU64::new(0),
            submitted: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            completed: AtomicU32::new(0),
            waiting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// Returns the cell of ring `cells` for entry number `index`.
    #[allow(clippy::cast_possible_truncation)]
    fn cell(cells: &[AtomicU32], index: u64) -> &AtomicU32 {
        &cells[index as usize & (cells.len() - 1)]
    }

    /// Takes the next slot to execute; None if there is none.
    fn next(&self) -> Option<u32> {
        let mut head = self.ready_head.load(Acquire);
        while head != self.ready_tail.load(Acquire) {
            // If another thread takes this entry first, the cell may hold a later one: then
            // the exchange fails, and the value is discarded.
            let slot = Self::cell(&self.ready, head).load(Relaxed);
            match self
                .ready_head
                .compare_exchange(head, head + 1, SeqCst, Acquire)
            {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
        None
    }

    /// The loop of a pool thread, until it is stopped.
    fn serve(&self) {
        loop {
            // Read before the stop flag, which is set before this word changes. In the other order the
            // thread could take that change for an old one and sleep forever.
            let seen = self.submitted.load(SeqCst);
            if self.stop.load(SeqCst) {
                return;
            }
            if let Some(slot) = self.next() {
                self.execute(slot);
                continue;
            }
            self.sleepers.fetch_add(1, SeqCst);
            // Returns at once if there was a submission or a stop since `seen`.
            futex::wait(&self.submitted, seen, None, Scope::Private);
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    fn execute(&self, slot: u32) {
        let job = &self.jobs[slot as usize];
        let operation = Operation {
            at: Nanos::ZERO,
            offset: job.offset.load(Relaxed),
            size: job.size.load(Relaxed),
            kind: Kind::from_number(job.kind.load(Relaxed)).unwrap_or(Kind::Exchange),
            notify: false,
            tag: 0,
        };
        let address = job.address.load(Relaxed);
        let result = execute(&self.file, &operation, address);
        self.finish(slot, result);
    }

    /// Reports the completion of `slot` to the worker.
    fn finish(&self, slot: u32, result: i32) {
        self.jobs[slot as usize].result.store(result, Relaxed);
        let index = self.ended_tail.fetch_add(1, SeqCst);
        Self::cell(&self.ended, index).store(slot + 1, Release);
        self.completed.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) {
            futex::wake(&self.completed, 1, Scope::Private);
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
    /// Entries of `ended` taken.
    taken: u64,
    busy: Box<[bool]>,
    description: FileDescription,
}

impl ThreadsTarget {
    /// Makes the target on `file` for `depth` operations in flight, with `count` threads that
    /// run on the CPUs of `affinity`.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn new(
        file: Arc<File>,
        buffers: Buffers,
        (depth, count): (u32, u32),
        affinity: &Affinity,
    ) -> io::Result<Self> {
        let mut target = Self {
            shared: Arc::new(Shared::new(file, depth)),
            pool: Vec::with_capacity(count as usize),
            buffers: ManuallyDrop::new(buffers),
            prepared: 0,
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

    /// Adds notes to the unavailable features.
    pub(crate) fn note_absent(&mut self, notes: &[String]) {
        self.description.absent.extend_from_slice(notes);
    }

    /// See [`FileTarget::data`](crate::file::FileTarget::data).
    #[must_use]
    pub(crate) fn data(&self, slot: u32, size: u32) -> Option<&[u8]> {
        let idle = !*self.busy.get(slot as usize)?;
        // SAFETY: the slot is not in flight, and cannot be while `self` is borrowed.
        idle.then(|| unsafe { self.buffers.data(slot, size) })
            .flatten()
    }

    /// Returns the cell of the next completion, and its value: zero if there is none yet.
    fn next_end(&self) -> (&AtomicU32, u32) {
        let cell = Shared::cell(&self.shared.ended, self.taken);
        (cell, cell.load(Acquire))
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
        let address = match place(&mut self.buffers, slot, operation) {
            Ok(place) => place.address,
            Err(error) => return self.shared.finish(slot, negative(&error)),
        };
        let job = &self.shared.jobs[slot as usize];
        job.offset.store(operation.offset, Relaxed);
        job.size.store(operation.size, Relaxed);
        job.kind.store(operation.kind as u8, Relaxed);
        job.address.store(address, Relaxed);
        Shared::cell(&self.shared.ready, self.prepared).store(slot, Relaxed);
        self.prepared += 1;
    }

    fn flush(&mut self) -> io::Result<()> {
        let published = self.shared.ready_tail.swap(self.prepared, SeqCst);
        let count = self.prepared - published;
        if count == 0 {
            return Ok(());
        }
        self.shared.submitted.fetch_add(1, SeqCst);
        if self.shared.sleepers.load(SeqCst) > 0 {
            futex::wake(
                &self.shared.submitted,
                u32::try_from(count).unwrap_or(u32::MAX),
                Scope::Private,
            );
        }
        Ok(())
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        while ends.len() < ends.capacity() {
            let (cell, mark) = self.next_end();
            let Some(slot) = mark.checked_sub(1) else {
                return Ok(());
            };
            cell.store(0, Relaxed);
            self.taken += 1;
            self.busy[slot as usize] = false;
            let result = self.shared.jobs[slot as usize].result.load(Relaxed);
            ends.push(Reaped { slot, result });
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.shared.waiting.store(true, SeqCst);
        let seen = self.shared.completed.load(SeqCst);
        if self.next_end().1 == 0 {
            let at_most = Duration::from_nanos(at_most.0);
            futex::wait(&self.shared.completed, seen, Some(at_most), Scope::Private);
        }
        self.shared.waiting.store(false, SeqCst);
        Ok(())
    }
}

impl Drop for ThreadsTarget {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.submitted.fetch_add(1, SeqCst);
        futex::wake(&self.shared.submitted, u32::MAX, Scope::Private);
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

/// Returns the buffer of `operation` under `slot`.
///
/// # Errors
/// `EINVAL`: not an operation on files; `ENOMEM`.
pub(crate) fn place(
    buffers: &mut Buffers,
    slot: u32,
    operation: &Operation,
) -> io::Result<IoBuffer> {
    match operation.kind {
        Kind::Read => buffers.for_read(slot, operation.size),
        Kind::Write => buffers.for_write(slot, operation.size),
        Kind::Flush | Kind::Discard => Ok(IoBuffer::NONE),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Returns the error as the result of an operation: a negative errno.
pub(crate) fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Executes `operation` with its bytes at `address`, and returns bytes or a negative errno. `address` is
/// the caller's buffer from [`place`] and stays valid during the call.
pub(crate) fn execute(file: &File, operation: &Operation, address: *mut u8) -> i32 {
    match operation.kind {
        Kind::Read | Kind::Write => transfer(file, operation, address),
        Kind::Flush => file
            .sync_all()
            .map_or_else(|error| negative(&error), |()| 0),
        Kind::Discard => punch(file, operation),
        _ => -libc::EINVAL,
    }
}

/// Reads or writes until everything is transferred, the file ends, or an error occurs.
fn transfer(file: &File, operation: &Operation, address: *mut u8) -> i32 {
    let mut done = 0;
    loop {
        let bytes = retry_interrupted(|| once(file, operation, address, done));
        match u32::try_from(bytes) {
            Err(_) => return bytes,
            Ok(0) if done < operation.size && operation.kind == Kind::Read => {
                return -libc::ENODATA;
            }
            Ok(0) if done < operation.size => return -libc::ENOSPC,
            Ok(bytes) => done += bytes,
        }
        if done >= operation.size {
            return i32::try_from(done).unwrap_or(i32::MAX);
        }
    }
}

/// Makes one call for the part that is left after `done` bytes.
fn once(
    file: &File,
    operation: &Operation,
    address: *mut u8,
    done: u32,
) -> rustix::io::Result<i32> {
    let address = address.wrapping_add(done as usize);
    let length = (operation.size - done) as usize;
    let offset = operation.offset + u64::from(done);
    let moved = if operation.kind == Kind::Read {
        // SAFETY: the buffer holds the whole operation, of which `done` bytes are behind us, and nothing else accesses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(address, length) };
        pread(file, bytes, offset)
    } else {
        // SAFETY: as above; the payload, which other writes share, is only read.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast_const(), length) };
        pwrite(file, bytes, offset)
    };
    moved.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Calls until it is not interrupted; returns its value, or the negative errno.
fn retry_interrupted(mut call: impl FnMut() -> rustix::io::Result<i32>) -> i32 {
    loop {
        match call() {
            Ok(value) => return value,
            Err(Errno::INTR) => {}
            Err(errno) => return -errno.raw_os_error(),
        }
    }
}

/// Punches a hole; also on a block device, as the io_uring engine does.
fn punch(file: &File, operation: &Operation) -> i32 {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let length = u64::from(operation.size);
    retry_interrupted(|| fallocate(file, mode, operation.offset, length).map(|()| 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

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
