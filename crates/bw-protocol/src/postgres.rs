//! PostgreSQL, with the extended protocol: an operation executes prepared statements and ends when the server is ready
//! again.
//!
//! A connection authenticates and prepares all statements in its handshake, so that a server that does not know a table
//! refuses the load before it begins. An operation's `offset` selects what it executes and has its number
//! ([`ExchangeAddress`]): Bind and Execute for each of its statements, in order, and one Sync, which makes them one
//! transaction. Parameters are templates. The result is the number of bytes of the rows, or the SQLSTATE of the error.
//! Rows are counted and dropped as they arrive, whatever their length.
//!
//! Decisions. Several operations on a connection each have a Sync of their own, so that an error of one does not skip
//! those behind it. An error with which the server ends the connection (FATAL) belongs to the operation whose answer was
//! due; those behind it end with `-ECONNRESET`, as nobody knows whether they were executed. One that arrives while
//! nothing was requested closes the connection and is no error of an operation. A time limit closes the connection: the
//! request to cancel an operation needs another connection, and could cancel the one behind it.
//! SCRAM over TLS is bound to the server's certificate if the server offers it, as libpq does by default.
//! Not supported: COPY, GSSAPI and SSPI, certificates of the client.
//! Source: PostgreSQL's documentation, "Frontend/Backend Protocol" (version 3.0).

mod end_point;
mod message;
mod scram;
mod statement;

pub use crate::postgres::statement::{Statement, Transactions, Unsupported};

use crate::postgres::message::{Messages, STORED_BYTES, Step, error_text, field, put, put_text};
use crate::postgres::scram::{
    Binding, NONCE_BYTES, SCRAM_SHA_256_PLUS, SaltedPasswords, Scram, Verifier,
};
use crate::{End, Outgoing, Protocol, SessionState};
use bw_model::{ExchangeAddress, Operation};
use bw_record::errno::{RESPONSE_CUT, of_sqlstate};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// What a client sends before TLS, and the byte with which the server agrees.
pub const SSL_REQUEST: (&[u8], u8) = (&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f], b'S');
/// The version 3.0 of the protocol.
const VERSION: u32 = 3 << 16;
/// What an error without a valid SQLSTATE, or any other violation of the protocol, is.
const PROTOCOL_ERROR: i32 = -libc::EPROTO;

/// A password; it is in no message and no `Debug` text.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Returns the password.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

/// Who connects to which database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// The password, if the server asks for one.
    pub password: Option<Password>,
}

/// The protocol.
#[derive(Clone)]
pub struct Postgres {
    login: Login,
    salted: Arc<SaltedPasswords>,
    transactions: Arc<Transactions>,
    startup: Arc<[u8]>,
    outstanding: u32,
}

impl Postgres {
    /// Returns the protocol with at most `outstanding` operations in progress on a connection. Its clones share what the
    /// authentication computes.
    #[must_use]
    pub fn new(login: Login, transactions: Arc<Transactions>, outstanding: u32) -> Self {
        let mut startup = Vec::new();
        put(0, &mut startup, |out| {
            out.extend_from_slice(&VERSION.to_be_bytes());
            let parameters = [
                ("user", login.user.as_str()),
                ("database", &login.database),
                ("application_name", "benchwright"),
                ("client_encoding", "UTF8"),
            ];
            for (name, value) in parameters {
                put_text(name, out);
                put_text(value, out);
            }
            out.push(0);
        });
        Self {
            login,
            salted: Arc::default(),
            transactions,
            startup: startup.into(),
            outstanding,
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Postgres")
            .field("login", &self.login)
            .field("transactions", &self.transactions)
            .field("outstanding", &self.outstanding)
            .finish_non_exhaustive()
    }
}

/// How far the handshake is.
enum Phase {
    /// The server has not asked for anything yet, or has our password.
    Login,
    /// Our first message of SCRAM was put.
    ScramBegun(Box<Scram>),
    /// Our last one was put.
    ScramProven(Box<Verifier>),
    /// The server knows the password, too.
    ScramVerified,
    /// The server has accepted us.
    Accepted,
    /// So many statements were prepared.
    Preparing(usize),
    /// Operations can begin.
    Ready,
    /// The server is closing the connection.
    Closing,
}

/// How far the answer to an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The statement's Bind was not confirmed.
    Bind,
    /// Its rows, or its end.
    Rows,
    /// It failed with this result: the server skips everything up to the Sync.
    Failed(i32),
}

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    /// How many bytes were put with it and before it.
    end: u64,
    answer: Answer,
    /// How many of its statements are to be answered.
    statements: u32,
    /// The bytes of its rows so far.
    bytes: u64,
}

