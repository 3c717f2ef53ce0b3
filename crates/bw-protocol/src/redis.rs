//! Redis: an operation is one command and its reply, by RESP2 or RESP3.
//!
//! An operation's `offset` selects a command and has its number ([`ExchangeAddress`]), its `size` has no meaning.
//! Words of commands are templates. The result is the number of bytes of the
//! reply's values; a reply without a value (nil) is 0, and counted. An error reply (`-WRONGTYPE ...`) is the error of
//! its operation, with its first word (see [`bw_record::errno::redis_error`]). Errors inside an array, such as those of
//! EXEC, are values. Bytes that are no reply are `-EPROTO`.
//!
//! Decisions. The client sends first only what the user wants (AUTH, HELLO, SELECT), so servers and proxies that do not know
//! SELECT can be used. Without one of them there is no handshake. Replies have no numbers, so an operation that
//! is given up costs its connection. Messages that belong to no command (RESP3's pushes) are dropped.
//! Not done: the redirections of a cluster (`MOVED` is an error), transactions whose commands stay together.

pub mod reply;

use crate::redis::reply::{Reply, ReplyProgress, Value};
use crate::values::put_integer;
use crate::{End, MeasuredPart, Outgoing, Protocol, SessionState, Template, Values};
use bw_model::{ExchangeAddress, Nanos, Operation};
use bw_record::errno::{RESPONSE_CUT, redis_error};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The bytes of every command, and the values of their words.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    commands: Vec<Box<[Part]>>,
    values: Values,
}

/// A part of a command.
#[derive(Clone, Debug)]
enum Part {
    /// What is the same in each operation: the number of words, and words.
    Bytes(Vec<u8>),
    /// A word of which each operation has its own; its length comes before it.
    Word(Template),
}

impl Commands {
    /// Returns the commands with these words, each at least one; their templates have places for these values.
    #[must_use]
    pub fn new(commands: &[Vec<Template>], values: Values) -> Self {
        let parts = |words: &Vec<Template>| {
            let mut parts = Vec::new();
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                match word.as_literal() {
                    Some(word) => put_word(&mut bytes, word),
                    None => {
                        parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                        parts.push(Part::Word(word.clone()));
                    }
                }
            }
            parts.push(Part::Bytes(bytes));
            parts.into()
        };
        Self {
            commands: commands.iter().map(parts).collect(),
            values,
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.commands.len()
    }

    /// Puts the parts of a command with the values of an operation; `scratch` is for words.
    fn put(&self, parts: &[Part], number: u64, scratch: &mut Vec<u8>, out: &mut Outgoing) {
        for part in parts {
            match part {
                Part::Bytes(bytes) => out.put(bytes),
                Part::Word(word) => {
                    scratch.clear();
                    word.fill(&self.values, number, scratch);
                    out.put(b"$");
                    // A length fits.
                    put_integer(scratch.len() as i64, 0, out);
                    out.put(b"\r\n");
                    out.put(scratch);
                    out.put(b"\r\n");
                }
            }
        }
    }
}

fn put_word(bytes: &mut Vec<u8>, word: &[u8]) {
    bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    bytes.extend_from_slice(word);
    bytes.extend_from_slice(b"\r\n");
}

/// Returns a command as it is sent: an array of strings.
fn encoded<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        put_word(&mut bytes, word.as_ref());
    }
    bytes
}

/// A password, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Password {
    /// Returns the password of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password")
    }
}

/// What the client sends before its first command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user; None: the default one. It has no effect without a password.
    pub user: Option<String>,
    /// The password; None: no AUTH is sent.
    pub password: Option<Password>,
    /// Whether replies are those of RESP3: HELLO 3 is sent.
    pub resp3: bool,
    /// The database; None: no SELECT is sent.
    pub database: Option<u32>,
}

/// A command of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Auth,
    Hello,
    Select,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Auth => "AUTH",
            Self::Hello => "HELLO 3",
            Self::Select => "SELECT",
        }
    }
}

