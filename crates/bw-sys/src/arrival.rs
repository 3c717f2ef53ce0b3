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

/// TCP_INQ of linux/tcp.h, also the type of its message.
const TCP_INQ: libc::c_int = 36;

/// Lets the kernel stamp what arrives on a socket.
///
/// # Errors
/// As setsockopt(2).
pub fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

/// Lets each read from a socket of TCP say how much is left.
///
/// # Errors
/// As setsockopt(2): the socket is none of TCP.
pub fn count_left(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::IPPROTO_TCP, TCP_INQ)
}

fn switch_on(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value lives through the call and has the given length.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
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
    /// Whether the kernel said that nothing is left, no end of the stream either.
    pub is_all: bool,
}

/// Room for a stamp and a number, with the heads of their messages, aligned as the kernel wants it.
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
    let (stamp, left) = notes(&message);
    Ok(Received {
        length: length.unsigned_abs(),
        unseen_ns: stamp.map(|stamp| realtime_ns().saturating_sub(stamp)),
        is_all: left == Some(0),
    })
}

/// Returns the stamp of a message that was received, CLOCK_REALTIME [ns], and how much is left behind it; None if it has
/// none.
fn notes(message: &libc::msghdr) -> (Option<u64>, Option<i32>) {
    let (mut stamp_ns, mut left) = (None, None);
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
                let seconds = stamp.tv_sec.unsigned_abs();
                stamp_ns = Some(seconds * 1_000_000_000 + stamp.tv_nsec.unsigned_abs());
            }
            if (*head).cmsg_level == libc::IPPROTO_TCP && (*head).cmsg_type == TCP_INQ {
                left = Some(libc::CMSG_DATA(head).cast::<i32>().read_unaligned());
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    (stamp_ns, left)
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
    fn a_read_says_whether_it_has_left_bytes_or_the_end() {
        let (near, mut far) = pair();
        count_left(near.as_fd()).unwrap();
        far.write_all(b"answer").unwrap();
        let read = |length| {
            let received = receive(near.as_fd(), &mut [0; 16][..length]).unwrap();
            (received.length, received.is_all)
        };
        assert_eq!([read(4), read(16)], [(4, false), (2, true)]);
        far.write_all(b"last").unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read(16), (4, false));
    }

    #[test]
    fn without_a_stamp_it_reads_all_the_same() {
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        let mut buffer = [0; 16];
        let expected = Received {
            length: 1,
            unseen_ns: None,
            is_all: false,
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