impl Pending {
    fn result(&self) -> i64 {
        match self.answer {
            Answer::Failed(result) => result.into(),
            _ if self.statements > 0 => PROTOCOL_ERROR.into(),
            _ => i64::try_from(self.bytes).unwrap_or(i64::MAX),
        }
    }
}

/// Why the server, or what it sent, was refused in the handshake.
#[derive(Clone, Debug)]
struct Refused {
    result: i32,
    what: String,
    remedy: &'static str,
}

impl Refused {
    fn new(result: i32, what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            result,
            what: what.into(),
            remedy,
        }
    }

    /// Returns the refusal of a message that does not belong into the handshake.
    fn unexpected() -> Self {
        let what = "its answer does not follow PostgreSQL's protocol";
        Self::new(PROTOCOL_ERROR, what, SERVER_REMEDY)
    }
}

/// The state of one connection.
pub struct PostgresSession {
    phase: Phase,
    messages: Messages,
    /// The operations in progress, in order.
    pending: VecDeque<Pending>,
    scratch: Vec<u8>,
    /// The hash of the server's certificate; None without TLS.
    end_point: Option<Box<[u8]>>,
    refused: Option<Refused>,
}

impl fmt::Debug for PostgresSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresSession")
            .field("messages", &self.messages)
            .field("pending", &self.pending)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

const PASSWORD_REMEDY: &str = "set PGPASSWORD, or write a line into ~/.pgpass (mode 0600) or a file that PGPASSFILE or password_file names";
const METHOD_REMEDY: &str =
    "use scram-sha-256, md5, password or trust for this user (pg_hba.conf of the server)";
const SERVER_REMEDY: &str = "check that the server is PostgreSQL, and read its log";

impl PostgresSession {
    fn refuse(&mut self, refused: Refused) -> SessionState {
        let state = SessionState::Failed(refused.result);
        self.refused = Some(refused);
        state
    }

    fn state(&self) -> SessionState {
        match self.phase {
            Phase::Ready => SessionState::Ready,
            Phase::Closing => SessionState::Closing,
            _ => SessionState::Handshake,
        }
    }

    /// Ends all operations in progress.
    fn end_all(&mut self, result: i32, ends: &mut Vec<End>) {
        let (result, pending) = (i64::from(result), self.pending.drain(..));
        ends.extend(pending.map(|Pending { slot, .. }| End { slot, result }));
    }

    /// Ends the first operation with its own error, or the part of its answer that it has, and the others with the connection.
    fn end_with_connection(&mut self, ends: &mut Vec<End>) {
        let own = self.pending.front().and_then(|first| match first.answer {
            Answer::Failed(result) => Some(result),
            Answer::Rows => Some(RESPONSE_CUT),
            Answer::Bind => None,
        });
        if let Some(result) = own
            && let Some(Pending { slot, .. }) = self.pending.pop_front()
        {
            let result = i64::from(result);
            ends.push(End { slot, result });
        }
        self.end_all(-libc::ECONNRESET, ends);
    }

    /// Handles a message once operations can begin. None: the state did not change.
    fn answer(&mut self, kind: u8, written: u64, ends: &mut Vec<End>) -> Option<SessionState> {
        let wrong = Some(SessionState::Failed(PROTOCOL_ERROR));
        if kind == b'E' {
            return self.error(ends);
        }
        let Some(first) = self.pending.front_mut() else {
            return wrong;
        };
        match (kind, first.answer) {
            (b'2', Answer::Bind) if first.statements > 0 => first.answer = Answer::Rows,
            (b'D', Answer::Rows) => first.bytes += u64::from(self.messages.length()),
            (b'C' | b'I', Answer::Rows) => {
                first.answer = Answer::Bind;
                first.statements -= 1;
            }
            // Only COPY begins so, and the statements are looked at before the run.
            (b'G' | b'H' | b'W', Answer::Rows) => {
                return Some(SessionState::Failed(-libc::EOPNOTSUPP));
            }
            // Ready, and in no transaction; not before it has the whole request.
            (b'Z', _) if first.end <= written && self.messages.body() == b"I" => {
                let (slot, result) = (first.slot, first.result());
                if result == i64::from(PROTOCOL_ERROR) {
                    return wrong;
                }
                self.pending.pop_front();
                ends.push(End { slot, result });
            }
            _ => return wrong,
        }
        None
    }

