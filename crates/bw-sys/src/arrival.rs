//! When the kernel received what a socket reads.
//!
//! Decision: the stamp that the network stack gives each packet (SO_TIMESTAMPNS), so that a process that was not running
//! when an answer arrived can tell how long it lay there. Rejected: the time at which epoll reports the socket, which is
//! late by the same time; SO_TIMESTAMPING, whose stamps of the hardware need rights. Unix sockets have no stamps.
//! Sources: socket(7); Documentation/networking/timestamping.rst of Linux.

use crate::checked;
use crate::clock::realtime_ns;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Lets the kernel stamp what arrives on a socket.
///
/// # Errors
/// As setsockopt(2).
pub fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value lives through the call and has the given length.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    checked(status).map(|_| ())
}

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes; 0 is the end of a stream.
    pub length: usize,
    /// How long before the end of the call the last of them had arrived [ns]; None: there is no stamp.
    pub unseen_ns: Option<u64>,
}

/// Room for one stamp and the head of its message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Reads from a socket like recv(2).
///
/// # Errors
/// As recv(2).
#[inline]
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid message without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the message points to one piece and one control buffer, which live through the call and have the given
    // lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Received {
        length: length.unsigned_abs(),
        unseen_ns: stamp_ns(&message).map(|stamp| realtime_ns().saturating_sub(stamp)),
    })
}

/// Returns the stamp of a message that was received, CLOCK_REALTIME [ns]; None if it has none.
fn stamp_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the control buffer, which the message still points to, up to the length in it;
    // the macros stay within that length. A stamp of this type is a timespec, which need not be aligned there.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let stamp: libc::timespec = libc::CMSG_DATA(head)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return Some(
                    stamp.tv_sec.unsigned_abs() * 1_000_000_000 + stamp.tv_nsec.unsigned_abs(),
                );
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn what_has_waited_to_be_read_says_how_long() {
        let (near, mut far) = pair();
        stamp_arrivals(near.as_fd()).unwrap();
        let mut buffer = [0; 16];
        let late = Duration::from_millis(30);
        // What was sent may arrive late, on a machine that is behind, but not each time.
        let waited = (0..20).any(|_| {
            let sent = Instant::now();
            far.write_all(b"answer").unwrap();
            std::thread::sleep(late);
            let received = receive(near.as_fd(), &mut buffer).unwrap();
            assert_eq!((received.length, &buffer[..6]), (6, &b"answer"[..]));
            let unseen = Duration::from_nanos(received.unseen_ns.unwrap_or_default());
            assert!(unseen <= sent.elapsed());
            unseen >= late
        });
        assert!(waited);
        drop(far);
        assert_eq!(receive(near.as_fd(), &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn without_a_stamp_it_reads_all_the_same() {
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        let mut buffer = [0; 16];
        let expected = Received {
            length: 1,
            unseen_ns: None,
        };
        assert_eq!(receive(near.as_fd(), &mut buffer).unwrap(), expected);
        let (near, mut far) = UnixStream::pair().unwrap();
        let _ = stamp_arrivals(near.as_fd());
        far.write_all(b"x").unwrap();
        assert_eq!(receive(near.as_fd(), &mut buffer).unwrap().length, 1);
        near.set_nonblocking(true).unwrap();
        let nothing = receive(near.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
