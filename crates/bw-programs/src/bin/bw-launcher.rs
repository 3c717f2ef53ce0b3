//! `bw-launcher`: see docs/launcher-protocol.md.

use bw_process::arguments::{Action, USAGE, parse};
use bw_process::barrier_command::barrier;
use bw_process::guard;
use bw_process::measure::measure;

fn main() {
    let status = match parse(std::env::args_os().skip(1)) {
        Ok(Action::Help) => say(USAGE),
        Ok(Action::Version) => say(concat!("bw-launcher ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Action::Serve) => guard::serve().unwrap_or_else(|error| fail(1, &error.to_string())),
        Ok(Action::Measure(what)) => measure(&what).unwrap_or_else(|e| fail(1, &e.to_string())),
        Ok(Action::Barrier(argv)) => barrier(&argv),
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
