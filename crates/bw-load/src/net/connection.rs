//! One connection: its transport, its state, and the bytes that a [`Protocol`] wants to send on it.
//!
//! Names are resolved and connections established before the run: only this code may block.
//!
//! Decision: the first address of the name that accepts a connection serves the whole run, so
//! all operations go to one server; of UDP the first to which there is a route. At most [`PARALLEL`] connects run at a time: a burst of
//! thousands overflows the server's backlog, and lost SYNs are sent again only after a second.
//! Sources: connect(2), tcp(7), unix(7), getaddrinfo(3).

use crate::net::epoll::{Epoll, Interest};
use crate::net::slot_list::SlotList;
use crate::net::tls::is_later;
use crate::net::tls::settings::TlsSettings;
use crate::net::transport::Transport;
use bw_model::{EngineError, Nanos};
use bw_protocol::Outgoing;
use bw_sys::clock::monotonic_ns;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{IoSlice, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// How many pieces one write has: as many as the frames of 64 KiB of bodies of HTTP/2.
const SLICES: usize = 8;
/// How many writes are made in a row before other connections are served.
const WRITES_AT_ONCE: u32 = 16;
/// How many late datagrams of a socket are read in a row before others are served: as many as ready sockets.
const LATE_READS: u32 = 4;
/// Initial capacity for what a connection sends [bytes]: an ordinary request.
const OUTGOING_BYTES: usize = 1024;

/// How a target uses its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionOptions {
    /// Maximum number of operations in progress on a connection.
    pub outstanding: u32,
    /// After how many operations a connection is closed and established anew; None: never.
    pub requests_per_connection: Option<u64>,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    pub timeout: Option<Nanos>,
}

/// Maximum number of operations in progress on a connection.
const OUTSTANDING: u32 = 65_536;

impl ConnectionOptions {
    /// Returns the options, if their numbers are possible.
    ///
    /// # Errors
    /// `bad-request`: a number is not.
    pub(crate) fn checked(self) -> Result<Self, EngineError> {
        let wrong = |field: &str, what: String| {
            let message = format!("{field}: {what}");
            EngineError::request("bad-request", message, "use another number")
                .about(format!("target.{field}"))
        };
        if !(1..=OUTSTANDING).contains(&self.outstanding) {
            let what = format!("{}: must be 1 to {OUTSTANDING}", self.outstanding);
            return Err(wrong("outstanding", what));
        }
        if self.requests_per_connection == Some(0) {
            let what = "0: must be at least 1".to_owned();
            return Err(wrong("requests_per_connection", what));
        }
        Ok(self)
    }
}

/// A socket of UDP that was replaced. It stays open until the next one is, so that the new one has another port, and what
/// still arrives on it can be counted.
#[derive(Debug)]
struct ReplacedSocket {
    socket: Socket,
    /// The token of its events.
    token: u64,
    /// The answer that has not arrived since.
    owed: Owed,
}

impl ReplacedSocket {
    /// Adds what has arrived to `late`, at most [`LATE_READS`] datagrams: a server that sends without end must not hold the
    /// worker.
    fn read(&mut self, buffer: &mut [u8], late: &mut LateDatagrams) {
        for _ in 0..LATE_READS {
            // An error is that of an operation that has ended.
            if self.socket.read(buffer).is_err() {
                return;
            }
            match std::mem::replace(&mut self.owed, Owed::Nothing) {
                Owed::Counted => late.replies += 1,
                Owed::WarmUp => {}
                Owed::Nothing => late.others += 1,
            }
        }
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    ByServer,
    ByClient,
    /// By this side at the end of the run, with nothing in progress.
    Orderly,
    /// Its operation exceeded the time limit.
    TimedOut {
        is_measured: bool,
    },
}

impl Closing {
    /// Returns the answer that may still arrive.
    pub(crate) fn owed(self) -> Owed {
        match self {
            Self::ByServer | Self::ByClient | Self::Orderly => Owed::Nothing,
            Self::TimedOut { is_measured: true } => Owed::Counted,
            Self::TimedOut { is_measured: false } => Owed::WarmUp,
        }
    }
}

/// The answer of an operation that exceeded the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    Nothing,
    /// Of a measured operation.
    Counted,
    /// Of an operation of the warm-up.
    WarmUp,
}

