//! The barrier of N processes: words in shared memory and a futex.
//!
//! Arrival: waiters sleep on `generation`; the last to arrive increments it and wakes them.
//! Release: each process that is awake counts itself and yields until all are, so that none executes its program
//! (an execve takes hundreds of microseconds of CPU time) before the others have a CPU. A process then records the
//! time of the release and yields once more (benches/barrier_skew.py measures the skew).
//! Rejected: Auto-pilot's System V semaphore with a wait for zero, which cannot be reused and cannot report that a
//! process died.
//! Sources: futex(2), sched_yield(2); APIPCKEY of the Auto-pilot paper, section 3.2.
//!
//! `bw-launcher barrier` waits for all processes of the trial, then exits or executes CMD. Outside a trial (no
//! BW_BARRIER) it does not wait, so scripts can be tested by hand. Source: docs/launcher-protocol.md.

use bw_sys::clock::monotonic_ns;
use bw_sys::cpus::yield_now;
use bw_sys::futex::{self, Scope};
use bw_sys::memory::Mapping;
use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of words that a barrier needs: six, each on its own cache line.
pub const WORDS: usize = 6 * LINE;
const LINE: usize = 16;
const BROKEN: u32 = 1;
const STEP: u32 = 2;
/// Yields before a waiter that is awake goes back to sleep, because others may be stopped.
const PATIENCE_YIELDS: u32 = 20_000;
/// Yields of a released process, so that the others see the release too; never worth a long wait.
const COURTESY_YIELDS: u32 = 2_000;
const NAP: Duration = Duration::from_millis(5);

/// The result of a wait at the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// All arrived; CLOCK_MONOTONIC when this process noticed [ns].
    Released(u64),
    /// A participant ended without arriving.
    Broken,
}

/// A barrier in memory that all participants share.
#[derive(Debug, Clone, Copy)]
pub struct Barrier<'a> {
    total: &'a AtomicU32,
    arrived: &'a AtomicU32,
    /// Incremented by STEP at each release; its lowest bit means that the barrier is broken.
    generation: &'a AtomicU32,
    awake: &'a AtomicU32,
    /// The generation that may run.
    go: &'a AtomicU32,
    left: &'a AtomicU32,
}

fn wake_all(word: &AtomicU32) {
    futex::wake(word, u32::MAX, Scope::Shared);
}

impl<'a> Barrier<'a> {
    /// Returns the barrier in the first `WORDS` words.
    pub fn new(words: &'a [AtomicU32]) -> Self {
        Self {
            total: &words[0],
            arrived: &words[LINE],
            generation: &words[2 * LINE],
            awake: &words[3 * LINE],
            go: &words[4 * LINE],
            left: &words[5 * LINE],
        }
    }

