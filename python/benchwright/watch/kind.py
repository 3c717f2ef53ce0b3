"""Kinds of observers that features add: a port.

Purpose: the core starts an observer around its trials, stores what it recorded, and asks it what a
report says of that; it knows neither what is recorded nor how. What is recorded of a trial is a
`CpuProfile`, which is measured, whatever samples it. What is recorded of a test is of a type of the
feature; the core stores it under the kind's name and looks into it nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Protocol

import msgspec

from benchwright.core.observation import CpuProfile, FoldedStacks, Trial
from benchwright.core.results import Finding
from benchwright.watch.observer import Observer

Windows = Sequence[tuple[int, int, int]]
"""(epoch, start, end) of each trial's EXEC, CLOCK_MONOTONIC [ns]."""


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
