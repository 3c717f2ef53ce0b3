//! `bw-launcher`: see docs/launcher-protocol.md.

use bw_process::arguments::{LauncherCommand, USAGE, parse};
use bw_process::barrier::run_barrier;
use bw_process::measure::measure;
use bw_process::supervisor;

fn main() {
    let status = match parse(std::env::args_os().skip(1)) {
        Ok(LauncherCommand::Help) => say(USAGE),
        Ok(LauncherCommand::Version) => {
            say(concat!("bw-launcher ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Ok(LauncherCommand::Serve) => {
            supervisor::serve().unwrap_or_else(|error| fail(1, &error.to_string()))
        }
        Ok(LauncherCommand::Measure(what)) => {
            measure(&what).unwrap_or_else(|e| fail(1, &e.to_string()))
        }
        Ok(LauncherCommand::Barrier(argv)) => run_barrier(&argv),
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