/// Beginnings of the replies to a refused AUTH that can be shown. Of others only the first word is shown: a server that
/// does not know AUTH repeats its words.
const SHOWN: [&str; 9] = [
    "WRONGPASS invalid username-password pair",
    "ERR invalid password",
    "ERR AUTH <password> called without any password configured for the default user",
    "ERR Client sent AUTH, but no password is set",
    "ERR wrong number of arguments for 'auth' command",
    "ERR unknown command",
    "ERR max number of clients reached",
    "DENIED Redis is running in protected mode",
    "LOADING Redis is loading the dataset in memory",
];

/// The bytes of the handshake, which contain the password.
struct Greeting {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    password: Option<Password>,
}

impl Greeting {
    fn new(login: &Login) -> Self {
        let mut greeting = Self {
            bytes: Vec::new(),
            steps: Vec::new(),
            password: login.password.clone(),
        };
        if let Some(Password(password)) = &login.password {
            let user = login.user.iter().map(String::as_bytes);
            let words = [&b"AUTH"[..]]
                .into_iter()
                .chain(user)
                .chain([&password[..]]);
            greeting.add(Step::Auth, &words.collect::<Vec<_>>());
        }
        if login.resp3 {
            greeting.add(Step::Hello, &["HELLO", "3"]);
        }
        if let Some(database) = login.database {
            greeting.add(Step::Select, &["SELECT", &database.to_string()]);
        }
        greeting
    }

    fn add<W: AsRef<[u8]>>(&mut self, step: Step, words: &[W]) {
        self.bytes.extend_from_slice(&encoded(words));
        self.steps.push(step);
    }

    /// Returns what can be shown of an error reply to `step`.
    fn shown(&self, step: Step, text: &[u8], word: &[u8]) -> String {
        let text = String::from_utf8_lossy(text);
        if step == Step::Auth {
            let known = SHOWN.iter().find(|shown| text.starts_with(**shown));
            return match known {
                Some(known) => (*known).to_owned(),
                None => bw_record::errno::name(redis_error(word)),
            };
        }
        let shows = |Password(password): &Password| {
            password.is_empty() || text.contains(&*String::from_utf8_lossy(password))
        };
        if self.password.as_ref().is_some_and(shows) {
            return bw_record::errno::name(redis_error(word));
        }
        text.chars().filter(|one| !one.is_control()).collect()
    }
}

impl fmt::Debug for Greeting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.fmt(formatter)
    }
}

/// The protocol.
#[derive(Clone, Debug)]
pub struct Redis {
    commands: Arc<Commands>,
    greeting: Arc<Greeting>,
    outstanding: u32,
    measured: MeasuredPart,
    nil_replies: Cell<u64>,
}

impl Redis {
    /// Returns the protocol with at most `outstanding` commands in progress on a connection.
    #[must_use]
    pub fn new(commands: Arc<Commands>, login: &Login, outstanding: u32) -> Self {
        Self {
            commands,
            greeting: Arc::new(Greeting::new(login)),
            outstanding,
            measured: MeasuredPart::default(),
            nil_replies: Cell::new(0),
        }
    }
}

/// A command without a whole reply.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    /// How many bytes were put with it and before it.
    end: u64,
    is_measured: bool,
}

/// The state of one connection.
#[derive(Debug)]
pub struct RedisSession {
    /// The commands without a whole reply, in order.
    pending: VecDeque<Pending>,
    reply: Reply,
    scratch: Vec<u8>,
    /// How many steps of the handshake have their reply.
    done: usize,
    refused: Option<Step>,
}

impl Redis {
    fn state(&self, session: &RedisSession) -> SessionState {
        if session.done < self.greeting.steps.len() {
            SessionState::Handshake
        } else {
            SessionState::Ready
        }
    }

    /// Returns the result of an operation with this reply; counts a nil of a measured one.
    fn result(&self, reply: &Reply, value: Value, is_measured: bool) -> i64 {
        match value {
            Value::Bytes(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Value::Nil => {
                let count = self.nil_replies.get() + u64::from(is_measured);
                self.nil_replies.set(count);
                0
            }
            Value::Error => redis_error(reply.word()).into(),
            Value::Push => 0,
        }
    }
}

impl Protocol for Redis {
    type Session = RedisSession;

