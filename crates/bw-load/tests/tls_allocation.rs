//! What TLS allocates for an operation: rustls makes the bytes of each record that is sent, and the content of each that
//! is received. Allocations of the target's thread are counted.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::tcp::TcpSpec;
use counting::allocations;
use network::certificates::{Authority, Validity};
use network::{Server, drive, exchange};
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Arc;

#[path = "../../bw-sys/tests/counting/mod.rs"]
mod counting;
mod network;

const BYTES: usize = 100;
const OPERATIONS: usize = 10_000;

#[test]
fn an_operation_allocates_its_two_records() {
    let Some(authority) = Authority::make("allocation") else {
        return;
    };
    authority.issue("server", "DNS:localhost,IP:127.0.0.1", Validity::Now);
    let config = authority.server_config("server");
    let server = Server::start(move |_, stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut content = [0; BYTES];
        while stream.read_exact(&mut content).is_ok() && stream.write_all(&content).is_ok() {}
    });
    let spec = json!({"host": "127.0.0.1", "port": server.address.port(), "connections": 4,
        "tls": {"ca": authority.file("ca.pem")}});
    let spec: TcpSpec = serde_json::from_value(spec).unwrap();
    let mut target = spec.plan(PlanOptions::default()).unwrap().open(4).unwrap();
    let operations = vec![exchange(0, BYTES as u32); OPERATIONS];
    // The session tickets come with the first answers.
    drive(&mut target, &operations[..100]);
    let driver = {
        let before = allocations();
        drive(&mut target, &[]);
        allocations() - before
    };
    let before = allocations();
    let results = drive(&mut target, &operations);
    let made = allocations() - before;
    assert!(results.iter().all(|&result| result == BYTES as i32));
    assert_eq!(target.describe().reconnects, 0);
    assert!(driver > 0, "the allocator counts");
    // The driver has a few vectors of its own.
    let of_records = made.saturating_sub(driver) as usize;
    assert!(
        of_records <= 2 * OPERATIONS + 10,
        "{of_records} allocations in {OPERATIONS} operations"
    );
}
