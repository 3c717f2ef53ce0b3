//! The frames of HTTP/2 (RFC 9113, sections 4 and 6).

use crate::Outgoing;

/// Length of a frame's head [bytes].
pub(super) const HEAD_BYTES: usize = 9;
/// Maximum payload of a frame [bytes]: the protocol's default, which every receiver accepts, and which we do not raise.
pub(super) const FRAME_BYTES: u32 = 16_384;
/// The window of a connection and of a stream before anything is said about it [bytes].
pub(super) const FIRST_WINDOW: u32 = 65_535;
/// The window of each connection and of each stream for what is received [bytes]: that of h2load. It is opened again
/// when half of it is used.
pub(super) const WINDOW: u32 = (1 << 30) - 1;
/// Maximum size of a response's header block [bytes], encoded or not.
pub(super) const BLOCK_BYTES: u32 = 64 * 1024;
/// What a client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest window, and the largest id of a stream.
pub(super) const LARGEST: u32 = 0x7fff_ffff;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Of SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;
/// Of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 0x1;
/// Of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 0x4;
/// Of DATA and HEADERS.
pub(super) const PADDED: u8 = 0x8;
/// Of HEADERS.
pub(super) const PRIORITY: u8 = 0x20;

pub(super) const SETTING_TABLE_BYTES: u16 = 1;
pub(super) const SETTING_PUSH: u16 = 2;
pub(super) const SETTING_STREAMS: u16 = 3;
pub(super) const SETTING_WINDOW: u16 = 4;
pub(super) const SETTING_FRAME_BYTES: u16 = 5;
pub(super) const SETTING_LIST_BYTES: u16 = 6;

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

/// Returns the name of an error code.
pub(super) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("unknown")
}

/// The server's bytes break the rules in a way that ends the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Of the payload [bytes].
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    pub(super) fn of([a, b, c, kind, flags, stream @ ..]: [u8; HEAD_BYTES]) -> Self {
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & LARGEST,
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn put(self, out: &mut Outgoing) {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        out.put(&[a, b, c, self.kind, self.flags, d, e, f, g]);
    }
}

/// Puts a frame with a payload.
pub(super) fn put_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Outgoing) {
    let head = FrameHead {
        // All payloads are below FRAME_BYTES.
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    head.put(out);
    out.put(payload);
}

/// Returns the number in the first four bytes of a payload that has them.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().copied().map(u32::from_be_bytes)
}

pub(super) fn put_reset(stream: u32, code: u32, out: &mut Outgoing) {
    put_frame(RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

pub(super) fn put_window_update(stream: u32, bytes: u32, out: &mut Outgoing) {
    put_frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes(), out);
}
