"""Computes the `ResourceUse` of each trial from a sampler series."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.resource_use import (
    CpuUse,
    OffCpuUse,
    ResourceUse,
    TaskUse,
    TreeIo,
)
from benchwright.watch.use.columns import Columns, SeriesSample
from benchwright.watch.use.cpu import (
    BusyClocks,
    WindowClocks,
    clock_use,
    cpu_use,
    pressure,
)
from benchwright.watch.use.devices import (
    DiskSteps,
    WindowDisks,
    WindowFiles,
    cgroups_use,
    disks_use,
    files_of_machine,
    memory_use,
    networks_use,
    own_losses,
    sockets_use,
)
from benchwright.watch.use.kernel_log import WindowMessages
from benchwright.watch.use.series_file import (
    Cgroup,
    ColumnsLine,
    FilesOpenTable,
    Header,
    KernelLine,
    OwnThreads,
    Processes,
    RowLine,
    SeriesEnd,
    SeriesLine,
    TargetThreads,
    ThreadsLine,
    WatcherThreads,
    read_series,
)
from benchwright.watch.use.tasks import (
    ProcessTable,
    ThreadTable,
    Trees,
    WindowOthers,
    WindowThreads,
    tasks_use,
)
from benchwright.watch.use.waits import WindowWaits
from benchwright.watch.use.window import SeriesWindow

# --------------------------------------------------------------------------------------
# The state of each window while a series is read, and the resulting use.
#
# Decision: the size of this state depends on the machine (its columns, threads, processes),
# not on the time watched.

_LATE_SHARE = 0.1
"""The share of a window from which late samples are reported."""

SpanNs = tuple[int, int]
"""Begin and end [CLOCK_MONOTONIC ns]."""


class MachineSeries:
    """The state that all windows of a series share: columns, CPUs, disks, process trees."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.columns = Columns()
        self.busy = BusyClocks(header, self.columns)
        self.disks = DiskSteps(self.columns)
        self.trees = Trees(header)
        self.cgroups: list[Cgroup] = []
        self.end: SeriesEnd | None = None
        """None: the file was cut short."""
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        """Times of the first and the last sample."""

    def take(self, sample: SeriesSample) -> None:
        """Add a sample, before the windows do."""
        self.first_ns = sample.when_ns if self.first_ns is None else self.first_ns
        self.last_ns = sample.when_ns
        self.busy.take(sample)
        self.disks.take(sample)

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """What could not be read, and why."""
        return self.header.absent + (self.end.absent if self.end else ())

    @property
    def cost(self) -> float | None:
        """The sampler's own CPU time [cores]."""
        end = self.end
        if end is None or end.end_ns <= end.begin_ns:
            return None
        return end.cost_ns / (end.end_ns - end.begin_ns)


