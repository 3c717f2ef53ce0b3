"""Change points of a series: where its level jumps."""

from __future__ import annotations

import math

from benchwright.core.numeric import np
from benchwright.stats.arrays import FloatArray, SampleValues, finite
from benchwright.stats.moments import median, moments

# Purpose: to mark in a plot where the machine or the program changed.
# Method: the partition into segments of constant mean with the least squared error plus a
# penalty for each change, computed exactly (Jackson et al. 2005). The scale is that of the
# differences of neighbours, which a jump hardly changes.
# Decision: exact in O(n^2). Rejected: PELT, whose pruning saves nothing where changes are rare.
# Above 1000 values, means of neighbours are used. The penalty is calibrated so that clean
# normal data of 10 to 500 values show a change in at most 1 % of series
# (tests/unit/test_stats_series.py). Correlated trials look like small jumps: read a change
# together with the finding `dependent-trials`.
# Non-goals: slopes (drift.py), variances, a significance level for a finding.
# Sources: B. Jackson et al. 2005, An algorithm for optimal partitioning of data on an
# interval, IEEE Signal Processing Letters 12(2); R. Killick et al. 2012 (PELT).

MIN_SEGMENT = 3
"""Number of values in the shortest segment."""
MAX_CHANGE_VALUES = 1000
"""Maximum of values to partition; longer series are replaced by means of neighbours."""
_HALF_NORMAL = 0.6744897501960817 * math.sqrt(2)
"""MAD of the difference of two standard normal variables."""


def change_points(values: SampleValues) -> tuple[int, ...]:
    """Return the indexes, from 0, at which a new segment begins; empty for none.

    `values` are finite, shape `(n,)`, in the order of trials. Empty for n < 10 and for
    series in which most neighbours are equal.
    """
    data = finite(values)
    if data.size < 10:
        return ()
    width = -(-data.size // MAX_CHANGE_VALUES)
    scaled = _scaled(_means(data, width))
    if scaled is None:
        return ()
    return tuple(place * width for place in _partition(scaled, penalty(scaled.size)))


def penalty(n: int) -> float:
    """Return the minimum gain of a change, in squared standard deviations of one value."""
    return 12.0 + 2.0 * math.log(n) + 140.0 / n


def _means(data: FloatArray, width: int) -> FloatArray:
    if width == 1:
        return data
    whole = data.size // width * width
    return np.asarray(data[:whole].reshape(-1, width).mean(axis=1))


def _scaled(data: FloatArray) -> FloatArray | None:
    """Return the values in standard deviations; None where the deviation is 0."""
    middle = moments(data.tolist()).mean
    halves = data / 2 - middle / 2
    noise = median(np.abs(np.diff(halves))) / _HALF_NORMAL
    return halves / noise if noise else None


def _partition(data: FloatArray, price: float) -> list[int]:
    """Return the starts of the segments, without the first, of the cheapest partition."""
    n = data.size
    sums = np.concatenate([[0.0], np.cumsum(data)])
    squares = np.concatenate([[0.0], np.cumsum(data * data)])
    best = np.full(n + 1, math.inf)
    best[0] = -price
    start = np.zeros(n + 1, dtype=np.int64)
    for end in range(MIN_SEGMENT, n + 1):
        starts = np.arange(0, end - MIN_SEGMENT + 1)
        length = end - starts
        total = sums[end] - sums[starts]
        error = squares[end] - squares[starts] - total * total / length
        cost = best[starts] + error + price
        start[end] = int(np.argmin(cost))
        best[end] = cost[start[end]]
    places, end = [], int(start[n])
    while end:
        places.append(end)
        end = int(start[end])
    return places[::-1]
