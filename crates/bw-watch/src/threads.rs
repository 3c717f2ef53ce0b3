//! The threads of one process, and the texts of /proc that describe processes and threads.
//!
//! A thread's `schedstat` counts nanoseconds. If the kernel does not provide it, the ticks of `stat` are used and the
//! waiting time is absent. Sources: proc_pid_stat(5), proc_pid_io(5), proc_pid_task(5), the kernel's
//! scheduler/sched-stats.

use crate::blocked::{Place, PlaceFiles};
use crate::columns::{ABSENT, KernelFile, Text};
use crate::own_ends::OwnEnds;
use crate::text::{after, lines, number, signed, words};
use bw_sys::cpus::Affinity;
use bw_sys::procfs::{numbers, split_stat};
use std::path::{Path, PathBuf};

/// The fields of `/proc/PID/stat` that are reported about a process or thread. Times in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R`, `S`, `D`, `Z`...
    pub state: u8,
    /// Parent's process id.
    pub ppid: i64,
    /// Major faults, including those of children that were waited for.
    pub major_faults: i64,
    /// User time.
    pub user: i64,
    /// System time.
    pub system: i64,
    /// User time of children that were waited for.
    pub children_user: i64,
    /// System time of children that were waited for.
    pub children_system: i64,
    /// Number of threads.
    pub threads: i64,
    /// Start time after boot.
    pub start: i64,
    /// Resident pages.
    pub resident: i64,
}

/// Returns the name and the numbers. The name may contain anything, also `)` and blanks: fields
/// are counted from the last bracket.
pub fn stat(text: &[u8]) -> Option<(&[u8], ProcessStat)> {
    let (name, rest) = split_stat(text)?;
    let mut fields = words(lines(rest).next()?);
    let state = *fields.next()?.first()?;
    let mut numbers = [0_i64; 22];
    for value in &mut numbers {
        *value = signed(fields.next()?)?;
    }
    let found = ProcessStat {
        state,
        ppid: numbers[0],
        major_faults: numbers[8].saturating_add(numbers[9]),
        user: numbers[10],
        system: numbers[11],
        children_user: numbers[12],
        children_system: numbers[13],
        threads: numbers[16],
        start: numbers[18],
        resident: numbers[20],
    };
    Some((name, found))
}

/// A thread's `schedstat`, all since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU [ns].
    pub run_ns: i64,
    /// Time runnable but not running [ns].
    pub wait_ns: i64,
    /// How often it was put on a CPU.
    pub turns: i64,
}

/// Returns a thread's times.
pub fn schedstat(text: &[u8]) -> Option<SchedStat> {
    let mut found = words(lines(text).next()?).map(number);
    Some(SchedStat {
        run_ns: found.next()??,
        wait_ns: found.next()??,
        turns: found.next().flatten().unwrap_or(ABSENT),
    })
}

/// Keys of `/proc/PID/io`, in the order of our columns.
const IO: [&[u8]; 6] = [
    b"rchar",
    b"wchar",
    b"read_bytes",
    b"write_bytes",
    b"syscr",
    b"syscw",
];

/// Returns characters read and written, bytes read and written, calls to read and to write.
pub fn io(text: &[u8]) -> Option<[i64; 6]> {
    let mut found = [None; 6];
    for line in lines(text) {
        for (value, key) in found.iter_mut().zip(IO) {
            if let Some(rest) = after(line, key) {
                *value = words(rest).next().and_then(number);
            }
        }
    }
    let mut all = [0; 6];
    for (into, value) in all.iter_mut().zip(found) {
        *into = value?;
    }
    Some(all)
}

/// Returns the soft limit of open files in `/proc/PID/limits`; None: unlimited or not reported.
pub fn open_files_limit(text: &[u8]) -> Option<i64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max open files"))?;
    words(line).next().and_then(number)
}

/// One thread and its last values.
#[derive(Debug)]
pub struct Thread {
    /// Thread id.
    pub tid: i32,
    /// Name.
    pub name: Vec<u8>,
    /// `R`, `S`, `D`...
    pub state: u8,
    /// Time on a CPU since its start [ns].
    pub run_ns: i64,
    /// Time runnable but not running since its start [ns].
    pub wait_ns: i64,
    /// How often it was put on a CPU since its start.
    pub turns: i64,
    /// `run_ns` at the last line that included the thread [ns].
    pub reported_ns: i64,
    /// The CPUs on which it may run, as `0,2`; empty: all, or not known.
    pub cpus: String,
    /// Where it waits; None: it ran or wanted to when it was last looked at, or that is not known.
    pub place: Option<Place>,
    /// `run_ns` when its place was last read.
    placed_ns: i64,
    place_files: Option<PlaceFiles>,
    schedstat: Option<KernelFile>,
    stat: Option<KernelFile>,
    children: Option<KernelFile>,
    directory: PathBuf,
}

impl Thread {
    /// Opens a thread's files; None: it has ended.
    fn open(directory: PathBuf, tid: i32) -> Option<Self> {
        let schedstat = KernelFile::open(directory.join("schedstat")).ok();
        let stat = match schedstat {
            Some(_) => None,
            None => Some(KernelFile::open(directory.join("stat")).ok()?),
        };
        Some(Self {
            tid,
            name: Vec::new(),
            state: b'?',
            run_ns: ABSENT,
            wait_ns: ABSENT,
            turns: ABSENT,
            reported_ns: 0,
            cpus: String::new(),
            place: None,
            placed_ns: ABSENT,
            place_files: None,
            schedstat,
            stat,
            children: None,
            directory,
        })
    }

