//! This process and others: identity, parents, descriptors of processes, waiting, resource use.
//!
//! Unlike a pid, a pidfd never refers to a later process with the same id.
//! Sources: pidfd_open(2), pidfd_send_signal(2) (Linux 5.3), prctl(2), wait4(2), getrusage(2), getrlimit(2).

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, getrlimit, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_parent_process_death_signal, setrlimit,
};
use serde::Serialize;
use std::io;
use std::os::fd::OwnedFd;

/// The id of a process.
pub type ProcessId = i32;

/// Returns the id of this process. Async-signal-safe.
#[must_use]
pub fn own_id() -> ProcessId {
    getpid().as_raw_nonzero().get()
}

/// Returns the id of the parent, which is another process if the original one has ended; 0 if it is outside this
/// process's namespace. Async-signal-safe.
#[must_use]
pub fn parent_id() -> ProcessId {
    Pid::as_raw(getppid())
}

/// Requests `signal` for this process when the thread that created it ends; returns whether `parent` is still its
/// parent: it may have ended before the request. Async-signal-safe.
#[must_use]
pub fn die_with_parent(parent: ProcessId, signal: i32) -> bool {
    let asked = set_parent_process_death_signal(Signal::from_named_raw(signal));
    asked.is_ok() && parent_id() == parent
}

/// Makes this process inherit its orphaned descendants.
pub fn become_subreaper() {
    // Supported since Linux 3.4.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends this process without running exit handlers: for children that share the parent's memory, and after a panic.
/// Async-signal-safe.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: it ends the process; nothing of ours must be done at its end.
    unsafe { libc::_exit(status) }
}

/// Closes every descriptor from `first` on.
///
/// # Safety
/// Nothing in this process owns one of them.
pub unsafe fn close_from(first: u32) {
    // SAFETY: integer arguments; the descriptors are not used, by the contract.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// A process, by descriptor.
#[derive(Debug)]
pub struct ProcessFd(OwnedFd);

impl ProcessFd {
    /// Opens a process. Errors: ESRCH if it does not exist.
    pub fn open(pid: ProcessId) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal; a process that has ended is not an error. Returns false if that is not permitted: the process
    /// belongs to another user (`sudo` or a set-user-ID program started it), and we are not privileged.
    pub fn send(&self, signal: i32) -> bool {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return false;
        };
        pidfd_send_signal(&self.0, signal) != Err(Errno::PERM)
    }
}

impl From<OwnedFd> for ProcessFd {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl std::os::fd::AsRawFd for ProcessFd {
    /// Returns the descriptor, which is readable when the process has ended.
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Resource usage of a process and the children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceUsage {
    /// User CPU time [us].
    pub user_us: u64,
    /// System CPU time [us].
    pub system_us: u64,
    /// Peak resident size [bytes].
    pub rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Blocks of 512 bytes read.
    pub in_blocks: u64,
    /// Blocks of 512 bytes written.
    pub out_blocks: u64,
    /// Context switches by waiting.
    pub voluntary_switches: u64,
    /// Context switches by preemption.
    pub involuntary_switches: u64,
}

impl From<&libc::rusage> for ResourceUsage {
    fn from(usage: &libc::rusage) -> Self {
        let microseconds =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Self {
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            rss_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            in_blocks: usage.ru_inblock as u64,
            out_blocks: usage.ru_oublock as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}

/// Returns the usage of this process.
#[must_use]
pub fn own_usage() -> ResourceUsage {
    usage_of(libc::RUSAGE_SELF)
}

/// Returns how often the calling thread was preempted.
#[must_use]
pub fn thread_preemptions() -> u64 {
    usage_of(libc::RUSAGE_THREAD).involuntary_switches
}

fn usage_of(who: i32) -> ResourceUsage {
    // SAFETY: an all-zero rusage is a valid value of plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours to write to.
    unsafe { libc::getrusage(who, &raw mut usage) };
    (&usage).into()
}

/// Whether a wait returns at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Wait for a child to end.
    Yes,
    /// Return at once.
    No,
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedChild {
    /// Process id; 0: children are alive, and none of them has ended (non-blocking).
    pub pid: ProcessId,
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// Its resource usage.
    pub usage: ResourceUsage,
}

/// Collects the child `pid`, or with -1 any child, and its usage. None: there is no such child.
#[must_use]
pub fn wait_for(pid: ProcessId, blocking: Blocking) -> Option<EndedChild> {
    let options = match blocking {
        Blocking::Yes => 0,
        Blocking::No => libc::WNOHANG,
    };
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `usage` are ours to write to.
    let pid = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
    (pid >= 0).then(|| EndedChild {
        pid,
        status: exit_status(status),
        usage: (&usage).into(),
    })
}

fn exit_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

/// Raises the soft limit of open files to the hard one and returns it.
#[must_use]
pub fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this is refused, the limit does not change.
    let _ = setrlimit(Resource::Nofile, raised);
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_has_ended_is_reported() {
        assert!(die_with_parent(parent_id(), libc::SIGKILL));
        // No process has this id.
        assert!(!die_with_parent(-1, libc::SIGKILL));
        // Removing the signal cannot fail.
        let _ = set_parent_process_death_signal(None);
    }

    #[test]
    fn a_pid_without_a_process_cannot_be_opened() {
        assert!(ProcessFd::open(0).is_err());
        assert!(ProcessFd::open(i32::MAX).is_err());
    }
}
