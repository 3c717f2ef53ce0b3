//! The runner: runs requests one by one, and ends everything that is left at its end.
//!
//! Source: docs/launcher-protocol.md, "Processes".

use crate::barrier::{self, Barrier};
use crate::batch::{Batch, SharedResources, rss_floor_bytes};
use crate::cleanup::CleanupNotes;
use crate::control::{Control, Replies, RequestError};
use crate::descendants::end_descendants;
use crate::epoch::run_epoch;
use crate::null_device;
use crate::protocol::{Ending, EpochRecord, LauncherReply, OutputPolicy, PROTOCOL, Reason, Run};
use bw_sys::clock::monotonic_ns;
use bw_sys::memory::{Mapping, memory_file};
use bw_sys::process::become_subreaper;
use bw_sys::signals::reset_dispositions;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A batch ends after the epoch with which its output on disk exceeds this [bytes].
const BATCH_OUTPUT_BYTES: u64 = 64 << 20;

const LAST_GRACE_NS: u64 = 2_000_000_000;

/// Serves requests until the end of input or a termination signal; returns when no process
/// that it started is left. Errors: the system refuses a call that is essential.
pub(crate) fn serve(notes: &CleanupNotes) -> io::Result<()> {
    reset_dispositions();
    become_subreaper();
    let control = Control::new()?;
    let file = memory_file(c"bw-barrier", barrier::WORDS as u64 * 4)?;
    let memory = Mapping::of_file(file.as_fd(), barrier::WORDS * 4)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let resources = SharedResources {
        notes,
        barrier: Barrier::new(memory.words()),
        barrier_path: &path,
        null: &null_device()?,
    };
    let mut runner = Runner {
        control,
        replies: Replies::default(),
        resources: &resources,
        grace_ns: LAST_GRACE_NS,
    };
    let served = runner.serve();
    end_descendants(&[], runner.grace_ns, &mut []).complain();
    served
}

struct Runner<'a> {
    control: Control,
    replies: Replies,
    resources: &'a SharedResources<'a>,
    grace_ns: u64,
}

impl Runner<'_> {
    fn serve(&mut self) -> io::Result<()> {
        self.replies.add(&LauncherReply::Hello {
            protocol: PROTOCOL,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            rss_floor_bytes: rss_floor_bytes(),
        });
        self.replies.flush()?;
        while let Some(request) = self.control.next_request() {
            match request {
                Ok(run) => self.run(*run)?,
                Err(refusal) => self.refuse(&refusal)?,
            }
        }
        Ok(())
    }

    fn run(&mut self, run: Run) -> io::Result<()> {
        let id = run.id;
        self.grace_ns = run.grace_ns;
        match Batch::prepare(run, self.resources) {
            Ok(mut batch) => run_batch(&mut batch, &mut self.control, &mut self.replies)?,
            Err(message) => self.refuse(&RequestError { id, message })?,
        }
        self.replies.flush()
    }

    fn refuse(&mut self, refusal: &RequestError) -> io::Result<()> {
        self.replies.add(&LauncherReply::Error {
            id: refusal.id,
            message: &refusal.message,
        });
        self.replies.flush()
    }
}

/// Runs the epochs and adds their records and `done`. The caller flushes these
/// when the batch, its semaphore and its hooks' state are dropped. Errors: `bw` is gone.
fn run_batch(
    batch: &mut Batch<'_>,
    control: &mut Control,
    replies: &mut Replies,
) -> io::Result<()> {
    let begun = monotonic_ns();
    let mut epoch = batch.run.first_epoch;
    let end = epoch.saturating_add(batch.run.epochs);
    let mut reason = Reason::Complete;
    let mut whole_bytes = 0;
    while epoch < end && !control.interrupted() {
        batch.surroundings.set_epoch(epoch);
        let record = run_epoch(batch, control, epoch);
        epoch += 1;
        replies.add(&LauncherReply::Epoch(&record));
        whole_bytes += whole_bytes_of(&batch.run.output, &record);
        replies.flush_if_many()?;
        let spent = monotonic_ns() - begun;
        if batch.run.stop_on_failure && record.ending != Ending::Ok {
            reason = Reason::Failed;
            break;
        }
        let late = batch.run.budget_ns.is_some_and(|budget| spent >= budget);
        if epoch < end && (late || whole_bytes >= BATCH_OUTPUT_BYTES) {
            reason = Reason::Budget;
            break;
        }
    }
    if control.interrupted() {
        reason = Reason::Interrupted;
    }
    replies.add(&LauncherReply::Done {
        id: batch.run.id,
        next_epoch: epoch,
        reason,
        rss_floor_bytes: rss_floor_bytes(),
    });
    Ok(())
}

/// Returns the size of an epoch's output on disk, which `bw` reads and compresses [bytes].
fn whole_bytes_of(output: &OutputPolicy, record: &EpochRecord) -> u64 {
    if output.limit_bytes.is_none() {
        return 0;
    }
    let written = record.processes.iter().map(|p| p.out_bytes + p.err_bytes);
    written.sum()
}
