//! What the trial's threads waited for in a window, from the places in which samples found them.
//!
//! A program that uses hardly any CPU time and no resource fully waits for something. Decision: only samples in which no
//! thread of the trial ran or was ready count, because the wait of one thread explains nothing while another works. Of
//! these samples the waits of threads count that others do not explain: not those of a process for its children, nor of
//! a thread for others of its process, while one of these waits for something outside. A main thread that waits for
//! something outside is what its process waits for: other threads are then mostly idle helpers, and so are children at a
//! futex that processes share. Threads at one futex wait for one lock if it is passed on, that is, if one of them is
//! later found elsewhere: idle helpers of a pool are at one futex too, and stay there. Those of several processes count
//! if they share it and have it at one address, as after a fork. A thread that waits for others of its process with a
//! time limit is the last of its chain: if nothing outside is waited for, it sleeps. At a futex without a time limit it
//! waits for a lock or for work; if the limit is not known, nothing is claimed. What lost: a lock is any futex of several
//! threads (the compiler threads of each JVM are at one). The share of this time is bounded by CPU times, which are
//! exact; only what it was spent on is a count of samples. CPU time of threads that no sample shows, such as short-lived
//! children, is spread over as many threads as samples saw at once: over one if the program never had two ready, because
//! its steps then follow each other. Source: docs/watch-format.md.

use super::file::{PlaceRow, ThreadRow, ThreadsLine};
use super::resource_use::{OffCpuUse, WaitKind, WaitUse};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The most places that are counted: memory does not grow with the time watched.
const MOST_PLACES: usize = 256;
/// The probability of so few busy samples below which CPU time was that of more threads at once.
const IMPLAUSIBLE: f64 = 0.01;
/// In place of the process of a futex that processes share.
const SHARED: i64 = 0;
/// Begin of the kernel's functions for files in memory.
const MEMORY: &str = "shmem_";
/// Begins of calls that wait for any of several descriptors.
const POLLS: [&str; 5] = ["poll", "ppoll", "select", "pselect6", "epoll_"];
/// Begins of calls on paths and mappings, which wait for the disk.
const FILES: [&str; 14] = [
    "open",
    "unlink",
    "mkdir",
    "rename",
    "stat",
    "lstat",
    "newfstatat",
    "sync",
    "msync",
    "madvise",
    "mmap",
    "execve",
    "io_getevents",
    "close",
];
/// Begins of the kernel's functions, for processes whose system calls may not be read.
const CHANNELS: [(&[&str], WaitKind); 4] = [
    (&["pipe_", "anon_pipe_"], WaitKind::Pipe),
    (&["do_wait", "kernel_clone", "kernel_wait"], WaitKind::Child),
    (
        &[
            "sk_wait",
            "wait_woken",
            "inet_",
            "tcp_",
            "unix_",
            "__skb_wait",
        ],
        WaitKind::Network,
    ),
    (
        &[
            "folio_",
            "io_schedule",
            "jbd2_",
            "submit_bio",
            "blk",
            "__sync_dirty",
            "wait_on_",
            "xlog_",
        ],
        WaitKind::Disk,
    ),
];

fn begins(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.starts_with(word))
}

/// Returns what a thread waits for.
fn kind_of(place: &PlaceRow) -> WaitKind {
    let (call, channel) = (place.call.as_str(), place.channel.as_str());
    if matches!(call, "nanosleep" | "clock_nanosleep") || channel == "hrtimer_nanosleep" {
        return WaitKind::Sleep;
    }
    if call == "futex" || channel.starts_with("futex") {
        return WaitKind::Thread;
    }
    match call {
        "wait4" | "waitid" | "vfork" | "clone" | "clone3" => return WaitKind::Child,
        "flock" | "fcntl" | "semop" | "semtimedop" => return WaitKind::Locks,
        "io_uring_enter" => return WaitKind::Ring,
        _ if matches!(channel, "wait_for_partner" | "fifo_open") => return WaitKind::Pipe,
        "page fault" if channel.starts_with(MEMORY) => return WaitKind::Other,
        "page fault" if channel.contains("rwsem") => return WaitKind::Locks,
        "page fault" => return WaitKind::Disk,
        "" => {
            let found = CHANNELS.iter().find(|(words, _)| begins(channel, words));
            return found.map_or(WaitKind::Other, |(_, kind)| *kind);
        }
        _ => {}
    }
    const BY_WEIGHT: [WaitKind; 6] = [
        WaitKind::Network,
        WaitKind::Pipe,
        WaitKind::Disk,
        WaitKind::Other,
        WaitKind::Sleep,
        WaitKind::Thread,
    ];
    let kinds = place.objects.iter().map(|text| kind_of_object(text));
    let heaviest = kinds.min_by_key(|kind| BY_WEIGHT.iter().position(|one| one == kind));
    if let Some(kind) = heaviest {
        return kind;
    }
    let is_poll = begins(call, &POLLS);
    if is_poll && place.limited == Some(true) {
        WaitKind::Sleep
    } else if !is_poll && begins(call, &FILES) && !channel.starts_with(MEMORY) {
        WaitKind::Disk
    } else {
        WaitKind::Other
    }
}

