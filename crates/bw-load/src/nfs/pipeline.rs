//! Many outstanding calls on several connections: assignment, sending, replies, time limits, reconnection.
//!
//! A call goes to the next connection in turn that is up and has room; without one it waits. If a server reads or writes only
//! a part, another call has the rest, as every client of NFS does it.
//!
//! Decisions. An operation has one time limit from its submission, whatever happens to its call: it waits for a
//! connection, is sent again after a postponement (NFS3ERR_JUKEBOX, under a new xid, or the server would repeat its
//! answer) or after a lost connection (under the same xid, so that the server can recognise it). A call that a repetition could
//! make wrong (REMOVE, RENAME, MKDIR, RMDIR) is not sent again after a lost connection: its operation ends with the errno. A
//! stream that is not one of records ends with its connection, and all its operations with EBADMSG. Failed connects end no operation: like a
//! mounted file system, a client of NFS waits for its server, here until the time limit.

use crate::net::connection::{Address, CONNECT_TIMEOUT, begin_connect, is_later, negative};
use crate::net::epoll::{Epoll, Interest, ReadySocket};
use crate::net::pool::Timeouts;
use crate::nfs::operation::{KEPT, NoCall, Outcome, Translator, is_idempotent};
use crate::nfs::xids::Xids;
use crate::target::{Awaited, Background, Reaped};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_nfs::record::{Record, Records};
use bw_nfs::rpc::{read_reply, xid_of};
use bw_nfs::status::Status;
use bw_nfs::{Procedure, reply};
use bw_protocol::MeasuredPart;
use bw_sys::clock::monotonic_ns;
use serde::Serialize;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Maximum number of ready sockets that one wait returns.
const READY: usize = 32;
/// How many of them are served before the worker looks at its schedule again, if no operation ends.
const SERVED: usize = 4;
/// Maximum size of one read [bytes].
const BUFFER_BYTES: usize = 64 * 1024;
/// More calls are not encoded while this much waits to be written [bytes].
const UNSENT_MOST: usize = 128 * 1024;
/// How often a connection writes before others are served.
const WRITES_AT_ONCE: u32 = 16;
/// Delay before another attempt at a connection that failed, or on which no reply has come.
const RETRY_NS: u64 = 50_000_000;
/// How often the call of an operation is sent again after lost connections.
const RESENDS: u8 = 3;
/// Length of a record beyond the data of the largest READ or WRITE [bytes].
const RECORD_SPARE: usize = 4096;

/// What happened to calls so far, without the warm-up, as the result's `target` object has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Reconnections, because the server had closed the connection or it had failed.
    pub reconnects: u64,
    /// Reconnection attempts that failed.
    pub failed_connects: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Operations that exceeded the time limit.
    pub timeouts: u64,
    /// Replies that came after their operation had ended.
    pub late_replies: u64,
    /// Replies to no call of ours.
    pub unknown_replies: u64,
    /// Replies, or streams of bytes, that do not follow the protocol.
    pub malformed_replies: u64,
    /// Replies NFS3ERR_JUKEBOX, whose calls were sent again.
    pub jukebox: u64,
    /// Calls that were sent again after a lost connection.
    pub resent: u64,
    /// Operations that ended because their connection was lost.
    pub lost: u64,
    /// LOOKUPs for handles that were not known.
    pub lookups: u64,
    /// Changes of the server's write verifier: the server was restarted.
    pub verifier_changes: u64,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// There is none.
    Idle,
    /// A connection.
    Waiting,
    /// Room on this connection.
    Queued(u32),
    /// A reply on this connection.
    Sent(u32),
    /// The time when a postponed call is sent again.
    Postponed,
}

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
struct Slot {
    operation: Operation,
    state: CallState,
    /// The xid of its call.
    xid: u32,
    /// How many bytes were read or written by calls before this one.
    done: u32,
    procedure: Procedure,
    resends: u8,
    /// Whether the call looks up this object's handle, which the operation needs.
    looks_up: Option<u32>,
}

