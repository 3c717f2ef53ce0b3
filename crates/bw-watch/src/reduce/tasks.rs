//! Threads and processes in a window: the busiest of the trial, its targets and other programs.
//!
//! Decision: only the last two samples of each task are stored, and of ended tasks only the busiest, so that memory
//! depends on the number of live tasks even if a trial starts processes continuously. A decrease is a slip (a sample
//! below both of its neighbours), or else the number was reused by a new thread, which counts from 0.

use super::file::{Header, ProcessRow, Processes, ThreadRow, ThreadsLine};
use super::resource_use::{MOST_OTHERS, MOST_TASKS, ProgramUse, TaskOwner, TaskUse, WORKING_CORES};
use super::window::{Figures, TablesAround};
use crate::text::cpu_list;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The most tasks remembered that are missing from the last table: they may still be alive.
const MOST_AWAY: usize = 4096;
/// The busiest of all other missing tasks; more than any report shows.
const MOST_GONE: usize = 64;

/// The growth of one counter since a moment; samples are added in order.
#[derive(Debug, Clone)]
struct TaskGrowth {
    begin_ns: i64,
    at_begin: Option<f64>,
    /// Whether the last sample is below the one before.
    is_back: bool,
    /// Whether the last sample is not settled, or no sample lies after the start yet.
    is_open: bool,
    before: i64,
    before_ns: i64,
    before_total: i64,
    value: i64,
    last_ns: i64,
    total: i64,
}

impl TaskGrowth {
    fn new(begin_ns: i64, when_ns: i64, value: i64) -> Self {
        Self {
            begin_ns,
            at_begin: None,
            is_back: false,
            is_open: true,
            before: value,
            before_ns: when_ns,
            before_total: 0,
            value,
            last_ns: when_ns,
            total: 0,
        }
    }

    /// Adds a sample.
    fn add(&mut self, when_ns: i64, value: i64) {
        if self.is_open {
            self.settle(value);
        }
        let mut step = value.saturating_sub(self.value);
        if step < 0 {
            self.is_back = true;
            self.is_open = true;
            step = value;
        }
        self.before_ns = self.last_ns;
        self.before_total = self.total;
        self.before = self.value;
        self.last_ns = when_ns;
        self.value = value;
        self.total = self.total.saturating_add(step);
    }

    /// Settles the last sample with the next value.
    fn settle(&mut self, after: i64) {
        if self.is_back && self.before <= after {
            self.total = self.before_total;
            self.value = self.before;
        }
        self.is_back = false;
        if self.at_begin.is_none() && self.last_ns >= self.begin_ns {
            self.at_begin = Some(self.at(self.begin_ns));
        }
        self.is_open = self.at_begin.is_none();
    }

    /// Returns the growth from the start to `end_ns`; only the last sample may be at or after `end_ns`.
    fn since(&self, end_ns: i64) -> f64 {
        self.at(end_ns) - self.at_begin.unwrap_or_else(|| self.at(self.begin_ns))
    }

    /// Returns the total at a moment, from the last two samples.
    fn at(&self, when_ns: i64) -> f64 {
        if when_ns >= self.last_ns {
            return self.total as f64;
        }
        if when_ns <= self.before_ns {
            return self.before_total as f64;
        }
        let grown = self.total.saturating_sub(self.before_total) as f64;
        let slope = grown / (self.last_ns - self.before_ns) as f64;
        slope * (when_ns - self.before_ns) as f64 + self.before_total as f64
    }
}

/// One thread or process.
#[derive(Debug, Clone)]
struct Track {
    pid: i64,
    tid: i64,
    name: String,
    of: TaskOwner,
    run: TaskGrowth,
    /// Time of its first sample; an assumed start at 0 does not count.
    first_ns: i64,
    first_total: i64,
    wait: Option<TaskGrowth>,
    is_wait_reported: bool,
    /// The CPUs on which it could run at its last sample; empty: all, or not known.
    cpus: Vec<u32>,
    /// A process's parent, when the process was first seen.
    parent: i64,
    /// Whether it is a kernel thread.
    of_kernel: bool,
}

impl Track {
    fn new(pid: i64, tid: i64, name: &str, of: TaskOwner, run: TaskGrowth, first_ns: i64) -> Self {
        Self {
            pid,
            tid,
            name: name.to_owned(),
            of,
            run,
            first_ns,
            first_total: 0,
            wait: None,
            is_wait_reported: false,
            cpus: Vec::new(),
            parent: 0,
            of_kernel: false,
        }
    }

