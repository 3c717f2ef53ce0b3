//! The frames of WebSocket as they arrive, and those of a client.
//!
//! Frames arrive piece by piece and are never stored, but for the up to 125 bytes of a control frame. Source: RFC 6455,
//! sections 5 and 7.4.

use crate::websocket::utf8::Utf8;

/// The most bytes of a control frame.
const CONTROL_BYTES: usize = 125;
/// The most bytes before the payload of a frame without a mask.
const HEAD_BYTES: usize = 10;
/// The key with which a client masks a payload.
const KEY_BYTES: usize = 4;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// What a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Text = 1,
    Binary = 2,
    Close = 8,
    Pong = 10,
}

/// What has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival<'a> {
    /// A message begins.
    Begin,
    /// More of it, never empty.
    Part(&'a [u8]),
    /// It is complete.
    End,
    /// A ping, whose payload is [`Frames::control`].
    Ping,
    /// The server closes the connection, with this code; None: without one.
    Close(Option<u16>),
    /// What arrived breaks the rules.
    Wrong,
    /// The message has more bytes than are accepted.
    TooLong,
}

/// A message that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Message {
    is_text: bool,
    length: u64,
}

/// The position in the frames.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// In the head of a frame, of which so many bytes were read.
    #[default]
    Head,
    /// In the payload of a frame of a message.
    Payload { left: u64, is_last: bool },
    /// In a control frame of this kind and length.
    Control { opcode: u8, length: usize },
}

/// The reader of frames, between two pieces.
#[derive(Debug)]
pub(super) struct Frames {
    most_bytes: u64,
    place: Place,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    control: [u8; CONTROL_BYTES],
    control_bytes: usize,
    message: Option<Message>,
    utf8: Utf8,
}

