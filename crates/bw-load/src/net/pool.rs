//! The connections of a target: assignment to operations, handshakes, reconnection, and timeouts.
//!
//! An operation goes to the first connection of a queue that has room. With one operation per connection that is the one
//! idle longest; with several (pipelining, streams) the connections take turns, and the operations of one flush go
//! to one connection as far as it has room, so that they share one write, which their stamp precedes directly.
//!
//! Decisions. A lost connection is reestablished at once if it has carried a whole exchange, otherwise after [`RETRY`],
//! so a server that is down or refuses all clients is not flooded. A failed attempt ends the operation that has waited
//! longest, if there is one, with its errno. The time of an operation counts from its submission, so it includes a wait
//! for a connection. An operation that exceeds the limit ends with `-ETIMEDOUT`; unless the protocol can give up
//! one operation alone, its connection is closed and reestablished, since its answer may still arrive, and the other
//! operations on it end with `-ECONNABORTED`. All operations have the same limit, so they expire in the order of
//! their starts: a doubly linked list over the slots is enough, costs the same at any depth and never allocates.
//! Rejected: a timer wheel, which is for limits that differ.
//!
//! The counts have no warm-up: those of operations by the intended start of each, those of connections (bytes,
//! reconnections, what nobody had asked for) from the submission of the first measured operation on. Rejected: all of them by
//! that moment, since what is in flight then would be counted without its operation.

use crate::net::connection::{
    Address, CONNECT_TIMEOUT, Connection, ConnectionOptions, ConnectionState, Established,
    LateDatagrams, Owed, PARALLEL,
};
use crate::net::epoll::{Epoll, Interest, ReadySocket};
use crate::net::tls::TlsDescription;
use crate::net::tls::refusal::Refusal;
use crate::net::tls::settings::TlsSettings;
use crate::net::transport::Transport;
use crate::target::{Awaited, Background, Reaped};
use bw_model::{Kind, Nanos, Operation};
use bw_protocol::{End, MeasuredPart, Protocol, RESEND, SessionState};
use bw_record::histogram::Histogram;
use bw_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Maximum number of ready sockets that one wait returns.
const SLICE: usize = 32;
/// How many of them are served before the worker looks at its schedule again, if no operation ends.
const SERVED: usize = 4;
/// How often an idle connection is read before it is used, as long as something has arrived on it.
const LOOKS: u32 = 4;
/// The carrier of an operation that has no connection yet.
const NOBODY: u32 = u32::MAX;
/// Maximum size of one read [bytes]: more than any datagram has.
const BUFFER_BYTES: usize = 64 * 1024;

/// The counts so far, without the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Reconnections.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Connections that were closed because unrequested bytes arrived on them; of UDP the datagrams on a socket in use for
    /// which no operation waited.
    pub unrequested: u64,
    /// Of UDP: what arrived on sockets that were replaced.
    pub late: LateDatagrams,
    /// Of UDP: errors of the network that arrived when no operation was in progress on their socket.
    pub late_errors: u64,
    /// Operations that exceeded the time limit.
    pub timeouts: u64,
    /// Operations that were sent again because the server announced that it had not processed them.
    pub resent: u64,
}

/// Why a connection could not be prepared before the run.
#[derive(Debug)]
pub(crate) struct HandshakeFailure {
    /// The negative errno, or what the protocol adds to those.
    pub result: i32,
    /// The server's reason.
    pub refusal: Option<String>,
    /// What to do about it.
    pub remedy: Option<&'static str>,
    /// Why there is no TLS.
    pub tls: Option<Refusal>,
}

/// The connections, the operations that wait for one, and the completions not fetched yet.
pub(crate) struct Pool<P: Protocol> {
    protocol: P,
    options: ConnectionOptions,
    address: Address,
    tls: Option<TlsSettings>,
    connections: Vec<Connection<P::Session>>,
    epoll: Epoll,
    /// Connections with room, in turn; `queued` prevents duplicates.
    free: VecDeque<u32>,
    /// Tokens of the connections that the next flush writes; `prepared` prevents duplicates.
    prepared: Vec<u64>,
    /// Tokens of the connections that can be read although their socket is not ready.
    again: VecDeque<u64>,
    /// Slots of operations without a connection.
    waiting: VecDeque<u32>,
    operations: Box<[Operation]>,
    /// Which connection carries the operation of each slot; [`NOBODY`]: it waits for one.
    carriers: Box<[u32]>,
    /// How many operations have begun and not ended.
    in_flight: usize,
    timeouts: Timeouts,
    /// The connections that are being established, or whose handshake is in progress.
    handshakes: Timeouts,
    /// Connections that are down, and when each is tried again, the earliest first.
    retries: VecDeque<(Instant, u32)>,
    /// What the protocol's last step ended.
    ends: Vec<End>,
    ended: VecDeque<Reaped>,
    buffer: Box<[u8]>,
    counts: ConnectionCounts,
    measured: MeasuredPart,
    connect_times: Histogram,
    handshake_times: Histogram,
    /// How many handshakes are complete, before the run.
    complete: usize,
    /// Whether the run has not begun: a failed handshake ends it.
    before_run: bool,
    refused: Option<HandshakeFailure>,
    /// An error that could not be returned where it occurred; the next flush returns it.
    failure: Option<io::Error>,
}

