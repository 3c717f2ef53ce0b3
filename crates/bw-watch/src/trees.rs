//! The trees of a trial, its targets and its watchers: their sums, the lines about them, and their open files.
//!
//! From Linux 6.2 the size of /proc/PID/fd is the number of its entries. The sampler tests this on itself;
//! if it does not hold, the entries are counted.

use crate::arguments::Roots;
use crate::cgroup::Cgroups;
use crate::columns::{ABSENT, ColumnKind, Columns, KernelFile, Text};
use crate::output;
use crate::processes::{Class, Look, ProcessTable, WatchedProcess};
use crate::threads::open_files_limit;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of threads in one line.
const SHOWN: usize = 64;

/// Columns of a tree, in order.
const SUMS: [(&str, ColumnKind); 12] = [
    ("user_ns", ColumnKind::Counter),
    ("system_ns", ColumnKind::Counter),
    ("read_chars", ColumnKind::Counter),
    ("written_chars", ColumnKind::Counter),
    ("read_bytes", ColumnKind::Counter),
    ("write_bytes", ColumnKind::Counter),
    ("read_calls", ColumnKind::Counter),
    ("write_calls", ColumnKind::Counter),
    ("major_faults", ColumnKind::Counter),
    ("processes", ColumnKind::Gauge),
    ("threads", ColumnKind::Gauge),
    ("rss", ColumnKind::Gauge),
];
/// For watchers only the first two columns are reported.
const OF_WATCHERS: usize = 2;

/// The trees and their process table.
#[derive(Debug)]
pub(crate) struct Trees {
    /// All processes.
    pub table: ProcessTable,
    classes: Vec<Class>,
    tick_ns: i64,
    page_kib: i64,
    open_files: OpenFiles,
    text: Text,
    shown: Vec<(i64, usize, usize)>,
}

impl Trees {
    /// Finds the trees of the named processes; `root` is the root of the own tree.
    pub(crate) fn new(
        roots: &Roots,
        root: i32,
        named: Vec<(i32, Class)>,
        (page, ticks): (i64, i64),
    ) -> Self {
        let targets = named.iter().any(|(_, class)| *class == Class::Target);
        let mut classes = vec![Class::Own];
        classes.extend(targets.then_some(Class::Target));
        classes.push(Class::Watcher);
        Self {
            table: ProcessTable::new(&roots.proc, root, named),
            classes,
            tick_ns: 1_000_000_000 / ticks.max(1),
            page_kib: page / 1024,
            open_files: OpenFiles::new(roots),
            text: Text::default(),
            shown: Vec::new(),
        }
    }

    /// Adds the columns.
    pub(crate) fn learn(&self, columns: &mut Columns) {
        for class in &self.classes {
            let count = width(*class);
            for (name, kind) in &SUMS[..count] {
                columns.add(format!("{}/{name}", name_of(*class)), *kind);
            }
        }
    }

    /// Reads the trees. `forked`: a process may have been started since the last time.
    pub(crate) fn look(&mut self, forked: bool, each_second: bool) {
        if each_second {
            self.table.refresh_others();
        } else if forked {
            self.table.find_new();
        }
        let look = Look {
            forked: forked || each_second,
            tick_ns: self.tick_ns,
        };
        // When a process ends, its counts move to its parent: a sum that read one before and the other
        // after contains them twice, or not at all. A second look counts them once.
        if self.table.refresh_members(look) {
            self.table.refresh_members(look);
        }
    }

    /// Returns which data of a tree may not be read, and why, once for each tree.
    pub(crate) fn unreadable(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for class in &self.classes {
            let unread = self.members(*class).find_map(|process| {
                let member = process.member.as_ref()?;
                (process.class != Class::Watcher).then(|| member.io_reason())?
            });
            if let Some(why) = unread {
                found.push((format!("{}/read_chars", name_of(*class)), why.clone()));
                found.push(("files_open".to_owned(), why));
            }
        }
        found
    }

    /// Adds the members' cgroups. Returns whether there are new columns.
    pub(crate) fn note_cgroups(
        &mut self,
        cgroups: &mut Cgroups,
        each_second: bool,
        t: i64,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut changed = false;
        for process in &mut self.table.all {
            let of = name_of(process.class);
            let reported = matches!(process.class, Class::Own | Class::Target);
            if let Some(member) = process.member.as_mut().filter(|_| reported)
                && let Some(text) = member.new_cgroups(each_second, &mut self.text)
            {
                changed |= cgroups.note(text, of, t, out);
            }
        }
        changed
    }

