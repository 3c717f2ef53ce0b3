//! Creates children: one by a vfork-like clone, several by fork before a start gate.
//!
//! Decision: clone(CLONE_VM | CLONE_VFORK) for one process copies no page tables and
//! returns when execve has succeeded. Several processes cannot share the parent's memory
//! while they wait for each other (errno is one variable), so they are forked.
//! posix_spawn lost: no stamp, no pidfd, no PDEATHSIG. Sources: clone(2), vfork(2).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::barrier::Barrier;
use crate::child::{Child, REPORT_WORDS, Report};
use crate::pidfd;
use crate::shared::Mapping;

const STACK_BYTES: usize = 64 * 1024;

/// A child that was created and not yet waited for.
#[derive(Debug)]
pub struct Spawned {
    /// Its process id.
    pub pid: libc::pid_t,
    /// Readable when it has ended.
    pub pidfd: OwnedFd,
}

/// The memory that creating children needs, made once.
#[derive(Debug)]
pub struct Spawner {
    stack: Mapping,
    reports: Mapping,
    parent: libc::pid_t,
}

impl Spawner {
    /// Prepares for up to `most` children at a time. Errors: no memory.
    pub fn new(most: usize) -> io::Result<Self> {
        Ok(Self {
            stack: Mapping::anonymous(STACK_BYTES)?,
            reports: Mapping::anonymous(most.max(1) * REPORT_WORDS * 8)?,
            // SAFETY: no arguments, cannot fail.
            parent: unsafe { libc::getpid() },
        })
    }

    /// The report of the `index`-th child of the current start.
    pub fn report(&self, index: usize) -> Report<'_> {
        Report::new(self.reports.long_words(), index)
    }

    /// This process's id, for `Child::parent`.
    pub fn parent(&self) -> libc::pid_t {
        self.parent
    }

    /// Starts one child and returns when it has executed its program, or failed to.
    /// Errors: no process could be created.
    pub fn one(&self, child: &Child<'_>) -> io::Result<Spawned> {
        child.report.clear();
        let mut pidfd: i32 = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let words = self.stack.long_words();
        // SAFETY: the stack's end is 16-byte aligned and the stack unused: this thread
        // stands still until the child has left it. `enter` gets the child it expects.
        let pid = unsafe {
            let top = words.as_ptr().add(words.len()).cast_mut().cast();
            let argument = std::ptr::from_ref(child).cast_mut().cast();
            libc::clone(enter, top, flags, argument, &raw mut pidfd)
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel stored a fresh descriptor (close-on-exec).
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Spawned { pid, pidfd })
    }

    /// Starts one child by fork, for a parent that is not itself a light fork: the child then
    /// carries over only what it has written to, and less into its peak RSS. Errors: as `one`.
    pub fn light(&self, child: &Child<'_>) -> io::Result<Spawned> {
        forked(child)
    }

    /// Starts several children that wait for each other at `gate`, which is reset here.
    /// One that cannot be created is an error in its place, and the gate is broken.
    pub fn together(&self, children: &[Child<'_>], gate: Barrier<'_>) -> Vec<io::Result<Spawned>> {
        gate.reset(children.len() as u32);
        children
            .iter()
            .map(|child| {
                let result = forked(child);
                if result.is_err() {
                    gate.break_up();
                }
                result
            })
            .collect()
    }
}

extern "C" fn enter(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Spawner::one` passes a valid `Child` that outlives this call.
    let child: &Child<'_> = unsafe { &*argument.cast_const().cast() };
    child.start()
}

fn forked(child: &Child<'_>) -> io::Result<Spawned> {
    child.report.clear();
    // SAFETY: single-threaded; the child only makes async-signal-safe calls.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => child.start(),
        pid => match pidfd::open(pid) {
            Ok(pidfd) => Ok(Spawned { pid, pidfd }),
            Err(error) => {
                // SAFETY: our own child, not yet waited for.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    libc::waitpid(pid, std::ptr::null_mut(), 0);
                }
                Err(error)
            }
        },
    }
}
