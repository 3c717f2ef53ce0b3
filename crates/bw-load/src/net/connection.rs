//! One connection: its socket, its state, and the bytes of its exchange, which a [`Protocol`] makes and reads.
//!
//! Names are resolved and connections established before the run: only this code may block.
//!
//! Decision: the first address of the name that accepts a connection serves the whole run, so
//! all operations go to one server. At most [`PARALLEL`] connects run at a time: a burst of
//! thousands overflows the server's backlog, and lost SYNs are sent again only after a second.
//! Sources: connect(2), tcp(7), getaddrinfo(3).

use crate::net::epoll::{Epoll, Interest};
use bw_model::{EngineError, Nanos, Operation};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The state of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeState {
    /// It is not complete.
    More,
    /// It has ended.
    Ended {
        /// Bytes received, or a negative errno (or what the protocol adds to those).
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
}

/// The protocol of a connection. Pure: it handles bytes, not sockets.
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

    /// Reports that everything was sent.
    fn sent(&self, exchange: &mut Self::Exchange) -> ExchangeState;

    /// Reads received bytes; `bytes` is never empty.
    fn receive(&self, exchange: &mut Self::Exchange, bytes: &[u8]) -> ExchangeState;

    /// Returns the result of an exchange that the server ended by closing the connection.
    fn closed(&self, exchange: &mut Self::Exchange) -> i32;
}

/// How many pieces of a request are written in a row before other connections are served.
const WRITES_AT_ONCE: u32 = 16;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// The connection is lost, and the next attempt is not due yet.
    Down,
    /// The connection is being established.
    Connecting,
    /// The connection is idle.
    Free,
    /// The connection carries the operation of this slot.
    Busy(u32),
}

/// The result of one step of work on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketStep {
    /// The kernel has no more at the moment, or the connection's turn is over.
    Later,
    /// The exchange has ended.
    Ended {
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
    /// The server has closed the connection.
    Closed,
    /// Bytes arrived that no request had asked for: they could not be distinguished from an answer to the next request.
    Unrequested,
    /// The connection failed with this errno.
    Failed(i32),
}

/// A connection and the state of its exchange.
#[derive(Debug)]
pub(crate) struct Connection<E> {
    socket: Option<Socket>,
    /// The connection's state.
    pub state: ConnectionState,
    /// How often it was established: distinguishes the events of this socket from those of an earlier one.
    pub generation: u32,
    /// Whether it has carried a whole exchange since it was established.
    pub proven: bool,
    /// Whether it is in the queue of idle connections (it may have been used out of order).
    pub queued: bool,
    /// The protocol's state.
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

