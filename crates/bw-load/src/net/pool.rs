//! Operations on the connections of a target: assignment, handshakes, ends, and time limits.
//!
//! An operation goes to the first connection of a queue that has room. With one operation per connection that is the one
//! idle longest; with several (pipelining, streams) the connections take turns, and the operations of one flush go
//! to one connection as far as it has room, so that they share one write, which their stamp precedes directly.
//!
//! Decisions. A failed attempt to establish a connection ends the operation that has waited
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
    Address, Closing, ConnectionOptions, ConnectionState, Established, PARALLEL,
};
use crate::net::connections::{Attempt, Connections, Event, Traffic};
use crate::net::epoll::ReadySocket;
use crate::net::slot_list::{SlotLinks, Timeouts};
use crate::net::tls::TlsDescription;
use crate::net::tls::refusal::Refusal;
use crate::net::transport::Transport;
use crate::target::{Awaited, Background, Reaped, SeenStream};
use bw_model::{Kind, Nanos, Operation};
use bw_protocol::streams::Streams;
use bw_protocol::{End, MeasuredPart, Protocol, RESEND, SessionState};
use bw_record::errno::STREAM_STALLED;
use bw_record::histogram::Histogram;
use bw_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// How many time limits are handled before the sockets.
const SLICE: usize = 32;
/// How many ready sockets are served before the worker looks at its schedule again, if no operation ends.
const SERVED: usize = 4;
/// How often an idle connection is read before it is used, as long as something has arrived on it.
const LOOKS: u32 = 4;
/// The carrier of an operation that has no connection yet.
const NOBODY: u32 = u32::MAX;