    /// Takes the name of the last sample.
    fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
        }
    }
}

/// Orders tasks with their uses: the busiest first, equals by number.
fn by_use(a: (f64, &Track), b: (f64, &Track)) -> Ordering {
    let number = |track: &Track| (track.pid, track.tid);
    let more = b.0.total_cmp(&a.0);
    more.then_with(|| number(a.1).cmp(&number(b.1)))
}

/// All tasks seen in one window, by number and start, since numbers are reused.
#[derive(Debug)]
struct Tracks {
    end_ns: i64,
    known: BTreeMap<(i64, i64), Track>,
    /// Of forgotten tasks only the busiest.
    gone: Vec<Track>,
    /// The use of forgotten kernel threads.
    gone_of_kernel: f64,
    most_away: usize,
}

impl Tracks {
    fn new(end_ns: i64) -> Self {
        Self {
            end_ns,
            known: BTreeMap::new(),
            gone: Vec::new(),
            gone_of_kernel: 0.0,
            most_away: MOST_AWAY,
        }
    }

    /// Returns all tracks; of forgotten tasks only the busiest.
    fn all(&self) -> impl Iterator<Item = &Track> {
        self.known.values().chain(&self.gone)
    }

    /// Forgets tasks that are missing the longest; `there` is the size of the last table.
    fn forget(&mut self, there: usize) {
        if self.known.len() <= there + 2 * self.most_away {
            return;
        }
        let by_age = self
            .known
            .iter()
            .map(|(key, track)| (track.run.last_ns, *key));
        let mut by_age: Vec<_> = by_age.collect();
        by_age.sort_unstable();
        by_age.truncate(by_age.len() - there - self.most_away);
        for (_, key) in by_age {
            let Some(track) = self.known.remove(&key) else {
                continue;
            };
            if track.of_kernel {
                self.gone_of_kernel += track.run.since(self.end_ns);
            }
            self.gone.push(track);
        }
        let end_ns = self.end_ns;
        self.gone
            .sort_by(|a, b| by_use((a.run.since(end_ns), a), (b.run.since(end_ns), b)));
        self.gone.truncate(MOST_GONE);
    }
}

// The busiest threads of the trial and its targets.
//
// Decision: a thread that did not exist at the previous sample started after it, so all of its CPU time belongs to the
// interval. A thread first seen at the start of a series, or that may have existed without being reported, counts from
// its first sample.

/// Tasks below this use are omitted [cores]: a table of percentages would show 0.
const LEAST_SHARE: f64 = 0.0005;

/// A table of threads, and the sample that it belongs to.
#[derive(Debug)]
pub(super) struct ThreadTable {
    pub(super) table: ThreadsLine,
    /// Number of the sample, from 0; None: it comes before the first.
    pub(super) number: Option<u64>,
    /// Time of the sample before it, if there is one.
    pub(super) before_ns: i64,
}

/// The threads of one tree from one moment to another.
#[derive(Debug)]
pub(super) struct WindowThreads {
    of: TaskOwner,
    begin_ns: i64,
    around: TablesAround<ThreadTable>,
    tracks: Tracks,
    /// Number of the last table's sample.
    last: Option<u64>,
    /// Whether the last table listed all threads.
    is_complete: bool,
}

impl WindowThreads {
    pub(super) fn new(of: TaskOwner, begin_ns: i64, end_ns: i64) -> Self {
        Self {
            of,
            begin_ns,
            around: TablesAround::new(begin_ns, end_ns),
            tracks: Tracks::new(end_ns),
            last: None,
            is_complete: true,
        }
    }

    /// Adds a table.
    pub(super) fn take(&mut self, one: &Rc<ThreadTable>) {
        for each in self.around.taken(one.table.t.0, one) {
            self.look_at(&each);
        }
    }

    /// Ends the series.
    pub(super) fn finish(&mut self) {
        if let Some(each) = self.around.rest() {
            self.look_at(&each);
        }
    }

