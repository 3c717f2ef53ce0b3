"""The port to what watches trials from beside them: the sampler, a profiler, a tracer.

Purpose: one seam, so that a session begins and ends all of them around a batch of epochs
without knowing what they are. Decision: an observer that cannot do its work never ends a
trial; it raises `ObserverError`, and the result says what was not seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec


class Watch(msgspec.Struct, frozen=True):
    """One batch of epochs that is to be watched."""

    directory: Path
    """Where files may be written; it exists, and is the study's: `STUDY/watched/s1`."""
    stem: str
    """Begins the names of those files, and of no others there: the test and its first
    epoch, `ext2_1-1`."""
    root_pid: int
    """The launcher's worker: every process of a trial descends from it, or did."""
    watcher_pids: tuple[int, ...] = ()
    """Processes of bw itself, which are nobody's load."""
    target_pids: tuple[int, ...] = ()
    """Servers that the trial drives, each the root of a tree."""


class ObserverError(Exception):
    """Why an observer cannot watch, in words for a person, and the code of its finding."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Observer(Protocol):
    """Something that watches batches, one after the other."""

    def begin(self, watch: Watch) -> None:
        """Begin to watch. Raises ObserverError."""

    def end(self) -> None:
        """End what was begun and make its files whole. Raises ObserverError."""

    def close(self) -> None:
        """End everything; may be called at any time, and twice."""
