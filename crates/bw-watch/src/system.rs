//! The sampler's system calls: clocks as signed numbers, termination signals, waiting for input, and open files.

use bw_sys::poll::{Interrupts, poll, readable};
use bw_sys::process::{die_with_parent, parent_id};
use bw_sys::signals::{self, Disposition};
use std::path::Path;
use std::{fs, io};

/// Returns CLOCK_MONOTONIC [ns].
pub(crate) fn monotonic_ns() -> i64 {
    bw_sys::clock::monotonic_ns().cast_signed()
}

/// Returns CLOCK_REALTIME [ns since 1970].
pub(crate) fn realtime_ns() -> i64 {
    bw_sys::clock::realtime_ns().cast_signed()
}

/// Returns the CPU time of this process [ns].
pub(crate) fn cpu_ns() -> i64 {
    bw_sys::clock::process_cpu_ns().cast_signed()
}

/// Returns the page size [bytes] and the clock ticks per second.
pub(crate) fn units() -> (i64, i64) {
    let page = rustix::param::page_size() as i64;
    (page, rustix::param::clock_ticks_per_second().cast_signed())
}

/// The signals after which the file is finished and the sampler ends.
const ENDING: [i32; 2] = [libc::SIGTERM, libc::SIGHUP];

/// Requests SIGTERM at the parent's death, and blocks SIGTERM and SIGHUP, which mean "finish the file and end". Ctrl-C
/// is ignored because `bw` handles it. False: the parent has ended already.
pub(crate) fn prepare_to_end() -> bool {
    let parent = parent_id();
    signals::count_caught(&ENDING, None);
    // With SIGXFSZ ignored, reaching the file size limit is an error of write(2), like a full disk.
    for signal in [libc::SIGINT, libc::SIGXFSZ, libc::SIGPIPE] {
        signals::set_disposition(signal, Disposition::Ignore);
    }
    // Blocked except while `wait` sleeps, so none is missed.
    signals::block(&ENDING);
    die_with_parent(parent, libc::SIGTERM)
}

/// Returns whether a termination signal has arrived.
pub(crate) fn must_end() -> bool {
    signals::caught() > 0
}

/// Sleeps until `deadline_ns` (CLOCK_MONOTONIC; None: no deadline), a signal, or input on standard input;
/// returns whether there is input.
pub(crate) fn wait(deadline_ns: Option<i64>) -> io::Result<bool> {
    let deadline = deadline_ns.map(|deadline| deadline.max(0).cast_unsigned());
    match poll(
        &mut [readable(libc::STDIN_FILENO)],
        deadline,
        Interrupts::All,
    ) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        found => found.map(|found| found > 0),
    }
}

/// Calls `take` with the target and the path of each link to an open file; returns false if not all could be read.
pub(crate) fn each_open(
    process: &Path,
    left: &mut usize,
    mut take: impl FnMut(&str, &Path),
) -> bool {
    let Ok(entries) = fs::read_dir(process.join("fd")) else {
        // It has ended.
        return !process.exists();
    };
    for entry in entries.flatten() {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        let path = entry.path();
        if let Ok(name) = fs::read_link(&path) {
            take(&name.to_string_lossy(), &path);
        }
    }
    true
}
