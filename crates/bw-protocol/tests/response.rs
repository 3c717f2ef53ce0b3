//! The reader of HTTP responses: framing by the rules, the same result for any split, and no panic for any bytes.

#![allow(clippy::unwrap_used)]

use bw_protocol::http1::response::{FIELDS_LIMIT, HEAD_LIMIT, ParseProgress, Response};
use proptest::prelude::*;

/// The outcome of a response: how many bytes belonged to it, its status, its body, its connection.
#[derive(Debug, PartialEq)]
enum Outcome {
    Complete(usize, u16, u64, bool),
    Unfinished,
    Malformed,
}

/// Reads the bytes in pieces that end at `cuts`; at the end the server closes.
fn read(bytes: &[u8], cuts: &[usize], without_body: bool) -> Outcome {
    let mut response = Response::new();
    response.begin(without_body);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let progress = response.receive(&bytes[from..to]);
        match progress {
            ParseProgress::More => from = to,
            ParseProgress::Malformed => return Outcome::Malformed,
            ParseProgress::Complete { used } => return complete(&response, from + used),
        }
    }
    if response.close() {
        return complete(&response, bytes.len());
    }
    Outcome::Unfinished
}

fn complete(response: &Response, used: usize) -> Outcome {
    let (status, body) = (response.status(), response.body_bytes());
    Outcome::Complete(used, status, body, response.is_persistent())
}

fn whole(text: &str) -> Outcome {
    read(text.as_bytes(), &[], false)
}

#[test]
fn framing_follows_the_rules() {
    use Outcome::{Complete, Malformed, Unfinished};
    let cases = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
            Complete(40, 200, 2, true),
        ),
        (
            "HTTP/1.1 200\r\ncontent-length:2\r\n\r\nabc",
            Complete(36, 200, 2, true),
        ),
        (
            "HTTP/1.1 200 OK\nContent-Length: 1\n\na",
            Complete(36, 200, 1, true),
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            Complete(38, 200, 0, false),
        ),
        (
            "HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n",
            Complete(37, 304, 0, true),
        ),
        ("HTTP/1.1 200 OK\r\n\r\nabc", Complete(22, 200, 3, false)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
            Complete(47, 200, 3, false),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc",
            Complete(44, 200, 3, true),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\nabc",
            Malformed,
        ),
        // Empty elements of a list are ignored (RFC 9110, section 5.6.1).
        (
            "HTTP/1.1 200 OK\r\nContent-Length: ,3,\r\n\r\nabc",
            Complete(43, 200, 3, true),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
            Complete(53, 200, 0, true),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: , gzip ,,chunked\r\n\r\n0\r\n\r\n",
            Complete(61, 200, 0, true),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: ,\r\n\r\na", Malformed),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            Malformed,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na", Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\na", Malformed),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            Malformed,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            Malformed,
        ),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Malformed),
        ("HTTP/2 200\r\n\r\n", Malformed),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Unfinished),
        ("HTTP/1.1 200 OK\r\n", Unfinished),
        ("HTTP/1.1 100 Continue\r\n\r\n", Unfinished),
        ("", Unfinished),
    ];
    for (text, outcome) in cases {
        assert_eq!(whole(text), outcome, "{text:?}");
    }
}

#[test]
fn both_lengths_mean_chunks_and_the_end_of_the_connection() {
    let text =
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(whole(text), Outcome::Complete(text.len(), 200, 0, false));
}

#[test]
fn persistence_is_as_version_and_connection_say() {
    for (version, connection, persistent) in [
        (1, "close", false),
        (1, "Keep-Alive, CLOSE", false),
        (1, "x", true),
        (0, "keep-alive", true),
        (0, "x", false),
    ] {
        let text = format!(
            "HTTP/1.{version} 200 OK\r\nConnection: {connection}\r\nContent-Length: 0\r\n\r\n"
        );
        assert_eq!(
            whole(&text),
            Outcome::Complete(text.len(), 200, 0, persistent)
        );
    }
}

#[test]
fn heads_have_limits() {
    let head = |length: usize| {
        let rest = "HTTP/1.1 204 N\r\nA: \r\n\r\n".len();
        format!("HTTP/1.1 204 N\r\nA: {}\r\n\r\n", "a".repeat(length - rest))
    };
    let (fits, too_long) = (head(HEAD_LIMIT), head(HEAD_LIMIT + 1));
    let complete = Outcome::Complete(HEAD_LIMIT, 204, 0, true);
    assert_eq!(read(fits.as_bytes(), &[], false), complete);
    assert_eq!(read(fits.as_bytes(), &[1, HEAD_LIMIT - 1], false), complete);
    assert_eq!(read(too_long.as_bytes(), &[], false), Outcome::Malformed);
    assert_eq!(
        read(too_long.as_bytes(), &[1, HEAD_LIMIT], false),
        Outcome::Malformed
    );
    let with_fields = |count| format!("HTTP/1.1 204 N\r\n{}\r\n", "A: b\r\n".repeat(count));
    let fits = with_fields(FIELDS_LIMIT);
    assert_eq!(whole(&fits), Outcome::Complete(fits.len(), 204, 0, true));
    assert_eq!(whole(&with_fields(FIELDS_LIMIT + 1)), Outcome::Malformed);
}

/// Valid responses of every framing, with what follows them.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let interim = prop_oneof![Just(""), Just("HTTP/1.1 100 Continue\r\nA: b\r\n\r\n")];
    let chunk = (
        1_usize..40,
        prop_oneof![Just(""), Just(";a=\"b\""), Just(" ")],
    );
    let chunked = prop::collection::vec(chunk, 0..5).prop_map(|chunks| {
        let mut body = "Transfer-Encoding: chunked\r\n\r\n".to_string();
        for (length, extension) in chunks {
            let data = "\r\n0".repeat(length);
            body += &format!("{:X}{extension}\r\n{data}\r\n", data.len());
        }
        body + "0\r\nTrailer: x\r\n\r\n"
    });
    let length = (0_usize..100).prop_map(|length| {
        let data = "\n".repeat(length);
        format!("Content-Length: {length}\r\n\r\n{data}")
    });
    let until_close = Just("\r\n".to_string() + "HTTP/1.1 until close");
    let status = prop_oneof![Just("200 OK"), Just("503 Busy"), Just("204 None")];
    let body = prop_oneof![chunked, length, until_close];
    (
        interim,
        status,
        body,
        prop_oneof![Just(""), Just("HTTP/1.1 2")],
    )
        .prop_map(|(interim, status, body, after)| {
            format!("{interim}HTTP/1.1 {status}\r\nServer: s\r\n{body}{after}").into_bytes()
        })
}

proptest! {
    #[test]
    fn any_split_of_a_response_reads_the_same(
        bytes in responses(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        without_body in any::<bool>(),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let once = read(&bytes, &[], without_body);
        prop_assert!(matches!(once, Outcome::Complete(..)), "{once:?}");
        prop_assert_eq!(&once, &read(&bytes, &cuts, without_body));
        let each: Vec<_> = (1..bytes.len()).collect();
        prop_assert_eq!(&once, &read(&bytes, &each, without_body));
    }

    #[test]
    fn no_bytes_upset_it_and_any_split_of_them_reads_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        valid in responses(),
        mutate in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut mutated = valid;
        let at = mutate.index(mutated.len());
        mutated[at] = byte;
        for bytes in [&bytes, &mutated] {
            let each: Vec<_> = (0..bytes.len()).collect();
            prop_assert_eq!(read(bytes, &[], false), read(bytes, &each, false));
        }
    }
}
