//! One watch, from its first sample to its last, stored in one file.

use crate::arguments::Roots;
use crate::cgroup::Cgroups;
use crate::columns::{ABSENT, ColumnSource, Columns};
use crate::kernel_log::KernelLog;
use crate::machine::{self, Pace, PacedSource, sources};
use crate::output::{self, SeriesWriter};
use crate::processes::Class;
use crate::processors::FORKS;
use crate::series::{ColumnsLine, EndLine, SeriesLine, WatchRequest, WatchSummary, write_line};
use crate::system::{cpu_ns, monotonic_ns, units};
use crate::trees::Trees;
use bw_sys::reason;

const SECOND_NS: i64 = 1_000_000_000;

/// Columns of the machine that grow if any socket loses anything.
const LOSSES: [&str; 4] = [
    "tcp/retransmits",
    "tcp/listen_overflows",
    "tcp/listen_drops",
    "udp/receive_errors",
];

/// A running watch.
pub struct Watch {
    /// The request's id.
    pub id: i64,
    /// When the next sample is due (CLOCK_MONOTONIC).
    pub next_ns: i64,
    request: WatchRequest,
    roots: Roots,
    sources: Vec<PacedSource>,
    cgroups: (Cgroups, usize),
    trees: Trees,
    log: Option<KernelLog>,
    writer: SeriesWriter,
    columns: Columns,
    values: Vec<i64>,
    before: Vec<i64>,
    lines: Vec<u8>,
    forks: (usize, i64),
    /// The places of `LOSSES` in the columns, and their last sum.
    losses: (Vec<usize>, i64),
    second_ns: i64,
    absent_reported: usize,
    cost_ns: i64,
    done: WatchSummary,
}

impl Watch {
    /// Makes the file and takes the first sample. Errors: what failed, in words.
    pub fn begin(request: WatchRequest, roots: &Roots) -> Result<Self, String> {
        let cost_ns = cpu_ns();
        check(&request, roots)?;
        let writer = SeriesWriter::create(&request.out)
            .map_err(|error| format!("{}: {}", request.out.display(), reason(&error)))?;
        let trees = Trees::new(roots, request.root_pid, classes(&request), units());
        let mut watch = Self {
            id: request.id,
            next_ns: 0,
            sources: sources(roots),
            cgroups: (Cgroups::new(roots), 0),
            trees,
            log: None,
            writer,
            columns: Columns::default(),
            values: Vec::new(),
            before: Vec::new(),
            lines: Vec::new(),
            forks: (usize::MAX, ABSENT),
            losses: (Vec::new(), ABSENT),
            second_ns: 0,
            absent_reported: 0,
            cost_ns,
            done: WatchSummary {
                samples: 0,
                begin_ns: 0,
                end_ns: 0,
                cost_ns: 0,
                bytes: 0,
                lost_ns: 0,
                error: String::new(),
            },
            roots: roots.clone(),
            request,
        };
        watch.open();
        Ok(watch)
    }

    /// Returns the time of the first sample.
    pub(crate) fn begin_ns(&self) -> i64 {
        self.done.begin_ns
    }

    fn open(&mut self) {
        let log = KernelLog::open(&self.roots.kmsg);
        self.trees.look(true, true);
        self.trees.begin_sockets();
        let mut groups = Vec::new();
        let t = monotonic_ns();
        self.trees
            .note_cgroups(&mut self.cgroups.0, true, t, &mut groups);
        self.learn();
        let missing = absences(&self.request, &self.trees);
        self.columns.absent.extend(missing);
        self.columns.absent.extend(self.trees.unreadable());
        match log {
            Ok(log) => self.log = Some(log),
            Err(error) => self.columns.absent("kernel", &self.roots.kmsg, &error),
        }
        self.write_series();
        self.lines.extend_from_slice(&groups);
        self.copy("before");
        self.take(true);
        self.done.begin_ns = self.done.end_ns;
        self.next_ns = self.done.begin_ns + self.request.interval_ns;
    }

