//! Names and connections before the run: here, and only here, may a call block.
//!
//! Decision: the first of the name's addresses that accepts a connection serves the whole run, so
//! that all operations go to one server. Connects run at most [`PARALLEL`] at a time: a burst of
//! thousands overflows the server's backlog, and lost SYNs come again only after a second.
//! Sources: connect(2), tcp(7), getaddrinfo(3).

use super::Refusal;
use super::epoll::{Epoll, Interest};
use bw_model::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How many connects are under way at once before the run.
pub const PARALLEL: usize = 64;
/// How long one of them may take before the run.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A server: what the user called it, and where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
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
    pub fn resolve(host: &str, port: u16) -> Result<Self, Refusal> {
        let name = format!("{host}:{port}");
        let remedy = "check the name, and the resolver (getent hosts NAME)";
        let addresses: Vec<_> = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let message = format!("{name}: the host has no address: {error}");
                return Err(Refusal::new("host-unknown", message, remedy));
            }
        };
        if addresses.is_empty() {
            let message = format!("{name}: the host has no address");
            return Err(Refusal::new("host-unknown", message, remedy));
        }
        Ok(Self { name, addresses })
    }

    /// Returns `count` connections to the first of the addresses that accepts one.
    ///
    /// # Errors
    /// `connect`: none does, or not so many times.
    pub fn connect(&self, count: u32) -> Result<(SocketAddr, Vec<Socket>), Refusal> {
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
    fn connect_more(&self, address: SocketAddr, count: usize) -> Result<Vec<Socket>, Refusal> {
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
                    return Err(Refusal::new("connect", message, remedy(&error)));
                }
            }
        }
        Ok(sockets)
    }

    fn unreachable(&self, failures: &[(SocketAddr, io::Error)]) -> Refusal {
        let tried: Vec<_> = failures
            .iter()
            .map(|(address, error)| format!("{address}: {}", reason(error)))
            .collect();
        let message = format!("{}: no connection: {}", self.name, tried.join("; "));
        let advice = failures.first().map_or("", |(_, error)| remedy(error));
        Refusal::new("connect", message, advice)
    }
}

/// Begins a connection without waiting for it; the socket never blocks and sends at once.
///
/// # Errors
/// As socket(2) and connect(2), at once; that it is under way is no error.
pub fn begin(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
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
        let socket = begin(address)?;
        epoll.add(socket.as_fd(), Interest::Write, token as u64)?;
        sockets.push(Some(socket));
    }
    let mut made = Vec::with_capacity(count);
    let deadline = Instant::now() + TIMEOUT;
    while made.len() < count {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Never 0 for what is left of a millisecond, where the kernel counts in those.
        let left_ns = left.max(Duration::from_millis(1)).as_nanos();
        epoll.wait(Nanos(u64::try_from(left_ns).unwrap_or(u64::MAX)))?;
        collect(&mut epoll, &mut sockets, &mut made)?;
    }
    Ok(made)
}

/// Moves the sockets that are connected from `sockets` to `made`.
fn collect(
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
        // A connected socket is always writable: it is told again until it is not watched for that.
        epoll.change(socket.as_fd(), Interest::Read, ready.token)?;
        made.push(socket);
    }
    Ok(())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", TIMEOUT.as_secs()),
        _ => error.to_string(),
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => "start the server, or correct the port",
        Some(libc::EMFILE | libc::ENFILE) => {
            "ask for fewer connections, or raise the limit of open files (ulimit -n)"
        }
        Some(libc::EADDRNOTAVAIL) => {
            "wait until closed connections have left TIME_WAIT, or ask for fewer connections"
        }
        _ => "check the address, the route and the server",
    }
}
