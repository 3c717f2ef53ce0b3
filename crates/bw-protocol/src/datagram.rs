//! UDP: an operation is one datagram and the one datagram that answers it.
//!
//! An operation's `offset` selects a payload and has its number ([`ExchangeAddress`]). Payloads are templates, of text or of
//! hexadecimal digits. Without payloads an operation sends `size` bytes, and its answer must be the same bytes. The result
//! is the length of the answer. With an answer of 0 bytes none is expected: the operation ends when its datagram is sent.
//!
//! Decisions. A datagram cannot be told from the answer to an earlier one by itself, so a connection carries one operation
//! at a time, and one that is given up costs its connection: the next has another port. Where answers repeat the first bytes
//! of their request (the ID of DNS, the request ID of memcached), `match_bytes` drops all others, duplicates among them.

use crate::echo::Filler;
use crate::payload::{Payload, Prefix};
use crate::{End, Outgoing, Protocol, SessionState, Values};
use bw_model::{ExchangeAddress, Operation};
use bw_record::errno::CHECK_FAILED;
use std::sync::Arc;

/// Maximum length of a datagram [bytes]: what IPv4 has room for (RFC 768, RFC 791).
pub const MOST_BYTES: usize = 65_507;

/// What the answer of an operation must be.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Its length [bytes]; 0: there is none; None: any, and without payloads that of what was sent.
    pub bytes: Option<u64>,
    /// How many bytes it has in common with the beginning of its request: others are not its answer.
    pub match_bytes: usize,
    /// What it begins with.
    pub expect: Prefix,
}

/// The protocol.
#[derive(Clone, Debug)]
pub struct Datagrams {
    payloads: Arc<[Payload]>,
    values: Arc<Values>,
    filler: Filler,
    answer: Answer,
}

impl Datagrams {
    /// Returns the protocol; without payloads, operations send as many bytes as they have.
    #[must_use]
    pub fn new(payloads: Arc<[Payload]>, values: Arc<Values>, answer: Answer) -> Self {
        Self {
            payloads,
            values,
            filler: Filler::new(),
            answer,
        }
    }

    /// Puts the datagram of an operation into the empty `out`.
    fn put(
        &self,
        operation: &Operation,
        scratch: &mut Vec<u8>,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        if self.payloads.is_empty() {
            return match operation.size as usize {
                0 => Err(-libc::EINVAL),
                1..=MOST_BYTES => {
                    self.filler.put(operation.size.into(), out);
                    Ok(())
                }
                _ => Err(-libc::EMSGSIZE),
            };
        }
        let address = ExchangeAddress::unpack(operation.offset);
        let payload = self.payloads.get(address.request as usize);
        let payload = payload.ok_or(-libc::EINVAL)?;
        payload
            .fill(&self.values, address.number, scratch)
            .ok_or(-libc::EINVAL)?;
        // A template of values alone can be empty.
        if scratch.is_empty() {
            return Err(-libc::EINVAL);
        }
        out.put(scratch);
        Ok(())
    }

    /// Returns the result of an operation with this answer.
    fn result(&self, size: u32, bytes: &[u8]) -> i64 {
        match self.answer.bytes {
            Some(length) if length != bytes.len() as u64 => return (-libc::EPROTO).into(),
            None if self.payloads.is_empty()
                && (bytes.len() != size as usize || !self.filler.is_echo(0, bytes)) =>
            {
                return (-libc::EBADMSG).into();
            }
            _ => {}
        }
        if !self.answer.expect.fits(bytes) {
            return CHECK_FAILED.into();
        }
        bytes.len() as i64
    }
}

/// The operation in progress.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    size: u32,
}

/// The state of one connection.
#[derive(Debug)]
pub struct DatagramSession {
    pending: Option<Pending>,
    /// What its answer begins with.
    head: Vec<u8>,
    scratch: Vec<u8>,
}

impl Protocol for Datagrams {
    type Session = DatagramSession;

    fn session(&self) -> DatagramSession {
        let payloads = self.payloads.iter();
        let most = payloads.map(|payload| payload.most_bytes(&self.values));
        DatagramSession {
            pending: None,
            head: Vec::with_capacity(self.answer.match_bytes),
            scratch: Vec::with_capacity(most.max().unwrap_or_default()),
        }
    }