    /// Handles an error once operations can begin.
    fn error(&mut self, ends: &mut Vec<End>) -> Option<SessionState> {
        let body = self.messages.body();
        let Some(result) = field(body, b'C').and_then(of_sqlstate) else {
            return Some(SessionState::Failed(PROTOCOL_ERROR));
        };
        let fatal = matches!(field(body, b'V'), Some(b"FATAL" | b"PANIC"));
        match self.pending.front_mut() {
            Some(Pending {
                answer: Answer::Failed(_),
                ..
            }) if !fatal => return Some(SessionState::Failed(PROTOCOL_ERROR)),
            Some(first) => first.answer = Answer::Failed(result),
            None if fatal => {}
            None => return Some(SessionState::Failed(PROTOCOL_ERROR)),
        }
        if fatal {
            self.end_with_connection(ends);
            self.phase = Phase::Closing;
        }
        None
    }
}

impl Postgres {
    /// Handles a message of the handshake. None: it goes on.
    fn shake_hands(
        &self,
        session: &mut PostgresSession,
        kind: u8,
        out: &mut Outgoing,
    ) -> Option<SessionState> {
        if kind == b'E' {
            return Some(self.refused_by_server(session));
        }
        let prepared = &self.transactions.prepared;
        match (kind, &session.phase) {
            (
                b'R',
                Phase::Login | Phase::ScramBegun(_) | Phase::ScramProven(_) | Phase::ScramVerified,
            ) => return self.authenticate(session, out),
            (b'K', Phase::Accepted) => {}
            (b'Z', Phase::Accepted) => {
                session.phase = Phase::Preparing(0);
                out.put(&self.transactions.preparation);
            }
            (b'1', Phase::Preparing(done)) if *done < prepared.len() => {}
            (b't', Phase::Preparing(done)) if *done < prepared.len() => {
                let one = &prepared[*done];
                let [high, low, ..] = session.messages.body() else {
                    return Some(session.refuse(Refused::unexpected()));
                };
                let wanted = u16::from_be_bytes([*high, *low]);
                if wanted != one.parameters {
                    let what = format!(
                        "the statement {:?} has {wanted} parameters, and {} are given",
                        beginning(&one.sql),
                        one.parameters
                    );
                    let remedy = "give as many parameters as the statement has ($1, $2, ...)";
                    return Some(session.refuse(Refused::new(-libc::EINVAL, what, remedy)));
                }
            }
            (b'T' | b'n', Phase::Preparing(done)) if *done < prepared.len() => {
                session.phase = Phase::Preparing(done + 1);
            }
            (b'Z', Phase::Preparing(done)) if *done == prepared.len() => {
                session.phase = Phase::Ready;
            }
            _ => return Some(session.refuse(Refused::unexpected())),
        }
        None
    }

    /// Returns the state after an error in the handshake.
    fn refused_by_server(&self, session: &mut PostgresSession) -> SessionState {
        let body = session.messages.body();
        let result = field(body, b'C').and_then(of_sqlstate);
        let text = error_text(body);
        let class = field(body, b'C').and_then(|code| code.get(..2));
        let (what, remedy) = match session.phase {
            Phase::Preparing(done) => {
                let sql = self.transactions.prepared.get(done);
                let sql = sql.map_or("", |one| beginning(&one.sql));
                let what = format!("the server refuses the statement {sql:?}: {text}");
                (what, "correct the statement, or make the tables first")
            }
            _ => {
                let remedy = match class {
                    Some(b"28") => "check the user, the password and pg_hba.conf of the server",
                    Some(b"3D") => "name a database of the server",
                    Some(b"53") => "use fewer connections, or raise max_connections of the server",
                    _ => "read the server's log",
                };
                (format!("the server refuses the connection: {text}"), remedy)
            }
        };
        session.refuse(Refused::new(result.unwrap_or(PROTOCOL_ERROR), what, remedy))
    }