    /// Writes the sums.
    pub(crate) fn sum(&self, values: &mut [i64]) {
        let mut rest = values;
        for class in &self.classes {
            let (into, others) = rest.split_at_mut(width(*class));
            rest = others;
            let sums = self.sums(*class);
            into.copy_from_slice(&sums[..into.len()]);
        }
    }

    /// Returns the sums of a tree; ABSENT for a tree without a living process, or with a living process that may
    /// not be read: a partial sum is wrong, and a complete one after it would look like a burst.
    fn sums(&self, class: Class) -> [i64; 12] {
        let mut sums = [ABSENT; 12];
        let mut all_read = true;
        for process in self.members(class) {
            let Some(member) = &process.member else {
                continue;
            };
            let seen = &process.seen;
            // What a watcher in its own tree waited for is reported there.
            let (user, system) = if process.holds_own {
                (0, 0)
            } else {
                (seen.children_user, seen.children_system)
            };
            add(&mut sums[0], (seen.user + user) * self.tick_ns);
            add(&mut sums[1], (seen.system + system) * self.tick_ns);
            all_read &= member.io[0] != ABSENT || seen.state == b'Z';
            for (sum, value) in sums[2..8].iter_mut().zip(member.io) {
                add(sum, value);
            }
            add(&mut sums[8], seen.major_faults);
            add(&mut sums[9], 1);
            add(&mut sums[10], seen.threads);
            add(&mut sums[11], seen.resident * self.page_kib);
        }
        if class == Class::Own {
            all_read &= self.add_waited_for(&mut sums);
        }
        if !all_read {
            sums[2..8].fill(ABSENT);
        }
        sums
    }

    /// Adds the usage of processes that the watchers in the own tree have waited for. The kernel adds a child's I/O
    /// to theirs, so it includes their own. Returns whether all could be read.
    fn add_waited_for(&self, sums: &mut [i64; 12]) -> bool {
        let mut all_read = true;
        for process in self.members(Class::Watcher).filter(|one| one.holds_own) {
            let Some(member) = &process.member else {
                continue;
            };
            add(&mut sums[0], process.seen.children_user * self.tick_ns);
            add(&mut sums[1], process.seen.children_system * self.tick_ns);
            all_read &= member.io[0] != ABSENT;
            for (sum, value) in sums[2..8].iter_mut().zip(member.io) {
                add(sum, value);
            }
        }
        all_read
    }

    fn members(&self, class: Class) -> impl Iterator<Item = &WatchedProcess> {
        self.table
            .all
            .iter()
            .filter(move |process| process.class == class)
    }

    /// Writes the lines `own`, `target`, `watcher`.
    pub(crate) fn write_threads(&mut self, t: i64, out: &mut Vec<u8>) {
        for place in 0..self.classes.len() {
            let class = self.classes[place];
            let more = self.choose(class);
            if self.shown.is_empty() {
                continue;
            }
            output::begin(out, name_of(class), t);
            out.extend_from_slice(b",\"rows\":");
            let all = &self.table.all;
            output::array(out, &self.shown, |out, (_, process, thread)| {
                write_thread(out, &all[*process], *thread);
            });
            out.extend_from_slice(b",\"more\":");
            output::integer(out, more);
            out.extend_from_slice(b"}\n");
        }
    }

    /// Chooses the threads that ran most and reads their names; returns how many are left out.
    fn choose(&mut self, class: Class) -> i64 {
        self.shown.clear();
        for (place, process) in self.table.all.iter().enumerate() {
            if let Some(member) = process.member.as_ref().filter(|_| process.class == class) {
                let threads = member.threads.all.iter().enumerate();
                self.shown
                    .extend(threads.map(|(nth, thread)| (-thread.unreported_ns(), place, nth)));
            }
        }
        let more = self.shown.len().saturating_sub(SHOWN);
        if more > 0 {
            self.shown.sort_unstable();
            self.shown.truncate(SHOWN);
        }
        for (_, place, nth) in &self.shown {
            let process = &mut self.table.all[*place];
            if let Some(member) = &mut process.member {
                let thread = &mut member.threads.all[*nth];
                if thread.tid != process.pid
                    && (thread.unreported_ns() > 0 || thread.name.is_empty())
                {
                    thread.describe(&mut self.text);
                }
                thread.reported_ns = thread.run_ns;
            }
        }
        more as i64
    }

