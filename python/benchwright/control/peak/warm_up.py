"""How long a server warms up: MSER on the series averaged over runs.

Purpose: the seconds to leave out of every run. One run's series is too noisy to tell;
runs are scaled to one level and averaged, each by its precision, so that quiet runs
at low load, where a cold start is plain, count most.
Source: K. White 1997, An effective truncation heuristic, Simulation 69(6) (MSER);
P. Welch 1983 (averaging over runs); K. Hoad, S. Robinson and R. Davies 2008 (the choice).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.curve import FloatArray

LEAST_S = 2.0
"""Always left out: the empty server's first moments [s]."""
FEWEST_BINS = 12
"""Shorter runs have no steady part to compare their begin with."""


def averaged(runs: Sequence[FloatArray]) -> FloatArray:
    """Return the runs' series averaged at one level, each run `(n_bins,)`; empty where
    no run is long enough."""
    long_ones = [run for run in runs if run.size >= FEWEST_BINS]
    if not long_ones:
        return np.empty(0)
    length = max(run.size for run in long_ones)
    total, weight = np.zeros(length), np.zeros(length)
    for run in long_ones:
        tail = run[run.size // 2 :]
        level, spread = float(tail.mean()), float(tail.var(ddof=1))
        if level <= 0:
            continue
        precision = level * level / (spread + 1e-4 * level * level)
        total[: run.size] += precision * run / level
        weight[: run.size] += precision
    known = weight > 0
    result: FloatArray = total[known] / weight[known]
    return result


def truncation(series: FloatArray) -> int:
    """Return how many first bins MSER leaves out of a series `(n_bins,)`: at most a third."""
    n = series.size
    if n < FEWEST_BINS:
        return 0
    left = np.arange(n, 0, -1)
    sums = np.cumsum(series[::-1])[::-1]
    squares = np.cumsum((series**2)[::-1])[::-1]
    errors = (squares - sums * sums / left) / left**2
    return int(np.argmin(errors[: n // 3 + 1]))
