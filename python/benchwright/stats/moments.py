"""Moments, median, slope and standard scores of a sample, without overflow and without lost digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

# --------------------------------------------------------------------------------------
# Moments, median and slope of a sample, without overflow and without lost digits.
#
# Decision: values are shifted by one of them and scaled by a power of two before they are
# squared. Both are exact enough to keep every digit, constant data have a standard
# deviation of exactly 0, and 1e-300 or 1e300 neither underflow nor overflow.
# A value that is not finite is not an observation: it is left out of every figure, COUNT
# included, and `finding.examine` reports it.
# Non-goal: robust or resampling estimates.

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Moments(msgspec.Struct, frozen=True):
    """Count, mean and sample standard deviation (n - 1) of the finite values."""

    n: int
    mean: float
    sdev: float


def finite(values: FloatArray | Sequence[float]) -> FloatArray:
    """Return the finite values as an array of shape `(n,)`."""
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    return array[np.isfinite(array)]


class _Reduced(msgspec.Struct, frozen=True):
    """Values as (rest + shift) * inner * outer, with `rest` of a size near 1."""

    rest: FloatArray
    shift: float
    inner: float
    outer: float

    def restored(self, value: float) -> float:
        """Return a reduced figure in the values' size; two steps, as their product
        alone may be no float."""
        return value * self.inner * self.outer


def _reduced(values: FloatArray) -> _Reduced:
    largest = float(np.max(np.abs(values)))
    outer = math.ldexp(1.0, min(math.frexp(largest)[1], 1023)) if largest else 1.0
    scaled = values / outer
    shift = float(scaled[0])
    rest = scaled - shift
    # A second scaling: nearly equal values of any size must not lose their variance.
    spread = float(np.max(np.abs(rest)))
    inner = math.ldexp(1.0, math.frexp(spread)[1]) if spread else 1.0
    return _Reduced(rest / inner, shift / inner, inner, outer)


def moments(values: FloatArray | Sequence[float]) -> Moments:
    """Return count, mean and standard deviation; NaN where n does not allow them.

    Two passes with the rounding of the first taken out of the second (Chan, Golub and
    LeVeque 1983, The American Statistician 37(3)).
    """
    data = finite(values)
    n = int(data.size)
    if n == 0:
        return Moments(0, math.nan, math.nan)
    if n == 1:
        return Moments(1, float(data[0]), math.nan)
    reduced = _reduced(data)
    middle = float(np.mean(reduced.rest))
    deviations = reduced.rest - middle
    residue = float(np.sum(deviations))
    square = float(np.dot(deviations, deviations)) - residue * residue / n
    sdev = math.sqrt(max(square, 0.0) / (n - 1))
    return Moments(n, reduced.restored(reduced.shift + middle), reduced.restored(sdev))


def slope(values: FloatArray, positions: FloatArray | IntArray | None = None) -> float:
    """Return the least-squares slope of `values` over `positions`, both shape `(n,)`.

    Positions are the epoch numbers; 0 .. n-1 when not given. In the values' unit per
    epoch; NaN for n < 2 or when all positions are the same.
    """
    n = int(values.size)
    if n < 2:
        return math.nan
    x = np.arange(n, dtype=np.float64) if positions is None else positions.astype(float)
    assert x.shape == values.shape
    x = x - float(np.mean(x))
    spread = float(np.dot(x, x))
    if not spread:
        return math.nan
    reduced = _reduced(values)
    rest = reduced.rest - float(np.mean(reduced.rest))
    return reduced.restored(float(np.dot(x, rest)) / spread)


def median(values: FloatArray) -> float:
    """Return the median of finite values, shape `(n,)`; NaN for n = 0.

    The mean of the two middle values is taken so that it cannot overflow.
    """
    n = int(values.size)
    if n == 0:
        return math.nan
    ordered = np.sort(values)
    low, high = float(ordered[(n - 1) // 2]), float(ordered[n // 2])
    return low if low == high else low / 2 + high / 2


# -- Standard scores: which values lie far from the others -----------------------------
#
# Non-goal: a verdict. On clean normal data some |z| exceeds 2 in 23 % of samples of 10 and
# in 82 % of samples of 30 (simulated), and none can at n <= 5 because |z| <=
# (n-1)/sqrt(n): a high score asks for a look, nothing more.

Z_THRESHOLD = 2.0
"""Auto-pilot's: warn about a value more than 2 standard deviations from the mean."""


def z_scores(values: FloatArray) -> FloatArray:
    """Return |value - mean| / sdev for finite values, shape `(n,)` -> `(n,)`.

    Zero for constant values and for n < 2: nothing lies apart there.
    """
    if not values.size:
        return np.zeros(values.shape, dtype=np.float64)
    # By a power of two, exactly, to at most 1: neither a huge nor a tiny difference is lost.
    _, exponent = np.frexp(np.abs(values).max())
    scaled: FloatArray = np.ldexp(values, -exponent)
    found = moments(scaled)
    if found.n < 2 or not found.sdev:
        return np.zeros(values.shape, dtype=np.float64)
    scores: FloatArray = np.abs(scaled - found.mean) / found.sdev
    return scores