impl Slot {
    /// Returns the part of its operation that is left.
    fn rest(&self) -> Operation {
        Operation {
            // The lowest bits are the offset in the file.
            offset: self.operation.offset + u64::from(self.done),
            size: self.operation.size - self.done,
            ..self.operation
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Down,
    Connecting,
    Up,
}

/// One connection.
#[derive(Debug)]
struct Link {
    socket: Option<Socket>,
    state: LinkState,
    /// Distinguishes the events of this socket from those of an earlier one.
    generation: u32,
    /// Whether a reply has come since it was established.
    proven: bool,
    /// Calls that were assigned to it and not answered.
    outstanding: u32,
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether the socket is watched for room.
    watched: bool,
    /// Whether the next flush writes.
    prepared: bool,
    queue: VecDeque<u32>,
    records: Records,
}

impl Link {
    fn token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }

    fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }
}

/// The parameters of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct PipelinePlan {
    pub address: Address,
    pub reserved_port: bool,
    /// Maximum number of unanswered calls of a connection.
    pub outstanding: u32,
    pub timeout: Option<Nanos>,
    pub jukebox_retry: Nanos,
    /// Size of the largest READ or WRITE [bytes].
    pub data_bytes: usize,
}

/// The calls in progress. See the module's description.
#[derive(Debug)]
pub(crate) struct Pipeline {
    plan: PipelinePlan,
    translator: Translator,
    links: Vec<Link>,
    slots: Box<[Slot]>,
    xids: Xids,
    epoll: Epoll,
    next_link: u32,
    prepared: Vec<u32>,
    waiting: VecDeque<u32>,
    /// How many operations have begun and not ended.
    in_flight: usize,
    timeouts: Timeouts,
    /// The connections that are being established.
    connects: Timeouts,
    /// Postponed calls, and when each is sent again: the earliest first, since all wait equally long.
    postponed: VecDeque<(u64, u32)>,
    /// Connections that are down, and when each is tried again, the earliest first.
    retries: VecDeque<(u64, u32)>,
    ended: VecDeque<Reaped>,
    buffer: Box<[u8]>,
    counts: CallCounts,
    measured: MeasuredPart,
}

