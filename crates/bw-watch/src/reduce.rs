//! `bw-sampler reduce`: the resource use of each trial, from a series.
//!
//! The evidence for findings is computed once, right after a batch, from the file and the windows alone. Decision: the
//! file is read once, line by line, and each window stores only what its figures need: the size of this state depends on
//! the machine (its columns, threads, processes), not on the time watched, so an hour on a large machine needs no more
//! memory than a minute. Trials shorter than three sampling intervals share a window: most of such a trial lies between
//! two samples, so its figures would mostly be its neighbours'. A shared window includes the time between its trials
//! (SETUP, CLEANUP, rest), so trials with long pauses do not share one, unless all lies within one sampling interval:
//! counters are interpolated there, so separate windows would give the same shares, and a window for each trial of a
//! millisecond would cost as much as the trial. Source: docs/watch-format.md.

mod columns;
mod counters;
mod cpu;
mod devices;
mod file;
mod gauges;
mod messages;
mod resource_use;
mod tasks;
mod waits;
mod window;

use columns::{Columns, Sample};
use cpu::{BusyClocks, WindowClocks, clock_use, cpu_use, pressure};
use devices::{
    DiskSteps, WindowDisks, WindowFiles, cgroups_use, disks_use, files_of_machine, memory_use,
    networks_use, own_losses, sockets_use, tree_io,
};
use file::{Cgroup, Header, Line, Series, SeriesEnd, SeriesError, ThreadsLine, Tree};
use messages::{TrialSpan, WindowMessages};
use resource_use::{CpuUse, OffCpuUse, ResourceUse, TaskOwner, TaskUse};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::Path;
use std::rc::Rc;
use tasks::{ThreadTable, Trees, WindowOthers, WindowThreads, tasks_use};
use waits::WindowWaits;
use window::{SeriesWindow, rounded};

/// What to compute: the use of windows, or of equal slices of a time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The file's path relative to the study, which each use repeats.
    #[serde(default)]
    series: String,
    /// Epoch, begin and end of each trial's EXEC.
    #[serde(default)]
    windows: Vec<(i64, i64, i64)>,
    #[serde(default)]
    slices: Option<Slices>,
}

/// Equal slices of a time, at most `most`, each of at least three sampling intervals: the course of one long trial.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slices {
    begin_ns: i64,
    end_ns: i64,
    most: i64,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Reply {
    /// The use of each trial of a batch, in order; null: included in an earlier one.
    Uses { uses: Vec<Option<ResourceUse>> },
    /// The series cannot be read.
    Damaged { line: u64, message: String },
}

/// Reads a request, reduces a series and writes the answer. Errors: a broken request, input or output.
pub fn reduce(path: &Path, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    let request: Request = serde_json::from_slice(&text)?;
    let reply = match uses_of(path, &request) {
        Ok(uses) => Reply::Uses { uses },
        Err(SeriesError { line, message }) => Reply::Damaged { line, message },
    };
    serde_json::to_writer(&mut output, &reply)?;
    output.write_all(b"\n")?;
    output.flush()
}

fn uses_of(path: &Path, request: &Request) -> Result<Vec<Option<ResourceUse>>, SeriesError> {
    let mut series = Series::open(path)?;
    let interval_ns = series.header.interval_ns.0;
    let windows = request.windows.iter();
    let mut windows: Vec<TrialSpan> = windows
        .map(|&(epoch, begin_ns, end_ns)| TrialSpan {
            epoch,
            begin_ns,
            end_ns,
        })
        .collect();
    if let Some(slices) = request.slices {
        windows.extend(slices_of(slices, interval_ns));
    }
    let groups = grouped(&windows, interval_ns);
    let mut passing = SeriesPass::new(&series.header, &groups);
    while let Some(line) = series.lines.next()? {
        passing.take(line);
    }
    let mut uses = Vec::new();
    for (group, one) in groups.iter().zip(passing.finish()) {
        uses.push(Some(ResourceUse {
            series: request.series.clone(),
            ..one
        }));
        uses.resize(uses.len() + group.len() - 1, None);
    }
    Ok(uses)
}

/// Trials shorter than this number of sampling intervals share a window.
const FEWEST_INTERVALS: i64 = 3;
/// The most time between trials that share a window, as a share of their EXEC time.
const MOST_BETWEEN: f64 = 0.1;
/// The share of a window from which late samples are reported.
const LATE_SHARE: f64 = 0.1;