    /// Handles a message of authentication.
    fn authenticate(
        &self,
        session: &mut PostgresSession,
        out: &mut Outgoing,
    ) -> Option<SessionState> {
        match self.reply(session) {
            Ok((phase, answer)) => {
                session.phase = phase;
                if let Some(answer) = answer {
                    let mut message = Vec::new();
                    put(b'p', &mut message, |out| out.extend_from_slice(&answer));
                    out.put(&message);
                }
                None
            }
            Err(refused) => Some(session.refuse(refused)),
        }
    }

    /// Returns the phase after a message of authentication, and what the client answers.
    fn reply(&self, session: &PostgresSession) -> Result<(Phase, Option<Vec<u8>>), Refused> {
        let body = session.messages.body();
        let (code, rest) = body
            .split_first_chunk::<4>()
            .filter(|_| session.messages.length() as usize <= STORED_BYTES)
            .ok_or_else(Refused::unexpected)?;
        let method = u32::from_be_bytes(*code);
        if method == 0 {
            // A server that has begun SCRAM must show that it knows the password.
            if matches!(session.phase, Phase::ScramBegun(_) | Phase::ScramProven(_)) {
                let what = "the server ends SCRAM without a proof that it knows the password";
                return Err(Refused::new(-libc::EACCES, what, SERVER_REMEDY));
            }
            return Ok((Phase::Accepted, None));
        }
        let Some(Password(password)) = &self.login.password else {
            let user = &self.login.user;
            let what = format!("the server asks for the password of {user:?}, and there is none");
            return Err(Refused::new(-libc::EACCES, what, PASSWORD_REMEDY));
        };
        match (method, &session.phase) {
            (3, Phase::Login) => Ok((Phase::Login, Some(with_zero(password)))),
            (5, Phase::Login) if rest.len() == 4 => {
                let inner = md5::compute(format!("{password}{}", self.login.user));
                let mut salted = format!("{inner:x}").into_bytes();
                salted.extend_from_slice(rest);
                let proof = format!("md5{:x}", md5::compute(salted));
                Ok((Phase::Login, Some(with_zero(&proof))))
            }
            (10, Phase::Login) => begin_scram(rest, session.end_point.clone()),
            (11, Phase::ScramBegun(scram)) => match scram.last(rest, password, &self.salted) {
                Ok((last, verifier)) => {
                    let phase = Phase::ScramProven(Box::new(verifier));
                    Ok((phase, Some(last.into_bytes())))
                }
                Err(what) => {
                    let what = format!("the server cannot be authenticated: {what}");
                    Err(Refused::new(PROTOCOL_ERROR, what, SERVER_REMEDY))
                }
            },
            (12, Phase::ScramProven(verifier)) if verifier.accepts(rest) => {
                Ok((Phase::ScramVerified, None))
            }
            (12, Phase::ScramProven(_)) => {
                let what = "the server does not know the password: its proof is wrong";
                Err(Refused::new(-libc::EACCES, what, SERVER_REMEDY))
            }
            (2 | 6 | 7 | 9, _) => {
                let what = "the server asks for GSSAPI, SSPI or Kerberos, which are not supported";
                Err(Refused::new(-libc::EOPNOTSUPP, what, METHOD_REMEDY))
            }
            _ => Err(Refused::unexpected()),
        }
    }
}

/// Returns the first message of SCRAM, by the mechanisms that the server offers.
fn begin_scram(
    offered: &[u8],
    end_point: Option<Box<[u8]>>,
) -> Result<(Phase, Option<Vec<u8>>), Refused> {
    let offers = |name: &str| {
        offered
            .split(|byte| *byte == 0)
            .any(|one| one == name.as_bytes())
    };
    let binding = match end_point {
        Some(hash) if offers(SCRAM_SHA_256_PLUS) => Binding::EndPoint(hash),
        Some(_) => Binding::NotOffered,
        None => Binding::Impossible,
    };
    if !offers(binding.mechanism()) {
        let what = "the server offers SASL without SCRAM-SHA-256";
        return Err(Refused::new(-libc::EOPNOTSUPP, what, METHOD_REMEDY));
    }
    let mut random = [0; NONCE_BYTES];
    if SystemRandom::new().fill(&mut random).is_err() {
        let what = "the system has no random numbers";
        return Err(Refused::new(-libc::EIO, what, SERVER_REMEDY));
    }
    let scram = Scram::new(binding, random);
    let (mechanism, first) = scram.first();
    let mut answer = with_zero(mechanism);
    answer.extend_from_slice(&(first.len() as u32).to_be_bytes());
    answer.extend_from_slice(first.as_bytes());
    Ok((Phase::ScramBegun(Box::new(scram)), Some(answer)))
}