impl Pipeline {
    /// Returns the pipeline over these connections.
    pub(crate) fn new(
        plan: PipelinePlan,
        translator: Translator,
        sockets: Vec<Socket>,
    ) -> io::Result<Self> {
        let room = UNSENT_MOST + translator.most_bytes() + plan.data_bytes;
        let outstanding = plan.outstanding as usize;
        let links: Vec<_> = sockets
            .into_iter()
            .map(|socket| Link {
                socket: Some(socket),
                state: LinkState::Up,
                generation: 0,
                proven: false,
                outstanding: 0,
                outgoing: Vec::with_capacity(room),
                sent: 0,
                watched: false,
                prepared: false,
                queue: VecDeque::with_capacity(outstanding),
                records: Records::new(KEPT, plan.data_bytes.max(KEPT) + RECORD_SPARE),
            })
            .collect();
        let capacity = links.len() * outstanding;
        let slot = Slot {
            operation: Operation {
                at: Nanos::ZERO,
                offset: 0,
                size: 0,
                kind: Kind::Getattr,
                notify: false,
                tag: 0,
            },
            state: CallState::Idle,
            xid: 0,
            done: 0,
            procedure: Procedure::NFSPROC3_NULL,
            resends: 0,
            looks_up: None,
        };
        let pipeline = Self {
            translator,
            slots: vec![slot; capacity].into_boxed_slice(),
            // Others in each run, so that a server does not take a call for a repetition.
            xids: Xids::new(bw_sys::clock::realtime_ns() as u32, capacity),
            epoll: Epoll::new(READY)?,
            next_link: 0,
            prepared: Vec::with_capacity(links.len()),
            waiting: VecDeque::with_capacity(capacity),
            in_flight: 0,
            timeouts: Timeouts::new(plan.timeout, capacity),
            connects: Timeouts::new(Some(Nanos(CONNECT_TIMEOUT.as_nanos() as u64)), links.len()),
            postponed: VecDeque::with_capacity(capacity),
            retries: VecDeque::with_capacity(links.len()),
            ended: VecDeque::with_capacity(capacity),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            counts: CallCounts::default(),
            measured: MeasuredPart::default(),
            plan,
            links,
        };
        for (index, link) in (0..).zip(&pipeline.links) {
            if let Some(socket) = &link.socket {
                pipeline
                    .epoll
                    .add(socket.as_fd(), Interest::Read, link.token(index))?;
            }
        }
        Ok(pipeline)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn connections(&self) -> u32 {
        self.links.len() as u32
    }

    /// Returns the counts; all zero if nothing was measured.
    pub(crate) fn counts(&self) -> CallCounts {
        if self.measured.is_awaited() {
            return CallCounts::default();
        }
        self.counts
    }

    /// See [`Target::measure_from`](crate::target::Target::measure_from). Counts of operations go by the intended start of
    /// each, those of connections and of replies without an operation begin with the first measured operation.
    pub(crate) fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    /// Returns 1 if the operation of a slot is measured, else 0: what a count of operations grows by.
    fn one_of(&self, slot: u32) -> u64 {
        self.measured
            .has(&self.slots[slot as usize].operation)
            .into()
    }

    /// Begins the operation of a free slot.
    pub(crate) fn submit(&mut self, slot: u32, operation: &Operation) {
        if self.measured.begins_with(operation) {
            self.counts = CallCounts::default();
        }
        self.in_flight += 1;
        self.timeouts.start(slot, monotonic_ns);
        let entry = &mut self.slots[slot as usize];
        entry.operation = *operation;
        entry.resends = 0;
        entry.looks_up = None;
        entry.done = 0;
        entry.xid = self.xids.give(slot);
        self.assign(slot);
    }

    /// Writes the encoded calls, as far as the kernel accepts them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(index) = self.prepared.pop() {
            // It may have been lost since.
            if std::mem::take(&mut self.link(index).prepared) {
                self.write(index)?;
            }
        }
        Ok(())
    }

    /// Moves completions to `ends`; does a slice of work if there are none yet.
    pub(crate) fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let room = ends.capacity() - ends.len();
        if self.ended.is_empty() && room > 0 {
            self.work()?;
        }
        let count = room.min(self.ended.len());
        ends.extend(self.ended.drain(..count));
        Ok(())
    }

    /// See [`Target::awaited`](crate::target::Target::awaited).
    pub(crate) fn awaited(&self) -> Awaited {
        let due = [
            self.timeouts.first().map(|(_, due_ns)| due_ns),
            self.postponed.front().map(|(due_ns, _)| *due_ns),
            self.retries.front().map(|(due_ns, _)| *due_ns),
            self.connects.first().map(|(_, due_ns)| due_ns),
        ];
        let at_most = if !self.ended.is_empty() || self.epoll.ready() > 0 {
            Nanos::ZERO
        } else {
            let due_ns = due.into_iter().flatten().min();
            due_ns.map_or(Nanos::NEVER, |due_ns| {
                Nanos(due_ns.saturating_sub(monotonic_ns()))
            })
        };
        Awaited {
            descriptor: Some(self.epoll.descriptor()),
            at_most,
        }
    }

    /// See [`Target::background`](crate::target::Target::background): a server may close at any time.
    #[inline]
    pub(crate) fn background(&self) -> Background {
        let is_ready = self.epoll.ready() > 0 || !self.ended.is_empty();
        if is_ready || !self.retries.is_empty() || self.connects.first().is_some() {
            Background::Work
        } else {
            Background::Arrivals
        }
    }

    /// Sleeps until a socket is ready, something is due or `at_most` has passed.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let at_most = at_most.min(self.awaited().at_most);
        match (at_most, self.in_flight) {
            (Nanos::ZERO, _) => Ok(()),
            // Whether polling finds something is learnt from operations.
            (_, 0) => self.epoll.wait(at_most),
            _ => self.epoll.wait_polling(at_most),
        }
    }

    /// Serves what is due and the ready sockets. It stops when an operation ends, so that the end is stamped, and the
    /// operations it triggers are issued, before other sockets are read.
    fn work(&mut self) -> io::Result<()> {
        self.serve_due()?;
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
            let index = ready.token as u32;
            if self.link(index).token(index) == ready.token {
                self.react(index, ready)?;
            }
        }
        // What is sent again, or waited for a connection.
        self.assign_waiting();
        self.flush()
    }

    fn serve_due(&mut self) -> io::Result<()> {
        let nothing = self.timeouts.first().is_none() && self.postponed.is_empty();
        if nothing && self.retries.is_empty() && self.connects.first().is_none() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        while let Some((slot, due_ns)) = self.timeouts.first()
            && due_ns <= now_ns
        {
            self.counts.timeouts += self.one_of(slot);
            self.end(slot, -libc::ETIMEDOUT);
        }
        while let Some(&(due_ns, slot)) = self.postponed.front()
            && due_ns <= now_ns
        {
            self.postponed.pop_front();
            self.renumber(slot);
            self.assign(slot);
        }
        while let Some((index, due_ns)) = self.connects.first()
            && due_ns <= now_ns
        {
            self.not_connected(index, now_ns);
        }
        while let Some(&(due_ns, index)) = self.retries.front()
            && due_ns <= now_ns
        {
            self.retries.pop_front();
            self.connect(index, now_ns)?;
        }
        Ok(())
    }

    fn react(&mut self, index: u32, ready: ReadySocket) -> io::Result<()> {
        if self.link(index).state == LinkState::Connecting {
            let Some(socket) = &self.link(index).socket else {
                return Ok(());
            };
            return match socket.take_error() {
                Ok(None) => self.connected(index),
                Ok(Some(_)) | Err(_) => {
                    self.not_connected(index, monotonic_ns());
                    Ok(())
                }
            };
        }
        let generation = self.link(index).generation;
        if ready.readable {
            self.read(index)?;
        }
        if ready.writable && self.link(index).generation == generation {
            self.write(index)?;
        }
        Ok(())
    }

    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.links[index as usize]
    }
}

