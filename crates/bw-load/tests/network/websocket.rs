//! A server of WebSocket in a thread: the upgrade, and frames.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Reads the request of an upgrade, and accepts it; frames are sent at once.
pub(crate) fn accept(stream: &mut TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let (_, rest) = head.split_once("Sec-WebSocket-Key: ").unwrap();
    let (key, _) = rest.split_once("\r\n").unwrap();
    let keyed = key.to_owned() + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, keyed.as_bytes());
    let accept = BASE64_STANDARD.encode(hash);
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).unwrap();
}

/// Reads a frame of the client, with a length below 126, into `payload`; returns its first byte. None at the end.
pub(crate) fn read_frame(stream: &mut impl Read, payload: &mut Vec<u8>) -> Option<u8> {
    let mut head = [0; 6];
    stream.read_exact(&mut head).ok()?;
    let [first, length, key @ ..] = head;
    payload.resize(usize::from(length & 0x7f), 0);
    stream.read_exact(payload).ok()?;
    let keys = key.iter().cycle();
    payload
        .iter_mut()
        .zip(keys)
        .for_each(|(byte, key)| *byte ^= key);
    Some(first)
}

/// Writes a whole message, or a control frame, with a length below 126.
pub(crate) fn write_frame(stream: &mut impl Write, first: u8, payload: &[u8]) -> Option<()> {
    let mut frame = [0; 127];
    frame[..2].copy_from_slice(&[first, payload.len() as u8]);
    frame[2..2 + payload.len()].copy_from_slice(payload);
    stream.write_all(&frame[..2 + payload.len()]).ok()
}