/// What arrived on sockets that were replaced [datagrams].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateDatagrams {
    /// Answers after the time limit.
    pub replies: u64,
    pub others: u64,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// The connection is lost, and the next attempt is not due yet.
    Down,
    /// The connection is being established.
    Connecting,
    /// The connection is established; no handshake has begun.
    Connected,
    /// The handshake of the transport is in progress.
    TransportHandshake,
    /// The handshake of the protocol is in progress.
    ProtocolHandshake,
    /// Operations can begin, if there is room.
    Ready,
    /// No operation can begin; the connection is closed when those in progress have ended.
    Closing,
}

/// A connection, the protocol's state, and the operations in progress.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(super) transport: Option<Transport>,
    /// The connection's state.
    pub state: ConnectionState,
    /// How often it was established: distinguishes the events of this socket from those of an earlier one.
    pub generation: u32,
    /// Whether it has carried a whole exchange since it was established.
    pub proven: bool,
    /// Whether it is in the queue of connections with room (it may have none any more).
    pub queued: bool,
    /// Whether the next flush writes.
    pub prepared: bool,
    /// Whether it is in the queue of those that can be read although their socket is not ready.
    pub again: bool,
    /// Whether a write has failed.
    pub unwritable: bool,
    /// The protocol's state.
    pub session: S,
    /// What is to be sent.
    pub out: Outgoing,
    /// Whether the protocol does not know yet that everything was written.
    pub unsent: bool,
    /// The slots of the operations in progress, in the order in which they began.
    pub carried: SlotList,
    /// The last look for ready sockets before something happened on it.
    pub seen: u64,
    /// When a read had left nothing [ns]; 0: the last one may have.
    pub emptied_ns: u64,
    /// How many operations have begun since it was established.
    pub begun: u64,
    /// When the connect, or after it the handshake, began.
    pub since_ns: u64,
    /// Whether a handshake was more than nothing.
    pub shook_hands: bool,
    interest: Interest,
    /// Of UDP: the socket before this one.
    replaced: Option<ReplacedSocket>,
}

impl<S> Connection<S> {
    /// Returns an established connection.
    pub(crate) fn new(transport: Transport, session: S) -> Self {
        let copied = transport.copied_bytes();
        Self {
            transport: Some(transport),
            state: ConnectionState::Connected,
            generation: 0,
            proven: false,
            queued: false,
            prepared: false,
            again: false,
            unwritable: false,
            session,
            out: Outgoing::with_capacity(OUTGOING_BYTES).copying(copied),
            unsent: false,
            carried: SlotList::default(),
            seen: 0,
            emptied_ns: 0,
            begun: 0,
            since_ns: 0,
            shook_hands: false,
            interest: Interest::Read,
            replaced: None,
        }
    }