    fn open(&self, session: &mut DatagramSession, _out: &mut Outgoing) -> SessionState {
        session.pending = None;
        SessionState::Ready
    }

    fn room(&self, session: &DatagramSession) -> u32 {
        u32::from(session.pending.is_none())
    }

    fn begin(
        &self,
        session: &mut DatagramSession,
        slot: u32,
        operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        self.put(operation, &mut session.scratch, out)?;
        let size = operation.size;
        session.pending = Some(Pending { slot, size });
        session.head.clear();
        let request = out.next();
        let length = request.len().min(self.answer.match_bytes);
        session.head.extend_from_slice(&request[..length]);
        Ok(())
    }

    fn sent(&self, session: &mut DatagramSession, ends: &mut Vec<End>) -> SessionState {
        if self.answer.bytes == Some(0)
            && let Some(Pending { slot, .. }) = session.pending.take()
        {
            ends.push(End { slot, result: 0 });
        }
        SessionState::Ready
    }

    fn receive(
        &self,
        session: &mut DatagramSession,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        let Some(Pending { slot, size }) = session.pending else {
            return SessionState::Failed(-libc::EPROTO);
        };
        // Nothing was sent yet, or it is the answer to something else: the operation goes on.
        if !out.is_empty() || !bytes.starts_with(&session.head) {
            return SessionState::Ready;
        }
        session.pending = None;
        let result = self.result(size, bytes);
        ends.push(End { slot, result });
        SessionState::Ready
    }

    fn closed(&self, session: &mut DatagramSession, ends: &mut Vec<End>) {
        let result = i64::from(-libc::ECONNRESET);
        let pending = session.pending.take();
        ends.extend(pending.map(|Pending { slot, .. }| End { slot, result }));
    }

    fn cancel(&self, session: &mut DatagramSession, _slot: u32, _out: &mut Outgoing) -> bool {
        session.pending = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::decode;
    use crate::values::ValueSpec;
    use bw_model::Kind;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SPECS: &str = r#"{"id": {"type": "text", "length": 4}, "n": {"type": "counter"},
        "word": {"type": "text", "length": 2, "characters": "alphanumeric"},
        "two": {"type": "integer", "min": 0, "max": 99, "digits": 2},
        "line": {"type": "line", "lines": ["00", "fF"]}, "some": {"type": "line", "lines": ["", "x"], "location": {"type": "sequential"}}}"#;

    fn values() -> Values {
        let specs: BTreeMap<String, ValueSpec> = serde_json::from_str(SPECS).unwrap();
        Values::new(&specs, 1).unwrap()
    }

    fn operation(offset: u64, size: u32) -> Operation {
        Operation::new(Kind::Exchange, offset, size)
    }

    fn protocol(payloads: Vec<Payload>, answer: Answer) -> Datagrams {
        Datagrams::new(payloads.into(), Arc::new(values()), answer)
    }

    /// Returns what the operation sends; it is in progress, and sent.
    fn begun(
        datagrams: &Datagrams,
        session: &mut DatagramSession,
        operation: &Operation,
        ends: &mut Vec<End>,
    ) -> Result<Vec<u8>, i32> {
        let mut out = Outgoing::default();
        datagrams.begin(session, 3, operation, &mut out)?;
        let sent = out.next().to_vec();
        out.written(sent.len());
        assert!(out.is_empty(), "a datagram is one piece");
        assert_eq!(datagrams.sent(session, ends), SessionState::Ready);
        Ok(sent)
    }

    /// Returns the results of one operation with these datagrams after it.
    fn results(datagrams: &Datagrams, size: u32, answers: &[&[u8]]) -> Vec<i32> {
        let (mut session, mut ends) = (datagrams.session(), Vec::new());
        datagrams.open(&mut session, &mut Outgoing::default());
        begun(datagrams, &mut session, &operation(0, size), &mut ends).unwrap();
        for bytes in answers {
            let mut out = Outgoing::default();
            let state = datagrams.receive(&mut session, bytes, &mut out, &mut ends);
            assert_eq!(state, SessionState::Ready);
        }
        assert_eq!(session.pending.is_none(), !ends.is_empty());
        let results = ends.iter().map(|end| i32::try_from(end.result).unwrap());
        results.collect()
    }