    /// Reads its times; returns whether it ran since the last time, None if it has ended.
    fn refresh(&mut self, text: &mut Text, tick_ns: i64) -> Option<bool> {
        let seen = match &self.schedstat {
            Some(file) => {
                file.read_record(text).ok()?;
                schedstat(text.bytes())?
            }
            None => SchedStat {
                run_ns: self.describe(text)? * tick_ns,
                wait_ns: ABSENT,
                turns: ABSENT,
            },
        };
        // Ticks are too coarse to show that it did not run.
        let ran = seen.run_ns != self.run_ns || self.schedstat.is_none();
        self.run_ns = seen.run_ns;
        self.wait_ns = seen.wait_ns;
        self.turns = seen.turns;
        Some(ran)
    }

    /// Returns its CPU time since the last report [ns].
    pub(crate) fn unreported_ns(&self) -> i64 {
        self.run_ns - self.reported_ns
    }

    /// Reads where it waits, unless it has not run since the last time. Returns why system calls cannot be read; empty
    /// if they can.
    pub(crate) fn find_place(
        &mut self,
        process: &Path,
        own: &mut OwnEnds,
        text: &mut Text,
    ) -> &str {
        let still = self.place.is_some() && self.placed_ns == self.run_ns;
        let directory = &self.directory;
        let files = self
            .place_files
            .get_or_insert_with(|| PlaceFiles::open(directory));
        if !still || self.schedstat.is_none() {
            self.place = files.place(process, own, text);
            self.placed_ns = self.run_ns;
        }
        files.absent()
    }

    /// Reads its name and state; returns its ticks on a CPU. Called only for threads that
    /// are reported, because it costs as much as everything else about a thread.
    pub(crate) fn describe(&mut self, text: &mut Text) -> Option<i64> {
        if self.stat.is_none() {
            self.stat = KernelFile::open(self.directory.join("stat")).ok();
        }
        self.stat.as_ref()?.read_record(text).ok()?;
        let (name, seen) = stat(text.bytes())?;
        self.call(name, seen.state);
        Some(seen.user + seen.system)
    }

    /// Reads on which of the `online` CPUs it may run.
    pub(crate) fn find_cpus(&mut self, online: &[u32]) {
        let Some(affinity) = Affinity::of(self.tid) else {
            return;
        };
        self.cpus.clear();
        let allowed: Vec<usize> = affinity.cpus().collect();
        let may = |cpu: &&u32| allowed.binary_search(&(**cpu as usize)).is_ok();
        if online.iter().filter(may).count() < online.len() {
            let texts: Vec<String> = online.iter().filter(may).map(u32::to_string).collect();
            self.cpus = texts.join(",");
        }
    }

    /// Adds the living processes that this thread started.
    fn children(&mut self, text: &mut Text, found: &mut Vec<i32>) {
        if self.children.is_none() {
            self.children = KernelFile::open(self.directory.join("children")).ok();
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

/// The data of a process from its own `stat`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MainThread<'a> {
    /// Process id, which is also the id of its first thread.
    pub pid: i32,
    /// Name of the first thread.
    pub name: &'a [u8],
    /// State of the first thread.
    pub state: u8,
    /// Number of threads.
    pub threads: i64,
}

/// The threads of a process.
#[derive(Debug, Default)]
pub struct Threads {
    /// All of them.
    pub all: Vec<Thread>,
}

impl Threads {
    /// Reads the times of the known threads. False: none of them ran, so nothing
    /// else about the process can have changed either.
    pub fn refresh(&mut self, text: &mut Text, tick_ns: i64) -> bool {
        let mut changed = self.all.is_empty();
        self.all.retain_mut(|thread| {
            let ran = thread.refresh(text, tick_ns);
            changed |= ran != Some(false);
            ran.is_some()
        });
        changed
    }

    /// Lists the threads, if some may have started or ended, and names the first.
    pub(crate) fn look_again(
        &mut self,
        leader: MainThread<'_>,
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

    /// Adds the living processes that these threads started.
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

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"7 (a) Z 1) R 3 7 7 0 -1 4194304 98 5 2 1 10 20 30 40 20 0 6 0 \
        5970732 3133440 358 18446744073709551615 1\n";

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let (name, found) = stat(STAT).unwrap();
        assert_eq!(name, b"a) Z 1");
        assert_eq!((found.state, found.ppid, found.threads), (b'R', 3, 6));
        assert_eq!((found.user, found.children_system), (10, 40));
        assert_eq!(
            (found.major_faults, found.start, found.resident),
            (3, 5_970_732, 358)
        );
    }

    #[test]
    fn a_text_that_was_cut_is_none() {
        assert_eq!(stat(&STAT[..40]), None);
        assert_eq!(stat(b") x ("), None);
        assert_eq!(io(b"rchar: 1\nwchar: 2\n"), None);
    }

    #[test]
    fn small_files_are_read() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
            cancelled_write_bytes: 0\n";
        assert_eq!(io(text), Some([1, 2, 5, 6, 3, 4]));
        let seen = SchedStat {
            run_ns: 64_640,
            wait_ns: 49_969,
            turns: 2,
        };
        assert_eq!(schedstat(b"64640 49969 2\n"), Some(seen));
        let limits = b"Limit  Soft Hard Units\nMax open files            1024  4096   files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
        assert_eq!(
            open_files_limit(b"Max open files  unlimited unlimited\n"),
            None
        );
    }
}
