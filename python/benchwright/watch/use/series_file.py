"""Reads a series file as a stream of typed lines, and checks their order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from benchwright.core.errors import OperatingError
from benchwright.core.resource_use import IoLimit
from benchwright.core.untrusted import open_regular

# --------------------------------------------------------------------------------------
# The lines of a series file, one type for each kind of line.
#
# Purpose: the format of docs/watch-format.md as types. Decision: the file is decompressed in
# pieces by zlib, because `gzip` discards what it has read if the end is missing. A killed
# session leaves such a file, and all of its complete lines are valid.

VERSION = 1
_PIECE = 1 << 18
"""Size of one read [bytes]."""
_GZIP = 31
"""zlib's `wbits` for a gzip header and a window of any size."""

Ns = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A time or a duration [ns]."""
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A 64-bit integer; a larger number means a damaged file."""
ColumnKind = Literal["counter", "gauge"]
Belonging = Literal["own", "target"]


class SeriesError(OperatingError):
    """A series file cannot be read; the message has file, line and reason."""

    code = "series-damaged"

    def __init__(self, path: Path, line: int, message: str) -> None:
        self.path = path
        self.line = line
        super().__init__(
            f"{path}:{line}: {message} [{self.code}]\n"
            "  = the trial's results are in the journal and are not affected"
        )


class Header(msgspec.Struct, frozen=True, tag="series"):
    """The first line: describes the series and the machine."""

    version: Whole
    interval_ns: Ns
    begin_ns: Ns
    """CLOCK_MONOTONIC [ns], like all times in the file."""
    realtime_ns: Ns
    """CLOCK_REALTIME at that moment [ns since 1970]."""
    root_pid: Whole
    page_size: Whole = 4096
    ticks_per_s: Whole = 100
    cpus: Whole = 0
    boot_id: str = ""
    absent: tuple[tuple[str, str], ...] = ()
    """What could not be read, and why."""
    limits: dict[str, object] = {}
    """Limits that the machine reports: `net/eth0/speed_mbit`."""


class ColumnsLine(msgspec.Struct, frozen=True, tag="columns"):
    """The columns of the rows that follow."""

    names: tuple[str, ...]
    kinds: tuple[ColumnKind, ...]


class RowLine(msgspec.Struct, frozen=True, tag="row"):
    """One sample: differences from the row before."""

    t: Ns
    v: list[Whole | None]


class PlaceRow(msgspec.Struct, frozen=True, array_like=True):
    """Where a thread waits: a system call, the kernel's function, and what the call waits for."""

    call: str
    channel: str = ""
    objects: tuple[str, ...] = ()
    limited: bool | None = None
    """Whether the call has a time limit; None: it cannot have one, or that is not known."""


class ThreadRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thread at one sample; times are totals since its start [ns]."""

    pid: Whole
    tid: Whole
    name: str
    state: str
    run_ns: Ns | None
    wait_ns: Ns | None
    turns: Whole | None = None
    """How often it was put on a CPU; of the own tree, like what follows."""
    parent: Whole = 0
    place: PlaceRow | None = None
    """None: it ran or wanted to, or its place is not known."""


class ThreadsLine(msgspec.Struct, frozen=True):
    """The threads of a tree at one sample: at most 64, those that ran most."""

    t: Ns
    rows: tuple[ThreadRow, ...]
    more: Whole = 0
    """Number of other threads."""


class OwnThreads(ThreadsLine, frozen=True, tag="own"):
    """Threads of the trial's own tree."""


class TargetThreads(ThreadsLine, frozen=True, tag="target"):
    """Threads of the targets' trees."""


class WatcherThreads(ThreadsLine, frozen=True, tag="watcher"):
    """Threads of bw itself."""


class ProcessRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One process; the header's `ticks_per_s` gives the length of a tick."""

    pid: Whole
    ppid: Whole
    name: str
    run_ticks: Whole
    """User and system time."""
    start_ticks: Whole
    """Start time since boot: distinguishes two processes with the same number."""


class Processes(msgspec.Struct, frozen=True, tag="processes"):
    """All processes of the machine at one moment."""

    t: Ns
    rows: tuple[ProcessRow, ...]


class FilesRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The open files of one process."""

    pid: Whole
    name: str
    open: Whole
    limit: Whole | None
    devices: tuple[str, ...] | None = None
    """Disks of its working directory and open files; None: recorded by a version that did not look.
    """


class FilesOpenTable(msgspec.Struct, frozen=True, tag="files_open"):
    """The open files of the own and target trees at one moment."""

    t: Ns
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

    t: Ns
    number: Whole
    version: Whole
    path: str
    controller: str = ""
    of: Belonging = "own"
    limits: CgroupLimits = CgroupLimits()


class KernelLine(msgspec.Struct, frozen=True, tag="kernel"):
    """A message of the kernel's log."""

    t: Ns
    level: Whole
    text: str


