//! The server's side of PostgreSQL's protocol, as far as its fakes need it: a client that prepares one statement, and
//! operations that execute it.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Returns a message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// Returns an error with a text of `length` bytes.
pub(crate) fn long_error(severity: &str, code: &str, length: usize) -> Vec<u8> {
    let text = "x".repeat(length);
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mwhat happened{text}\0\0");
    message(b'E', body.as_bytes())
}

pub(crate) fn error(severity: &str, code: &str) -> Vec<u8> {
    long_error(severity, code, 0)
}

/// Returns the answer to one operation: a row of `bytes`.
pub(crate) fn answer(bytes: usize) -> Vec<u8> {
    let parts = [
        message(b'2', b""),
        message(b'D', &vec![b'x'; bytes]),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ];
    parts.concat()
}

/// Reads one message of the client; `kind` is absent in the first. None at the end.
pub(crate) fn read_message(stream: &mut TcpStream, has_kind: bool) -> Option<(u8, Vec<u8>)> {
    let mut kind = [0];
    if has_kind {
        stream.read_exact(&mut kind).ok()?;
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((kind[0], body))
}

/// Reads until the Sync of an operation; returns how many statements it executes. None at the end.
pub(crate) fn read_operation(stream: &mut TcpStream) -> Option<usize> {
    let mut executed = 0;
    loop {
        match read_message(stream, true)?.0 {
            b'S' => return Some(executed),
            b'E' => executed += 1,
            _ => {}
        }
    }
}

/// Accepts a client, which prepares one statement with so many parameters; None if it leaves.
pub(crate) fn accept_with(stream: &mut TcpStream, parameters: u8) -> Option<()> {
    read_message(stream, false)?;
    let accepted = [
        message(b'R', &[0; 4]),
        message(b'K', &[0; 8]),
        message(b'Z', b"I"),
    ];
    stream.write_all(&accepted.concat()).ok()?;
    read_operation(stream)?;
    let types = vec![0; usize::from(parameters) * 4];
    let prepared = [
        message(b'1', b""),
        message(b't', &[&[0, parameters][..], &types].concat()),
        message(b'n', b""),
        message(b'Z', b"I"),
    ];
    stream.write_all(&prepared.concat()).ok()
}

/// Accepts a client, which prepares one statement without parameters; None if it leaves.
pub(crate) fn accept(stream: &mut TcpStream) -> Option<()> {
    accept_with(stream, 0)
}

/// Answers every operation with these bytes until the client leaves.
pub(crate) fn serve(stream: &mut TcpStream, answer: &[u8]) {
    while read_operation(stream).is_some() {
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}
