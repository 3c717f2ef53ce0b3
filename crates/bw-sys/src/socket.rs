//! What the kernel knows of a socket. Source: tcp(7).

use crate::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// SIOCOUTQNSD of linux/sockios.h.
const UNSENT: libc::Ioctl = 0x894b;

/// Returns how many bytes the kernel has accepted and not yet sent on a socket of TCP; those that wait for an acknowledgement
/// have been sent.
///
/// # Errors
/// As ioctl(2): the socket is none of TCP.
pub fn unsent_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one number, which lives through it.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), UNSENT, &raw mut bytes) };
    checked(status)?;
    Ok(bytes.cast_unsigned())
}
