//! The connections of a target, and the life of each: connect, time limit, handshake, loss, the next attempt.
//!
//! Whoever uses them ([`Pool`](crate::net::pool::Pool), the pipeline of NFS) decides what is sent, what a handshake is, and what
//! the loss of a connection means for operations.
//!
//! Decisions. A lost connection is reestablished at once if it has carried a whole exchange, otherwise after [`RETRY_NS`],
//! so a server that is down or refuses all clients is not flooded. Connect and handshake have [`CONNECT_TIMEOUT`] each.

use crate::net::connection::{
    Address, CONNECT_TIMEOUT, Closing, Connection, ConnectionState, Established, LateDatagrams,
};
use crate::net::epoll::{Epoll, Interest, ReadySocket};
use crate::net::slot_list::Timeouts;
use crate::net::tls::settings::TlsSettings;
use crate::net::transport::Transport;
use crate::target::{Awaited, Background, Reaped};
use bw_model::Nanos;
use bw_protocol::Outgoing;
use bw_record::histogram::Histogram;
use bw_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::io;
use std::ops::{Index, IndexMut};

/// Maximum number of ready sockets that one wait returns.
const READY: usize = 32;
/// Maximum size of one read [bytes]: more than any datagram has.
const BUFFER_BYTES: usize = 64 * 1024;
/// Delay before another attempt at a connection that failed, or that carried no whole exchange.
const RETRY_NS: u64 = 50_000_000;

/// A connection on which nothing had arrived so long ago is not read before it is used: about what that read takes after a
/// sleep [ns].
const QUIET_NS: u64 = 20_000;

/// What was sent, received and established so far, without the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Reconnections.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Of UDP: what arrived on sockets that were replaced.
    pub late: LateDatagrams,
}

/// What an attempt to establish a connection has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It goes on, or is due later.
    InProgress,
    /// The socket is connected: a handshake can begin.
    Connected,
    /// It failed with this negative errno; the user calls [`Connections::fail`].
    Failed(i32),
}

/// What has happened to a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Attempt(u32, Attempt),
    /// Its socket is ready, or it can be read although the socket is not.
    Ready(u32, ReadySocket),
}

/// The connections. See the module's description.
#[derive(Debug)]
pub(crate) struct Connections<S> {
    address: Address,
    tls: Option<TlsSettings>,
    reserved_port: bool,
    all: Vec<Connection<S>>,
    epoll: Epoll,
    /// Tokens of the connections that can be read although their socket is not ready.
    again: VecDeque<u64>,
    /// The connections that are being established, or whose handshake is in progress.
    limits: Timeouts,
    /// Connections that are down, and when each is tried again [ns], the earliest first.
    retries: VecDeque<(u64, u32)>,
    /// How often ready sockets were looked for, and when the last time [ns].
    looks: u64,
    looked_ns: u64,
    buffer: Box<[u8]>,
    connect_times: Histogram,
    /// Operations that have ended, and that the worker has not taken.
    pub ended: VecDeque<Reaped>,
    /// Whether the run has not begun: what is established is no reconnection.
    pub before_run: bool,
    pub traffic: Traffic,
}