    fn session(&self) -> RedisSession {
        RedisSession {
            pending: VecDeque::with_capacity(self.outstanding as usize),
            reply: Reply::new(),
            scratch: Vec::new(),
            done: 0,
            refused: None,
        }
    }

    fn open(&self, session: &mut RedisSession, out: &mut Outgoing) -> SessionState {
        session.pending.clear();
        session.reply.begin();
        session.done = 0;
        session.refused = None;
        out.put(&self.greeting.bytes);
        self.state(session)
    }

    fn room(&self, session: &RedisSession) -> u32 {
        if session.done < self.greeting.steps.len() {
            return 0;
        }
        // At most `outstanding` are pending.
        self.outstanding
            .saturating_sub(session.pending.len() as u32)
    }

    fn begin(
        &self,
        session: &mut RedisSession,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let address = ExchangeAddress::unpack(operation.offset);
        let commands = &*self.commands;
        let command = commands.commands.get(address.request as usize);
        let command = command.ok_or(-libc::EINVAL)?;
        commands.put(command, address.number, &mut session.scratch, out);
        let end = out.put_bytes();
        session.pending.push_back(Pending {
            slot,
            end,
            is_measured: self.measured.has(operation),
        });
        Ok(())
    }

    fn sent(&self, session: &mut RedisSession, _ends: &mut Vec<End>) -> SessionState {
        self.state(session)
    }

    fn receive(
        &self,
        session: &mut RedisSession,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        while !bytes.is_empty() {
            let (used, value) = match session.reply.receive(bytes) {
                ReplyProgress::More => break,
                ReplyProgress::Complete { used, value } => (used, value),
                ReplyProgress::Malformed => return SessionState::Failed(-libc::EPROTO),
            };
            bytes = &bytes[used..];
            if value == Value::Push {
                session.reply.begin();
                continue;
            }
            if let Some(step) = self.greeting.steps.get(session.done) {
                if value == Value::Error {
                    session.refused = Some(*step);
                    return SessionState::Failed(redis_error(session.reply.word()));
                }
                session.done += 1;
                session.reply.begin();
                continue;
            }
            let Some(Pending {
                slot,
                end,
                is_measured,
            }) = session.pending.pop_front()
            else {
                // Nobody asked for these bytes: they could not be distinguished from a reply to the next command.
                return SessionState::Failed(-libc::EPROTO);
            };
            let result = self.result(&session.reply, value, is_measured);
            session.reply.begin();
            // A reply that comes before the whole command was written: the server has found an error in it, and what follows
            // would be read as another command.
            if out.written_bytes() < end {
                let result = if result < 0 {
                    result
                } else {
                    (-libc::EPROTO).into()
                };
                ends.push(End { slot, result });
                return SessionState::Failed(-libc::EPROTO);
            }
            ends.push(End { slot, result });
        }
        self.state(session)
    }

    fn closed(&self, session: &mut RedisSession, ends: &mut Vec<End>) {
        let mut result = match session.reply.is_begun() {
            true => RESPONSE_CUT,
            false => -libc::ECONNRESET,
        };
        for Pending { slot, .. } in session.pending.drain(..) {
            let result = std::mem::replace(&mut result, -libc::ECONNRESET).into();
            ends.push(End { slot, result });
        }
    }

    fn cancel(&self, _session: &mut RedisSession, _slot: u32, _out: &mut Outgoing) -> bool {
        false
    }

    fn refusal(&self, session: &RedisSession) -> Option<String> {
        let step = session.refused?;
        let reply = &session.reply;
        let shown = self.greeting.shown(step, reply.stored(), reply.word());
        Some(format!("the server refused {}: {shown}", step.name()))
    }

    fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    fn nil_replies(&self) -> Option<u64> {
        Some(self.nil_replies.get())
    }
}
