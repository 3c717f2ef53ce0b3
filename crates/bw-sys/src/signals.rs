//! Signals: as readable events, counted by a handler, and the state in which children start.
//!
//! Sources: signalfd(2), sigaction(2), signal-safety(7).

use crate::{checked, process};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// The signals that request a program to end.
pub const TERMINATION: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The signal that a stopped process gets when it continues.
pub const CONTINUE: i32 = libc::SIGCONT;

/// Returns a set of these signals.
pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain integers; sigemptyset initialises it fully.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid sigset_t.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: as above.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Blocks `signals`: they stay pending until they are read. Forked processes inherit the mask.
pub fn block(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: `set` is initialised; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
}

/// How a signal is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The kernel's default action.
    Default,
    /// The signal is ignored.
    Ignore,
}

/// Sets how a signal is handled. Async-signal-safe.
pub fn set_disposition(signal: i32, disposition: Disposition) {
    let action = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    // SAFETY: both are valid actions.
    unsafe { libc::signal(signal, action) };
}

/// Gives every signal its default action, whatever the caller had set; then ignores SIGPIPE in this process (children
/// get the default again).
pub fn reset_dispositions() {
    // The kernel's own sigaction, all zero: SIG_DFL. libc refuses its private signals 32 and 33, which a caller may
    // have left ignored.
    let default = [0u64; 4];
    for signal in 1..=64 {
        let (action, none) = (default.as_ptr(), ptr::null_mut::<u64>());
        // SAFETY: `default` is as large as the kernel's struct sigaction; its mask has 8 bytes. Numbers that may not be
        // set fail harmlessly.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action, none, 8) };
    }
    set_disposition(libc::SIGPIPE, Disposition::Ignore);
}

/// Blocks no signal and gives SIGPIPE its default: the state in which a child starts. Async-signal-safe.
pub fn prepare_child() {
    set_disposition(libc::SIGPIPE, Disposition::Default);
    let none = set_of(&[]);
    // SAFETY: `none` is initialised; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
}

/// One signal, read from the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it (a terminal's Ctrl-C), not a process.
    pub from_kernel: bool,
}

/// A descriptor from which blocked signals are read. Rejected: a handler with a self-pipe; more code, same effect.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

/// The bytes of a signalfd_siginfo, in which the number is first and the code third.
const INFO_BYTES: usize = size_of::<libc::signalfd_siginfo>();

impl SignalFd {
    /// Blocks `signals` and returns the descriptor they are read from. Errors: signalfd(2).
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        block(signals);
        let set = set_of(signals);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is initialised.
        let fd = checked(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: a fresh descriptor with no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the descriptor to poll.
    #[must_use]
    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Returns the next signal that has arrived, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<ReceivedSignal> {
        let mut info = [0_u8; INFO_BYTES];
        let read = rustix::io::read(&self.0, &mut info[..]).ok()?;
        let number = |at: usize| Some(i32::from_ne_bytes(info.get(at..at + 4)?.try_into().ok()?));
        (read == INFO_BYTES).then_some(ReceivedSignal {
            signal: number(0)?,
            from_kernel: number(8)? == libc::SI_KERNEL,
        })
    }
}

static CAUGHT: AtomicU8 = AtomicU8::new(0);
static END_AT: AtomicU8 = AtomicU8::new(u8::MAX);

/// The exit status of a process that a signal ends.
const INTERRUPTED: i32 = 130;

extern "C" fn count(_signal: libc::c_int) {
    let before = CAUGHT.fetch_add(1, Ordering::Relaxed);
    if before.saturating_add(1) >= END_AT.load(Ordering::Relaxed) {
        process::exit_now(INTERRUPTED);
    }
}

/// Counts these signals from now on, instead of being ended by them; interrupted system calls are restarted. Signal
/// number `end_at` in the count ends the process at once (None: none does). A SIGHUP that the caller ignores (nohup)
/// stays ignored.
pub fn count_caught(signals: &[i32], end_at: Option<u8>) {
    END_AT.store(end_at.unwrap_or(u8::MAX), Ordering::Relaxed);
    for &signal in signals {
        // SAFETY: a sigaction of zeros has an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: as above.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both actions are valid; the handler adds to an atomic, or ends the process.
        unsafe {
            libc::sigaction(signal, &raw const action, &raw mut before);
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &raw const before, ptr::null_mut());
            }
        }
    }
}

/// Counts a signal that did not arrive as one: the caller of the program asked for its end in another way.
pub fn count_one() {
    count(libc::SIGINT);
}

/// Returns the number of counted signals.
#[must_use]
pub fn caught() -> u8 {
    CAUGHT.load(Ordering::Relaxed)
}