impl<S> Connections<S> {
    /// Returns the connections on these sockets, each with a session of the user's and this number of operations
    /// at a time.
    pub(crate) fn new(
        established: Established,
        reserved_port: bool,
        outstanding: usize,
        session: impl Fn() -> S,
    ) -> io::Result<Self> {
        let size = established.sockets.len();
        let tls = established.tls;
        let all = established.sockets.into_iter().map(|socket| {
            let transport = Transport::new(socket, tls.as_ref())?;
            Ok(Connection::new(transport, session()))
        });
        let mut connect_times = Histogram::new();
        if !established.address.is_datagram() {
            for ns in established.connect_ns {
                connect_times.record(ns);
            }
        }
        let mut connections = Self {
            all: all.collect::<io::Result<Vec<_>>>()?,
            address: established.address,
            tls,
            reserved_port,
            epoll: Epoll::new(READY)?,
            again: VecDeque::with_capacity(size),
            limits: Timeouts::new(Some(Nanos(CONNECT_TIMEOUT.as_nanos() as u64)), size),
            retries: VecDeque::with_capacity(size),
            looks: 0,
            looked_ns: 0,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            connect_times,
            ended: VecDeque::with_capacity(size * outstanding),
            before_run: true,
            traffic: Traffic::default(),
        };
        for (index, connection) in (0..).zip(&mut connections.all) {
            connection.watch(&connections.epoll, Interest::Read, index)?;
        }
        Ok(connections)
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns how long the connects took [ns], from the first to the connected socket.
    pub(crate) fn connect_times(&self) -> &Histogram {
        &self.connect_times
    }

    /// Writes as much as the kernel accepts; returns whether that is all.
    ///
    /// # Errors
    /// The negative errno of a connection that failed.
    pub(crate) fn write(&mut self, index: u32) -> Result<bool, i32> {
        self.all[index as usize].write(&mut self.traffic.sent_bytes)
    }

    /// Watches the socket for bytes, and for room only while something is to be written.
    pub(crate) fn rewatch(&mut self, index: u32) -> io::Result<()> {
        self.all[index as usize].rewatch(&self.epoll, index)
    }

    /// Reads one piece; returns its length, 0 at the end, or None if there is nothing at the moment.
    ///
    /// # Errors
    /// The negative errno of a connection that failed.
    pub(crate) fn read(&mut self, index: u32) -> Result<Option<usize>, i32> {
        self.all[index as usize].seen = self.looks;
        let connection = &mut self.all[index as usize];
        let length = connection.read(&mut self.buffer)?;
        let is_empty = connection.transport().is_some_and(Transport::is_empty);
        connection.emptied_ns = if is_empty { monotonic_ns() } else { 0 };
        self.traffic.received_bytes += length.unwrap_or(0) as u64;
        Ok(length)
    }

    /// Returns the connection, and the buffer that begins with what was read last.
    pub(crate) fn with_buffer(&mut self, index: u32) -> (&mut Connection<S>, &[u8]) {
        (&mut self.all[index as usize], &self.buffer)
    }

    /// Notes that a connection can be read although its socket is not ready, if that is so.
    pub(crate) fn note_buffered(&mut self, index: u32) {
        let connection = &mut self.all[index as usize];
        if connection.is_buffered() && !std::mem::replace(&mut connection.again, true) {
            self.again.push_back(connection.token(index));
        }
    }

    /// Takes the buffer out, with what was read last, until [`Self::give_buffer`].
    pub(crate) fn take_buffer(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.buffer)
    }

    /// Gives the buffer back.
    pub(crate) fn give_buffer(&mut self, buffer: Box<[u8]>) {
        self.buffer = buffer;
    }
}

impl<S> Index<u32> for Connections<S> {
    type Output = Connection<S>;

    #[inline]
    fn index(&self, index: u32) -> &Connection<S> {
        &self.all[index as usize]
    }
}

impl<S> IndexMut<u32> for Connections<S> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Connection<S> {
        &mut self.all[index as usize]
    }
}

