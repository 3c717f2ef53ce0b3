//! Many outstanding calls on several connections: assignment, sending, replies, time limits, lost connections.
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

use crate::net::connection::{Closing, ConnectionState, Established};
use crate::net::connections::{Attempt, Connections, Event, Traffic};
use crate::net::slot_list::{SlotLinks, Timeouts};
use crate::net::transport::Transport;
use crate::nfs::operation::{KEPT, NoCall, Outcome, Translator, is_idempotent};
use crate::nfs::xids::Xids;
use crate::target::{Awaited, Background, Reaped};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use bw_nfs::record::{Record, Records};
use bw_nfs::rpc::{read_reply, xid_of};
use bw_nfs::status::Status;
use bw_nfs::{Procedure, reply};
use bw_protocol::{MeasuredPart, Outgoing};
use bw_sys::clock::monotonic_ns;
use serde::Serialize;
use std::collections::VecDeque;
use std::io;

/// How many ready sockets are served before the worker looks at its schedule again, if no operation ends.
const SERVED: usize = 4;
/// More calls are not encoded while this much waits to be written [bytes].
const UNSENT_MOST: usize = 128 * 1024;
/// How often the calls that wait for room are encoded before others are served.
const TURNS: u32 = 16;
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

/// The calls of a connection, and what has arrived of a reply.
#[derive(Debug)]
struct Calls {
    /// Those that are not encoded yet.
    queue: VecDeque<u32>,
    records: Records,
}

/// The parameters of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct PipelinePlan {
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
    connections: Connections<Calls>,
    /// The order of the calls of each connection.
    carried: SlotLinks,
    slots: Box<[Slot]>,
    xids: Xids,
    next_connection: u32,
    prepared: Vec<u32>,
    waiting: VecDeque<u32>,
    /// How many operations have begun and not ended.
    in_flight: usize,
    timeouts: Timeouts,
    /// Postponed calls, and when each is sent again: the earliest first, since all wait equally long.
    postponed: VecDeque<(u64, u32)>,
    /// How long the replies that are being handled had been there before they were read.
    unseen: Nanos,
    counts: CallCounts,
    measured: MeasuredPart,
}

impl Pipeline {
    /// Returns the pipeline over these connections.
    pub(crate) fn new(
        plan: PipelinePlan,
        translator: Translator,
        established: Established,
    ) -> io::Result<Self> {
        let room = UNSENT_MOST + translator.most_bytes() + plan.data_bytes;
        let outstanding = plan.outstanding as usize;
        let calls = || Calls {
            queue: VecDeque::with_capacity(outstanding),
            records: Records::new(KEPT, plan.data_bytes.max(KEPT) + RECORD_SPARE),
        };
        let mut connections =
            Connections::new(established, plan.reserved_port, outstanding, calls)?;
        for index in 0..connections.count() {
            connections[index].out = Outgoing::with_capacity(room);
            connections.complete(index);
        }
        connections.before_run = false;
        let count = connections.count() as usize;
        let capacity = count * outstanding;
        let slot = Slot {
            operation: Operation::new(Kind::Getattr, 0, 0),
            state: CallState::Idle,
            xid: 0,
            done: 0,
            procedure: Procedure::NFSPROC3_NULL,
            resends: 0,
            looks_up: None,
        };
        Ok(Self {
            translator,
            carried: SlotLinks::new(capacity),
            slots: vec![slot; capacity].into_boxed_slice(),
            // Others in each run, so that a server does not take a call for a repetition.
            xids: Xids::new(bw_sys::clock::realtime_ns() as u32, capacity),
            next_connection: 0,
            prepared: Vec::with_capacity(count),
            waiting: VecDeque::with_capacity(capacity),
            in_flight: 0,
            timeouts: Timeouts::new(plan.timeout, capacity),
            postponed: VecDeque::with_capacity(capacity),
            unseen: Nanos::ZERO,
            counts: CallCounts::default(),
            measured: MeasuredPart::default(),
            plan,
            connections,
        })
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.count()
    }

