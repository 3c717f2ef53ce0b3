"""Moments, median, slope and standard scores of a sample, without overflow and without lost digits.

The resolution of values: the step of the grid on which they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from benchwright.stats.arrays import FloatArray, SampleValues


# --------------------------------------------------------------------------------------
# Moments, median and slope of a sample, without overflow and without lost digits.
#
# Decision: one of the values is subtracted from all, so that constant data have a standard
# deviation of exactly 0. They are scaled by a power of two where their squares would underflow
# or overflow (1e-300, 1e300). Neither step loses digits.
# Decision: plain floats and `math.fsum`, here and in the other modules that every run needs:
# for the tens to thousands of values of a test they are as fast as arrays, and importing numpy
# takes longer than ten trials of a short command.
# A value that is not finite is ignored in every figure, including COUNT, and
# `findings/examine.py` reports it.
# Non-goal: robust or resampling estimates.


class Moments(msgspec.Struct, frozen=True):
    """Count, mean and sample standard deviation (n - 1) of the finite values."""

    n: int
    mean: float
    sdev: float


def plain_floats(values: SampleValues) -> list[float]:
    """Return values, of any shape, as a list of Python's floats; None becomes NaN."""
    listed = values if isinstance(values, Sequence) else values.ravel().tolist()
    try:
        return list(map(float, listed))
    except TypeError:
        return [math.nan if value is None else float(value) for value in listed]


def finite_values(values: SampleValues) -> list[float]:
    """Return the finite values, in their order."""
    return [value for value in plain_floats(values) if math.isfinite(value)]


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the sum of products over the length of the shorter sequence, rounded once."""
    return math.fsum(map(mul, one, other))


def standardized(data: Sequence[float], spread: Moments) -> list[float]:
    """Return finite values in standard deviations from the mean, given their moments; the
    deviation must be above 0. Halves are subtracted, so that huge values do not overflow."""
    middle, scale = spread.mean / 2, spread.sdev / 2
    if not scale:
        return [(value - spread.mean) / spread.sdev for value in data]
    return [(value / 2 - middle) / scale for value in data]


_SMALLEST, _LARGEST = 1e-140, 1e140
"""Range of differences whose squares, and sums of these, have full precision."""


class _Reduced(msgspec.Struct, frozen=True):
    """Values as (rest + shift) * inner * outer; squares of `rest` do not overflow."""

    rest: list[float]
    shift: float
    inner: float = 1.0
    outer: float = 1.0

    def restored(self, value: float) -> float:
        """Return a reduced figure in the original scale. The factors are applied in two steps,
        because their product alone may overflow."""
        return value * self.inner * self.outer


def _reduced(values: Sequence[float]) -> _Reduced:
    low, high, shift = min(values), max(values), values[0]
    spread = max(high - shift, shift - low)
    if not spread or _SMALLEST < spread < _LARGEST:
        return _Reduced([value - shift for value in values], shift)
    outer = math.ldexp(1.0, min(math.frexp(max(high, -low))[1], 1023))
    scaled = [value / outer for value in values]
    shift = scaled[0]
    rest = [value - shift for value in scaled]
    # The second scaling preserves the variance of nearly equal values of any size.
    inner = math.ldexp(1.0, math.frexp(max(map(abs, rest)))[1])
    return _Reduced([value / inner for value in rest], shift / inner, inner, outer)


def moments(values: SampleValues) -> Moments:
    """Return count, mean and standard deviation; NaN where n is too small.

    Two passes; the second corrects the rounding errors of the first (Chan, Golub and
    LeVeque 1983, The American Statistician 37(3)).
    """
    data = finite_values(values)
    n = len(data)
    if n == 0:
        return Moments(0, math.nan, math.nan)
    if n == 1:
        return Moments(1, data[0], math.nan)
    reduced = _reduced(data)
    middle = math.fsum(reduced.rest) / n
    deviations = [value - middle for value in reduced.rest]
    residue = math.fsum(deviations)
    square = dot(deviations, deviations) - residue * residue / n
    sdev = math.sqrt(max(square, 0.0) / (n - 1))
    return Moments(n, reduced.restored(reduced.shift + middle), reduced.restored(sdev))


def skewness(values: SampleValues) -> float:
    """Return the third central moment (divided by n) over the cube of the standard deviation (n -
    1).

    0 for n < 2 and for constant values.
    """
    data = finite_values(values)
    spread = moments(data)
    if not spread.sdev > 0:
        return 0.0
    scores = standardized(data, spread)
    return math.fsum(score**3 for score in scores) / spread.n


def kurtosis(values: SampleValues) -> float:
    """Return the fourth central moment (divided by n) over the fourth power of the standard
    deviation (n - 1): about 3 for normal values. 0 for n < 2 and for constant values."""
    data = finite_values(values)
    spread = moments(data)
    if not spread.sdev > 0:
        return 0.0
    return math.fsum(score**4 for score in standardized(data, spread)) / spread.n


def slope(values: Sequence[float], positions: Sequence[int] | None = None) -> float:
    """Return the least-squares slope of `values` over `positions`, both shape `(n,)`.

    Positions are the epoch numbers; 0 .. n-1 when not given. In the values' unit per
    epoch; NaN for n < 2 or when all positions are the same.
    """
    n = len(values)
    if n < 2:
        return math.nan
    places = range(n) if positions is None else positions
    assert len(places) == n
    centre = math.fsum(places) / n
    x = [place - centre for place in places]
    spread = dot(x, x)
    if not spread:
        return math.nan
    reduced = _reduced(values)
    middle = math.fsum(reduced.rest) / n
    rest = [value - middle for value in reduced.rest]
    return reduced.restored(dot(x, rest) / spread)


def median(values: SampleValues) -> float:
    """Return the median of finite values, shape `(n,)`; NaN for n = 0.

    The mean of the two middle values is computed without overflow.
    """
    ordered = sorted(plain_floats(values))
    n = len(ordered)
    if n == 0:
        return math.nan
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return low if low == high else low / 2 + high / 2


# -- Standard scores: which values lie far from the others -----------------------------
#
# Non-goal: a verdict. On clean normal data some |z| exceeds 2 in 23 % of samples of 10 and
# in 82 % of samples of 30 (simulated), and none can at n <= 5 because |z| <=
# (n-1)/sqrt(n). A high score is only a reason to look at the value.

Z_THRESHOLD = 2.0
"""Auto-pilot's threshold: warn about a value more than 2 standard deviations from the mean."""


