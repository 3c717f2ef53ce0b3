//! All processes of the machine, by the tree that they belong to.
//!
//! A process belongs to whom its parent belonged when it was first seen, for as long as it
//! lives: an orphan keeps its tree. Who is new is looked for only when the kernel's count of
//! forks has risen: in the `children` files of the trees, or, where the kernel has none
//! (CONFIG_PROC_CHILDREN), in one listing of /proc. Who has not run since the last look is
//! not looked at closer. Decision: files stay open, so a number that is used again is never
//! mistaken: the old file answers ESRCH.
//! Sources: proc_pid_stat(5), proc_tid_children(5).
//!
//! What is looked at of a process that belongs to a trial, at every sample.

use crate::columns::{ABSENT, KernelFile, Text};
use crate::threads::{self, MainThread, ProcessStat, Threads, schedstat, stat};
use bw_sys::procfs::numbers;
use bw_sys::reason;
use std::io;
use std::path::{Path, PathBuf};

/// Whose a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The trial's own tree.
    Own,
    /// The tree of a server that the trial drives.
    Target,
    /// The program that measures.
    Watcher,
    /// Everybody else's.
    Other,
}

/// One process, as it was seen last.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    /// Its number.
    pub pid: i32,
    pub name: Vec<u8>,
    /// Its numbers.
    pub seen: ProcessStat,
    /// Whose it is.
    pub class: Class,
    /// A watcher at the root of the own tree or in it: its children are the trial's, and
    /// so is what it has waited for.
    pub holds_own: bool,
    /// What is looked at more often; None for Other.
    pub member: Option<Box<Member>>,
    stat: KernelFile,
    /// Of a process of one thread of no tree: says whether it ran, for a fifth of
    /// what `stat` costs.
    schedstat: Option<KernelFile>,
    ran: Option<(i64, i64)>,
}

/// What a look at the members needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Somebody may have been started since the last one.
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

    /// Reads it again. False: it is gone, and maybe another has its number.
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

    /// Reads a member again with its threads and what it read and wrote. False: it is gone.
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

/// The processes, in the order of their numbers.
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
    /// Looks at all processes there are. `named` says whose certain processes are; `root` is
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
        // From here on a number may be used again by another process.
        table.named.clear();
        table
    }

    /// Returns whether there is a process of that number.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.place(pid).is_ok()
    }

    fn place(&self, pid: i32) -> Result<usize, usize> {
        self.all.binary_search_by_key(&pid, |process| process.pid)
    }

    /// Finds who is new since the last time.
    pub(crate) fn find_new(&mut self) {
        if self.lists_children {
            self.descend();
        } else {
            self.list();
            self.settle();
        }
    }

    /// Reads everybody else's processes again, and finds who is new on the whole machine.
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
            // One that ended meanwhile will be no member whatever is done.
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

    /// Reads one process, whether it is known or not: its number may have been another process's.
    fn look_again(&mut self, pid: i32) {
        if let Ok(place) = self.place(pid)
            && !self.all[place].refresh(&mut self.text)
        {
            self.all.remove(place);
        }
        self.add(pid);
    }

    /// Gives those of no tree to the tree of their parents, until nothing changes: a
    /// child may have a lower number than its parent.
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

    /// Returns whether a watcher is the root of the own tree or below it. The sampler is not:
    /// it starts nothing.
    fn holds_own(&self, place: usize) -> bool {
        let mut pid = self.all[place].pid;
        if pid == std::process::id() as i32 {
            return false;
        }
        // No chain is longer than the table, whatever the numbers in it are.
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
    /// Returns whose its children are: a watcher's are the trial's where it stands in the
    /// own tree, and else to none.
    fn heirs(&self) -> Class {
        match self.class {
            Class::Watcher if self.holds_own => Class::Own,
            Class::Watcher => Class::Other,
            class => class,
        }
    }
}

/// After these samples of its life a process's cgroups are looked at: it may be moved right
/// after its start. Then once a second.
const EARLY: [u32; 4] = [0, 1, 2, 4];

/// A process of the own tree, of a target, or a watcher.
#[derive(Debug)]
pub(crate) struct Member {
    /// `/proc/PID`.
    pub directory: PathBuf,
    pub threads: Threads,
    /// As `threads::io`; ABSENT where it cannot be read.
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

    /// Reads what it has read and written; of a process that is ending the last is kept.
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

    /// Returns why its `io` cannot be read; None: it can.
    pub(crate) fn io_reason(&self) -> Option<String> {
        let error = self.io_file.as_ref().err()?;
        let path = self.directory.join("io");
        Some(format!("{}: {}", path.display(), reason(error)))
    }

    /// Returns the text of its cgroups if it is time to look and they are not those of before.
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
