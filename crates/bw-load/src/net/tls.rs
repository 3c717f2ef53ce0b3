//! TLS over a connected, non-blocking socket: it reads and writes like the socket itself.
//!
//! Handshake and records are those of rustls' unbuffered connection, with buffers of our own: one for received bytes
//! that are no whole record yet, one for encrypted bytes that the kernel has not accepted. What still allocates is
//! rustls: once for each record that is sent (its bytes) and once for each that is received (its content), and the
//! handshake. An operation's actual start is stamped before its request is encrypted, so encryption is part of its
//! service time, as it is for the server's other clients.
//!
//! Decisions. A record is made only when all bytes of the one before have left, so the buffers have a fixed size. The
//! end of a connection counts as an end only if the server announced it (close_notify): a body that ends with the
//! connection would otherwise be whole wherever it was cut. Renegotiation (TLS 1.2) is refused, and the connection goes
//! on; new keys (TLS 1.3) are accepted.
//! A protocol that begins without TLS, as PostgreSQL's does, asks the server first ([`TlsSettings::after`]). Of the answer
//! only its one byte is read, so that nothing that was sent without TLS can count as content of the connection.
//! Rejected: rustls' buffered connection (it copies each record once more, and its buffers grow); OpenSSL (C, and the
//! version of the host); kernel TLS (its keys would still need a library for the handshake).
//! Sources: RFC 8446 (6.1 for the end), RFC 5246, RFC 7301 (ALPN).

pub(crate) mod refusal;
pub(crate) mod settings;

use crate::net::tls::refusal::Refusal;
use crate::net::tls::settings::TlsSettings;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{CipherSuite, ProtocolVersion};
use serde::Serialize;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;

/// Maximum content of a record [bytes].
pub(crate) const CONTENT_BYTES: usize = 16 * 1024;
/// Size of the buffer for received bytes: more than the largest record of TLS 1.2, which is larger than that of 1.3.
const INCOMING_BYTES: usize = CONTENT_BYTES + 2560;
/// The same during a handshake message that is longer than a record, such as a chain of certificates: the largest
/// message that rustls accepts, with the overhead of its records.
const LONG_INCOMING_BYTES: usize = 80 * 1024;
/// Size of the buffer for bytes to send: a record, with a message about new keys before it.
const OUTGOING_BYTES: usize = CONTENT_BYTES + 1024;
/// Maximum number of reads from the socket in one read: a server that sends without end must not hold the worker.
const READS: u32 = 4;

/// What a connection agreed on, for the result's `target.tls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlsDescription {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// IANA's name of the cipher suite.
    pub cipher: String,
    /// The protocol that the server chose by ALPN.
    pub alpn: Option<String>,
    /// Whether the certificate was verified.
    pub verified: bool,
}

/// How far the server's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// More may come.
    Open,
    /// It announced the end.
    Closed,
    /// The connection failed with this errno.
    Failed(i32),
}

/// What one step of the connection did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsStep {
    /// Something was handled; there may be more.
    More,
    /// Content was received; this many bytes of it are in the caller's buffer.
    Received(usize),
    /// The caller's content was encrypted.
    Encrypted,
    /// The handshake is complete, and there is no whole record.
    Idle,
    /// The handshake needs bytes of the server.
    Blocked,
    /// The server announced the end.
    Closed,
}

/// A TLS connection on a socket.
pub(crate) struct TlsStream<S> {
    socket: S,
    connection: UnbufferedClientConnection,
    settings: TlsSettings,
    incoming: Vec<u8>,
    /// The part of `incoming` that was not processed.
    received: Range<usize>,
    outgoing: Vec<u8>,
    /// The part of `outgoing` that was not written.
    unsent: Range<usize>,
    /// Content that did not fit into its reader's buffer, and how much of it was read.
    content: Vec<u8>,
    taken: usize,
    ending: Ending,
    /// The byte with which the server must agree to TLS before the handshake; None: it has, or is not asked.
    asked: Option<u8>,
    /// Whether it did not agree.
    declined: bool,
    /// Why the library gave the connection up.
    refused: Option<rustls::Error>,
}

