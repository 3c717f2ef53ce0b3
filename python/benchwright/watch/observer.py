"""The protocol of observers (sampler, profiler, characterization), the set of a session's
observers, unique names for their files, and the port of features that add kinds of observers.

Purpose: the core starts an observer around its trials, stores what it recorded, and asks it what a
report says of that; it knows neither what is recorded nor how. What is recorded of a trial is a
`CpuProfile`, which is measured, whatever samples it. What is recorded of a test is of a type of the
feature; the core stores it under the kind's name and looks into it nowhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from benchwright.core.observation import CpuProfile, FoldedStacks, Trial
from benchwright.core.results import Finding

if TYPE_CHECKING:
    import subprocess


# --------------------------------------------------------------------------------------
# The protocol of programs that watch trials: the sampler, the profiler, characterization.
#
# Purpose: one seam, so that a session starts and stops all observers around a batch without
# knowing what they do. Decision: a failing observer never ends a trial; it raises
# `ObserverError`, and the result reports what was not observed.


class Watch(msgspec.Struct, frozen=True):
    """One batch of epochs that is to be watched."""

    directory: Path
    """Existing directory of the study for the observers' files: `STUDY/watched/s1`."""
    stem: str
    """Unique prefix of the names of these files: the test and its first epoch,
    `ext2_1-1`."""
    root_pid: int
    """Root of a trial's process tree: the launcher's runner; for loads of a search, bw."""
    watcher_pids: tuple[int, ...] = ()
    """Processes of bw itself, which do not count as load."""
    target_pids: tuple[int, ...] = ()
    """Servers under test, each the root of a process tree."""
    root_counts: bool = False
    """Whether the root itself is what is measured: a server that runs already, no launcher."""


class ObserverError(Exception):
    """An observer cannot watch; has a message for users and the code of the finding."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Observer(Protocol):
    """Watches batches, one after the other."""

    def begin(self, watch: Watch) -> None:
        """Start watching. Raises ObserverError."""

    def end(self) -> None:
        """Stop watching and complete the files. Raises ObserverError."""

    def close(self) -> None:
        """Stop everything; may be called at any time, and repeatedly."""


# -- All observers of a session, started and ended together around each batch ------------
#
# An observer that fails is not used again; its reason is stored, and the trial continues.
# Decision: observers start in order and stop in reverse, so that the sampler, the first,
# also measures the cost of the others.


class ObserverSet:
    """The observers of one session."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._able = list(observers)
        self._watching: list[Observer] = []
        self.failures: list[ObserverError] = []
        """Errors of the observers that failed, in order of detection."""

    def begin(self, watch: Watch) -> None:
        """Start watching a batch with all observers that work."""
        self._watching = []
        for observer in tuple(self._able):
            if self._tried(observer, partial(observer.begin, watch)):
                self._watching.append(observer)

    def end(self) -> None:
        """Stop the observers; a file that cannot be completed is a failure too."""
        while self._watching:
            observer = self._watching.pop()
            self._tried(observer, observer.end)

    def close(self) -> None:
        """Stop all observers, also in the middle of a batch."""
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


# -- Unique names for the files of batches ---------------------------------------------
#
# Decision: a batch may be run again after a crash, so the directory is listed once at the
# start; later names are remembered.


class UniqueStems:
    """The stems of the files in a directory: their names up to the first dot."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._taken: set[str] | None = None

    def free(self, stem: str) -> str:
        """Return the stem, extended by `~2`, `~3`, ... if files with it exist."""
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
                files = []  # Writing a file there will report the error.
            self._taken = {
                file[:at] for file in files for at, sign in enumerate(file) if sign == "."
            }
        return self._taken


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Kill a child if it still runs, wait for it, and close its pipes."""
    if child.poll() is None:
        child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


Windows = Sequence[tuple[int, int, int]]
"""(epoch, start, end) of each trial's measured part, CLOCK_MONOTONIC [ns]."""


class BatchObserver(Observer, Protocol):
    """An observer of every batch, which records a profile of each trial."""

    def profiles(self, windows: Windows) -> list[tuple[int, CpuProfile]]:
        """Return the profiles of the trials of the batch that has just ended, each with its epoch.

        Raises OSError if a file cannot be written.
        """


class ExtraObserver(Observer, Protocol):
    """An observer of one more trial of each test, which is in no figure."""

    @property
    def recorded(self) -> msgspec.Struct | None:
        """What it recorded of the batch that has just ended; None if it could not."""


class ObserverKind:
    """A kind of observer, and what is said of its records.

    Every method has an answer for a kind that adds nothing of the sort.
    """

    name: str
    """One word: in the session's setting `watch`, and the option `--NAME`."""
    help: str
    """The help text of the option."""
    of_loads: bool = False
    """Whether it watches loads of searches too."""
    stem: str = ""
    """What the names of the files of an extra trial have after the test."""
    record: str = ""
    """The name of what it records of a test, in the journal and in JSON; empty if it does not."""

    def of_batches(self, *, of_loads: bool) -> BatchObserver | None:
        """Return a new observer of a session's batches, or of a search's loads."""
        return None

    def of_extra_trial(self) -> ExtraObserver | None:
        """Return a new observer of one more trial of each test."""
        return None

    def record_type(self) -> type[msgspec.Struct]:
        """Return the type of what it records of a test."""
        raise NotImplementedError(f"{self.name} records nothing of a test")

    def findings(
        self, subject: str, recorded: Any, claimed_bytes: float | None
    ) -> Sequence[Finding]:
        """Return the findings about what it recorded of a test.

        `claimed_bytes`: the stated size of an operation, if any.
        """
        return ()

    def lines(self, recorded: Any) -> Iterator[str]:
        """Yield lines about what it recorded of a test, for the end of a run."""
        yield from ()

    def files(self, recorded: Any, study: PurePath) -> Mapping[str, str | None]:
        """Return the paths of the files of what it recorded of a test, by the names of
        `ObservedFiles`."""
        return {}

    def differences(
        self, arms: Sequence[tuple[str, Sequence[Trial]]], study: Path, session: int
    ) -> Iterator[str]:
        """Write files about how the trials of arms differ, the baseline first; yield the lines to
        print."""
        yield from ()

    def stacks(self, profiles: Iterable[CpuProfile], study: Path) -> FoldedStacks | None:
        """Return the stored stacks of profiles together. Raises OSError, ValueError."""
        return None

    def picture(self, stacks: FoldedStacks, title: str) -> str:
        """Return stacks as an SVG element of a page."""
        return ""

    def page_style(self) -> str:
        """Return the CSS of its pictures."""
        return ""