    /// Returns the token of its socket's events: generation and `index`.
    pub(crate) fn token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }

    /// Starts an exchange for the operation of `slot`.
    pub(crate) fn begin(&mut self, slot: u32) {
        self.state = ConnectionState::Busy(slot);
        self.sent = 0;
        self.unfinished = true;
    }

    /// Returns whether part of a request is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Watches the socket, which is not in `epoll` yet.
    pub(crate) fn watch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.add(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Changes what the socket is watched for.
    pub(crate) fn rewatch(&self, epoll: &Epoll, interest: Interest, index: u32) -> io::Result<()> {
        match &self.socket {
            Some(socket) => epoll.change(socket.as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Writes as much of the request as the kernel accepts; adds it to `sent_bytes`.
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

    /// Reads one piece and adds it to `received_bytes`; an idle connection expects nothing.
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

    /// Checks, before a request is sent on an idle connection, whether anything has arrived on it:
    /// [`SocketStep::Later`] if not.
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

    /// Returns the outcome of a connect; the errno if it failed.
    pub(crate) fn outcome(&self) -> Result<(), i32> {
        let Some(socket) = &self.socket else {
            return Err(-libc::ENOTCONN);
        };
        match socket.take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(negative(&error)),
        }
    }

    /// Closes the socket. If we close first, it sends a reset: otherwise a local port would stay in TIME_WAIT for a
    /// minute, and a server that closes after each answer would exhaust the ports.
    pub(crate) fn close(&mut self, by_server: bool) {
        if let Some(socket) = self.socket.take()
            && !by_server
        {
            // Without this option the close is an ordinary one, which does no harm to this exchange.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        self.state = ConnectionState::Down;
        self.unfinished = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Starts a reconnection.
    ///
    /// # Errors
    /// The negative errno of a connect that failed at once.
    pub(crate) fn reconnect(&mut self, address: SocketAddr) -> Result<(), i32> {
        self.socket = Some(begin_connect(address, false).map_err(|error| negative(&error))?);
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

/// Returns whether the kernel has no more at the moment.
pub(crate) fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

/// Returns the negative errno of an error.
pub(crate) fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Maximum number of connects in progress before the run.
pub(crate) const PARALLEL: usize = 64;
/// Time limit of one connect before the run.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server: its name and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`, as the user wrote it.
    pub name: String,
    /// Its addresses, the preferred one first; never empty.
    pub addresses: Vec<SocketAddr>,
    /// Whether connections come from a port below 1024, if this process may use one.
    pub reserved_port: bool,
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
        Ok(Self {
            name,
            addresses,
            reserved_port: false,
        })
    }

    /// Returns the same server, connected to from ports below 1024, if this process may use them: servers of NFS take
    /// that as a proof that the client's root vouches for the user.
    #[must_use]
    pub(crate) fn with_reserved_port(self) -> Self {
        Self {
            reserved_port: true,
            ..self
        }
    }

    /// Returns `count` connections to the first of the addresses that accepts one.
    ///
    /// # Errors
    /// `connect`: no address accepts `count` connections.
    pub(crate) fn connect(&self, count: u32) -> Result<(SocketAddr, Vec<Socket>), EngineError> {
        let mut failures = Vec::new();
        for &address in &self.addresses {
            match connect_some(address, 1, self.reserved_port) {
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

    /// Returns the connections after the first, established in groups.
    fn connect_more(&self, address: SocketAddr, count: usize) -> Result<Vec<Socket>, EngineError> {
        let mut sockets = Vec::with_capacity(count);
        while sockets.len() < count {
            let group = (count - sockets.len()).min(PARALLEL);
            match connect_some(address, group, self.reserved_port) {
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

/// The ports below 1024 that clients of NFS use; lower ones belong to services.
const RESERVED_PORTS: std::ops::Range<u16> = 665..1024;

/// Binds the socket to a free port below 1024; leaves it as it is if this process may not, or none is free. Its close
/// sends a reset, or each port would stay in TIME_WAIT for a minute.
fn bind_reserved(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let first = (bw_sys::clock::monotonic_ns() / 1000) as usize % RESERVED_PORTS.len();
    let ports = RESERVED_PORTS
        .cycle()
        .skip(first)
        .take(RESERVED_PORTS.len());
    for port in ports {
        match socket.bind(&SocketAddr::new(any, port).into()) {
            Ok(()) => return socket.set_linger(Some(Duration::ZERO)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Starts a connect without waiting for it; the socket is non-blocking and sends without delay. `reserved`: from a port
/// below 1024, if possible.
///
/// # Errors
/// As socket(2), bind(2) and connect(2); a connect in progress is not an error.
pub(crate) fn begin_connect(address: SocketAddr, reserved: bool) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(
        Domain::for_address(address),
        kind,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    if reserved {
        bind_reserved(&socket, address)?;
    }
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Returns `count` connections that were established in parallel.
fn connect_some(address: SocketAddr, count: usize, reserved: bool) -> io::Result<Vec<Socket>> {
    let mut epoll = Epoll::new(count.max(1))?;
    let mut sockets = Vec::with_capacity(count);
    for token in 0..count {
        let socket = begin_connect(address, reserved)?;
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
        // Never 0 for a remainder below a millisecond, because epoll may count in milliseconds.
        let left_ns = left.max(Duration::from_millis(1)).as_nanos();
        epoll.wait(Nanos(u64::try_from(left_ns).unwrap_or(u64::MAX)))?;
        take_connected(&mut epoll, &mut sockets, &mut made)?;
    }
    Ok(made)
}

/// Moves the connected sockets from `sockets` to `made`.
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
        // A connected socket is always writable: stop watching for that, or it is reported again and again.
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
