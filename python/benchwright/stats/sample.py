"""A sample: its moments, median, slope, standard scores and resolution (the step of the grid on
which values lie), without overflow and without lost digits; its distribution: normality,
outliers, two modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING, cast

import msgspec

from benchwright.stats import special

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


def last_decimal(values: Sequence[float]) -> float:
    """Return the size of the last decimal that any of the finite values has, of its first twelve
    digits: what is computed, 0.1 + 0.2, is written no better. 0 without values."""
    exponents = (Decimal(f"{value:.12g}").as_tuple().exponent for value in finite_values(values))
    return min((10.0 ** cast("int", exponent) for exponent in exponents), default=0.0)


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


# -- Are the data normal? The Anderson-Darling test ------------------------------------
#
# Decision: Anderson and Darling's A2 with mean and deviation estimated, because it detects
# deviations in both tails and second modes, and its P-value has a closed form that is accurate
# from n = 8. Rejected: Shapiro and Wilk, equally powerful, but its polynomial fit is only in
# scipy.stats, which takes 0.5 s to load; D'Agostino's K2, which uses only skewness and kurtosis
# and hardly detects two modes of similar size.
# Source: R. B. D'Agostino and M. A. Stephens 1986, Goodness-of-Fit Techniques, section
# 4.8, case 3 and table 4.9. Non-goal: identifying another distribution.

MIN_VALUES_FOR_NORMALITY = 8
"""Minimum of values for a good approximation of the P-value."""


class NormalityTest(msgspec.Struct, frozen=True):
    """Anderson and Darling's test of one sample."""

    n: int
    a2: float
    """The statistic without its small-sample factor; large values are evidence against normality.
    """
    p: float
    """P-value; NaN (no test) for n < 8 and for constant values."""


def anderson_darling(values: SampleValues) -> NormalityTest:
    """Return the Anderson-Darling test of the finite values, shape `(n,)`."""
    data = sorted(finite_values(values))
    found = moments(data)
    n = found.n
    if n < MIN_VALUES_FOR_NORMALITY or not found.sdev:
        return NormalityTest(n, math.nan, math.nan)
    z = standardized(data, found)
    tails = math.fsum(
        (2 * place + 1)
        * (special.log_normal_cdf(z[place]) + special.log_normal_cdf(-z[n - 1 - place]))
        for place in range(n)
    )
    a2 = -n - tails / n
    return NormalityTest(n, a2, _p_value(a2, n))


def _p_value(a2: float, n: int) -> float:
    a = a2 * (1 + 0.75 / n + 2.25 / n**2)
    if a < 0.2:
        return 1 - math.exp(-13.436 + 101.14 * a - 223.73 * a * a)
    if a < 0.34:
        return 1 - math.exp(-8.318 + 42.796 * a - 59.938 * a * a)
    if a < 0.6:
        return math.exp(0.9177 - 4.279 * a - 1.38 * a * a)
    if a <= 13:
        return math.exp(1.2937 - 5.709 * a + 0.0186 * a * a)
    return 0.0  # The fit ends here: P is below 1e-30.


# -- Outliers: values that do not fit the rest of their series -------------------------
#
# Purpose: to report and classify outliers; they are never removed.
# Method: the modified z-score, distance from the median in median absolute deviations (MAD,
# scaled to standard deviations). The threshold depends on n and the level: the largest of n
# clean scores has the distribution of the largest of n Student-t values with 1 + 0.39 n degrees
# of freedom, fitted to simulation for n from 10 to 500 and levels from 1 % to 0.1 %, where it
# is accurate to 10 %. Up to half of the values may be outliers without hiding each other.
# Decision: a value counts only if it is extreme on the plain scale and, where all values are
# positive, on the logarithmic scale too: times are skewed, and a long tail is no outlier.
# Rejected: fixed thresholds (z > 2, 1.5 IQR, 3.5 MAD), which flag 9 to 80 % of clean samples;
# Rosner's generalised ESD, which misses a quarter of outliers at 8 MAD in 30 trials.
# Non-goals: the cause (see the epoch's logs), modes (below).
# Sources: B. Iglewicz and D. Hoaglin 1993, How to detect and handle outliers.

MIN_VALUES_FOR_OUTLIERS = 10
"""Minimum of values for outliers."""
EXTREME = 2.0
"""An outlier with a score of at least this many thresholds is extreme, else mild."""
LOG_FACTOR = 2.5
"""Factor of the level on the logarithmic scale, which only confirms."""
NORMAL_MAD = 0.6744897501960817
"""MAD of a standard normal variable: its 75th percentile."""


class Outlier(msgspec.Struct, frozen=True):
    """One outlier."""

    place: int
    """Index of the value, from 0."""
    value: float
    score: float
    """Distance from the median, in scaled MADs; positive above it."""
    extreme: bool


def outliers(values: SampleValues, alpha: float = 0.02) -> tuple[Outlier, ...]:
    """Return the outliers of a series, shape `(n,)`, in order of their index.

    Clean data have an outlier with probability `alpha` or less. Empty for fewer than 10
    finite values, and where more than half of the values are equal, because such data show
    their resolution and not their spread.
    """
    every = plain_floats(values)
    places = [place for place, value in enumerate(every) if math.isfinite(value)]
    kept = [every[place] for place in places]
    if len(kept) < MIN_VALUES_FOR_OUTLIERS:
        return ()
    scores, limit = modified_z(kept), outlier_threshold(len(kept), alpha)
    far = [one for one, score in enumerate(scores) if abs(score) > limit]
    if far and min(kept) > 0:
        relaxed = outlier_threshold(len(kept), min(LOG_FACTOR * alpha, 0.5))
        of_logs = modified_z([math.log(value) for value in kept])
        far = [one for one in far if abs(of_logs[one]) > relaxed]
    return tuple(
        Outlier(places[one], kept[one], scores[one], abs(scores[one]) > EXTREME * limit)
        for one in far
    )


