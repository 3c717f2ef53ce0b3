//! The pool with a protocol that has a handshake and can give up single operations, against servers in threads.

use crate::channels::{exchange as channel, mesh};
use crate::clock::Monotonic;
use crate::net::connection::{CONNECT_TIMEOUT, Closing, Connection, ConnectionOptions, Endpoint};
use crate::net::transport::Transport;
use crate::net::{Network, NetworkDescription};
use crate::policy::{Full, Late, SpinMargin};
use crate::record::WorkerRecord;
use crate::routes::Routes;
use crate::several::Several;
use crate::target::{Background, Reaped, Target};
use crate::worker::{Stop, Worker, WorkerFilament, WorkerInputs, WorkerPlan};
use bw_model::{Kind, Nanos, Operation};
use bw_protocol::{End, Outgoing, Protocol, SessionState};
use bw_schedule::filaments::{Emissions, Event, Filament};
use bw_sys::clock::monotonic_ns;
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[path = "../../tests/network/server.rs"]
mod server;

use server::Server;

/// The client sends `hello`, the server `w` (welcome) or `n` (no); then each operation is a byte and its answer `a`. The
/// server may send `p`, which the client answers with `q`, at any time, and `g` when it begins no more operations.
struct Words {
    can_cancel: bool,
}

#[derive(Default)]
struct WordsSession {
    slots: VecDeque<u32>,
    cancelled: u32,
    ready: bool,
    closing: bool,
}

impl WordsSession {
    fn state(&self) -> SessionState {
        match (self.ready, self.closing) {
            (false, _) => SessionState::Handshake,
            (true, false) => SessionState::Ready,
            (true, true) => SessionState::Closing,
        }
    }
}

impl Protocol for Words {
    type Session = WordsSession;

    fn session(&self) -> WordsSession {
        WordsSession::default()
    }

    fn open(&self, session: &mut WordsSession, out: &mut Outgoing) -> SessionState {
        *session = WordsSession::default();
        out.put(b"hello");
        session.state()
    }

    fn room(&self, _session: &WordsSession) -> u32 {
        u32::MAX
    }

    fn begin(
        &self,
        session: &mut WordsSession,
        slot: u32,
        _operation: &Operation,
        out: &mut Outgoing,
    ) -> Result<(), i32> {
        session.slots.push_back(slot);
        out.put(b"x");
        Ok(())
    }

    fn sent(&self, session: &mut WordsSession, _ends: &mut Vec<End>) -> SessionState {
        session.state()
    }

    fn receive(
        &self,
        session: &mut WordsSession,
        bytes: &[u8],
        out: &mut Outgoing,
        ends: &mut Vec<End>,
    ) -> SessionState {
        for byte in bytes {
            match byte {
                b'w' => session.ready = true,
                b'p' => out.put(b"q"),
                b'g' => session.closing = true,
                b'a' if session.cancelled > 0 => session.cancelled -= 1,
                b'a' => match session.slots.pop_front() {
                    Some(slot) => ends.push(End { slot, result: 1 }),
                    None => return SessionState::Failed(-libc::EPROTO),
                },
                _ => return SessionState::Failed(-libc::EACCES),
            }
        }
        session.state()
    }

    fn closed(&self, session: &mut WordsSession, ends: &mut Vec<End>) {
        let result = i64::from(-libc::ECONNRESET);
        ends.extend(session.slots.drain(..).map(|slot| End { slot, result }));
    }

    fn cancel(&self, session: &mut WordsSession, slot: u32, _out: &mut Outgoing) -> bool {
        session.slots.retain(|one| *one != slot);
        session.cancelled += 1;
        self.can_cancel
    }

    fn goodbye(&self, _session: &mut WordsSession, out: &mut Outgoing) {
        out.put(b"b");
    }

    fn refusal(&self, _session: &WordsSession) -> Option<String> {
        Some("the word is wrong".to_owned())
    }
}

const OPTIONS: ConnectionOptions = ConnectionOptions {
    outstanding: 4,
    requests_per_connection: None,
    timeout: None,
};

