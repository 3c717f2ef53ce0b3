//! A server in threads, whose connections a test serves.

#![allow(dead_code, clippy::unwrap_used)]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A server on a port of the loopback: each connection gets a thread, which ends with it.
pub(crate) struct Server {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Serves every connection with `serve`, which receives its number.
    pub(crate) fn start(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let serve = Arc::clone(&serve);
                let number = counter.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(number, stream.unwrap()));
            }
        });
        Self { address, accepted }
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}
