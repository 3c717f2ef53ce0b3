"""Dependence between neighbouring trials: autocorrelation, effective sample size, long-run
variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import msgspec

from benchwright.stats import special
from benchwright.stats.sample import dot, finite_values, moments, standardized

if TYPE_CHECKING:
    from benchwright.stats.arrays import FloatArray, SampleValues

# --------------------------------------------------------------------------------------
# Autocorrelation: are neighbouring trials similar, and what is the effective n?
#
# Purpose: to detect trials that are not independent, and to compute the effective sample size.
# The test uses ranks (Bartels' ratio of von Neumann), so outliers and skewness do not affect it.
# The effective size sums the autocorrelations that are reliably positive (Geyer's initial positive
# sequence).
# Decision: only positive dependence is reported, because it makes intervals too narrow. Negative
# dependence makes them too wide, which is harmless.
# Non-goals: correction (the long-run variance below widens intervals), models of the dependence.
# Sources: R. Bartels 1982, The rank version of von Neumann's ratio test for randomness,
# JASA 77(377); C. Geyer 1992, Practical Markov chain Monte Carlo, Statistical Science 7(4).

MIN_VALUES_FOR_DEPENDENCE = 10
"""Minimum of values for a report about dependence."""


class Dependence(msgspec.Struct, frozen=True):
    """How much the values of a series depend on those before them."""

    n: int
    lag_1: float
    """Correlation of neighbours, corrected for its bias of about -1/n; NaN for n < 3."""
    rank_lag_1: float
    """The same for ranks, which outliers do not affect."""
    effective: float
    """Effective sample size for the mean; at most n."""
    p: float
    """P-value of independence against positive correlation; NaN for n < 10 and for
    constant values."""


class _Autocorrelations:
    """The autocorrelations of finite values that are not all equal. Each is computed on
    demand, because usually only a few lags are needed; from `_ALONE` on all at once."""

    def __init__(self, data: Sequence[float]) -> None:
        self._scaled = standardized(data, moments(data))
        self._total = dot(self._scaled, self._scaled)
        self._all: list[float] = []

    def at(self, lag: int) -> float:
        """Return the autocorrelation at a lag, divided by n at every lag; 0 at lags of n or more."""
        if lag < _ALONE or lag >= len(self._scaled):
            return dot(self._scaled[lag:], self._scaled) / self._total
        self._all = self._all or _lagged_products(self._scaled)
        return self._all[lag] / self._total


_ALONE = 64
"""Below this lag each product is summed alone, as a short series needs; all lags of a long one take
n^2 steps so, and n log n by an FFT."""


def _lagged_products(values: Sequence[float]) -> list[float]:
    """Return the sums of the products of values and those so many places later, for all lags."""
    from benchwright.core.numeric import np

    n = len(values)
    # As many zeros behind them, so that the end does not meet the beginning.
    spectrum = np.fft.rfft(np.asarray(values), 2 * n)
    products: list[float] = np.fft.irfft(spectrum * spectrum.conj(), 2 * n)[:n].tolist()
    return products


def autocorrelations(values: SampleValues, most: int) -> list[float]:
    """Return the autocorrelations at lags 0 .. `most`.

    Divided by n at every lag. NaN for constant values; 0 at lags of n or more.
    """
    data = finite_values(values)
    if not moments(data).sdev > 0:
        return [math.nan] * (most + 1)
    found = _Autocorrelations(data)
    return [found.at(lag) for lag in range(most + 1)]


def dependence(values: SampleValues) -> Dependence:
    """Return the dependence in a series, shape `(n,)`, in the order of trials."""
    data = finite_values(values)
    n = len(data)
    spread = moments(data)
    if n < 3 or not spread.sdev:
        return Dependence(n, math.nan, math.nan, float(n), math.nan)
    found, ranks = _Autocorrelations(data), average_ranks(data)
    first = unbiased(found.at(1), n)
    ranked = unbiased(_Autocorrelations(ranks).at(1), n)
    p = math.nan if n < MIN_VALUES_FOR_DEPENDENCE else _bartels(ranks)
    return Dependence(n, first, ranked, _effective(found, n), p)


def unbiased(first: float, n: int) -> float:
    """Return a lag-1 correlation corrected for its bias of about -1/n, within +-1."""
    return min(max(first + (1 + 3 * first) / n, -1.0), 1.0)


def _bartels(ranks: Sequence[float]) -> float:
    """Return the one-sided P-value of the rank von Neumann ratio, by a beta approximation."""
    n = len(ranks)
    deviations = [rank - (n + 1) / 2 for rank in ranks]
    steps = [after - before for before, after in pairwise(ranks)]
    ratio = dot(steps, steps) / dot(deviations, deviations)
    # Bartels: RVN / 4 is nearly a beta variable on (0, 1) with both parameters this.
    shape = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    return special.beta_cdf(shape, shape, min(max(ratio / 4, 0.0), 1.0))


def average_ranks(data: Sequence[float]) -> list[float]:
    """Return the ranks from 1 of values, in their order; ties share their mean rank."""
    ranks = [0.0] * len(data)
    below = 0
    order = sorted(range(len(data)), key=data.__getitem__)
    for _value, group in groupby(order, key=data.__getitem__):
        places = list(group)
        rank = below + (len(places) + 1) / 2
        for place in places:
            ranks[place] = rank
        below += len(places)
    return ranks


def _effective(found: _Autocorrelations, n: int) -> float:
    """Return n / (1 + 2 sum of autocorrelations), summed in pairs of lags while a pair's
    sum is positive; within 1 .. n."""
    total = 0.0
    for lag in range(0, min(n - 1, max(10, n // 4)), 2):
        pair = found.at(lag) + found.at(lag + 1)
        if pair <= 0:
            break
        total += pair
    return min(max(n / max(2 * total - 1, 1.0), 1.0), float(n))


# --------------------------------------------------------------------------------------
# The long-run variance: n times the variance of a mean of dependent trials.
#
# Purpose: correct intervals although neighbouring trials are similar. The values are projected
# on a few slow cosines; the mean square of these projections estimates n times the variance of
# the mean, including correlation.
# Decision: cosines (equal-weighted, EWC) rather than batch means, an AR fit or a bootstrap. For
# independent normal values the projections are independent normal values themselves, so
# that t with as many degrees of freedom as cosines is exact and Stein's argument holds
# unchanged; the price is known beforehand. Rejected: a test of independence first, and the plain
# variance unless it rejects, because this test has no power at the size of a pilot.
# The standard error of a comparison of arms that were measured one after the other
# (`mean_errors`) also uses the lag-1 correlation of all arms together: a short arm cannot show
# its own, and few cosines underestimate a strong one. Decision: moments of an AR(1) series of
# exactly n values, not their limits for long ones, and no correlation that n values cannot
# show. So the allowance is bounded, and a ratio far outside the ranges of both arms is
# decided at every n. Rejected: no interval below two independent values, which left one of six
# pairs of ten values undecided at a ratio of two; a correlation of 0.97 for any n, which left a
# difference of six deviations undecided in 11 % of such pairs and in 31 % of five values.
# Error rates and power for 5 to 50 trials: docs/calibration.md.
# Non-goals: correlations that n values cannot show; findings report those.
# Source: U. Mueller 2004/2007; E. Lazarus, D. Lewis, J. Stock and M. Watson 2018, HAR
# inference: recommendations for practice, J. Business and Economic Statistics 36(4).

MIN_COSINES = 5
"""Number of cosines for a short series."""
MAX_COSINES = 40
"""Maximum of cosines for a mean's error: enough for the slow part of any number of trials."""
_LARGEST_TABLE = 100_000
"""Most numbers of a table of cosines, which is kept: 0.8 MB, of 775 values. A transform of so many
takes as long as the product with the table."""
_PLAN_ERRORS = 1.0
"""A plan increases a correlation by so many of its standard errors: its looks choose when it is
small."""
_ALLOWED_SHARE = 1.5
"""The allowed correlation of n stored values is the measured one, with this / sqrt(n) of it added,
"""
_ALLOWED_LEAST = 4.0
"""... and this / n: with both, arms that correlate by up to 0.6 rarely differ, from 5 values of
each on;"""
_ALLOWED_REACH = 2.0
"""... and at most 1 - this / n of the arm: its values show no correlation that reaches over half of
them."""
_STRONGEST = 0.97
"""Largest correlation that is allowed for."""


