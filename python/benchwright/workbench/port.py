"""The port to a workbench: where a trial under load runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from benchwright.model.peak import LoadTrial, Probe
from benchwright.model.plan import Pairs

AroundLoad = Callable[[Sequence[int]], AbstractContextManager[None]]
"""Returns what is around a load, of the processes of the server that is ready for it."""


def unwatched(_server: Sequence[int]) -> AbstractContextManager[None]:
    """Return nothing that is around a load."""
    return nullcontext()


class Workbench(Protocol):
    """A server, its load generator, and the machine that both run on."""

    @property
    def watched(self) -> bool:
        """Whether a running trial can be looked at and left early."""

    def run(
        self,
        probe: Probe,
        sample: Pairs,
        leaves: Callable[[LoadTrial], bool],
    ) -> LoadTrial:
        """Run one trial at a sample (factor levels) and return what it came to.

        A server that does not get ready, or dies, or a generator that fails is a trial
        with ending FAILED, not an error: the search decides. Raises BenchError for a
        workbench that cannot go on at all, and Interrupted after `interrupt`.
        """

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""

    def close(self) -> None:
        """Stop the server and everything else that was started."""
