//! The io_uring engine: one ring for each worker, with the file and the buffers registered.
//!
//! `submit` fills an entry of the submission queue in shared memory; `flush` hands the entries to the kernel,
//! two with each system call (see `BATCH`); `reap` reads the completion queue in shared memory and calls
//! the kernel only when its bit reports waiting completions (see
//! [`ring`](super::ring)), or to submit the rest of a short transfer.
//!
//! Decisions. Rejected: a submission queue polled by a kernel thread (`SQPOLL`), which takes a whole
//! core and hides the moment of issue. Rejected: polled completions (`IOPOLL`):
//! few devices have poll queues. fsync and discard always run in the kernel's own threads, so
//! `flush` never waits for them. A discard is `fallocate` with `PUNCH_HOLE`: on a block
//! device it unmaps and guarantees zeros, whereas `BLKDISCARD` guarantees nothing.
//!
//! Memory: an operation in flight owns its buffer. Dropping the target cancels and
//! waits for what is in flight. If that does not complete, it leaks the buffers rather than free
//! memory that the kernel may still write to.
//!
//! Operations on a file set may be several calls, one after the other, and some are left to a pool of threads: see
//! [`SetRing`].

use crate::file::blocking::negative;
use crate::file::buffers::Buffers;
use crate::file::operand::Operand;
use crate::file::ring::{self, RingHandle};
use crate::file::spec::FileDescription;
use crate::file::threads::ThreadsTarget;
use crate::file::transfer::{IDLE, Registered, Transfer, entry};
use crate::file_set::ring::{Begun, SetRing};
use crate::policy::BusyPolling;
use crate::target::{Awaited, Reaped, SLICE, Target};
use bw_model::{Nanos, Operation};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long dropping waits for operations in flight, and a submission for room in a full kernel queue.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many operations one call submits. The kernel makes more of them one batch, which reaches the
/// device only when its last operation is prepared; calls of two keep the device busy and start each sooner.
/// Measured on a virtio disk, 4 KiB random reads, depth 32: 198,000/s by two, 150,000/s by all.
const BATCH: u32 = 2;
/// Completions are taken in slices of this share of the depth: what is taken at a time is missing in the device's queue until
/// the operations that follow are submitted.
const SHARE: usize = 8;
/// User data of entries that belong to no slot.
const NO_SLOT: u64 = u64::MAX;
/// User data of the entry that waits for the bell of a set's pool.
const BELL: u64 = u64::MAX - 1;

/// A file as the target of one worker, by io_uring. It stays in the thread that made it.
pub struct UringTarget {
    ring: IoUring,
    ring_handle: RingHandle,
    /// Whether the kernel sets a bit when completions wait.
    flagged: bool,
    registered: Registered,
    operand: Operand,
    /// What operations on a file set need.
    set: Option<Box<SetRing>>,
    buffers: ManuallyDrop<Buffers>,
    flights: Box<[Transfer]>,
    busy_polling: BusyPolling,
    /// Completions without the kernel: operations that cannot be carried out.
    refused: Vec<Reaped>,
    in_flight: u32,
    description: FileDescription,
}

impl std::fmt::Debug for UringTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UringTarget")
            .field("in_flight", &self.in_flight)
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

