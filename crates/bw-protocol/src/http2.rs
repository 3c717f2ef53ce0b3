//! HTTP/2: an operation is one request and its whole response, on a stream of its own.
//!
//! An operation's `offset` selects a request, and results are those of HTTP/1.1 (see [`crate::http1`]). A stream that
//! the server resets ends with `-ECONNRESET`, with `-ECONNREFUSED` if the server refused it (REFUSED_STREAM), and with
//! `-EPROTO` if the response breaks the rules. Streams above the last one of GOAWAY are sent again. A request in which
//! the server takes no interest any more (its response is complete) is not sent to its end.
//!
//! Decisions. A connection is ready when the server's SETTINGS have arrived, so the number of streams that the server
//! allows is known before the first request, and a server without HTTP/2 is noticed before the run. A stream takes
//! part in a list that is ordered by id; nothing is allocated for it. Header fields are read for the status and the
//! length of the body (see `hpack`). A request is encoded before the run as far as it is the same for each operation; a body
//! with values of its own is put together again for each part of it that the windows allow. The windows of what is received are so large that no server waits for us; bodies
//! are dropped as they arrive. Those of what is sent are the server's: bodies are put in the order of their requests,
//! and no more than 64 KiB at a time, so their memory is bounded and a stream that is given up costs no
//! bytes behind it. A refused stream is an error, although it could be sent again: a server that refuses streams is
//! overloaded, and that must be seen.
//! Rejected: the crate h2. It is a state machine of futures: it needs a task and a waker for each connection and each
//! stream, allocates for each stream, and decodes all header fields into a map; here the pool has the sockets, the time
//! limits and the slots already. A request behind REFUSED_STREAM that is sent again at once, which a server that refuses
//! everything would make endless.
//! Not done: priorities (they are deprecated), server push (refused by SETTINGS), the upgrade from HTTP/1.1.
//! Sources: RFC 9113, RFC 7541.

mod frame;
mod hpack;
mod request;
mod session;
mod stream;

pub use crate::http2::request::{Request, Requests};
pub use crate::http2::session::Http2Session;

use crate::check::Matched;
use crate::exchanges::Exchanges;
use crate::grpc::{Answer, Calls};
use crate::http2::frame::{BLOCK_BYTES, Broken, WINDOW, put_frame, put_reset, put_window_update};
use crate::http2::request::{Sending, put_block};
use crate::http2::stream::Stream;
use crate::streams::Streams;
use crate::{End, Outgoing, Protocol, SessionState};
use bw_model::{ExchangeAddress, Nanos, Operation};
use std::sync::Arc;

/// Result of an operation whose header list is larger than the server allows.
const TOO_LONG: i32 = -libc::EMSGSIZE;

/// The protocol.
#[derive(Debug)]
pub struct Http2(Exchanges<Requests>);

impl Http2 {
    /// Returns the protocol with at most `outstanding` streams at a time on a connection.
    #[must_use]
    pub fn new(requests: Arc<Requests>, outstanding: u32) -> Self {
        Self(Exchanges::new(requests, outstanding))
    }

    /// Reads the responses as streams, if there are any.
    #[must_use]
    pub fn with_streams(mut self, streams: Option<Streams>) -> Self {
        self.0.streams = streams;
        self
    }

    /// Makes the operations calls of gRPC, if they are.
    #[must_use]
    pub fn with_calls(mut self, calls: Option<Calls>) -> Self {
        self.0.calls = calls;
        self
    }
}

impl Protocol for Http2 {
    type Session = Http2Session;

    fn session(&self) -> Http2Session {
        self.0.grow();
        Http2Session::new(self.0.outstanding)
    }

    fn open(&self, session: &mut Http2Session, out: &mut Outgoing) -> SessionState {
        session.restart();
        out.put(frame::PREFACE);
        let mut settings = [0; 18];
        let values = [
            (frame::SETTING_PUSH, 0),
            (frame::SETTING_WINDOW, WINDOW),
            (frame::SETTING_LIST_BYTES, BLOCK_BYTES),
        ];
        for (place, (name, value)) in settings.chunks_exact_mut(6).zip(values) {
            place[..2].copy_from_slice(&name.to_be_bytes());
            place[2..].copy_from_slice(&value.to_be_bytes());
        }
        put_frame(frame::SETTINGS, 0, 0, &settings, out);
        put_window_update(0, WINDOW - frame::FIRST_WINDOW, out);
        session.state()
    }

    fn room(&self, session: &Http2Session) -> u32 {
        if session.state() != SessionState::Ready {
            return 0;
        }
        let most = self.0.outstanding.min(session.settings.streams);
        // At most `outstanding` are in progress.
        most.saturating_sub(session.streams.count())
    }

