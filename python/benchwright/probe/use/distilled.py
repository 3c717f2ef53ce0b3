"""From a series to what a trial used: `ResourceUse`, one window after the other.

Purpose: the evidence of findings, distilled once, right after a batch. A function of the
file and the windows. Decision: the file goes by once, line by line, and each window keeps
what its figures need, so that an hour of a large machine needs no more memory than a
minute. Trials of less than three sampling intervals are seen
together, since most of such a window lies between two samples, and shares of a single one
would be shares of its neighbours. What lies between trials (SETUP, CLEANUP, rest) would be
told as theirs, so trials with much between them are not seen together. Source: docs/watch-format.md, model/watched.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.model.watched import ResourceUse
from benchwright.probe.use.columns import Sample
from benchwright.probe.use.group import Group, Machine
from benchwright.probe.use.lines import (
    Cgroup,
    ColumnsLine,
    End,
    FilesOpenTable,
    Header,
    KernelLine,
    Line,
    OwnThreads,
    Processes,
    RowLine,
    TargetThreads,
    Threads,
    WatcherThreads,
)
from benchwright.probe.use.others import ProcessTable
from benchwright.probe.use.series import read_series
from benchwright.probe.use.tasks import ThreadTable

_FEWEST_INTERVALS = 3
"""Shorter trials are seen together."""
_MOST_BETWEEN = 0.1
"""Of their EXEC time: what may lie between trials that are seen together."""

Trial = tuple[int, int, int]
"""Its epoch, and when its EXEC began and ended [CLOCK_MONOTONIC ns]."""


def uses_of(
    file: Path, path: str, windows: Sequence[Trial]
) -> list[ResourceUse | None]:
    """Return what each trial of a batch used, in order; None: it is in one before it.

    `path` is the file's, relative to the study. Trials shorter than three sampling
    intervals that follow each other closely are seen together, by the first of them.
    Raises SeriesError for a series that cannot be read.
    """

    def grouped(header: Header) -> list[list[Trial]]:
        return list(_groups(windows, _FEWEST_INTERVALS * header.interval_ns))

    uses: list[ResourceUse | None] = []
    for group, use in _distilled(file, grouped):
        uses.append(msgspec.structs.replace(use, series=path))
        uses += [None] * (len(group) - 1)
    return uses


def resource_use(
    file: Path, begin_ns: int, end_ns: int, epochs: tuple[int, int]
) -> ResourceUse:
    """Return what was used from one moment to another [CLOCK_MONOTONIC ns].

    Where the series covers a part of it only, figures are of that part, and `absent` says
    how much; where it covers nothing, there are none. Raises SeriesError.
    """
    assert begin_ns <= end_ns, "a window ends after it begins"
    trials = [(epochs[0], begin_ns, end_ns), (epochs[1], begin_ns, end_ns)]
    ((_, use),) = _distilled(file, lambda _: [trials])
    return use


def _distilled(
    file: Path, grouped: Callable[[Header], list[list[Trial]]]
) -> list[tuple[list[Trial], ResourceUse]]:
    """Return groups of trials, as they are for a series' header, each with its use."""
    lines = read_series(file)
    header = next(lines)
    assert isinstance(header, Header), "a series begins with its header"
    groups = grouped(header)
    passing = _Passing(header, groups)
    for line in lines:
        passing.take(line)
    return list(zip(groups, passing.finish(), strict=True))


class _Passing:
    """A series that goes by."""

    def __init__(self, header: Header, groups: Sequence[list[Trial]]) -> None:
        self._machine = Machine(header)
        self._groups = [
            Group(
                self._machine, (group[0][1], group[-1][2]), (group[0][0], group[-1][0])
            )
            for group in groups
        ]
        self._rows = 0
        self._before_ns = self._last_ns = 0
        """When the last two rows were."""

    def take(self, line: Line) -> None:
        """Take in a line."""
        match line:
            case RowLine():
                self._row(line)
            case Threads():
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
                    group.message(line)
            case End():
                self._machine.end = line
            case _:
                pass  # Copies of files are for people; nothing is computed from them.

    def finish(self) -> list[ResourceUse]:
        """Return the groups' uses, after the last line."""
        self._sample(self._machine.columns.finish())
        return [group.use() for group in self._groups]

    def _row(self, row: RowLine) -> None:
        self._rows += 1
        self._before_ns, self._last_ns = self._last_ns, row.t
        self._sample(self._machine.columns.row(row.t, row.v))

    def _sample(self, sample: Sample | None) -> None:
        if sample is not None:
            self._machine.take(sample)
            for group in self._groups:
                group.take(sample)
            self._machine.columns.gauges.take(sample.gauges)

    def _threads(self, table: Threads) -> None:
        self._machine.trees.take(table, roots=isinstance(table, TargetThreads))
        if isinstance(table, WatcherThreads):
            return
        one = ThreadTable(table, self._rows - 1, self._before_ns)
        for group in self._groups:
            seen = group.own if isinstance(table, OwnThreads) else group.target
            seen.take(one)


def _groups(windows: Sequence[Trial], shortest_ns: int) -> Iterator[list[Trial]]:
    """Yield the trials that are seen together, in order."""
    group: list[Trial] = []
    for window in windows:
        if group and not _belongs(group, window, shortest_ns):
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def _belongs(group: list[Trial], window: Trial, shortest_ns: int) -> bool:
    """Return whether a trial is seen with those before it: all short, little between."""
    if any(end - begin >= shortest_ns for _, begin, end in (group[-1], window)):
        return False
    exec_ns = sum(end - begin for _, begin, end in (*group, window))
    between_ns = window[2] - group[0][1] - exec_ns
    return between_ns <= _MOST_BETWEEN * exec_ns