impl<S: Read + Write> TlsStream<S> {
    /// Returns the stream on a connected socket; the handshake has not begun.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(socket: S, settings: &TlsSettings) -> io::Result<Self> {
        let config = settings.config.clone();
        let connection = UnbufferedClientConnection::new(config, settings.name.clone())
            .map_err(io::Error::other)?;
        let mut outgoing = vec![0; OUTGOING_BYTES];
        let question = settings.question.map_or(&[][..], |(request, _)| request);
        outgoing[..question.len()].copy_from_slice(question);
        Ok(Self {
            socket,
            connection,
            settings: settings.clone(),
            incoming: vec![0; INCOMING_BYTES],
            received: 0..0,
            outgoing,
            unsent: 0..question.len(),
            asked: settings.question.map(|(_, yes)| yes),
            declined: false,
            content: Vec::new(),
            taken: 0,
            ending: Ending::Open,
            refused: None,
        })
    }

    /// Returns the socket.
    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// As [`socket`](Self::socket), to change it.
    pub(crate) fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Continues the handshake; returns whether it is complete. If not, the socket must become readable first, or
    /// writable if [`Self::wants_write`].
    ///
    /// # Errors
    /// `EPROTO`: one side refused the handshake; `ECONNRESET`: the server closed the connection; those of the socket.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        if let Some(yes) = self.asked {
            if self.must_wait(Self::flush)? || self.must_wait(|stream| stream.hear(yes))? {
                return Ok(false);
            }
            self.asked = None;
        }
        let mut reads = 0;
        loop {
            match self.step(&mut [], &[])? {
                TlsStep::Idle => break,
                TlsStep::Blocked => {
                    if self.must_wait(Self::flush)? || reads == READS {
                        return Ok(false);
                    }
                    reads += 1;
                    if self.must_wait(|stream| stream.fill().map(|_more| ()))? {
                        return Ok(false);
                    }
                }
                TlsStep::Closed => return Err(self.fail(libc::ECONNRESET)),
                TlsStep::More | TlsStep::Received(_) | TlsStep::Encrypted => {}
            }
        }
        if !self.settings.accepts(self.connection.alpn_protocol()) {
            self.refused = Some(rustls::Error::NoApplicationProtocol);
            return Err(self.fail(libc::EPROTO));
        }
        // The last message of the handshake; what the kernel does not accept leaves before the first request.
        self.must_wait(Self::flush)?;
        Ok(true)
    }

    /// Reads the server's answer to the question whether it uses TLS.
    fn hear(&mut self, yes: u8) -> io::Result<()> {
        let mut answer = [0];
        match self.socket.read(&mut answer) {
            Ok(0) => Err(self.fail(libc::ECONNRESET)),
            Ok(_) if answer == [yes] => Ok(()),
            Ok(_) => {
                self.declined = true;
                Err(self.fail(libc::EPROTO))
            }
            Err(error) if is_later(&error) => Err(later()),
            Err(error) => Err(self.fail(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    /// Reads content into `buffer`; 0 bytes are the end that the server announced. A buffer of 64 KiB takes all content
    /// that was received, so that nothing is left behind that the socket's readiness does not show.
    ///
    /// # Errors
    /// `EAGAIN`: there is no content yet; `EPROTO`: the server's bytes are not valid, or it sent an alert;
    /// `ECONNRESET`: it closed the connection without notice; those of the socket.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take_content(buffer);
        let mut reads = 0;
        loop {
            // An error, too, comes after the content before it.
            let step = match self.ending {
                Ending::Open if self.content.is_empty() => self.step(&mut buffer[filled..], &[]),
                _ if filled > 0 || !self.content.is_empty() => return Ok(filled),
                Ending::Failed(errno) => return Err(io::Error::from_raw_os_error(errno)),
                _ => return Ok(0),
            };
            match step {
                Ok(TlsStep::Received(bytes)) => filled += bytes,
                Ok(TlsStep::Closed) => self.ending = Ending::Closed,
                Ok(TlsStep::Idle | TlsStep::Blocked) => {
                    // Answers to messages without content; an error is the next turn's.
                    if self.wants_write() && self.flush().is_err() && self.ending != Ending::Open {
                        continue;
                    }
                    if filled > 0 && buffer.len() - filled < INCOMING_BYTES {
                        return Ok(filled);
                    }
                    if reads == READS {
                        return if filled > 0 { Ok(filled) } else { Err(later()) };
                    }
                    reads += 1;
                    match self.fill() {
                        // The socket is empty.
                        Ok(false) => reads = READS,
                        Err(error) if filled == 0 && self.ending == Ending::Open => {
                            return Err(error);
                        }
                        Err(error) if is_later(&error) => return Ok(filled),
                        Ok(true) | Err(_) => {}
                    }
                }
                Ok(TlsStep::More | TlsStep::Encrypted) => {}
                // The next turn reports it.
                Err(_) => {}
            }
        }
    }

    /// Returns whether a read succeeds or fails without the socket: its readiness does not show that.
    pub(crate) fn is_buffered(&self) -> bool {
        !self.content.is_empty() || self.ending != Ending::Open
    }

    /// Encrypts at most one record's content, and writes it as far as the kernel accepts it; returns how much of
    /// `bytes` was encrypted. Without bytes it writes what is left ([`Self::wants_write`]).
    ///
    /// # Errors
    /// `EAGAIN`: the kernel has not accepted the record before; as [`Self::read`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Ending::Failed(errno) = self.ending {
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.flush()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let piece = &bytes[..bytes.len().min(CONTENT_BYTES)];
        loop {
            match self.step(&mut [], piece)? {
                TlsStep::Encrypted => break,
                TlsStep::Closed => self.ending = Ending::Closed,
                // It can only happen before the handshake is complete.
                TlsStep::Blocked | TlsStep::Idle => return Err(later()),
                TlsStep::More | TlsStep::Received(_) => {}
            }
        }
        self.must_wait(Self::flush)?;
        Ok(piece.len())
    }

    /// Announces the end of what this side sends, as far as the kernel accepts it at once.
    pub(crate) fn announce_end(&mut self) {
        let incoming = &mut self.incoming[self.received.clone()];
        let state = self.connection.process_tls_records(incoming).state;
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let room = &mut self.outgoing[self.unsent.end..];
            self.unsent.end += traffic.queue_close_notify(room).unwrap_or(0);
            // The connection is closed whatever comes of it.
            let _ = self.flush();
        }
    }

    /// Returns whether encrypted bytes wait for room in the kernel.
    pub(crate) fn wants_write(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the server's certificate in DER, once it has sent it.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        self.connection
            .peer_certificates()?
            .first()
            .map(|one| &**one)
    }

    /// Returns what the two sides agreed on, once the handshake is complete.
    pub(crate) fn describe(&self) -> TlsDescription {
        let suite = self.connection.negotiated_cipher_suite();
        let alpn = self.connection.alpn_protocol();
        TlsDescription {
            version: match self.connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "unknown",
            },
            cipher: suite.map_or_else(String::new, |suite| iana_name(suite.suite())),
            alpn: alpn.map(|name| String::from_utf8_lossy(name).into_owned()),
            verified: self.settings.verified,
        }
    }

    /// Returns why the handshake failed with this result (a negative errno).
    pub(crate) fn refusal(&self, result: i32) -> Refusal {
        match &self.refused {
            _ if self.declined => Refusal::declined(),
            Some(refused) => Refusal::of(refused),
            None => Refusal::of_connection(&io::Error::from_raw_os_error(-result)),
        }
    }

    /// Does one step: handles a received message, or encrypts `piece` (at most a record's content). Received content
    /// goes to `sink`, the rest of it to `content`.
    fn step(&mut self, sink: &mut [u8], piece: &[u8]) -> io::Result<TlsStep> {
        let (discard, step) = self.advance(sink, piece);
        self.received.start += discard;
        if self.received.is_empty() {
            self.received = 0..0;
        }
        step.map_err(|error| self.refuse(error))
    }

    /// Does one step; returns how many received bytes it has used, and what it did.
    fn advance(
        &mut self,
        sink: &mut [u8],
        piece: &[u8],
    ) -> (usize, Result<TlsStep, rustls::Error>) {
        let incoming = &mut self.incoming[self.received.clone()];
        let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(incoming);
        let step = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    let length = record.payload.len().min(sink.len());
                    let (now, then) = record.payload.split_at(length);
                    sink[..length].copy_from_slice(now);
                    self.content.extend_from_slice(then);
                    Ok(TlsStep::Received(length))
                }
                Some(Err(error)) => Err(error),
                None => Ok(TlsStep::More),
            },
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut self.outgoing, &mut self.unsent, |room| {
                    data.encode(room)
                })
                .map(|()| TlsStep::More)
            }
            // It is in the buffer, whose bytes leave in order.
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(TlsStep::More)
            }
            Ok(ConnectionState::WriteTraffic(_)) if piece.is_empty() => Ok(TlsStep::Idle),
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                match traffic.encrypt(piece, &mut self.outgoing[self.unsent.end..]) {
                    Ok(bytes) => {
                        self.unsent.end += bytes;
                        Ok(TlsStep::Encrypted)
                    }
                    // The keys of TLS 1.2 are used up, after 2^64 records.
                    Err(_) => Err(rustls::Error::EncryptError),
                }
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(TlsStep::Blocked),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(TlsStep::Closed),
            Ok(_) => Err(rustls::Error::HandshakeNotComplete),
            Err(error) => Err(error),
        };
        (discard, step)
    }

    /// Sends the alert that the library made, as far as the kernel accepts it at once, and ends the connection.
    fn refuse(&mut self, error: rustls::Error) -> io::Error {
        // After an error the library must be called once at most: it has one alert to send, if any.
        let incoming = &mut self.incoming[self.received.clone()];
        let made = match self.connection.process_tls_records(incoming).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut self.outgoing, &mut self.unsent, |room| {
                    data.encode(room)
                })
                .is_ok()
            }
            _ => false,
        };
        if made {
            // The connection has failed already.
            let _ = self.flush();
        }
        self.refused = Some(error);
        self.fail(libc::EPROTO)
    }

    fn fail(&mut self, errno: i32) -> io::Error {
        self.ending = Ending::Failed(errno);
        io::Error::from_raw_os_error(errno)
    }

    /// Moves content that was left behind to `buffer`; returns its length.
    fn take_content(&mut self, buffer: &mut [u8]) -> usize {
        let left = &self.content[self.taken..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.taken += length;
        if self.taken == self.content.len() {
            self.content.clear();
            self.taken = 0;
        }
        length
    }

    /// Reads from the socket once; returns whether there may be more.
    fn fill(&mut self) -> io::Result<bool> {
        if self.received.start > 0 {
            self.incoming.copy_within(self.received.clone(), 0);
            self.received = 0..self.received.len();
        }
        if self.received.end == self.incoming.len() {
            if self.incoming.len() == LONG_INCOMING_BYTES {
                return Err(self.fail(libc::EPROTO));
            }
            self.incoming.resize(LONG_INCOMING_BYTES, 0);
        }
        let room = &mut self.incoming[self.received.end..];
        match self.socket.read(room) {
            Ok(0) => Err(self.fail(libc::ECONNRESET)),
            Ok(length) => {
                self.received.end += length;
                Ok(self.received.end == self.incoming.len())
            }
            Err(error) if is_later(&error) => Err(later()),
            Err(error) => Err(self.fail(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    /// Writes all encrypted bytes.
    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.socket.write(&self.outgoing[self.unsent.clone()]) {
                Ok(0) => return Err(later()),
                Ok(length) => self.unsent.start += length,
                Err(error) if is_later(&error) => return Err(later()),
                // Not the end of reading: content may have arrived before.
                Err(error) => return Err(error),
            }
        }
        self.unsent = 0..0;
        Ok(())
    }

    /// Returns whether the kernel must be waited for first.
    fn must_wait(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<bool> {
        match work(self) {
            Ok(()) => Ok(false),
            Err(error) if is_later(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Appends what `make` puts into the rest of the buffer, which grows if that is too small: only a server that asks for
/// many answers at once, and reads none, makes it grow, and rustls limits them.
fn encode(
    outgoing: &mut Vec<u8>,
    unsent: &mut Range<usize>,
    mut make: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    loop {
        match make(&mut outgoing[unsent.end..]) {
            Ok(bytes) => {
                unsent.end += bytes;
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                outgoing.resize(unsent.end + required_size, 0);
            }
            Err(EncodeError::AlreadyEncoded) => return Err(rustls::Error::EncryptError),
        }
    }
}

/// Returns the name of a cipher suite in IANA's registry.
fn iana_name(suite: CipherSuite) -> String {
    match suite.as_str() {
        Some(name) => name.replacen("TLS13_", "TLS_", 1),
        None => format!("{suite:?}"),
    }
}

fn later() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

/// Returns whether the kernel has no more at the moment.
pub(crate) fn is_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

impl<S: fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsStream")
            .field("socket", &self.socket)
            .field("ending", &self.ending)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
