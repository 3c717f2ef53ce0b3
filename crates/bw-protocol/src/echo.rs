//! An echo server: an operation sends `size` bytes and receives as many.
//!
//! Decision: the response is compared with the request, because a server that answers with other bytes
//! is not an echo server. With `receive_bytes` only the length of the response counts, and its content is not
//! checked. With several operations on a connection the responses come in the order of the requests.

use crate::{End, Outgoing, Protocol, SessionState};
use bw_model::Operation;
use bw_record::errno::RESPONSE_CUT;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum size of one piece that is sent [bytes]; the content repeats after it.
const FILLER_BYTES: usize = 64 * 1024;

/// What is sent to be echoed: bytes that repeat.
#[derive(Clone, Debug)]
pub(crate) struct Filler(Arc<[u8]>);

impl Filler {
    pub(crate) fn new() -> Self {
        // The period is prime, so a buffer whose size is a power of two cannot hide an offset.
        Self((0..FILLER_BYTES).map(|place| (place % 251) as u8).collect())
    }

    /// Puts its first `bytes`; it repeats.
    pub(crate) fn put(&self, bytes: u64, out: &mut Outgoing) {
        out.put_pattern(&self.0, 0, bytes);
    }

    /// Sets `copy` to its first `bytes`; it repeats.
    pub(crate) fn copy(&self, bytes: usize, copy: &mut Vec<u8>) {
        copy.clear();
        while copy.len() < bytes {
            let more = FILLER_BYTES.min(bytes - copy.len());
            copy.extend_from_slice(&self.0[..more]);
        }
    }

    /// Returns whether `bytes` equal what was put from position `from` on.
    pub(crate) fn is_echo(&self, from: u64, mut bytes: &[u8]) -> bool {
        let mut place = remainder(from);
        while !bytes.is_empty() {
            let length = bytes.len().min(FILLER_BYTES - place);
            let (piece, rest) = bytes.split_at(length);
            if piece != &self.0[place..place + length] {
                return false;
            }
            bytes = rest;
            place = 0;
        }
        true
    }
}

/// The protocol: send a number of bytes, receive a number of bytes.
#[derive(Clone, Debug)]
pub struct Echo {
    filler: Filler,
    receive_bytes: Option<u64>,
    outstanding: u32,
}

/// One operation in progress.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    slot: u32,
    /// How many bytes were put with it and before it.
    end: u64,
    expected: u64,
    received: u64,
}

/// The state of one connection: its operations, in order.
#[derive(Debug)]
pub struct EchoSession {
    exchanges: VecDeque<Exchange>,
}

impl Echo {
    /// Returns the protocol with at most `outstanding` operations in progress on a connection; `receive_bytes` is the
    /// size of the response, None: as much as was sent.
    #[must_use]
    pub fn new(receive_bytes: Option<u64>, outstanding: u32) -> Self {
        Self {
            filler: Filler::new(),
            receive_bytes,
            outstanding,
        }
    }
}

impl EchoSession {
    /// Ends the first operation if its response is whole and `written` bytes include its request.
    fn end_first(&mut self, written: u64, ends: &mut Vec<End>) -> bool {
        let Some(first) = self.exchanges.front() else {
            return false;
        };
        if first.end > written || first.received < first.expected {
            return false;
        }
        let result = i64::try_from(first.received).unwrap_or(i64::MAX);
        let slot = first.slot;
        ends.push(End { slot, result });
        self.exchanges.pop_front();
        true
    }
}

impl Protocol for Echo {
    type Session = EchoSession;

    fn session(&self) -> EchoSession {
        EchoSession {
            exchanges: VecDeque::with_capacity(self.outstanding as usize),
        }
    }

    fn open(&self, session: &mut EchoSession, _out: &mut Outgoing) -> SessionState {
        session.exchanges.clear();
        SessionState::Ready
    }

    fn room(&self, session: &EchoSession) -> u32 {
        // At most `outstanding` are in progress.
        self.outstanding
            .saturating_sub(session.exchanges.len() as u32)
    }

    fn begin(
        &self,
        session: &mut EchoSession,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let size = u64::from(operation.size);
        self.filler.put(size, out);
        session.exchanges.push_back(Exchange {
            slot,
            end: out.put_bytes(),
            expected: self.receive_bytes.unwrap_or(size),
            received: 0,
        });
        Ok(())
    }

    fn sent(&self, session: &mut EchoSession, ends: &mut Vec<End>) -> SessionState {
        while session.end_first(u64::MAX, ends) {}
        SessionState::Ready
    }

    fn receive(
        &self,
        session: &mut EchoSession,
        mut bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        let last = session.exchanges.len().saturating_sub(1);
        for place in 0..=last {
            let Some(first) = session.exchanges.front_mut() else {
                break;
            };
            let from = first.received;
            let left = first.expected - from;
            // All of what is left, for the last one: more than it expects is an error.
            let taken = if place == last {
                bytes.len()
            } else {
                usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
            };
            let (piece, rest) = bytes.split_at(taken);
            if taken as u64 > left {
                return SessionState::Failed(-libc::EPROTO);
            }
            if self.receive_bytes.is_none() && !self.filler.is_echo(from, piece) {
                return SessionState::Failed(-libc::EBADMSG);
            }
            first.received += taken as u64;
            bytes = rest;
            if !session.end_first(out.written_bytes(), ends) {
                break;
            }
        }
        if bytes.is_empty() {
            SessionState::Ready
        } else {
            SessionState::Failed(-libc::EPROTO)
        }
    }