    fn write_series(&mut self) {
        let line = SeriesLine::now(&self.request, &self.roots, &self.columns);
        write_line(&mut self.lines, &line);
        self.absent_reported = self.columns.absent.len();
    }

    fn copy(&mut self, at: &str) {
        if self.request.copies {
            let groups = self.cgroups.0.directories();
            machine::write(&self.roots, groups, at, &mut self.lines);
        }
    }

    /// Takes the sample that is due; skips missed ones.
    pub fn sample(&mut self) {
        let interval = self.request.interval_ns;
        let late_ns = (monotonic_ns() - self.next_ns).max(0);
        if late_ns > interval {
            self.done.lost_ns += late_ns;
        }
        self.take(false);
        self.next_ns += (late_ns / interval + 1) * interval;
    }

    fn take(&mut self, at_an_end: bool) {
        let t = monotonic_ns().max(self.done.end_ns + 1);
        let since = self.done.end_ns;
        let each_second =
            at_an_end || t - self.second_ns >= SECOND_NS - self.request.interval_ns / 2;
        let mut same = self.read_machine(each_second);
        let forks = self.values.get(self.forks.0).copied().unwrap_or(ABSENT);
        self.trees
            .look(forks == ABSENT || forks != self.forks.1, each_second);
        self.forks.1 = forks;
        if each_second {
            self.count_losses();
        }
        let (cgroups, lines) = (&mut self.cgroups.0, &mut self.lines);
        same &= !self.trees.note_cgroups(cgroups, each_second, t, lines);
        same &= self.read_cgroups();
        if !same {
            self.learn();
            self.read_machine(true);
            self.read_cgroups();
        }
        if !same || self.done.samples == 0 {
            self.write_columns();
        }
        let before_trees = self.machine_width() + self.cgroups.1;
        self.trees.sum(&mut self.values[before_trees..]);
        self.write_row(t);
        self.write_tables(t, each_second);
        if let Some(log) = &mut self.log {
            log.write(if since == 0 { t } else { since }, t, &mut self.lines);
        }
        self.done.samples += 1;
        self.done.end_ns = t;
        self.put(each_second);
        if each_second {
            self.second_ns = t;
        }
    }

    /// Counts what the trees' own sockets lost, if the machine lost anything since the last time.
    fn count_losses(&mut self) {
        let values = self.losses.0.iter().map(|place| self.values[*place]);
        let losses = values.filter(|value| *value != ABSENT).sum();
        if self.losses.1 != ABSENT && self.losses.1 != losses {
            self.trees.count_sockets();
        }
        self.losses.1 = losses;
    }

    fn machine_width(&self) -> usize {
        self.sources.iter().map(|paced| paced.width).sum()
    }

    /// Determines all columns again.
    fn learn(&mut self) {
        let mut columns = Columns::default();
        for paced in &mut self.sources {
            let before = columns.named.len();
            paced.source.learn(&mut columns);
            paced.width = columns.named.len() - before;
        }
        let before = columns.named.len();
        self.cgroups.0.learn(&mut columns);
        self.cgroups.1 = columns.named.len() - before;
        self.trees.learn(&mut columns);
        let forks = columns.named.iter().position(|(name, _)| name == FORKS);
        self.forks.0 = forks.unwrap_or(usize::MAX);
        let names = columns.named.iter().enumerate();
        self.losses.0 = names
            .filter(|(_, (name, _))| LOSSES.contains(&name.as_str()))
            .map(|(place, _)| place)
            .collect();
        for absent in std::mem::take(&mut columns.absent) {
            if !self.columns.absent.contains(&absent) {
                self.columns.absent.push(absent);
            }
        }
        self.columns.named = columns.named;
        self.values.clear();
        self.values.resize(self.columns.named.len(), ABSENT);
        self.before.clone_from(&self.values);
    }

    /// Reads the sources; those of the slow pace only at full seconds.
    fn read_machine(&mut self, each_second: bool) -> bool {
        let mut rest = &mut self.values[..];
        let mut same = true;
        for paced in &mut self.sources {
            let (values, others) = rest.split_at_mut(paced.width);
            rest = others;
            if each_second || paced.pace == Pace::Sample {
                same &= paced.source.read(values);
            }
        }
        same
    }

