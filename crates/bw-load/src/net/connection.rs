//! One connection: its socket, its state, and the bytes of its exchange, which a [`Protocol`] makes and reads.
//!
//! Names and connections before the run: here, and only here, may a call block.
//!
//! Decision: the first of the name's addresses that accepts a connection serves the whole run, so
//! that all operations go to one server. Connects run at most [`PARALLEL`] at a time: a burst of
//! thousands overflows the server's backlog, and lost SYNs come again only after a second.
//! Sources: connect(2), tcp(7), getaddrinfo(3).

use crate::net::epoll::{Epoll, Interest};
use bw_model::{EngineError, Nanos, Operation};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeState {
    /// There is more to come.
    More,
    /// It has ended.
    Ended {
        /// Bytes received, or a negative errno (or what the protocol adds to those).
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
}

/// What is said over a connection. Pure: it sees bytes, no sockets.
pub trait Protocol {
    /// The state of the exchange on one connection, with its buffers.
    type Exchange;

    /// Returns the state for one more connection.
    fn exchange(&self) -> Self::Exchange;

    /// Makes `exchange` ready for `operation`.
    ///
    /// # Errors
    /// The result (a negative errno) of an operation that this protocol cannot carry out.
    fn begin(&self, exchange: &mut Self::Exchange, operation: &Operation) -> Result<(), i32>;

    /// Returns bytes to send after the first `sent`; empty only when all are sent.
    fn outgoing<'a>(&'a self, exchange: &'a Self::Exchange, sent: u64) -> &'a [u8];

    /// Notes that everything was sent.
    fn sent(&self, exchange: &mut Self::Exchange) -> ExchangeState;

    /// Reads what came; never empty.
    fn receive(&self, exchange: &mut Self::Exchange, bytes: &[u8]) -> ExchangeState;

    /// Returns the result of an exchange that the server ended by closing the connection.
    fn closed(&self, exchange: &mut Self::Exchange) -> i32;
}

/// How many pieces of a request are written in a row, before others have their turn.
const WRITES_AT_ONCE: u32 = 16;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Nothing: it is lost, and its next attempt is not due yet.
    Down,
    /// It is being made again.
    Connecting,
    /// It is idle.
    Free,
    /// It carries the operation of this slot.
    Busy(u32),
}

/// How far a piece of work on a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketStep {
    /// The kernel has no more for the moment, or the turn is over.
    Later,
    /// The exchange has ended.
    Ended {
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
    /// The server has closed the connection.
    Closed,
    /// Bytes have come that no request had asked for: what comes next could not be distinguished from an answer.
    Unrequested,
    /// It has failed with this errno.
    Failed(i32),
}

/// A connection, and the place of the exchange on it.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    socket: Option<Socket>,
    /// What it is doing.
    pub state: ConnectionState,
    /// How often it was made: distinguishes the events of an earlier socket from those of this one.
    pub generation: u32,
    /// Whether it has carried a whole exchange since it was made.
    pub proven: bool,
    /// Whether it is in the queue of idle ones (it may have been taken out of turn).
    pub queued: bool,
    /// The protocol's part.
    pub exchange: E,
    sent: u64,
    unfinished: bool,
}

impl<E> Connection<E> {
    /// Returns an idle connection.
    pub(crate) fn new(socket: Socket, exchange: E) -> Self {
        Self {
            socket: Some(socket),
            state: ConnectionState::Free,
            generation: 0,
            proven: false,
            queued: false,
            exchange,
            sent: 0,
            unfinished: false,
        }
    }