impl<P: Protocol> Pool<P> {
    /// Returns the pool of these connections; call [`Self::shake_hands`] before it is used.
    pub(crate) fn new(
        protocol: P,
        established: Established,
        options: ConnectionOptions,
    ) -> io::Result<Self> {
        let size = established.sockets.len();
        let slots = size * options.outstanding as usize;
        let tls = established.tls;
        let connections = established.sockets.into_iter().map(|socket| {
            let transport = Transport::new(socket, tls.as_ref())?;
            let outstanding = options.outstanding;
            Ok(Connection::new(transport, protocol.session(), outstanding))
        });
        let connections = connections.collect::<io::Result<Vec<_>>>()?;
        let mut connect_times = Histogram::new();
        if !established.address.is_datagram() {
            for ns in established.connect_ns {
                connect_times.record(ns);
            }
        }
        let nothing = Operation {
            at: Nanos::ZERO,
            offset: 0,
            size: 0,
            kind: Kind::Exchange,
            notify: false,
            tag: 0,
        };
        let mut pool = Self {
            protocol,
            options,
            address: established.address,
            tls,
            connections,
            epoll: Epoll::new(SLICE)?,
            free: VecDeque::with_capacity(size),
            prepared: Vec::with_capacity(size),
            again: VecDeque::with_capacity(size),
            waiting: VecDeque::with_capacity(slots),
            operations: vec![nothing; slots].into_boxed_slice(),
            carriers: vec![NOBODY; slots].into_boxed_slice(),
            in_flight: 0,
            timeouts: Timeouts::new(options.timeout, slots),
            handshakes: Timeouts::new(Some(Nanos(CONNECT_TIMEOUT.as_nanos() as u64)), size),
            retries: VecDeque::with_capacity(size),
            ends: Vec::with_capacity(options.outstanding as usize),
            ended: VecDeque::with_capacity(slots),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            counts: ConnectionCounts::default(),
            measured: MeasuredPart::default(),
            connect_times,
            handshake_times: Histogram::new(),
            complete: 0,
            before_run: true,
            refused: None,
            failure: None,
        };
        for (index, connection) in (0..).zip(&mut pool.connections) {
            connection.watch(&pool.epoll, Interest::Read, index)?;
        }
        Ok(pool)
    }

    /// Completes the handshakes of all connections, at most [`PARALLEL`] at a time.
    ///
    /// # Errors
    /// epoll failed; inside: a handshake failed or took longer than [`CONNECT_TIMEOUT`].
    pub(crate) fn shake_hands(&mut self) -> io::Result<Result<(), HandshakeFailure>> {
        let mut begun = 0;
        while self.complete < self.connections.len() {
            while (begun as usize) < self.connections.len()
                && begun as usize - self.complete < PARALLEL
            {
                self.begin_handshake(begun)?;
                begun += 1;
            }
            self.expire()?;
            if let Some(refused) = self.refused.take() {
                return Ok(Err(refused));
            }
            if self.complete == begun as usize {
                continue;
            }
            self.wait(Nanos::NEVER)?;
            while let Some(ready) = self.next_ready() {
                self.react(ready)?;
            }
        }
        self.before_run = false;
        Ok(Ok(()))
    }