/// Calls: numbers, assignment, ends.
impl Pipeline {
    /// Gives the call of a slot a new xid.
    fn renumber(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        self.xids.take_back(entry.xid);
        entry.xid = self.xids.give(slot);
    }

    /// Puts the call of a slot on a connection; without one that has room it waits.
    fn assign(&mut self, slot: u32) {
        if !self.try_assign(slot) {
            self.slots[slot as usize].state = CallState::Waiting;
            self.waiting.push_back(slot);
        }
    }

    /// Puts the call of a slot on the next connection in turn that has room; returns whether there is one.
    fn try_assign(&mut self, slot: u32) -> bool {
        let count = self.connections();
        for _ in 0..count {
            let index = self.next_link;
            self.next_link = if index + 1 == count { 0 } else { index + 1 };
            let link = &mut self.links[index as usize];
            if link.state == LinkState::Up && link.outstanding < self.plan.outstanding {
                link.outstanding += 1;
                if link.unsent() < UNSENT_MOST && link.queue.is_empty() {
                    self.encode(slot, index);
                } else {
                    link.queue.push_back(slot);
                    self.slots[slot as usize].state = CallState::Queued(index);
                }
                return true;
            }
        }
        false
    }

    /// Puts waiting calls on connections, as far as these have room.
    fn assign_waiting(&mut self) {
        while let Some(&slot) = self.waiting.front()
            && self.try_assign(slot)
        {
            self.waiting.pop_front();
        }
    }

