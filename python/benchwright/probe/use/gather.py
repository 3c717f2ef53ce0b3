"""Counters that belong together, added up for each thing that has them: a table of places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.probe.use.counters import Values


class Sums:
    """The totals of some counters of each processor, or of each disk, added up."""

    def __init__(self, names: Sequence[Sequence[str]], known: dict[str, int]) -> None:
        """`names` are those of each thing, equally many; those not known add nothing."""
        places = [[known.get(name, -1) for name in each] for each in names]
        width = len(names[0]) if names else 0
        table = np.array(places, dtype=np.int64).reshape(len(names), width)
        self._places = np.maximum(table, 0)
        self._weights = (table >= 0).astype(np.float64)

    def of(self, totals: Values) -> Values:
        """Return the sums `(n_things,)` of the totals of all counters."""
        if not len(totals):
            return np.zeros(len(self._places))
        found: Values = (totals[self._places] * self._weights).sum(axis=1)
        return found