/// Returns the endpoint of a server in threads.
fn serve(answer: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Endpoint {
    let port = Server::start(answer).address.port();
    Endpoint::resolve("127.0.0.1", port).unwrap()
}

/// Reads the client's first word; returns whether it came.
fn greeted(stream: &mut TcpStream) -> bool {
    let mut word = [0; 5];
    stream.read_exact(&mut word).is_ok() && &word == b"hello"
}

/// Answers `count` operations, or all of them.
fn answer(stream: &mut TcpStream, count: usize) {
    let mut byte = [0];
    for _ in 0..count {
        if !matches!(stream.read(&mut byte), Ok(1)) || &byte == b"b" {
            return;
        }
        assert_eq!(&byte, b"x");
        if stream.write_all(b"a").is_err() {
            return;
        }
    }
}

fn exchange() -> Operation {
    Operation::new(Kind::Exchange, 0, 0)
}

/// Executes `count` operations, as many at a time as fit; returns their results in the order of their ends.
fn drive(target: &mut Network<Words>, count: usize) -> Vec<i32> {
    let mut idle: Vec<u32> = (0..target.capacity()).collect();
    let mut ends: Vec<Reaped> = Vec::with_capacity(8);
    let (mut begun, mut results) = (0, Vec::new());
    while results.len() < count {
        while begun < count
            && let Some(slot) = idle.pop()
        {
            target.submit(slot, &exchange());
            begun += 1;
        }
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
        if ends.is_empty() {
            target.wait(Nanos::SECOND).unwrap();
        }
        for end in ends.drain(..) {
            idle.push(end.slot);
            results.push(i32::try_from(end.result).unwrap());
        }
    }
    results
}

fn open(endpoint: &Endpoint, connections: u32, options: ConnectionOptions) -> Network<Words> {
    let words = Words { can_cancel: true };
    Network::open(words, endpoint, connections, options).unwrap()
}

fn handshakes(described: &NetworkDescription) -> u64 {
    described
        .handshake_ns
        .as_ref()
        .map_or(0, |times| times.count)
}

#[test]
fn handshakes_of_many_connections_are_complete_and_measured_before_the_first_operation() {
    let endpoint = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            answer(&mut stream, usize::MAX);
        }
    });
    let mut target = open(&endpoint, 200, OPTIONS);
    let described = target.describe();
    assert_eq!(
        (described.connect_ns.count, handshakes(&described)),
        (200, 200)
    );
    assert_eq!(drive(&mut target, 3000), [1; 3000]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn a_connection_that_is_lost_before_the_run_does_not_count_for_another() {
    // The first one is closed at once, and the second one welcome when the first one is there again.
    let (again, is_again) = mpsc::channel();
    let (again, is_again) = (Mutex::new(again), Mutex::new(is_again));
    let endpoint = serve(move |number, mut stream| {
        if number == 1 {
            is_again.lock().unwrap().recv().unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        if greeted(&mut stream) && stream.write_all(b"w").is_ok() && number > 0 {
            let _ = again.lock().unwrap().send(());
            answer(&mut stream, usize::MAX);
        }
    });
    let mut target = open(&endpoint, 2, OPTIONS);
    assert_eq!(handshakes(&target.describe()), 3);
    assert_eq!(drive(&mut target, 20), [1; 20]);
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn a_refused_handshake_is_an_error_with_the_server_s_reason() {
    let endpoint = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"n").unwrap();
            let _ = stream.read(&mut [0]);
        }
    });
    let words = Words { can_cancel: true };
    let error = Network::open(words, &endpoint, 3, OPTIONS).unwrap_err();
    assert_eq!(error.code, "handshake");
    assert!(error.message.contains("the word is wrong"), "{error}");
}

#[test]
fn a_server_that_greets_first_is_answered_in_its_handshake() {
    let endpoint = serve(|_, mut stream| {
        stream.write_all(b"p").unwrap();
        let mut answers = [0; 6];
        stream.read_exact(&mut answers).unwrap();
        assert_eq!(&answers, b"helloq");
        stream.write_all(b"w").unwrap();
        answer(&mut stream, usize::MAX);
    });
    let mut target = open(&endpoint, 2, OPTIONS);
    assert_eq!(drive(&mut target, 20), [1; 20]);
}