fn slices_of(slices: Slices, interval_ns: i64) -> Vec<TrialSpan> {
    let length_ns = i128::from(slices.end_ns) - i128::from(slices.begin_ns);
    let shortest_ns = i128::from(FEWEST_INTERVALS) * i128::from(interval_ns);
    let count = (length_ns / shortest_ns).min(i128::from(slices.most));
    let edge = |at: i128| slices.begin_ns + (length_ns * at / count) as i64;
    let each = (0..count).map(|at| TrialSpan {
        epoch: 1,
        begin_ns: edge(at),
        end_ns: edge(at + 1),
    });
    each.collect()
}

/// Returns the groups of trials that share a window, in order.
fn grouped(windows: &[TrialSpan], interval_ns: i64) -> Vec<&[TrialSpan]> {
    let mut groups = Vec::new();
    let mut first = 0;
    for next in 1..=windows.len() {
        if next == windows.len() || !belongs(&windows[first..next], windows[next], interval_ns) {
            groups.push(&windows[first..next]);
            first = next;
        }
    }
    groups
}

/// Returns whether a trial shares the window of those before it: all are short, and the pauses are short or all lie
/// within one sampling interval.
fn belongs(group: &[TrialSpan], next: TrialSpan, interval_ns: i64) -> bool {
    let length_ns = |span: &TrialSpan| span.end_ns.saturating_sub(span.begin_ns);
    let shortest_ns = FEWEST_INTERVALS.saturating_mul(interval_ns);
    let last = group
        .last()
        .is_some_and(|last| length_ns(last) >= shortest_ns);
    if last || length_ns(&next) >= shortest_ns {
        return false;
    }
    let whole_ns = next.end_ns.saturating_sub(group[0].begin_ns);
    if whole_ns <= interval_ns {
        return true;
    }
    let exec_ns = group.iter().map(length_ns).sum::<i64>() + length_ns(&next);
    (whole_ns - exec_ns) as f64 <= MOST_BETWEEN * exec_ns as f64
}

/// The state that all windows of a series share: columns, CPUs, disks, process trees.
struct MachineSeries<'a> {
    header: &'a Header,
    columns: Columns,
    busy: BusyClocks,
    disks: DiskSteps,
    trees: Trees,
    cgroups: Vec<Cgroup>,
    /// None: the file was cut short.
    end: Option<SeriesEnd>,
    /// Times of the first and the last sample.
    span: Option<(i64, i64)>,
}

impl MachineSeries<'_> {
    /// Adds a sample, before the windows do.
    fn take(&mut self, sample: &Sample) {
        let first_ns = self.span.map_or(sample.when_ns, |span| span.0);
        self.span = Some((first_ns, sample.when_ns));
        self.busy.take(self.header, &self.columns, sample);
        self.disks.take(&self.columns, sample);
    }

    /// Returns the sampler's own CPU time [cores].
    fn cost(&self) -> Option<f64> {
        let end = self.end.as_ref()?;
        let lasted_ns = end.end_ns.0 - end.begin_ns.0;
        (lasted_ns > 0).then(|| end.cost_ns.0 as f64 / lasted_ns as f64)
    }
}

/// The window of one trial, or of several trials that share one, while a series is read.
struct WindowGroup {
    begin_ns: i64,
    end_ns: i64,
    epochs: (i64, i64),
    window: SeriesWindow,
    own: WindowThreads,
    target: WindowThreads,
    waits: WindowWaits,
    others: WindowOthers,
    files: WindowFiles,
    clocks: WindowClocks,
    disks: WindowDisks,
    messages: WindowMessages,
    samples: usize,
    late_s: f64,
}

impl WindowGroup {
    fn new(machine: &mut MachineSeries<'_>, trials: &[TrialSpan]) -> Self {
        let (first, last) = (trials[0], trials[trials.len() - 1]);
        let (begin_ns, end_ns) = (first.begin_ns, last.end_ns);
        Self {
            begin_ns,
            end_ns,
            epochs: (first.epoch, last.epoch),
            window: SeriesWindow::new(&mut machine.columns, begin_ns, end_ns),
            own: WindowThreads::new(TaskOwner::Own, begin_ns, end_ns),
            target: WindowThreads::new(TaskOwner::Target, begin_ns, end_ns),
            waits: WindowWaits::new(machine.header.root_pid, begin_ns, end_ns),
            others: WindowOthers::new(begin_ns, end_ns),
            files: WindowFiles::new(begin_ns, end_ns),
            clocks: WindowClocks::new(begin_ns, end_ns),
            disks: WindowDisks::new(begin_ns, end_ns),
            messages: WindowMessages::new(trials),
            samples: 0,
            late_s: 0.0,
        }
    }

