//! The threads of one process: their time on a processor and waiting for one.
//!
//! `schedstat` of a thread has nanoseconds; where the kernel has none, ticks of `stat` stand
//! in and waiting is absent. Source: the kernel's scheduler/sched-stats, proc_pid_task(5).

use std::path::{Path, PathBuf};

use crate::columns::ABSENT;
use crate::kept::{Kept, Text};
use crate::process_text::{schedstat, stat};
use crate::text::{lines, number, words};

/// One thread, as it was seen last.
#[derive(Debug)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Name.
    pub name: Vec<u8>,
    /// `R`, `S`, `D`...
    pub state: u8,
    /// On a processor since its start [ns].
    pub run_ns: i64,
    /// Runnable but not running since its start [ns].
    pub wait_ns: i64,
    /// `run_ns` when a line had it last [ns].
    pub told_ns: i64,
    schedstat: Option<Kept>,
    stat: Option<Kept>,
    children: Option<Kept>,
    directory: PathBuf,
}

impl Thread {
    /// Opens a thread's files; None: it is gone.
    fn open(directory: PathBuf, tid: i32) -> Option<Self> {
        let schedstat = Kept::open(directory.join("schedstat")).ok();
        let stat = match schedstat {
            Some(_) => None,
            None => Some(Kept::open(directory.join("stat")).ok()?),
        };
        Some(Self {
            tid,
            name: Vec::new(),
            state: b'?',
            run_ns: ABSENT,
            wait_ns: ABSENT,
            told_ns: 0,
            schedstat,
            stat,
            children: None,
            directory,
        })
    }

    /// Reads its times; returns whether it ran since the last time, None where it is gone.
    fn refresh(&mut self, text: &mut Text, tick_ns: i64) -> Option<bool> {
        let (run_ns, wait_ns) = match &self.schedstat {
            Some(file) => {
                file.read_record(text).ok()?;
                schedstat(text.bytes())?
            }
            None => (self.describe(text)? * tick_ns, ABSENT),
        };
        // Ticks are too coarse to say that it did not run.
        let ran = run_ns != self.run_ns || self.schedstat.is_none();
        self.run_ns = run_ns;
        self.wait_ns = wait_ns;
        Some(ran)
    }

    /// Returns its time on a processor since it was told the last time [ns].
    pub fn untold_ns(&self) -> i64 {
        self.run_ns - self.told_ns
    }

    /// Reads its name and state; returns its ticks on a processor. Only those threads that
    /// are told are asked: it costs as much as everything else of a thread.
    pub fn describe(&mut self, text: &mut Text) -> Option<i64> {
        if self.stat.is_none() {
            self.stat = Kept::open(self.directory.join("stat")).ok();
        }
        self.stat.as_ref()?.read_record(text).ok()?;
        let (name, seen) = stat(text.bytes())?;
        self.call(name, seen.state);
        Some(seen.user + seen.system)
    }

    /// Adds the processes that this thread started and that live.
    fn children(&mut self, text: &mut Text, found: &mut Vec<i32>) {
        if self.children.is_none() {
            self.children = Kept::open(self.directory.join("children")).ok();
        }
        let read = self.children.as_ref().map(|file| file.read(text));
        if let Some(Ok(())) = read {
            let pids = lines(text.bytes()).flat_map(words).filter_map(number);
            found.extend(pids.filter_map(|pid| i32::try_from(pid).ok()));
        }
    }

    fn call(&mut self, name: &[u8], state: u8) {
        if self.name != name {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        self.state = state;
    }
}

/// What is known of a process from its own `stat`.
#[derive(Debug, Clone, Copy)]
pub struct Leader<'a> {
    /// Its number, which is that of its first thread.
    pub pid: i32,
    /// Name of the first thread.
    pub name: &'a [u8],
    /// State of the first thread.
    pub state: u8,
    /// How many threads there are.
    pub threads: i64,
}

/// The threads of a process.
#[derive(Debug, Default)]
pub struct Threads {
    /// All of them.
    pub all: Vec<Thread>,
}

impl Threads {
    /// Reads the times of the threads that are known. False: none of them ran, so nothing
    /// else of the process can have changed either.
    pub fn refresh(&mut self, text: &mut Text, tick_ns: i64) -> bool {
        let mut changed = self.all.is_empty();
        self.all.retain_mut(|thread| {
            let ran = thread.refresh(text, tick_ns);
            changed |= ran != Some(false);
            ran.is_some()
        });
        changed
    }

    /// Looks which threads there are, if some may have come or gone, and names the first.
    pub fn look_again(
        &mut self,
        leader: Leader<'_>,
        process: &Path,
        (forked, tick_ns): (bool, i64),
        text: &mut Text,
    ) {
        let changed = self.all.len() as i64 != leader.threads;
        if changed || (forked && leader.threads > 1) {
            self.look(process);
            self.all.retain_mut(|thread| {
                thread.run_ns != ABSENT || thread.refresh(text, tick_ns).is_some()
            });
        }
        if let Some(first) = self.all.iter_mut().find(|one| one.tid == leader.pid) {
            first.call(leader.name, leader.state);
        }
    }

    /// Adds the processes that these threads started and that live.
    pub fn children(&mut self, process: &Path, text: &mut Text, found: &mut Vec<i32>) {
        if self.all.is_empty() {
            self.look(process);
        }
        for thread in &mut self.all {
            thread.children(text, found);
        }
    }

    fn look(&mut self, process: &Path) {
        let task = process.join("task");
        let there = numbers(&task);
        self.all.retain(|thread| there.contains(&thread.tid));
        for tid in there {
            if self.all.iter().all(|thread| thread.tid != tid) {
                let opened = Thread::open(task.join(tid.to_string()), tid);
                self.all.extend(opened);
            }
        }
    }
}

/// Returns the entries of a directory that are numbers, in order.
pub fn numbers(directory: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}