#[test]
fn a_connection_that_takes_no_more_operations_is_made_again_beside_the_run() {
    let endpoint = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            answer(&mut stream, 10);
            let _ = stream.write_all(b"g");
            answer(&mut stream, usize::MAX);
        }
    });
    let mut target = open(&endpoint, 2, OPTIONS);
    assert_eq!(drive(&mut target, 200), [1; 200]);
    let described = target.describe();
    assert!(described.reconnects > 0, "{described:?}");
    // Each reconnection has its own handshake.
    assert_eq!(handshakes(&described), 2 + described.reconnects);
    assert!(described.connect_ns.count >= handshakes(&described));
}

#[test]
fn an_operation_that_cannot_be_given_up_alone_ends_those_beside_it() {
    let endpoint = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            while matches!(stream.read(&mut [0]), Ok(1)) {}
        }
    });
    let options = ConnectionOptions {
        timeout: Some(Nanos(30_000_000)),
        ..OPTIONS
    };
    let mut target = open(&endpoint, 1, options);
    assert_eq!(drive(&mut target, 8), [-libc::ETIMEDOUT; 8]);
    let described = target.describe();
    assert_eq!((described.timeouts, described.reconnects), (8, 0));

    let words = Words { can_cancel: false };
    let mut target = Network::open(words, &endpoint, 1, options).unwrap();
    let (late, beside) = (-libc::ETIMEDOUT, -libc::ECONNABORTED);
    assert_eq!(drive(&mut target, 4), [late, beside, beside, beside]);
    assert_eq!(target.describe().timeouts, 1);
}

#[test]
fn a_silent_handshake_in_the_run_ends_no_operation_before_its_limit() {
    // The first connection works once; those after it accept and stay silent.
    let endpoint = serve(|number, mut stream| {
        if greeted(&mut stream) && number == 0 {
            stream.write_all(b"w").unwrap();
            answer(&mut stream, 1);
            return;
        }
        let _ = stream.read(&mut [0]);
    });
    let options = ConnectionOptions {
        timeout: Some(Nanos(50_000_000)),
        ..OPTIONS
    };
    let mut target = open(&endpoint, 1, options);
    assert_eq!(drive(&mut target, 1), [1]);
    let results = drive(&mut target, 3);
    // The server may close before or after the first request is written.
    let known = [-libc::ETIMEDOUT, -libc::ECONNRESET, -libc::EPIPE];
    assert!(
        results.iter().all(|result| known.contains(result)),
        "{results:?}"
    );
    let rest = drive(&mut target, 2);
    assert_eq!(rest, [-libc::ETIMEDOUT; 2]);
}

#[test]
fn a_datagram_that_finds_no_room_is_counted_when_it_is_written_whole() {
    // The queue of a Unix socket fills up where that of a device cannot be made to.
    let kind = Type::DGRAM.nonblocking();
    let (near, mut far) = Socket::pair(Domain::UNIX, kind, None).unwrap();
    let mut connection = Connection::new(Transport::new(near, None).unwrap(), ());
    let (mut sent_bytes, mut written) = (0, 0);
    connection.out.put(b"datagram");
    while connection.write(&mut sent_bytes).unwrap() {
        written += 1;
        connection.out.put(b"datagram");
    }
    assert!(written > 0 && connection.is_unfinished());
    assert_eq!(sent_bytes, 8 * written);
    let mut buffer = [0; 100];
    let mut read = || far.read(&mut buffer).ok();
    assert_eq!(read(), Some(8));
    assert_eq!(connection.write(&mut sent_bytes), Ok(true));
    assert_eq!(sent_bytes, 8 * (written + 1));
    for _ in 0..written {
        assert_eq!(read(), Some(8));
    }
    assert_eq!((read(), connection.is_unfinished()), (None, false));
}