    /// Returns the token of its socket's events: generation and `index`.
    pub(crate) fn token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }

    /// Returns whether something is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.out.is_empty() || self.transport.as_ref().is_some_and(Transport::wants_write)
    }

    /// Returns whether the socket is watched for room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.interest == Interest::ReadWrite
    }

    /// Returns whether a read succeeds or fails although the socket is not ready.
    pub(crate) fn is_buffered(&self) -> bool {
        self.transport.as_ref().is_some_and(Transport::is_buffered)
    }

    /// Watches the socket, which is not in `epoll` yet.
    pub(crate) fn watch(
        &mut self,
        epoll: &Epoll,
        interest: Interest,
        index: u32,
    ) -> io::Result<()> {
        self.interest = interest;
        match &self.transport {
            Some(transport) => epoll.add(transport.socket().as_fd(), interest, self.token(index)),
            None => Ok(()),
        }
    }

    /// Watches the socket for bytes, and for room only while something is to be written.
    pub(crate) fn rewatch(&mut self, epoll: &Epoll, index: u32) -> io::Result<()> {
        let interest = if self.is_unfinished() {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        if std::mem::replace(&mut self.interest, interest) == interest {
            return Ok(());
        }
        match &self.transport {
            Some(transport) => {
                epoll.change(transport.socket().as_fd(), interest, self.token(index))
            }
            None => Ok(()),
        }
    }

    /// Continues the handshake of the transport; returns whether it is complete, or there is none.
    ///
    /// # Errors
    /// The negative errno of the handshake.
    pub(crate) fn handshake(&mut self) -> Result<bool, i32> {
        let transport = self.transport.as_mut().ok_or(-libc::ENOTCONN)?;
        transport.handshake().map_err(|error| negative(&error))
    }

    /// Returns the transport; None while the connection is down.
    pub(crate) fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Writes as much as the kernel accepts, and adds it to `sent_bytes`; returns whether that is all.
    ///
    /// # Errors
    /// The negative errno of a connection that failed.
    pub(crate) fn write(&mut self, sent_bytes: &mut u64) -> Result<bool, i32> {
        let transport = self.transport.as_mut().ok_or(-libc::ENOTCONN)?;
        for _ in 0..WRITES_AT_ONCE {
            if self.out.is_empty() && !transport.wants_write() {
                return Ok(true);
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            match transport.write(self.out.gather(&mut slices)) {
                Ok(written) => {
                    self.out.written(written);
                    *sent_bytes += written as u64;
                }
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(negative(&error)),
            }
        }
        Ok(!self.is_unfinished())
    }

    /// Returns whether nothing is in progress, and an end can be announced.
    fn is_idle(&self) -> bool {
        let established = matches!(
            self.state,
            ConnectionState::Ready | ConnectionState::Closing
        );
        established && self.carried.is_empty() && !self.is_unfinished() && !self.unwritable
    }

    /// Announces that this side closes the connection, if nothing is in progress on it; returns whether it has. `put` puts
    /// what the protocol has for that. What the kernel does not accept at once is left out.
    pub(crate) fn announce_end(
        &mut self,
        put: impl FnOnce(&mut S, &mut Outgoing),
        sent_bytes: &mut u64,
    ) -> bool {
        if !self.is_idle() {
            return false;
        }
        put(&mut self.session, &mut self.out);
        let is_whole = matches!(self.write(sent_bytes), Ok(true));
        if let Some(transport) = self.transport.as_mut().filter(|_| is_whole) {
            transport.announce_end();
        }
        is_whole
    }

    /// Reads one piece; returns its length, 0 at the end, or None if there is nothing at the moment.
    ///
    /// # Errors
    /// The negative errno of a connection that failed.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, i32> {
        let transport = self.transport.as_mut().ok_or(-libc::ENOTCONN)?;
        match transport.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if is_later(&error) => Ok(None),
            Err(error) => Err(negative(&error)),
        }
    }

    /// Returns the outcome of a connect; the errno if it failed.
    pub(crate) fn outcome(&self) -> Result<(), i32> {
        let transport = self.transport.as_ref().ok_or(-libc::ENOTCONN)?;
        match transport.socket().take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(negative(&error)),
        }
    }

    /// Sets the socket of UDP aside, which the next one replaces; `owed`: the answer to what was sent on it. Adds what has
    /// arrived on the one before to `late`.
    pub(crate) fn set_aside(
        &mut self,
        (epoll, index): (&Epoll, u32),
        owed: Owed,
        buffer: &mut [u8],
        late: &mut LateDatagrams,
    ) -> io::Result<()> {
        let token = self.token(index);
        // A datagram that waits for room is not sent any more.
        let owed = if self.out.is_empty() {
            owed
        } else {
            Owed::Nothing
        };
        self.out.clear();
        self.rewatch(epoll, index)?;
        if let Some(Transport::Plain(plain)) = self.transport.take() {
            let replaced = ReplacedSocket {
                socket: plain.into_socket(),
                token,
                owed,
            };
            if let Some(mut before) = self.replaced.replace(replaced) {
                before.read(buffer, late);
            }
        }
        Ok(())
    }

    /// Reads the replaced socket if it has this token; adds what has arrived to `late`.
    pub(crate) fn read_replaced(
        &mut self,
        token: u64,
        buffer: &mut [u8],
        late: &mut LateDatagrams,
    ) {
        let replaced = self.replaced.as_mut();
        if let Some(replaced) = replaced.filter(|one| one.token == token) {
            replaced.read(buffer, late);
        }
    }

    /// Closes the socket. If we close first, it sends a reset: otherwise a local port would stay in TIME_WAIT for a
    /// minute, and a server that closes after each answer would exhaust the ports. In an orderly close an end precedes the
    /// reset, and the server reads that; but a server on this machine that ends its side between the two leaves a port in
    /// TIME_WAIT, so it is not done during a run.
    pub(crate) fn close(&mut self, closing: Closing) {
        if let Some(transport) = self.transport.take()
            && closing != Closing::ByServer
        {
            transport.reset_on_close();
            if closing == Closing::Orderly {
                transport.end_sending();
            }
        }
        self.state = ConnectionState::Down;
        self.out.clear();
        self.unsent = false;
        self.prepared = false;
        self.again = false;
        self.unwritable = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Starts a reconnection.
    ///
    /// # Errors
    /// The negative errno of a connect that failed at once.
    pub(crate) fn reconnect(
        &mut self,
        address: &Address,
        reserved_port: bool,
        tls: Option<&TlsSettings>,
    ) -> Result<(), i32> {
        let transport =
            begin_connect(address, reserved_port).and_then(|socket| Transport::new(socket, tls));
        self.transport = Some(transport.map_err(|error| negative(&error))?);
        self.state = ConnectionState::Connecting;
        self.proven = false;
        self.shook_hands = false;
        self.begun = 0;
        Ok(())
    }
}