    /// Adds a sample, after `MachineSeries::take`.
    fn take(&mut self, machine: &MachineSeries<'_>, sample: &Sample) {
        self.window.take(sample, &machine.columns);
        self.clocks.take(machine.header, sample, &machine.busy);
        self.disks.take(sample.when_ns, &machine.disks);
        let is_inside = (self.begin_ns..=self.end_ns).contains(&sample.when_ns);
        self.samples += usize::from(is_inside);
        if let Some(before_ns) = sample.before_ns
            && self.begin_ns < sample.when_ns
            && before_ns < self.end_ns
        {
            let interval_s = machine.header.interval_ns.0 as f64 / 1e9;
            let step_s = (sample.when_ns - before_ns) as f64 / 1e9;
            self.late_s += (step_s - 2.0 * interval_s).max(0.0);
        }
    }

    /// Returns the resource use, after the end of the series.
    ///
    /// If the series covers only part of the window, the figures describe that part, and `absent` reports its length; if
    /// it covers nothing, there are no figures.
    fn resource_use(mut self, machine: &MachineSeries<'_>) -> ResourceUse {
        self.messages.finish();
        self.own.finish();
        self.target.finish();
        self.others.finish(&machine.trees);
        self.files.finish();
        let is_seen = self.is_seen(machine);
        let mut absent = machine.header.absent.clone();
        absent.extend(machine.end.iter().flat_map(|end| end.absent.clone()));
        let unseen = self.unseen(machine, is_seen);
        absent.extend(unseen.map(|why| ("samples".to_owned(), why)));
        let bare = ResourceUse {
            seconds: seconds(self.begin_ns, self.end_ns),
            samples: self.samples,
            epochs: self.epochs,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            killed: self.messages.killed(),
            absent,
            sampler_cost: machine.cost(),
            ..ResourceUse::default()
        };
        if is_seen {
            self.filled(machine, bare)
        } else {
            bare
        }
    }

    /// Returns whether the series covers part of the window; reduces the window to it.
    fn is_seen(&mut self, machine: &MachineSeries<'_>) -> bool {
        let Some((first_ns, last_ns)) = machine.span.filter(|(first, last)| first != last) else {
            return false;
        };
        self.window.finish(&machine.columns, first_ns, last_ns);
        self.window.begin_ns < self.window.end_ns
    }

    /// Returns which part of the window the samples do not show, and why.
    fn unseen(&self, machine: &MachineSeries<'_>, is_seen: bool) -> Option<String> {
        if !is_seen {
            return Some("fewer than two samples around the trial".to_owned());
        }
        let whole_s = seconds(self.begin_ns, self.end_ns);
        let seen_s = self.window.seconds();
        if whole_s - seen_s > machine.header.interval_ns.0 as f64 / 1e9 {
            return Some(format!("the sampler saw {seen_s:.1} s of {whole_s:.1} s"));
        }
        let late_s = self.late_s;
        (late_s > LATE_SHARE * whole_s).then(|| format!("they came {late_s:.1} s late in total"))
    }

    fn filled(&self, machine: &MachineSeries<'_>, bare: ResourceUse) -> ResourceUse {
        let figures = self.window.figures(machine.header, &machine.columns);
        let others = self.others.others_use(&figures, &machine.trees);
        let (tasks, working) = tasks_use(&figures, &self.own, &self.target);
        let cpu = cpu_use(&figures, others.of_kernel);
        ResourceUse {
            off_cpu: self.off_cpu(machine.header, cpu.as_ref(), &tasks),
            cpu,
            tasks,
            working: Some(working),
            others: others.processes,
            programs: others.programs,
            memory: memory_use(&figures),
            disks: disks_use(&figures, &self.disks, &machine.disks),
            io_pressure: pressure(&figures, "io", "some"),
            io_pressure_full: pressure(&figures, "io", "full"),
            networks: networks_use(&figures),
            sockets: sockets_use(&figures),
            losses: own_losses(&figures, &bare.absent),
            cgroups: cgroups_use(&figures, &machine.cgroups),
            own_io: tree_io(&figures, "own"),
            target_io: tree_io(&figures, "target"),
            files: self.files.nearest(),
            devices: self.files.devices(),
            files_of_machine: files_of_machine(&figures),
            kernel: self.messages.messages(figures.begin_ns, figures.end_ns),
            clock: clock_use(&figures, &self.clocks),
            target_rss_max: figures
                .most("target/rss")
                .map(|rss_kib| rounded(rss_kib * 1024.0)),
            ..bare
        }
    }