/// Returns the kind of an object by its first word; `own`: only the process itself has its other end.
fn kind_of_object(text: &str) -> WaitKind {
    if begins(text, &["tcp ", "udp ", "socket"]) {
        return WaitKind::Network;
    }
    match text.split(' ').next() {
        Some("pipe") => WaitKind::Pipe,
        Some("file") => WaitKind::Disk,
        Some("timer") => WaitKind::Sleep,
        Some("event" | "own") => WaitKind::Thread,
        _ => WaitKind::Other,
    }
}

/// Returns what a wait for other threads of the process is if nothing else is waited for.
fn inner_kind(place: &PlaceRow) -> WaitKind {
    match place.limited {
        Some(true) => WaitKind::Sleep,
        Some(false) if place.call == "futex" => WaitKind::Locks,
        _ => WaitKind::Other,
    }
}

/// Counts, in the order in which things were first counted.
#[derive(Debug)]
struct Tally<K> {
    places: HashMap<K, usize>,
    counts: Vec<(K, usize)>,
}

impl<K: Clone + Eq + Hash> Tally<K> {
    fn new() -> Self {
        Self {
            places: HashMap::new(),
            counts: Vec::new(),
        }
    }

    fn add(&mut self, key: K, count: usize) {
        let next = self.counts.len();
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            self.counts.push((key, 0));
        }
        self.counts[place].1 += count;
    }

    fn has(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// Returns all, the most frequent first; of equals the one that was counted first.
    fn most_common(&self) -> Vec<&(K, usize)> {
        let mut found: Vec<_> = self.counts.iter().collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.1));
        found
    }

    fn top(&self) -> Option<&K> {
        Some(&self.most_common().first()?.0)
    }
}

/// A process, or `SHARED`, and the address of a futex of it.
type Futex = (i64, String);
type Waiting<'a> = (&'a ThreadRow, &'a PlaceRow);
/// A thread's name, its place, and what it waits for.
type NamedWait<'a> = (&'a str, &'a PlaceRow, WaitKind);

/// The waits of the trial's own threads from one moment to another.
#[derive(Debug)]
pub(super) struct WindowWaits {
    root_pid: i64,
    begin_ns: i64,
    end_ns: i64,
    samples: usize,
    /// Samples in which no thread ran or was ready.
    idle: usize,
    /// Samples in which one did.
    alone: usize,
    /// The most threads that ran or were ready in one sample.
    crowd: i64,
    kinds: Tally<WaitKind>,
    places: Tally<(WaitKind, String, PlaceRow)>,
    /// The most threads that waited so at once.
    most: HashMap<WaitKind, usize>,
    /// The first thread that was seen at a futex.
    waiters: HashMap<Futex, i64>,
    /// Futexes at which several threads were seen.
    crowded: HashSet<Futex>,
    /// Crowded futexes from which a thread went on to wait elsewhere.
    passed_on: HashSet<Futex>,
    /// The futex of each thread in the last sample.
    futexes: HashMap<i64, Futex>,
}

impl WindowWaits {
    pub(super) fn new(root_pid: i64, begin_ns: i64, end_ns: i64) -> Self {
        Self {
            root_pid,
            begin_ns,
            end_ns,
            samples: 0,
            idle: 0,
            alone: 0,
            crowd: 1,
            kinds: Tally::new(),
            places: Tally::new(),
            most: HashMap::new(),
            waiters: HashMap::new(),
            crowded: HashSet::new(),
            passed_on: HashSet::new(),
            futexes: HashMap::new(),
        }
    }