    fn closed(&self, session: &mut EchoSession, ends: &mut Vec<End>) {
        for Exchange { slot, received, .. } in session.exchanges.drain(..) {
            let result = match received {
                0 => (-libc::ECONNRESET).into(),
                _ => RESPONSE_CUT.into(),
            };
            ends.push(End { slot, result });
        }
    }

    fn cancel(&self, _session: &mut EchoSession, _slot: u32, _out: &mut Outgoing) -> bool {
        false
    }
}

/// Returns the position in the filler of byte `place` of an exchange.
#[allow(clippy::cast_possible_truncation)]
fn remainder(place: u64) -> usize {
    (place % FILLER_BYTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;
    use proptest::prelude::*;

    fn operation(size: u32) -> Operation {
        Operation::new(Kind::Exchange, 0, size)
    }

    /// Returns a session with these operations begun, and the bytes that they sent.
    fn begun(echo: &Echo, sizes: &[u32], out: &mut Outgoing) -> (EchoSession, Vec<u8>) {
        let mut session = echo.session();
        assert_eq!(echo.open(&mut session, out), SessionState::Ready);
        for (slot, &size) in (0..).zip(sizes) {
            echo.begin(&mut session, slot, &operation(size), out)
                .unwrap();
        }
        let mut sent = Vec::new();
        while !out.is_empty() {
            let length = out.next().len();
            sent.extend_from_slice(out.next());
            out.written(length);
        }
        (session, sent)
    }

    #[test]
    fn a_long_echo_is_compared_over_the_filler_s_end() {
        let echo = Echo::new(None, 1);
        let (mut out, mut ends) = (Outgoing::default(), Vec::new());
        let (mut session, sent) = begun(&echo, &[200_000], &mut out);
        assert_eq!(sent.len(), 200_000);
        assert_eq!(echo.room(&session), 0);
        assert_eq!(echo.sent(&mut session, &mut ends), SessionState::Ready);
        let (head, tail) = sent.split_at(70_001);
        echo.receive(&mut session, head, &mut out, &mut ends);
        assert_eq!(ends, []);
        let state = echo.receive(&mut session, tail, &mut out, &mut ends);
        let end = End {
            slot: 0,
            result: 200_000,
        };
        assert_eq!((state, ends), (SessionState::Ready, vec![end]));
        assert_eq!(echo.room(&session), 1);
    }

    #[test]
    fn other_bytes_and_too_many_are_errors() {
        let echo = Echo::new(None, 1);
        for (back, errno) in [(vec![0, 1, 3], libc::EBADMSG), (vec![0; 5], libc::EPROTO)] {
            let (mut out, mut ends) = (Outgoing::default(), Vec::new());
            let (mut session, _) = begun(&echo, &[4], &mut out);
            let state = echo.receive(&mut session, &back, &mut out, &mut ends);
            assert_eq!((state, ends), (SessionState::Failed(-errno), vec![]));
        }
    }

    #[test]
    fn bytes_without_an_operation_are_an_error() {
        let echo = Echo::new(None, 2);
        let (mut out, mut ends) = (Outgoing::default(), Vec::new());
        let (mut session, _) = begun(&echo, &[], &mut out);
        let state = echo.receive(&mut session, b"x", &mut out, &mut ends);
        assert_eq!(state, SessionState::Failed(-libc::EPROTO));
    }

    #[test]
    fn an_operation_ends_only_when_its_request_is_written() {
        let echo = Echo::new(Some(1), 2);
        let (mut out, mut ends) = (Outgoing::default(), Vec::new());
        let mut session = echo.session();
        echo.open(&mut session, &mut out);
        echo.begin(&mut session, 7, &operation(10), &mut out)
            .unwrap();
        let state = echo.receive(&mut session, b"a", &mut out, &mut ends);
        assert_eq!((state, &ends), (SessionState::Ready, &vec![]));
        out.written(10);
        echo.sent(&mut session, &mut ends);
        assert_eq!(ends, [End { slot: 7, result: 1 }]);
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_ends(
            sizes in prop::collection::vec(0_u32..500, 1..8),
            cuts in prop::collection::vec(1_usize..400, 1..40),
        ) {
            let echo = Echo::new(None, 8);
            let (mut out, mut ends) = (Outgoing::default(), Vec::new());
            let (mut session, sent) = begun(&echo, &sizes, &mut out);
            echo.sent(&mut session, &mut ends);
            let mut rest = &sent[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                let state = echo.receive(&mut session, piece, &mut out, &mut ends);
                prop_assert_eq!(state, SessionState::Ready);
                rest = more;
            }
            let expected: Vec<End> = (0..).zip(&sizes).map(|(slot, &size)| End { slot, result: size as i64 }).collect();
            prop_assert_eq!(ends, expected);
        }
    }
}
