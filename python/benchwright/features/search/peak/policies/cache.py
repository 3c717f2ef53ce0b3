"""A cache for pure functions of trials: with it, a decision computes only what is new.

It changes the time and no result. Decision: a value is identified by the trials themselves (the
same objects) and a key for its other inputs. Rejected: values stored in a policy, because a report
and a running search each have their own policy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from benchwright.features.load.plan import LoadTrial

CachedValue = TypeVar("CachedValue")


class TrialCache(Generic[CachedValue]):
    """The most recent values of a pure function of trials."""

    def __init__(self, most: int) -> None:
        """Make a cache of at most `most` values."""
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Sequence[LoadTrial], CachedValue]] = OrderedDict()

    def value(
        self, trials: Sequence[LoadTrial], key: Hashable, compute: Callable[[], CachedValue]
    ) -> CachedValue:
        """Return the value for these trials and this key, from the cache or from `compute`."""
        whole_key = (tuple(map(id, trials)), key)
        entry = self._values.pop(whole_key, None)
        # The trials are stored with the value, so that no other object gets their ids.
        entry = (tuple(trials), compute()) if entry is None else entry
        self._values[whole_key] = entry
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return entry[1]
