//! What carries the bytes of a connection: its socket, TCP or Unix.
//!
//! A transport may have a handshake of its own and hold bytes back in either direction ([`Transport::handshake`],
//! [`Transport::wants_write`], [`Transport::is_buffered`]), so that encryption fits behind it; a socket does neither.

use socket2::Socket;
use std::io::{self, Read, Write};

/// A transport on a non-blocking socket.
#[derive(Debug)]
pub(crate) enum Transport {
    /// The socket itself, TCP or Unix: both read and write in the same way.
    Plain(Socket),
}

impl Transport {
    /// Returns the socket.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
        }
    }

    /// Continues the handshake on a connected socket; returns whether it is complete, or there is none.
    ///
    /// # Errors
    /// Those of the socket, or of the handshake.
    #[allow(clippy::unnecessary_wraps)] // a socket has no handshake that could fail
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
        }
    }

    /// Reads into `buffer`, which has at least 64 KiB; 0 bytes are the end.
    ///
    /// # Errors
    /// `EAGAIN`: nothing has arrived; those of the socket.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
        }
    }

    /// Writes a part of `bytes`; without bytes, what is left of the writes before.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room; those of the socket.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(_) if bytes.is_empty() => Ok(0),
            Self::Plain(socket) => socket.write(bytes),
        }
    }

    /// Returns whether a read succeeds or fails although the socket is not ready.
    pub(crate) fn is_buffered(&self) -> bool {
        match self {
            Self::Plain(_) => false,
        }
    }

    /// Returns whether bytes that were accepted wait for room in the kernel.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
        }
    }

    /// Returns text for the error message if the handshake failed before the run.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
        }
    }
}