    fn look_at(&mut self, one: &ThreadTable) {
        // A sample without threads has no table, and counts as complete.
        let is_later = one.number.is_some_and(|number| number > 0);
        let has_gap = self.last.map_or(0, |last| last + 1) < one.number.unwrap_or(0);
        let knows_new = is_later && (self.is_complete || has_gap);
        self.last = one.number;
        self.is_complete = one.table.more == 0;
        let when_ns = one.table.t.0;
        for row in &one.table.rows {
            let Some(run_ns) = row.run_ns else { continue };
            let key = (row.pid, row.tid);
            match self.tracks.known.get_mut(&key) {
                Some(track) => {
                    track.rename(&row.name);
                    track.run.add(when_ns, run_ns.0);
                    add_wait(track, self.begin_ns, when_ns, row);
                }
                None => {
                    let before_ns = knows_new.then_some(one.before_ns);
                    let track = self.new_track(row, run_ns.0, when_ns, before_ns);
                    self.tracks.known.insert(key, track);
                }
            }
        }
        self.note_affinities(&one.table);
        self.tracks.forget(one.table.rows.len());
    }

    fn note_affinities(&mut self, table: &ThreadsLine) {
        let mut confined = HashMap::new();
        for (text, tids) in &table.affinities {
            let cpus = cpu_list(text).unwrap_or_default();
            confined.extend(tids.iter().map(|tid| (*tid, cpus.clone())));
        }
        for row in &table.rows {
            if let Some(track) = self.tracks.known.get_mut(&(row.pid, row.tid)) {
                track.cpus = confined.remove(&row.tid).unwrap_or_default();
            }
        }
    }

    /// Returns a track with its first sample; `before_ns`: the thread was at 0 then.
    fn new_track(
        &self,
        row: &ThreadRow,
        run_ns: i64,
        when_ns: i64,
        before_ns: Option<i64>,
    ) -> Track {
        let begin_ns = self.begin_ns;
        let run = TaskGrowth::new(begin_ns, when_ns, run_ns);
        let mut track = Track::new(row.pid, row.tid, &row.name, self.of, run, when_ns);
        if let Some(before_ns) = before_ns {
            track.run = TaskGrowth::new(begin_ns, before_ns, 0);
            track.run.add(when_ns, run_ns);
            track.first_total = run_ns;
            track.wait = Some(TaskGrowth::new(begin_ns, before_ns, 0));
        }
        add_wait(&mut track, begin_ns, when_ns, row);
        track
    }
}

fn add_wait(track: &mut Track, begin_ns: i64, when_ns: i64, row: &ThreadRow) {
    let Some(wait_ns) = row.wait_ns else { return };
    track.is_wait_reported = true;
    match &mut track.wait {
        Some(wait) => wait.add(when_ns, wait_ns.0),
        None => track.wait = Some(TaskGrowth::new(begin_ns, when_ns, wait_ns.0)),
    }
}

/// Returns the busiest threads of the own tree and the targets, busiest first, and how many of each worked.
pub(super) fn tasks_use(
    figures: &Figures<'_>,
    own: &WindowThreads,
    target: &WindowThreads,
) -> (Vec<TaskUse>, (usize, usize)) {
    let sides = [own, target].map(|side| {
        let tracks = side.tracks.all();
        tracks
            .map(|track| (share_of(figures, track, 1e-9), track))
            .collect::<Vec<_>>()
    });
    let working = |side: &[(f64, &Track)]| {
        let working = side.iter().filter(|(share, _)| *share >= WORKING_CORES);
        working.count()
    };
    let worked = (working(&sides[0]), working(&sides[1]));
    // Chosen for each side: the many processes of a busy server must not hide its generator.
    let chosen = sides.map(|side| busiest(side, MOST_TASKS)).concat();
    let shown = busiest(chosen, usize::MAX);
    let uses = shown
        .into_iter()
        .map(|(share, track)| thread_use(figures, track, share));
    (uses.collect(), worked)
}

/// Returns a track's mean CPU time over the window [cores].
fn share_of(figures: &Figures<'_>, track: &Track, unit_s: f64) -> f64 {
    track.run.since(figures.end_ns) * unit_s / figures.seconds
}

/// Returns the `most` busiest of the tasks that did anything, busiest first.
fn busiest(mut shares: Vec<(f64, &Track)>, most: usize) -> Vec<(f64, &Track)> {
    shares.retain(|(share, _)| *share >= LEAST_SHARE);
    shares.sort_by(|a, b| by_use(*a, *b));
    shares.truncate(most);
    shares
}

