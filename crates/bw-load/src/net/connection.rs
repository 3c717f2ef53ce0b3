//! One connection: its socket, its state, and the bytes of its exchange.

use super::connect;
use super::epoll::{Epoll, Interest};
use super::{Progress, Protocol};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// How many pieces of a request are written in a row, before others have their turn.
const WRITES_AT_ONCE: u32 = 16;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it is lost, and its next attempt is not due yet.
    Down,
    /// It is being made again.
    Connecting,
    /// It rests.
    Free,
    /// It carries the operation of this slot.
    Busy(u32),
}

/// How far a piece of work on a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The kernel has no more for the moment, or the turn is over.
    Later,
    /// The exchange has ended.
    Ended {
        /// Its result.
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
    /// The server has closed the connection.
    Closed,
    /// Bytes have come that no request had asked for: what comes next could not be told from an answer.
    Unrequested,
    /// It has failed with this errno.
    Failed(i32),
}

/// A connection, and the place of the exchange on it.
#[derive(Debug)]
pub struct Connection<E> {
    socket: Option<Socket>,
    /// What it is doing.
    pub state: State,
    /// How often it was made: tells the events of an earlier socket from those of this one.
    pub generation: u32,
    /// Whether it has carried a whole exchange since it was made.
    pub proven: bool,
    /// Whether it stands in the queue of those that rest (it may have been taken out of turn).
    pub queued: bool,
    /// The protocol's part.
    pub exchange: E,
    sent: u64,
    unfinished: bool,
}

impl<E> Connection<E> {
    /// Returns a connection that rests.
    pub fn new(socket: Socket, exchange: E) -> Self {
        Self {
            socket: Some(socket),
            state: State::Free,
            generation: 0,
            proven: false,
            queued: false,
            exchange,
            sent: 0,
            unfinished: false,
        }
    }

    /// Returns what the events of its socket carry: generation and `index`.
    pub fn token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }

    /// Begins an exchange for the operation of `slot`.
    pub fn begin(&mut self, slot: u32) {
        self.state = State::Busy(slot);
        self.sent = 0;
        self.unfinished = true;
    }

    /// Returns whether a request is still to be written.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Watches the socket, which is new to `epoll`.
    pub fn watch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.add(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Watches the socket for something else.
    pub fn rewatch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.change(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Writes of the request what the kernel takes; `sent_bytes` counts it.
    pub fn write<P>(&mut self, protocol: &P, sent_bytes: &mut u64) -> Step
    where
        P: Protocol<Exchange = E>,
    {
        let Some(mut socket) = self.socket.as_ref() else {
            return Step::Failed(-libc::ENOTCONN);
        };
        for _ in 0..WRITES_AT_ONCE {
            let bytes = protocol.outgoing(&self.exchange, self.sent);
            if bytes.is_empty() {
                self.unfinished = false;
                return protocol.sent(&mut self.exchange).into();
            }
            match socket.write(bytes) {
                Ok(written) => {
                    self.sent += written as u64;
                    *sent_bytes += written as u64;
                }
                Err(error) if is_later(&error) => return Step::Later,
                Err(error) => return Step::Failed(negative(&error)),
            }
        }
        Step::Later
    }

    /// Reads one piece, which `received_bytes` counts; a connection that rests expects nothing.
    pub fn read<P>(&mut self, protocol: &P, buffer: &mut [u8], received_bytes: &mut u64) -> Step
    where
        P: Protocol<Exchange = E>,
    {
        let Some(mut socket) = self.socket.as_ref() else {
            return Step::Failed(-libc::ENOTCONN);
        };
        let length = match socket.read(buffer) {
            Ok(0) => return Step::Closed,
            Ok(length) => length,
            Err(error) if is_later(&error) => return Step::Later,
            Err(error) => return Step::Failed(negative(&error)),
        };
        *received_bytes += length as u64;
        match self.state {
            State::Busy(_) => protocol
                .receive(&mut self.exchange, &buffer[..length])
                .into(),
            _ => Step::Unrequested,
        }
    }

    /// Looks, before a request is sent on a connection that rests, whether anything has come on it:
    /// [`Step::Later`] if nothing has.
    pub fn look(&self) -> Step {
        let Some(socket) = &self.socket else {
            return Step::Failed(-libc::ENOTCONN);
        };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(0) => Step::Closed,
            Ok(_) => Step::Unrequested,
            Err(error) if is_later(&error) => Step::Later,
            Err(error) => Step::Failed(negative(&error)),
        }
    }

    /// Returns the outcome of a connect: the errno of one that failed.
    pub fn outcome(&self) -> Result<(), i32> {
        let Some(socket) = &self.socket else {
            return Err(-libc::ENOTCONN);
        };
        match socket.take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(negative(&error)),
        }
    }

    /// Closes the socket. Where we are the first to close, by a reset: a port of ours would be in TIME_WAIT
    /// for a minute, and a server that closes after each answer would use them all up.
    pub fn close(&mut self, by_server: bool) {
        if let Some(socket) = self.socket.take()
            && !by_server
        {
            // Without it the close is an ordinary one, which is no harm to this exchange.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        self.state = State::Down;
        self.unfinished = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Begins to make the connection again.
    ///
    /// # Errors
    /// The negative errno of one that failed at once.
    pub fn reconnect(&mut self, address: SocketAddr) -> Result<(), i32> {
        self.socket = Some(connect::begin(address).map_err(|error| negative(&error))?);
        self.state = State::Connecting;
        self.proven = false;
        Ok(())
    }
}

impl From<Progress> for Step {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::More => Self::Later,
            Progress::Ended { result, reusable } => Self::Ended { result, reusable },
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}