class MeanError(msgspec.Struct, frozen=True):
    """The standard error of a series' mean, with the dependence between neighbours."""

    factor: float = 1.0
    """Ratio to the standard error of independent values, at least 1."""
    degrees: float = math.nan
    """Degrees of freedom; NaN for fewer than two values."""


def cosine_count(n: int) -> int:
    """Return how many cosines to use for n values: n/6, at least 5, at most n - 1.

    By simulation (tests/calibration): with n/6 the interval of 30 values has a coverage of
    91 % at a lag-1 correlation of 0.6, and 94 % at 0.3.
    """
    return max(min(max(MIN_COSINES, n // 6), n - 1), 0)


def _projections(values: Sequence[float], count: int) -> FloatArray:
    """Return the projections of values, shape `(n,)`, on the orthonormal cosines of frequencies
    1 .. count, shape `(count,)`: of a long series as a cosine transform by an FFT of the series and
    its mirror image, because the table of its cosines has n^2 / 6 numbers."""
    from benchwright.core.numeric import np

    n = len(values)
    if n * count <= _LARGEST_TABLE:
        of_table: FloatArray = _cosines(n, count) @ np.asarray(values)
        return of_table
    numbers = np.arange(1, count + 1)
    spectrum = np.fft.rfft(np.concatenate([values, values[::-1]]))[1 : count + 1]
    turned = spectrum * np.exp(-0.5j * np.pi * numbers / n)
    found: FloatArray = turned.real * np.sqrt(0.5 / n)
    return found


@lru_cache(maxsize=128)
def _cosines(n: int, count: int) -> FloatArray:
    """Return the orthonormal cosines of frequencies 1 .. count, shape `(count, n)`."""
    from benchwright.core.numeric import np

    middle = (np.arange(n) + 0.5) / n
    waves = np.cos(np.pi * np.outer(np.arange(1, count + 1), middle))
    table: FloatArray = waves * np.sqrt(2 / n)
    table.setflags(write=False)
    return table


def long_run_sdev(values: SampleValues, count: int | None = None) -> float:
    """Return the square root of the long-run variance of finite values, shape `(n,)`, in
    their unit, from `count` cosines, with as many degrees of freedom. NaN for n < 2.

    For independent values it estimates their standard deviation.
    """
    found = moments(values)
    if found.n < 2:
        return float("nan")
    if not found.sdev:
        return 0.0
    # In standard deviations, so that squares do not overflow.
    scaled = standardized(finite_values(values), found)
    wanted = cosine_count(found.n) if count is None else count
    projections = _projections(scaled, wanted).tolist()
    return found.sdev * math.sqrt(dot(projections, projections) / len(projections))


def inflation(values: SampleValues) -> float:
    """Return the factor, at least 1, by which dependence widens an interval: the long-run
    standard deviation / the plain one. 1 for n < 2 and for constant values."""
    found = moments(values)
    if found.n < 2 or not found.sdev:
        return 1.0
    return max(1.0, long_run_sdev(values) / found.sdev)


def ar1_inflation(values: SampleValues, least: float, errors: float = _PLAN_ERRORS) -> float:
    """Return the factor, at least 1, by which the mean's interval of an AR(1) series is wider than
    Student's, with so many standard errors added to the correlation; 1 if the measured correlation
    is at most `least`, for n < 3, and for constant values."""
    data = finite_values(values)
    n = len(data)
    if n < 3 or not moments(data).sdev:
        return 1.0
    first = unbiased(_Autocorrelations(data).at(1), n)
    if first <= least:
        return 1.0
    error = math.sqrt(max(1 - first * first, 0.0) / n)
    cautious = min(max(first + errors * error, 0.0), _STRONGEST)
    return math.sqrt((1 + cautious) / (1 - cautious))


def mean_errors(*arms: Sequence[float]) -> tuple[MeanError, ...]:
    """Return the standard error of each arm's mean, for finite values in the order of
    their trials, shapes `(n,)`: the larger of the cosines' error and of an AR(1) series'.

    The arms are assumed to be from one machine: an arm with less dependence than all arms
    together, weighted by n, gets theirs.
    """
    first = [_lag_1(values) for values in arms]
    sizes = [len(values) for values in arms]
    total = max(sum(sizes), 1)
    together = sum(n * r for n, r in zip(sizes, first, strict=True)) / total
    return tuple(
        _mean_error(values, _allowed(max(own, together), total, len(values)))
        for values, own in zip(arms, first, strict=True)
    )


def _lag_1(values: Sequence[float]) -> float:
    """Return the lag-1 correlation; 0 where none can be computed."""
    n = len(values)
    found = autocorrelations(values, 1)[1] if n > 2 else math.nan
    return 0.0 if math.isnan(found) else unbiased(found, n)


def _allowed(first: float, total: int, n: int) -> float:
    """Return the correlation that the error of an arm of n values allows for; it was measured on
    `total` values."""
    more = max(first, 0.0) * (1 + _ALLOWED_SHARE / math.sqrt(total))
    most = min(1 - _ALLOWED_REACH / n, _STRONGEST) if n else 0.0
    return max(min(more + _ALLOWED_LEAST / total, most), 0.0)


def _mean_error(values: Sequence[float], first: float) -> MeanError:
    n = len(values)
    if n < 2:
        return MeanError()
    spread = moments(values).sdev
    if not spread or not math.isfinite(spread):
        return MeanError(1.0, n - 1)
    series = _ar1_error(n, first)
    count = min(cosine_count(n), MAX_COSINES)
    slow = long_run_sdev(values, count) / spread
    if slow <= series.factor:
        return series
    return MeanError(slow, min(series.degrees, count))


def _ar1_error(n: int, first: float) -> MeanError:
    """Return the standard error of the mean of n > 1 values of an AR(1) series, for its
    correlation within 0 .. 1, without 1: the factor is exact, the degrees are Satterthwaite's."""
    rest, both = 1 - first, 1 - first * first
    gone, gone_twice = 1 - first**n, 1 - first ** (2 * n)
    # Variances in units of a single value's: of the mean, and the expected one within the sample.
    of_mean = ((1 + first) / rest - 2 * first * gone / (n * rest**2)) / n
    within = 1 - of_mean
    # Sums of the squared covariances, of all pairs and of the rows' sums.
    pairs = n * (1 + first**2) / both - 2 * first**2 * gone_twice / both**2
    ends = 2 * gone_twice / both + 2 * n * first ** (n - 1)
    rows = (
        n * (1 + first) ** 2 - 4 * first * (1 + first) * gone / rest + first**2 * ends
    ) / rest**2
    spread = pairs - 2 * rows / n + (n * of_mean) ** 2
    factor = math.sqrt((n - 1) * of_mean / within)
    return MeanError(max(factor, 1.0), min((n * within) ** 2 / spread, n - 1.0))