    /// Adds a table of the own tree.
    pub(super) fn take(&mut self, table: &ThreadsLine) {
        if !(self.begin_ns..=self.end_ns).contains(&table.t.0) {
            return;
        }
        // Without parents, the series is of a version that did not look for waits.
        let rows = table.rows.iter();
        let rows: Vec<&ThreadRow> = rows
            .filter(|row| row.parent != 0 && self.counts(row))
            .collect();
        if rows.is_empty() {
            return;
        }
        self.samples += 1;
        let found: Vec<Waiting<'_>> = rows
            .iter()
            .filter_map(|row| Some((*row, row.place.as_ref()?)))
            .collect();
        let ready = rows.len() - found.len();
        self.alone += usize::from(ready == 1);
        self.crowd = self.crowd.max(ready as i64);
        if ready > 0 {
            return;
        }
        self.idle += 1;
        let mut kinds = Tally::new();
        for (name, place, kind) in self.explaining(&found) {
            let key = (kind, name.to_owned(), place.clone());
            if self.places.has(&key) || self.places.counts.len() < MOST_PLACES {
                kinds.add(kind, 1);
                self.places.add(key, 1);
            }
        }
        for (kind, count) in kinds.counts {
            self.kinds.add(kind, 1);
            let most = self.most.entry(kind).or_default();
            *most = count.max(*most);
        }
    }

    /// Returns whether a thread can be what the trial waits in: not the launcher's, an ended one, or the kernel's.
    fn counts(&self, row: &ThreadRow) -> bool {
        row.pid != self.root_pid
            && !matches!(row.state.as_str(), "Z" | "X")
            && !begins(&row.name, &["bw-launcher", "iou-"])
    }