/// Returns the negative errno of an error.
pub(crate) fn negative(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Maximum number of connects in progress before the run.
pub(crate) const PARALLEL: usize = 64;
/// Time limit of one connect before the run.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address of IP and a port of TCP.
    Ip(SocketAddr),
    /// An address of IP and a port of UDP.
    Udp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns whether operations are datagrams.
    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) | Self::Udp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// A server: its name and its addresses, and how connections to it are used.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// `host:port`, as the user wrote it, or `unix:` and a path.
    pub name: String,
    /// Its addresses, the preferred one first; never empty.
    pub addresses: Vec<Address>,
    /// Whether connections come from a port below 1024, if this process may use one.
    pub reserved_port: bool,
    /// TLS of the connections; None: none.
    pub tls: Option<TlsSettings>,
}

/// Connections that were established before the run.
#[derive(Debug)]
pub(crate) struct Established {
    /// The address of all of them.
    pub address: Address,
    pub sockets: Vec<Socket>,
    /// How long each connect took [ns].
    pub connect_ns: Vec<u64>,
    pub tls: Option<TlsSettings>,
}

impl Endpoint {
    /// Returns the server at a Unix socket, or without one at a host's port.
    ///
    /// # Errors
    /// `unix-socket`: the path is none that a socket can have; as [`Self::resolve`].
    pub(crate) fn find(
        host: &str,
        port: u16,
        unix_socket: Option<&Path>,
    ) -> Result<Self, EngineError> {
        let Some(path) = unix_socket else {
            return Self::resolve(host, port);
        };
        let address = Address::Unix(path.to_owned());
        let name = address.to_string();
        if let Err(error) = SockAddr::unix(path) {
            let message = format!("{name}: no path of a Unix socket: {error}");
            let remedy = "give a path of 1 to 107 bytes";
            return Err(
                EngineError::request("unix-socket", message, remedy).about("target.unix_socket")
            );
        }
        Ok(Self {
            name,
            addresses: vec![address],
            reserved_port: false,
            tls: None,
        })
    }