fn thread_use(figures: &Figures<'_>, track: &Track, share: f64) -> TaskUse {
    let run = &track.run;
    let used_ns = if track.first_ns > figures.begin_ns {
        run.at(figures.end_ns) - track.first_total as f64
    } else {
        run.since(figures.end_ns)
    };
    let begin_ns = figures.begin_ns.max(track.first_ns);
    let seen_s = (figures.end_ns.min(run.last_ns) - begin_ns) as f64 / 1e9;
    let wait = track.wait.as_ref().filter(|_| track.is_wait_reported);
    TaskUse {
        pid: track.pid,
        tid: track.tid,
        name: track.name.clone(),
        share,
        of: track.of,
        busiest_share: (seen_s > 0.0).then(|| used_ns / 1e9 / seen_s),
        seen_s: Some(seen_s.max(0.0)),
        waiting: wait.map(|wait| wait.since(figures.end_ns) / 1e9 / figures.seconds),
        cpus: Some(track.cpus.clone()),
    }
}

// The busiest processes that do not belong to the trial, and the kernel's own threads.
//
// Decision: a process that was not in the previous table started after it, so all of its CPU time belongs to the
// interval; processes of the first table count from that table.

/// Process id of kthreadd: it and its children are kernel threads.
const KERNEL_THREADS: i64 = 2;

/// The processes of a trial, its targets and bw, in the whole series so far.
///
/// A process number stays in the set; its size is bounded by the kernel's largest number.
#[derive(Debug)]
pub(super) struct Trees {
    roots: HashSet<i64>,
    ours: HashSet<i64>,
}

impl Trees {
    pub(super) fn new(header: &Header) -> Self {
        let root = HashSet::from([header.root_pid]);
        Self {
            roots: root.clone(),
            ours: root,
        }
    }

    /// Adds the processes of a table; with `roots` their descendants belong to us too.
    pub(super) fn take(&mut self, table: &ThreadsLine, roots: bool) {
        for row in &table.rows {
            self.ours.insert(row.pid);
            if roots {
                self.roots.insert(row.pid);
            }
        }
    }

    /// Returns a table with the roots and all their descendants in it.
    pub(super) fn with_descendants(&self, table: Processes) -> ProcessTable {
        let parents: Vec<_> = table.rows.iter().map(|row| (row.pid, row.ppid)).collect();
        let below = self.all_below(&parents, &HashSet::new());
        ProcessTable { table, below }
    }

    /// Returns the roots, `known`, and all their descendants; `parents` has (number, parent's number) of each process.
    fn all_below(&self, parents: &[(i64, i64)], known: &HashSet<i64>) -> HashSet<i64> {
        let mut found: HashSet<i64> = self.roots.union(known).copied().collect();
        let mut before = 0;
        while found.len() > before {
            // Usually two passes: most children have higher numbers than their parents.
            before = found.len();
            for (pid, parent) in parents {
                if found.contains(parent) {
                    found.insert(*pid);
                }
            }
        }
        found
    }
}

/// A table of all processes, and which of them belong to our trees.
#[derive(Debug)]
pub(super) struct ProcessTable {
    pub(super) table: Processes,
    below: HashSet<i64>,
}

/// The use of other programs in a window, busiest first.
#[derive(Debug)]
pub(super) struct OthersUse {
    /// Includes kernel threads, whose names are in brackets, as in ps.
    pub(super) processes: Vec<TaskUse>,
    pub(super) programs: Vec<ProgramUse>,
    /// Use by all kernel threads [cores]; None if they are not visible.
    pub(super) of_kernel: Option<f64>,
}

/// All processes of other programs, from one moment to another.
#[derive(Debug)]
pub(super) struct WindowOthers {
    begin_ns: i64,
    around: TablesAround<ProcessTable>,
    tracks: Tracks,
    below: HashSet<i64>,
    /// Time of the last table.
    last_ns: Option<i64>,
    sees_kernel: bool,
    tables: u64,
}

