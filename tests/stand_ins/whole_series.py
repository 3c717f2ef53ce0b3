"""A series file as a whole, for tests: every sample and table kept, differences undone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass
class Column:
    """One quantity over time."""

    kind: str
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """nan where it could not be read."""

    @property
    def told(self) -> list[tuple[int, float]]:
        """Its samples without those that could not be read."""
        samples = zip(self.times, self.values, strict=True)
        return [(when, value) for when, value in samples if not math.isnan(value)]


@dataclass
class Series:
    """All that a sampler wrote down during one batch."""

    header: Header
    times: list[int] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)
    own: list[ThreadsLine] = field(default_factory=list)
    target: list[ThreadsLine] = field(default_factory=list)
    watcher: list[ThreadsLine] = field(default_factory=list)
    processes: list[Processes] = field(default_factory=list)
    files_open: list[FilesOpenTable] = field(default_factory=list)
    cgroups: list[Cgroup] = field(default_factory=list)
    kernel: list[KernelLine] = field(default_factory=list)
    end: SeriesEnd | None = None

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """What could not be read, and why."""
        return self.header.absent + (self.end.absent if self.end else ())


def read_whole(path: Path) -> Series:
    """Return a series with all that is in it."""
    lines = read_series(path)
    header = next(lines)
    assert isinstance(header, Header)
    series = Series(header)
    columns = ColumnsLine((), ())
    last: list[int | None] = []
    for line in lines:
        if isinstance(line, ColumnsLine):
            columns, last = line, [None] * len(line.names)
        elif isinstance(line, RowLine):
            last = _row(series, columns, last, line)
        else:
            _keep(series, line)
    return series


def _row(
    series: Series, columns: ColumnsLine, last: list[int | None], row: RowLine
) -> list[int | None]:
    """Add a row's values, and return them."""
    series.times.append(row.t)
    values = [
        told if told is None or before is None else before + told
        for before, told in zip(last, row.v, strict=True)
    ]
    for name, kind, value in zip(columns.names, columns.kinds, values, strict=True):
        column = series.columns.setdefault(name, Column(kind))
        column.times.append(row.t)
        column.values.append(math.nan if value is None else float(value))
    return values


def _keep(series: Series, line: SeriesLine) -> None:
    match line:
        case OwnThreads():
            series.own.append(line)
        case TargetThreads():
            series.target.append(line)
        case WatcherThreads():
            series.watcher.append(line)
        case Processes():
            series.processes.append(line)
        case FilesOpenTable():
            series.files_open.append(line)
        case Cgroup():
            series.cgroups.append(line)
        case KernelLine():
            series.kernel.append(line)
        case SeriesEnd():
            series.end = line
        case _:
            pass
