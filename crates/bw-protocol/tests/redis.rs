//! Redis on one connection: replies of any type in any pieces, pipelining, the handshake and its refusals, bytes that are
//! no reply.

#![allow(clippy::unwrap_used)]

use bw_model::ExchangeAddress;
use bw_protocol::redis::reply::{Reply, ReplyProgress, Value};
use bw_protocol::redis::{Commands, Login, Password, Redis};
use bw_protocol::values::ValueSpec;
use bw_protocol::{Protocol, SessionState, Template, Values};
use bw_record::errno::{RESPONSE_CUT, name, redis_error};
use connection::Connection;
use proptest::prelude::*;
use std::sync::Arc;

mod connection;

/// Returns a connection for two commands, and its state.
fn connection_of(login: &Login) -> (Connection<Redis>, SessionState) {
    let words = |text: &[&str]| {
        text.iter()
            .map(|word| Template::literal(word.as_bytes()))
            .collect()
    };
    let commands = [words(&["GET", "k"]), words(&["SET", "k", "a b"])];
    let commands = Commands::new(&commands, Values::default());
    Connection::open(Redis::new(Arc::new(commands), login, 8))
}

/// Returns a connection with `count` commands in progress, in slots 10, 11, and so on.
fn with_commands(count: u32) -> Connection<Redis> {
    let (mut connection, state) = connection_of(&Login::default());
    assert_eq!(state, SessionState::Ready);
    for slot in 10..10 + count {
        connection.begin(slot, 0).unwrap();
    }
    connection.write();
    connection
}

/// Writes everything; returns it.
fn written(connection: &mut Connection<Redis>) -> String {
    String::from_utf8(connection.write()).unwrap()
}

/// Returns the value of a reply that is complete with its last byte; None if it is malformed.
fn value_of(bytes: &[u8]) -> Option<Value> {
    let mut reply = Reply::new();
    match reply.receive(bytes) {
        ReplyProgress::Complete { used, value } => {
            assert_eq!(used, bytes.len());
            Some(value)
        }
        ReplyProgress::Malformed => None,
        ReplyProgress::More => panic!("{:?} is not complete", String::from_utf8_lossy(bytes)),
    }
}

#[test]
fn every_type_has_its_end_and_its_length() {
    let cases: [(&str, Value); 27] = [
        ("+OK\r\n", Value::Bytes(2)),
        ("+\r\n", Value::Bytes(0)),
        (":-12\r\n", Value::Bytes(3)),
        ("$5\r\na\r\nbc\r\n", Value::Bytes(5)),
        ("$0\r\n\r\n", Value::Bytes(0)),
        ("$-1\r\n", Value::Nil),
        ("*-1\r\n", Value::Nil),
        ("_\r\n", Value::Nil),
        ("*0\r\n", Value::Bytes(0)),
        ("*3\r\n$-1\r\n:1\r\n*1\r\n+ab\r\n", Value::Bytes(3)),
        ("*2\r\n*0\r\n*1\r\n*1\r\n*0\r\n", Value::Bytes(0)),
        ("-ERR x\r\n", Value::Error),
        ("!9\r\nSYNTAX no\r\n", Value::Error),
        // As in the answer to EXEC.
        ("*2\r\n-ERR x\r\n+OK\r\n", Value::Bytes(7)),
        ("*1\r\n!5\r\nERR x\r\n", Value::Bytes(5)),
        ("#t\r\n", Value::Bytes(1)),
        (",1.5e-3\r\n", Value::Bytes(6)),
        (",-inf\r\n", Value::Bytes(4)),
        ("(349999999999999999999\r\n", Value::Bytes(21)),
        ("=7\r\ntxt:abc\r\n", Value::Bytes(7)),
        ("%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n:1\r\n_\r\n", Value::Bytes(4)),
        ("~2\r\n+a\r\n#f\r\n", Value::Bytes(2)),
        ("|1\r\n+ttl\r\n:9\r\n$2\r\nab\r\n", Value::Bytes(2)),
        (
            "*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:22\r\n+x\r\n",
            Value::Bytes(3),
        ),
        (">2\r\n+invalidate\r\n*1\r\n+k\r\n", Value::Push),
        ("$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n", Value::Bytes(5)),
        (
            "*?\r\n:1\r\n%?\r\n+a\r\n*0\r\n.\r\n$?\r\n;0\r\n.\r\n",
            Value::Bytes(2),
        ),
    ];
    for (text, value) in cases {
        assert_eq!(value_of(text.as_bytes()), Some(value), "{text:?}");
    }
}