    fn read_cgroups(&mut self) -> bool {
        let begin = self.machine_width();
        let (cgroups, width) = &mut self.cgroups;
        cgroups.read(&mut self.values[begin..begin + *width])
    }

    fn write_columns(&mut self) {
        write_line(&mut self.lines, &ColumnsLine::of(&self.columns));
    }

    fn write_row(&mut self, t: i64) {
        output::begin(&mut self.lines, "row", t);
        self.lines.extend_from_slice(b",\"v\":");
        let pairs = self.values.iter().zip(&self.before);
        output::array(&mut self.lines, pairs, |out, (value, before)| {
            output::value(out, difference(*value, *before));
        });
        self.lines.extend_from_slice(b"}\n");
        self.before.copy_from_slice(&self.values);
    }

    fn write_tables(&mut self, t: i64, each_second: bool) {
        self.trees.write_threads(t, &mut self.lines);
        if each_second {
            self.trees.write_processes(t, &mut self.lines);
            self.trees.write_open_files(t, &mut self.lines);
        }
    }

    fn put(&mut self, flush: bool) {
        self.writer.write(&self.lines);
        self.lines.clear();
        if flush {
            self.writer.flush();
        }
    }

    /// Takes the last sample and ends the file.
    pub fn end(mut self) -> WatchSummary {
        self.take(true);
        self.copy("after");
        if self.log.as_ref().is_some_and(|log| log.lost > 0) {
            let why = "messages were overwritten before they were read";
            self.columns
                .absent
                .push(("kernel".to_owned(), why.to_owned()));
        }
        self.columns.absent.extend(self.trees.absent());
        self.done.cost_ns = cpu_ns() - self.cost_ns;
        let absent = &self.columns.absent[self.absent_reported..];
        write_line(&mut self.lines, &EndLine::new(&self.done, absent));
        self.put(false);
        (self.done.bytes, self.done.error) = self.writer.finish();
        self.done.cost_ns = cpu_ns() - self.cost_ns;
        self.done
    }
}

/// Returns the row's entry: the difference, or the value itself if there is no value before it.
fn difference(value: i64, before: i64) -> i64 {
    if value == ABSENT || before == ABSENT {
        value
    } else {
        value.wrapping_sub(before)
    }
}

fn check(request: &WatchRequest, roots: &Roots) -> Result<(), String> {
    if !(1_000_000..=10_000_000_000).contains(&request.interval_ns) {
        return Err("interval_ns: from 1000000 (1 ms) to 10000000000 (10 s)".to_owned());
    }
    let root = roots.proc.join(request.root_pid.to_string());
    if !root.join("stat").exists() {
        return Err(format!("root_pid: there is no {}", root.display()));
    }
    Ok(())
}

fn classes(request: &WatchRequest) -> Vec<(i32, Class)> {
    let targets = request.extra_pids.iter().map(|pid| (*pid, Class::Target));
    let watchers = request
        .watcher_pids
        .iter()
        .map(|pid| (*pid, Class::Watcher));
    let own = std::process::id() as i32;
    let root = if request.watcher_pids.contains(&request.root_pid) {
        Class::Watcher
    } else {
        Class::Own
    };
    std::iter::once((request.root_pid, root))
        .chain(targets)
        .chain(watchers)
        .chain(std::iter::once((own, Class::Watcher)))
        .collect()
}

/// Returns the processes of the request that do not exist.
fn absences(request: &WatchRequest, trees: &Trees) -> Vec<(String, String)> {
    let targets = request.extra_pids.iter().map(|pid| ("target", *pid));
    let watchers = request.watcher_pids.iter().map(|pid| ("watcher", *pid));
    targets
        .chain(watchers)
        .filter(|(_, pid)| !trees.table.has(*pid))
        .map(|(what, pid)| (what.to_owned(), format!("there is no process {pid}")))
        .collect()
}