    /// Returns the waits of a sample that no other wait of the sample explains.
    fn explaining<'a>(&mut self, found: &[Waiting<'a>]) -> Vec<NamedWait<'a>> {
        self.note_futexes(found);
        let kinds: Vec<WaitKind> = found.iter().map(|one| self.kind(*one)).collect();
        let is_main = |row: &ThreadRow| row.tid == row.pid;
        // Processes whose main thread itself waits for something outside.
        let led: HashSet<i64> = found
            .iter()
            .zip(&kinds)
            .filter(|((row, _), kind)| {
                let is_inside =
                    matches!(kind, WaitKind::Child | WaitKind::Thread | WaitKind::Locks);
                is_main(row) && !is_inside
            })
            .map(|((row, _), _)| row.pid)
            .collect();
        let parents: HashSet<i64> = found.iter().map(|(row, _)| row.parent).collect();
        // Idle helpers are at a futex too, so a thread's name would say nothing about who waits.
        let programs: HashMap<i64, &str> = found
            .iter()
            .filter(|(row, _)| is_main(row))
            .map(|(row, _)| (row.pid, row.name.as_str()))
            .collect();
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for ((row, place), kind) in found.iter().copied().zip(kinds) {
            let is_inner = kind_of(place) == WaitKind::Thread;
            let program = programs.get(&row.pid).filter(|_| is_inner);
            let name = program.copied().unwrap_or(&row.name);
            if led.contains(&row.pid) && !is_main(row) {
                continue;
            }
            if led.contains(&row.parent) && futex(row, place).0 == SHARED {
                continue;
            }
            match kind {
                WaitKind::Child => inside.push((name, place, WaitKind::Other)),
                WaitKind::Thread => inside.push((name, place, inner_kind(place))),
                // It reads what its child writes, or waits for a signal of its end.
                WaitKind::Other | WaitKind::Pipe if parents.contains(&row.pid) => {
                    inside.push((name, place, kind));
                }
                _ => outside.push((name, place, kind)),
            }
        }
        if !outside.is_empty() {
            return outside;
        }
        let has = |wanted: fn(WaitKind) -> bool| inside.iter().any(|one| wanted(one.2));
        if has(|kind| kind == WaitKind::Sleep) {
            inside.retain(|one| one.2 == WaitKind::Sleep);
        } else if has(|kind| kind != WaitKind::Other) {
            inside.retain(|one| one.2 != WaitKind::Other);
        }
        inside
    }

    fn note_futexes(&mut self, found: &[Waiting<'_>]) {
        let at_futex =
            |(_, place): &&Waiting<'_>| place.call == "futex" && !place.objects.is_empty();
        let now: Vec<(i64, Futex)> = found
            .iter()
            .filter(at_futex)
            .map(|(row, place)| (row.tid, futex(row, place)))
            .collect();
        for (tid, at) in &now {
            if *self.waiters.entry(at.clone()).or_insert(*tid) != *tid {
                self.crowded.insert(at.clone());
            }
        }
        let now: HashMap<i64, Futex> = now.into_iter().collect();
        for (row, _) in found {
            if let Some(before) = self.futexes.get(&row.tid)
                && self.crowded.contains(before)
                && now.get(&row.tid) != Some(before)
            {
                self.passed_on.insert(before.clone());
            }
        }
        self.futexes = now;
    }

    fn kind(&self, (row, place): Waiting<'_>) -> WaitKind {
        let kind = kind_of(place);
        if kind == WaitKind::Thread && self.passed_on.contains(&futex(row, place)) {
            return WaitKind::Locks;
        }
        kind
    }

    /// Returns the waits; None without any sample.
    ///
    /// `least`: the least share of the window in which no thread can have run or been ready, from CPU times; `threads`:
    /// the share in which each thread that is known ran or was ready; `ran`: CPU time of all threads, of ended ones too
    /// [cores]; `cpus`: how many there are.
    pub(super) fn off_cpu(
        &self,
        least: f64,
        threads: &[f64],
        ran: f64,
        cpus: i64,
    ) -> Option<OffCpuUse> {
        if self.samples == 0 {
            return None;
        }
        let busy = threads.iter().copied().fold(0.0, f64::max);
        let busy = busy.max(self.busy(ran, cpus));
        let seen = self.idle as f64 / self.samples as f64;
        let share = seen.max(least).min((1.0 - busy).max(0.0));
        let waits = self.kinds.most_common().into_iter();
        let waits = waits
            .filter_map(|(kind, count)| self.wait(*kind, share * *count as f64 / self.idle as f64));
        Some(OffCpuUse {
            share,
            samples: self.idle,
            waits: waits.collect(),
            watched: self.samples,
            alone: self.alone,
        })
    }

    /// Returns the least share of the window in which threads must have run that used `ran` cores.
    ///
    /// They ran as few at once as the samples allow: no fewer than were seen, and more if far fewer samples were busy
    /// than there would be then.
    fn busy(&self, ran: f64, cpus: i64) -> f64 {
        let seen = self.samples - self.idle;
        let mut at_once = self.crowd.min(cpus);
        while at_once < cpus
            && binomial_cdf(seen, self.samples, (ran / at_once as f64).min(1.0)) < IMPLAUSIBLE
        {
            at_once += 1;
        }
        ran / at_once as f64
    }

    fn wait(&self, kind: WaitKind, share: f64) -> Option<WaitUse> {
        let mine = || self.places.counts.iter().filter(|one| one.0.0 == kind);
        let mut threads = Tally::new();
        for ((_, name, place), count) in mine() {
            threads.add((name, &place.call), *count);
        }
        let (name, call) = *threads.top()?;
        let (mut whats, mut known, mut channels) = (Tally::new(), Tally::new(), Tally::new());
        for ((_, its_name, place), count) in mine() {
            if (its_name, &place.call) != (name, call) {
                continue;
            }
            let what = what_of(kind, place);
            whats.add(what, *count);
            // The addresses of new connections are not always looked up.
            if what != "socket" {
                known.add(what, *count);
            }
            channels.add(place.channel.as_str(), *count);
        }
        Some(WaitUse {
            kind,
            share,
            name: name.clone(),
            call: call.clone(),
            what: (*known.top().or_else(|| whats.top())?).to_owned(),
            channel: (*channels.top()?).to_owned(),
            threads: self.most.get(&kind).copied().unwrap_or_default(),
        })
    }
}

/// Returns the futex of a thread; no address if it waits elsewhere.
fn futex(row: &ThreadRow, place: &PlaceRow) -> Futex {
    let text = place.objects.first().map_or("", String::as_str);
    let is_shared = text.starts_with("shared ");
    (if is_shared { SHARED } else { row.pid }, text.to_owned())
}

/// Returns the object of a place that is of its kind; empty for a lock, which has only an address.
fn what_of(kind: WaitKind, place: &PlaceRow) -> &str {
    if kind == WaitKind::Locks {
        return "";
    }
    let mut objects = place.objects.iter().map(String::as_str);
    objects
        .find(|text| kind_of_object(text) == kind)
        .unwrap_or("")
}