    /// Returns how many connections there are.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn size(&self) -> u32 {
        self.connections.len() as u32
    }

    /// Returns how many operations can be in progress.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn capacity(&self) -> u32 {
        self.carriers.len() as u32
    }

    /// Returns how many operations the next flush can hand over with one write.
    #[inline]
    pub(crate) fn batch(&self) -> usize {
        if self.options.outstanding == 1 {
            return 1;
        }
        let mut rooms = self.free.iter().map(|index| self.room(*index));
        rooms.find(|room| *room > 0).unwrap_or(1) as usize
    }

    pub(crate) fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Returns the counts; all zero if nothing was measured.
    pub(crate) fn counts(&self) -> ConnectionCounts {
        if self.measured.is_awaited() {
            return ConnectionCounts::default();
        }
        self.counts
    }

    /// See [`Target::measure_from`](crate::target::Target::measure_from).
    pub(crate) fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
        self.protocol.measure_from(from);
    }

    /// Returns whether the operation of a slot is measured.
    fn is_measured(&self, slot: u32) -> bool {
        self.measured.has(&self.operations[slot as usize])
    }

    /// Returns how long the connects took [ns], from the first to the connected socket.
    pub(crate) fn connect_times(&self) -> &Histogram {
        &self.connect_times
    }

    /// Returns how long the handshakes took [ns], from the connected socket to the first operation.
    pub(crate) fn handshake_times(&self) -> &Histogram {
        &self.handshake_times
    }

    /// Returns what the first connection agreed on with the server, once its handshake is complete; None without TLS.
    pub(crate) fn tls(&self) -> Option<TlsDescription> {
        let transport = self.connections.first()?.transport()?;
        transport.describe_tls()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Assigns the operation to a connection, or queues it.
    pub(crate) fn submit(&mut self, slot: u32, operation: &Operation) {
        self.in_flight += 1;
        if operation.kind != Kind::Exchange {
            return self.end(slot, -libc::EOPNOTSUPP);
        }
        if self.measured.begins_with(operation) {
            self.counts = ConnectionCounts::default();
        }
        self.timeouts.start(slot, monotonic_ns);
        self.carriers[slot as usize] = NOBODY;
        self.operations[slot as usize] = *operation;
        let Some(index) = self.take_free() else {
            return self.waiting.push_back(slot);
        };
        if self.assign(index, slot) {
            let connection = self.connection(index);
            if !std::mem::replace(&mut connection.prepared, true) {
                let token = connection.token(index);
                self.prepared.push(token);
            }
        }
        // In front: the next operation of this flush shares its write.
        if self.room(index) > 0 {
            self.connection(index).queued = true;
            self.free.push_front(index);
        }
    }

    /// Writes the prepared requests, as far as the kernel accepts them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for place in 0..self.prepared.len() {
            let token = self.prepared[place];
            let index = index_of(token);
            let connection = self.connection(index);
            // The connection may have been lost since, and then carries other operations or none.
            if connection.token(index) == token {
                connection.prepared = false;
                if self.free.front() == Some(&index) {
                    self.free.rotate_left(1);
                }
                self.write(index)?;
            }
        }
        self.prepared.clear();
        self.dispatch()
    }

    /// Moves completions to `ends`; does a slice of work if there are none yet.
    pub(crate) fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let mut room = ends.capacity() - ends.len();
        if self.ended.is_empty() && room > 0 {
            self.work()?;
        }
        while room > 0
            && let Some(end) = self.ended.pop_front()
        {
            ends.push(end);
            room -= 1;
        }
        Ok(())
    }

    /// See [`Target::awaited`](crate::target::Target::awaited).
    pub(crate) fn awaited(&self) -> Awaited {
        let mut at_most = Nanos::ZERO;
        if self.ended.is_empty() && self.again.is_empty() && self.epoll.ready() == 0 {
            at_most = self.until_expiry();
            if let Some((due, _)) = self.retries.front() {
                let left = due.saturating_duration_since(Instant::now());
                at_most = at_most.min(Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)));
            }
        }
        Awaited {
            descriptor: Some(self.epoll.descriptor()),
            at_most,
        }
    }

    /// See [`Target::background`](crate::target::Target::background): a server may send at any time.
    #[inline]
    pub(crate) fn background(&self) -> Background {
        let is_ready = self.epoll.ready() > 0 || !self.again.is_empty() || !self.ended.is_empty();
        if is_ready || !self.retries.is_empty() || self.handshakes.first().is_some() {
            Background::Work
        } else {
            Background::Arrivals
        }
    }

    /// Sleeps until a socket is ready, an attempt is due or `at_most` has passed.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let at_most = at_most.min(self.awaited().at_most);
        match (at_most, self.in_flight) {
            (Nanos::ZERO, _) => Ok(()),
            // Whether polling finds something is learnt from operations.
            (_, 0) => self.epoll.wait(at_most),
            _ => self.epoll.wait_polling(at_most),
        }
    }

    /// Serves the ready sockets, the attempts and the time limits that are due. It stops when an operation
    /// ends, so that the end is stamped, and the operations it triggers are issued, before other sockets are read.
    fn work(&mut self) -> io::Result<()> {
        self.expire()?;
        if !self.retries.is_empty() {
            self.retry()?;
        }
        // An operation that was given up may have made room.
        self.dispatch()?;
        if self.again.is_empty() && self.epoll.ready() == 0 {
            self.epoll.wait(Nanos::ZERO)?;
        }
        for _ in 0..SERVED {
            if !self.ended.is_empty() {
                break;
            }
            let Some(ready) = self.next_ready() else {
                break;
            };
            self.react(ready)?;
            self.dispatch()?;
        }
        Ok(())
    }

    /// Returns the next connection that can be served.
    fn next_ready(&mut self) -> Option<ReadySocket> {
        let again = self.again.pop_front().map(|token| ReadySocket {
            token,
            writable: false,
            readable: true,
        });
        again.or_else(|| self.epoll.take())
    }

    /// Serves a ready socket; one of an earlier connection only if datagrams still arrive on it.
    fn react(&mut self, ready: ReadySocket) -> io::Result<()> {
        let index = index_of(ready.token);
        let connection = &mut self.connections[index as usize];
        if connection.token(index) != ready.token {
            connection.read_replaced(ready.token, &mut self.buffer, &mut self.counts.late);
            return Ok(());
        }
        connection.again = false;
        match connection.state {
            // What the server sends first waits until the handshake's turn.
            ConnectionState::Down | ConnectionState::Connected => return Ok(()),
            ConnectionState::Connecting => {
                return match connection.outcome() {
                    Ok(()) => self.connected(index),
                    Err(errno) => {
                        self.not_connected(index, errno);
                        Ok(())
                    }
                };
            }
            ConnectionState::TransportHandshake => return self.continue_handshake(index),
            ConnectionState::ProtocolHandshake
            | ConnectionState::Ready
            | ConnectionState::Closing => {}
        }
        // A response may arrive while the request is still being written.
        if ready.readable {
            self.read(index)?;
        }
        let connection = self.connection(index);
        if ready.writable && connection.token(index) == ready.token && connection.is_unfinished() {
            self.write(index)?;
        }
        Ok(())
    }

    /// Writes what the connection has to send, as far as the kernel accepts it.
    fn write(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        connection.unsent |= !connection.out.is_empty();
        let whole = match connection.write(&mut self.counts.sent_bytes) {
            Ok(whole) => whole,
            Err(errno) => return self.fail_write(index, errno),
        };
        if whole {
            self.protocol
                .more(&mut connection.session, &mut connection.out);
        }
        connection.rewatch(&self.epoll, index)?;
        // What there is more is written when the socket has room, after other connections.
        if connection.is_unfinished() || !std::mem::replace(&mut connection.unsent, false) {
            return Ok(());
        }
        let state = self.protocol.sent(&mut connection.session, &mut self.ends);
        self.take_ends(index, true);
        self.settle(index, state, false)
    }

    /// Handles a write that failed. What has arrived may say which operations the server has processed (a response) and
    /// which it has not (GOAWAY), so it is read before the others end.
    fn fail_write(&mut self, index: u32, errno: i32) -> io::Result<()> {
        let connection = self.connection(index);
        let token = connection.token(index);
        if connection.state != ConnectionState::ProtocolHandshake {
            connection.unwritable = true;
            while self.connection(index).token(index) == token && self.read(index)? {}
        }
        if self.connection(index).token(index) == token {
            self.break_off(index, errno, false)?;
        }
        Ok(())
    }

    /// Reads one piece; returns whether there was one, or the end.
    fn read(&mut self, index: u32) -> io::Result<bool> {
        let connection = &mut self.connections[index as usize];
        let length = match connection.read(&mut self.buffer) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(false),
            Err(errno) => {
                let is_late = connection.carried.is_empty() && self.address.is_datagram();
                self.counts.late_errors += u64::from(is_late);
                self.break_off(index, errno, false)?;
                return Ok(true);
            }
        };
        if length == 0 && !self.address.is_datagram() {
            if matches!(
                connection.state,
                ConnectionState::Ready | ConnectionState::Closing
            ) {
                self.protocol
                    .closed(&mut connection.session, &mut self.ends);
                self.take_ends(index, false);
            }
            self.break_off(index, -libc::ECONNRESET, true)?;
            return Ok(true);
        }
        self.counts.received_bytes += length as u64;
        let token = connection.token(index);
        let greets = connection.state == ConnectionState::ProtocolHandshake;
        let idle = connection.carried.is_empty() && !greets;
        let state = self.protocol.receive(
            &mut connection.session,
            &self.buffer[..length],
            &mut connection.out,
            &mut self.ends,
        );
        let is_unmatched = self.address.is_datagram() && !idle && self.ends.is_empty();
        self.counts.unrequested += u64::from(is_unmatched);
        let all_sound = self.ends.iter().all(|end| end.result != -libc::EPROTO);
        self.take_ends(index, true);
        // Also bytes behind the last answer, in the same segment.
        let idle = all_sound && self.connections[index as usize].carried.is_empty() && !greets;
        self.settle(index, state, idle)?;
        let connection = &mut self.connections[index as usize];
        if connection.token(index) != token {
            return Ok(true);
        }
        if connection.is_buffered() && !std::mem::replace(&mut connection.again, true) {
            self.again.push_back(token);
        }
        // What the protocol answered; requests that the next flush writes stay for it.
        if connection.is_unfinished() && !connection.prepared && !connection.unwritable {
            self.write(index)?;
        }
        Ok(true)
    }

    /// Removes the operations that the last step ended from their connection. `whole`: their responses were received,
    /// and did not just end with the connection.
    fn take_ends(&mut self, index: u32, whole: bool) {
        let transport = self.connection(index).transport();
        let unseen = transport.map_or(Nanos::ZERO, Transport::unseen);
        for place in 0..self.ends.len() {
            let End { slot, result } = self.ends[place];
            if result != RESEND && self.release(index, slot) {
                self.connection(index).proven |= whole || result >= 0;
                let unseen = if whole { unseen } else { Nanos::ZERO };
                self.end_unseen(slot, result, unseen);
            }
        }
        // The last one first, so that they wait in the order in which they began.
        for place in (0..self.ends.len()).rev() {
            let End { slot, result } = self.ends[place];
            if result == RESEND && self.release(index, slot) {
                self.send_again(index, slot);
            }
        }
        self.ends.clear();
    }

    /// Returns whether the connection carried the operation; now it does no longer.
    fn release(&mut self, index: u32, slot: u32) -> bool {
        let carried = &mut self.connections[index as usize].carried;
        let place = carried.iter().position(|one| *one == slot);
        debug_assert!(
            place.is_some(),
            "an end for an operation that it does not carry"
        );
        place.and_then(|place| carried.remove(place)).is_some()
    }

    /// Lets an operation wait for another connection. One that has carried nothing would lead to the same end again,
    /// without end.
    fn send_again(&mut self, index: u32, slot: u32) {
        if !self.connection(index).proven {
            return self.end(slot, -libc::ECONNRESET);
        }
        self.counts.resent += u64::from(self.is_measured(slot));
        self.carriers[slot as usize] = NOBODY;
        self.waiting.push_front(slot);
    }

    /// Updates the connection after a step of its protocol; `idle`: nothing was requested on it.
    fn settle(&mut self, index: u32, state: SessionState, idle: bool) -> io::Result<()> {
        let connection = self.connection(index);
        match state {
            SessionState::Handshake => {
                connection.shook_hands |= connection.state == ConnectionState::ProtocolHandshake;
                return Ok(());
            }
            SessionState::Ready => {
                if connection.state == ConnectionState::ProtocolHandshake {
                    self.complete_handshake(index);
                }
            }
            SessionState::Closing => {
                if connection.state == ConnectionState::ProtocolHandshake {
                    return self.break_off(index, -libc::ECONNRESET, false);
                }
                connection.state = ConnectionState::Closing;
            }
            SessionState::Failed(result) => {
                self.counts.unrequested += u64::from(idle);
                return self.break_off(index, result, false);
            }
        }
        let limit = self.options.requests_per_connection.unwrap_or(u64::MAX);
        let connection = self.connection(index);
        let used_up = connection.state == ConnectionState::Closing || connection.begun >= limit;
        if used_up && connection.carried.is_empty() {
            return self.lose(index, false);
        }
        self.rest(index);
        Ok(())
    }

    /// Ends everything that the connection carries with this result, and the connection.
    fn break_off(&mut self, index: u32, result: i32, by_server: bool) -> io::Result<()> {
        match self.connection(index).state {
            ConnectionState::TransportHandshake | ConnectionState::ProtocolHandshake => {
                self.not_connected(index, result);
                Ok(())
            }
            _ => {
                self.end_all(index, result);
                self.lose(index, by_server)
            }
        }
    }

    fn end_all(&mut self, index: u32, result: i32) {
        while let Some(slot) = self.connection(index).carried.pop_front() {
            self.end(slot, result);
        }
    }

    fn end(&mut self, slot: u32, result: i32) {
        self.end_unseen(slot, result, Nanos::ZERO);
    }

    /// Ends an operation whose answer had arrived so long before it was read.
    fn end_unseen(&mut self, slot: u32, result: i32, unseen: Nanos) {
        self.in_flight -= 1;
        self.timeouts.end(slot);
        self.ended.push_back(Reaped {
            slot,
            result,
            unseen,
        });
    }

    /// Assigns waiting operations to connections with room.
    fn dispatch(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let Some(index) = self.take_free() else {
                return Ok(());
            };
            while self.room(index) > 0
                && let Some(slot) = self.waiting.pop_front()
            {
                self.assign(index, slot);
            }
            self.rest(index);
            self.write(index)?;
        }
        Ok(())
    }

    /// Begins the operation on the connection; ends it at once if the protocol refuses it.
    fn assign(&mut self, index: u32, slot: u32) -> bool {
        let connection = &mut self.connections[index as usize];
        let begun = self.protocol.begin(
            &mut connection.session,
            slot,
            &self.operations[slot as usize],
            &mut connection.out,
        );
        match begun {
            Ok(()) => {
                connection.carried.push_back(slot);
                connection.begun += 1;
                connection.unsent = true;
                self.carriers[slot as usize] = index;
                true
            }
            Err(errno) => {
                self.end(slot, errno);
                false
            }
        }
    }

    /// Returns how many operations can begin on the connection.
    fn room(&self, index: u32) -> u32 {
        let connection = &self.connections[index as usize];
        if connection.state != ConnectionState::Ready {
            return 0;
        }
        // Both are bounded by `outstanding`.
        let carried = connection.carried.len() as u32;
        let room = self.options.outstanding.saturating_sub(carried);
        let room = room.min(self.protocol.room(&connection.session));
        let Some(limit) = self.options.requests_per_connection else {
            return room;
        };
        let left = limit.saturating_sub(connection.begun);
        u32::try_from(left).map_or(room, |left| left.min(room))
    }

    /// Puts the connection into the queue of those with room, if it has some.
    fn rest(&mut self, index: u32) {
        if !self.connections[index as usize].queued && self.room(index) > 0 {
            self.connections[index as usize].queued = true;
            self.free.push_back(index);
        }
    }

    /// Takes the first usable connection with room. On an idle connection, what has arrived is read first; if the
    /// protocol did not expect it, or the server has closed the connection, it is reestablished instead.
    fn take_free(&mut self) -> Option<u32> {
        while let Some(index) = self.free.pop_front() {
            self.connection(index).queued = false;
            if self.room(index) == 0 {
                continue;
            }
            if !self.connection(index).carried.is_empty() {
                return Some(index);
            }
            match self.look(index) {
                Ok(true) => return Some(index),
                Ok(false) => {}
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
        None
    }

    /// Reads what has arrived on an idle connection; returns whether an operation can begin on it.
    fn look(&mut self, index: u32) -> io::Result<bool> {
        let token = self.connection(index).token(index);
        for _ in 0..LOOKS {
            if !self.read(index)? || self.connection(index).token(index) != token {
                break;
            }
        }
        if self.connection(index).token(index) != token || self.room(index) == 0 {
            return Ok(false);
        }
        // The reads may have queued it again.
        if std::mem::replace(&mut self.connection(index).queued, false) {
            self.free.retain(|one| *one != index);
        }
        Ok(true)
    }

    fn connection(&mut self, index: u32) -> &mut Connection<P::Session> {
        &mut self.connections[index as usize]
    }
}

/// Returns the index in a token.
#[allow(clippy::cast_possible_truncation)]
fn index_of(token: u64) -> u32 {
    token as u32
}

/// Time limits.
impl<P: Protocol> Pool<P> {
    /// Ends the operations and the handshakes that have exceeded their limit.
    fn expire(&mut self) -> io::Result<()> {
        if self.timeouts.first().is_none() && self.handshakes.first().is_none() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        for _ in 0..SLICE {
            match self.timeouts.first() {
                Some((slot, due_ns)) if due_ns <= now_ns => self.time_out(slot)?,
                _ => break,
            }
        }
        for _ in 0..SLICE {
            match self.handshakes.first() {
                Some((index, due_ns)) if due_ns <= now_ns => {
                    self.not_connected(index, -libc::ETIMEDOUT);
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn time_out(&mut self, slot: u32) -> io::Result<()> {
        let is_measured = self.is_measured(slot);
        self.counts.timeouts += u64::from(is_measured);
        let index = self.carriers[slot as usize];
        if index == NOBODY {
            let place = self.waiting.iter().position(|waits| *waits == slot);
            place.and_then(|place| self.waiting.remove(place));
            self.end(slot, -libc::ETIMEDOUT);
            return Ok(());
        }
        let connection = &mut self.connections[index as usize];
        let usable = self
            .protocol
            .cancel(&mut connection.session, slot, &mut connection.out);
        self.release(index, slot);
        self.end(slot, -libc::ETIMEDOUT);
        if usable {
            let token = self.connection(index).token(index);
            self.write(index)?;
            if self.connection(index).token(index) != token {
                return Ok(());
            }
            return self.settle(index, SessionState::Ready, false);
        }
        self.end_all(index, -libc::ECONNABORTED);
        self.close(index, Closing::TimedOut { is_measured })?;
        // At once: the time limit itself keeps the reconnection rate low.
        self.reconnect(index)
    }

    /// Returns the time until the first operation or handshake expires; [`Nanos::NEVER`] if none does.
    fn until_expiry(&self) -> Nanos {
        let first = [self.timeouts.first(), self.handshakes.first()];
        let due_ns = first.into_iter().flatten().map(|(_, due_ns)| due_ns).min();
        due_ns.map_or(Nanos::NEVER, |due_ns| {
            Nanos(due_ns.saturating_sub(monotonic_ns()))
        })
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    ByServer,
    ByClient,
    /// Its operation exceeded the time limit.
    TimedOut {
        is_measured: bool,
    },
}

impl Closing {
    /// Returns the answer that may still arrive.
    fn owed(self) -> Owed {
        match self {
            Self::ByServer | Self::ByClient => Owed::Nothing,
            Self::TimedOut { is_measured: true } => Owed::Counted,
            Self::TimedOut { is_measured: false } => Owed::WarmUp,
        }
    }
}

/// Delay before another attempt at a connection that failed, or that carried no whole exchange.
const RETRY: Duration = Duration::from_millis(50);

/// Connections: handshakes, loss and reconnection.
impl<P: Protocol> Pool<P> {
    /// Closes the connection; of UDP its socket is set aside.
    fn close(&mut self, index: u32, closing: Closing) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        if self.address.is_datagram() {
            connection.set_aside(
                (&self.epoll, index),
                closing.owed(),
                &mut self.buffer,
                &mut self.counts.late,
            )?;
        }
        connection.close(closing == Closing::ByServer);
        Ok(())
    }

    /// Closes the connection and arranges its reconnection.
    fn lose(&mut self, index: u32, by_server: bool) -> io::Result<()> {
        let closing = if by_server {
            Closing::ByServer
        } else {
            Closing::ByClient
        };
        self.close(index, closing)?;
        // A socket of UDP costs the server nothing.
        if self.connection(index).proven || self.address.is_datagram() {
            return self.reconnect(index);
        }
        self.retries.push_back((Instant::now() + RETRY, index));
        Ok(())
    }

    fn reconnect(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        self.handshakes.start(index, monotonic_ns);
        match connection.reconnect(&self.address, self.tls.as_ref()) {
            Ok(()) if self.address.is_datagram() => {
                connection.watch(&self.epoll, Interest::Read, index)?;
                self.begin_handshake(index)
            }
            // The outcome is reported as an event, even if it is known already.
            Ok(()) => connection.watch(&self.epoll, Interest::Write, index),
            Err(errno) => {
                self.not_connected(index, errno);
                Ok(())
            }
        }
    }

    fn connected(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let took_ns = monotonic_ns().saturating_sub(connection.since_ns);
        self.connect_times.record(took_ns);
        connection.state = ConnectionState::Connected;
        self.begin_handshake(index)
    }

    fn begin_handshake(&mut self, index: u32) -> io::Result<()> {
        let now_ns = monotonic_ns();
        self.handshakes.start(index, || now_ns);
        let connection = self.connection(index);
        connection.since_ns = now_ns;
        connection.state = ConnectionState::TransportHandshake;
        self.continue_handshake(index)
    }

    /// Continues the transport's handshake; after it, that of the protocol begins.
    fn continue_handshake(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        match connection.handshake() {
            // It may have been complete at once.
            Ok(true) => connection.shook_hands |= self.tls.is_some(),
            Ok(false) => {
                connection.shook_hands = true;
                return connection.rewatch(&self.epoll, index);
            }
            Err(errno) => {
                self.not_connected(index, errno);
                return Ok(());
            }
        }
        connection.out.clear();
        connection.state = ConnectionState::ProtocolHandshake;
        let state = self
            .protocol
            .open(&mut connection.session, &mut connection.out);
        let token = connection.token(index);
        if connection.is_buffered() && !std::mem::replace(&mut connection.again, true) {
            self.again.push_back(token);
        }
        self.settle(index, state, false)?;
        if self.connection(index).token(index) == token {
            // Also without bytes: the socket is not watched for room any more.
            self.write(index)?;
        }
        Ok(())
    }

    /// Handles a complete handshake: operations can begin.
    fn complete_handshake(&mut self, index: u32) {
        self.handshakes.end(index);
        let connection = &mut self.connections[index as usize];
        connection.state = ConnectionState::Ready;
        if connection.shook_hands {
            let took_ns = monotonic_ns().saturating_sub(connection.since_ns);
            self.handshake_times.record(took_ns);
        }
        if self.before_run {
            self.complete += 1;
        } else {
            self.counts.reconnects += 1;
        }
    }

    /// Handles a failed attempt: it is due again later, and a waiting operation ends.
    fn not_connected(&mut self, index: u32, result: i32) {
        self.handshakes.end(index);
        if self.before_run && self.refused.is_none() {
            let connection = &self.connections[index as usize];
            let mut failure = HandshakeFailure {
                result,
                refusal: None,
                remedy: None,
                tls: None,
            };
            match connection.state {
                ConnectionState::TransportHandshake => {
                    let transport = connection.transport();
                    failure.tls = transport.and_then(|one| one.refusal(result));
                }
                ConnectionState::ProtocolHandshake => {
                    failure.refusal = self.protocol.refusal(&connection.session);
                    failure.remedy = self.protocol.remedy(&connection.session);
                }
                _ => {}
            }
            self.refused = Some(failure);
        }
        let connection = self.connection(index);
        connection.close(connection.state == ConnectionState::Connecting);
        self.counts.failed_connects += 1;
        self.retries.push_back((Instant::now() + RETRY, index));
        if let Some(slot) = self.waiting.pop_front() {
            self.end(slot, result);
        }
    }

    fn retry(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for _ in 0..SLICE {
            match self.retries.front() {
                Some(&(due, index)) if due <= now => {
                    self.retries.pop_front();
                    self.reconnect(index)?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct TimeoutEntry {
    due_ns: u64,
    previous: u32,
    next: u32,
    listed: bool,
}

/// The operations in progress, in the order in which they expire.
#[derive(Debug)]
pub(crate) struct Timeouts {
    limit: Option<Nanos>,
    entries: Box<[TimeoutEntry]>,
    first: u32,
    last: u32,
}

impl Timeouts {
    /// Returns an empty list for `slots` operations; without a limit it stays empty.
    pub(crate) fn new(limit: Option<Nanos>, slots: usize) -> Self {
        let entry = TimeoutEntry {
            due_ns: 0,
            previous: NONE,
            next: NONE,
            listed: false,
        };
        Self {
            limit,
            entries: vec![entry; slots].into_boxed_slice(),
            first: NONE,
            last: NONE,
        }
    }

    /// Adds the operation of `slot`, which starts at `now_ns()`; the clock is read only if there is a limit.
    pub(crate) fn start(&mut self, slot: u32, now_ns: impl FnOnce() -> u64) {
        let Some(limit) = self.limit else { return };
        self.end(slot);
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return;
        };
        *entry = TimeoutEntry {
            due_ns: now_ns().saturating_add(limit.0),
            previous: self.last,
            next: NONE,
            listed: true,
        };
        match self.last {
            NONE => self.first = slot,
            last => self.entries[last as usize].next = slot,
        }
        self.last = slot;
    }

    /// Removes the operation of `slot`, which has ended.
    pub(crate) fn end(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return;
        };
        if !std::mem::replace(&mut entry.listed, false) {
            return;
        }
        let TimeoutEntry { previous, next, .. } = *entry;
        match previous {
            NONE => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }

    /// Returns the operation that expires first, and when.
    pub(crate) fn first(&self) -> Option<(u32, u64)> {
        let entry = self.entries.get(self.first as usize)?;
        Some((self.first, entry.due_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_one_that_has_been_under_way_longest(
            steps in prop::collection::vec((0u32..8, any::<bool>()), 0..200),
        ) {
            let mut timeouts = Timeouts::new(Some(Nanos(100)), 8);
            let mut model: Vec<(u32, u64)> = Vec::new();
            for (now, (slot, starts)) in (0..).zip(steps) {
                model.retain(|(other, _)| *other != slot);
                if starts {
                    model.push((slot, now + 100));
                    timeouts.start(slot, || now);
                } else {
                    timeouts.end(slot);
                }
                prop_assert_eq!(timeouts.first(), model.first().copied());
            }
        }
    }

    #[test]
    fn without_a_limit_no_clock_is_read_and_nothing_is_due() {
        let mut timeouts = Timeouts::new(None, 1);
        timeouts.start(0, || unreachable!());
        assert_eq!(timeouts.first(), None);
    }
}