    /// Returns the waits, within the limits that CPU times set.
    fn off_cpu(
        &self,
        header: &Header,
        cpu: Option<&CpuUse>,
        tasks: &[TaskUse],
    ) -> Option<OffCpuUse> {
        let own = tasks.iter().filter(|task| task.of == TaskOwner::Own);
        let ready = own
            .clone()
            .map(|task| task.share + task.waiting.unwrap_or(0.0));
        let ready: Vec<f64> = ready.collect();
        let known = own.fold(0.0, |sum, task| sum + task.share);
        // The times of the tree include children that ended between two samples.
        let ran = known.max(cpu.and_then(|cpu| cpu.own).unwrap_or(0.0));
        let ready_sum = ready.iter().fold(0.0, |sum, one| sum + one);
        let least = (1.0 - ran - (ready_sum - known)).max(0.0);
        self.waits.off_cpu(least, &ready, ran, header.cpus.max(1))
    }
}

fn seconds(begin_ns: i64, end_ns: i64) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e9
}

/// One pass over a series.
struct SeriesPass<'a> {
    machine: MachineSeries<'a>,
    groups: Vec<WindowGroup>,
    rows: u64,
    /// Times of the last two rows.
    before_ns: i64,
    last_ns: i64,
}

impl<'a> SeriesPass<'a> {
    fn new(header: &'a Header, groups: &[&[TrialSpan]]) -> Self {
        let mut machine = MachineSeries {
            header,
            columns: Columns::default(),
            busy: BusyClocks::default(),
            disks: DiskSteps::default(),
            trees: Trees::new(header),
            cgroups: Vec::new(),
            end: None,
            span: None,
        };
        let groups = groups
            .iter()
            .map(|trials| WindowGroup::new(&mut machine, trials));
        Self {
            groups: groups.collect(),
            machine,
            rows: 0,
            before_ns: 0,
            last_ns: 0,
        }
    }

    /// Adds a line.
    fn take(&mut self, line: Line) {
        match line {
            Line::Row(row) => {
                self.rows += 1;
                self.before_ns = std::mem::replace(&mut self.last_ns, row.t.0);
                let settled = self.machine.columns.settle(&row.v);
                self.sample(settled);
                self.machine.columns.take(row.t.0);
            }
            Line::Threads(tree, table) => self.threads(tree, table),
            Line::Processes(table) => {
                let table = Rc::new(self.machine.trees.with_descendants(table));
                for group in &mut self.groups {
                    group.others.take(&table, &self.machine.trees);
                }
            }
            Line::FilesOpen(table) => {
                let table = Rc::new(table);
                for group in &mut self.groups {
                    group.files.take(&table);
                }
            }
            Line::Columns(columns) => self.machine.columns.begin(columns),
            Line::Cgroup(cgroup) => self.machine.cgroups.push(cgroup),
            Line::Kernel(message) => {
                for group in &mut self.groups {
                    group.messages.take(&message);
                }
            }
            Line::End(end) => self.machine.end = Some(end),
            Line::File => {}
        }
    }

    /// Returns the groups' uses, after the last line.
    fn finish(mut self) -> impl Iterator<Item = ResourceUse> {
        let settled = self.machine.columns.finish();
        self.sample(settled);
        let (machine, groups) = (self.machine, self.groups);
        groups
            .into_iter()
            .map(move |group| group.resource_use(&machine))
    }

    fn sample(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        self.machine.take(&sample);
        for group in &mut self.groups {
            group.take(&self.machine, &sample);
        }
        self.machine.columns.gauges.take(&sample.gauges);
    }

    fn threads(&mut self, tree: Tree, table: ThreadsLine) {
        self.machine.trees.take(&table, tree == Tree::Target);
        if tree == Tree::Watcher {
            return;
        }
        let table = Rc::new(ThreadTable {
            table,
            number: self.rows.checked_sub(1),
            before_ns: self.before_ns,
        });
        for group in &mut self.groups {
            if tree == Tree::Own {
                group.own.take(&table);
                group.waits.take(&table.table);
            } else {
                group.target.take(&table);
            }
        }
    }
}