    #[test]
    fn payloads_are_texts_bytes_and_digits_with_values() {
        let values = values();
        let payloads = vec![
            Payload::text("n=${n}", &values, MOST_BYTES).unwrap(),
            Payload::bytes(b"\0${n}", MOST_BYTES).unwrap(),
            Payload::hex("00 fF\n10", &values, MOST_BYTES).unwrap(),
            Payload::hex("${id}0100", &values, MOST_BYTES).unwrap(),
            Payload::hex("${two}${line}", &values, MOST_BYTES).unwrap(),
        ];
        let datagrams = protocol(payloads, Answer::default());
        let sent = |request: u32, number| {
            let address = ExchangeAddress { request, number };
            let mut session = datagrams.session();
            let operation = operation(address.pack(), 0);
            begun(&datagrams, &mut session, &operation, &mut Vec::new()).unwrap()
        };
        assert_eq!(sent(0, 7), b"n=7");
        assert_eq!(sent(1, 7), b"\0${n}");
        assert_eq!(sent(2, 7), [0, 0xff, 0x10]);
        let ids: std::collections::BTreeSet<_> = (0..100).map(|number| sent(3, number)).collect();
        assert!(ids.len() > 90 && ids.iter().all(|one| one[2..] == [1, 0]));
        assert!((0..100).all(|number| matches!(sent(4, number)[..], [_, 0 | 0xff])));
        let out_of_range = operation(
            ExchangeAddress {
                request: 5,
                number: 0,
            }
            .pack(),
            0,
        );
        let mut session = datagrams.session();
        let refused = begun(&datagrams, &mut session, &out_of_range, &mut Vec::new());
        assert_eq!(refused, Err(-libc::EINVAL));
    }