    /// Returns the addresses of a host name or of an address (an IPv6 one without brackets).
    ///
    /// # Errors
    /// `host-unknown`: the name has no address.
    pub(crate) fn resolve(host: &str, port: u16) -> Result<Self, EngineError> {
        let name = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let remedy = "check the name, and the resolver (getent hosts NAME)";
        let addresses: Vec<_> = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses.map(Address::Ip).collect(),
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
            tls: None,
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

    /// Returns the same server at its ports of UDP instead of TCP.
    #[must_use]
    pub(crate) fn with_datagrams(mut self) -> Self {
        for address in &mut self.addresses {
            if let Address::Ip(ip) = address {
                *address = Address::Udp(*ip);
            }
        }
        self
    }

    /// Returns the same server, whose connections use TLS if there are settings for it.
    #[must_use]
    pub(crate) fn with_tls(self, tls: Option<TlsSettings>) -> Self {
        Self { tls, ..self }
    }

    /// Returns `count` connections to the first of the addresses that accepts one.
    ///
    /// # Errors
    /// `connect`: no address accepts `count` connections.
    pub(crate) fn connect(&self, count: u32) -> Result<Established, EngineError> {
        let mut failures = Vec::new();
        for address in &self.addresses {
            match connect_some(address, 1, self.reserved_port) {
                Ok(mut made) => {
                    let more = count.saturating_sub(1) as usize;
                    made.extend(self.connect_more(address, more)?);
                    let (sockets, connect_ns) = made.into_iter().unzip();
                    return Ok(Established {
                        address: address.clone(),
                        sockets,
                        connect_ns,
                        tls: self.tls.clone(),
                    });
                }
                Err(error) => failures.push((address, error)),
            }
        }
        Err(self.unreachable(&failures))
    }

    /// Returns the connections after the first, established in groups.
    fn connect_more(&self, address: &Address, count: usize) -> Result<Vec<Made>, EngineError> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let group = (count - all.len()).min(PARALLEL);
            match connect_some(address, group, self.reserved_port) {
                Ok(more) => all.extend(more),
                Err(error) => {
                    let made = all.len() + 1;
                    let wanted = count + 1;
                    let message = format!(
                        "{}: not all of {wanted} connections could be made, {made} or more could: {address}: {}",
                        self.name,
                        reason(&error)
                    );
                    return Err(EngineError::request("connect", message, remedy(&error)));
                }
            }
        }
        Ok(all)
    }

    fn unreachable(&self, failures: &[(&Address, io::Error)]) -> EngineError {
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
    let first = (monotonic_ns() / 1000) as usize % RESERVED_PORTS.len();
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
/// As socket(2), bind(2) and connect(2); a connect in progress is not an error. EAGAIN: the queue of a Unix socket is
/// full.
pub(crate) fn begin_connect(target: &Address, reserved: bool) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let (socket, address) = match target {
        Address::Ip(address) => {
            let protocol = Some(socket2::Protocol::TCP);
            let socket = Socket::new(Domain::for_address(*address), kind, protocol)?;
            socket.set_tcp_nodelay(true)?;
            if reserved {
                bind_reserved(&socket, *address)?;
            }
            (socket, SockAddr::from(*address))
        }
        Address::Udp(address) => {
            let kind = Type::DGRAM.nonblocking();
            let protocol = Some(socket2::Protocol::UDP);
            let socket = Socket::new(Domain::for_address(*address), kind, protocol)?;
            (socket, SockAddr::from(*address))
        }
        Address::Unix(path) => (
            Socket::new(Domain::UNIX, kind, None)?,
            SockAddr::unix(path)?,
        ),
    };
    match socket.connect(&address) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        // It would answer itself. While it is open, the next one has another port.
        _ if is_itself(&socket, &address) => begin_connect(target, reserved),
        _ => Ok(socket),
    }
}

/// Returns whether a socket is connected to itself: its peer has the port that the kernel chose for it.
fn is_itself(socket: &Socket, peer: &SockAddr) -> bool {
    let local = socket.local_addr().ok().and_then(|one| one.as_socket());
    local.is_some() && local == peer.as_socket()
}

