"""The distribution of a sample: normality, outliers, two modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import msgspec

from benchwright.stats import special
from benchwright.stats.moments import (
    finite_values,
    median,
    moments,
    plain_floats,
    standardized,
)

if TYPE_CHECKING:
    from benchwright.stats.arrays import SampleValues

# -- Are the data normal? The Anderson-Darling test ------------------------------------
#
# Decision: Anderson and Darling's A2 with mean and deviation estimated, because it sees
# both tails and second modes, and its P-value has a closed form that is good from n = 8
# on. What lost: Shapiro and Wilk, as powerful, but a polynomial fit that scipy.special
# does not have and scipy.stats costs 0.5 s to load; D'Agostino's K2, which looks at skew
# and kurtosis only and hardly sees two modes of like size.
# Source: R. B. D'Agostino and M. A. Stephens 1986, Goodness-of-Fit Techniques, section
# 4.8, case 3 and table 4.9. Non-goal: saying what else the data are.

MIN_VALUES_FOR_NORMALITY = 8
"""Below this many values the P-value has no good approximation."""


class NormalityTest(msgspec.Struct, frozen=True):
    """Anderson and Darling's test of one sample."""

    n: int
    a2: float
    """The statistic without its small-sample factor; large speaks against normal."""
    p: float
    """NaN for n < 8 and for constant values: not judged."""


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


# -- Outliers: values that the rest of their series does not explain -------------------
#
# Purpose: to name them, classified, and never to drop them.
# Method: the modified z-score, distance from the median in median absolute deviations (MAD,
# scaled to standard deviations). The threshold comes from n and the level: the largest of
# n clean scores is distributed as that of n Student-t values of 1 + 0.39 n degrees of
# freedom, fitted to simulation for n from 10 to 500 and levels from 1 % to 0.1 %, where it
# is within 10 %. Up to half of the values may be outliers without hiding each other.
# Decision: a value counts only if it stands out on the plain scale and, where all values are
# positive, on the logarithmic one too: times are skewed, and a long tail is no outlier.
# Fixed thresholds (z > 2, 1.5 IQR, 3.5 MAD) lost: they flag 9 to 80 % of clean samples;
# so did Rosner's generalised ESD, which misses a quarter of outliers at 8 MAD in 30 trials.
# Non-goals: why (the epoch's logs say), modes (below).
# Sources: B. Iglewicz and D. Hoaglin 1993, How to detect and handle outliers.

MIN_VALUES_FOR_OUTLIERS = 10
"""Values below which nothing is called an outlier."""
EXTREME = 2.0
"""An outlier this many times the threshold away is extreme, else mild."""
LOG_FACTOR = 2.5
"""The level on the logarithmic scale, which only has to confirm, is this much larger."""
NORMAL_MAD = 0.6744897501960817
"""MAD of a standard normal variable: its 75th percentile."""


class Outlier(msgspec.Struct, frozen=True):
    """One value that stands apart."""

    place: int
    """Which value, from 0, of those given."""
    value: float
    score: float
    """Distance from the median, in scaled MADs; positive above it."""
    extreme: bool


def outliers(values: SampleValues, alpha: float = 0.02) -> tuple[Outlier, ...]:
    """Return the outliers of a series, shape `(n,)`, by place.

    On clean data there is any with probability `alpha` or less. None for fewer than 10
    finite values, and none where more than half of the values are equal: such data have
    a resolution, not a spread.
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
    # An odd sample's MAD varies as that of the even one before it.
    degrees = 1 + 0.39 * (n - n % 2)
    return special.t_quantile(degrees, 1 - alpha / (2 * n))


# -- Modes: do the values fall into two groups with nothing between? -------------------
#
# Purpose: a metric with a fast and a slow mode has a mean that no trial ever shows.
# Method: the widest gap between neighbouring values, in standard deviations within the
# two groups that it parts. Unimodal data (normal, lognormal, gamma) leave such a gap with
# the probability that `limit` is set for.
# Decision: a gap rather than the dip test or a mixture's likelihood: a slow mode of 15 %
# in 30 trials is four or five values, which the dip test does not see, and a mixture
# takes every skewed tail for a mode. The gap must be there on the plain scale and, where
# all values are positive, on the logarithmic one too; and it must be wider than the steps
# of quantised values, such as CPU times in ticks.
# Non-goals: overlapping modes, which no test of 30 values can distinguish from one wide mode.

MIN_VALUES_FOR_MODES = 10
"""Values below which no modes are looked for."""
SMALLEST_SHARE = 0.05
"""A smaller group is outliers, not a mode,"""
PAIRS_FROM = 20
"""... and so are two values of fewer than this, such as two late wake-ups of ten: they say
nothing of how frequent a second mode is (3 to 56 %). From here on a slow mode of 15 % would
be missed too often without them."""


class Modes(msgspec.Struct, frozen=True):
    """Two groups of values."""

    low: float
    """Mean of the lower group."""
    high: float
    n_low: int
    n_high: int
    gap: float
    """Between the groups, in standard deviations within them."""


def two_modes(values: SampleValues, alpha: float = 0.01) -> Modes | None:
    """Return the two groups of a series' values, shape `(n,)`, or None.

    Unimodal data are parted with probability `alpha` or less. None for fewer than 10
    finite values. Each group has at least 2 values, 3 of fewer than 20, and 5 %.
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
    return Modes(low.mean, high.mean, low.n, high.n, gap)


def widest_chance_gap(n: int, alpha: float) -> float:
    """Return the widest gap that n unimodal values show with probability 1 - alpha.

    Fitted to simulated normal samples for n from 10 to 300 (tests/unit/
    test_stats_series.py); lognormal and gamma values of a CV up to 30 % have narrower
    gaps. Not below 2.5: a smaller gap parts nothing that a reader would call two modes.
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
    """Return whether the gap is wider than twice the typical step between values that
    differ: that of quantised values is one step."""
    steps = [high - low for low, high in pairwise(ordered) if high != low]
    gap = ordered[cut] - ordered[cut - 1]
    return len(steps) >= 3 and gap > 2 * median(steps)