class WindowGroup:
    """The window of one trial, or of several trials that share one, while a series is read."""

    def __init__(self, machine: MachineSeries, trials: Sequence[TrialSpan]) -> None:
        span = trials[0][1], trials[-1][2]
        self._machine = machine
        self._span = span
        self._epochs = trials[0][0], trials[-1][0]
        self.window = SeriesWindow(machine.header, machine.columns, *span)
        self.own = WindowThreads("own", *span)
        self.target = WindowThreads("target", *span)
        self.waits = WindowWaits(machine.header.root_pid, *span)
        self.others = WindowOthers(machine.trees, *span)
        self.files = WindowFiles(*span)
        self._clocks = WindowClocks(*span)
        self._disks = WindowDisks(*span)
        self._samples = 0
        self._late_s = 0.0
        self.messages = WindowMessages(trials)

    def take(self, sample: SeriesSample) -> None:
        """Add a sample, after `MachineSeries.take`."""
        begin_ns, end_ns = self._span
        self.window.take(sample)
        self._clocks.take(sample, self._machine.busy)
        self._disks.take(sample.when_ns, self._machine.disks)
        self._samples += begin_ns <= sample.when_ns <= end_ns
        before_ns = sample.before_ns
        if before_ns is not None and begin_ns < sample.when_ns and before_ns < end_ns:
            interval_s = self._machine.header.interval_ns / 1e9
            step_s = (sample.when_ns - before_ns) / 1e9
            self._late_s += max(step_s - 2 * interval_s, 0.0)

    def use(self) -> ResourceUse:
        """Return the resource use, after the end of the series."""
        machine, (begin_ns, end_ns) = self._machine, self._span
        absent = self._unseen()
        bare = ResourceUse(
            seconds=(end_ns - begin_ns) / 1e9,
            samples=self._samples,
            epochs=self._epochs,
            begin_ns=begin_ns,
            end_ns=end_ns,
            killed=self.messages.killed(),
            absent=machine.absent + absent,
            sampler_cost=machine.cost,
        )
        return self._filled(bare) if self._is_seen() else bare

    def _is_seen(self) -> bool:
        """Return whether the series covers part of the window; reduce the window to it."""
        first_ns, last_ns = self._machine.first_ns, self._machine.last_ns
        if first_ns is None or last_ns is None or first_ns == last_ns:
            return False
        self.window.finish(first_ns, last_ns)
        return self.window.begin_ns < self.window.end_ns

    def _unseen(self) -> tuple[tuple[str, str], ...]:
        """Return which part of the window the samples do not show, and why."""
        if not self._is_seen():
            return (("samples", "fewer than two samples around the trial"),)
        whole_s = (self._span[1] - self._span[0]) / 1e9
        seen_s = self.window.seconds
        if whole_s - seen_s > self._machine.header.interval_ns / 1e9:
            return (("samples", f"the sampler saw {seen_s:.1f} s of {whole_s:.1f} s"),)
        if self._late_s > _LATE_SHARE * whole_s:
            return (("samples", f"they came {self._late_s:.1f} s late in total"),)
        return ()

    def _filled(self, bare: ResourceUse) -> ResourceUse:
        window = self.window
        others = self.others.others_use(window)
        tasks, working = tasks_use(window, self.own, self.target)
        rss_kib = window.most("target/rss")
        cpu = cpu_use(window, others.of_kernel)
        return msgspec.structs.replace(
            bare,
            cpu=cpu,
            tasks=tasks,
            working=working,
            off_cpu=self._off_cpu(cpu, tasks),
            others=others.processes,
            programs=others.programs,
            memory=memory_use(window),
            disks=disks_use(window, self._disks),
            io_pressure=pressure(window, "io"),
            io_pressure_full=pressure(window, "io", "full"),
            networks=networks_use(window),
            sockets=sockets_use(window),
            losses=own_losses(window, dict(bare.absent)),
            cgroups=cgroups_use(window, self._machine.cgroups),
            own_io=_tree_io(window, "own"),
            target_io=_tree_io(window, "target"),
            files=self.files.nearest(),
            devices=self.files.devices,
            files_of_machine=files_of_machine(window),
            kernel=self.messages.messages(window.begin_ns, window.end_ns),
            clock=clock_use(window, self._clocks),
            target_rss_max=None if rss_kib is None else round(rss_kib * 1024),
        )

    def _off_cpu(self, cpu: CpuUse | None, tasks: Sequence[TaskUse]) -> OffCpuUse | None:
        """Return the waits, within the limits that CPU times set."""
        own = [task for task in tasks if task.of == "own"]
        ready = [task.share + (task.waiting or 0.0) for task in own]
        known = sum(task.share for task in own)
        # The times of the tree include children that ended between two samples.
        ran = max(known, (cpu and cpu.own) or 0.0)
        least = max(1.0 - ran - (sum(ready) - known), 0.0)
        cpus = max(self._machine.header.cpus, 1)
        return self.waits.off_cpu(least, ready, ran, cpus)


def _tree_io(window: SeriesWindow, of: str) -> TreeIo | None:
    if window.growth(f"{of}/read_chars") is None:
        return None
    return TreeIo(
        read_chars=window.whole(f"{of}/read_chars"),
        written_chars=window.whole(f"{of}/written_chars"),
        read_bytes=window.whole(f"{of}/read_bytes"),
        write_bytes=window.whole(f"{of}/write_bytes"),
        read_calls=window.whole(f"{of}/read_calls"),
        write_calls=window.whole(f"{of}/write_calls"),
    )


# -- The resource use of the trials of a batch -----------------------------------------
#
# Purpose: the evidence for findings, computed once, right after a batch, from the file and
# the windows alone. Decision: the file is read once, line by line, and each window stores only
# what its figures need, so that an hour on a large machine needs no more memory than a minute.
# Trials shorter than three sampling intervals share a window: most of such a trial lies
# between two samples, so its figures would mostly be its neighbours'. A shared window includes
# the time between its trials (SETUP, CLEANUP, rest), so trials with long pauses do not share
# one, unless all lies within one sampling interval: counters are interpolated there, so
# separate windows would give the same shares, and a window for each trial of a millisecond
# would cost as much as the trial. Source: docs/watch-format.md, core/resource_use.py.

_FEWEST_INTERVALS = 3
"""Trials shorter than this number of sampling intervals share a window."""
_MOST_BETWEEN = 0.1
"""The most time between trials that share a window, as a share of their EXEC time."""

TrialSpan = tuple[int, int, int]
"""Epoch, begin and end of a trial's EXEC [CLOCK_MONOTONIC ns]."""