/// Pause before another attempt at a Unix socket whose queue is full: connect(2) does not wait for room in it.
const QUEUE_PAUSE: Duration = Duration::from_millis(1);

/// An established connection, and how long its connect took [ns].
type Made = (Socket, u64);

/// Returns `count` connections that were established in parallel.
fn connect_some(address: &Address, count: usize, reserved: bool) -> io::Result<Vec<Made>> {
    let mut epoll = Epoll::new(count.max(1))?;
    let mut sockets = Vec::with_capacity(count);
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    while sockets.len() < count {
        let began_ns = monotonic_ns();
        let socket = match begin_connect(address, reserved) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                std::thread::sleep(QUEUE_PAUSE);
                continue;
            }
            begun => begun?,
        };
        epoll.add(socket.as_fd(), Interest::Write, sockets.len() as u64)?;
        sockets.push(Some((socket, began_ns)));
    }
    let mut made = Vec::with_capacity(count);
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
    sockets: &mut [Option<Made>],
    made: &mut Vec<Made>,
) -> io::Result<()> {
    let now_ns = monotonic_ns();
    while let Some(ready) = epoll.take() {
        let place = usize::try_from(ready.token).unwrap_or(usize::MAX);
        let Some((socket, began_ns)) = sockets.get_mut(place).and_then(Option::take) else {
            continue;
        };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // A connected socket is always writable: stop watching for that, or it is reported again and again.
        epoll.change(socket.as_fd(), Interest::Read, ready.token)?;
        made.push((socket, now_ns.saturating_sub(began_ns)));
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
        Some(libc::ENOENT) => "start the server, or correct the path",
        Some(libc::EMFILE | libc::ENFILE) => {
            "use fewer connections, or raise the limit of open files (ulimit -n)"
        }
        Some(libc::EADDRNOTAVAIL) => {
            "wait until closed connections have left TIME_WAIT, or use fewer connections"
        }
        _ => "check the address, the route and the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_whose_peer_is_its_own_address_is_known() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        for kind in [Type::DGRAM, Type::STREAM] {
            let [own, other] = [(), ()].map(|()| {
                let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
                socket.bind(&any.into()).unwrap();
                socket
            });
            let peer = own.local_addr().unwrap();
            // A stream connects to itself too: both ends open at once.
            own.connect(&peer).unwrap();
            assert!(is_itself(&own, &peer));
            assert!(!is_itself(&other, &peer));
        }
        let local = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        assert!(!is_itself(&local, &SockAddr::unix("/tmp/none").unwrap()));
    }

    #[test]
    fn late_datagrams_are_read_in_turns() {
        let kind = Type::DGRAM.nonblocking();
        let (near, far) = Socket::pair(Domain::UNIX, kind, None).unwrap();
        let mut connection = Connection::new(Transport::new(near, None).unwrap(), ());
        let epoll = Epoll::new(1).unwrap();
        connection.watch(&epoll, Interest::Read, 0).unwrap();
        let (mut buffer, mut late) = ([0; 100], LateDatagrams::default());
        let owed = Owed::Counted;
        connection
            .set_aside((&epoll, 0), owed, &mut buffer, &mut late)
            .unwrap();
        for _ in 0..2 * LATE_READS {
            far.send(b"late").unwrap();
        }
        let token = connection.token(0);
        let mut turn = || {
            connection.read_replaced(token, &mut buffer, &mut late);
            (late.replies, late.others)
        };
        let most = u64::from(LATE_READS);
        assert_eq!(
            [turn(), turn(), turn()],
            [(1, most - 1), (1, 2 * most - 1), (1, 2 * most - 1)]
        );
    }

    #[test]
    fn an_address_of_ipv6_is_named_with_brackets() {
        let endpoint = Endpoint::resolve("::1", 8080).unwrap();
        assert_eq!(endpoint.name, "[::1]:8080");
        assert_eq!(
            Endpoint::resolve("127.0.0.1", 1).unwrap().name,
            "127.0.0.1:1"
        );
    }
}
