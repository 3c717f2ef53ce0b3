//! The trees of a trial, its targets and its watchers: their sums, the lines about them, and their open files.
//!
//! From Linux 6.2 the size of /proc/PID/fd is the number of its entries. The sampler tests this on itself;
//! if it does not hold, the entries are counted.

use crate::arguments::Roots;
use crate::blocked::{Object, Place};
use crate::cgroup::Cgroups;
use crate::columns::{ABSENT, ColumnKind, Columns, KernelFile, Text};
use crate::output;
use crate::own_ends::OwnEnds;
use crate::processes::{Class, Look, ProcessTable, WatchedProcess};
use crate::sockets::TreeSockets;
use crate::text::cpu_list;
use crate::threads::open_files_limit;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of threads in one line.
const SHOWN: usize = 64;

/// Columns of a tree, in order.
const SUMS: [(&str, ColumnKind); 16] = [
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
    ("segments_out", ColumnKind::Counter),
    ("retransmits", ColumnKind::Counter),
    ("listen_drops", ColumnKind::Counter),
    ("datagram_drops", ColumnKind::Counter),
];
/// The first of the columns about sockets.
const OF_SOCKETS: usize = 12;
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
    sockets: TreeSockets,
    own_ends: OwnEnds,
    /// The online CPUs; empty if the processes are not those of this machine.
    online: Vec<u32>,
    /// Why it cannot be read where threads wait; empty if it can.
    unplaced: String,
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
            sockets: TreeSockets::default(),
            own_ends: OwnEnds::default(),
            online: online(roots),
            unplaced: String::new(),
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

    /// Starts to count what sockets lose.
    pub(crate) fn begin_sockets(&mut self) {
        self.sockets.begin();
    }

    /// Counts what the sockets of the trees have lost.
    pub(crate) fn count_sockets(&mut self) {
        let processes = self.table.all.iter().filter_map(|process| {
            let tree = tree_of(process.class)?;
            Some((process.member.as_ref()?.directory.as_path(), tree))
        });
        self.sockets.count(processes);
    }

    /// Returns what could not be read since the watch began, and why.
    pub(crate) fn absent(&self) -> Vec<(String, String)> {
        let all = [
            ("own/waits", &self.unplaced),
            ("own/retransmits", &self.sockets.absent),
        ];
        let told = all.into_iter().filter(|(_, why)| !why.is_empty());
        told.map(|(what, why)| (what.to_owned(), why.clone()))
            .collect()
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
    fn sums(&self, class: Class) -> [i64; 16] {
        let mut sums = [ABSENT; 16];
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
        if let Some(tree) = tree_of(class) {
            sums[OF_SOCKETS..].copy_from_slice(&self.sockets.sums(tree));
        }
        sums
    }

    /// Adds the usage of processes that the watchers in the own tree have waited for. The kernel adds a child's I/O
    /// to theirs, so it includes their own. Returns whether all could be read.
    fn add_waited_for(&self, sums: &mut [i64; 16]) -> bool {
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
            if class == Class::Own {
                self.learn_labels();
            }
            let (all, sockets) = (&self.table.all, &self.sockets);
            output::array(out, &self.shown, |out, (_, process, thread)| {
                write_thread(out, &all[*process], *thread, sockets);
            });
            out.extend_from_slice(b",\"more\":");
            output::integer(out, more);
            self.write_affinities(out);
            out.extend_from_slice(b"}\n");
        }
    }

    /// Writes which of the shown threads may run on which CPUs, if not on all.
    fn write_affinities(&self, out: &mut Vec<u8>) {
        let mut confined: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (_, place, nth) in &self.shown {
            let member = self.table.all[*place].member.as_ref();
            if let Some(thread) = member.map(|member| &member.threads.all[*nth])
                && !thread.cpus.is_empty()
            {
                confined.entry(&thread.cpus).or_default().push(thread.tid);
            }
        }
        if confined.is_empty() {
            return;
        }
        out.extend_from_slice(b",\"affinities\":");
        output::array(out, confined, |out, (cpus, tids)| {
            out.push(b'[');
            output::string(out, cpus.as_bytes());
            out.push(b',');
            output::array(out, tids, |out, tid| output::integer(out, i64::from(tid)));
            out.push(b']');
        });
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
        if class == Class::Own {
            let all = self.table.all.iter();
            let own = all.filter(|process| process.class == class);
            self.own_ends.note_processes(own.map(|process| process.pid));
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
                if thread.unreported_ns() > 0 {
                    thread.find_cpus(&self.online);
                }
                thread.reported_ns = thread.run_ns;
                if class == Class::Own {
                    let own = &mut self.own_ends;
                    let why = thread.find_place(&member.directory, own, &mut self.text);
                    if !why.is_empty() && self.unplaced.is_empty() {
                        why.clone_into(&mut self.unplaced);
                    }
                }
            }
        }
        more as i64
    }

    /// Looks for the labels of the sockets that threads wait for.
    fn learn_labels(&mut self) {
        let all = &self.table.all;
        let places = self.shown.iter().filter_map(|(_, process, thread)| {
            let member = all[*process].member.as_ref()?;
            member.threads.all[*thread].place.as_ref()
        });
        let objects = places.flat_map(|place| &place.objects);
        let wanted: Vec<u64> = objects
            .filter_map(|object| match object {
                Object::Socket(inode) => Some(*inode),
                Object::Other(_) => None,
            })
            .collect();
        self.sockets.learn_labels(&wanted);
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

fn online(roots: &Roots) -> Vec<u32> {
    if roots.proc != Roots::default().proc {
        return Vec::new();
    }
    let text = fs::read_to_string(roots.sys.join("devices/system/cpu/online"));
    cpu_list(text.unwrap_or_default().trim()).unwrap_or_default()
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

fn write_thread(out: &mut Vec<u8>, process: &WatchedProcess, thread: usize, sockets: &TreeSockets) {
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
    if process.class == Class::Own {
        out.push(b',');
        output::value(out, thread.turns);
        out.push(b',');
        output::integer(out, process.seen.ppid);
        out.push(b',');
        match &thread.place {
            Some(place) => write_place(out, place, sockets),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b']');
}

fn write_place(out: &mut Vec<u8>, place: &Place, sockets: &TreeSockets) {
    out.push(b'[');
    output::string(out, place.call.as_bytes());
    out.push(b',');
    output::string(out, &place.channel);
    out.push(b',');
    output::array(out, &place.objects, |out, object| {
        let text = match object {
            Object::Socket(inode) => sockets.label(*inode),
            Object::Other(text) => text,
        };
        output::string(out, text.as_bytes());
    });
    if let Some(limited) = place.limited {
        let text: &[u8] = if limited { b",true" } else { b",false" };
        out.extend_from_slice(text);
    }
    out.push(b']');
}

fn width(class: Class) -> usize {
    if class == Class::Watcher {
        OF_WATCHERS
    } else {
        SUMS.len()
    }
}

/// Returns the number of a tree whose sockets are counted.
fn tree_of(class: Class) -> Option<usize> {
    match class {
        Class::Own => Some(0),
        Class::Target => Some(1),
        Class::Watcher | Class::Other => None,
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
    sys: PathBuf,
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
            sys: roots.sys.clone(),
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
            Some((process, open, limit, devices(&directory, &self.sys)))
        });
        let counted: Vec<_> = counted.collect();
        if counted.is_empty() {
            return;
        }
        output::begin(out, "files_open", t);
        out.extend_from_slice(b",\"rows\":");
        output::array(out, counted, |out, (process, open, limit, devices)| {
            out.push(b'[');
            output::integer(out, i64::from(process.pid));
            out.push(b',');
            output::string(out, &process.name);
            out.push(b',');
            output::integer(out, open);
            out.push(b',');
            output::value(out, limit.unwrap_or(crate::columns::ABSENT));
            out.push(b',');
            output::array(out, devices, |out, name| {
                output::string(out, name.as_bytes());
            });
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

/// Maximum number of open files of a process whose devices are examined.
const MOST_EXAMINED: usize = 64;

/// Returns the disks of a process's working directory and of its open files, by name; `MAJOR:MINOR` for a file system
/// without one disk of its own, such as btrfs or overlay.
fn devices(process: &Path, sys: &Path) -> BTreeSet<String> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let files = open.flatten().take(MOST_EXAMINED).map(|entry| entry.path());
    std::iter::once(process.join("cwd"))
        .chain(files)
        .filter_map(|path| device_number(&path))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter_map(|number| disk_name(number, sys))
        .collect()
}

fn device_number(path: &Path) -> Option<(u32, u32)> {
    // Without asking the server of a file system.
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::BlockDevice => Some((found.stx_rdev_major, found.stx_rdev_minor)),
        FileType::RegularFile | FileType::Directory => {
            Some((found.stx_dev_major, found.stx_dev_minor))
        }
        _ => None,
    }
}

fn disk_name((major, minor): (u32, u32), sys: &Path) -> Option<String> {
    let number = format!("{major}:{minor}");
    let Ok(target) = fs::read_link(sys.join("dev/block").join(&number)) else {
        return Some(number);
    };
    // Of a partition, the disk: `../../devices/.../block/vda/vda1`.
    let mut parts = target.iter().skip_while(|part| *part != "block").skip(1);
    Some(parts.next()?.to_string_lossy().into_owned())
}

fn count_entries(fd: &Path) -> Option<i64> {
    i64::try_from(fs::read_dir(fd).ok()?.count()).ok()
}