    #[test]
    fn what_is_no_payload_is_refused() {
        let values = values();
        let refused = |made: Result<Payload, String>, part: &str| {
            let error = made.unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(Payload::text("", &values, MOST_BYTES), "empty");
        refused(Payload::hex(" ", &values, MOST_BYTES), "empty");
        refused(
            Payload::bytes(&[0; MOST_BYTES + 1], MOST_BYTES),
            "65508 bytes",
        );
        assert!(Payload::bytes(&[0; MOST_BYTES], MOST_BYTES).is_ok());
        refused(Payload::hex("0", &values, MOST_BYTES), "even number");
        refused(Payload::hex("0g", &values, MOST_BYTES), "even number");
        refused(Payload::hex("0${two}", &values, MOST_BYTES), "even number");
        for name in ["n", "word"] {
            refused(
                Payload::hex(&format!("${{{name}}}"), &values, MOST_BYTES),
                name,
            );
        }
        refused(Payload::text("${m}", &values, MOST_BYTES), "no value \"m\"");
        // Values alone may be empty in some operations only, so that is found when one begins.
        let empty = Payload::text("${some}", &values, MOST_BYTES).unwrap();
        let datagrams = protocol(vec![empty], Answer::default());
        let mut session = datagrams.session();
        let refused = begun(&datagrams, &mut session, &operation(0, 0), &mut Vec::new());
        assert_eq!((refused, datagrams.room(&session)), (Err(-libc::EINVAL), 1));
    }

    #[test]
    fn an_echo_is_the_same_bytes_and_as_many() {
        let datagrams = protocol(vec![], Answer::default());
        let (mut session, mut ends) = (datagrams.session(), Vec::new());
        let most = operation(0, MOST_BYTES as u32);
        let sent = begun(&datagrams, &mut session, &most, &mut ends).unwrap();
        assert_eq!((sent.len(), datagrams.room(&session)), (MOST_BYTES, 0));
        assert_eq!(results(&datagrams, MOST_BYTES as u32, &[&sent]), [65_507]);
        assert_eq!(results(&datagrams, 3, &[&[0, 1, 2]]), [3]);
        for other in [&[0, 1][..], &[0, 1, 2, 3], &[0, 1, 3], &[]] {
            assert_eq!(results(&datagrams, 3, &[other]), [-libc::EBADMSG]);
        }
        for (size, errno) in [(0, libc::EINVAL), (MOST_BYTES as u32 + 1, libc::EMSGSIZE)] {
            let mut session = datagrams.session();
            let begun = begun(&datagrams, &mut session, &operation(0, size), &mut ends);
            assert_eq!(begun, Err(-errno));
        }
    }

    #[test]
    fn an_answer_has_its_length_and_begins_as_expected() {
        let payload = || vec![Payload::bytes(b"\x12\x34ask", MOST_BYTES).unwrap()];
        let any = protocol(payload(), Answer::default());
        assert_eq!(results(&any, 0, &[b"x"]), [1]);
        assert_eq!(results(&any, 0, &[b""]), [0]);
        let five = Answer {
            bytes: Some(5),
            ..Answer::default()
        };
        let five = protocol(payload(), five);
        assert_eq!(results(&five, 0, &[b"12345"]), [5]);
        assert_eq!(results(&five, 0, &[b"1234"]), [-libc::EPROTO]);
        let expect = Prefix::parse("?? ?? 81 80").unwrap();
        let checked = protocol(
            payload(),
            Answer {
                expect,
                ..Answer::default()
            },
        );
        assert_eq!(results(&checked, 0, &[b"\x12\x34\x81\x80more"]), [8]);
        assert_eq!(
            results(&checked, 0, &[b"\x12\x34\x81\x82more"]),
            [CHECK_FAILED]
        );
        assert_eq!(results(&checked, 0, &[b"\x12\x34\x81"]), [CHECK_FAILED]);
        for wrong in ["8", "8?", "?", "zz", "???"] {
            assert!(Prefix::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_an_answer_that_repeats_the_beginning_of_its_request_ends_the_operation() {
        let match_bytes = 2;
        let answer = Answer {
            match_bytes,
            ..Answer::default()
        };
        let datagrams = protocol(
            vec![Payload::bytes(b"idask", MOST_BYTES).unwrap()],
            answer.clone(),
        );
        assert_eq!(results(&datagrams, 0, &[b"xd1", b"i", b"", b"id22"]), [4]);
        assert!(results(&datagrams, 0, &[b"xd1"]).is_empty());
        // A request that is shorter is repeated as a whole.
        let short = protocol(vec![Payload::bytes(b"i", MOST_BYTES).unwrap()], answer);
        assert_eq!(results(&short, 0, &[b"x", b"i"]), [1]);
    }

    #[test]
    fn a_datagram_before_the_request_was_sent_is_no_answer() {
        let datagrams = protocol(vec![], Answer::default());
        let (mut session, mut ends) = (datagrams.session(), Vec::new());
        let mut out = Outgoing::default();
        let nothing = datagrams.receive(&mut session, &[0], &mut out, &mut ends);
        assert_eq!(nothing, SessionState::Failed(-libc::EPROTO));
        datagrams
            .begin(&mut session, 3, &operation(0, 1), &mut out)
            .unwrap();
        let early = datagrams.receive(&mut session, &[0], &mut out, &mut ends);
        assert_eq!((early, &ends), (SessionState::Ready, &vec![]));
        out.written(1);
        datagrams.receive(&mut session, &[0], &mut out, &mut ends);
        assert_eq!(ends, [End { slot: 3, result: 1 }]);
        datagrams
            .begin(&mut session, 4, &operation(0, 1), &mut out)
            .unwrap();
        assert!(!datagrams.cancel(&mut session, 4, &mut out));
        datagrams.closed(&mut session, &mut ends);
        assert_eq!((ends.len(), datagrams.room(&session)), (1, 1));
    }

    #[test]
    fn without_an_answer_an_operation_ends_when_it_is_sent() {
        let answer = Answer {
            bytes: Some(0),
            ..Answer::default()
        };
        let datagrams = protocol(vec![Payload::bytes(b"metric", MOST_BYTES).unwrap()], answer);
        assert_eq!(results(&datagrams, 0, &[]), [0]);
    }

    proptest! {
        #[test]
        fn digits_are_decoded_as_they_were_written(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut digits: Vec<u8> = bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
            prop_assert_eq!(decode(&mut digits), Some(()));
            prop_assert_eq!(digits, bytes);
        }
    }
}
