//! A server of NFS version 3 without files, which answers every call as fast as it can: for `benches/nfs_speed.py`.
//! It prints its port, and ends when its standard input does.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};

#[path = "../tests/nfs_server/mod.rs"]
mod nfs_server;

fn main() {
    let server = nfs_server::NfsServer::start(|_| nfs_server::Action::Answer);
    let port = server.address.port();
    writeln!(std::io::stdout(), "{port}").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
