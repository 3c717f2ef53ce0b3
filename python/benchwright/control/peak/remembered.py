"""What pure functions of trials returned, so that a decision computes only what is new.

Decision: keyed by the trials themselves (the same objects) and a key of what else the value
depends on. Dropping it changes nothing but the time that a decision takes. Values that are
kept in a policy lost: a report and a running search each have their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from benchwright.model.peak import LoadTrial

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """The values that a pure function of trials returned last."""

    def __init__(self, most: int) -> None:
        """Keep `most` values."""
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Sequence[LoadTrial], Value]] = (
            OrderedDict()
        )

    def value(
        self, trials: Sequence[LoadTrial], key: Hashable, compute: Callable[[], Value]
    ) -> Value:
        """Return what `compute` returns for these trials and this key."""
        place = (tuple(map(id, trials)), key)
        known = self._values.pop(place, None)
        # The trials are kept with the value, so that no other object gets their ids.
        known = (tuple(trials), compute()) if known is None else known
        self._values[place] = known
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return known[1]
