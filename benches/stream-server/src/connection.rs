//! One connection of a client: HTTP/1.1 in, events out.

use crate::Record;
use bw_sys::arrival::{receive, stamp_arrivals};
use bw_sys::clock::monotonic_ns;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// The answer to other requests.
pub(crate) const MODELS: &[u8] = br#"{"object":"list","data":[{"id":"planned","object":"model"}]}"#;
/// The answer to a request that wants no stream.
pub(crate) const WHOLE: &[u8] = br#"{"id":"0","object":"chat.completion","created":1,"model":"planned","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Stream {
        chat: bool,
        id: Option<String>,
        arrived_ns: u64,
        read_ns: u64,
    },
    /// An answer in one piece.
    Whole,
    Stamps,
    /// How many streams have begun.
    Count,
    Other,
}

/// A stream that has not ended.
#[derive(Debug)]
struct Stream {
    record: Record,
    chat: bool,
}

/// A connection and its stream, if it has one.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    /// When the last of the input arrived and was read.
    arrived_ns: u64,
    read_ns: u64,
    /// What the client's full buffer has kept here.
    kept: Vec<u8>,
    stream: Option<Stream>,
    /// For the event that is being written.
    event: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        stamp_arrivals(socket.as_fd())?;
        Ok(Self {
            socket,
            input: Vec::new(),
            arrived_ns: 0,
            read_ns: 0,
            kept: Vec::new(),
            stream: None,
            event: Vec::new(),
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn into_record(self) -> Option<Record> {
        self.stream.map(|stream| stream.record)
    }

    /// Reads all that has arrived.
    ///
    /// # Errors
    /// As recv(2); `UnexpectedEof`: the client has gone.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; 16384];
        loop {
            let received = match receive(self.socket.as_fd(), &mut piece) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if received.length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.read_ns = monotonic_ns();
            self.arrived_ns = self.read_ns - received.unseen_ns.unwrap_or_default();
            self.input.extend_from_slice(&piece[..received.length]);
        }
    }

    /// Takes the next whole request from what was read.
    ///
    /// # Errors
    /// `InvalidData`: it is not one that this server understands.
    pub(crate) fn next(&mut self) -> io::Result<Option<Asked>> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(status) = request.parse(&self.input) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let httparse::Status::Complete(head) = status else {
            return Ok(None);
        };
        let header = |name: &str| {
            let found = request
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let length: usize = header("content-length")
            .map_or(Ok(0), str::parse)
            .map_err(io::Error::other)?;
        let end = head + length;
        if self.input.len() < end {
            return Ok(None);
        }
        let path = request.path.unwrap_or_default();
        let asked = match request.method {
            Some("POST") if streamed(&self.input[head..end]) => Asked::Stream {
                chat: path.ends_with("/chat/completions"),
                id: header("x-request-id").map(str::to_owned),
                arrived_ns: self.arrived_ns,
                read_ns: self.read_ns,
            },
            Some("POST") => Asked::Whole,
            _ if path == "/stamps" => Asked::Stamps,
            _ if path == "/streams" => Asked::Count,
            _ => Asked::Other,
        };
        self.input.drain(..end);
        Ok(Some(asked))
    }

    /// Answers with a document.
    ///
    /// # Errors
    /// As send(2).
    pub(crate) fn respond(&mut self, body: &[u8]) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.kept.extend_from_slice(head.as_bytes());
        self.kept.extend_from_slice(body);
        self.flush()
    }

    /// Begins a stream.
    ///
    /// # Errors
    /// As send(2); `InvalidData`: the one before has not ended.
    pub(crate) fn begin(&mut self, record: Record, chat: bool, role: bool) -> io::Result<()> {
        if self.stream.is_some() {
            return Err(ErrorKind::InvalidData.into());
        }
        let number = record.number;
        self.stream = Some(Stream { record, chat });
        self.kept.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        if role && chat {
            let event = chat_event(number, r#"{"role":"assistant","content":""}"#, "null");
            push_chunk(&mut self.kept, &event);
        }
        self.flush()
    }

    /// Writes the next token of the stream, and its end after the last of `tokens`; returns its record then.
    ///
    /// # Errors
    /// As send(2).
    pub(crate) fn token(&mut self, due_ns: u64, tokens: u32) -> io::Result<Option<Record>> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let written = stream.record.written_ns.len() + 1;
        let last = written >= tokens as usize;
        let reason = if last { "\"length\"" } else { "null" };
        let event = match (stream.chat, written) {
            (true, 1) => chat_event(
                stream.record.number,
                r#"{"role":"assistant","content":"word"}"#,
                reason,
            ),
            (true, _) => chat_event(stream.record.number, r#"{"content":" word"}"#, reason),
            (false, _) => format!(
                "data: {{\"id\":\"{}\",\"object\":\"text_completion\",\"created\":1,\"model\":\"planned\",\"choices\":[{{\"index\":0,\"text\":\" word\",\"finish_reason\":{reason}}}]}}\n\n",
                stream.record.number
            ),
        };
        self.event.clear();
        push_chunk(&mut self.event, &event);
        stream.record.due_ns.push(due_ns);
        stream.record.blocked += u32::from(!self.kept.is_empty());
        stream.record.written_ns.push(monotonic_ns());
        self.kept.append(&mut self.event);
        self.flush()?;
        if !last {
            return Ok(None);
        }
        let usage = format!(
            "data: {{\"id\":\"0\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"planned\",\"choices\":[],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{tokens},\"total_tokens\":{}}}}}\n\n",
            tokens + 10
        );
        push_chunk(&mut self.kept, &usage);
        push_chunk(&mut self.kept, "data: [DONE]\n\n");
        self.kept.extend_from_slice(b"0\r\n\r\n");
        self.flush()?;
        Ok(self.stream.take().map(|stream| Record {
            whole: true,
            ..stream.record
        }))
    }

    /// Writes what is kept, as far as the client takes it.
    ///
    /// # Errors
    /// As send(2).
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.kept.len() {
            match self.socket.write(&self.kept[done..]) {
                Ok(length) => done += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.kept.drain(..done);
        Ok(())
    }
}

/// Whether a body has `"stream": true`, with or without blanks.
fn streamed(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Body {
        #[serde(default)]
        stream: bool,
    }
    serde_json::from_slice(body).is_ok_and(|body: Body| body.stream)
}

fn chat_event(number: u64, delta: &str, reason: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-{number}\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"planned\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
    )
}

fn push_chunk(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}
