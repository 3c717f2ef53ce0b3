//! Readiness of sockets, by epoll; waits have nanosecond resolution where the kernel supports it.
//!
//! Decision: level-triggered, so that work can stop anywhere and nothing is
//! lost. Writability is requested only while a write is unfinished, so that an ordinary
//! exchange needs no `epoll_ctl`. Sources: epoll(7), epoll_pwait2(2) (Linux 5.11).

use crate::policy::BusyPolling;
use bw_model::Nanos;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, or the end.
    Read,
    /// Room to write, or the outcome of a connect.
    Write,
    ReadWrite,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::ReadWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadySocket {
    /// The token that the socket was added with.
    pub token: u64,
    /// There is room to write, or an error to fetch.
    pub writable: bool,
    /// There are bytes, the end, or an error to fetch.
    pub readable: bool,
}

/// A set of watched sockets, and a buffer of those that are ready.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
    buffer: Vec<libc::epoll_event>,
    /// The ready sockets in the buffer that were not taken yet.
    found: Range<usize>,
    exact: bool,
    busy_polling: BusyPolling,
}

impl Epoll {
    /// Returns an empty set that reports at most `slice` sockets at a time.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn new(slice: usize) -> io::Result<Self> {
        Ok(Self {
            fd: epoll::create(CreateFlags::CLOEXEC)?,
            buffer: vec![libc::epoll_event { events: 0, u64: 0 }; slice],
            found: 0..0,
            exact: true,
            busy_polling: BusyPolling::default(),
        })
    }

    /// Watches a socket; closing the socket ends the watch.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, interest: Interest, token: u64) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.fd, fd, data, interest.flags())?)
    }

    /// Changes what a watched socket is watched for.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn change(
        &self,
        fd: BorrowedFd<'_>,
        interest: Interest,
        token: u64,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.fd, fd, data, interest.flags())?)
    }

    /// Returns how many ready sockets of the last wait were not taken yet.
    #[must_use]
    pub(crate) fn ready(&self) -> usize {
        self.found.len()
    }

    /// Returns whether the last wait found as many as fit, so that there may be more.
    pub(crate) fn was_full(&self) -> bool {
        self.found.end == self.buffer.len()
    }

    /// Returns the next of the ready sockets.
    #[allow(clippy::cast_sign_loss)]
    pub(crate) fn take(&mut self) -> Option<ReadySocket> {
        let event = self.buffer[self.found.next()?];
        let failed = event.events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        Some(ReadySocket {
            token: event.u64,
            writable: failed || event.events & libc::EPOLLOUT as u32 != 0,
            readable: failed || event.events & libc::EPOLLIN as u32 != 0,
        })
    }

    /// Returns the descriptor, which is readable when a socket is ready.
    pub(crate) fn descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Waits until a socket is ready, or for `at_most`; may return early. Sockets that were not taken are
    /// discarded, and reported again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.found = 0..0;
        let found = match self.wait_once(at_most) {
            // ENOSYS: Linux before 5.11; EPERM: a sandbox that does not know the call.
            Err(error) if self.exact && is_absent(&error) => {
                self.exact = false;
                self.wait_once(at_most)
            }
            other => other,
        };
        match found {
            Ok(found) => self.found = 0..found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits like [`Self::wait`], but polls for a short time first if that has found something lately.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wait_polling(&mut self, at_most: Nanos) -> io::Result<()> {
        let mut busy_polling = self.busy_polling;
        let found = busy_polling.poll(at_most, || {
            self.wait(Nanos::ZERO)?;
            Ok(self.ready() > 0)
        })?;
        self.busy_polling = busy_polling;
        if found { Ok(()) } else { self.wait(at_most) }
    }

    /// Waits once: with nanosecond resolution, or with milliseconds rounded down.
    #[allow(clippy::cast_sign_loss)]
    fn wait_once(&mut self, at_most: Nanos) -> io::Result<usize> {
        let found = if self.exact && at_most > Nanos::ZERO {
            self.wait_ns(at_most)
        } else {
            self.wait_ms(at_most)
        };
        checked(found).map(|found| found as usize)
    }

    #[allow(clippy::cast_possible_truncation)]
    fn wait_ns(&mut self, at_most: Nanos) -> i32 {
        let at_most = libc::timespec {
            tv_sec: i64::try_from(at_most.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (at_most.0 % 1_000_000_000) as i64,
        };
        let none: *const libc::sigset_t = std::ptr::null();
        // SAFETY: the buffer has room for the requested number of events, the timeout lives
        // through the call, and a null signal mask leaves the mask unchanged.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                capacity(&self.buffer),
                &raw const at_most,
                none,
                size_of::<u64>(),
            )
        };
        found as i32
    }

    fn wait_ms(&mut self, at_most: Nanos) -> i32 {
        let at_most_ms = i32::try_from(at_most.0 / 1_000_000).unwrap_or(i32::MAX);
        // SAFETY: the buffer has room for the requested number of events.
        unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                capacity(&self.buffer),
                at_most_ms,
            )
        }
    }
}

fn capacity(buffer: &[libc::epoll_event]) -> i32 {
    i32::try_from(buffer.len()).unwrap_or(i32::MAX)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn checked(returned: i32) -> io::Result<i32> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn with_and_without_nanoseconds_the_same_is_found() {
        for exact in [true, false] {
            let mut epoll = Epoll::new(4).unwrap();
            epoll.exact = exact;
            let (mut near, far) = UnixStream::pair().unwrap();
            epoll.add(far.as_fd(), Interest::Read, 7).unwrap();
            epoll.wait(Nanos(1000)).unwrap();
            assert!(epoll.take().is_none());
            near.write_all(b"x").unwrap();
            epoll.wait(Nanos::NEVER).unwrap();
            assert_eq!(epoll.ready(), 1);
            let ready = epoll.take().unwrap();
            assert_eq!(
                (ready.token, ready.readable, ready.writable),
                (7, true, false)
            );
            epoll.change(far.as_fd(), Interest::ReadWrite, 8).unwrap();
            epoll.wait(Nanos::NEVER).unwrap();
            let ready = epoll.take().unwrap();
            assert_eq!(
                (ready.token, ready.readable, ready.writable),
                (8, true, true)
            );
        }
    }
}