impl Frames {
    /// Returns the reader of messages of up to `most_bytes`.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            place: Place::Head,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            control: [0; CONTROL_BYTES],
            control_bytes: 0,
            message: None,
            utf8: Utf8::default(),
        }
    }

    /// Starts anew on another connection.
    pub(super) fn begin(&mut self) {
        *self = Self::new(self.most_bytes);
    }

    /// Returns whether a frame or a message has begun and not ended.
    pub(super) fn is_begun(&self) -> bool {
        self.head_bytes > 0 || self.message.is_some()
    }

    /// Returns the payload of the last control frame.
    pub(super) fn control(&self) -> &[u8] {
        &self.control[..self.control_bytes]
    }

    /// Reads on, up to the next arrival; None: all of `bytes` was read.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Arrival<'a>> {
        loop {
            match self.place {
                Place::Head => {
                    let (&byte, rest) = bytes.split_first()?;
                    *bytes = rest;
                    self.head[self.head_bytes] = byte;
                    self.head_bytes += 1;
                    let arrival = self.head();
                    if arrival.is_some() {
                        return arrival;
                    }
                }
                Place::Payload { left: 0, is_last } => {
                    self.place = Place::Head;
                    self.head_bytes = 0;
                    if is_last {
                        let message = self.message.take();
                        let is_text = message.is_some_and(|message| message.is_text);
                        return Some(match !is_text || self.utf8.is_whole() {
                            true => Arrival::End,
                            false => Arrival::Wrong,
                        });
                    }
                }
                Place::Payload { left, is_last } => {
                    let length = usize::try_from(left).map_or(bytes.len(), |l| l.min(bytes.len()));
                    if length == 0 {
                        return None;
                    }
                    let (part, rest) = bytes.split_at(length);
                    *bytes = rest;
                    let left = left - length as u64;
                    self.place = Place::Payload { left, is_last };
                    let is_text = self.message.is_some_and(|message| message.is_text);
                    if is_text && !self.utf8.read(part) {
                        return Some(Arrival::Wrong);
                    }
                    return Some(Arrival::Part(part));
                }
                Place::Control { opcode, length } => {
                    let taken = (length - self.control_bytes).min(bytes.len());
                    let (part, rest) = bytes.split_at(taken);
                    *bytes = rest;
                    self.control[self.control_bytes..][..taken].copy_from_slice(part);
                    self.control_bytes += taken;
                    if self.control_bytes < length {
                        return None;
                    }
                    self.place = Place::Head;
                    self.head_bytes = 0;
                    match opcode {
                        0x8 => return Some(self.close()),
                        0x9 => return Some(Arrival::Ping),
                        // A pong that nobody asked for has no meaning.
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads the head if it is whole: the place is what it says.
    fn head(&mut self) -> Option<Arrival<'static>> {
        let [first, second, ..] = self.head;
        if self.head_bytes < 2 {
            return None;
        }
        let is_last = first & FIN != 0;
        let opcode = first & 0xf;
        let is_control = opcode & 0x8 != 0;
        let short = second & !MASKED;
        let is_known = matches!(opcode, 0x0..=0x2 | 0x8..=0xa);
        let is_sound_control = is_last && usize::from(short) <= CONTROL_BYTES;
        if first & RESERVED != 0
            || second & MASKED != 0
            || !is_known
            || (is_control && !is_sound_control)
            // A message continues if one has begun, and only then.
            || (!is_control && (opcode == 0) != self.message.is_some())
        {
            return Some(Arrival::Wrong);
        }
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.head_bytes < 2 + extended {
            return None;
        }
        if is_control {
            self.control_bytes = 0;
            let length = short.into();
            self.place = Place::Control { opcode, length };
            return None;
        }
        let long = self.head[2..2 + extended].iter();
        let long = long.fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
        let left = if extended > 0 { long } else { short.into() };
        let begun = self.message.unwrap_or(Message {
            is_text: opcode == Opcode::Text as u8,
            length: 0,
        });
        let length = begun.length.saturating_add(left);
        if left > i64::MAX as u64 {
            return Some(Arrival::Wrong);
        }
        if length > self.most_bytes {
            return Some(Arrival::TooLong);
        }
        let begins = self.message.is_none();
        if begins {
            self.utf8 = Utf8::default();
        }
        self.message = Some(Message { length, ..begun });
        self.place = Place::Payload { left, is_last };
        begins.then_some(Arrival::Begin)
    }

    /// Returns what a whole close frame says.
    fn close(&self) -> Arrival<'static> {
        match self.control() {
            [] => Arrival::Close(None),
            [high, low, reason @ ..] => {
                let code = u16::from_be_bytes([*high, *low]);
                let is_code = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
                if is_code && std::str::from_utf8(reason).is_ok() {
                    Arrival::Close(Some(code))
                } else {
                    Arrival::Wrong
                }
            }
            _ => Arrival::Wrong,
        }
    }
}

/// The keys with which a client masks what it sends: others for each frame, from a generator of each connection
/// (splitmix64).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys(u64);

impl Keys {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> [u8; KEY_BYTES] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [a, b, c, d, ..] = (word ^ (word >> 31)).to_be_bytes();
        [a, b, c, d]
    }
}

/// The most bytes that a frame has beside its payload.
pub(super) const FRAME_BYTES: usize = HEAD_BYTES + KEY_BYTES;

/// Appends a whole message, or a control frame, masked.
pub(super) fn put_frame(opcode: Opcode, payload: &[u8], keys: &mut Keys, frame: &mut Vec<u8>) {
    frame.push(FIN | opcode as u8);
    match payload.len() {
        // Both fit.
        length @ 0..126 => frame.push(MASKED | length as u8),
        length @ 126..0x1_0000 => {
            frame.push(MASKED | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(MASKED | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let key = keys.next();
    frame.extend_from_slice(&key);
    let begin = frame.len();
    frame.extend_from_slice(payload);
    mask(&mut frame[begin..], key);
}

fn mask(payload: &mut [u8], key: [u8; KEY_BYTES]) {
    let word = u32::from_ne_bytes(key);
    let mut words = payload.chunks_exact_mut(KEY_BYTES);
    for bytes in &mut words {
        let masked = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) ^ word;
        bytes.copy_from_slice(&masked.to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(key) {
        *byte ^= key;
    }
}
