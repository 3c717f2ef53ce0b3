use super::*;
use crate::Values;
use base64::Engine;
use bw_model::Kind;
use proptest::prelude::*;

const MD5_OF_SECRET: &[u8] = b"md58d824187b66621214caa97994f319ba8";

fn operation(offset: u64) -> Operation {
    Operation::new(Kind::Exchange, offset, 0)
}

fn statement(sql: &str) -> Statement {
    Statement {
        sql: sql.to_owned(),
        parameters: vec![],
    }
}

/// The operations: one statement, two statements.
fn protocol(password: Option<&str>) -> Postgres {
    let one = vec![statement("SELECT 1")];
    let two = vec![statement("SELECT 1"), statement("SELECT 2")];
    let login = Login {
        user: "bench".into(),
        database: "db".into(),
        password: password.map(|text| Password::new(text.into())),
    };
    let transactions = Transactions::new(&[one, two], Values::default()).unwrap();
    Postgres::new(login, Arc::new(transactions), 8)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(kind, &mut out, |out| out.extend_from_slice(body));
    out
}

fn error(code: &str, severity: &str) -> Vec<u8> {
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mwhat happened\0\0");
    message(b'E', body.as_bytes())
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn authentication(code: u32, rest: &[u8]) -> Vec<u8> {
    message(b'R', &[&code.to_be_bytes()[..], rest].concat())
}

/// What a server says until operations can begin.
fn greeting() -> Vec<u8> {
    let prepared = [
        message(b'1', b""),
        message(b't', &[0, 0]),
        message(b'n', b""),
    ]
    .concat();
    [
        authentication(0, b""),
        message(b'S', b"server_version\x0015\0"),
        message(b'K', &[0; 8]),
        ready(),
        prepared.clone(),
        prepared,
        ready(),
    ]
    .concat()
}

/// The answer to one statement with rows of these lengths.
fn answer(rows: &[usize]) -> Vec<u8> {
    let rows = rows
        .iter()
        .flat_map(|length| message(b'D', &vec![7; *length]));
    let rows: Vec<u8> = rows.collect();
    [message(b'2', b""), rows, message(b'C', b"SELECT 1\0")].concat()
}

/// A connection, and what was done on it.
struct Talk {
    postgres: Postgres,
    session: PostgresSession,
    out: Outgoing,
    ends: Vec<End>,
}

impl Talk {
    fn open(postgres: Postgres) -> Self {
        let mut session = postgres.session();
        let mut out = Outgoing::default();
        assert_eq!(
            postgres.open(&mut session, &mut out),
            SessionState::Handshake
        );
        Self {
            postgres,
            session,
            out,
            ends: Vec::new(),
        }
    }

    fn ready() -> Self {
        let mut talk = Self::open(protocol(None));
        talk.sent();
        assert_eq!(talk.receive(&greeting()), SessionState::Ready);
        talk.sent();
        talk
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while !self.out.is_empty() {
            let length = self.out.next().len();
            sent.extend_from_slice(self.out.next());
            self.out.written(length);
        }
        sent
    }

    fn receive(&mut self, bytes: &[u8]) -> SessionState {
        let Self {
            postgres,
            session,
            out,
            ends,
        } = self;
        postgres.receive(session, bytes, out, ends)
    }

    fn begin(&mut self, slot: u32, offset: u64) {
        let operation = operation(offset);
        let begun = self
            .postgres
            .begin(&mut self.session, slot, &operation, &mut self.out);
        assert_eq!(begun, Ok(()));
    }

    fn refusal(&self) -> String {
        self.postgres.refusal(&self.session).unwrap_or_default()
    }
}

fn end(slot: u32, result: impl Into<i64>) -> End {
    let result = result.into();
    End { slot, result }
}

#[test]
fn a_connection_starts_prepares_and_executes() {
    let mut talk = Talk::open(protocol(None));
    let startup = b"\0\0\0\x52\0\x03\0\0user\0bench\0database\0db\0application_name\0benchwright\0client_encoding\0UTF8\0\0";
    assert_eq!(talk.sent(), startup);
    let greeting = greeting();
    let first = greeting.len() - ready().len() - 2 * 17;
    assert_eq!(talk.receive(&greeting[..first]), SessionState::Handshake);
    assert_eq!(talk.sent(), &*talk.postgres.transactions.preparation);
    assert_eq!(talk.postgres.room(&talk.session), 0);
    assert_eq!(talk.receive(&greeting[first..]), SessionState::Ready);
    assert_eq!(talk.postgres.room(&talk.session), 8);
    talk.begin(3, 1);
    assert_eq!(talk.postgres.room(&talk.session), 7);
    let (mut scratch, mut request) = (Vec::new(), Outgoing::default());
    let transactions = &talk.postgres.transactions;
    transactions.put(&transactions.requests[1], 0, &mut scratch, &mut request);
    let expected = request.next().to_vec();
    assert_eq!(talk.sent(), expected);
    let bytes = [answer(&[10, 20]), answer(&[]), ready()].concat();
    assert_eq!(talk.receive(&bytes), SessionState::Ready);
    assert_eq!(talk.ends, [end(3, 30)]);
    let refused = talk
        .postgres
        .begin(&mut talk.session, 1, &operation(2), &mut talk.out);
    assert_eq!((refused, talk.out.is_empty()), (Err(-libc::EINVAL), true));
}

#[test]
fn passwords_are_sent_as_the_server_asks() {
    for (asked, expected) in [
        (authentication(3, b""), message(b'p', b"secret\0")),
        (
            authentication(5, &[1, 2, 3, 4]),
            message(b'p', &[MD5_OF_SECRET, b"\0"].concat()),
        ),
    ] {
        let mut talk = Talk::open(protocol(Some("secret")));
        talk.sent();
        assert_eq!(talk.receive(&asked), SessionState::Handshake);
        assert_eq!(talk.sent(), expected);
        assert!(!format!("{:?} {:?}", talk.postgres, talk.session).contains("secret"));
        talk.receive(&greeting());
        assert_eq!(talk.session.state(), SessionState::Ready);
    }
}

#[test]
fn a_server_that_asks_for_what_there_is_not_is_refused() {
    let cases = [
        (None, authentication(3, b""), -libc::EACCES, "there is none"),
        (
            Some("a"),
            authentication(7, b""),
            -libc::EOPNOTSUPP,
            "GSSAPI",
        ),
        (
            Some("a"),
            authentication(10, b"OTHER\0\0"),
            -libc::EOPNOTSUPP,
            "SCRAM",
        ),
        (Some("a"), authentication(99, b""), -libc::EPROTO, "follow"),
        (
            Some("a"),
            authentication(11, b"r=a,s=QUFB,i=1"),
            -libc::EPROTO,
            "follow",
        ),
        (None, b"HTTP/1.1 400".to_vec(), -libc::EPROTO, "follow"),
        (None, message(b'Z', b"I"), -libc::EPROTO, "follow"),
    ];
    for (password, bytes, result, text) in cases {
        let mut talk = Talk::open(protocol(password));
        talk.sent();
        assert_eq!(talk.receive(&bytes), SessionState::Failed(result));
        assert!(talk.refusal().contains(text), "{}", talk.refusal());
        assert!(talk.postgres.remedy(&talk.session).is_some());
    }
}

#[test]
fn a_server_must_prove_with_scram_that_it_knows_the_password() {
    for (last, text) in [
        (authentication(0, b""), "without a proof"),
        (authentication(12, b"v=AAAA"), "proof is wrong"),
    ] {
        let mut talk = Talk::open(protocol(Some("pencil")));
        talk.sent();
        talk.receive(&authentication(
            10,
            b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
        ));
        let sent = String::from_utf8(talk.sent()).unwrap();
        let nonce = sent.split_once(",r=").unwrap().1.to_owned();
        let first = format!("r={nonce}more,s=QUFB,i=2");
        talk.receive(&authentication(11, first.as_bytes()));
        let sent = String::from_utf8(talk.sent()).unwrap();
        assert!(sent.contains(&format!("c=biws,r={nonce}more,p=")), "{sent}");
        assert_eq!(talk.receive(&last), SessionState::Failed(-libc::EACCES));
        assert!(talk.refusal().contains(text), "{}", talk.refusal());
    }
}

#[test]
fn scram_is_bound_to_the_certificate_if_both_sides_can() {
    let both = &b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"[..];
    let plus = &b"SCRAM-SHA-256-PLUS\0\0"[..];
    let plain = &b"SCRAM-SHA-256\0\0"[..];
    // An empty certificate as far as it is looked at, signed with ECDSA and SHA-256, and one of Ed25519.
    let ecdsa = b"\x30\x0e\x30\x00\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
    let ed25519 = b"\x30\x09\x30\x00\x30\x05\x06\x03\x2b\x65\x70";
    let hash = ring::digest::digest(&ring::digest::SHA256, ecdsa);
    let bound = [b"p=tls-server-end-point,,", hash.as_ref()].concat();
    let bound = format!("c={},", base64::prelude::BASE64_STANDARD.encode(bound));
    for (certificate, offered, mechanism, proof) in [
        (Some(&ecdsa[..]), both, "SCRAM-SHA-256-PLUS\0", &*bound),
        (Some(ecdsa), plus, "SCRAM-SHA-256-PLUS\0", &bound),
        // A server that offers it notices "y,,".
        (Some(ecdsa), plain, "SCRAM-SHA-256\0", "c=eSws,"),
        (Some(ed25519), both, "SCRAM-SHA-256\0", "c=biws,"),
        (None, both, "SCRAM-SHA-256\0", "c=biws,"),
    ] {
        let mut talk = Talk::open(protocol(Some("pencil")));
        talk.sent();
        if let Some(certificate) = certificate {
            talk.postgres.secured(&mut talk.session, certificate);
        }
        talk.receive(&authentication(10, offered));
        let sent = talk.sent();
        assert!(sent[5..].starts_with(mechanism.as_bytes()), "{sent:?}");
        let text = String::from_utf8_lossy(&sent).into_owned();
        let nonce = text.split_once(",r=").unwrap().1;
        let first = format!("r={nonce}more,s=QUFB,i=2");
        talk.receive(&authentication(11, first.as_bytes()));
        let sent = talk.sent();
        assert!(sent[5..].starts_with(proof.as_bytes()), "{sent:?}");
    }
    let mut talk = Talk::open(protocol(Some("pencil")));
    talk.sent();
    let state = talk.receive(&authentication(10, plus));
    assert_eq!(state, SessionState::Failed(-libc::EOPNOTSUPP));
}

#[test]
fn an_error_in_the_handshake_is_the_server_s_reason() {
    let mut talk = Talk::open(protocol(None));
    talk.sent();
    let state = talk.receive(&error("28P01", "FATAL"));
    assert_eq!(state, SessionState::Failed(of_sqlstate(b"28P01").unwrap()));
    assert!(talk.refusal().contains("FATAL 28P01: what happened"));
    let mut talk = Talk::open(protocol(None));
    talk.sent();
    let greeting = greeting();
    let second = greeting.len() - ready().len() - 17;
    talk.receive(&greeting[..second]);
    let state = talk.receive(&error("42P01", "ERROR"));
    assert_eq!(state, SessionState::Failed(of_sqlstate(b"42P01").unwrap()));
    let refusal = talk.refusal();
    assert!(
        refusal.contains("SELECT 2") && refusal.contains("42P01"),
        "{refusal}"
    );
}

#[test]
fn parameters_are_counted_before_the_run() {
    let mut talk = Talk::open(protocol(None));
    talk.sent();
    let wrong = [message(b'1', b""), message(b't', &[0, 2])].concat();
    let until = [authentication(0, b""), ready(), wrong].concat();
    assert_eq!(talk.receive(&until), SessionState::Failed(-libc::EINVAL));
    assert!(
        talk.refusal().contains("2 parameters, and 0"),
        "{}",
        talk.refusal()
    );
}

#[test]
fn an_error_belongs_to_its_operation_alone() {
    let mut talk = Talk::ready();
    for slot in 0..3 {
        talk.begin(slot, 1);
    }
    talk.sent();
    let whole = [answer(&[5]), answer(&[6]), ready()].concat();
    let failed = [
        answer(&[5]),
        message(b'2', b""),
        error("40001", "ERROR"),
        ready(),
    ]
    .concat();
    let late = [answer(&[5]), answer(&[5]), error("23503", "ERROR"), ready()].concat();
    talk.receive(&[whole, failed, late].concat());
    let code = |code: &str| of_sqlstate(code.as_bytes()).unwrap();
    assert_eq!(
        talk.ends,
        [end(0, 11), end(1, code("40001")), end(2, code("23503"))]
    );
}

#[test]
fn a_fatal_error_ends_the_connection_with_its_operation() {
    let shutdown = of_sqlstate(b"57P01").unwrap();
    let mut talk = Talk::ready();
    talk.begin(0, 0);
    talk.begin(1, 0);
    talk.sent();
    assert_eq!(
        talk.receive(&error("57P01", "FATAL")),
        SessionState::Closing
    );
    assert_eq!(talk.ends, [end(0, shutdown), end(1, -libc::ECONNRESET)]);
    assert_eq!(talk.postgres.room(&talk.session), 0);
    // Nothing was requested.
    let mut talk = Talk::ready();
    assert_eq!(
        talk.receive(&error("57P01", "FATAL")),
        SessionState::Closing
    );
    assert_eq!(talk.ends, []);
}

#[test]
fn a_connection_that_ends_ends_its_operations() {
    let mut talk = Talk::ready();
    talk.begin(4, 0);
    talk.begin(5, 0);
    talk.sent();
    talk.receive(&error("XX000", "ERROR"));
    talk.postgres.closed(&mut talk.session, &mut talk.ends);
    let internal = of_sqlstate(b"XX000").unwrap();
    assert_eq!(talk.ends, [end(4, internal), end(5, -libc::ECONNRESET)]);
}

#[test]
fn an_answer_of_which_a_part_has_arrived_is_cut_with_its_connection() {
    let mut talk = Talk::ready();
    talk.begin(4, 0);
    talk.begin(5, 0);
    talk.sent();
    talk.receive(&message(b'2', &[]));
    talk.postgres.closed(&mut talk.session, &mut talk.ends);
    assert_eq!(talk.ends, [end(4, RESPONSE_CUT), end(5, -libc::ECONNRESET)]);
}

#[test]
fn what_does_not_follow_the_protocol_fails() {
    let copy = [message(b'2', b""), message(b'G', &[0; 3])].concat();
    let cases = [
        (copy, -libc::EOPNOTSUPP),
        (ready(), -libc::EPROTO),
        ([answer(&[]), answer(&[]), ready()].concat(), -libc::EPROTO),
        ([answer(&[]), message(b'Z', b"T")].concat(), -libc::EPROTO),
        ([answer(&[]), message(b'Z', b"")].concat(), -libc::EPROTO),
        (message(b'D', b""), -libc::EPROTO),
        (message(b'C', b""), -libc::EPROTO),
        (message(b'E', b"SERROR\0C1\0\0"), -libc::EPROTO),
        (
            [error("42P01", "ERROR"), error("42P01", "ERROR")].concat(),
            -libc::EPROTO,
        ),
        (message(b'R', &[0; 4]), -libc::EPROTO),
        (b"\0".to_vec(), -libc::EPROTO),
    ];
    for (bytes, result) in cases {
        let mut talk = Talk::ready();
        talk.begin(0, 0);
        talk.sent();
        assert_eq!(
            talk.receive(&bytes),
            SessionState::Failed(result),
            "{bytes:?}"
        );
        assert_eq!(talk.ends, []);
    }
    // Before the request was written, and without a request.
    let mut talk = Talk::ready();
    talk.begin(0, 0);
    let bytes = [answer(&[]), ready()].concat();
    assert_eq!(talk.receive(&bytes), SessionState::Failed(-libc::EPROTO));
    let mut talk = Talk::ready();
    assert_eq!(talk.receive(&bytes), SessionState::Failed(-libc::EPROTO));
    let mut talk = Talk::ready();
    let quiet = [
        message(b'N', b"SWARNING\0\0"),
        message(b'A', &[0; 9]),
        message(b'S', b"a\0b\0"),
    ];
    assert_eq!(talk.receive(&quiet.concat()), SessionState::Ready);
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_ends(
        operations in prop::collection::vec((0_u64..2, any::<bool>(), 0_usize..9000), 1..8),
        cuts in prop::collection::vec(1_usize..500, 1..40),
    ) {
        let mut talk = Talk::open(protocol(None));
        talk.sent();
        let (mut bytes, mut expected) = (greeting(), Vec::new());
        let greeted = bytes.len();
        for (slot, (offset, fails, length)) in (0..).zip(&operations) {
            if *fails {
                bytes.extend(error("23505", "ERROR"));
                expected.push(end(slot, of_sqlstate(b"23505").unwrap()));
            } else {
                bytes.extend(answer(&[*length, 3]));
                if *offset == 1 {
                    bytes.extend(answer(&[]));
                }
                expected.push(end(slot, *length as i32 + 3));
            }
            bytes.extend(ready());
        }
        let (mut place, mut begun) = (0, false);
        for cut in cuts.iter().cycle() {
            if place == bytes.len() {
                break;
            }
            let most = if begun { bytes.len() } else { greeted };
            let next = (place + cut).min(most);
            let state = talk.receive(&bytes[place..next]);
            place = next;
            talk.sent();
            prop_assert!(!matches!(state, SessionState::Failed(_)), "{:?}", state);
            if place == greeted && !begun {
                begun = true;
                prop_assert_eq!(state, SessionState::Ready);
                for (slot, (offset, ..)) in (0..).zip(&operations) {
                    talk.begin(slot, *offset);
                }
                talk.sent();
            }
        }
        prop_assert_eq!(talk.ends, expected);
    }

    #[test]
    fn garbage_never_panics_and_needs_no_memory(
        is_ready in any::<bool>(),
        messages in prop::collection::vec(
            (prop::sample::select(&b"123ACDEGHIKNRSTVWZntsvx"[..]), prop::collection::vec(any::<u8>(), 0..200)),
            0..30,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut talk = if is_ready { Talk::ready() } else { Talk::open(protocol(Some("a"))) };
        if is_ready {
            (0..8).for_each(|slot| talk.begin(slot, u64::from(slot % 2)));
        }
        talk.sent();
        let bytes: Vec<u8> = messages.iter().flat_map(|(kind, body)| message(*kind, body)).chain(tail).collect();
        for piece in bytes.chunks(7) {
            if !matches!(talk.receive(piece), SessionState::Handshake | SessionState::Ready) {
                break;
            }
            talk.sent();
        }
        talk.postgres.closed(&mut talk.session, &mut talk.ends);
        prop_assert_eq!(talk.ends.len(), if is_ready { 8 } else { 0 });
        let mut slots: Vec<u32> = talk.ends.iter().map(|end| end.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        prop_assert_eq!(slots.len(), talk.ends.len());
        prop_assert_eq!(talk.session.pending.capacity(), 8);
    }
}

#[test]
fn a_client_that_closes_says_so() {
    let protocol = protocol(None);
    let (mut session, mut out) = (protocol.session(), Outgoing::default());
    protocol.goodbye(&mut session, &mut out);
    assert_eq!(out.next(), b"X\0\0\0\x04");
}