impl WindowOthers {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            around: TablesAround::new(begin_ns, end_ns),
            tracks: Tracks::new(end_ns),
            below: HashSet::new(),
            last_ns: None,
            sees_kernel: false,
            tables: 0,
        }
    }

    /// Adds a table.
    pub(super) fn take(&mut self, one: &Rc<ProcessTable>, trees: &Trees) {
        for each in self.around.taken(one.table.t.0, one) {
            self.look_at(&each, trees);
        }
    }

    /// Ends the series.
    pub(super) fn finish(&mut self, trees: &Trees) {
        if let Some(each) = self.around.rest() {
            self.look_at(&each, trees);
        }
    }

    /// Returns their use, after `finish`.
    pub(super) fn others_use(&self, figures: &Figures<'_>, trees: &Trees) -> OthersUse {
        let tick_s = 1.0 / figures.header.ticks_per_s as f64;
        // Only now: a target may be reported after its children.
        let parents: Vec<_> = self.tracks.all().map(|one| (one.pid, one.parent)).collect();
        let below = trees.all_below(&parents, &self.below);
        let is_other =
            |track: &&Track| !trees.ours.contains(&track.pid) && !below.contains(&track.pid);
        let shares: Vec<_> = self
            .tracks
            .all()
            .filter(is_other)
            .map(|track| (share_of(figures, track, tick_s), track))
            .collect();
        let of_kernel = self.tracks.known.values().filter(|one| one.of_kernel);
        let of_kernel = of_kernel
            .filter(is_other)
            .map(|track| share_of(figures, track, tick_s));
        let gone = self.tracks.gone_of_kernel * tick_s / figures.seconds;
        let of_kernel = exact_sum(of_kernel.chain([gone]));
        let processes = busiest(shares.clone(), MOST_OTHERS)
            .into_iter()
            .map(|(share, track)| TaskUse {
                pid: track.pid,
                tid: 0,
                name: if track.of_kernel {
                    format!("[{}]", track.name)
                } else {
                    track.name.clone()
                },
                share,
                of: TaskOwner::Other,
                busiest_share: None,
                seen_s: None,
                waiting: None,
                cpus: None,
            });
        OthersUse {
            processes: processes.collect(),
            programs: programs(shares),
            of_kernel: (self.sees_kernel && self.tables > 1).then_some(of_kernel),
        }
    }

    fn look_at(&mut self, one: &ProcessTable, trees: &Trees) {
        if self.tables == 0 {
            // All are checked: in a PID namespace, 2 may be any process.
            self.sees_kernel = one.table.rows.iter().any(|row| {
                (row.pid, row.ppid, row.name.as_str()) == (KERNEL_THREADS, 0, "kthreadd")
            });
        }
        self.tables += 1;
        self.below.extend(&one.below);
        let when_ns = one.table.t.0;
        for row in &one.table.rows {
            if trees.ours.contains(&row.pid) || self.below.contains(&row.pid) {
                continue;
            }
            let key = (row.pid, row.start_ticks);
            match self.tracks.known.get_mut(&key) {
                Some(track) => {
                    track.rename(&row.name);
                    track.run.add(when_ns, row.run_ticks);
                }
                None => {
                    let track = self.new_track(row, when_ns);
                    self.tracks.known.insert(key, track);
                }
            }
        }
        self.last_ns = Some(when_ns);
        self.tracks.forget(one.table.rows.len());
    }

    fn new_track(&self, row: &ProcessRow, when_ns: i64) -> Track {
        let mut run = TaskGrowth::new(self.begin_ns, when_ns, row.run_ticks);
        if let Some(before_ns) = self.last_ns {
            run = TaskGrowth::new(self.begin_ns, before_ns, 0);
            run.add(when_ns, row.run_ticks);
        }
        let mut track = Track::new(row.pid, 0, &row.name, TaskOwner::Other, run, when_ns);
        track.parent = row.ppid;
        track.of_kernel = self.sees_kernel && [row.pid, row.ppid].contains(&KERNEL_THREADS);
        track
    }
}

/// Returns the busiest programs, without kernel threads.
fn programs(shares: Vec<(f64, &Track)>) -> Vec<ProgramUse> {
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (share, track) in busiest(shares, usize::MAX) {
        if !track.of_kernel {
            by_name.entry(&track.name).or_default().push(share);
        }
    }
    let mut uses: Vec<ProgramUse> = by_name
        .into_iter()
        .map(|(name, each)| ProgramUse {
            name: name.to_owned(),
            processes: each.len(),
            share: exact_sum(each),
        })
        .collect();
    uses.sort_by(|a, b| b.share.total_cmp(&a.share));
    uses.truncate(MOST_OTHERS);
    uses
}

