//! All processes of the machine, and the tree that each belongs to.
//!
//! A process belongs to the tree of the parent that it had when it was first seen, for as long as it
//! lives: an orphan stays in its tree. New processes are looked for only when the kernel's count of
//! forks has risen: in the `children` files of the trees, or, if the kernel does not provide these
//! (CONFIG_PROC_CHILDREN), in one listing of /proc. A process that has not run since the last sample is
//! not examined further. Decision: files stay open, so a reused process id is never
//! mistaken for the old process: the old file answers ESRCH.
//! Sources: proc_pid_stat(5), proc_tid_children(5).
//!
//! The members of a trial's trees are read in more detail at every sample.

use crate::columns::{ABSENT, KernelFile, Text};
use crate::threads::{self, MainThread, ProcessStat, SchedStat, Threads, schedstat, stat};
use bw_sys::procfs::numbers;
use bw_sys::reason;
use std::io;
use std::path::{Path, PathBuf};

/// The tree that a process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The trial's own tree.
    Own,
    /// The tree of a server that the trial drives.
    Target,
    /// The program that measures.
    Watcher,
    /// No tree: other programs.
    Other,
}

/// One process and its last values.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    /// Process id.
    pub pid: i32,
    pub name: Vec<u8>,
    /// Its last values.
    pub seen: ProcessStat,
    /// Its tree.
    pub class: Class,
    /// Whether it is a watcher at the root of the own tree or in it: its children belong to the trial, and
    /// so does the CPU time of those it has waited for.
    pub holds_own: bool,
    /// Data that are read more often; None for `Other`.
    pub member: Option<Box<Member>>,
    stat: KernelFile,
    /// For a process of `Other` with one thread: shows whether it ran, at a fifth of
    /// the cost of `stat`.
    schedstat: Option<KernelFile>,
    ran: Option<SchedStat>,
}

/// The parameters of one look at the members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Whether processes may have been started since the last look.
    pub forked: bool,
    /// A clock tick [ns].
    pub tick_ns: i64,
}

impl WatchedProcess {
    fn open(proc: &Path, pid: i32, text: &mut Text) -> Option<Self> {
        let mut process = Self {
            pid,
            name: Vec::new(),
            seen: ProcessStat::default(),
            class: Class::Other,
            holds_own: false,
            member: None,
            stat: KernelFile::open(proc.join(format!("{pid}/stat"))).ok()?,
            schedstat: KernelFile::open(proc.join(format!("{pid}/schedstat"))).ok(),
            ran: None,
        };
        process.read(text)?;
        Some(process)
    }

    fn read(&mut self, text: &mut Text) -> Option<()> {
        self.stat.read_record(text).ok()?;
        let (name, seen) = stat(text.bytes())?;
        if self.name != name {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        self.seen = seen;
        Some(())
    }

    /// Reads the process again. False: it has ended, and its id may be reused.
    fn refresh(&mut self, text: &mut Text) -> bool {
        if self.seen.threads == 1 && self.slept(text) {
            return true;
        }
        let start = self.seen.start;
        self.read(text).is_some() && self.seen.start == start
    }

    /// Returns whether it has not run since the last time.
    fn slept(&mut self, text: &mut Text) -> bool {
        let read = self.schedstat.as_ref().map(|file| file.read_record(text));
        let Some(Ok(())) = read else { return false };
        let before = self.ran;
        self.ran = schedstat(text.bytes());
        self.ran.is_some() && self.ran == before
    }

    /// Reads a member again with its threads and its I/O. False: it has ended.
    fn refresh_member(&mut self, look: Look, text: &mut Text) -> bool {
        let Some(mut member) = self.member.take() else {
            return true;
        };
        let lives = self.refresh_all_of(&mut member, look, text);
        self.member = Some(member);
        lives
    }

    fn refresh_all_of(&mut self, member: &mut Member, look: Look, text: &mut Text) -> bool {
        if !member.threads.refresh(text, look.tick_ns) {
            return true;
        }
        let start = self.seen.start;
        if self.read(text).is_none() || self.seen.start != start {
            return false;
        }
        let leader = MainThread {
            pid: self.pid,
            name: &self.name,
            state: self.seen.state,
            threads: self.seen.threads,
        };
        let moment = (look.forked, look.tick_ns);
        let threads = &mut member.threads;
        threads.look_again(leader, &member.directory, moment, text);
        (self.class == Class::Watcher && !self.holds_own) || member.refresh_io(text)
    }
}

/// The processes, in the order of their ids.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    /// All of them.
    pub all: Vec<WatchedProcess>,
    proc: PathBuf,
    root: i32,
    named: Vec<(i32, Class)>,
    lists_children: bool,
    text: Text,
}

