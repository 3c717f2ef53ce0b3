//! The messages of PostgreSQL's protocol: those of the client as bytes, those of the server out of pieces of bytes.
//!
//! Decision: of a message that the server sends, only the first [`STORED_BYTES`] of its body are stored, and only if its
//! kind has something to be read, so that rows of any length need no memory. Rejected: the crate postgres-protocol, which
//! holds each message whole and allocates for each.
//! Source: PostgreSQL's documentation, "Message Formats" (protocol version 3.0).

/// How much of a message's body is stored [bytes]: more than any message of a handshake has, and all of an error up to
/// its text.
pub(super) const STORED_BYTES: usize = 4096;
const HEADER_BYTES: usize = 5;
/// The length counts itself.
const LENGTH_BYTES: u32 = 4;
/// The kinds of messages that the server may send.
const KINDS: &[u8] = b"123ACDEGHIKNRSTVWZntsv";
/// Those whose bodies are read.
const READ: &[u8] = b"ERZt";
/// Those whose length has no limit; the others are a few bytes.
const LONG: &[u8] = b"ADENTt";
/// Limit of the others [bytes]; libpq has the same.
const SHORT_BYTES: u32 = 30_000;

/// The position in the server's messages.
#[derive(Debug)]
pub(super) struct Messages {
    header: [u8; HEADER_BYTES],
    /// How much of the header has arrived.
    begun: usize,
    /// How much of the body is to come.
    left: u32,
    length: u32,
    stored: Vec<u8>,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All bytes were used; the message is not whole.
    More,
    /// A message of this kind has arrived.
    Message(u8),
    /// The bytes are no message of a server.
    Malformed,
}

impl Messages {
    pub(super) fn new() -> Self {
        Self {
            header: [0; HEADER_BYTES],
            begun: 0,
            left: 0,
            length: 0,
            stored: Vec::with_capacity(STORED_BYTES),
        }
    }

    /// Starts anew with the first message of a connection.
    pub(super) fn restart(&mut self) {
        self.begun = 0;
        self.left = 0;
        self.stored.clear();
    }

    /// Returns the length of the last message's body [bytes].
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// Returns what is stored of the last message's body.
    pub(super) fn body(&self) -> &[u8] {
        &self.stored
    }

    /// Removes the bytes of one message, or of a part of it.
    pub(super) fn step(&mut self, bytes: &mut &[u8]) -> Step {
        if self.begun < HEADER_BYTES {
            let room = &mut self.header[self.begun..];
            let taken = room.len().min(bytes.len());
            let (piece, rest) = bytes.split_at(taken);
            room[..taken].copy_from_slice(piece);
            *bytes = rest;
            self.begun += taken;
            // Before the length has arrived: other protocols are recognized at their first byte.
            if self.begun > 0 && !KINDS.contains(&self.header[0]) {
                return Step::Malformed;
            }
            if self.begun < HEADER_BYTES {
                return Step::More;
            }
            let [_, length @ ..] = self.header;
            // The length is signed in the protocol.
            let most = if LONG.contains(&self.header[0]) {
                i32::MAX as u32
            } else {
                SHORT_BYTES
            };
            match u32::from_be_bytes(length).checked_sub(LENGTH_BYTES) {
                Some(length) if length < most => self.length = length,
                _ => return Step::Malformed,
            }
            self.left = self.length;
            self.stored.clear();
        }
        let taken = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (piece, rest) = bytes.split_at(taken);
        *bytes = rest;
        // At most `left`.
        self.left -= taken as u32;
        if READ.contains(&self.header[0]) {
            let room = STORED_BYTES - self.stored.len();
            self.stored.extend_from_slice(&piece[..taken.min(room)]);
        }
        if self.left > 0 {
            return Step::More;
        }
        self.begun = 0;
        Step::Message(self.header[0])
    }
}

/// Appends a message of this kind (0: none, as that at the start) with the body that `body` appends.
pub(super) fn put(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    if kind != 0 {
        out.push(kind);
    }
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES as usize]);
    body(out);
    // Our messages are far below 4 GiB.
    let length = (out.len() - start) as u32;
    out[start..start + LENGTH_BYTES as usize].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text and the zero byte after it.
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Returns a field of an error, by its code; None if it is not in the part that was stored.
pub(super) fn field(body: &[u8], code: u8) -> Option<&[u8]> {
    let mut fields = body.split_inclusive(|byte| *byte == 0);
    fields.find_map(|field| field.strip_suffix(&[0])?.strip_prefix(&[code]))
}

/// Maximum length of the server's text in a message of ours [characters].
const TEXT_CHARACTERS: usize = 500;

/// Returns an error of the server as a text: severity, SQLSTATE, message, and its hint.
pub(super) fn error_text(body: &[u8]) -> String {
    let text = |code: u8| {
        let field = String::from_utf8_lossy(field(body, code).unwrap_or_default());
        let visible = field.chars().take(TEXT_CHARACTERS);
        let visible = visible.map(|one| if one.is_control() { ' ' } else { one });
        visible.collect::<String>()
    };
    let hint = text(b'H');
    let hint = if hint.is_empty() {
        hint
    } else {
        format!(" ({hint})")
    };
    format!("{} {}: {}{hint}", text(b'S'), text(b'C'), text(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(kind, &mut out, |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn a_body_of_gigabytes_is_skipped_and_a_wrong_length_is_refused() {
        let mut messages = Messages::new();
        let mut head = &[b'D', 0x7f, 0xff, 0xff, 0xff][..];
        assert_eq!(messages.step(&mut head), Step::More);
        assert_eq!(messages.step(&mut &[0; 100_000][..]), Step::More);
        assert_eq!(messages.stored.capacity(), STORED_BYTES);
        for wrong in [
            &[b'D', 0, 0, 0, 3][..],
            &[b'D', 0xff, 0, 0, 0],
            b"HTTP/",
            b"x",
        ] {
            messages.restart();
            assert_eq!(messages.step(&mut &wrong[..]), Step::Malformed, "{wrong:?}");
        }
    }

    #[test]
    fn an_error_is_a_line_without_control_characters() {
        let body = b"SERROR\0VERROR\0C42P01\0Mno\ntable\0Hmake it\0P15\0\0";
        assert_eq!(field(body, b'C'), Some(&b"42P01"[..]));
        assert_eq!(error_text(body), "ERROR 42P01: no table (make it)");
        assert_eq!(field(b"C42", b'C'), None);
        assert_eq!(error_text(b""), " : ");
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6000), 1..6),
            cuts in prop::collection::vec(1_usize..3000, 1..20),
        ) {
            let kinds = b"EDRZ";
            let kind = |place: usize| kinds[place % kinds.len()];
            let sent: Vec<u8> = bodies.iter().enumerate().flat_map(|(place, body)| message(kind(place), body)).collect();
            let mut messages = Messages::new();
            let (mut rest, mut found) = (&sent[..], 0);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (mut piece, more) = rest.split_at((*cut).min(rest.len()));
                rest = more;
                while !piece.is_empty() {
                    if let Step::Message(one) = messages.step(&mut piece) {
                        prop_assert_eq!(one, kind(found));
                        let body = &bodies[found];
                        prop_assert_eq!(messages.length() as usize, body.len());
                        let stored = if one == b'D' { 0 } else { body.len().min(STORED_BYTES) };
                        prop_assert_eq!(messages.body(), &body[..stored]);
                        found += 1;
                    }
                }
            }
            prop_assert_eq!(found, bodies.len());
        }
    }
}
