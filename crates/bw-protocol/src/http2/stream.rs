//! The streams of a connection, and how much of their bodies the server accepts.

use super::frame::{self, Broken, FrameHead};
use super::request::{EncodedRequest, FilledBody, Requests, Sending};
use crate::check::Matched;
use crate::grpc::Answer;
use crate::{End, Outgoing};
use bw_record::errno::RESPONSE_CUT;
use std::collections::VecDeque;

/// How much of bodies is put before what was put is written [bytes].
const UNSENT_BYTES: u64 = 64 * 1024;

/// A stream whose response is not whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) sending: Sending,
    pub(super) slot: u32,
    /// How many bytes were put with its head and before it.
    pub(super) head_end: u64,
    /// How much of the request's body the server accepts now [bytes]; a change of its settings can make it negative.
    pub(super) window: i64,
    /// The status of the final response; 0: it has not arrived.
    pub(super) status: u16,
    /// Whether the response's body has a content coding.
    pub(super) is_encoded: bool,
    /// Of a call: what is known of its answer.
    pub(super) answer: Answer,
    /// The length of the body that the response announced.
    pub(super) expected: Option<u64>,
    /// How much of it has arrived [bytes].
    pub(super) body_bytes: u64,
    /// The search for the text that it must contain.
    pub(super) matched: Matched,
    /// How much of our window it has used since the last WINDOW_UPDATE [bytes].
    pub(super) used: u32,
    pub(super) is_measured: bool,
}

impl Stream {
    /// Returns the end of its operation with this result.
    pub(super) fn end(&self, result: impl Into<i64>) -> End {
        let (slot, result) = (self.slot, result.into());
        End { slot, result }
    }

    /// Returns its result if the connection ends now.
    pub(super) fn cut(&self) -> i32 {
        match self.status {
            0 => -libc::ECONNRESET,
            _ => RESPONSE_CUT,
        }
    }

    /// Returns the result of a complete response.
    pub(super) fn result(&self, request: &EncodedRequest) -> i64 {
        let bodiless = request.is_head || self.status == 204 || self.status == 304;
        match self.expected.filter(|_| !bodiless) {
            Some(bytes) if self.body_bytes < bytes => return RESPONSE_CUT.into(),
            Some(bytes) if self.body_bytes > bytes => return (-libc::EPROTO).into(),
            _ => {}
        }
        let check = &request.check;
        check.result(self.status, self.body_bytes, self.matched)
    }
}
/// The streams whose responses are not whole, and the windows of what they send.
#[derive(Debug)]
pub(super) struct Streams {
    /// In the order of their ids.
    list: VecDeque<Stream>,
    /// How many of them have an unsent part of a body.
    sending: u32,
    pub(super) next_id: u32,
    /// How much of all bodies the server accepts now [bytes].
    window: i64,
    /// The window of a new stream.
    pub(super) first_window: i64,
}

impl Streams {
    pub(super) fn new(room: u32) -> Self {
        Self {
            list: VecDeque::with_capacity(room as usize),
            sending: 0,
            next_id: 1,
            window: frame::FIRST_WINDOW.into(),
            first_window: frame::FIRST_WINDOW.into(),
        }
    }

    /// Starts anew on another connection.
    pub(super) fn restart(&mut self) {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        *self = Self {
            list,
            ..Self::new(0)
        };
    }

    /// Returns whether all ids are used.
    pub(super) fn are_used_up(&self) -> bool {
        self.next_id > frame::LARGEST
    }

    pub(super) fn count(&self) -> u32 {
        // At most `--outstanding`.
        self.list.len() as u32
    }

    /// Adds a stream with the next id.
    pub(super) fn begin(&mut self, stream: Stream) {
        self.next_id += 2;
        self.sending += u32::from(stream.sending.unsent > 0);
        self.list.push_back(stream);
    }