impl UringTarget {
    /// Makes the target for `depth` operations in flight. Of a file set it needs a pool of threads with a bell.
    ///
    /// # Errors
    /// The kernel refuses a ring.
    pub(crate) fn new(
        operand: Operand,
        pool: Option<ThreadsTarget>,
        buffers: Buffers,
        depth: u32,
    ) -> io::Result<Self> {
        let set = match (&operand, pool) {
            (Operand::Set(set), Some(pool)) => Some(SetRing::new(Arc::clone(set), pool, depth)),
            _ => None,
        };
        // The bell of a set's pool has an entry of its own.
        let entries = depth + u32::from(set.is_some());
        let made = ring::build(entries.next_power_of_two())?;
        let ring_handle = RingHandle::of(&made.ring);
        let mut target = Self {
            ring: made.ring,
            ring_handle,
            flagged: made.flagged,
            registered: Registered::default(),
            operand,
            set: set.map(Box::new),
            buffers: ManuallyDrop::new(buffers),
            flights: vec![IDLE; depth as usize].into_boxed_slice(),
            busy_polling: BusyPolling::default(),
            refused: Vec::with_capacity(depth as usize),
            in_flight: 0,
            description: FileDescription {
                engine: "io_uring",
                features: made.features,
                absent: made.absent,
            },
        };
        target.register();
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

    /// See [`FileTarget::data`](crate::file::FileTarget::data).
    #[must_use]
    pub(crate) fn data(&self, slot: u32, size: u32) -> Option<&[u8]> {
        let idle = !self.flights.get(slot as usize)?.busy;
        // SAFETY: the slot is not in flight, and cannot be while `self` is borrowed.
        idle.then(|| unsafe { self.buffers.data(slot, size) })
            .flatten()
    }

    /// Registers the file and the buffers; notes what the kernel refuses, and works without it.
    fn register(&mut self) {
        let submitter = self.ring.submitter();
        if let Operand::File(file) = &self.operand {
            let file = submitter.register_files(&[file.as_raw_fd()]);
            self.registered.file = note(&mut self.description, "registered file", file);
        }
        let buffers = match self.buffers.registrable() {
            // SAFETY: the buffers outlive the ring's use of them: see `drop`.
            Some(vectors) => unsafe { submitter.register_buffers(&vectors) },
            None => Err(io::Error::other("they are larger than 512 MiB")),
        };
        self.registered.buffers = note(&mut self.description, "registered buffers", buffers);
        if self.ring_handle.is_registered() {
            self.description.features.push("registered ring".to_owned());
        }
    }

    /// Puts what is left of the operation under `slot` into the submission queue.
    fn prepare(&mut self, slot: u32) {
        let flight = &self.flights[slot as usize];
        let entry = match (&self.operand, &self.set) {
            (Operand::File(file), _) => entry(flight, self.registered, file),
            (_, Some(set)) => set.entry(slot, flight, self.registered),
            (Operand::Set(_), None) => unreachable!("a set is made with what it needs"),
        };
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: the buffer stays until the operation has ended; the queue has room for every
        // slot, and a slot is in it at most once.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "more operations than slots");
    }

    /// Returns how many entries wait to be submitted, and whether completions wait for a call.
    fn pending(&mut self) -> (u32, bool) {
        let flagged = self.flagged;
        let queue = self.ring.submission();
        let count = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        (count, !flagged || queue.taskrun() || queue.cq_overflow())
    }

    /// Submits what is prepared; makes waiting completions visible if `complete`, or if there is no room without that.
    fn enter(&mut self, complete: bool) -> io::Result<()> {
        let mut deadline = None;
        loop {
            let (count, waiting) = self.pending();
            let complete = complete && waiting;
            if count == 0 && !complete {
                return Ok(());
            }
            match self
                .ring_handle
                .enter(count.min(BATCH), complete || deadline.is_some())
            {
                Ok(()) if self.pending().0 == 0 => return Ok(()),
                Ok(()) => {}
                Err(error) if !is_passing(&error) => return Err(error),
                Err(error) => {
                    // No memory or no room at the moment: completions will free some.
                    let end = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if Instant::now() > end {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Hands the prepared operations over to whoever executes them.
    fn start(&mut self, complete: bool) -> io::Result<()> {
        if let Some(set) = &mut self.set {
            set.pool().flush()?;
        }
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(complete)
    }

    /// Moves visible completions to `ends`; submits the rest of short transfers again.
    fn take(&mut self, ends: &mut Vec<Reaped>) {
        while ends.len() < ends.capacity() {
            let Some((mark, result)) = self.next_end() else {
                return;
            };
            let Ok(slot) = u32::try_from(mark) else {
                if let (BELL, Some(set)) = (mark, &mut self.set) {
                    set.rang();
                }
                continue; // otherwise a cancellation's own end
            };
            let flight = &mut self.flights[slot as usize];
            let ended = match &mut self.set {
                None => flight.advance(result),
                Some(set) => set.advance(slot, flight, result),
            };
            match ended {
                Some(result) => {
                    flight.busy = false;
                    self.in_flight -= 1;
                    ends.push(Reaped {
                        slot,
                        result: result.into(),
                        unseen: Nanos::ZERO,
                    });
                }
                None => self.prepare(slot),
            }
        }
    }

    #[inline]
    fn next_end(&mut self) -> Option<(u64, i32)> {
        let end = self.ring.completion().next()?;
        Some((end.user_data(), end.result()))
    }

    /// Cancels what is in flight and waits for it; returns whether all of it has completed.
    fn quiesce(&mut self) -> io::Result<bool> {
        let mut ends = Vec::with_capacity(self.flights.len().max(1));
        let end = Instant::now() + PATIENCE;
        self.enter(true)?;
        let cancel = types::CancelBuilder::any();
        if self.in_flight > 0 {
            let cancel = opcode::AsyncCancel2::new(cancel).build().user_data(NO_SLOT);
            // SAFETY: the entry points to no memory. Without room for it we only wait longer.
            let _ = unsafe { self.ring.submission().push(&cancel) };
        }
        while self.in_flight > 0 && Instant::now() < end {
            self.wait(Nanos(100_000_000))?;
            ends.clear();
            self.take(&mut ends);
        }
        Ok(self.in_flight == 0)
    }
}

impl Target for UringTarget {
    #[inline]
    fn batch(&self) -> usize {
        BATCH as usize
    }

    fn slice(&self) -> usize {
        (self.flights.len() / SHARE).clamp(1, SLICE)
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.flights.len()).unwrap_or(u32::MAX)
    }

    fn submit(&mut self, slot: u32, operation: &Operation) {
        let busy = self.flights[slot as usize].busy;
        assert!(!busy, "a slot in flight is used again");
        let refuse = |result: i32| Reaped {
            slot,
            result: result.into(),
            unseen: Nanos::ZERO,
        };
        let place = match self.operand.place(&mut self.buffers, slot, operation) {
            Ok(place) => place,
            Err(error) => return self.refused.push(refuse(negative(&error))),
        };
        let flight = match self.set.as_mut().map(|set| set.begin(slot, operation)) {
            None => Transfer::of(operation, place),
            Some(Begun::InRing(operation)) => Transfer::of(&operation, place),
            Some(Begun::InPool) => return,
            Some(Begun::Ended(result)) => return self.refused.push(refuse(result)),
        };
        self.flights[slot as usize] = flight;
        self.in_flight += 1;
        self.prepare(slot);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.start(true)
    }

    fn flush_only(&mut self) -> io::Result<()> {
        self.start(false)
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let room = ends.capacity() - ends.len();
        let kept = self.refused.len().saturating_sub(room);
        ends.extend(self.refused.drain(kept..));
        if let Some(set) = &mut self.set {
            set.pool().reap(ends)?;
        }
        // The end of the bell's entry is taken too: left in the queue, it would end every later wait at once.
        let bell = self.set.as_ref().is_some_and(|set| set.is_armed());
        if (self.in_flight == 0 && !bell) || ends.len() == ends.capacity() {
            return Ok(());
        }
        let before = ends.len();
        self.take(ends);
        if ends.len() == before || !self.ring.submission().is_empty() {
            self.enter(true)?;
            self.take(ends);
            self.start(true)?;
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        if !self.refused.is_empty() || !self.ring.completion().is_empty() {
            return Ok(());
        }
        let limit = libc::timespec {
            tv_sec: i64::try_from(at_most.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(at_most.0 % 1_000_000_000).unwrap_or(0),
        };
        if let Some(set) = &mut self.set {
            if !set.pool().falls_asleep() {
                set.pool().woke_up();
                return Ok(());
            }
            if let Some(entry) = set.arm() {
                // SAFETY: the entry points to no memory.
                let pushed = unsafe { self.ring.submission().push(&entry.user_data(BELL)) };
                assert!(pushed.is_ok(), "more entries than slots and the bell's");
            }
        }
        let (count, _) = self.pending();
        let ring = &mut self.ring;
        let polled = count == 0
            && self.busy_polling.poll(at_most, || {
                std::hint::spin_loop();
                Ok(!ring.completion().is_empty() || ring.submission().taskrun())
            })?;
        let waited = if polled {
            Ok(())
        } else {
            self.ring_handle.wait(count, limit)
        };
        if let Some(set) = &mut self.set {
            set.pool().woke_up();
        }
        match waited {
            Err(error) if is_passing(&error) => Ok(()),
            other => other,
        }
    }

    fn awaited(&mut self) -> Awaited {
        let has_ends = !self.refused.is_empty() || !self.ring.completion().is_empty();
        Awaited {
            descriptor: Some(self.ring.as_raw_fd()),
            at_most: if has_ends { Nanos::ZERO } else { Nanos::NEVER },
        }
    }
}

impl Drop for UringTarget {
    fn drop(&mut self) {
        let ended = self.quiesce().unwrap_or(false);
        if ended {
            // A closed ring releases these only later, in a kernel thread: a device opened exclusively
            // would still be busy when the next run opens it.
            let submitter = self.ring.submitter();
            let _ = (submitter.unregister_files(), submitter.unregister_buffers());
        }
        self.ring_handle.close(&self.ring);
        if ended {
            // SAFETY: dropped here once and never used again; nothing is in flight, so that
            // the kernel neither reads nor writes the buffers any more.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
            if let Some(set) = &mut self.set {
                // SAFETY: as for the buffers.
                unsafe { set.free() };
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

/// Notes under `features` or `absent` whether `what` was registered; returns whether it was.
fn note(description: &mut FileDescription, what: &str, outcome: io::Result<()>) -> bool {
    match &outcome {
        Ok(()) => description.features.push(what.to_owned()),
        Err(error) => description.absent.push(format!("{what}: {error}")),
    }
    outcome.is_ok()
}
