"""A series file as arrays: every column over time, threads, processes, messages.

Purpose: the sampler's differences undone, so that everything after this sees plain
values. Decision: a column carries its own times, because disks, processors and cgroups
come and go: what was not there has no sample, which is not zero. A value that could not
be read is nan. Source: docs/watch-format.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchwright.probe.series_lines import (
    VERSION,
    Cgroup,
    ColumnsLine,
    End,
    FilesOpenTable,
    Header,
    KernelLine,
    Kind,
    Line,
    OwnThreads,
    Processes,
    RowLine,
    SeriesError,
    StatisticFile,
    TargetThreads,
    Threads,
    WatcherThreads,
    read_lines,
)

_BLOCK_ROWS = 512
"""Rows kept as lists before they become an array."""

Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One quantity over time."""

    kind: Kind
    times: Times
    """CLOCK_MONOTONIC [ns] `(n_samples,)`, rising."""
    values: Values
    """`(n_samples,)`; nan where it could not be read."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """All that a sampler wrote down during one batch."""

    path: Path
    header: Header
    times: Times
    """Of all samples [ns] `(n_samples,)`."""
    columns: dict[str, Column]
    own: tuple[Threads, ...] = ()
    target: tuple[Threads, ...] = ()
    watcher: tuple[Threads, ...] = ()
    processes: tuple[Processes, ...] = ()
    files_open: tuple[FilesOpenTable, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    kernel: tuple[KernelLine, ...] = ()
    end: End | None = None
    """None: the file was cut short."""

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """What could not be read, and why."""
        return self.header.absent + (self.end.absent if self.end else ())


def read_series(path: Path) -> Series:
    """Return a series; one that was cut short, up to its last whole line.

    Raises SeriesError for a file that is damaged, missing, or of a newer version.
    """
    reading = _Reading(path)
    for number, line in read_lines(path):
        reading.take(number, line)
    return reading.series()


@dataclass(slots=True)
class _Segment:
    """Rows between two lines of columns."""

    columns: ColumnsLine
    times: list[int] = field(default_factory=list)
    rows: list[list[int | None]] = field(default_factory=list)
    blocks: list[Values] = field(default_factory=list)

    def take(self, row: RowLine) -> None:
        self.times.append(row.t)
        self.rows.append(row.v)
        if len(self.rows) == _BLOCK_ROWS:
            self.pack()

    def pack(self) -> None:
        """Make an array of the rows so far: a tenth of the lists' memory."""
        if self.rows:
            self.blocks.append(np.array(self.rows, dtype=np.float64))
            self.rows = []

    def values(self) -> Values:
        """Return the values `(n_columns, n_rows)`, differences undone."""
        self.pack()
        return undone(np.ascontiguousarray(np.concatenate(self.blocks).T))


class _Reading:
    """A series while its lines come in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: Header | None = None
        self._end: End | None = None
        self._segments: list[_Segment] = []
        self._last_ns: int | None = None
        self._own: list[Threads] = []
        self._target: list[Threads] = []
        self._watcher: list[Threads] = []
        self._processes: list[Processes] = []
        self._files_open: list[FilesOpenTable] = []
        self._cgroups: list[Cgroup] = []
        self._kernel: list[KernelLine] = []

    def take(self, number: int, line: Line) -> None:
        """Take in one line. Raises SeriesError for one that cannot be there."""
        if (self._header is None) != isinstance(line, Header):
            raise SeriesError(
                self._path, number, "a series begins with one line `series`"
            )
        if self._end is not None:
            raise SeriesError(self._path, number, "there is a line after the end")
        match line:
            case RowLine():
                self._take_row(number, line)
            case OwnThreads():
                self._own.append(line)
            case TargetThreads():
                self._target.append(line)
            case WatcherThreads():
                self._watcher.append(line)
            case ColumnsLine():
                self._take_columns(number, line)
            case Header():
                self._take_header(number, line)
            case Processes():
                self._processes.append(line)
            case FilesOpenTable():
                self._files_open.append(line)
            case Cgroup():
                self._cgroups.append(line)
            case KernelLine():
                self._kernel.append(line)
            case End():
                self._end = line
            case StatisticFile():
                pass  # For people; nothing is computed from the copies.

    def _take_header(self, number: int, header: Header) -> None:
        if header.version != VERSION:
            raise SeriesError(
                self._path,
                number,
                f"it is of version {header.version}, and this bw reads {VERSION}",
            )
        if header.interval_ns <= 0 or header.ticks_per_s <= 0 or header.page_size <= 0:
            raise SeriesError(
                self._path, number, "interval, ticks and page size are above 0"
            )
        self._header = header

    def _take_columns(self, number: int, line: ColumnsLine) -> None:
        if len(line.names) != len(line.kinds) or len(set(line.names)) != len(
            line.names
        ):
            raise SeriesError(
                self._path, number, "names of columns differ, and each has a kind"
            )
        self._segments.append(_Segment(line))

    def _take_row(self, number: int, row: RowLine) -> None:
        if not self._segments:
            raise SeriesError(self._path, number, "a row stands before its columns")
        expected = len(self._segments[-1].columns.names)
        if len(row.v) != expected:
            raise SeriesError(
                self._path,
                number,
                f"the row has {len(row.v)} values for {expected} columns",
            )
        if self._last_ns is not None and row.t <= self._last_ns:
            raise SeriesError(
                self._path, number, "the row's time is not after the last"
            )
        self._last_ns = row.t
        self._segments[-1].take(row)

    def series(self) -> Series:
        """Return what was taken in. Raises SeriesError where there is no header."""
        if self._header is None:
            raise SeriesError(self._path, 1, "there is not one whole line in it")
        segments = [one for one in self._segments if one.times]
        times = [np.array(one.times, dtype=np.int64) for one in segments]
        return Series(
            self._path,
            self._header,
            np.concatenate(times) if times else np.zeros(0, np.int64),
            _joined(segments, times),
            tuple(self._own),
            tuple(self._target),
            tuple(self._watcher),
            tuple(self._processes),
            tuple(self._files_open),
            tuple(self._cgroups),
            tuple(self._kernel),
            self._end,
        )


def undone(differences: Values) -> Values:
    """Return the values of differences `(n_columns, n_rows)`; nan is absent.

    A row's entry is the difference from the one before it, or the value itself at the
    beginning and after an absent one.
    """
    values: Values = np.cumsum(differences, axis=1)
    for index in np.flatnonzero(np.isnan(values[:, -1])):
        values[index] = _undone_with_gaps(differences[index])
    return values


def _undone_with_gaps(differences: Values) -> Values:
    absent = np.isnan(differences)
    totals = np.cumsum(np.where(absent, 0.0, differences))
    last_absent = np.maximum.accumulate(np.where(absent, np.arange(len(absent)), -1))
    base = np.where(last_absent >= 0, totals[last_absent], 0.0)
    values: Values = np.where(absent, np.nan, totals - base)
    return values


def _joined(segments: list[_Segment], times: list[Times]) -> dict[str, Column]:
    """Return the columns by name, each over all segments that have it."""
    parts: dict[str, tuple[Kind, list[Times], list[Values]]] = {}
    for segment, when in zip(segments, times, strict=True):
        for name, kind, values in zip(
            segment.columns.names, segment.columns.kinds, segment.values(), strict=True
        ):
            _, all_times, all_values = parts.setdefault(name, (kind, [], []))
            all_times.append(when)
            all_values.append(values)
    return {
        name: Column(kind, when[0], values[0])
        if len(when) == 1
        else Column(kind, np.concatenate(when), np.concatenate(values))
        for name, (kind, when, values) in parts.items()
    }
