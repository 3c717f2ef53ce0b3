//! The connections of a target: assignment to operations, reconnection, and timeouts.
//!
//! Decisions. A lost connection is reestablished at once if it has carried a whole exchange, otherwise after [`RETRY`],
//! so a server that is down or refuses all clients is not flooded. A failed attempt ends the operation that has waited
//! longest, if there is one, with its errno. The time of an operation counts from its submission, so it includes a wait
//! for a connection. An operation that exceeds the limit ends with `-ETIMEDOUT`, and its connection is closed and
//! reestablished, since its answer may still arrive. All operations have the same limit, so they expire in the order of
//! their starts: a doubly linked list over the slots is enough, costs the same at any depth and never allocates.
//! Rejected: a timer wheel, which is for limits that differ.

use crate::net::connection::Protocol;
use crate::net::connection::{Connection, ConnectionState, SocketStep};
use crate::net::epoll::{Epoll, Interest, ReadySocket};
use crate::target::Reaped;
use bw_model::{Kind, Nanos, Operation};
use bw_sys::clock::monotonic_ns;
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum number of ready sockets that one wait returns.
const SLICE: usize = 32;
/// How many of them are served before the worker looks at its schedule again, if no operation ends.
const SERVED: usize = 4;
/// The carrier of an operation that has no connection yet.
const NOBODY: u32 = u32::MAX;
/// Maximum size of one read [bytes].
const BUFFER_BYTES: usize = 64 * 1024;

/// The counts so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Reconnections.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Connections that were closed because unrequested bytes arrived on them.
    pub unrequested: u64,
    /// Operations that exceeded the time limit.
    pub timeouts: u64,
}

/// The connections, the operations that wait for one, and the completions not fetched yet.
pub(crate) struct Pool<P: Protocol> {
    protocol: P,
    address: SocketAddr,
    connections: Vec<Connection<P::Exchange>>,
    epoll: Epoll,
    /// Idle connections, the one idle longest first; `queued` prevents duplicates.
    free: VecDeque<u32>,
    /// Tokens of the connections whose request the next flush writes.
    prepared: Vec<u64>,
    waiting: VecDeque<(u32, Operation)>,
    /// Which connection carries the operation of each slot; [`NOBODY`]: it waits for one.
    carriers: Box<[u32]>,
    timeouts: Timeouts,
    /// Connections that are down, and when each is tried again, the earliest first.
    retries: VecDeque<(Instant, u32)>,
    ended: VecDeque<Reaped>,
    buffer: Box<[u8]>,
    counts: ConnectionCounts,
    /// An error that could not be returned where it occurred; the next flush returns it.
    failure: Option<io::Error>,
}

impl<P: Protocol> Pool<P> {
    /// Returns the pool of these connections; an operation takes at most `limit`.
    pub(crate) fn new(
        protocol: P,
        address: SocketAddr,
        sockets: Vec<Socket>,
        limit: Option<Nanos>,
    ) -> io::Result<Self> {
        let size = sockets.len();
        let connections: Vec<_> = sockets
            .into_iter()
            .map(|socket| Connection::new(socket, protocol.exchange()))
            .collect();
        let mut pool = Self {
            protocol,
            address,
            connections,
            epoll: Epoll::new(SLICE)?,
            free: VecDeque::with_capacity(size),
            prepared: Vec::with_capacity(size),
            waiting: VecDeque::with_capacity(size),
            carriers: vec![NOBODY; size].into_boxed_slice(),
            timeouts: Timeouts::new(limit, size),
            retries: VecDeque::with_capacity(size),
            ended: VecDeque::with_capacity(size),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            counts: ConnectionCounts::default(),
            failure: None,
        };
        for index in 0..pool.size() {
            let connection = &pool.connections[index as usize];
            connection.watch(&pool.epoll, Interest::Read, index)?;
            pool.rest(index);
        }
        Ok(pool)
    }