/// What happens, and waiting for it.
impl<S> Connections<S> {
    /// Looks for ready sockets, if none is known.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        if self.again.is_empty() && self.epoll.ready() == 0 {
            self.looks += 1;
            self.looked_ns = monotonic_ns();
            self.epoll.wait(Nanos::ZERO)?;
        }
        Ok(())
    }

    /// Returns whether nothing had arrived on an idle connection just now: its last read has left nothing, no end either, or a
    /// look after it has found nothing.
    pub(crate) fn is_quiet(&self, index: u32) -> bool {
        let connection = &self.all[index as usize];
        // What was found and not served may be its, and so may what a full buffer left out.
        let is_known = self.again.is_empty() && self.epoll.ready() == 0 && !self.epoll.was_full();
        let mut quiet_ns = connection.emptied_ns;
        if is_known && connection.seen < self.looks {
            quiet_ns = quiet_ns.max(self.looked_ns);
        }
        quiet_ns > 0 && monotonic_ns().saturating_sub(quiet_ns) < QUIET_NS
    }

    /// Returns what has happened to the next connection that was found.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let again = self.again.pop_front().map(|token| ReadySocket {
                token,
                writable: false,
                readable: true,
            });
            let ready = again.or_else(|| self.epoll.take())?;
            let index = ready.token as u32;
            let connection = &mut self.all[index as usize];
            // One of an earlier connection counts only if datagrams still arrive on it.
            if connection.token(index) != ready.token {
                let late = &mut self.traffic.late;
                connection.read_replaced(ready.token, &mut self.buffer, late);
                continue;
            }
            connection.again = false;
            connection.seen = self.looks;
            return match connection.state {
                // What the server sends first waits until the handshake's turn.
                ConnectionState::Down | ConnectionState::Connected => continue,
                ConnectionState::Connecting => Some(Event::Attempt(index, self.outcome(index))),
                _ => Some(Event::Ready(index, ready)),
            };
        }
    }

    /// Returns what a connect has come to.
    fn outcome(&mut self, index: u32) -> Attempt {
        let connection = &mut self.all[index as usize];
        if let Err(errno) = connection.outcome() {
            return Attempt::Failed(errno);
        }
        let took_ns = monotonic_ns().saturating_sub(connection.since_ns);
        self.connect_times.record(took_ns);
        connection.state = ConnectionState::Connected;
        Attempt::Connected
    }

    /// Returns whether a connection is down or being established: then [`Self::due`] may have something.
    #[inline]
    pub(crate) fn is_any_down(&self) -> bool {
        !self.retries.is_empty() || self.limits.first().is_some()
    }

    /// Returns a connection that has exceeded its limit, or whose next attempt was due and has begun.
    pub(crate) fn due(&mut self, now_ns: u64) -> io::Result<Option<(u32, Attempt)>> {
        if let Some((index, due_ns)) = self.limits.first()
            && due_ns <= now_ns
        {
            return Ok(Some((index, Attempt::Failed(-libc::ETIMEDOUT))));
        }
        match self.retries.front() {
            Some(&(due_ns, index)) if due_ns <= now_ns => {
                self.retries.pop_front();
                Ok(Some((index, self.reconnect(index)?)))
            }
            _ => Ok(None),
        }
    }

    /// See [`Target::awaited`](crate::target::Target::awaited); `due_ns`: when the user has something to do.
    pub(crate) fn awaited(&self, due_ns: Option<u64>) -> Awaited {
        let mut at_most = Nanos::ZERO;
        if self.again.is_empty() && self.epoll.ready() == 0 && self.ended.is_empty() {
            let limit = self.limits.first().map(|(_, due_ns)| due_ns);
            let retry = self.retries.front().map(|(due_ns, _)| *due_ns);
            let due_ns = [due_ns, limit, retry].into_iter().flatten().min();
            at_most = due_ns.map_or(Nanos::NEVER, |due_ns| {
                Nanos(due_ns.saturating_sub(monotonic_ns()))
            });
        }
        Awaited {
            descriptor: Some(self.epoll.descriptor()),
            at_most,
        }
    }

    /// See [`Target::background`](crate::target::Target::background): a server may send at any time.
    #[inline]
    pub(crate) fn background(&self) -> Background {
        let is_known = self.epoll.ready() > 0 || !self.again.is_empty() || !self.ended.is_empty();
        if is_known || self.is_any_down() {
            Background::Work
        } else {
            Background::Arrivals
        }
    }

    /// Sleeps until a socket is ready or for [`Self::awaited`], at most for `at_most`; `polls`: operations are in progress.
    pub(crate) fn wait(
        &mut self,
        due_ns: Option<u64>,
        at_most: Nanos,
        polls: bool,
    ) -> io::Result<()> {
        let at_most = at_most.min(self.awaited(due_ns).at_most);
        match at_most {
            Nanos::ZERO => Ok(()),
            // Whether polling finds something is learnt from operations.
            _ if polls => self.epoll.wait_polling(at_most),
            _ => self.epoll.wait(at_most),
        }
    }
}

/// The life of a connection.
impl<S> Connections<S> {
    /// Closes a connection; of UDP its socket is set aside.
    pub(crate) fn close(&mut self, index: u32, closing: Closing) -> io::Result<()> {
        let connection = &mut self.all[index as usize];
        if self.address.is_datagram() {
            connection.set_aside(
                (&self.epoll, index),
                closing.owed(),
                &mut self.buffer,
                &mut self.traffic.late,
            )?;
        }
        connection.close(closing);
        Ok(())
    }

    /// Announces the end of a connection that is closed next. See [`Connection::announce_end`].
    pub(crate) fn announce_end(&mut self, index: u32, put: impl FnOnce(&mut S, &mut Outgoing)) {
        self.all[index as usize].announce_end(put, &mut self.traffic.sent_bytes);
    }