def modified_z(values: Sequence[float]) -> list[float]:
    """Return each finite value's distance from the median in scaled MADs, in order.

    All 0 where the MAD is 0.
    """
    middle = median(values) / 2
    distances = [value / 2 - middle for value in values]
    spread = median([abs(distance) for distance in distances])
    if not spread:
        return [0.0] * len(distances)
    return [distance / spread * NORMAL_MAD for distance in distances]


def outlier_threshold(n: int, alpha: float) -> float:
    """Return the largest modified z that n clean values show with probability 1 - alpha."""
    # The MAD of an odd sample varies like that of the even sample with one value fewer.
    degrees = 1 + 0.39 * (n - n % 2)
    return special.t_quantile(degrees, 1 - alpha / (2 * n))


# -- Modes: do the values form two groups with a gap between them? ---------------------
#
# Purpose: the mean of a metric with a fast and a slow mode is a value that no trial has.
# Method: the widest gap between neighbouring values, in standard deviations within the two
# groups that it separates. Unimodal data (normal, lognormal, gamma) have such a gap with
# probability `alpha` or less.
# Decision: a gap rather than the dip test or a mixture's likelihood: a slow mode of 15 % in 30
# trials is four or five values, which the dip test does not detect, and a mixture counts every
# skewed tail as a mode. The gap must exist on the plain scale and, where all values are
# positive, on the logarithmic scale too; and it must be wider than the steps of quantised
# values, such as CPU times in ticks.
# Non-goals: overlapping modes, which no test of 30 values can distinguish from one wide mode.

MIN_VALUES_FOR_MODES = 10
"""Minimum of values for modes."""
SMALLEST_SHARE = 0.05
"""A smaller group is outliers, not a mode,"""
PAIRS_FROM = 20
"""... and so are two of fewer values than this, such as two late wake-ups of ten: they do not
show how frequent a second mode is (3 to 56 %). With more values, groups of two count, because a
slow mode of 15 % would be missed too often without them."""


class Modes(msgspec.Struct, frozen=True):
    """Two groups of values."""

    low: float
    """Mean of the lower group."""
    high: float
    n_low: int
    n_high: int
    gap: float
    """Gap between the groups, in standard deviations within them."""
    empty: tuple[float, float]
    """Ends of this gap: the largest value of the lower group, the smallest of the upper one."""


def two_modes(values: SampleValues, alpha: float = 0.01) -> Modes | None:
    """Return the two groups of a series' values, shape `(n,)`; None for a single mode.

    Unimodal data are separated with probability `alpha` or less. None for fewer than 10
    finite values. Each group has at least 2 values (3 if n < 20) and at least 5 %.
    """
    ordered = sorted(finite_values(values))
    n = len(ordered)
    if n < MIN_VALUES_FOR_MODES or ordered[0] == ordered[-1]:
        return None
    cut, gap = _widest_gap(ordered)
    bound = widest_chance_gap(n, alpha)
    if gap <= bound or not _wider_than_steps(ordered, cut):
        return None
    if ordered[0] > 0:
        gap = min(gap, _gap_at([math.log(value) for value in ordered], cut))
        if gap <= bound:
            return None
    low, high = moments(ordered[:cut]), moments(ordered[cut:])
    ends = ordered[cut - 1], ordered[cut]
    return Modes(low.mean, high.mean, low.n, high.n, gap, ends)


def widest_chance_gap(n: int, alpha: float) -> float:
    """Return the 1 - alpha quantile of the widest gap in n unimodal values.

    Fitted to simulated normal samples for n from 10 to 300 (tests/unit/
    test_stats_series.py); lognormal and gamma values of a CV up to 30 % have narrower
    gaps. At least 2.5: groups with a smaller gap do not look like two modes.
    """
    return max(2.5, (15.5 - 5.0 * math.log10(alpha)) / math.pow(n, 0.8))


def _widest_gap(ordered: Sequence[float]) -> tuple[int, float]:
    """Return the size of the lower group at the widest gap, and that gap."""
    n = len(ordered)
    fewest = max(2 if n >= PAIRS_FROM else 3, math.ceil(SMALLEST_SHARE * n))
    scaled = standardized(ordered, moments(ordered))
    sums = [0.0, *accumulate(scaled)]
    total, square = sums[-1], math.fsum(value * value for value in scaled)

    def gap(cut: int) -> float:
        lower, upper = sums[cut], total - sums[cut]
        within = square - lower * lower / cut - upper * upper / (n - cut)
        sdev = math.sqrt(max(within, 1e-24) / (n - 2))
        return (scaled[cut] - scaled[cut - 1]) / sdev

    best = max(range(fewest, n - fewest + 1), key=gap)
    return best, gap(best)


def _gap_at(ordered: Sequence[float], cut: int) -> float:
    within = 0.0
    for group in (ordered[:cut], ordered[cut:]):
        middle = math.fsum(group) / len(group)
        within += math.fsum((value - middle) ** 2 for value in group)
    sdev = math.sqrt(max(within, 1e-300) / (len(ordered) - 2))
    return (ordered[cut] - ordered[cut - 1]) / sdev


def _wider_than_steps(ordered: Sequence[float], cut: int) -> bool:
    """Return whether the gap is wider than twice the typical step between different values; a
    gap of quantised values is one step."""
    steps = [high - low for low, high in pairwise(ordered) if high != low]
    gap = ordered[cut] - ordered[cut - 1]
    return len(steps) >= 3 and gap > 2 * median(steps)