    /// Returns how many connections there are.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn size(&self) -> u32 {
        self.connections.len() as u32
    }

    pub(crate) fn counts(&self) -> ConnectionCounts {
        self.counts
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Assigns the operation to a connection, or queues it.
    pub(crate) fn submit(&mut self, slot: u32, operation: &Operation) {
        if operation.kind != Kind::Exchange {
            return self.end(slot, -libc::EOPNOTSUPP);
        }
        self.timeouts.start(slot, monotonic_ns);
        self.carriers[slot as usize] = NOBODY;
        let Some(index) = self.take_free() else {
            return self.waiting.push_back((slot, *operation));
        };
        if self.assign(index, slot, operation) {
            let token = self.connection(index).token(index);
            self.prepared.push(token);
        } else {
            self.rest(index);
        }
    }

    /// Writes the prepared requests, as far as the kernel accepts them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for place in 0..self.prepared.len() {
            let index = index_of(self.prepared[place]);
            // The connection may have been lost since, and then carries another operation or none.
            if self.connection(index).token(index) == self.prepared[place] {
                self.write(index, false)?;
                self.serve(index)?;
            }
        }
        self.prepared.clear();
        Ok(())
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

    /// Sleeps until a socket is ready, an attempt is due or `at_most` has passed.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        if !self.ended.is_empty() || self.epoll.ready() > 0 {
            return Ok(());
        }
        let mut at_most = at_most.min(self.until_expiry());
        if let Some((due, _)) = self.retries.front() {
            let left = due.saturating_duration_since(Instant::now());
            at_most = at_most.min(Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)));
        }
        self.epoll.wait(at_most)
    }

    /// Serves the ready sockets, the attempts and the time limits that are due. It stops when an operation
    /// ends, so that the end is stamped, and the operations it triggers are issued, before other sockets are read.
    fn work(&mut self) -> io::Result<()> {
        self.expire()?;
        if !self.retries.is_empty() {
            self.retry()?;
        }
        if self.epoll.ready() == 0 {
            self.epoll.wait(Nanos::ZERO)?;
        }
        for _ in 0..SERVED {
            if !self.ended.is_empty() {
                break;
            }
            let Some(ready) = self.epoll.take() else {
                break;
            };
            let index = index_of(ready.token);
            if self.connection(index).token(index) == ready.token {
                self.react(index, ready)?;
                self.serve(index)?;
            }
        }
        Ok(())
    }

    fn react(&mut self, index: u32, ready: ReadySocket) -> io::Result<()> {
        if self.connection(index).state == ConnectionState::Connecting {
            return match self.connection(index).outcome() {
                Ok(()) => self.connected(index),
                Err(errno) => {
                    self.connection(index).close(true);
                    self.not_connected(index, errno);
                    Ok(())
                }
            };
        }
        // A response may arrive while the request is still being written.
        let generation = self.connection(index).generation;
        if ready.readable {
            self.read(index)?;
        }
        let connection = self.connection(index);
        if ready.writable && connection.generation == generation && connection.is_unfinished() {
            self.write(index, true)?;
        }
        Ok(())
    }

    fn write(&mut self, index: u32, watched: bool) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        if !matches!(connection.state, ConnectionState::Busy(_)) {
            return Ok(());
        }
        let step = connection.write(&self.protocol, &mut self.counts.sent_bytes);
        let connection = &self.connections[index as usize];
        match (connection.is_unfinished(), watched) {
            (true, false) => connection.rewatch(&self.epoll, Interest::ReadWrite, index)?,
            (false, true) => connection.rewatch(&self.epoll, Interest::Read, index)?,
            _ => {}
        }
        self.settle(index, step)
    }

    fn read(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let received = &mut self.counts.received_bytes;
        let step = connection.read(&self.protocol, &mut self.buffer, received);
        self.settle(index, step)
    }

    /// Updates the connection and its operation after a step of work.
    fn settle(&mut self, index: u32, step: SocketStep) -> io::Result<()> {
        match step {
            SocketStep::Later => Ok(()),
            SocketStep::Ended { result, reusable } => {
                let connection = self.connection(index);
                let clean = reusable && !connection.is_unfinished();
                connection.proven = true;
                self.end_of(index, result);
                if clean {
                    return Ok(());
                }
                self.lose(index, false)
            }
            SocketStep::Closed => {
                let connection = &mut self.connections[index as usize];
                if let ConnectionState::Busy(_) = connection.state {
                    let result = self.protocol.closed(&mut connection.exchange);
                    connection.proven |= result >= 0;
                    self.end_of(index, result);
                }
                self.lose(index, true)
            }
            SocketStep::Unrequested => {
                self.counts.unrequested += 1;
                self.lose(index, false)
            }
            SocketStep::Failed(errno) => {
                self.end_of(index, errno);
                self.lose(index, false)
            }
        }
    }

    /// Ends the operation that the connection carries, if there is one; the connection is then idle.
    fn end_of(&mut self, index: u32, result: i32) {
        if let ConnectionState::Busy(slot) = self.connection(index).state {
            self.connection(index).state = ConnectionState::Free;
            self.end(slot, result);
        }
    }

    fn end(&mut self, slot: u32, result: i32) {
        self.timeouts.end(slot);
        self.ended.push_back(Reaped { slot, result });
    }

    /// Assigns a waiting operation to a free connection, or makes the connection idle.
    fn serve(&mut self, index: u32) -> io::Result<()> {
        while self.connection(index).state == ConnectionState::Free {
            let Some((slot, operation)) = self.waiting.pop_front() else {
                self.rest(index);
                return Ok(());
            };
            if self.assign(index, slot, &operation) {
                self.write(index, false)?;
            }
        }
        Ok(())
    }

    /// Starts the operation on the connection; ends it at once if the protocol refuses it.
    fn assign(&mut self, index: u32, slot: u32, operation: &Operation) -> bool {
        let connection = &mut self.connections[index as usize];
        match self.protocol.begin(&mut connection.exchange, operation) {
            Ok(()) => {
                connection.begin(slot);
                self.carriers[slot as usize] = index;
                true
            }
            Err(errno) => {
                self.end(slot, errno);
                false
            }
        }
    }

    fn rest(&mut self, index: u32) {
        let connection = self.connection(index);
        if !std::mem::replace(&mut connection.queued, true) {
            self.free.push_back(index);
        }
    }

    /// Takes the connection that was idle longest and is usable. A connection on which bytes have arrived,
    /// or that the server has closed, is reestablished instead.
    fn take_free(&mut self) -> Option<u32> {
        while let Some(index) = self.free.pop_front() {
            let connection = self.connection(index);
            connection.queued = false;
            if connection.state != ConnectionState::Free {
                continue;
            }
            match connection.look() {
                SocketStep::Later => return Some(index),
                step => {
                    if let Err(error) = self.settle(index, step) {
                        self.failure.get_or_insert(error);
                    }
                }
            }
        }
        None
    }

    fn connection(&mut self, index: u32) -> &mut Connection<P::Exchange> {
        &mut self.connections[index as usize]
    }
}

