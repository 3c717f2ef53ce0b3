//! A server of language-model streams whose event times are known: it writes by a plan, and records when it wrote.
//!
//! It answers POST /v1/chat/completions and /v1/completions over HTTP/1.1 with server-sent events, one token each, then the
//! usage and `[DONE]`. `GET /stamps` returns one line of JSON for each stream that has ended since the last time, see
//! [`Record`], and `GET /streams` how many have begun; all other requests get a list of one model. The contents of requests
//! are not read, apart from `"stream": true`.
//!
//! Decisions. The truth is its own stamps, not the plan: it may be late itself, and says by how much. A request counts as
//! arrived at the kernel's stamp of its last packet, so that a thousand that arrive at once, or while the server is
//! stopped, are not younger than they are. A write is stamped just before the call: over loopback the call itself
//! carries the packet to the receiver. One thread sleeps in epoll between events: a thread that spins would take a CPU
//! from the clients, which are what is measured. It is woken by a timerfd, since the timeout of epoll is rounded to
//! milliseconds.

mod connection;
mod pace;

use bw_sys::clock::{monotonic_ns, timespec};
use connection::{Asked, Connection};
pub use pace::Pace;
use pace::Schedule;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};
use slab::Slab;
use std::io::{self, ErrorKind};
use std::net::TcpListener;

/// The key of the listener among the events.
const LISTENER: u64 = u64::MAX;
/// Taken from the kernel at a time.
const EVENTS: usize = 256;
/// The key of the timer among them.
const TIMER: u64 = u64::MAX - 1;

/// What every stream is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// TCP on loopback; 0: any.
    #[serde(default)]
    pub port: u16,
    /// Of each stream, at least 1.
    pub tokens: u32,
    /// Whether an event that has only a role is sent at once.
    #[serde(default)]
    pub role_first: bool,
    /// When tokens are due.
    pub pace: Pace,
}

/// When a stream's request arrived and its events were written, CLOCK_MONOTONIC [ns].
#[derive(Debug, Default, Serialize)]
pub struct Record {
    /// The header x-request-id.
    pub id: Option<String>,
    /// Counts streams from 1; the `id` of the answer ends with it.
    pub number: u64,
    /// When the kernel received the end of the request.
    pub arrived_ns: u64,
    /// When the server had read it.
    pub read_ns: u64,
    /// When each token was due.
    pub due_ns: Vec<u64>,
    /// Just before each token was written.
    pub written_ns: Vec<u64>,
    /// Events that had to wait because the client had not read those before.
    pub blocked: u32,
    /// Whether all was written.
    pub whole: bool,
}

/// A server and its connections.
pub struct Server {
    plan: Plan,
    listener: TcpListener,
    poll: OwnedFd,
    timer: OwnedFd,
    connections: Slab<Connection>,
    schedule: Schedule,
    events: Vec<epoll::Event>,
    records: Vec<Record>,
    streams: u64,
}

impl Server {
    /// Returns a server that has not yet accepted.
    ///
    /// # Errors
    /// As epoll_create(2) and epoll_ctl(2).
    pub fn new(listener: TcpListener, plan: Plan) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, key, epoll::EventFlags::IN)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(TIMER);
        epoll::add(&poll, &timer, key, epoll::EventFlags::IN)?;
        Ok(Self {
            plan,
            listener,
            poll,
            timer,
            connections: Slab::new(),
            schedule: Schedule::new(plan.pace),
            events: Vec::with_capacity(EVENTS),
            records: Vec::new(),
            streams: 0,
        })
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// As epoll_wait(2) and accept(2).
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            self.turn()?;
        }
    }

    /// Waits for what is next, reads what has come, and writes what is due.
    fn turn(&mut self) -> io::Result<()> {
        // A time of zero stops the timer; setting it anew takes back that it had expired.
        let at = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(self.schedule.next().unwrap_or_default()),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => self.accept()?,
                TIMER => (),
                key => self.ready(usize::try_from(key).unwrap_or_default(), event.flags),
            }
        }
        self.events = events;
        while let Some((key, due_ns)) = self.schedule.due(monotonic_ns()) {
            self.write_token(key, due_ns);
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let slot = self.connections.vacant_entry();
            let key = epoll::EventData::new_u64(slot.key() as u64);
            let connection = Connection::new(socket)?;
            let what = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&self.poll, connection.socket(), key, what)?;
            slot.insert(connection);
        }
    }

    fn ready(&mut self, key: usize, flags: epoll::EventFlags) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let mut alive = true;
        if flags.contains(epoll::EventFlags::OUT) {
            alive = connection.flush().is_ok();
        }
        if alive && flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP) {
            alive = connection.read().is_ok();
            while alive {
                match self.connections[key].next() {
                    Ok(None) => break,
                    Ok(Some(asked)) => alive = self.answer(key, asked).is_ok(),
                    Err(_) => alive = false,
                }
            }
        }
        if !alive {
            self.close(key);
        }
    }

    fn answer(&mut self, key: usize, asked: Asked) -> io::Result<()> {
        let connection = &mut self.connections[key];
        match asked {
            Asked::Stream {
                chat,
                id,
                arrived_ns,
                read_ns,
            } => {
                self.streams += 1;
                let record = Record {
                    id,
                    number: self.streams,
                    arrived_ns,
                    read_ns,
                    ..Record::default()
                };
                self.schedule.add(key, arrived_ns);
                connection.begin(record, chat, self.plan.role_first)
            }
            Asked::Stamps => {
                let mut lines = Vec::new();
                for record in self.records.drain(..) {
                    serde_json::to_writer(&mut lines, &record)?;
                    lines.push(b'\n');
                }
                connection.respond(&lines)
            }
            Asked::Count => {
                connection.respond(format!("{{\"streams\":{}}}", self.streams).as_bytes())
            }
            Asked::Whole => connection.respond(connection::WHOLE),
            Asked::Other => connection.respond(connection::MODELS),
        }
    }

    fn write_token(&mut self, key: usize, due_ns: u64) {
        let connection = &mut self.connections[key];
        match connection.token(due_ns, self.plan.tokens) {
            Ok(None) => self.schedule.again(key, due_ns),
            Ok(Some(record)) => self.records.push(record),
            Err(_) => self.close(key),
        }
    }

    fn close(&mut self, key: usize) {
        self.schedule.remove(key);
        self.records
            .extend(self.connections.remove(key).into_record());
    }
}