class StatisticFile(msgspec.Struct, frozen=True, tag="file"):
    """A copy of a statistic file; its text is not decoded."""

    at: Literal["before", "after"]
    path: str
    text: msgspec.Raw


class SeriesEnd(msgspec.Struct, frozen=True, tag="end"):
    """The last line: the sampler's summary."""

    samples: Whole
    begin_ns: Ns
    end_ns: Ns
    cost_ns: Ns
    """CPU time that the sampler used."""
    lost_ns: Ns = 0
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


def read_lines(path: Path) -> Iterator[tuple[int, SeriesLine]]:
    """Yield the file's lines with their numbers from 1; an incomplete last line is omitted.

    Raises SeriesError.
    """
    decoder: msgspec.json.Decoder[SeriesLine] = msgspec.json.Decoder(SeriesLine)
    for number, text in enumerate(_line_texts(path), start=1):
        try:
            line = decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SeriesError(path, number, f"this is not a line of a series: {error}") from None
        yield number, line


def _line_texts(path: Path) -> Iterator[bytes]:
    number = 1
    rest = b""
    try:
        for piece in _decompressed(path):
            *lines, rest = (rest + piece).split(b"\n")
            number += len(lines)
            yield from lines
    except OSError as error:
        raise SeriesError(path, number, f"cannot read it: {error.strerror or error}") from None
    except zlib.error as error:
        raise SeriesError(path, number, f"its compressed data are damaged: {error}") from None


def _decompressed(path: Path) -> Iterator[bytes]:
    """Yield the file's data; a missing end is not an error."""
    with open_regular(path) as file:
        member = zlib.decompressobj(_GZIP)
        while data := file.read(_PIECE):
            while data:
                if member.eof:
                    member = zlib.decompressobj(_GZIP)
                # Bounded, because the text may be 50 times as large as the file.
                yield member.decompress(data, _PIECE)
                data = member.unused_data if member.eof else member.unconsumed_tail
        yield member.flush()


# -- A series file as a stream of lines in a valid order -------------------------------
#
# Purpose: guarantee to all readers that the header comes first, rows match their columns, and
# times increase. Decision: no line is stored, so that memory does not grow with the length of
# the series. Source: docs/watch-format.md.


def read_series(path: Path) -> Iterator[SeriesLine]:
    """Yield the complete lines of a series, the header first.

    Raises SeriesError for a file that is damaged, missing, or of a newer version.
    """
    order = _Order(path)
    for number, line in read_lines(path):
        order.check(number, line)
        yield line
    if not order.is_begun:
        raise SeriesError(path, 1, "it has no complete line")


class _Order:
    """The state needed to check the next line of a series."""

    def __init__(self, path: Path) -> None:
        self.is_begun = False
        self._path = path
        self._is_over = False
        self._columns: int | None = None
        self._last_ns: int | None = None

    def check(self, number: int, line: SeriesLine) -> None:
        """Raise SeriesError for a line that is not allowed at this position."""
        if self.is_begun == isinstance(line, Header):
            raise SeriesError(self._path, number, "a series starts with exactly one line `series`")
        if self._is_over:
            raise SeriesError(self._path, number, "there is a line after the end line")
        match line:
            case RowLine():
                self._check_row(number, line)
            case ColumnsLine():
                self._check_columns(number, line)
            case Header():
                self._check_header(number, line)
            case SeriesEnd():
                self._is_over = True
            case _:
                pass

    def _check_header(self, number: int, header: Header) -> None:
        if header.version != VERSION:
            raise SeriesError(
                self._path,
                number,
                f"its version is {header.version}; this bw reads version {VERSION}",
            )
        if header.interval_ns <= 0 or header.ticks_per_s <= 0 or header.page_size <= 0:
            raise SeriesError(self._path, number, "interval, ticks and page size must be above 0")
        self.is_begun = True

    def _check_columns(self, number: int, line: ColumnsLine) -> None:
        if len(line.names) != len(line.kinds) or len(set(line.names)) != len(line.names):
            raise SeriesError(
                self._path,
                number,
                "column names must differ, and each column needs a kind",
            )
        self._columns = len(line.names)

    def _check_row(self, number: int, row: RowLine) -> None:
        if self._columns is None:
            raise SeriesError(self._path, number, "a row comes before its columns")
        if len(row.v) != self._columns:
            raise SeriesError(
                self._path,
                number,
                f"the row has {len(row.v)} values for {self._columns} columns",
            )
        if self._last_ns is not None and row.t <= self._last_ns:
            raise SeriesError(
                self._path,
                number,
                "the row's time must be after that of the row before",
            )
        self._last_ns = row.t
