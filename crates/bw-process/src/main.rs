//! `bw-launcher`: see docs/launcher-protocol.md.

use bw_process::arguments::{Action, USAGE, parse};
use bw_process::guard;

fn main() {
    let status = match parse(std::env::args_os().skip(1)) {
        Ok(Action::Help) => say(USAGE),
        Ok(Action::Version) => say(concat!("bw-launcher ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Action::Serve) => guard::serve().unwrap_or_else(|error| fail(1, &error.to_string())),
        Err(message) => fail(2, &format!("{message}\n{USAGE}")),
    };
    std::process::exit(status);
}

fn say(text: &str) -> i32 {
    print!("{text}");
    0
}

fn fail(status: i32, message: &str) -> i32 {
    eprintln!("bw-launcher: {message}");
    status
}
