//! Processes by descriptor: no pid can be mistaken for its successor.
//!
//! Source: pidfd_open(2), pidfd_send_signal(2), Linux 5.3.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Opens a process. Errors: ESRCH when there is none.
pub fn open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: plain system call with integer arguments.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor (close-on-exec by definition) that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends a signal; a process that has ended is no error. Returns whether we may: not to a process of another
/// user (what `sudo` or a set-user-ID program started), unless we are privileged.
pub fn send(process: &OwnedFd, signal: i32) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: an open pidfd, and a null siginfo, which the call allows.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            no_info,
            0,
        )
    };
    sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}
