//! Helpers of the network targets' tests: a driver without a schedule, and servers in threads.

#![allow(dead_code, unused_imports, clippy::unwrap_used)]

use bw_load::target::{Reaped, Target};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) mod certificates;
pub(crate) mod ganesha;
pub(crate) mod nginx;
pub(crate) mod postgres;
mod server;
pub(crate) mod websocket;

pub(crate) use server::Server;

/// Returns an operation on `size` bytes at `offset` of an object of a file set.
pub(crate) fn on(object: u32, kind: Kind, offset: u64, size: u32) -> Operation {
    Operation::new(
        kind,
        FileAddress {
            object,
            renamed: false,
            offset,
        }
        .pack(),
        size,
    )
}

/// Returns an exchange of `size` bytes with path `offset`.
pub(crate) fn exchange(offset: u64, size: u32) -> Operation {
    Operation::new(Kind::Exchange, offset, size)
}

/// How long the warm-up of the tests lasts.
pub(crate) const WARM_UP: Nanos = Nanos(1000);

/// Returns the operation `warm` times in the warm-up, and `measured` times after it.
pub(crate) fn with_warm_up(operation: Operation, warm: usize, measured: usize) -> Vec<Operation> {
    let at = |at, count| std::iter::repeat_n(Operation { at, ..operation }, count);
    let last = Nanos(WARM_UP.0 - 1);
    at(last, warm).chain(at(WARM_UP, measured)).collect()
}

/// Executes the operations, as many at a time as the target accepts; returns the results in the operations' order.
pub(crate) fn drive<T: Target>(target: &mut T, operations: &[Operation]) -> Vec<i32> {
    let mut results = vec![None; operations.len()];
    let capacity = target.capacity();
    let mut slots: Vec<Option<usize>> = vec![None; capacity as usize];
    let mut idle: Vec<u32> = (0..capacity).collect();
    let mut ends: Vec<Reaped> = Vec::with_capacity(8);
    let (mut next, mut done) = (0, 0);
    while done < operations.len() {
        while next < operations.len()
            && let Some(slot) = idle.pop()
        {
            slots[slot as usize] = Some(next);
            target.submit(slot, &operations[next]);
            next += 1;
        }
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
        if ends.is_empty() {
            target.wait(Nanos::SECOND).unwrap();
        }
        for end in ends.drain(..) {
            let which = slots[end.slot as usize].take();
            let which = which.expect("an end for a slot that holds nothing");
            assert_eq!(
                results[which].replace(i32::try_from(end.result).unwrap()),
                None
            );
            idle.push(end.slot);
            done += 1;
        }
    }
    results.into_iter().map(Option::unwrap).collect()
}

/// Executes operations one at a time, each of which `answered` reports as sent by the server, and looks for their ends only
/// [`LATE`] after that; returns the end of the first that had been there for so long.
///
/// A machine that is behind with its network delivers an answer later than it was sent, also on the loopback, so that
/// single ends may have arrived at any time since their operations were submitted.
///
/// # Panics
/// If none of twenty had been there for so long, or one for longer than since it was submitted.
pub(crate) fn look_late<T: Target>(
    target: &mut T,
    operation: &Operation,
    answered: &Receiver<()>,
) -> Reaped {
    let mut ends = Vec::with_capacity(8);
    for _ in 0..20 {
        let submitted = Instant::now();
        target.submit(0, operation);
        target.flush().unwrap();
        answered.recv().unwrap();
        thread::sleep(LATE);
        ends.clear();
        while ends.is_empty() {
            target.reap(&mut ends).unwrap();
        }
        let unseen = Duration::from_nanos(ends[0].unseen.0);
        assert!(unseen <= submitted.elapsed(), "{:?}", ends[0]);
        if unseen >= LATE {
            return ends[0];
        }
    }
    panic!("twenty ends were seen at once, the last: {:?}", ends[0]);
}

/// How late [`look_late`] looks.
const LATE: Duration = Duration::from_millis(30);
/// A limit that operations exceed on purpose.
pub(crate) const SHORT: Duration = Duration::from_millis(150);
/// A limit that no operation reaches, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Runs 24 operations with this time limit on the target that `open` makes of its fields; returns their results.
pub(crate) fn against<T: Target>(
    open: impl FnOnce(Value) -> T,
    outstanding: u32,
    limit: Duration,
) -> Vec<i32> {
    let limit = u64::try_from(limit.as_nanos()).unwrap();
    let fields = json!({"connections": 3, "outstanding": outstanding, "timeout_ns": limit});
    drive(&mut open(fields), &[exchange(0, 0); 24])
}

/// Returns whether all results are among these.
pub(crate) fn only(results: &[i32], known: &[i32]) -> bool {
    results.iter().all(|result| known.contains(result))
}

/// Checks the results of operations on a server that never ends an answer.
pub(crate) fn check_limits(results: &[i32], outstanding: u32) {
    let known = [-libc::ETIMEDOUT, -libc::ECONNABORTED];
    assert!(only(results, &known), "{results:?}");
    assert!(results.contains(&-libc::ETIMEDOUT));
    assert_eq!(results.contains(&-libc::ECONNABORTED), outstanding > 1);
}

/// Reads until the client leaves, and answers nothing.
pub(crate) fn be_silent(stream: &mut TcpStream) {
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
}

/// Answers whatever arrives with bytes that are no answer, the same in each run; `bits` are set in each of them.
pub(crate) fn answer_with_garbage(stream: &mut TcpStream, number: usize, bits: u8) {
    let mut word = number as u64 | 1;
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
        // A linear congruential generator: any bytes do.
        let garbage: Vec<u8> = (0..1000)
            .map(|_| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 56) as u8 | bits
            })
            .collect();
        if stream.write_all(&garbage).is_err() {
            return;
        }
    }
}

/// Writes this head, and then one of these pieces every 10 ms, until the client leaves.
pub(crate) fn never_end(stream: &mut TcpStream, head: &[u8], piece: &[u8]) {
    let mut sent = stream.write_all(head);
    while sent.is_ok() {
        thread::sleep(Duration::from_millis(10));
        sent = stream.write_all(piece);
    }
}

/// Passes each datagram that arrives at this address, with its number, to `serve`; returns the port's address. The thread
/// ends with the process.
pub(crate) fn serve_datagrams(
    address: &str,
    mut serve: impl FnMut(&UdpSocket, usize, &[u8], SocketAddr) + Send + 'static,
) -> SocketAddr {
    let socket = UdpSocket::bind(address).unwrap();
    let bound = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        for number in 0.. {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => serve(&socket, number, &buffer[..length], from),
                // An answer reached a port that is closed.
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused),
            }
        }
    });
    bound
}

/// Reads one request head and its body (by Content-Length); None at the end.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<(String, usize)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    assert!(body.iter().all(|&byte| byte == b'x'));
    Some((head, length))
}

/// Writes in pieces of `length` bytes, each in its own packet.
pub(crate) fn write_in_pieces(stream: &mut TcpStream, bytes: &[u8], length: usize) {
    stream.set_nodelay(true).unwrap();
    for piece in bytes.chunks(length) {
        if stream.write_all(piece).is_err() {
            return;
        }
    }
}

/// Closes with a reset instead of an orderly shutdown.
pub(crate) fn reset(stream: TcpStream) {
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}
