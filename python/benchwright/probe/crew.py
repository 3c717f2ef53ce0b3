"""All observers of a session, begun and ended together around each batch.

Purpose: one that cannot watch is left out from then on, with its reason; the trial goes
on. Decision: begun in order and ended in reverse, so that the sampler, the first, also
sees what the others cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchwright.probe.observer import Observer, ObserverError, Watch


class Crew:
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
        """End what was begun; what cannot be made whole is a failure too."""
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
