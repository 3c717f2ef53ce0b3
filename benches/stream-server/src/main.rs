//! Serves streams until it is killed. Usage: stream-server PLAN, where PLAN is JSON as [`Plan`] has it, e.g.
//! `{"tokens": 100, "pace": {"type": "fixed", "first_ns": 50000000, "gap_ns": 10000000}}`. Prints its port.

use std::io::{Error, Write, stdout};
use std::net::TcpListener;
use stream_server::{Plan, Server};

fn main() -> Result<(), Error> {
    let text = std::env::args().nth(1).unwrap_or_default();
    let plan: Plan = serde_json::from_str(&text)?;
    let listener = TcpListener::bind(("127.0.0.1", plan.port))?;
    writeln!(stdout(), "{}", listener.local_addr()?.port())?;
    Server::new(listener, plan)?.run()
}
