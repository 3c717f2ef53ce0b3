"""A series file as a whole, for tests: the types of its lines, every sample and table kept, and
differences undone."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from benchwright.core.resource_use import IoLimit


class Header(msgspec.Struct, frozen=True, tag="series"):
    """The first line: describes the series and the machine."""

    version: int
    interval_ns: int
    begin_ns: int
    """CLOCK_MONOTONIC [ns], like all times in the file."""
    realtime_ns: int
    """CLOCK_REALTIME at that moment [ns since 1970]."""
    root_pid: int
    page_size: int = 4096
    ticks_per_s: int = 100
    cpus: int = 0
    boot_id: str = ""
    absent: tuple[tuple[str, str], ...] = ()
    """What could not be read, and why."""
    limits: dict[str, object] = {}
    """Limits that the machine reports: `net/eth0/speed_mbit`."""


class ColumnsLine(msgspec.Struct, frozen=True, tag="columns"):
    """The columns of the rows that follow."""

    names: tuple[str, ...]
    kinds: tuple[Literal["counter", "gauge"], ...]


class RowLine(msgspec.Struct, frozen=True, tag="row"):
    """One sample: differences from the row before."""

    t: int
    v: list[int | None]


class PlaceRow(msgspec.Struct, frozen=True, array_like=True):
    """Where a thread waits: a system call, the kernel's function, and what the call waits for."""

    call: str
    channel: str = ""
    objects: tuple[str, ...] = ()
    limited: bool | None = None
    """Whether the call has a time limit; None: it cannot have one, or that is not known."""


class ThreadRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thread at one sample; times are totals since its start [ns]."""

    pid: int
    tid: int
    name: str
    state: str
    run_ns: int | None
    wait_ns: int | None
    turns: int | None = None
    """How often it was put on a CPU; of the own tree, like what follows."""
    parent: int = 0
    place: PlaceRow | None = None
    """None: it ran or wanted to, or its place is not known."""


class ThreadsLine(msgspec.Struct, frozen=True):
    """The threads of a tree at one sample: at most 64, those that ran most."""

    t: int
    rows: tuple[ThreadRow, ...]
    more: int = 0
    """Number of other threads."""


class OwnThreads(ThreadsLine, frozen=True, tag="own"):
    """Threads of the trial's own tree."""


class TargetThreads(ThreadsLine, frozen=True, tag="target"):
    """Threads of the targets' trees."""


class WatcherThreads(ThreadsLine, frozen=True, tag="watcher"):
    """Threads of bw itself."""


class ProcessRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One process; the header's `ticks_per_s` gives the length of a tick."""

    pid: int
    ppid: int
    name: str
    run_ticks: int
    """User and system time."""
    start_ticks: int
    """Start time since boot: distinguishes two processes with the same number."""


class Processes(msgspec.Struct, frozen=True, tag="processes"):
    """All processes of the machine at one moment."""

    t: int
    rows: tuple[ProcessRow, ...]


class FilesRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The open files of one process."""

    pid: int
    name: str
    open: int
    limit: int | None
    devices: tuple[str, ...] | None = None
    """Disks of its working directory and open files; None: recorded by a version that did not look.
    """


class FilesOpenTable(msgspec.Struct, frozen=True, tag="files_open"):
    """The open files of the own and target trees at one moment."""

    t: int
    rows: tuple[FilesRow, ...]


class CgroupLimits(msgspec.Struct, frozen=True):
    """The limits of a cgroup; None: no limit."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None
    swap_bytes: int | None = None
    pids: int | None = None
    cpus: str | None = None
    io: tuple[IoLimit, ...] = ()


class Cgroup(msgspec.Struct, frozen=True, tag="cgroup"):
    """A cgroup when it was first seen."""

    t: int
    number: int
    version: int
    path: str
    controller: str = ""
    of: Literal["own", "target"] = "own"
    limits: CgroupLimits = CgroupLimits()


class KernelLine(msgspec.Struct, frozen=True, tag="kernel"):
    """A message of the kernel's log."""

    t: int
    level: int
    text: str


class StatisticFile(msgspec.Struct, frozen=True, tag="file"):
    """A copy of a statistic file; its text is not decoded."""

    at: Literal["before", "after"]
    path: str
    text: msgspec.Raw


class SeriesEnd(msgspec.Struct, frozen=True, tag="end"):
    """The last line: the sampler's summary."""

    samples: int
    begin_ns: int
    end_ns: int
    cost_ns: int
    """CPU time that the sampler used."""
    lost_ns: int = 0
    """Total delay of late samples."""
    error: str = ""
    absent: tuple[tuple[str, str], ...] = ()
    """What became unreadable after the header was written, and why."""


SeriesLine = (
    Header
    | ColumnsLine
    | RowLine
    | OwnThreads
    | TargetThreads
    | WatcherThreads
    | Processes
    | FilesOpenTable
    | Cgroup
    | KernelLine
    | StatisticFile
    | SeriesEnd
)


def read_series(path: Path) -> Iterator[SeriesLine]:
    """Yield the complete lines of a series; its end may be missing."""
    decoder: msgspec.json.Decoder[SeriesLine] = msgspec.json.Decoder(SeriesLine)
    # zlib returns what there is before a missing end, which gzip discards.
    text = zlib.decompressobj(31).decompress(path.read_bytes())
    for line in text.split(b"\n")[:-1]:
        yield decoder.decode(line)


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
