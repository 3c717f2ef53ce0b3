//! What a child does between its creation and execve. Everything here is async-signal-safe:
//! with one process it runs in the parent's memory (vfork), so it allocates and locks nothing.
//!
//! Sources: clone(2), prctl(2) PR_SET_PDEATHSIG, signal-safety(7).

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::barrier::{Barrier, Passage};
use crate::clock::monotonic_ns;
use crate::program::Program;
use crate::seat::Environment;
use crate::signals::prepare_child;

/// Words of shared memory in which one child reports.
pub const REPORT_WORDS: usize = 2;

/// The last step that a child tried; says what an errno was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Entering the working directory.
    Directory = 1,
    /// Connecting stdin, stdout and stderr.
    Files = 2,
    /// Waiting for the other threads of the trial.
    Gate = 3,
    /// execve.
    Execute = 4,
}

/// Where a child leaves its stamp and its trouble, readable after its end.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    start_ns: &'a AtomicU64,
    trouble: &'a AtomicU64,
}

impl<'a> Report<'a> {
    /// The `index`-th report in shared words.
    pub fn new(words: &'a [AtomicU64], index: usize) -> Self {
        Self {
            start_ns: &words[REPORT_WORDS * index],
            trouble: &words[REPORT_WORDS * index + 1],
        }
    }

    /// Empties it, before a child is created.
    pub fn clear(&self) {
        self.start_ns.store(0, Ordering::Relaxed);
        self.trouble.store(0, Ordering::Relaxed);
    }

    /// CLOCK_MONOTONIC just before execve [ns]; 0 if it did not get there.
    pub fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// The step that failed and its errno, if the program could not be started.
    pub fn trouble(&self) -> Option<(Step, i32)> {
        let word = self.trouble.load(Ordering::Acquire);
        let step = match word >> 32 {
            1 => Step::Directory,
            2 => Step::Files,
            3 => Step::Gate,
            4 => Step::Execute,
            _ => return None,
        };
        Some((step, word as u32 as i32))
    }

    fn fail(&self, step: Step, errno: i32) {
        let word = (step as u64) << 32 | u64::from(errno as u32);
        self.trouble.store(word, Ordering::Release);
    }
}

/// Everything that one child needs, prepared by its parent.
#[derive(Debug)]
pub struct Child<'a> {
    /// What to execute.
    pub program: &'a Program,
    /// Its environment.
    pub environment: &'a Environment,
    /// Working directory; none: the parent's.
    pub directory: Option<&'a CStr>,
    /// stdin, stdout, stderr; none: the parent's, and its process group too.
    pub files: Option<[i32; 3]>,
    /// The creator's process id.
    pub parent: libc::pid_t,
    /// Where to report.
    pub report: Report<'a>,
    /// Start gate shared with the other threads.
    pub gate: Option<Barrier<'a>>,
}

impl Child<'_> {
    /// Becomes the program, or exits with status 127 after reporting why it cannot.
    pub fn start(&self) -> ! {
        if let Err((step, errno)) = self.prepare() {
            self.report.fail(step, errno);
        } else {
            let stamp = self.gate.is_none();
            let errno = self.program.execute(self.environment, || {
                if stamp {
                    self.report
                        .start_ns
                        .store(monotonic_ns(), Ordering::Release);
                }
            });
            self.report.fail(Step::Execute, errno);
        }
        // SAFETY: ends this process without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }

    fn prepare(&self) -> Result<(), (Step, i32)> {
        self.die_with_parent();
        if let Some(files) = self.files {
            // SAFETY: no memory involved; a new child always may lead its own group.
            unsafe { libc::setpgid(0, 0) };
            connect(files).map_err(|errno| (Step::Files, errno))?;
        }
        if let Some(directory) = self.directory {
            // SAFETY: a NUL-terminated string.
            check(unsafe { libc::chdir(directory.as_ptr()) })
                .map_err(|errno| (Step::Directory, errno))?;
        }
        prepare_child();
        self.gate.map_or(Ok(()), |gate| self.through(gate))
    }

    /// With a gate the start is the moment of release: with more threads than processors
    /// the execve of one would otherwise be counted as the lateness of the next.
    fn through(&self, gate: Barrier<'_>) -> Result<(), (Step, i32)> {
        match gate.pass() {
            Passage::Released(at_ns) => {
                self.report.start_ns.store(at_ns, Ordering::Release);
                Ok(())
            }
            Passage::Broken => Err((Step::Gate, libc::ECANCELED)),
        }
    }

    fn die_with_parent(&self) {
        // SAFETY: integer arguments only. The parent may have died before prctl took
        // effect, then nobody would end us.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.parent {
                libc::_exit(127);
            }
        }
    }
}

fn connect(files: [i32; 3]) -> Result<(), i32> {
    for (target, file) in files.into_iter().enumerate() {
        // SAFETY: open descriptors; dup2 clears close-on-exec.
        check(unsafe { libc::dup2(file, target as i32) })?;
    }
    Ok(())
}

fn check(result: i32) -> Result<(), i32> {
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: errno's location is always valid.
    Err(unsafe { *libc::__errno_location() })
}