/// Returns the index in a token.
#[allow(clippy::cast_possible_truncation)]
fn index_of(token: u64) -> u32 {
    token as u32
}

impl<P: Protocol> Pool<P> {
    /// Ends the operations that have exceeded their limit.
    pub(super) fn expire(&mut self) -> io::Result<()> {
        if self.timeouts.first().is_none() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        for _ in 0..SLICE {
            match self.timeouts.first() {
                Some((slot, due_ns)) if due_ns <= now_ns => self.time_out(slot)?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn time_out(&mut self, slot: u32) -> io::Result<()> {
        self.counts.timeouts += 1;
        match self.carriers[slot as usize] {
            NOBODY => {
                let place = self.waiting.iter().position(|(waits, _)| *waits == slot);
                place.and_then(|place| self.waiting.remove(place));
                self.end(slot, -libc::ETIMEDOUT);
                Ok(())
            }
            index => {
                self.end_of(index, -libc::ETIMEDOUT);
                self.connection(index).close(false);
                // At once: the time limit itself keeps the reconnection rate low.
                self.reconnect(index)
            }
        }
    }

    /// Returns the time until the first operation expires; [`Nanos::NEVER`] if none does.
    pub(super) fn until_expiry(&self) -> Nanos {
        self.timeouts.first().map_or(Nanos::NEVER, |(_, due_ns)| {
            Nanos(due_ns.saturating_sub(monotonic_ns()))
        })
    }
}

/// Delay before another attempt at a connection that failed, or that carried no whole exchange.
const RETRY: Duration = Duration::from_millis(50);

impl<P: Protocol> Pool<P> {
    /// Closes the connection and arranges its reconnection.
    pub(super) fn lose(&mut self, index: u32, by_server: bool) -> io::Result<()> {
        let connection = self.connection(index);
        connection.close(by_server);
        if connection.proven {
            return self.reconnect(index);
        }
        self.retries.push_back((Instant::now() + RETRY, index));
        Ok(())
    }

    pub(super) fn reconnect(&mut self, index: u32) -> io::Result<()> {
        let address = self.address;
        match self.connection(index).reconnect(address) {
            // The outcome is reported as an event, even if it is known already.
            Ok(()) => self.connections[index as usize].watch(&self.epoll, Interest::Write, index),
            Err(errno) => {
                self.not_connected(index, errno);
                Ok(())
            }
        }
    }

    pub(super) fn connected(&mut self, index: u32) -> io::Result<()> {
        self.counts.reconnects += 1;
        self.connection(index).state = ConnectionState::Free;
        self.connections[index as usize].rewatch(&self.epoll, Interest::Read, index)
    }

    /// Handles a failed attempt: it is due again later, and a waiting operation ends.
    pub(super) fn not_connected(&mut self, index: u32, errno: i32) {
        self.counts.failed_connects += 1;
        self.retries.push_back((Instant::now() + RETRY, index));
        if let Some((slot, _)) = self.waiting.pop_front() {
            self.end(slot, errno);
        }
    }

    pub(super) fn retry(&mut self) -> io::Result<()> {
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