impl ProcessTable {
    /// Reads all existing processes. `named` gives the classes of certain processes; `root` is
    /// the root of the own tree, and may be a watcher itself.
    pub(crate) fn new(proc: &Path, root: i32, named: Vec<(i32, Class)>) -> Self {
        let lists_children = proc.join(format!("{root}/task/{root}/children")).exists();
        let mut table = Self {
            all: Vec::new(),
            proc: proc.to_owned(),
            root,
            named,
            lists_children,
            text: Text::default(),
        };
        table.list();
        table.settle();
        // From here on an id may be reused by another process.
        table.named.clear();
        table
    }

    /// Returns whether there is a process with this id.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.place(pid).is_ok()
    }

    fn place(&self, pid: i32) -> Result<usize, usize> {
        self.all.binary_search_by_key(&pid, |process| process.pid)
    }

    /// Finds processes that are new since the last time.
    pub(crate) fn find_new(&mut self) {
        if self.lists_children {
            self.descend();
        } else {
            self.list();
            self.settle();
        }
    }

    /// Reads all other programs' processes again, and finds new ones on the whole machine.
    pub(crate) fn refresh_others(&mut self) {
        let text = &mut self.text;
        self.all
            .retain_mut(|process| process.member.is_some() || process.refresh(text));
        self.list();
        self.settle();
    }

    /// Reads the members again. Returns whether one has ended.
    pub(crate) fn refresh_members(&mut self, look: Look) -> bool {
        let before = self.all.len();
        let text = &mut self.text;
        self.all
            .retain_mut(|process| process.refresh_member(look, text));
        self.all.len() < before
    }

    fn list(&mut self) {
        for pid in numbers(&self.proc) {
            self.add(pid);
        }
    }

    /// Adds a process that is not in the table.
    fn add(&mut self, pid: i32) {
        if let Err(place) = self.place(pid)
            && let Some(process) = WatchedProcess::open(&self.proc, pid, &mut self.text)
        {
            self.all.insert(place, process);
        }
    }

    /// Adds the children of members, theirs, and so on.
    fn descend(&mut self) {
        let mut found = Vec::new();
        loop {
            found.clear();
            for process in self
                .all
                .iter_mut()
                .filter(|process| process.heirs() != Class::Other)
            {
                if let Some(member) = &mut process.member {
                    let threads = &mut member.threads;
                    threads.children(&member.directory, &mut self.text, &mut found);
                }
            }
            found.retain(|child| !self.is_member(*child));
            if found.is_empty() {
                return;
            }
            for child in &found {
                self.look_again(*child);
            }
            self.settle();
            // A process that has ended since then cannot become a member.
            found.retain(|child| self.is_member(*child));
            if found.is_empty() {
                return;
            }
        }
    }

    fn is_member(&self, pid: i32) -> bool {
        self.place(pid)
            .is_ok_and(|place| self.all[place].member.is_some())
    }

    /// Reads one process, whether it is known or not, because its id may have been another process's.
    fn look_again(&mut self, pid: i32) {
        if let Ok(place) = self.place(pid)
            && !self.all[place].refresh(&mut self.text)
        {
            self.all.remove(place);
        }
        self.add(pid);
    }

    /// Adds processes without a tree to the trees of their parents, until nothing changes: a
    /// child may have a lower id than its parent.
    fn settle(&mut self) {
        loop {
            let mut changed = false;
            for place in 0..self.all.len() {
                if self.all[place].class != Class::Other {
                    continue;
                }
                let class = self.class_of(&self.all[place]);
                if class == Class::Other {
                    continue;
                }
                let holds_own = class == Class::Watcher && self.holds_own(place);
                let process = &mut self.all[place];
                process.class = class;
                process.holds_own = holds_own;
                let directory = self.proc.join(process.pid.to_string());
                process.member = Some(Box::new(Member::new(directory)));
                changed = true;
            }
            if !changed {
                return;
            }
        }
    }

    fn class_of(&self, process: &WatchedProcess) -> Class {
        if let Some((_, class)) = self.named.iter().find(|(pid, _)| *pid == process.pid) {
            return *class;
        }
        let parent = i32::try_from(process.seen.ppid)
            .ok()
            .map(|pid| self.place(pid));
        match parent {
            Some(Ok(place)) => self.all[place].heirs(),
            _ => Class::Other,
        }
    }

    /// Returns whether a watcher is the root of the own tree or below it. The sampler does not count:
    /// it starts nothing.
    fn holds_own(&self, place: usize) -> bool {
        let mut pid = self.all[place].pid;
        if pid == std::process::id() as i32 {
            return false;
        }
        // No chain is longer than the table, whatever ids it contains.
        for _ in 0..self.all.len() {
            if pid == self.root {
                return true;
            }
            let Ok(place) = self.place(pid) else {
                return false;
            };
            pid = i32::try_from(self.all[place].seen.ppid).unwrap_or(0);
        }
        false
    }
}

