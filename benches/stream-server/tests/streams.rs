//! A stream over a real socket: what it consists of, and the stamps beside its plan.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use stream_server::{Pace, Plan, Server};

fn asked(port: u16, text: &str) -> Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.write_all(text.as_bytes())?;
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = socket.read(&mut piece)?;
        assert!(length > 0, "the server hung up");
        all.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&all);
        if text.ends_with("0\r\n\r\n") || text.ends_with("}\n") {
            return Ok(text.into_owned());
        }
    }
}

#[test]
fn a_stream_follows_its_plan_and_its_stamps_say_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plan = Plan {
        port: 0,
        tokens: 3,
        role_first: true,
        pace: Pace::Fixed {
            first_ns: 20_000_000,
            gap_ns: 5_000_000,
        },
    };
    std::thread::spawn(move || Server::new(listener, plan).unwrap().run().unwrap());
    let body = r#"{"stream": true}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nx-request-id: a\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = asked(port, &request).unwrap();
    assert_eq!(answer.matches("\"role\"").count(), 2);
    assert_eq!(answer.matches("word").count(), 3);
    assert_eq!(answer.matches("\"finish_reason\":\"length\"").count(), 1);
    assert!(answer.contains("\"completion_tokens\":3"));
    assert!(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));

    let stamps = asked(port, "GET /stamps HTTP/1.1\r\n\r\n").unwrap();
    let line = stamps.lines().last().unwrap();
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(record["id"], "a");
    assert_eq!(record["whole"], true);
    let times = |name: &str| -> Vec<u64> {
        let values = record[name].as_array().unwrap();
        values.iter().map(|value| value.as_u64().unwrap()).collect()
    };
    let (due, written) = (times("due_ns"), times("written_ns"));
    let arrived = record["arrived_ns"].as_u64().unwrap();
    let planned = [20_000_000, 25_000_000, 30_000_000].map(|after| arrived + after);
    assert_eq!(due, planned);
    assert!(
        due.iter()
            .zip(&written)
            .all(|(due, written)| due <= written)
    );
}
