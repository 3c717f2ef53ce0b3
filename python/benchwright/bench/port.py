"""The port to a bench: what a session needs of a place where trials run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from benchwright.model.profiled import Profile
from benchwright.model.watched import ResourceUse
from benchwright.trial.record import EpochRecord, RunRequest


class RunResult(msgspec.Struct, frozen=True):
    """The records of one request, in order, and why it ended."""

    epochs: tuple[EpochRecord, ...]
    reason: str
    """`complete`, `budget`, `failed` or `interrupted`."""
    uses: tuple[tuple[int, ResourceUse], ...] = ()
    """What was seen of the machine, where it was watched: (epoch, use)."""
    profiles: tuple[tuple[int, Profile], ...] = ()
    """Where processor time went, where that was asked for: (epoch, profile)."""


class BenchProcesses(msgspec.Struct, frozen=True):
    """The processes that make up a bench on this machine."""

    root: int
    """Every process of a trial descends from it, or did."""
    own: tuple[int, ...]
    """Those of the bench itself, which are nobody's load."""


class Bench(Protocol):
    """A place where trials run."""

    @property
    def processes(self) -> BenchProcesses | None:
        """Its processes, where it runs them on this machine."""

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = ...
    ) -> RunResult:
        """Run a batch and return its records, unless `abandoned()` says not to start.

        Raises BenchError.
        """

    def interrupt(self, *, cleanup: bool) -> None:
        """End what is running now, if anything is; safe to call in a signal handler."""

    def close(self) -> None:
        """End everything that the bench started."""