def standard_scores(values: Sequence[float]) -> list[float]:
    """Return |value - mean| / sdev of finite values, in their order.

    0 for constant values and for n < 2.
    """
    if not values:
        return []
    # Scaled exactly, by a power of two, to at most 1: no overflow or underflow.
    _, exponent = math.frexp(max(map(abs, values)))
    scaled = [math.ldexp(value, -exponent) for value in values]
    found = moments(scaled)
    if found.n < 2 or not found.sdev:
        return [0.0] * len(values)
    return [abs(value - found.mean) / found.sdev for value in scaled]


def z_scores(values: SampleValues) -> FloatArray:
    """Return `standard_scores` as an array, shape `(n,)` -> `(n,)`: the Python API."""
    from benchwright.core.numeric import np

    return np.array(standard_scores(plain_floats(values)))


# Purpose: a clock of 1 ms and a percentile in whole milliseconds give values that repeat. Each is
# known no better than half a step, whatever the standard deviation of the values is: 30 measured
# three times is no evidence of a value without noise. Method: the step is the smallest distance of
# two different values, if all distances are whole multiples of it and at least half of the values
# repeat another one. A value that is rounded to such a step has an error whose variance is step **
# 2 / 12. Non-goals: the step of values that hardly repeat, which is smaller than their standard
# deviation; rates over whole units of time, whose steps differ (findings/sanity.py).

_ROUNDING = 1e-6
"""Largest distance from a whole multiple of values that are not rounded, in steps: 0.3 - 0.2 is not
0.1."""
_EQUAL = 1e-12
"""Values that differ by less, relative to the largest, are equal: they were rounded on different
ways."""


def resolution(values: SampleValues, rounding: float = 0.0) -> float:
    """Return the step of the grid on which the finite values lie, shape `(n,)`, in their unit.

    It is 0 where more than half of the values are different, where all are equal, and where they
    lie on no grid. `rounding` is the last digit of values that are written rounded: 0.33, 0.67 and
    1.00 have a step of 0.33.
    """
    data = sorted(finite_values(values))
    if not data:
        return 0.0
    tiny = _EQUAL * max(abs(data[0]), abs(data[-1]))
    distances = [high - low for low, high in pairwise(data) if high - low > tiny]
    if not distances or 2 * (len(distances) + 1) > len(data):
        return 0.0
    step = min(distances)
    error = (tiny + rounding) / step
    for distance in distances:
        times = distance / step
        if abs(times - round(times)) > max(_ROUNDING, (times + 1) * error):
            return 0.0
    return step


def rounding_error(values: SampleValues) -> float:
    """Return by how much the mean of finite values, shape `(n,)`, can be off because a clock
    rounded them, in their unit; 0 where they lie on no grid that begins at 0.

    It is half a step where they hardly vary, and vanishes with their standard deviation: rounding
    moves the mean of normal values by at most step / pi * exp(-2 (pi sdev / step)**2), and rounded
    down they are half a step lower anyway.
    """
    step = resolution(values)
    data = finite_values(values)
    if not step or abs(math.remainder(min(data), step)) > _ROUNDING * step:
        return 0.0
    return step / 2 * math.exp(-2 * (math.pi * moments(data).sdev / step) ** 2)