    /// Returns what the events of its socket carry: generation and `index`.
    pub(crate) fn token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }

    /// Begins an exchange for the operation of `slot`.
    pub(crate) fn begin(&mut self, slot: u32) {
        self.state = ConnectionState::Busy(slot);
        self.sent = 0;
        self.unfinished = true;
    }

    /// Returns whether a request is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Watches the socket, which is new to `epoll`.
    pub(crate) fn watch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.add(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Watches the socket for something else.
    pub(crate) fn rewatch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.change(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Writes of the request what the kernel takes; `sent_bytes` counts it.
    pub(crate) fn write<P>(&mut self, protocol: &P, sent_bytes: &mut u64) -> SocketStep
    where
        P: Protocol<Exchange = E>,
    {
        let Some(mut socket) = self.socket.as_ref() else {
            return SocketStep::Failed(-libc::ENOTCONN);
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
                Err(error) if is_later(&error) => return SocketStep::Later,
                Err(error) => return SocketStep::Failed(negative(&error)),
            }
        }
        SocketStep::Later
    }

    /// Reads one piece, which `received_bytes` counts; an idle connection expects nothing.
    pub(crate) fn read<P>(
        &mut self,
        protocol: &P,
        buffer: &mut [u8],
        received_bytes: &mut u64,
    ) -> SocketStep
    where
        P: Protocol<Exchange = E>,
    {
        let Some(mut socket) = self.socket.as_ref() else {
            return SocketStep::Failed(-libc::ENOTCONN);
        };
        let length = match socket.read(buffer) {
            Ok(0) => return SocketStep::Closed,
            Ok(length) => length,
            Err(error) if is_later(&error) => return SocketStep::Later,
            Err(error) => return SocketStep::Failed(negative(&error)),
        };
        *received_bytes += length as u64;
        match self.state {
            ConnectionState::Busy(_) => protocol
                .receive(&mut self.exchange, &buffer[..length])
                .into(),
            _ => SocketStep::Unrequested,
        }
    }

    /// Looks, before a request is sent on an idle connection, whether anything has come on it:
    /// [`SocketStep::Later`] if nothing has.
    pub(crate) fn look(&self) -> SocketStep {
        let Some(socket) = &self.socket else {
            return SocketStep::Failed(-libc::ENOTCONN);
        };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(0) => SocketStep::Closed,
            Ok(_) => SocketStep::Unrequested,
            Err(error) if is_later(&error) => SocketStep::Later,
            Err(error) => SocketStep::Failed(negative(&error)),
        }
    }

    /// Returns the outcome of a connect: the errno of one that failed.
    pub(crate) fn outcome(&self) -> Result<(), i32> {
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
    pub(crate) fn close(&mut self, by_server: bool) {
        if let Some(socket) = self.socket.take()
            && !by_server
        {
            // Without it the close is an ordinary one, which is no harm to this exchange.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        self.state = ConnectionState::Down;
        self.unfinished = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Begins to make the connection again.
    ///
    /// # Errors
    /// The negative errno of one that failed at once.
    pub(crate) fn reconnect(&mut self, address: SocketAddr) -> Result<(), i32> {
        self.socket = Some(begin_connect(address).map_err(|error| negative(&error))?);
        self.state = ConnectionState::Connecting;
        self.proven = false;
        Ok(())
    }
}

impl From<ExchangeState> for SocketStep {
    fn from(progress: ExchangeState) -> Self {
        match progress {
            ExchangeState::More => Self::Later,
            ExchangeState::Ended { result, reusable } => Self::Ended { result, reusable },
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

/// How many connects are under way at once before the run.
pub(crate) const PARALLEL: usize = 64;
/// How long one of them may take before the run.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server: what the user called it, and where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`, as the user wrote it.
    pub name: String,
    /// Its addresses, the preferred one first; never empty.
    pub addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// Returns the addresses of a host name or of an address (an IPv6 one without brackets).
    ///
    /// # Errors
    /// `host-unknown`: the name has no address.
    pub(crate) fn resolve(host: &str, port: u16) -> Result<Self, EngineError> {
        let name = format!("{host}:{port}");
        let remedy = "check the name, and the resolver (getent hosts NAME)";
        let addresses: Vec<_> = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let message = format!("{name}: the host has no address: {error}");
                return Err(EngineError::request("host-unknown", message, remedy));
            }
        };
        if addresses.is_empty() {
            let message = format!("{name}: the host has no address");
            return Err(EngineError::request("host-unknown", message, remedy));
        }
        Ok(Self { name, addresses })
    }

    /// Returns `count` connections to the first of the addresses that accepts one.
    ///
    /// # Errors
    /// `connect`: none does, or not so many times.
    pub(crate) fn connect(&self, count: u32) -> Result<(SocketAddr, Vec<Socket>), EngineError> {
        let mut failures = Vec::new();
        for &address in &self.addresses {
            match connect_some(address, 1) {
                Ok(mut sockets) => {
                    let more = count.saturating_sub(1) as usize;
                    sockets.extend(self.connect_more(address, more)?);
                    return Ok((address, sockets));
                }
                Err(error) => failures.push((address, error)),
            }
        }
        Err(self.unreachable(&failures))
    }

    /// Returns the connections after the first, in groups.
    fn connect_more(&self, address: SocketAddr, count: usize) -> Result<Vec<Socket>, EngineError> {
        let mut sockets = Vec::with_capacity(count);
        while sockets.len() < count {
            let group = (count - sockets.len()).min(PARALLEL);
            match connect_some(address, group) {
                Ok(more) => sockets.extend(more),
                Err(error) => {
                    let made = sockets.len() + 1;
                    let wanted = count + 1;
                    let message = format!(
                        "{}: only {made} of {wanted} connections: {address}: {}",
                        self.name,
                        reason(&error)
                    );
                    return Err(EngineError::request("connect", message, remedy(&error)));
                }
            }
        }
        Ok(sockets)
    }

    fn unreachable(&self, failures: &[(SocketAddr, io::Error)]) -> EngineError {
        let tried: Vec<_> = failures
            .iter()
            .map(|(address, error)| format!("{address}: {}", reason(error)))
            .collect();
        let message = format!("{}: no connection: {}", self.name, tried.join("; "));
        let advice = failures.first().map_or("", |(_, error)| remedy(error));
        EngineError::request("connect", message, advice)
    }
}

/// Begins a connection without waiting for it; the socket never blocks and sends at once.
///
/// # Errors
/// As socket(2) and connect(2), at once; that it is under way is no error.
pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(
        Domain::for_address(address),
        kind,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Returns `count` connections that were made side by side.
fn connect_some(address: SocketAddr, count: usize) -> io::Result<Vec<Socket>> {
    let mut epoll = Epoll::new(count.max(1))?;
    let mut sockets = Vec::with_capacity(count);
    for token in 0..count {
        let socket = begin_connect(address)?;
        epoll.add(socket.as_fd(), Interest::Write, token as u64)?;
        sockets.push(Some(socket));
    }
    let mut made = Vec::with_capacity(count);
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    while made.len() < count {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Never 0 for what is left of a millisecond, where the kernel counts in those.
        let left_ns = left.max(Duration::from_millis(1)).as_nanos();
        epoll.wait(Nanos(u64::try_from(left_ns).unwrap_or(u64::MAX)))?;
        take_connected(&mut epoll, &mut sockets, &mut made)?;
    }
    Ok(made)
}

/// Moves the sockets that are connected from `sockets` to `made`.
fn take_connected(
    epoll: &mut Epoll,
    sockets: &mut [Option<Socket>],
    made: &mut Vec<Socket>,
) -> io::Result<()> {
    while let Some(ready) = epoll.take() {
        let place = usize::try_from(ready.token).unwrap_or(usize::MAX);
        let Some(socket) = sockets.get_mut(place).and_then(Option::take) else {
            continue;
        };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // A connected socket is always writable: it is reported again until it is not watched for that.
        epoll.change(socket.as_fd(), Interest::Read, ready.token)?;
        made.push(socket);
    }
    Ok(())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        _ => error.to_string(),
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => "start the server, or correct the port",
        Some(libc::EMFILE | libc::ENFILE) => {
            "use fewer connections, or raise the limit of open files (ulimit -n)"
        }
        Some(libc::EADDRNOTAVAIL) => {
            "wait until closed connections have left TIME_WAIT, or use fewer connections"
        }
        _ => "check the address, the route and the server",
    }
}