impl WatchedProcess {
    /// Returns the class of its children: those of a watcher belong to the trial if it is in the
    /// own tree, otherwise to no tree.
    fn heirs(&self) -> Class {
        match self.class {
            Class::Watcher if self.holds_own => Class::Own,
            Class::Watcher => Class::Other,
            class => class,
        }
    }
}

/// The samples of a process's life at which its cgroups are read: it may be moved right
/// after its start. Later they are read once a second.
const EARLY: [u32; 4] = [0, 1, 2, 4];

/// The details of a process of the own tree, of a target, or of a watcher.
#[derive(Debug)]
pub(crate) struct Member {
    /// `/proc/PID`.
    pub directory: PathBuf,
    pub threads: Threads,
    /// As `threads::io`; ABSENT if it cannot be read.
    pub io: [i64; 6],
    io_file: Result<KernelFile, io::Error>,
    cgroup_file: Option<KernelFile>,
    cgroups: Vec<u8>,
    samples: u32,
}

impl Member {
    /// Opens its files.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            threads: Threads::default(),
            io: [ABSENT; 6],
            io_file: KernelFile::open(directory.join("io")),
            cgroup_file: KernelFile::open(directory.join("cgroup")).ok(),
            cgroups: Vec::new(),
            samples: 0,
            directory,
        }
    }

    /// Reads its I/O; the last values remain if the process is ending.
    /// False: it has ended.
    pub(crate) fn refresh_io(&mut self, text: &mut Text) -> bool {
        let Ok(file) = &self.io_file else {
            return true;
        };
        match file.read_record(text) {
            Ok(()) => {
                self.io = threads::io(text.bytes()).unwrap_or(self.io);
                true
            }
            Err(error) => {
                let ended = error.raw_os_error() == Some(libc::ESRCH);
                if !ended {
                    self.io_file = Err(error);
                }
                !ended
            }
        }
    }

    /// Returns why its `io` cannot be read; None if it can.
    pub(crate) fn io_reason(&self) -> Option<String> {
        let error = self.io_file.as_ref().err()?;
        let path = self.directory.join("io");
        Some(format!("{}: {}", path.display(), reason(error)))
    }

    /// Returns the text of its cgroups if they are due to be read and have changed.
    pub(crate) fn new_cgroups(&mut self, each_second: bool, text: &mut Text) -> Option<&[u8]> {
        let samples = self.samples;
        self.samples = samples.saturating_add(1);
        if !each_second && !EARLY.contains(&samples) {
            return None;
        }
        self.cgroup_file.as_ref()?.read(text).ok()?;
        if text.bytes() == self.cgroups {
            return None;
        }
        self.cgroups.clear();
        self.cgroups.extend_from_slice(text.bytes());
        Some(&self.cgroups)
    }
}