/// Returns a sum that does not depend on the order of its terms, by Neumaier's compensation (ZAMM 54, 1974).
fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let total = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - total) + value
        } else {
            (value - total) + sum
        };
        sum = total;
    }
    sum + lost
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: i64 = 100_000_000;

    fn process(pid: i64, ppid: i64, name: &str, run_ticks: i64, start_ticks: i64) -> ProcessRow {
        ProcessRow {
            pid,
            ppid,
            name: name.to_owned(),
            run_ticks,
            start_ticks,
        }
    }

    /// Returns the processes of a window in which two hundred ran one after the other, a tenth of a second each; the
    /// tenth did most.
    fn passed(most_away: usize) -> WindowOthers {
        let header = r#"{"version":1,"interval_ns":100000000,"root_pid":100}"#;
        let trees = Trees::new(&serde_json::from_str(header).unwrap());
        let mut others = WindowOthers::new(0, 201 * TENTH);
        others.tracks.most_away = most_away;
        for i in 0..201 {
            let rows = vec![
                process(5000 + i, 1, "short", if i == 10 { 9 } else { 2 }, i),
                process(2, 0, "kthreadd", 0, 1),
                process(7000 + i, 2, "kworker", 1, i),
            ];
            let t = crate::reduce::file::Ns(i * TENTH);
            others.take(
                &Rc::new(trees.with_descendants(Processes { t, rows })),
                &trees,
            );
            assert!(others.tracks.known.len() <= 3 + 2 * most_away);
        }
        others
    }

    #[test]
    fn tasks_long_gone_are_remembered_where_they_were_the_busiest() {
        let others = passed(4);
        assert_eq!(others.tracks.gone.len(), MOST_GONE);
        let busiest = &others.tracks.gone[0];
        assert_eq!((busiest.pid, busiest.run.since(201 * TENTH)), (5010, 9.0));
        // All kernel threads count, also those that are forgotten; those of the first table count from it.
        let known = others.tracks.known.values().filter(|one| one.of_kernel);
        let known = known.map(|one| one.run.since(201 * TENTH)).sum::<f64>();
        assert_eq!(others.tracks.gone_of_kernel + known, 200.0);
    }

    #[test]
    fn threads_long_gone_are_remembered_where_they_were_the_busiest() {
        let mut threads = WindowThreads::new(TaskOwner::Own, 0, 201 * TENTH);
        threads.tracks.most_away = 4;
        for i in 0..201 {
            let run_ns = if i == 10 { 90_000_000 } else { 20_000_000 + i };
            let line = format!(
                r#"{{"t":{},"rows":[[100,{},"a","R",{run_ns},5]]}}"#,
                i * TENTH,
                1000 + i
            );
            let table = serde_json::from_str(&line).unwrap();
            let number = u64::try_from(i).ok();
            let before_ns = (i - 1).max(0) * TENTH;
            threads.take(&Rc::new(ThreadTable {
                table,
                number,
                before_ns,
            }));
            assert!(threads.tracks.known.len() <= 1 + 2 * 4);
        }
        let busiest = &threads.tracks.gone[0];
        assert_eq!(
            (busiest.tid, busiest.run.since(201 * TENTH)),
            (1010, 90_000_000.0)
        );
    }

    #[test]
    fn a_thread_has_the_affinity_of_its_last_sample() {
        let mut threads = WindowThreads::new(TaskOwner::Own, 0, 10 * TENTH);
        let lines = [
            r#"{"t":100000000,"rows":[[1,1,"a","R",5,0],[2,2,"b","R",5,0]]}"#,
            r#"{"t":200000000,"rows":[[1,1,"a","R",9,0],[2,2,"b","R",9,0]],"affinities":[["0,2-3",[2]]]}"#,
        ];
        for (number, line) in lines.into_iter().enumerate() {
            threads.take(&Rc::new(ThreadTable {
                table: serde_json::from_str(line).unwrap(),
                number: u64::try_from(number).ok(),
                before_ns: 0,
            }));
        }
        threads.finish();
        let cpus: Vec<_> = threads.tracks.all().map(|track| &track.cpus[..]).collect();
        assert_eq!(cpus, [&[] as &[u32], &[0, 2, 3]]);
    }

    #[test]
    fn a_sum_does_not_depend_on_the_order() {
        assert_eq!(exact_sum([1e16, 1.0, -1e16]), 1.0);
        assert_eq!(exact_sum([1.0, 1e16, -1e16]), 1.0);
        assert_eq!(exact_sum([]), 0.0);
    }
}
