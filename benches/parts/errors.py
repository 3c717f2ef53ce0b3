"""Issue errors of a run as shares and percentiles, and the median over runs. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRID_NS = np.unique(np.round(np.logspace(1, 10, 361)).astype(np.int64))
"""Where a CDF is known: from 10 ns to 10 s, 40 places a power of ten [ns]."""
_QUANTILES = {"p50": 50, "p98": 98, "p99.9": 99.9}


class Errors(NamedTuple):
    """Of one run, or the median over several at each place."""

    count: int
    shares: NDArray[np.float64]
    """Up to each place of GRID_NS, 0 to 1."""
    figures_ns: dict[str, float]
    """p50, p98, p99.9 and the mean [ns]."""

    @classmethod
    def of(cls, errors_ns: NDArray[np.int64]) -> Errors:
        """Return the figures of one run; every operation was issued."""
        ordered = np.sort(errors_ns)
        shares = np.searchsorted(ordered, GRID_NS, side="right") / len(ordered)
        figures = {name: float(np.percentile(ordered, q)) for name, q in _QUANTILES.items()}
        return cls(len(ordered), shares, figures | {"mean": float(ordered.mean())})

    def within(self, bound_ns: int) -> float:
        """Return the share of the operations issued within so much."""
        return float(np.interp(bound_ns, GRID_NS, self.shares))

    def us(self, figure: str) -> float:
        """Return a figure [us]."""
        return self.figures_ns[figure] / 1e3


def median_of(runs: list[Errors]) -> Errors:
    """Return the median over runs, place by place and figure by figure."""
    figures = {
        name: float(np.median([run.figures_ns[name] for run in runs]))
        for name in runs[0].figures_ns
    }
    shares = np.median([run.shares for run in runs], axis=0)
    return Errors(min(run.count for run in runs), shares, figures)