    /// Returns the counts; all zero if nothing was measured.
    pub(crate) fn counts(&self) -> CallCounts {
        if self.measured.is_awaited() {
            return CallCounts::default();
        }
        let traffic = self.connections.traffic;
        CallCounts {
            reconnects: traffic.reconnects,
            failed_connects: traffic.failed_connects,
            sent_bytes: traffic.sent_bytes,
            received_bytes: traffic.received_bytes,
            ..self.counts
        }
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
            self.connections.traffic = Traffic::default();
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
            if std::mem::take(&mut self.connections[index].prepared) {
                self.write(index)?;
            }
        }
        Ok(())
    }

    /// Moves completions to `ends`; does a slice of work if there are none yet.
    pub(crate) fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        let room = ends.capacity() - ends.len();
        if self.connections.ended.is_empty() && room > 0 {
            self.work()?;
        }
        let count = room.min(self.connections.ended.len());
        ends.extend(self.connections.ended.drain(..count));
        Ok(())
    }

    /// Returns when there is something to do that the connections do not know [ns].
    fn due_ns(&self) -> Option<u64> {
        let due = [
            self.timeouts.first().map(|(_, due_ns)| due_ns),
            self.postponed.front().map(|(due_ns, _)| *due_ns),
        ];
        due.into_iter().flatten().min()
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

    /// Sleeps until a socket is ready, something is due or `at_most` has passed.
    pub(crate) fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        let (due_ns, polls) = (self.due_ns(), self.in_flight > 0);
        self.connections.wait(due_ns, at_most, polls)
    }

    /// Serves what is due and the ready sockets. It stops when an operation ends, so that the end is stamped, and the
    /// operations it triggers are issued, before other sockets are read.
    fn work(&mut self) -> io::Result<()> {
        self.serve_due()?;
        self.connections.look()?;
        for _ in 0..SERVED {
            if !self.connections.ended.is_empty() {
                break;
            }
            match self.connections.next() {
                None => break,
                Some(Event::Attempt(index, attempt)) => self.attempted(index, attempt)?,
                Some(Event::Ready(index, ready)) => {
                    let token = self.connections[index].token(index);
                    if ready.readable {
                        self.read(index)?;
                    }
                    if ready.writable && self.connections[index].token(index) == token {
                        self.write(index)?;
                    }
                }
            }
        }
        // What is sent again, or waited for a connection.
        self.assign_waiting();
        self.flush()
    }

    fn serve_due(&mut self) -> io::Result<()> {
        let nothing = self.timeouts.first().is_none() && self.postponed.is_empty();
        if nothing && !self.connections.is_any_down() {
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
        while let Some((index, attempt)) = self.connections.due(now_ns)? {
            self.attempted(index, attempt)?;
        }
        Ok(())
    }

    /// Handles what an attempt to establish a connection has come to.
    fn attempted(&mut self, index: u32, attempt: Attempt) -> io::Result<()> {
        match attempt {
            Attempt::InProgress => return Ok(()),
            Attempt::Connected => self.connections.complete(index),
            Attempt::Failed(_) => self.connections.fail(index),
        }
        self.connections.rewatch(index)
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
            let index = self.next_connection;
            self.next_connection = if index + 1 == count { 0 } else { index + 1 };
            let connection = &mut self.connections[index];
            let has_room = connection.carried.length() < self.plan.outstanding;
            if connection.state == ConnectionState::Ready && has_room {
                self.carried.push(&mut connection.carried, slot);
                let calls = &mut connection.session;
                if connection.out.unsent_bytes() < UNSENT_MOST as u64 && calls.queue.is_empty() {
                    self.encode(slot, index);
                } else {
                    calls.queue.push_back(slot);
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
        let out = &mut self.connections[index].out;
        let rest = entry.rest();
        let address = FileAddress::unpack(rest.offset);
        let most = self.translator.most_bytes() + self.plan.data_bytes;
        let translator = &mut self.translator;
        let encoded = match entry.looks_up {
            None => out.put_with(most, |out| translator.encode(out, xid, &rest)),
            Some(object) => Err(NoCall::Unknown(object)),
        };
        let procedure = match encoded {
            Ok(procedure) => procedure,
            Err(NoCall::Ended(result)) => return self.end(slot, result),
            Err(NoCall::Unknown(object)) => {
                let name = (object, object == address.object && address.renamed);
                match out.put_with(most, |out| translator.encode_lookup(out, xid, name)) {
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
        let connection = &mut self.connections[index];
        // The kernel reports when it has room.
        if !connection.waits_for_room() && !std::mem::replace(&mut connection.prepared, true) {
            self.prepared.push(index);
        }
    }

    /// Ends the operation of a slot, whatever it waits for.
    fn end(&mut self, slot: u32, result: impl Into<i64>) {
        self.detach(slot);
        self.xids.take_back(self.slots[slot as usize].xid);
        self.in_flight -= 1;
        self.timeouts.end(slot);
        self.connections.ended.push_back(Reaped {
            slot,
            result: result.into(),
            unseen: self.unseen,
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
                let connection = &mut self.connections[index];
                remove(&mut connection.session.queue, |waiting| *waiting == slot);
                self.carried.remove(&mut connection.carried, slot);
            }
            CallState::Sent(index) => {
                let connection = &mut self.connections[index];
                self.carried.remove(&mut connection.carried, slot);
            }
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
        for _ in 0..TURNS {
            if self.connections[index].state != ConnectionState::Ready {
                return Ok(());
            }
            match self.connections.write(index) {
                Ok(true) if !self.connections[index].session.queue.is_empty() => {
                    self.encode_queued(index);
                }
                Ok(_) => break,
                Err(errno) => return self.lose(index, errno),
            }
        }
        self.connections.rewatch(index)
    }

    fn encode_queued(&mut self, index: u32) {
        while self.connections[index].out.unsent_bytes() < UNSENT_MOST as u64
            && let Some(slot) = self.connections[index].session.queue.pop_front()
        {
            self.encode(slot, index);
        }
    }

    /// Reads one piece, and handles the replies in it.
    fn read(&mut self, index: u32) -> io::Result<()> {
        let length = match self.connections.read(index) {
            Ok(Some(0)) => return self.lose(index, -libc::ECONNRESET),
            Ok(Some(length)) => length,
            Ok(None) => return Ok(()),
            Err(errno) => return self.lose(index, errno),
        };
        let transport = self.connections[index].transport();
        self.unseen = transport.and_then(Transport::unseen).unwrap_or_default();
        // The records borrow from both, and what handles them needs the rest.
        let calls = &mut self.connections[index].session;
        let mut records = std::mem::replace(&mut calls.records, Records::new(0, 0));
        let buffer = self.connections.take_buffer();
        let mut bytes = &buffer[..length];
        let framed = loop {
            match records.next(&mut bytes) {
                Ok(Some(record)) => self.take_reply(index, &record),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        self.connections.give_buffer(buffer);
        self.connections[index].session.records = records;
        self.unseen = Nanos::ZERO;
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
        self.connections[index].proven = true;
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
        let done = i64::from(entry.done);
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

/// Lost connections.
impl Pipeline {
    /// Closes a connection and arranges its reconnection. Its calls are sent again, or end with `errno`.
    fn lose(&mut self, index: u32, errno: i32) -> io::Result<()> {
        let connection = &mut self.connections[index];
        connection.session.queue.clear();
        connection.session.records.clear();
        let mut carried = std::mem::take(&mut connection.carried);
        let attempt = self.connections.lose(index, Closing::ByClient)?;
        self.attempted(index, attempt)?;
        let garbage = errno == -libc::EBADMSG;
        while let Some(slot) = self.carried.pop(&mut carried) {
            let entry = &mut self.slots[slot as usize];
            let state = std::mem::replace(&mut entry.state, CallState::Idle);
            if let CallState::Sent(_) = state {
                let counted = u64::from(self.measured.has(&entry.operation));
                let repeatable = is_idempotent(entry.operation.kind) && !garbage;
                if !repeatable || entry.resends == RESENDS {
                    self.counts.lost += counted;
                    self.end(slot, errno);
                    continue;
                }
                entry.resends += 1;
                self.counts.resent += counted;
            }
            self.assign(slot);
        }
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.connections.end(|_calls, _out| ());
    }
}