    /// Encodes the call of a slot on its connection, which counts it as outstanding.
    fn encode(&mut self, slot: u32, index: u32) {
        let entry = &mut self.slots[slot as usize];
        let xid = entry.xid;
        entry.state = CallState::Sent(index);
        let link = &mut self.links[index as usize];
        let rest = entry.rest();
        let address = FileAddress::unpack(rest.offset);
        let encoded = match entry.looks_up {
            None => self.translator.encode(&mut link.outgoing, xid, &rest),
            Some(object) => Err(NoCall::Unknown(object)),
        };
        let procedure = match encoded {
            Ok(procedure) => procedure,
            Err(NoCall::Ended(result)) => return self.end(slot, result),
            Err(NoCall::Unknown(object)) => {
                let name = (object, object == address.object && address.renamed);
                match self.translator.encode_lookup(&mut link.outgoing, xid, name) {
                    Ok(procedure) => {
                        entry.looks_up = Some(object);
                        self.counts.lookups += u64::from(self.measured.has(&entry.operation));
                        procedure
                    }
                    Err(result) => return self.end(slot, result),
                }
            }
        };
        entry.procedure = procedure;
        self.prepare(index);
    }

    /// Marks a connection for the next flush.
    fn prepare(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        // If the socket is watched, the kernel reports when it has room.
        if !link.watched && !std::mem::replace(&mut link.prepared, true) {
            self.prepared.push(index);
        }
    }

    /// Ends the operation of a slot, whatever it waits for.
    fn end(&mut self, slot: u32, result: i32) {
        self.detach(slot);
        self.xids.take_back(self.slots[slot as usize].xid);
        self.in_flight -= 1;
        self.timeouts.end(slot);
        self.ended.push_back(Reaped {
            slot,
            result,
            unseen: Nanos::ZERO,
        });
    }

    /// Takes the call of a slot from where it is.
    fn detach(&mut self, slot: u32) {
        let state = std::mem::replace(&mut self.slots[slot as usize].state, CallState::Idle);
        match state {
            CallState::Idle => {}
            CallState::Waiting => remove(&mut self.waiting, |waiting| *waiting == slot),
            CallState::Postponed => remove(&mut self.postponed, |(_, waiting)| *waiting == slot),
            CallState::Queued(index) => {
                remove(&mut self.link(index).queue, |waiting| *waiting == slot);
                self.link(index).outstanding -= 1;
            }
            CallState::Sent(index) => self.link(index).outstanding -= 1,
        }
    }
}

/// Takes the first element that fits out of a queue.
fn remove<T>(queue: &mut VecDeque<T>, fits: impl FnMut(&T) -> bool) {
    if let Some(place) = queue.iter().position(fits) {
        queue.remove(place);
    }
}

/// Bytes out and in.
impl Pipeline {
    /// Writes what the kernel accepts, and encodes the calls that waited for it.
    fn write(&mut self, index: u32) -> io::Result<()> {
        for _ in 0..WRITES_AT_ONCE {
            let link = &mut self.links[index as usize];
            if link.state != LinkState::Up {
                return Ok(());
            }
            if link.unsent() == 0 {
                link.outgoing.clear();
                link.sent = 0;
                if link.queue.is_empty() {
                    return self.watch(index, false);
                }
                self.encode_queued(index);
                continue;
            }
            let Some(mut socket) = link.socket.as_ref() else {
                return Ok(());
            };
            match socket.write(&link.outgoing[link.sent..]) {
                Ok(written) => {
                    link.sent += written;
                    self.counts.sent_bytes += written as u64;
                }
                Err(error) if is_later(&error) => break,
                Err(error) => return self.lose(index, negative(&error)),
            }
        }
        self.watch(index, true)
    }

