//! The worker: takes requests one by one, runs them, and ends everything when it ends.
//!
//! Source: docs/launcher-protocol.md, "Processes".

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::barrier::{self, Barrier};
use crate::batch::{Batch, Lent, rss_floor_bytes};
use crate::control::{Control, Refusal};
use crate::descendants::become_subreaper;
use crate::ending::end_descendants;
use crate::notes::Notes;
use crate::protocol::{PROTOCOL, Reply, Run};
use crate::replies::Replies;
use crate::shared::{Mapping, memory_file};
use crate::signals::reset_actions;

const LAST_GRACE_NS: u64 = 2_000_000_000;

/// Serves requests until the end of input or a termination signal; returns when nothing
/// that was started is left. Errors: the system refuses what we cannot do without.
pub fn serve(notes: &Notes) -> io::Result<()> {
    reset_actions();
    become_subreaper();
    let control = Control::new()?;
    let file = memory_file(c"bw-barrier", barrier::WORDS * 4)?;
    let memory = Mapping::of_file(file.as_fd(), barrier::WORDS * 4)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let lent = Lent {
        notes,
        barrier: Barrier::new(memory.words()),
        barrier_path: &path,
        null: &File::open("/dev/null")?,
    };
    let mut worker = Worker {
        control,
        replies: Replies::default(),
        lent: &lent,
        grace_ns: LAST_GRACE_NS,
    };
    let served = worker.serve();
    end_descendants(&[], worker.grace_ns, &mut []).complain();
    served
}

struct Worker<'a> {
    control: Control,
    replies: Replies,
    lent: &'a Lent<'a>,
    grace_ns: u64,
}

impl Worker<'_> {
    fn serve(&mut self) -> io::Result<()> {
        self.replies.add(&Reply::Hello {
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
        match Batch::prepare(run, self.lent) {
            Ok(mut batch) => batch.go(&mut self.control, &mut self.replies)?,
            Err(message) => self.refuse(&Refusal { id, message })?,
        }
        self.replies.flush()
    }

    fn refuse(&mut self, refusal: &Refusal) -> io::Result<()> {
        self.replies.add(&Reply::Error {
            id: refusal.id,
            message: &refusal.message,
        });
        self.replies.flush()
    }
}
