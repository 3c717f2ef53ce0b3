//! The runner: takes requests one by one, runs them, and ends everything when it ends.
//!
//! Source: docs/launcher-protocol.md, "Processes".

use crate::barrier::{self, Barrier};
use crate::batch::{Batch, SharedResources, rss_floor_bytes};
use crate::cleanup::CleanupNotes;
use crate::control::{Control, Replies, RequestError};
use crate::descendants::end_descendants;
use crate::protocol::{LauncherReply, PROTOCOL, Run};
use bw_sys::memory::{Mapping, memory_file};
use bw_sys::process::become_subreaper;
use bw_sys::signals::reset_dispositions;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

const LAST_GRACE_NS: u64 = 2_000_000_000;

/// Serves requests until the end of input or a termination signal; returns when nothing
/// that was started is left. Errors: the system refuses what we cannot do without.
pub fn serve(notes: &CleanupNotes) -> io::Result<()> {
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
        null: &File::open("/dev/null")?,
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
            Ok(mut batch) => batch.go(&mut self.control, &mut self.replies)?,
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
