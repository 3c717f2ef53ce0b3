"""The batch that a session runs now, from what its sampler has written so far.

Purpose: `bw why` and the live view say what limits a long trial before it ends. Decision: whoever
asks reads the file that the sampler flushes once a second, and reduces it by the program that
reduces finished series; the session and its sampler do nothing for it. The reader is at nice 19, because
the trial is measured meanwhile. Rejected: to ask the sampler, which would then work in a trial;
SCHED_IDLE, with which there is no answer on a machine that is busy.
Source: sched(7), zlib's manual on Z_SYNC_FLUSH.
"""

from __future__ import annotations

import gzip
import os
import re
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import OperatingError
from benchwright.findings.explanation import Explanation, explain_running
from benchwright.findings.limit import StatedCapacity
from benchwright.run.watching import WATCHED_DIRECTORY
from benchwright.study.directory import writer_of
from benchwright.trial.programs import find_sampler
from benchwright.watch.sampler import SeriesReducer

_FLUSHED_S = 3.0
"""A series is flushed once a second: one that is older than this is of no batch that runs, or its
sampler does not come to run."""
_FLUSH = b"\x00\x00\xff\xff"
"""The end of what is flushed; a finished file ends with its length."""
_SERIES = re.compile(r"(?P<test>.+)-(?P<first>\d+)(?:~\d+)?\.jsonl\.gz")
_DIRECTORY = re.compile(r"s(\d+)")
SHARE = 0.05
"""The largest part of the time in which whoever follows a session reads and reduces."""


class _Head(msgspec.Struct):
    """What is used of the first line of a series (docs/watch-format.md)."""

    begin_ns: int


class BatchUnderway(msgspec.Struct, frozen=True):
    """A series that a sampler writes now."""

    file: Path
    session: int
    test: str
    """The test in the name of the series."""
    first: int
    """The first trial of the batch; of a search the number of the load."""
    begin_ns: int
    """CLOCK_MONOTONIC [ns]."""
    until_ns: int
    """When the series was written last, CLOCK_MONOTONIC [ns]."""
    written_ns: int
    """The same as the file system has it [ns since 1970]."""

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return f"{self.test}, trial {self.first} so far"


def batch_underway(study: Path) -> BatchUnderway | None:
    """Return the batch that a session of a study runs now; None if none runs, or if it is not
    watched. A batch that has just begun or ended may be missed."""
    if writer_of(study) in (None, os.getpid()):
        return None
    directories = [
        (int(match[1]), place)
        for place in _within(study / WATCHED_DIRECTORY)
        if (match := _DIRECTORY.fullmatch(place.name))
    ]
    if not directories:
        return None
    session, directory = max(directories)
    newest, file = max(
        (
            (_written_ns(place), place)
            for place in _within(directory)
            if _SERIES.fullmatch(place.name)
        ),
        default=(0, directory),
    )
    age_ns = time.time_ns() - newest
    match = _SERIES.fullmatch(file.name)
    if match is None or age_ns > _FLUSHED_S * 1e9:
        return None
    until_ns = time.monotonic_ns() - max(age_ns, 0)
    try:
        with file.open("rb") as data:
            data.seek(-len(_FLUSH), os.SEEK_END)
            if data.read() != _FLUSH:
                return None
        with gzip.open(file) as lines:
            begin_ns = msgspec.json.decode(lines.readline(), type=_Head).begin_ns
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError):
        return None  # Nothing was flushed yet.
    if begin_ns >= until_ns:
        return None
    test, first = match["test"], int(match["first"])
    return BatchUnderway(file, session, test, first, begin_ns, until_ns, newest)


def _within(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []


def _written_ns(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0


def explain_underway(
    batch: BatchUnderway, capacities: Sequence[StatedCapacity] = ()
) -> Explanation | None:
    """Return the explanation of a batch from its begin until now; None if its series has nothing
    yet, or cannot be reduced."""
    window = (batch.first, batch.begin_ns, batch.until_ns)
    try:
        uses = SeriesReducer(find_sampler()).uses(batch.file, batch.file.name, [window])
    except (OSError, OperatingError):
        return None
    use = next((use for use in uses if use is not None and use.samples), None)
    return None if use is None else explain_running(batch.name, use, capacities)


class UnderwayFollower:
    """Explains the batch of a study again and again, with a bounded part of the time."""

    def __init__(self, study: Path, capacities: Sequence[StatedCapacity] = ()) -> None:
        self._study = study
        self._capacities = tuple(capacities)
        self._next_at = 0.0
        self._last: Explanation | None = None
        self._written_ns = 0
        """When the series of the last explanation was written."""

    def look(self) -> Explanation | None:
        """Return the explanation of what runs now, the last one if it is too early for another;
        None if nothing runs."""
        begun = time.monotonic()
        batch = batch_underway(self._study)
        if batch is None:
            self._last = None
        elif begun >= self._next_at and batch.written_ns != self._written_ns:
            self._written_ns = batch.written_ns
            self._last = explain_underway(batch, self._capacities)
            ended = time.monotonic()
            self._next_at = ended + (ended - begun) * (1 / SHARE - 1)
        return self._last