/// The counts so far, without the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionCounts {
    pub traffic: Traffic,
    /// Connections that were closed because unrequested bytes arrived on them; of UDP the datagrams on a socket in use for
    /// which no operation waited.
    pub unrequested: u64,
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
    pub(super) connections: Connections<P::Session>,
    /// Connections with room, in turn; `queued` prevents duplicates.
    free: VecDeque<u32>,
    /// Tokens of the connections that the next flush writes; `prepared` prevents duplicates.
    prepared: Vec<u64>,
    /// Slots of operations without a connection.
    waiting: VecDeque<u32>,
    operations: Box<[Operation]>,
    /// The order of what each connection carries.
    carried: SlotLinks,
    /// Which connection carries the operation of each slot; [`NOBODY`]: it waits for one.
    carriers: Box<[u32]>,
    /// How many operations have begun and not ended.
    in_flight: usize,
    timeouts: Timeouts,
    /// Of streams: until the first event with content.
    firsts: Timeouts,
    /// Of streams: from one event with content to the next.
    gaps: Timeouts,
    /// What the protocol's last step ended.
    ends: Vec<End>,
    counts: ConnectionCounts,
    measured: MeasuredPart,
    handshake_times: Histogram,
    /// How many connections have completed their first handshake.
    complete: u32,
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
        let outstanding = options.outstanding as usize;
        let slots = size * outstanding;
        let connections = Connections::new(established, false, outstanding, || protocol.session())?;
        let limits = protocol.streams().map(Streams::limits).unwrap_or_default();
        let slots_with = |limit: Option<Nanos>| if limit.is_some() { slots } else { 0 };
        let nothing = Operation::new(Kind::Exchange, 0, 0);
        Ok(Self {
            protocol,
            options,
            connections,
            free: VecDeque::with_capacity(size),
            prepared: Vec::with_capacity(size),
            waiting: VecDeque::with_capacity(slots),
            operations: vec![nothing; slots].into_boxed_slice(),
            carried: SlotLinks::new(slots),
            carriers: vec![NOBODY; slots].into_boxed_slice(),
            in_flight: 0,
            timeouts: Timeouts::new(options.timeout, slots),
            firsts: Timeouts::new(limits.first, slots_with(limits.first)),
            gaps: Timeouts::new(limits.gap, slots_with(limits.gap)),
            ends: Vec::with_capacity(options.outstanding as usize),
            counts: ConnectionCounts::default(),
            measured: MeasuredPart::default(),
            handshake_times: Histogram::new(),
            complete: 0,
            refused: None,
            failure: None,
        })
    }

    /// Completes the handshakes of all connections, at most [`PARALLEL`] at a time.
    ///
    /// # Errors
    /// epoll failed; inside: a handshake failed or took longer than [`CONNECT_TIMEOUT`].
    pub(crate) fn shake_hands(&mut self) -> io::Result<Result<(), HandshakeFailure>> {
        let mut begun = 0;
        while self.complete < self.connections.count() {
            while begun < self.connections.count() && begun - self.complete < PARALLEL as u32 {
                self.begin_handshake(begun)?;
                begun += 1;
            }
            self.expire()?;
            if let Some(refused) = self.refused.take() {
                return Ok(Err(refused));
            }
            if self.complete == begun {
                continue;
            }
            self.wait(Nanos::NEVER)?;
            while let Some(event) = self.connections.next() {
                self.react(event)?;
            }
        }
        self.connections.before_run = false;
        Ok(Ok(()))
    }

    /// Returns how many connections there are.
    pub(crate) fn size(&self) -> u32 {
        self.connections.count()
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
        ConnectionCounts {
            traffic: self.connections.traffic,
            ..self.counts
        }
    }

    /// See [`Target::measure_from`](crate::target::Target::measure_from).
    pub(crate) fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
        self.protocol.measure_from(from);
    }

    /// See [`Target::measure_streams`](crate::target::Target::measure_streams).
    pub(crate) fn measure_streams(&self, now: Nanos, part: Range<Nanos>) {
        if let Some(streams) = self.protocol.streams() {
            let zero_ns = monotonic_ns().saturating_sub(now.0);
            let at = |time: Nanos| zero_ns.saturating_add(time.0);
            streams.measure(at(part.start)..at(part.end));
        }
    }

    /// Returns whether the operation of a slot is measured.
    fn is_measured(&self, slot: u32) -> bool {
        self.measured.has(&self.operations[slot as usize])
    }

    /// Returns how long the connects took [ns], from the first to the connected socket.
    pub(crate) fn connect_times(&self) -> &Histogram {
        self.connections.connect_times()
    }

    /// Returns how long the handshakes took [ns], from the connected socket to the first operation.
    pub(crate) fn handshake_times(&self) -> &Histogram {
        &self.handshake_times
    }

    /// Returns what the first connection agreed on with the server, once its handshake is complete; None without TLS.
    pub(crate) fn tls(&self) -> Option<TlsDescription> {
        let transport = self.connections[0].transport()?;
        transport.describe_tls()
    }

    pub(crate) fn address(&self) -> &Address {
        self.connections.address()
    }

    /// Assigns the operation to a connection, or queues it.
    pub(crate) fn submit(&mut self, slot: u32, operation: &Operation) {
        self.in_flight += 1;
        self.carriers[slot as usize] = NOBODY;
        if operation.kind != Kind::Exchange {
            return self.end(slot, -libc::EOPNOTSUPP);
        }
        if self.measured.begins_with(operation) {
            self.counts = ConnectionCounts::default();
            self.connections.traffic = Traffic::default();
        }
        self.timeouts.start(slot, monotonic_ns);
        self.firsts.start(slot, monotonic_ns);
        self.operations[slot as usize] = *operation;
        let Some(index) = self.take_free() else {
            return self.waiting.push_back(slot);
        };
        if self.assign(index, slot) {
            let connection = &mut self.connections[index];
            if !std::mem::replace(&mut connection.prepared, true) {
                let token = connection.token(index);
                self.prepared.push(token);
            }
        }
        // In front: the next operation of this flush shares its write.
        if self.room(index) > 0 {
            self.connections[index].queued = true;
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
            let index = token as u32;
            let connection = &mut self.connections[index];
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
        if self.connections.ended.is_empty() && room > 0 {
            self.work()?;
        }
        while room > 0
            && let Some(end) = self.connections.ended.pop_front()
        {
            ends.push(end);
            room -= 1;
        }
        Ok(())
    }

    /// Returns when there is something to do that the connections do not know [ns].
    fn due_ns(&self) -> Option<u64> {
        let limits = [&self.timeouts, &self.firsts, &self.gaps];
        let due = limits.into_iter().filter_map(Timeouts::first);
        due.map(|(_, due_ns)| due_ns).min()
    }

    /// See [`Target::awaited`](crate::target::Target::awaited).
    pub(crate) fn awaited(&self) -> Awaited {
        self.connections.awaited(self.due_ns())
    }

    /// See [`Target::background`](crate::target::Target::background).
    #[inline]
    pub(crate) fn background(&self) -> Background {
        self.connections.background()
    }

    /// Sleeps until a socket is ready, an attempt is due or `at_most` has passed.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let (due_ns, polls) = (self.due_ns(), self.in_flight > 0);
        self.connections.wait(due_ns, at_most, polls)
    }

    /// Serves the ready sockets, the attempts and the time limits that are due. It stops when an operation
    /// ends, so that the end is stamped, and the operations it triggers are issued, before other sockets are read.
    fn work(&mut self) -> io::Result<()> {
        self.expire()?;
        // An operation that was given up may have made room.
        self.dispatch()?;
        self.connections.look()?;
        for _ in 0..SERVED {
            if !self.connections.ended.is_empty() {
                break;
            }
            let Some(event) = self.connections.next() else {
                break;
            };
            self.react(event)?;
            self.dispatch()?;
        }
        Ok(())
    }

    fn react(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Attempt(index, attempt) => self.attempted(index, attempt),
            Event::Ready(index, ready) => self.serve(index, ready),
        }
    }

    /// Serves a ready socket.
    fn serve(&mut self, index: u32, ready: ReadySocket) -> io::Result<()> {
        if self.connections[index].state == ConnectionState::TransportHandshake {
            return self.continue_handshake(index);
        }
        // A response may arrive while the request is still being written.
        if ready.readable {
            self.read(index)?;
        }
        let connection = &mut self.connections[index];
        // A read over TLS may have written the last record: the socket is still watched for room.
        let waits = connection.is_unfinished() || connection.waits_for_room();
        if ready.writable && connection.token(index) == ready.token && waits {
            self.write(index)?;
        }
        Ok(())
    }

    /// Writes what the connection has to send, as far as the kernel accepts it.
    fn write(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index];
        connection.unsent |= !connection.out.is_empty();
        let whole = match self.connections.write(index) {
            Ok(whole) => whole,
            Err(errno) => return self.fail_write(index, errno),
        };
        let connection = &mut self.connections[index];
        if whole {
            self.protocol
                .more(&mut connection.session, &mut connection.out);
        }
        self.connections.rewatch(index)?;
        let connection = &mut self.connections[index];
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
        let connection = &mut self.connections[index];
        let token = connection.token(index);
        if connection.state != ConnectionState::ProtocolHandshake {
            connection.unwritable = true;
            while self.connections[index].token(index) == token && self.read(index)? {}
        }
        if self.connections[index].token(index) == token {
            self.break_off(index, errno, false)?;
        }
        Ok(())
    }

    /// Reads one piece; returns whether there was one, or the end.
    fn read(&mut self, index: u32) -> io::Result<bool> {
        let is_datagram = self.address().is_datagram();
        let length = match self.connections.read(index) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(false),
            Err(errno) => {
                let is_late = self.connections[index].carried.is_empty() && is_datagram;
                self.counts.late_errors += u64::from(is_late);
                self.break_off(index, errno, false)?;
                return Ok(true);
            }
        };
        let (connection, buffer) = self.connections.with_buffer(index);
        if length == 0 && !is_datagram {
            if matches!(
                connection.state,
                ConnectionState::Ready | ConnectionState::Closing
            ) {
                self.protocol
                    .closed(&mut connection.session, &mut self.ends);
                self.limit_gaps();
                self.take_ends(index, false);
            }
            self.break_off(index, -libc::ECONNRESET, true)?;
            return Ok(true);
        }
        let token = connection.token(index);
        let greets = connection.state == ConnectionState::ProtocolHandshake;
        let idle = connection.carried.is_empty() && !greets;
        if let Some(streams) = self.protocol.streams()
            && let Some(transport) = &mut connection.transport
        {
            let unseen = transport.unseen();
            streams.arrives(transport.arrival_ns(), unseen.map(|unseen| unseen.0));
        }
        let state = self.protocol.receive(
            &mut connection.session,
            &buffer[..length],
            &mut connection.out,
            &mut self.ends,
        );
        self.limit_gaps();
        let is_unmatched = is_datagram && !idle && self.ends.is_empty();
        self.counts.unrequested += u64::from(is_unmatched);
        let all_sound = self
            .ends
            .iter()
            .all(|end| end.result != i64::from(-libc::EPROTO));
        self.take_ends(index, true);
        // Also bytes behind the last answer, in the same segment.
        let idle = all_sound && self.connections[index].carried.is_empty() && !greets;
        self.settle(index, state, idle)?;
        let connection = &mut self.connections[index];
        if connection.token(index) != token {
            return Ok(true);
        }
        self.connections.note_buffered(index);
        let connection = &mut self.connections[index];
        // What the protocol answered; requests that the next flush writes stay for it.
        if connection.is_unfinished() && !connection.prepared && !connection.unwritable {
            self.write(index)?;
        }
        Ok(true)
    }

    /// Starts the limits of the gaps of the streams that the last step had events of; the end mark ends them.
    fn limit_gaps(&mut self) {
        let Some(streams) = self.protocol.streams() else {
            return;
        };
        while let Some((slot, has_ended)) = streams.take_heard() {
            self.firsts.end(slot);
            if has_ended {
                self.gaps.end(slot);
            } else {
                self.gaps.start(slot, monotonic_ns);
            }
        }
    }

    /// Removes the operations that the last step ended from their connection. `whole`: their responses were received,
    /// and did not just end with the connection.
    fn take_ends(&mut self, index: u32, whole: bool) {
        let transport = self.connections[index].transport();
        let unseen = transport.and_then(Transport::unseen).unwrap_or_default();
        for place in 0..self.ends.len() {
            let End { slot, result } = self.ends[place];
            if result != i64::from(RESEND) && self.release(index, slot) {
                self.connections[index].proven |= whole || result >= 0;
                let unseen = if whole { unseen } else { Nanos::ZERO };
                self.end_unseen(slot, result, unseen);
            }
        }
        // The last one first, so that they wait in the order in which they began.
        for place in (0..self.ends.len()).rev() {
            let End { slot, result } = self.ends[place];
            if result == i64::from(RESEND) && self.release(index, slot) {
                self.send_again(index, slot);
            }
        }
        self.ends.clear();
    }

    /// Returns whether the connection carried the operation; now it does no longer.
    fn release(&mut self, index: u32, slot: u32) -> bool {
        // An operation that has ended has a carrier that it is not with any more.
        let is_carrier = self.carriers.get(slot as usize) == Some(&index);
        let list = &mut self.connections[index].carried;
        let carried = is_carrier && self.carried.remove(list, slot);
        debug_assert!(carried, "an end for an operation that it does not carry");
        carried
    }

    /// Lets an operation wait for another connection. One that has carried nothing would lead to the same end again,
    /// without end.
    fn send_again(&mut self, index: u32, slot: u32) {
        if !self.connections[index].proven {
            return self.end(slot, -libc::ECONNRESET);
        }
        self.counts.resent += u64::from(self.is_measured(slot));
        self.carriers[slot as usize] = NOBODY;
        self.waiting.push_front(slot);
    }

    /// Updates the connection after a step of its protocol; `idle`: nothing was requested on it.
    fn settle(&mut self, index: u32, state: SessionState, idle: bool) -> io::Result<()> {
        let connection = &mut self.connections[index];
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
        let connection = &mut self.connections[index];
        let used_up = connection.state == ConnectionState::Closing || connection.begun >= limit;
        if used_up && connection.carried.is_empty() {
            let protocol = &self.protocol;
            self.connections
                .announce_end(index, |session, out| protocol.goodbye(session, out));
            return self.lose(index, Closing::ByClient);
        }
        self.rest(index);
        Ok(())
    }

    /// Ends everything that the connection carries with this result, and the connection.
    fn break_off(&mut self, index: u32, result: i32, by_server: bool) -> io::Result<()> {
        match self.connections[index].state {
            ConnectionState::TransportHandshake | ConnectionState::ProtocolHandshake => {
                self.not_connected(index, result);
                Ok(())
            }
            _ => {
                self.end_all(index, result);
                let closing = match by_server {
                    true => Closing::ByServer,
                    false => Closing::ByClient,
                };
                self.lose(index, closing)
            }
        }
    }

    fn end_all(&mut self, index: u32, result: i32) {
        let mut carried = std::mem::take(&mut self.connections[index].carried);
        while let Some(slot) = self.carried.pop(&mut carried) {
            self.end(slot, result);
        }
    }

    fn end(&mut self, slot: u32, result: i32) {
        self.end_unseen(slot, result.into(), Nanos::ZERO);
    }

    /// Ends an operation whose answer had arrived so long before it was read.
    fn end_unseen(&mut self, slot: u32, mut result: i64, unseen: Nanos) {
        self.in_flight -= 1;
        self.timeouts.end(slot);
        if self.protocol.streams().is_some() {
            self.firsts.end(slot);
            self.gaps.end(slot);
        }
        if result < 0 {
            result = self.protocol.broken(slot, result, self.has_begun(slot));
        }
        self.connections.ended.push_back(Reaped {
            slot,
            result,
            unseen,
        });
    }

    /// Returns whether the operation of a slot has had a connection.
    fn has_begun(&self, slot: u32) -> bool {
        let carrier = self.carriers.get(slot as usize);
        carrier.is_some_and(|carrier| *carrier != NOBODY)
    }

    /// See [`Target::stream`](crate::target::Target::stream).
    pub(crate) fn stream(&self, slot: u32) -> Option<SeenStream> {
        let streams = self.protocol.streams()?;
        // What the slot had before belongs to another operation.
        let begun = self.has_begun(slot).then(|| streams.outcome(slot));
        Some(SeenStream {
            outcome: begun.unwrap_or_default(),
            now_ns: monotonic_ns(),
        })
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
        let connection = &mut self.connections[index];
        let begun = self.protocol.begin(
            &mut connection.session,
            slot,
            &self.operations[slot as usize],
            &mut connection.out,
        );
        match begun {
            Ok(()) => {
                self.carried.push(&mut connection.carried, slot);
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
        let connection = &self.connections[index];
        if connection.state != ConnectionState::Ready {
            return 0;
        }
        // Both are bounded by `outstanding`.
        let carried = connection.carried.length();
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
        if !self.connections[index].queued && self.room(index) > 0 {
            self.connections[index].queued = true;
            self.free.push_back(index);
        }
    }

    /// Takes the first usable connection with room. On an idle connection, what may have arrived is read first; if the
    /// protocol did not expect it, or the server has closed the connection, it is reestablished instead.
    fn take_free(&mut self) -> Option<u32> {
        while let Some(index) = self.free.pop_front() {
            self.connections[index].queued = false;
            if self.room(index) == 0 {
                continue;
            }
            if !self.connections[index].carried.is_empty() || self.connections.is_quiet(index) {
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
        let token = self.connections[index].token(index);
        for _ in 0..LOOKS {
            if !self.read(index)? || self.connections[index].token(index) != token {
                break;
            }
        }
        if self.connections[index].token(index) != token || self.room(index) == 0 {
            return Ok(false);
        }
        // The reads may have queued it again.
        if std::mem::replace(&mut self.connections[index].queued, false) {
            self.free.retain(|one| *one != index);
        }
        Ok(true)
    }
}

/// Time limits.
impl<P: Protocol> Pool<P> {
    /// Ends the operations and the attempts that have exceeded their limit, and begins the attempts that are due.
    fn expire(&mut self) -> io::Result<()> {
        if self.due_ns().is_none() && !self.connections.is_any_down() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        let is_due = |limits: &Timeouts| limits.first().filter(|(_, due_ns)| *due_ns <= now_ns);
        for _ in 0..SLICE {
            if let Some((slot, _)) = is_due(&self.timeouts).or_else(|| is_due(&self.firsts)) {
                self.time_out(slot, -libc::ETIMEDOUT)?;
            } else if let Some((slot, _)) = is_due(&self.gaps) {
                self.time_out(slot, STREAM_STALLED)?;
            } else {
                break;
            }
        }
        for _ in 0..SLICE {
            let Some((index, attempt)) = self.connections.due(now_ns)? else {
                break;
            };
            self.attempted(index, attempt)?;
        }
        Ok(())
    }

    /// Ends an operation that exceeded a limit with this result.
    fn time_out(&mut self, slot: u32, result: i32) -> io::Result<()> {
        let is_measured = self.is_measured(slot);
        self.counts.timeouts += u64::from(is_measured);
        let index = self.carriers[slot as usize];
        if index == NOBODY {
            let place = self.waiting.iter().position(|waits| *waits == slot);
            place.and_then(|place| self.waiting.remove(place));
            self.end(slot, result);
            return Ok(());
        }
        let connection = &mut self.connections[index];
        let usable = self
            .protocol
            .cancel(&mut connection.session, slot, &mut connection.out);
        self.release(index, slot);
        self.end(slot, result);
        if usable {
            let token = self.connections[index].token(index);
            self.write(index)?;
            if self.connections[index].token(index) != token {
                return Ok(());
            }
            return self.settle(index, SessionState::Ready, false);
        }
        self.end_all(index, -libc::ECONNABORTED);
        self.connections
            .close(index, Closing::TimedOut { is_measured })?;
        // At once: the time limit itself keeps the reconnection rate low.
        let attempt = self.connections.reconnect(index)?;
        self.attempted(index, attempt)
    }
}

/// Handshakes, and the loss of connections.
impl<P: Protocol> Pool<P> {
    /// Closes a connection, and arranges its reconnection.
    fn lose(&mut self, index: u32, closing: Closing) -> io::Result<()> {
        let attempt = self.connections.lose(index, closing)?;
        self.attempted(index, attempt)
    }

    /// Handles what an attempt has come to.
    fn attempted(&mut self, index: u32, attempt: Attempt) -> io::Result<()> {
        match attempt {
            Attempt::InProgress => Ok(()),
            Attempt::Connected => self.begin_handshake(index),
            Attempt::Failed(errno) => {
                self.not_connected(index, errno);
                Ok(())
            }
        }
    }

    fn begin_handshake(&mut self, index: u32) -> io::Result<()> {
        self.connections.limit_handshake(index);
        self.connections[index].state = ConnectionState::TransportHandshake;
        self.continue_handshake(index)
    }

    /// Continues the transport's handshake; after it, that of the protocol begins.
    fn continue_handshake(&mut self, index: u32) -> io::Result<()> {
        let has_tls = self.connections.has_tls();
        let connection = &mut self.connections[index];
        match connection.handshake() {
            // It may have been complete at once.
            Ok(true) => connection.shook_hands |= has_tls,
            Ok(false) => {
                connection.shook_hands = true;
                return self.connections.rewatch(index);
            }
            Err(errno) => {
                self.not_connected(index, errno);
                return Ok(());
            }
        }
        connection.out.clear();
        connection.state = ConnectionState::ProtocolHandshake;
        let transport = connection.transport.as_ref();
        if let Some(certificate) = transport.and_then(Transport::certificate) {
            self.protocol.secured(&mut connection.session, certificate);
        }
        let state = self
            .protocol
            .open(&mut connection.session, &mut connection.out);
        let token = connection.token(index);
        self.connections.note_buffered(index);
        self.settle(index, state, false)?;
        if self.connections[index].token(index) == token {
            // Also without bytes: the socket is not watched for room any more.
            self.write(index)?;
        }
        Ok(())
    }

    /// Handles a complete handshake: operations can begin.
    fn complete_handshake(&mut self, index: u32) {
        self.connections.complete(index);
        let connection = &self.connections[index];
        if connection.shook_hands {
            let took_ns = monotonic_ns().saturating_sub(connection.since_ns);
            self.handshake_times.record(took_ns);
        }
        // Each counts once: one that was lost since and is there again must not stand for another.
        self.complete += u32::from(connection.generation == 0);
    }

    /// Handles a failed attempt: it is due again later, and a waiting operation ends.
    fn not_connected(&mut self, index: u32, result: i32) {
        if self.connections.before_run && self.refused.is_none() {
            let connection = &self.connections[index];
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
        self.connections.fail(index);
        if let Some(slot) = self.waiting.pop_front() {
            self.end(slot, result);
        }
    }
}

impl<P: Protocol> Drop for Pool<P> {
    fn drop(&mut self) {
        let protocol = &self.protocol;
        self.connections
            .end(|session, out| protocol.goodbye(session, out));
    }
}