    /// Resets the barrier, also a broken one, for `total` participants; none may be waiting.
    pub fn reset(&self, total: u32) {
        self.total.store(total, Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.awake.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        // A straggler of an earlier epoch must not be released by this one's generation.
        let next = (self.generation.load(Ordering::Relaxed) & !BROKEN).wrapping_add(STEP);
        self.go.store(next, Ordering::Relaxed);
        self.generation.store(next, Ordering::SeqCst);
    }

    /// Marks the barrier broken, because a participant has ended. Waiters return with `Broken`.
    pub(crate) fn break_up(&self) {
        self.generation.fetch_or(BROKEN, Ordering::SeqCst);
        if self.arrived.load(Ordering::SeqCst) > 0 {
            wake_all(self.generation);
        }
    }

    /// Waits until all have arrived. Async-signal-safe.
    pub fn pass(&self) -> Passage {
        let generation = self.generation.load(Ordering::SeqCst);
        let total = self.total.load(Ordering::Relaxed);
        if generation & BROKEN != 0 && total > 1 {
            return Passage::Broken;
        }
        if total <= 1 {
            return Passage::Released(monotonic_ns());
        }
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == total {
            self.open();
        } else if !self.sleep(generation) {
            return Passage::Broken;
        }
        let passage = self.gather(generation.wrapping_add(STEP), total);
        if passage != Passage::Broken {
            self.leave(total);
        }
        passage
    }

    /// Yields after the release until the others have seen it too, at most `COURTESY_YIELDS` times.
    fn leave(&self, total: u32) {
        self.left.fetch_add(1, Ordering::SeqCst);
        for _ in 0..COURTESY_YIELDS {
            if self.left.load(Ordering::SeqCst) >= total {
                return;
            }
            yield_now();
        }
    }

    fn open(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.awake.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        self.generation.fetch_add(STEP, Ordering::SeqCst);
        wake_all(self.generation);
    }

    /// Returns whether the generation changed; false: the barrier broke.
    fn sleep(&self, generation: u32) -> bool {
        loop {
            let now = self.generation.load(Ordering::SeqCst);
            if now & !BROKEN != generation {
                return true;
            }
            if now & BROKEN != 0 {
                return false;
            }
            futex::wait(self.generation, generation, None, Scope::Shared);
        }
    }

    /// Waits until all are awake, so that they are released together.
    fn gather(&self, generation: u32, total: u32) -> Passage {
        if self.awake.fetch_add(1, Ordering::SeqCst) + 1 == total {
            self.go.store(generation, Ordering::SeqCst);
            let at_ns = monotonic_ns();
            wake_all(self.go);
            return Passage::Released(at_ns);
        }
        // The first reading of the clock faults its page in: that must not happen between `go` and the stamp.
        std::hint::black_box(monotonic_ns());
        let mut yields = 0;
        loop {
            // Broken is read first: a participant that is released and ends at once breaks the barrier after `go`.
            let broken = self.generation.load(Ordering::SeqCst) & BROKEN != 0;
            let go = self.go.load(Ordering::SeqCst);
            if go == generation {
                return Passage::Released(monotonic_ns());
            }
            if broken {
                return Passage::Broken;
            }
            if yields < PATIENCE_YIELDS {
                yields += 1;
                yield_now();
            } else {
                futex::wait(self.go, go, Some(NAP), Scope::Shared);
            }
        }
    }
}

/// Exit status when a process of the trial ended without arriving.
pub(crate) const BROKEN_STATUS: i32 = 71;

/// Waits, then executes `argv` in place if there is one. Returns the exit status.
pub fn run_barrier(argv: &[OsString]) -> i32 {
    match pass_barrier() {
        Ok(Passage::Broken) => {
            eprintln!(
                "bw-launcher barrier: a process of this trial ended without arriving; \
                 the others would wait for ever"
            );
            BROKEN_STATUS
        }
        Ok(Passage::Released(at_ns)) => {
            note_release(at_ns);
            argv.split_first()
                .map_or(0, |(program, words)| become_command(program, words))
        }
        Err(message) => {
            eprintln!("bw-launcher barrier: {message}");
            BROKEN_STATUS
        }
    }
}

fn pass_barrier() -> Result<Passage, String> {
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

/// For benches/barrier_skew.py: appends `thread release_ns` to the file that BW_BARRIER_STAMPS names.
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

/// Executes the command. `CommandExt::exec` restores the default of SIGPIPE, which Rust's start-up changes.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pass_in_threads(barrier: Barrier<'_>, threads: u32, rounds: u32) -> Vec<Passage> {
        std::thread::scope(|scope| {
            let body = move || -> Vec<_> { (0..rounds).map(|_| barrier.pass()).collect() };
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(body)).collect();
            all.into_iter().flat_map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn lets_all_through_again_and_again() {
        let memory = Mapping::shared(4096).unwrap();
        let barrier = Barrier::new(memory.words());
        barrier.reset(5);
        let passages = pass_in_threads(barrier, 5, 200);
        assert!(passages.iter().all(|p| matches!(p, Passage::Released(_))));
    }

    #[test]
    fn nobody_leaves_a_round_before_all_have_arrived() {
        let memory = Mapping::shared(4096).unwrap();
        let barrier = Barrier::new(memory.words());
        barrier.reset(4);
        let arrived = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        barrier.pass();
                        assert!(arrived.load(Ordering::SeqCst) >= 4 * round);
                    }
                });
            }
        });
    }

    #[test]
    fn a_missing_participant_breaks_it() {
        let memory = Mapping::shared(4096).unwrap();
        let barrier = Barrier::new(memory.words());
        barrier.reset(3);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..2).map(|_| scope.spawn(|| barrier.pass())).collect();
            barrier.break_up();
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Passage::Broken);
            }
        });
        assert_eq!(barrier.pass(), Passage::Broken);
        barrier.reset(1);
        assert!(matches!(barrier.pass(), Passage::Released(_)));
    }
}