    fn begin(
        &self,
        session: &mut Http2Session,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        let ExchangeAddress { request, number } = ExchangeAddress::unpack(operation.offset);
        let encoded = self.0.requests.get(request).ok_or(-libc::EINVAL)?;
        let values = &self.0.requests.values;
        let id = session.streams.next_id;
        let unsent = encoded.body_bytes(id, values, number, &mut session.filled);
        let (block, list_bytes) = encoded.block(values, number, unsent, &mut session.scratch);
        if list_bytes > session.settings.list_bytes {
            return Err(TOO_LONG);
        }
        self.0.begin(slot);
        let resize = std::mem::take(&mut session.resize);
        put_block(id, block, resize, unsent == 0, out);
        session.streams.begin(Stream {
            sending: Sending {
                stream: id,
                request,
                number,
                unsent,
            },
            slot,
            head_end: out.put_bytes(),
            window: session.streams.first_window,
            status: 0,
            is_encoded: false,
            answer: Answer::default(),
            expected: None,
            body_bytes: 0,
            matched: Matched::default(),
            used: 0,
            is_measured: self.0.is_measured(operation),
        });
        session.put_bodies(&self.0.requests, out);
        Ok(())
    }

    fn more(&self, session: &mut Http2Session, out: &mut Outgoing) {
        session.put_bodies(&self.0.requests, out);
    }

    /// GOAWAY: no stream of the server's was handled, and there is no error.
    fn goodbye(&self, _session: &mut Http2Session, out: &mut Outgoing) {
        put_frame(frame::GOAWAY, 0, 0, &[0; 8], out);
    }

    fn sent(&self, session: &mut Http2Session, _ends: &mut Vec<End>) -> SessionState {
        session.state()
    }

    fn receive(
        &self,
        session: &mut Http2Session,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        match session.read(bytes, &self.0, out, ends) {
            Ok(()) => {
                session.put_bodies(&self.0.requests, out);
                session.state()
            }
            Err(Broken) => SessionState::Failed(-libc::EPROTO),
        }
    }

    fn closed(&self, session: &mut Http2Session, ends: &mut Vec<End>) {
        let streams = session.streams.drain();
        ends.extend(streams.map(|stream| stream.end(stream.cut())));
    }

    fn cancel(&self, session: &mut Http2Session, slot: u32, out: &mut Outgoing) -> bool {
        let Some(stream) = session.streams.remove_slot(slot) else {
            return true;
        };
        if out.written_bytes() < stream.head_end {
            // The server takes nothing any more: what would be put behind it would only grow.
            return false;
        }
        put_reset(stream.sending.stream, frame::CANCEL, out);
        true
    }

    fn refusal(&self, session: &Http2Session) -> Option<String> {
        session.refusal.clone()
    }

    fn remedy(&self, _session: &Http2Session) -> Option<&'static str> {
        Some("enable HTTP/2 on this port of the server, or use HTTP/1.1 (--http 1.1)")
    }

    fn measure_from(&mut self, from: Nanos) {
        self.0.measure_from(from);
    }

    fn broken(&self, slot: u32, result: i64, begun: bool) -> i64 {
        let streams = self.0.streams.as_ref().filter(|_| begun);
        let result = streams.map_or(result, |streams| streams.broken(slot, result));
        let calls = self.0.calls.as_ref();
        calls.map_or(result, |calls| calls.broken(result))
    }

    fn calls(&self) -> Option<&Calls> {
        self.0.calls.as_ref()
    }

    fn streams(&self) -> Option<&Streams> {
        self.0.streams.as_ref()
    }

    fn statuses(&self) -> Option<[u64; 4]> {
        Some(self.0.statuses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::Kind;

    #[test]
    fn a_connection_whose_ids_are_used_up_closes() {
        let fields = vec![(":method".to_owned(), "GET".to_owned())];
        let http = Http2::new(Arc::new(Requests::new(&[fields], 0, false)), 8);
        let (mut session, mut out, mut ends) = (http.session(), Outgoing::default(), Vec::new());
        http.open(&mut session, &mut out);
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let state = http.receive(&mut session, &settings, &mut out, &mut ends);
        assert_eq!((state, http.room(&session)), (SessionState::Ready, 8));
        session.streams.next_id = frame::LARGEST;
        let operation = Operation::new(Kind::Exchange, 0, 0);
        http.begin(&mut session, 3, &operation, &mut out).unwrap();
        assert_eq!(http.room(&session), 0);
        assert_eq!(http.sent(&mut session, &mut ends), SessionState::Closing);
        // HEADERS of the last stream, with END_HEADERS, END_STREAM and the status 200.
        let answer = [0, 0, 1, 1, 5, 0x7f, 0xff, 0xff, 0xff, 0x88];
        let state = http.receive(&mut session, &answer, &mut out, &mut ends);
        let end = End { slot: 3, result: 0 };
        assert_eq!((state, ends), (SessionState::Closing, vec![end]));
        assert_eq!(http.statuses(), Some([1, 0, 0, 0]));
        http.open(&mut session, &mut out);
        assert_eq!(session.streams.next_id, 1);
    }
}
