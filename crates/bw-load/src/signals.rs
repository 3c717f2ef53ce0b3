//! SIGINT, SIGTERM and SIGHUP: the first ends the run early, the second does not even wait for what is in flight;
//! the third ends the process, whatever it waits for (the writer of a FIFO, a disk that hangs).
//!
//! Decision: a handler that counts, and a reporter that looks; nothing else may be done in a handler, and
//! a worker must not be made to poll a descriptor.

use std::sync::atomic::{AtomicU8, Ordering};

static CAUGHT: AtomicU8 = AtomicU8::new(0);

/// The exit status of a process that the third one ends.
const INTERRUPTED: libc::c_int = 130;

extern "C" fn count(_signal: libc::c_int) {
    if CAUGHT.fetch_add(1, Ordering::Relaxed) >= 2 {
        // SAFETY: it ends the process, and is one of the calls that a handler may make.
        unsafe { libc::_exit(INTERRUPTED) };
    }
}

/// Counts SIGINT, SIGTERM and SIGHUP from now on, instead of dying of them. System calls go on. A write past
/// the limit of file sizes (`ulimit -f`) is an error of that write, as on a full disk.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: a sigaction of zeros has an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is valid; its handler adds to an atomic, or ends the process.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, &raw mut before);
            // nohup: a hang-up that the caller ignores is ignored here too.
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: to ignore a signal touches no memory.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns how many of them came.
#[must_use]
pub fn caught() -> u8 {
    CAUGHT.load(Ordering::Relaxed)
}
