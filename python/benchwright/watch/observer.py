"""The port to what watches trials (sampler, profiler, tracer), the set of all observers of a session, and unique names for their files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    import subprocess

# --------------------------------------------------------------------------------------
# The port to what watches trials from beside them: the sampler, a profiler, a tracer.
#
# Purpose: one seam, so that a session begins and ends all of them around a batch of epochs
# without knowing what they are. Decision: an observer that cannot do its work never ends a
# trial; it raises `ObserverError`, and the result names what was not observed.


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
    """Processes of bw itself, which count as no load."""
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
        """End what was started and make its files whole. Raises ObserverError."""

    def close(self) -> None:
        """End everything; may be called at any time, and twice."""


# -- All observers of a session, started and ended together around each batch ------------
#
# Purpose: one that cannot watch is left out from then on, with its reason; the trial goes
# on. Decision: started in order and ended in reverse, so that the sampler, the first, also
# sees what the others cost.


class ObserverSet:
    """The observers of one session."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._able = list(observers)
        self._watching: list[Observer] = []
        self.failures: list[ObserverError] = []
        """Why some could not watch, in the order in which it was found out."""

    def begin(self, watch: Watch) -> None:
        """Begin to watch a batch with all that can."""
        self._watching = []
        for observer in tuple(self._able):
            if self._tried(observer, partial(observer.begin, watch)):
                self._watching.append(observer)

    def end(self) -> None:
        """End what was started; what cannot be made whole is a failure too."""
        while self._watching:
            observer = self._watching.pop()
            self._tried(observer, observer.end)

    def close(self) -> None:
        """End everything, also in the middle of a batch."""
        self._watching = []
        for observer in self._able:
            observer.close()

    def _tried(self, observer: Observer, do: Callable[[], None]) -> bool:
        try:
            do()
        except ObserverError as why:
            self.failures.append(why)
            self._able.remove(observer)
            observer.close()
            return False
        return True


# -- Names for the files of batches: none that an earlier batch has --------------------
#
# Decision: a batch may have been cut by a crash and run again, so what is in the directory at
# the beginning is looked at, once; what is named afterwards is known.


class UniqueStems:
    """The names that begin files of a directory, up to a dot."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._taken: set[str] | None = None

    def free(self, stem: str) -> str:
        """Return the name, or with `~2`, `~3` and so on the first that no file begins with."""
        taken = self._known()
        name, number = stem, 2
        while name in taken:
            name = f"{stem}~{number}"
            number += 1
        taken.add(name)
        return name

    def _known(self) -> set[str]:
        if self._taken is None:
            try:
                files = os.listdir(self._directory)
            except OSError:
                files = []  # What is written there will say why not.
            self._taken = {
                file[:at]
                for file in files
                for at, sign in enumerate(file)
                if sign == "."
            }
        return self._taken


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that still runs, wait for it, and close its pipes."""
    if child.poll() is None:
        child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