    fn place(&self, id: u32) -> Option<usize> {
        // Most responses come in the order of their requests.
        match self.list.front() {
            Some(first) if first.sending.stream == id => Some(0),
            _ => self
                .list
                .binary_search_by_key(&id, |one| one.sending.stream)
                .ok(),
        }
    }

    /// Returns the stream with this id; None if it is over.
    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|place| &mut self.list[place])
    }

    /// As [`find`](Self::find), for a frame of the server.
    ///
    /// # Errors
    /// The id is none of a stream that we began.
    pub(super) fn known(&mut self, id: u32) -> Result<Option<&mut Stream>, Broken> {
        if id.is_multiple_of(2) || id >= self.next_id {
            return Err(Broken);
        }
        Ok(self.find(id))
    }

    /// Removes the stream with this id.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let place = self.place(id)?;
        self.remove_at(place)
    }

    /// Removes the stream of the operation in this slot.
    pub(super) fn remove_slot(&mut self, slot: u32) -> Option<Stream> {
        let place = self.list.iter().position(|one| one.slot == slot)?;
        self.remove_at(place)
    }

    /// Removes the first stream whose id is above this one.
    pub(super) fn remove_above(&mut self, last: u32) -> Option<Stream> {
        let place = self
            .list
            .partition_point(|stream| stream.sending.stream <= last);
        self.remove_at(place)
    }

    fn remove_at(&mut self, place: usize) -> Option<Stream> {
        let stream = self.list.remove(place)?;
        self.sending -= u32::from(stream.sending.unsent > 0);
        Some(stream)
    }

    /// Removes all streams.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Stream> {
        self.sending = 0;
        self.list.drain(..)
    }

    /// Sets the window of new streams, which changes those of the open ones as much.
    ///
    /// # Errors
    /// A window becomes larger than any may be.
    pub(super) fn set_first_window(&mut self, bytes: u32) -> Result<(), Broken> {
        if bytes > frame::LARGEST {
            return Err(Broken);
        }
        let change = i64::from(bytes) - self.first_window;
        self.first_window = i64::from(bytes);
        for stream in &mut self.list {
            stream.window += change;
            if stream.window > i64::from(frame::LARGEST) {
                return Err(Broken);
            }
        }
        Ok(())
    }

    /// Opens the window of the connection by this much.
    ///
    /// # Errors
    /// It becomes larger than any may be, or was not opened.
    pub(super) fn open_window(&mut self, bytes: u32) -> Result<(), Broken> {
        self.window += i64::from(bytes);
        let valid = bytes > 0 && self.window <= i64::from(frame::LARGEST);
        if valid { Ok(()) } else { Err(Broken) }
    }

    /// Puts as much of the bodies as the windows and [`UNSENT_BYTES`] allow.
    pub(super) fn put_bodies(
        &mut self,
        requests: &Requests,
        filled: &mut FilledBody,
        out: &mut Outgoing,
    ) {
        if self.sending == 0 {
            return;
        }
        for stream in &mut self.list {
            while stream.sending.unsent > 0 {
                if self.window <= 0 || out.put_bytes() - out.written_bytes() >= UNSENT_BYTES {
                    return;
                }
                let accepted = stream
                    .window
                    .min(self.window)
                    .min(frame::FRAME_BYTES.into());
                let Ok(accepted @ 1..) = u64::try_from(accepted) else {
                    break;
                };
                // At most FRAME_BYTES.
                let length = accepted.min(stream.sending.unsent) as u32;
                let is_last = u64::from(length) == stream.sending.unsent;
                let head = FrameHead {
                    length,
                    kind: frame::DATA,
                    flags: if is_last { frame::END_STREAM } else { 0 },
                    stream: stream.sending.stream,
                };
                head.put(out);
                requests.put_body(&stream.sending, length, filled, out);
                stream.sending.unsent -= u64::from(length);
                stream.window -= i64::from(length);
                self.window -= i64::from(length);
                self.sending -= u32::from(is_last);
            }
        }
    }
}