#[test]
fn what_is_no_reply_is_malformed() {
    let deep = "*1\r\n".repeat(33);
    let long = format!("+{}\r\n", "x".repeat(70_000));
    let cases = [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "+OK\n",
        "+OK\rX",
        ":\r\n",
        ":1x\r\n",
        "$\r\n",
        "$-2\r\n",
        "$ 5\r\n",
        "$99999999999999999999999\r\n",
        "$1099511627777\r\n",
        "*9223372036854775808\r\n",
        "$1\r\nab\r\n",
        "$1\r\na\rx",
        "#x\r\n",
        "_x\r\n",
        ",x\r\n",
        "(1.5\r\n",
        "=3\r\ntxt\r\n",
        ".\r\n",
        ";1\r\n",
        "*1\r\n.\r\n",
        "*1\r\n>1\r\n+x\r\n",
        "*?\r\n;1\r\n",
        "*?\r\n.x\r\n",
        "$?\r\n+x\r\n",
        "%-1\r\n",
        &deep,
        &long,
    ];
    for text in cases {
        assert_eq!(value_of(text.as_bytes()), None, "{text:?}");
    }
    let nested = format!("{}:1\r\n", "*1\r\n".repeat(32));
    assert_eq!(value_of(nested.as_bytes()), Some(Value::Bytes(1)));
}

#[test]
fn commands_are_arrays_of_strings_and_their_replies_come_in_order() {
    let mut connection = with_commands(0);
    connection.begin(7, 1).unwrap();
    connection.begin(8, 0).unwrap();
    assert_eq!(connection.begin(9, 2), Err(-libc::EINVAL));
    assert_eq!(connection.room(), 6);
    let sent = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na b\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    assert_eq!(written(&mut connection), sent);
    let state = connection.receive("+OK\r\n>1\r\n+x\r\n$3\r\na b\r\n");
    assert_eq!(state, SessionState::Ready);
    assert_eq!(connection.results(), [(7, 2), (8, 3)]);
    assert_eq!(connection.room(), 8);
    assert_eq!(connection.protocol.nil_replies(), Some(0));
}

#[test]
fn words_have_the_values_of_the_operation_and_their_length() {
    let specs = r#"{"id": {"type": "counter", "start": 95}, "text": {"type": "line", "lines": ["", "\u00e9 x"],
        "location": {"type": "sequential"}}}"#;
    let specs: std::collections::BTreeMap<String, ValueSpec> = serde_json::from_str(specs).unwrap();
    let values = Values::new(&specs, 1).unwrap();
    let words = ["SET", "key:${id}", "${text}", "$${id}"];
    let words = words.map(|word| Template::parse(word, &values).unwrap());
    let commands = Commands::new(&[words.to_vec()], values);
    let redis = Redis::new(Arc::new(commands), &Login::default(), 8);
    let (mut connection, _) = Connection::open(redis);
    for number in [4, 5] {
        let address = ExchangeAddress { request: 0, number };
        connection.begin(1, address.pack()).unwrap();
    }
    let expected = "*4\r\n$3\r\nSET\r\n$6\r\nkey:99\r\n$0\r\n\r\n$5\r\n${id}\r\n\
        *4\r\n$3\r\nSET\r\n$7\r\nkey:100\r\n$4\r\n\u{e9} x\r\n$5\r\n${id}\r\n";
    assert_eq!(written(&mut connection), expected);
}

#[test]
fn errors_have_the_word_of_the_server_and_nil_is_counted() {
    let mut connection = with_commands(6);
    connection.receive("-WRONGTYPE Operation against a key\r\n-MOVED 3999 h:1\r\n$-1\r\n");
    connection.receive("-LOADING\r\n!10\r\nMYWORD bad\r\n_\r\n");
    let results = connection.results();
    let names = results
        .iter()
        .map(|(_, result)| name(*result))
        .collect::<Vec<_>>();
    assert_eq!(
        names[..2],
        ["Redis WRONGTYPE".to_owned(), "Redis MOVED".to_owned()]
    );
    assert_eq!(
        names[3..5],
        ["Redis LOADING".to_owned(), "Redis error".to_owned()]
    );
    assert_eq!((results[2].1, results[5].1), (0, 0));
    assert_eq!(connection.protocol.nil_replies(), Some(2));
}