#[test]
fn a_connection_that_the_client_closes_is_announced_and_reset_and_ended_after_the_run() {
    let (sender, ends) = mpsc::channel();
    let endpoint = serve(move |_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            // Until the client says that it goes.
            answer(&mut stream, usize::MAX);
            let end = stream.read(&mut [0]).map_err(|error| error.kind());
            let is_reset = |_| {
                std::thread::sleep(Duration::from_millis(1));
                let error = stream.take_error().unwrap();
                error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
            };
            let is_reset = end.is_err() || (0..5000).any(is_reset);
            sender.send((end, is_reset)).unwrap();
        }
    });
    let options = ConnectionOptions {
        requests_per_connection: Some(2),
        ..OPTIONS
    };
    let mut target = open(&endpoint, 1, options);
    assert_eq!(drive(&mut target, 6), [1; 6]);
    // The fourth is there, or on its way.
    drive(&mut target, 1);
    drop(target);
    // Without the resets ports of the client's would stay in TIME_WAIT for a minute.
    let ends: Vec<_> = ends.iter().take(4).collect();
    let count = |end| ends.iter().filter(|one| **one == (end, true)).count();
    assert_eq!(count(Ok(0)), 1, "{ends:?}");
    assert_eq!(count(Err(ErrorKind::ConnectionReset)), 3, "{ends:?}");
}

#[test]
fn what_the_kernel_has_not_sent_is_not_discarded_by_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let mut connection = Connection::new(Transport::new(near.into(), None).unwrap(), ());
    let mut sent_bytes = 0;
    while !connection.is_unfinished() {
        connection.out.put(&[7; 1 << 16]);
        connection.write(&mut sent_bytes).unwrap();
    }
    connection.close(Closing::ByClient);
    let mut received = Vec::new();
    far.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent_bytes);
}

/// Emits the next operation when the server says that it is prepared for one more.
struct WhenPrepared {
    prepared: Arc<AtomicUsize>,
    begun: usize,
    most: usize,
}

impl Filament for WhenPrepared {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let now = match event {
            Event::Timer { at, .. } => at,
            _ => Nanos::ZERO,
        };
        if self.begun == self.most {
            return;
        }
        if self.prepared.load(Ordering::SeqCst) > self.begun {
            self.begun += 1;
            emit.operations.push(Operation {
                at: now,
                ..exchange()
            });
        }
        emit.timers.push((now + Nanos(1_000_000), 0));
    }
}

/// Runs a worker on the target until `most` operations have begun, each when the server was prepared for it; returns the
/// target.
fn run_when_prepared<T: Target>(target: T, prepared: Arc<AtomicUsize>, most: usize) -> T {
    let plan = WorkerPlan {
        depth: 16,
        backlog: 16,
        full: Full::Queue,
        late: Late::CatchUp,
        end: Nanos(30_000_000_000),
        drain: Nanos::SECOND,
        spin_margin: SpinMargin::REAL,
        near: Nanos(1000),
        interval: Nanos::NEVER,
    };
    let (intervals, _stream) = channel(8, Vec::new());
    let filament = Box::new(WhenPrepared {
        prepared,
        begun: 0,
        most,
    });
    let inputs = WorkerInputs {
        filaments: vec![WorkerFilament { id: 0, filament }],
        links: mesh(1).pop().unwrap(),
        stop: Stop::default(),
        record: WorkerRecord::new(0, Nanos::ZERO, intervals, None),
    };
    let clock = Monotonic::starting_at(monotonic_ns());
    let finished = Worker::new(plan, target, clock, inputs).run().unwrap();
    let counts = finished.record.counts();
    assert_eq!(
        (counts.issued, counts.completed),
        (most as u64, most as u64)
    );
    finished.target
}

/// Returns a server that is prepared for an operation when the client has made all of its connections again and has answered
/// a question, without any operation in progress.
fn between_operations() -> (Endpoint, Arc<AtomicUsize>) {
    let prepared = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&prepared);
    let endpoint = serve(move |number, mut stream| {
        // One of the second attempts fails at once.
        if number == 1 || !greeted(&mut stream) {
            return;
        }
        stream.write_all(b"wp").unwrap();
        let mut word = [0];
        stream.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"q");
        count.fetch_add(1, Ordering::SeqCst);
        answer(&mut stream, 1);
    });
    (endpoint, prepared)
}