    fn encode_queued(&mut self, index: u32) {
        while self.link(index).unsent() < UNSENT_MOST
            && let Some(slot) = self.link(index).queue.pop_front()
        {
            self.encode(slot, index);
        }
    }

    /// Watches the socket for room to write, or no longer.
    fn watch(&mut self, index: u32, watched: bool) -> io::Result<()> {
        let link = &mut self.links[index as usize];
        if std::mem::replace(&mut link.watched, watched) == watched {
            return Ok(());
        }
        let interest = if watched {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        match &link.socket {
            Some(socket) => self
                .epoll
                .change(socket.as_fd(), interest, link.token(index)),
            None => Ok(()),
        }
    }

    /// Reads one piece, and handles the replies in it.
    fn read(&mut self, index: u32) -> io::Result<()> {
        let Some(mut socket) = self.links[index as usize].socket.as_ref() else {
            return Ok(());
        };
        let length = match socket.read(&mut self.buffer) {
            Ok(0) => return self.lose(index, -libc::ECONNRESET),
            Ok(length) => length,
            Err(error) if is_later(&error) => return Ok(()),
            Err(error) => return self.lose(index, negative(&error)),
        };
        self.counts.received_bytes += length as u64;
        // The records borrow from both, and what handles them needs the rest.
        let mut records = std::mem::replace(&mut self.link(index).records, Records::new(0, 0));
        let buffer = std::mem::take(&mut self.buffer);
        let mut bytes = &buffer[..length];
        let framed = loop {
            match records.next(&mut bytes) {
                Ok(Some(record)) => self.take_reply(index, &record),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        self.buffer = buffer;
        self.link(index).records = records;
        if framed {
            return Ok(());
        }
        self.counts.malformed_replies += 1;
        self.lose(index, -libc::EBADMSG)
    }

    /// Finds the operation of a reply, and ends it or sends its next call.
    fn take_reply(&mut self, index: u32, record: &Record<'_>) {
        let Some(xid) = xid_of(record) else {
            self.counts.malformed_replies += 1;
            return;
        };
        let slot = self.xids.slot_of(xid).filter(|slot| {
            let entry = &self.slots[*slot as usize];
            entry.xid == xid && entry.state == CallState::Sent(index)
        });
        let Some(slot) = slot else {
            match self.xids.was_given(xid) {
                true => self.counts.late_replies += 1,
                false => self.counts.unknown_replies += 1,
            }
            return;
        };
        self.link(index).proven = true;
        let entry = self.slots[slot as usize];
        let Ok(head) = read_reply(record) else {
            return self.end_malformed(slot);
        };
        let results = match head.results {
            Ok(results) => results,
            Err(refusal) => return self.end(slot, refusal.result()),
        };
        match reply::read(entry.procedure, results) {
            Err(_) => self.end_malformed(slot),
            Ok(Err(Status::JUKEBOX)) => self.postpone(slot),
            Ok(Err(status)) => self.end(slot, status.result()),
            Ok(Ok(reply)) => match entry.looks_up {
                Some(object) => {
                    self.translator.found(object, &reply);
                    self.slots[slot as usize].looks_up = None;
                    self.renumber(slot);
                    self.encode(slot, index);
                }
                None => match self.translator.outcome(&entry.rest(), reply) {
                    Ok(outcome) => {
                        self.counts.verifier_changes += u64::from(outcome.verifier_changed);
                        self.advance(slot, index, outcome);
                    }
                    Err(_) => self.end_malformed(slot),
                },
            },
        }
    }

    /// Ends the operation of a slot, or sends a call for the rest of it.
    fn advance(&mut self, slot: u32, index: u32, outcome: Outcome) {
        let entry = &mut self.slots[slot as usize];
        entry.done += outcome.bytes;
        let done = i32::try_from(entry.done).unwrap_or(i32::MAX);
        match (outcome.is_whole, outcome.bytes) {
            (true, _) => self.end(slot, done),
            // Again and again it would be the same.
            (false, 0) => self.end(slot, -libc::EIO),
            (false, _) => {
                self.renumber(slot);
                self.encode(slot, index);
            }
        }
    }

    fn end_malformed(&mut self, slot: u32) {
        self.counts.malformed_replies += self.one_of(slot);
        self.end(slot, -libc::EBADMSG);
    }

    /// Sends the call of a slot again later.
    fn postpone(&mut self, slot: u32) {
        self.counts.jukebox += self.one_of(slot);
        self.detach(slot);
        self.slots[slot as usize].state = CallState::Postponed;
        let due_ns = monotonic_ns().saturating_add(self.plan.jukebox_retry.0);
        self.postponed.push_back((due_ns, slot));
    }
}

/// Connections: loss and reconnection.
impl Pipeline {
    /// Closes a connection and arranges its reconnection. Its calls are sent again, or end with `errno`.
    fn lose(&mut self, index: u32, errno: i32) -> io::Result<()> {
        let link = &mut self.links[index as usize];
        if let Some(socket) = link.socket.take() {
            // A reset: otherwise a reserved port would stay in TIME_WAIT for a minute. Without this option the close
            // is an ordinary one, which does no harm.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        link.state = LinkState::Down;
        link.generation = link.generation.wrapping_add(1);
        link.outgoing.clear();
        link.sent = 0;
        link.watched = false;
        link.prepared = false;
        link.records.clear();
        let proven = std::mem::take(&mut link.proven);
        let garbage = errno == -libc::EBADMSG;
        for slot in 0..self.capacity() {
            let entry = &mut self.slots[slot as usize];
            match entry.state {
                CallState::Queued(of) if of == index => {
                    self.detach(slot);
                    self.assign(slot);
                }
                CallState::Sent(of) if of == index => {
                    let counted = u64::from(self.measured.has(&entry.operation));
                    let repeatable = is_idempotent(entry.operation.kind) && !garbage;
                    if repeatable && entry.resends < RESENDS {
                        entry.resends += 1;
                        self.counts.resent += counted;
                        self.detach(slot);
                        self.assign(slot);
                    } else {
                        self.counts.lost += counted;
                        self.end(slot, errno);
                    }
                }
                _ => {}
            }
        }
        let now_ns = monotonic_ns();
        if proven {
            return self.connect(index, now_ns);
        }
        self.retries.push_back((now_ns + RETRY_NS, index));
        Ok(())
    }

    /// Starts to establish a connection; the outcome is reported as an event.
    fn connect(&mut self, index: u32, now_ns: u64) -> io::Result<()> {
        match begin_connect(&self.plan.address, self.plan.reserved_port) {
            Ok(socket) => {
                let link = &mut self.links[index as usize];
                self.epoll
                    .add(socket.as_fd(), Interest::Write, link.token(index))?;
                link.socket = Some(socket);
                link.state = LinkState::Connecting;
                self.connects.start(index, || now_ns);
                Ok(())
            }
            Err(_) => {
                self.not_connected(index, now_ns);
                Ok(())
            }
        }
    }

    fn connected(&mut self, index: u32) -> io::Result<()> {
        self.counts.reconnects += 1;
        self.connects.end(index);
        let link = &mut self.links[index as usize];
        link.state = LinkState::Up;
        if let Some(socket) = &link.socket {
            self.epoll
                .change(socket.as_fd(), Interest::Read, link.token(index))?;
        }
        Ok(())
    }

    fn not_connected(&mut self, index: u32, now_ns: u64) {
        self.counts.failed_connects += 1;
        self.connects.end(index);
        let link = self.link(index);
        link.socket = None;
        link.state = LinkState::Down;
        link.generation = link.generation.wrapping_add(1);
        self.retries.push_back((now_ns + RETRY_NS, index));
    }
}
