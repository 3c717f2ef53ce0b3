//! What carries the bytes of a connection: its socket, TCP, UDP or Unix, or TLS on it.
//!
//! A transport may have a handshake of its own and hold bytes back in either direction ([`Transport::handshake`],
//! [`Transport::wants_write`], [`Transport::is_buffered`]); a socket does neither.

use crate::net::tls::refusal::Refusal;
use crate::net::tls::settings::TlsSettings;
use crate::net::tls::{CONTENT_BYTES, TlsDescription, TlsStream};
use bw_model::Nanos;
use bw_sys::arrival;
use bw_sys::clock::monotonic_ns;
use socket2::Socket;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

/// A socket that knows how long what it read last had been there.
#[derive(Debug)]
pub(crate) struct StampedSocket {
    socket: Socket,
    /// None: there is no stamp.
    unseen: Option<Nanos>,
    is_empty: bool,
    /// Whether it has read since the last [`Transport::arrival`].
    has_read: bool,
    /// The last arrival that was asked for [ns].
    arrived_ns: u64,
}

impl StampedSocket {
    fn new(socket: Socket) -> Self {
        // Without stamps everything counts as read at once.
        let _ = arrival::stamp_arrivals(socket.as_fd());
        // Nor does another socket than one of TCP say what is left.
        let _ = arrival::count_left(socket.as_fd());
        Self {
            socket,
            unseen: None,
            is_empty: false,
            has_read: false,
            arrived_ns: 0,
        }
    }

    /// Returns the socket alone.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }
}

impl Read for StampedSocket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = arrival::receive(self.socket.as_fd(), buffer)?;
        self.unseen = received.unseen_ns.map(Nanos);
        self.is_empty = received.is_all;
        self.has_read = true;
        Ok(received.length)
    }
}

impl Write for StampedSocket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A transport on a non-blocking socket.
#[derive(Debug)]
pub(crate) enum Transport {
    /// The socket itself, TCP, UDP or Unix: all read and write in the same way.
    Plain(StampedSocket),
    /// TLS on the socket.
    Tls(Box<TlsStream<StampedSocket>>),
}

impl Transport {
    /// Returns the transport on a socket, which may not be connected yet; with settings it uses TLS.
    ///
    /// # Errors
    /// As [`TlsStream::new`].
    pub(crate) fn new(socket: Socket, tls: Option<&TlsSettings>) -> io::Result<Self> {
        let socket = StampedSocket::new(socket);
        Ok(match tls {
            None => Self::Plain(socket),
            Some(settings) => Self::Tls(Box::new(TlsStream::new(socket, settings)?)),
        })
    }

    /// Returns the socket.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(plain) => &plain.socket,
            Self::Tls(stream) => &stream.socket().socket,
        }
    }

    /// Returns whether the last read of the socket has left nothing, no end of the stream either.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.is_empty,
            Self::Tls(stream) => stream.socket().is_empty,
        }
    }

    /// Returns how long what was read last had been there before; None: the kernel has no stamp of it.
    pub(crate) fn unseen(&self) -> Option<Nanos> {
        match self {
            Self::Plain(plain) => plain.unseen,
            Self::Tls(stream) => stream.socket().unseen,
        }
    }

    /// Returns when what was read last had arrived [ns of CLOCK_MONOTONIC], to be called after each read. Records of TLS that
    /// came with the same read of the socket have the same time.
    pub(crate) fn arrival_ns(&mut self) -> u64 {
        let socket = match self {
            Self::Plain(plain) => plain,
            Self::Tls(stream) => stream.socket_mut(),
        };
        if std::mem::take(&mut socket.has_read) {
            socket.arrived_ns = monotonic_ns().saturating_sub(socket.unseen.unwrap_or_default().0);
        }
        socket.arrived_ns
    }

    /// Continues the handshake on a connected socket; returns whether it is complete, or there is none.
    ///
    /// # Errors
    /// As [`TlsStream::handshake`].
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(stream) => stream.handshake(),
        }
    }

    /// Reads into `buffer`, which has at least 64 KiB; 0 bytes are the end. Of UDP it reads one datagram, which fits and may
    /// have 0 bytes.
    ///
    /// # Errors
    /// `EAGAIN`: nothing has arrived; those of the socket; as [`TlsStream::read`].
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes a part of these pieces, none of which is empty; without pieces, what is left of the writes before.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room; those of the socket; as [`TlsStream::write`].
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, pieces) {
            (Self::Plain(_), []) => Ok(0),
            (Self::Plain(plain), [one]) => plain.socket.send(one),
            (Self::Plain(plain), pieces) => plain.socket.send_vectored(pieces),
            (Self::Tls(stream), pieces) => stream.write(pieces.first().map_or(&[], |one| one)),
        }
    }

    /// Returns up to which length what is sent is copied, to be next to its head [bytes]: of TLS a record, because each
    /// piece is a record of its own.
    pub(crate) fn copied_bytes(&self) -> u64 {
        match self {
            Self::Plain(_) => 4096,
            Self::Tls(_) => CONTENT_BYTES as u64,
        }
    }

    /// Announces the end of what is sent, if the transport has a way to.
    pub(crate) fn announce_end(&mut self) {
        if let Self::Tls(stream) = self {
            stream.announce_end();
        }
    }

    /// Lets a close send a reset, so that no local port stays in TIME_WAIT for a minute; not while the kernel holds bytes that
    /// have not left: a reset discards them.
    pub(crate) fn reset_on_close(&self) {
        let socket = self.socket();
        if bw_sys::socket::unsent_bytes(socket.as_fd()).unwrap_or(0) == 0 {
            // Without this option the close is an ordinary one, which does no harm.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }

    /// Ends what is sent on the socket.
    pub(crate) fn end_sending(&self) {
        // A connection that has failed meanwhile needs no end.
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Returns whether a read succeeds or fails although the socket is not ready.
    pub(crate) fn is_buffered(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.is_buffered(),
        }
    }

    /// Returns whether bytes that were accepted wait for room in the kernel.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.wants_write(),
        }
    }

    /// Returns why the handshake failed with this result (a negative errno); None if there is none.
    pub(crate) fn refusal(&self, result: i32) -> Option<Refusal> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.refusal(result)),
        }
    }

    /// Returns the server's certificate in DER, once the handshake is complete; None without TLS.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.certificate(),
        }
    }

    /// Returns what the two sides agreed on, once the handshake is complete; None without TLS.
    pub(crate) fn describe_tls(&self) -> Option<TlsDescription> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.describe()),
        }
    }
}