    /// Writes the line `processes`.
    pub(crate) fn write_processes(&self, t: i64, out: &mut Vec<u8>) {
        output::begin(out, "processes", t);
        out.extend_from_slice(b",\"rows\":");
        output::array(out, &self.table.all, |out, process| {
            let seen = &process.seen;
            out.push(b'[');
            output::integer(out, i64::from(process.pid));
            out.push(b',');
            output::integer(out, seen.ppid);
            out.push(b',');
            output::string(out, &process.name);
            out.push(b',');
            output::integer(out, seen.user + seen.system);
            out.push(b',');
            output::integer(out, seen.start);
            out.push(b']');
        });
        out.extend_from_slice(b"}\n");
    }

    /// Writes the line `files_open`.
    pub(crate) fn write_open_files(&mut self, t: i64, out: &mut Vec<u8>) {
        let all = &self.table.all;
        let reported = all
            .iter()
            .filter(|p| matches!(p.class, Class::Own | Class::Target));
        self.open_files.write(reported, t, out);
    }
}

fn add(sum: &mut i64, value: i64) {
    if value != ABSENT {
        *sum = if *sum == ABSENT {
            value
        } else {
            sum.saturating_add(value)
        };
    }
}

fn write_thread(out: &mut Vec<u8>, process: &WatchedProcess, thread: usize) {
    let Some(thread) = process
        .member
        .as_ref()
        .map(|member| &member.threads.all[thread])
    else {
        return;
    };
    out.push(b'[');
    output::integer(out, i64::from(process.pid));
    out.push(b',');
    output::integer(out, i64::from(thread.tid));
    out.push(b',');
    output::string(out, &thread.name);
    out.push(b',');
    output::string(out, &[thread.state]);
    out.push(b',');
    output::value(out, thread.run_ns);
    out.push(b',');
    output::value(out, thread.wait_ns);
    out.push(b']');
}

fn width(class: Class) -> usize {
    if class == Class::Watcher {
        OF_WATCHERS
    } else {
        SUMS.len()
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Own => "own",
        Class::Target => "target",
        Class::Watcher => "watcher",
        Class::Other => "other",
    }
}

/// Counts open files.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    proc: PathBuf,
    size_counts: bool,
    text: Text,
}

impl OpenFiles {
    /// Determines how to count.
    pub(crate) fn new(roots: &Roots) -> Self {
        let own = roots.proc.join("self/fd");
        // The listing of a descriptor directory includes the descriptor that lists it.
        let size = directory_size(&own).map(|size| size + 1);
        Self {
            size_counts: size.is_some() && size == count_entries(&own),
            proc: roots.proc.clone(),
            text: Text::default(),
        }
    }

    /// Writes the line `files_open`, if there is anything to report.
    pub(crate) fn write<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a WatchedProcess>,
        t: i64,
        out: &mut Vec<u8>,
    ) {
        let counted = processes.filter_map(|process| {
            let directory = self.proc.join(process.pid.to_string());
            let fd = directory.join("fd");
            let open = if self.size_counts {
                directory_size(&fd)
            } else {
                count_entries(&fd)
            }?;
            let limits = KernelFile::open(directory.join("limits"));
            let read = limits.and_then(|file| file.read(&mut self.text)).ok();
            let limit = read.and_then(|()| open_files_limit(self.text.bytes()));
            Some((process, open, limit))
        });
        let counted: Vec<_> = counted.collect();
        if counted.is_empty() {
            return;
        }
        output::begin(out, "files_open", t);
        out.extend_from_slice(b",\"rows\":");
        output::array(out, counted, |out, (process, open, limit)| {
            out.push(b'[');
            output::integer(out, i64::from(process.pid));
            out.push(b',');
            output::string(out, &process.name);
            out.push(b',');
            output::integer(out, open);
            out.push(b',');
            output::value(out, limit.unwrap_or(crate::columns::ABSENT));
            out.push(b']');
        });
        out.extend_from_slice(b"}\n");
    }
}

/// Returns the number of entries by the size. Reading the size needs no permission, but without one the result is 0.
fn directory_size(fd: &Path) -> Option<i64> {
    let size = i64::try_from(fs::metadata(fd).ok()?.len()).ok()?;
    if size > 0 {
        Some(size)
    } else {
        count_entries(fd)
    }
}

fn count_entries(fd: &Path) -> Option<i64> {
    i64::try_from(fs::read_dir(fd).ok()?.count()).ok()
}