def uses_of(file: Path, path: str, windows: Sequence[TrialSpan]) -> list[ResourceUse | None]:
    """Return the use of each trial of a batch, in order; None: included in an earlier one.

    `path` is the file's path relative to the study. Trials shorter than three sampling
    intervals that follow each other closely, or that lie within one interval, share a window;
    its use is returned for the first of them.
    If the series covers only part of a window, the figures describe that part, and `absent`
    reports its length; if it covers nothing, there are no figures.
    Raises SeriesError for a series that cannot be read.
    """
    lines = read_series(file)
    header = next(lines)
    assert isinstance(header, Header), "a series begins with its header"
    groups = list(_groups(windows, header.interval_ns))
    passing = _SeriesPass(header, groups)
    for line in lines:
        passing.take(line)
    uses: list[ResourceUse | None] = []
    for group, use in zip(groups, passing.finish(), strict=True):
        uses.append(msgspec.structs.replace(use, series=path))
        uses += [None] * (len(group) - 1)
    return uses


def uses_of_slices(
    file: Path, path: str, begin_ns: int, end_ns: int, most: int
) -> list[ResourceUse]:
    """Return the use of equal slices of a time, at most `most`, each of at least three
    sampling intervals: the course of one long trial. `path` and errors as for `uses_of`."""
    header = next(read_series(file))
    assert isinstance(header, Header), "a series begins with its header"
    length_ns = end_ns - begin_ns
    count = min(most, length_ns // (_FEWEST_INTERVALS * header.interval_ns))
    if count < 1:
        return []
    edges = [begin_ns + length_ns * at // count for at in range(count + 1)]
    spans = [(1, low, high) for low, high in itertools.pairwise(edges)]
    return [use for use in uses_of(file, path, spans) if use is not None]


class _SeriesPass:
    """One pass over a series."""

    def __init__(self, header: Header, groups: Sequence[list[TrialSpan]]) -> None:
        self._machine = MachineSeries(header)
        self._groups = [WindowGroup(self._machine, group) for group in groups]
        self._rows = 0
        self._before_ns = self._last_ns = 0
        """Times of the last two rows."""

    def take(self, line: SeriesLine) -> None:
        """Add a line."""
        match line:
            case RowLine():
                self._row(line)
            case ThreadsLine():
                self._threads(line)
            case Processes():
                below = self._machine.trees.descendants(line)
                for group in self._groups:
                    group.others.take(ProcessTable(line, below))
            case FilesOpenTable():
                for group in self._groups:
                    group.files.take(line)
            case ColumnsLine():
                self._machine.columns.begin(line)
            case Cgroup():
                self._machine.cgroups.append(line)
            case KernelLine():
                for group in self._groups:
                    group.messages.take(line)
            case SeriesEnd():
                self._machine.end = line
            case _:
                pass  # Copied files are for readers; nothing is computed from them.

    def finish(self) -> list[ResourceUse]:
        """Return the groups' uses, after the last line."""
        self._sample(self._machine.columns.finish())
        return [group.use() for group in self._groups]

    def _row(self, row: RowLine) -> None:
        self._rows += 1
        self._before_ns, self._last_ns = self._last_ns, row.t
        self._sample(self._machine.columns.row(row.t, row.v))

    def _sample(self, sample: SeriesSample | None) -> None:
        if sample is not None:
            self._machine.take(sample)
            for group in self._groups:
                group.take(sample)
            self._machine.columns.gauges.take(sample.gauges)

    def _threads(self, table: ThreadsLine) -> None:
        self._machine.trees.take(table, roots=isinstance(table, TargetThreads))
        if isinstance(table, WatcherThreads):
            return
        thread_table = ThreadTable(table, self._rows - 1, self._before_ns)
        for group in self._groups:
            seen = group.own if isinstance(table, OwnThreads) else group.target
            seen.take(thread_table)
            if isinstance(table, OwnThreads):
                group.waits.take(table)


def _groups(windows: Sequence[TrialSpan], interval_ns: int) -> Iterator[list[TrialSpan]]:
    """Yield the groups of trials that share a window, in order."""
    group: list[TrialSpan] = []
    for window in windows:
        if group and not _belongs(group, window, interval_ns):
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def _belongs(group: list[TrialSpan], window: TrialSpan, interval_ns: int) -> bool:
    """Return whether a trial shares the window of those before it: all are short, and the
    pauses are short or all lie within one sampling interval."""
    shortest_ns = _FEWEST_INTERVALS * interval_ns
    if any(end - begin >= shortest_ns for _, begin, end in (group[-1], window)):
        return False
    if window[2] - group[0][1] <= interval_ns:
        return True
    exec_ns = sum(end - begin for _, begin, end in (*group, window))
    between_ns = window[2] - group[0][1] - exec_ns
    return between_ns <= _MOST_BETWEEN * exec_ns