    /// Announces the end of each connection with nothing in progress, and closes all.
    pub(crate) fn end(&mut self, put: impl Fn(&mut S, &mut Outgoing)) {
        for connection in &mut self.all {
            let is_announced = connection.announce_end(&put, &mut self.traffic.sent_bytes);
            connection.close(match is_announced {
                true => Closing::Orderly,
                false => Closing::ByClient,
            });
        }
    }

    /// Closes a connection, and establishes it again: at once, or later if it has carried nothing.
    pub(crate) fn lose(&mut self, index: u32, closing: Closing) -> io::Result<Attempt> {
        self.close(index, closing)?;
        // A socket of UDP costs the server nothing.
        if self.all[index as usize].proven || self.address.is_datagram() {
            return self.reconnect(index);
        }
        self.retries.push_back((monotonic_ns() + RETRY_NS, index));
        Ok(Attempt::InProgress)
    }

    /// Starts to establish a connection that is closed.
    pub(crate) fn reconnect(&mut self, index: u32) -> io::Result<Attempt> {
        let connection = &mut self.all[index as usize];
        let now_ns = monotonic_ns();
        self.limits.start(index, || now_ns);
        connection.since_ns = now_ns;
        let (tls, is_datagram) = (self.tls.as_ref(), self.address.is_datagram());
        if let Err(errno) = connection.reconnect(&self.address, self.reserved_port, tls) {
            return Ok(Attempt::Failed(errno));
        }
        if is_datagram {
            connection.watch(&self.epoll, Interest::Read, index)?;
            return Ok(Attempt::Connected);
        }
        // The outcome is reported as an event, even if it is known already.
        connection.watch(&self.epoll, Interest::Write, index)?;
        Ok(Attempt::InProgress)
    }

    /// Starts the time limit of a handshake; returns its start [ns].
    pub(crate) fn limit_handshake(&mut self, index: u32) {
        let now_ns = monotonic_ns();
        self.limits.start(index, || now_ns);
        self.all[index as usize].since_ns = now_ns;
    }

    /// Notes that operations can begin on a connection.
    pub(crate) fn complete(&mut self, index: u32) {
        self.limits.end(index);
        self.all[index as usize].seen = self.looks;
        self.all[index as usize].state = ConnectionState::Ready;
        self.traffic.reconnects += u64::from(!self.before_run);
    }

    /// Closes a connection whose attempt or handshake failed: the next attempt is due later.
    pub(crate) fn fail(&mut self, index: u32) {
        self.limits.end(index);
        let connection = &mut self.all[index as usize];
        connection.close(match connection.state {
            ConnectionState::Connecting => Closing::ByServer,
            _ => Closing::ByClient,
        });
        self.traffic.failed_connects += 1;
        self.retries.push_back((monotonic_ns() + RETRY_NS, index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connection::Endpoint;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_quiet_only_if_its_last_read_or_a_look_after_it_has_left_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = Endpoint::resolve("127.0.0.1", port).unwrap();
        let mut connections =
            Connections::new(endpoint.connect(1).unwrap(), false, 1, || ()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        connections.complete(0);
        // Whenever the machine stops this test: the look is now.
        let is_quiet = |connections: &mut Connections<()>| {
            connections.looked_ns = u64::MAX;
            connections.is_quiet(0)
        };
        assert!(!is_quiet(&mut connections));
        connections.look().unwrap();
        assert!(is_quiet(&mut connections));
        connections.looked_ns = 0;
        assert!(!connections.is_quiet(0));

        far.write_all(b"xy").unwrap();
        while connections.epoll.ready() == 0 {
            connections.look().unwrap();
        }
        assert!(!is_quiet(&mut connections));
        assert!(matches!(connections.next(), Some(Event::Ready(0, _))));
        assert!(!is_quiet(&mut connections));
        connections.buffer = vec![0; 1].into_boxed_slice();
        assert_eq!(connections.read(0), Ok(Some(1)));
        assert!(!is_quiet(&mut connections));
        assert_eq!(connections.read(0), Ok(Some(1)));
        assert!(connections[0].emptied_ns > 0);
        connections[0].emptied_ns = u64::MAX;
        assert!(is_quiet(&mut connections));
        connections[0].emptied_ns = 1;
        assert!(!is_quiet(&mut connections));
        connections.look().unwrap();
        assert!(is_quiet(&mut connections));
    }
}
