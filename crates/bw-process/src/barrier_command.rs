//! `bw-launcher barrier`: waits for all processes of the trial, then ends or becomes CMD.
//!
//! Outside a trial (no BW_BARRIER) it goes straight through, so scripts can be tried by hand.
//! Source: docs/launcher-protocol.md; crate::barrier for how it waits.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::barrier::{Barrier, Passage, WORDS};
use crate::clock::monotonic_ns;
use crate::shared::Mapping;

/// Exit status when a process of the trial ended without arriving.
pub const BROKEN: i32 = 71;

/// Waits, then executes `argv` in place if there is one. Returns the exit status.
pub fn barrier(argv: &[OsString]) -> i32 {
    match pass() {
        Ok(Passage::Broken) => {
            eprintln!(
                "bw-launcher barrier: a process of this trial ended without arriving; \
                 the others would wait for ever"
            );
            BROKEN
        }
        Ok(Passage::Released(at_ns)) => {
            note_release(at_ns);
            argv.split_first()
                .map_or(0, |(program, words)| become_command(program, words))
        }
        Err(message) => {
            eprintln!("bw-launcher barrier: {message}");
            BROKEN
        }
    }
}

fn pass() -> Result<Passage, String> {
    let Some(path) = env::var_os("BW_BARRIER").filter(|path| !path.is_empty()) else {
        return Ok(Passage::Released(monotonic_ns()));
    };
    let explain = |error: io::Error| format!("cannot open {}: {error}", path.to_string_lossy());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(explain)?;
    let memory = Mapping::of_file(file.as_fd(), WORDS * 4).map_err(explain)?;
    Ok(Barrier::new(memory.words()).pass())
}

/// For benches/barrier_skew.py: BW_BARRIER_STAMPS names a file for `thread release_ns`.
fn note_release(at_ns: u64) {
    let Some(path) = env::var_os("BW_BARRIER_STAMPS") else {
        return;
    };
    let thread = env::var("APTHREAD").unwrap_or_default();
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut f| f.write_all(format!("{thread} {at_ns}\n").as_bytes()))
    {
        eprintln!("bw-launcher barrier: cannot note the release: {error}");
    }
}

/// `CommandExt::exec` gives SIGPIPE its default back, which Rust's start-up had changed.
fn become_command(program: &OsString, words: &[OsString]) -> i32 {
    let error = Command::new(program).args(words).exec();
    eprintln!(
        "bw-launcher barrier: cannot execute {}: {error}",
        program.to_string_lossy()
    );
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}