/// Returns a text and the zero byte after it.
fn with_zero(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_text(text, &mut bytes);
    bytes
}

/// Maximum length of a statement in a message [characters].
const SQL_CHARACTERS: usize = 200;

/// Returns the beginning of a statement, for a message.
fn beginning(sql: &str) -> &str {
    let end = sql.char_indices().nth(SQL_CHARACTERS);
    end.map_or(sql, |(end, _)| &sql[..end])
}

impl Protocol for Postgres {
    type Session = PostgresSession;

    fn session(&self) -> PostgresSession {
        PostgresSession {
            phase: Phase::Login,
            messages: Messages::new(),
            pending: VecDeque::with_capacity(self.outstanding as usize),
            scratch: Vec::new(),
            end_point: None,
            refused: None,
        }
    }

    fn secured(&self, session: &mut PostgresSession, certificate: &[u8]) {
        session.end_point = end_point::hash(certificate);
    }

    fn open(&self, session: &mut PostgresSession, out: &mut Outgoing) -> SessionState {
        session.phase = Phase::Login;
        session.messages.restart();
        session.pending.clear();
        session.refused = None;
        out.put(&self.startup);
        SessionState::Handshake
    }

    fn room(&self, session: &PostgresSession) -> u32 {
        if !matches!(session.phase, Phase::Ready) {
            return 0;
        }
        // At most `outstanding` are pending.
        self.outstanding
            .saturating_sub(session.pending.len() as u32)
    }

    fn begin(
        &self,
        session: &mut PostgresSession,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let address = ExchangeAddress::unpack(operation.offset);
        let request = self.transactions.requests.get(address.request as usize);
        let request = request.ok_or(-libc::EINVAL)?;
        self.transactions
            .put(request, address.number, &mut session.scratch, out);
        session.pending.push_back(Pending {
            slot,
            end: out.put_bytes(),
            answer: Answer::Bind,
            statements: request.statements,
            bytes: 0,
        });
        Ok(())
    }

    /// Terminate: without it the server logs an error for each closed connection.
    fn goodbye(&self, _session: &mut PostgresSession, out: &mut Outgoing) {
        out.put(&[b'X', 0, 0, 0, 4]);
    }

    fn sent(&self, session: &mut PostgresSession, _ends: &mut Vec<End>) -> SessionState {
        session.state()
    }

    fn receive(
        &self,
        session: &mut PostgresSession,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        while !bytes.is_empty() && !matches!(session.phase, Phase::Closing) {
            let changed = match session.messages.step(&mut bytes) {
                Step::More => break,
                Step::Malformed => Some(match session.phase {
                    Phase::Ready => SessionState::Failed(PROTOCOL_ERROR),
                    _ => session.refuse(Refused::unexpected()),
                }),
                // Notices, parameters of the server and notifications may come at any time.
                Step::Message(b'N' | b'S' | b'A') => None,
                Step::Message(kind) => match session.phase {
                    Phase::Ready => session.answer(kind, out.written_bytes(), ends),
                    _ => self.shake_hands(session, kind, out),
                },
            };
            if let Some(state) = changed {
                return state;
            }
        }
        session.state()
    }

    fn closed(&self, session: &mut PostgresSession, ends: &mut Vec<End>) {
        session.end_with_connection(ends);
    }

    fn cancel(&self, _session: &mut PostgresSession, _slot: u32, _out: &mut Outgoing) -> bool {
        false
    }

    fn refusal(&self, session: &PostgresSession) -> Option<String> {
        session.refused.as_ref().map(|refused| refused.what.clone())
    }

    fn remedy(&self, session: &PostgresSession) -> Option<&'static str> {
        session.refused.as_ref().map(|refused| refused.remedy)
    }
}

#[cfg(test)]
mod tests;