#[test]
fn bytes_without_a_command_are_an_error_and_pushes_are_not() {
    let mut connection = with_commands(1);
    assert_eq!(
        connection.receive("+a\r\n>1\r\n+x\r\n"),
        SessionState::Ready
    );
    assert_eq!(
        connection.receive("+b\r\n"),
        SessionState::Failed(-libc::EPROTO)
    );
    assert_eq!(connection.results(), [(10, 1)]);
}

#[test]
fn a_reply_before_the_whole_command_is_written_ends_the_connection() {
    for (reply, result) in [
        ("+OK\r\n", -libc::EPROTO),
        ("-ERR Protocol error\r\n", redis_error(b"ERR")),
    ] {
        let mut connection = with_commands(0);
        connection.begin(3, 0).unwrap();
        connection.begin(4, 0).unwrap();
        connection.out.written(4);
        let state = connection.receive(reply);
        assert_eq!(state, SessionState::Failed(-libc::EPROTO));
        assert_eq!(connection.results(), [(3, result)]);
    }
}

#[test]
fn the_end_of_a_connection_ends_its_commands() {
    let mut connection = with_commands(3);
    connection.receive("+a\r\n$9\r\nxx");
    connection.close();
    let (cut, lost) = (RESPONSE_CUT, -libc::ECONNRESET);
    assert_eq!(connection.results(), [(10, 1), (11, cut), (12, lost)]);
}

fn login() -> Login {
    Login {
        user: Some("me".to_owned()),
        password: Some(Password::new(b"s3cret word".to_vec())),
        resp3: true,
        database: Some(5),
    }
}

#[test]
fn the_handshake_is_what_the_user_wants_and_ends_with_its_last_reply() {
    let (mut connection, state) = connection_of(&login());
    assert_eq!(state, SessionState::Handshake);
    assert_eq!(connection.room(), 0);
    let sent = "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$11\r\ns3cret word\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
                *2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n";
    assert_eq!(written(&mut connection), sent);
    let first = connection.receive("+OK\r\n%1\r\n+proto\r\n:3\r\n+O");
    assert_eq!(first, SessionState::Handshake);
    assert_eq!(connection.receive("K\r\n"), SessionState::Ready);
    assert_eq!(connection.room(), 8);
    // The next connection begins again.
    let state = connection
        .protocol
        .open(&mut connection.session, &mut connection.out);
    assert_eq!(state, SessionState::Handshake);
    assert_eq!(connection.results(), []);
}

#[test]
fn a_refusal_has_the_server_s_reason_and_never_the_password() {
    let refusal = |replies: &str| {
        let (mut connection, _) = connection_of(&login());
        connection.write();
        let state = connection.receive(replies);
        assert!(
            matches!(state, SessionState::Failed(..0)),
            "{replies:?}: {state:?}"
        );
        let text = connection.protocol.refusal(&connection.session).unwrap();
        let shown = format!("{text} {:?} {:?}", connection.protocol, connection.session);
        assert!(!shown.contains("s3cret"), "{shown}");
        text
    };
    let wrong = "WRONGPASS invalid username-password pair";
    assert_eq!(
        refusal(&format!("-{wrong} or user is disabled.\r\n")),
        format!("the server refused AUTH: {wrong}")
    );
    // As a server whose AUTH has another name says.
    let unknown = "ERR unknown command";
    assert_eq!(
        refusal(&format!(
            "-{unknown} 'AUTH', with args beginning with: 'me' 's3cret word'\r\n"
        )),
        format!("the server refused AUTH: {unknown}")
    );
    assert_eq!(
        refusal("-NOPE me s3cret word\r\n"),
        "the server refused AUTH: Redis error"
    );
    assert_eq!(
        refusal("+OK\r\n-NOPROTO unsupported protocol version\r\n"),
        "the server refused HELLO 3: NOPROTO unsupported protocol version"
    );
    assert_eq!(
        refusal("+OK\r\n%0\r\n-ERR DB index is\u{1b}[31m out of range\r\n"),
        "the server refused SELECT: ERR DB index is[31m out of range"
    );
    assert_eq!(
        refusal("+OK\r\n%0\r\n-ERR the s3cret word\r\n"),
        "the server refused SELECT: Redis ERR"
    );
}

