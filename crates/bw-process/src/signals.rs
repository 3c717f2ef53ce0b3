//! Signals as readable events, and the state that children must not inherit.
//!
//! Source: signalfd(2), sigaction(2). A handler with a self-pipe lost: more code, same effect.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// One signal read from the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it (a terminal's Ctrl-C) and not a process.
    pub from_kernel: bool,
}

/// What asks a program to end.
pub const TERMINATION: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Blocks `signals`: they wait until somebody reads them. Forked processes inherit that.
pub fn hold(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: `set` is initialised; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
}

/// A descriptor from which blocked signals are read.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks `signals` and returns the descriptor they are read from. Errors: signalfd(2).
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        hold(signals);
        let set = set_of(signals);
        // SAFETY: `set` is initialised.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Returns the next signal that has arrived, if any.
    pub fn next(&self) -> Option<Arrived> {
        // SAFETY: an all-zero signalfd_siginfo is a valid value of plain integers.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is writable for `size` bytes.
        let read = unsafe { libc::read(self.fd(), (&raw mut info).cast(), size) };
        (read == size as isize).then_some(Arrived {
            signal: info.ssi_signo as i32,
            from_kernel: info.ssi_code == libc::SI_KERNEL,
        })
    }
}

/// Gives every signal its default action, whatever the caller had set; then ignores
/// SIGPIPE for ourselves (children get its default back).
pub fn reset_actions() {
    // The kernel's own sigaction, all zero: SIG_DFL. libc refuses its private 32 and 33,
    // which a caller may have left ignored all the same.
    let default = [0u64; 4];
    for signal in 1..=64 {
        let (action, none) = (default.as_ptr(), std::ptr::null_mut::<u64>());
        // SAFETY: `default` is as large as the kernel's struct sigaction; its mask has 8
        // bytes. Numbers that may not be set fail harmlessly.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action, none, 8) };
    }
    // SAFETY: SIG_IGN is a valid action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Gives SIGCHLD its default action. A caller that had it ignored would have the kernel collect our children:
/// their status and usage would be lost, and waiting for them would fail.
pub fn keep_children() {
    // SAFETY: SIG_DFL is a valid action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Blocks nothing and gives SIGPIPE its default: the state in which a child starts.
/// Async-signal-safe.
pub fn prepare_child() {
    let none = set_of(&[]);
    // SAFETY: `none` is initialised; SIG_DFL is a valid action.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain integers; sigemptyset initialises it fully.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid sigset_t.
    unsafe { libc::sigemptyset(&mut set) };
    for &signal in signals {
        // SAFETY: as above.
        unsafe { libc::sigaddset(&mut set, signal) };
    }
    set
}