#[test]
fn connections_are_made_again_and_questions_answered_while_no_operation_is_in_flight() {
    let (endpoint, prepared) = between_operations();
    let target = run_when_prepared(open(&endpoint, 1, OPTIONS), prepared, 4);
    let described = target.describe();
    assert_eq!((described.timeouts, described.unrequested), (0, 0));
    assert!(described.reconnects >= 3, "{described:?}");
    assert_eq!(handshakes(&described), 1 + described.reconnects);
}

#[test]
fn a_part_of_several_targets_works_while_no_operation_is_in_flight_on_it() {
    let (endpoint, prepared) = between_operations();
    let other = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            answer(&mut stream, usize::MAX);
        }
    });
    for own in 0..2_usize {
        prepared.store(0, Ordering::SeqCst);
        let mut parts: Vec<Box<dyn Target>> = vec![Box::new(open(&other, 1, OPTIONS))];
        parts.insert(own, Box::new(open(&endpoint, 1, OPTIONS)));
        let several = Several::new(
            parts,
            Routes::new(&[0..1, 1..2], &[own as u16, 1 - own as u16]),
            4,
        );
        run_when_prepared(several, Arc::clone(&prepared), 3);
    }
}

#[test]
fn two_targets_are_waited_for_together_in_whatever_order_they_are() {
    let quick = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            answer(&mut stream, usize::MAX);
        }
    });
    let slow = serve(|_, mut stream| {
        if greeted(&mut stream) {
            stream.write_all(b"w").unwrap();
            let mut byte = [0];
            while matches!(stream.read(&mut byte), Ok(1)) {
                thread::sleep(Duration::from_millis(20));
                stream.write_all(b"a").unwrap();
            }
        }
    });
    for order in [[&quick, &slow], [&slow, &quick]] {
        let parts = order.map(|one| -> Box<dyn Target> { Box::new(open(one, 1, OPTIONS)) });
        let routes = Routes::new(&[0..1, 1..2], &[0, 1]);
        let mut target = Several::new(parts.into(), routes, 1);
        let mut ends: Vec<Reaped> = Vec::with_capacity(8);
        let (mut waits, mut count) = (0, 0);
        for part in 0..2 {
            target.submit_to(part, part as u32, &exchange());
            target.flush().unwrap();
        }
        while count < 2 {
            ends.clear();
            target.reap(&mut ends).unwrap();
            count += ends.len();
            if ends.is_empty() {
                target.wait(Nanos::SECOND).unwrap();
                waits += 1;
            }
        }
        // One for each end, and one for each that a signal or a system call ended early.
        assert!(waits <= 8, "{waits} waits");
        assert_eq!(target.background(), Background::Arrivals);
    }
}

#[test]
fn the_time_limit_of_a_connection_covers_its_connect() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .unwrap();
    listener.listen(1).unwrap();
    let address: SockAddr = listener.local_addr().unwrap();
    let address = address.as_socket().unwrap();
    let endpoint = Endpoint::resolve("127.0.0.1", address.port()).unwrap();
    let accepted = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        let mut word = [0; 5];
        first.read_exact(&mut word).unwrap();
        first.write_all(b"w").unwrap();
        (first, listener)
    });
    let mut target = open(&endpoint, 1, OPTIONS);
    let (first, _listener) = accepted.join().unwrap();
    // With a full queue the kernel leaves connects unanswered.
    let fill: Vec<_> = (0..4)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
            let _ = socket.connect(&address.into());
            socket
        })
        .collect();
    assert_eq!(target.awaited().at_most, Nanos::NEVER);
    first.send(b"g").unwrap();
    let mut ends = Vec::with_capacity(1);
    while target.describe().connect_ns.count == 1 && target.awaited().at_most == Nanos::NEVER {
        target.wait(Nanos(1_000_000)).unwrap();
        target.reap(&mut ends).unwrap();
    }
    let left = target.awaited().at_most;
    assert!(
        left.0 > 0 && u128::from(left.0) <= CONNECT_TIMEOUT.as_nanos(),
        "{left:?}"
    );
    assert_eq!(target.background(), Background::Work);
    drop((first, fill));
}