/// A value with its bytes on the wire.
#[derive(Clone, Debug)]
struct Sample {
    wire: Vec<u8>,
    bytes: u64,
    nil: bool,
}

fn sample(wire: String, bytes: usize) -> Sample {
    Sample {
        wire: wire.into_bytes(),
        bytes: bytes as u64,
        nil: false,
    }
}

/// Returns replies that are no errors.
fn samples() -> impl Strategy<Value = Sample> {
    let body = |text: Vec<u8>| {
        let mut wire = format!("${}\r\n", text.len()).into_bytes();
        wire.extend_from_slice(&text);
        wire.extend_from_slice(b"\r\n");
        Sample {
            wire,
            bytes: text.len() as u64,
            nil: false,
        }
    };
    let nil = |wire: &str| Sample {
        nil: true,
        ..sample(wire.to_owned(), 0)
    };
    let leaf = prop_oneof![
        "[a-z ]{0,20}".prop_map(|text| sample(format!("+{text}\r\n"), text.len())),
        any::<i64>().prop_map(|one| sample(format!(":{one}\r\n"), one.to_string().len())),
        any::<f64>().prop_map(|one| sample(format!(",{one}\r\n"), one.to_string().len())),
        any::<bool>().prop_map(|one| sample(format!("#{}\r\n", if one { 't' } else { 'f' }), 1)),
        // Any bytes, those of replies too.
        prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..40)
            .prop_map(body),
        prop::sample::select(vec!["$-1\r\n", "*-1\r\n", "_\r\n"]).prop_map(nil),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let items = prop::collection::vec(inner, 0..6);
        (items, 0..5_usize).prop_map(|(items, kind)| {
            let wire = items.iter().flat_map(|item| item.wire.clone());
            let bytes: u64 = items.iter().map(|item| item.bytes).sum();
            let count = items.len();
            let (head, tail, bytes) = match kind {
                0 => (format!("*{count}\r\n"), "", bytes),
                1 => (format!("~{count}\r\n"), "", bytes),
                2 => ("*?\r\n".to_owned(), ".\r\n", bytes),
                3 if count % 2 == 0 => (format!("%{}\r\n", count / 2), "", bytes),
                4 if count % 2 == 0 => (format!("|{}\r\n", count / 2), "+v\r\n", 1),
                _ => (format!("*{count}\r\n"), "", bytes),
            };
            let wire = head.bytes().chain(wire).chain(tail.bytes()).collect();
            Sample {
                wire,
                bytes,
                nil: false,
            }
        })
    })
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_ends(
        replies in prop::collection::vec(samples(), 1..8),
        cuts in prop::collection::vec(1_usize..30, 1..40),
    ) {
        let mut connection = with_commands(replies.len() as u32);
        let wire: Vec<u8> = replies.iter().flat_map(|reply| reply.wire.clone()).collect();
        let mut rest = &wire[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(connection.receive(piece), SessionState::Ready);
            rest = more;
        }
        let expected: Vec<_> = (10..).zip(&replies).map(|(slot, reply)| (slot, reply.bytes as i32)).collect();
        prop_assert_eq!(connection.results(), expected);
        let nil = replies.iter().filter(|reply| reply.nil).count();
        prop_assert_eq!(connection.protocol.nil_replies(), Some(nil as u64));
    }

    #[test]
    fn garbage_ends_the_same_in_any_pieces(
        bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(b"+-:$*_#,(!=%~>|;.0123\r\n?".to_vec())
        ], 0..200),
        cut in 1_usize..200,
    ) {
        let outcome = |cut: usize| {
            let mut connection = with_commands(8);
            let mut state = SessionState::Ready;
            for piece in bytes.chunks(cut) {
                state = connection.receive(piece);
                if state != SessionState::Ready {
                    break;
                }
            }
            (connection.results(), state)
        };
        prop_assert_eq!(outcome(cut), outcome(200));
    }
}