/// Returns P(K <= k) for K successes in n trials with probability p each, as the sum of its terms.
fn binomial_cdf(k: usize, n: usize, p: f64) -> f64 {
    if k >= n || p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return 0.0;
    }
    let odds = p.ln() - (-p).ln_1p();
    let mut log = n as f64 * (-p).ln_1p();
    let mut sum = log.exp();
    for i in 0..k {
        log += ((n - i) as f64 / (i + 1) as f64).ln() + odds;
        sum += log.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_what_is_waited_for() {
        type Case<'a> = (&'a str, &'a str, &'a [&'a str], Option<bool>, WaitKind);
        let cases: &[Case<'_>] = &[
            // Whether a poll has a time limit is not known without a fourth member; an empty call is that of a process
            // whose system calls may not be read.
            (
                "poll",
                "",
                &["tcp 10.0.0.1:443", "event"],
                None,
                WaitKind::Network,
            ),
            ("ppoll", "", &[], None, WaitKind::Other),
            ("epoll_wait", "", &["timer"], None, WaitKind::Sleep),
            ("epoll_wait", "", &["event"], None, WaitKind::Thread),
            ("epoll_pwait2", "", &["event", "pipe"], None, WaitKind::Pipe),
            (
                "epoll_wait",
                "",
                &["own pipe", "own socket"],
                None,
                WaitKind::Thread,
            ),
            ("write", "", &["file /d/x"], None, WaitKind::Disk),
            (
                "write",
                "shmem_file_write_iter",
                &["memory /memfd:x (deleted)"],
                None,
                WaitKind::Other,
            ),
            (
                "sendfile",
                "",
                &["memory /dev/shm/x", "file /d/x"],
                None,
                WaitKind::Disk,
            ),
            ("unlink", "shmem_unlink", &[], None, WaitKind::Other),
            ("page fault", "shmem_fault", &[], None, WaitKind::Other),
            ("read", "", &["device /dev/pts/0"], None, WaitKind::Other),
            ("read", "", &["socket"], None, WaitKind::Network),
            ("openat", "", &[], None, WaitKind::Disk),
            ("openat", "wait_for_partner", &[], None, WaitKind::Pipe),
            (
                "page fault",
                "folio_wait_bit_common",
                &[],
                None,
                WaitKind::Disk,
            ),
            (
                "page fault",
                "rwsem_down_read_slowpath",
                &[],
                None,
                WaitKind::Locks,
            ),
            (
                "restart_syscall",
                "hrtimer_nanosleep",
                &[],
                None,
                WaitKind::Sleep,
            ),
            ("flock", "", &["file /d/x"], None, WaitKind::Locks),
            ("sync_file_range", "", &[], None, WaitKind::Disk),
            ("io_uring_enter", "", &["[io_uring]"], None, WaitKind::Ring),
            ("vfork", "", &[], None, WaitKind::Child),
            ("pause", "", &[], None, WaitKind::Other),
            ("syscall 900", "", &[], None, WaitKind::Other),
            ("", "futex_do_wait", &[], None, WaitKind::Thread),
            ("", "hrtimer_nanosleep", &[], None, WaitKind::Sleep),
            ("", "anon_pipe_read", &[], None, WaitKind::Pipe),
            ("", "do_wait", &[], None, WaitKind::Child),
            ("", "wait_woken", &[], None, WaitKind::Network),
            ("", "jbd2_log_wait_commit", &[], None, WaitKind::Disk),
            ("", "ep_poll", &[], None, WaitKind::Other),
            ("pselect6", "", &[], Some(true), WaitKind::Sleep),
            ("pselect6", "", &[], Some(false), WaitKind::Other),
        ];
        for (call, channel, objects, limited, expected) in cases {
            let place = PlaceRow {
                call: (*call).to_owned(),
                channel: (*channel).to_owned(),
                objects: objects.iter().map(|text| (*text).to_owned()).collect(),
                limited: *limited,
            };
            assert_eq!(kind_of(&place), *expected, "{place:?}");
        }
    }

    #[test]
    fn the_binomial_distribution_is_summed() {
        // By exact rational arithmetic.
        for (k, n, p, expected) in [
            (0, 4, 0.19, 0.430_467_21),
            (2, 10, 0.5, 0.054_687_5),
            (450, 1000, 0.5, 8.652_680_5e-4),
            (10, 10, 0.9, 1.0),
            (3, 10, 0.0, 1.0),
            (3, 10, 1.0, 0.0),
        ] {
            let found = binomial_cdf(k, n, p);
            assert!(
                (found - expected).abs() <= 1e-6 * expected,
                "{k} of {n}: {found}"
            );
        }
        assert!((binomial_cdf(17_999, 36_000, 0.5) - 0.5).abs() < 0.01);
    }
}
