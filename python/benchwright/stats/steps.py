"""Steps of a series: where its level changed, and whether its newest value still has the present
level."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from benchwright.core.numeric import np, npt
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray, IntArray, SampleValues
from benchwright.stats.intervals import t_quantile
from benchwright.stats.sample import Moments, last_decimal, moments, resolution, two_modes

# Purpose: a history of runs has steps (a commit made the program slower), spikes (one disturbed
# run) and neighbours that resemble each other (a machine that is slow for a week). Only the first
# are changes. Model: piecewise constant levels with stationary AR(1) noise. Of logarithms, so that
# a step is a ratio, where the caller gives logarithms. Values are first limited to 3 robust
# deviations from a running median of 9, so that a spike counts no more than a moderate value.
# Method: for m = 0, 1, 2, ... steps the partition with the least squared error (exact dynamic
# programming); then the likelihood of each partition with the noise's deviation and correlation as
# that partition leaves them. The gain of m steps is twice the difference of log-likelihoods to no
# step; m maximizes gain - m * threshold. A slow wave is explained by correlation as well as by
# steps, so it has little gain: the null distribution of gain / m hardly depends on the correlation,
# and one table of thresholds is right for all (tests/calibration/test_steps.py). A step must also
# fit better than a straight line through both of its levels, so that a slope is not reported as
# stairs. Steps on a slope that all levels have are one more candidate, so that a step beside a drift
# has its own size; the slope is a parameter without a place and costs less than a step. A series whose neighbours correlate by 0.9 or more and in which no step is left has no
# level to return to: its few moves that account for the largest part of all variation are reported,
# marked as `wanders`. Decision: rejected are a threshold on residual variance alone (PELT, binary
# segmentation, E-divisive), which calls half of all correlated series changed, and a bootstrap of
# each series, which costs a second a series and estimates the same correlation with more noise.
# Non-goals: changes of variance, seasons, slopes of single levels. Sources: B. Jackson et al. 2005
# (optimal partitioning); S. Chakar et al. 2017, A robust approach for estimating change-points in
# the mean of an AR(1) process, Bernoulli 23(2); P. Fearnhead and G. Rigaill 2019, Changepoint
# detection in the presence of outliers, JASA 114(525).

MIN_SEGMENT = 2
"""Minimum number of values of a level."""
MIN_VALUES = 8
"""Minimum of values for an answer."""
FALSE_ALARMS = 0.05
"""Default share of stationary series with any false step."""
MAX_STEPS = 20
"""Maximum of steps of one series."""
MAX_VALUES = 1000
"""Maximum of values to partition; longer series are replaced by means of neighbours."""

_LIMIT = 3.0
"""Values are limited to this many robust deviations from the level around them."""
_BASE = 9
"""Number of values of the running median."""
_MAD = 1.482602218505602
"""Standard deviation of normal values / their median absolute deviation."""
_STRONGEST = 0.95
"""Maximum of the correlation; a series that is more alike is a sequence of steps."""
_TINY = 1e-18
"""Noise variance below which differences are rounding, relative to the values' square."""


class LevelStep(msgspec.Struct, frozen=True):
    """A change of a series' level."""

    index: int
    """The first value of the new level, from 0."""
    first: int
    """Ends of the 95 % interval of `index`."""
    last: int
    change: float
    """Difference of the levels, new minus old, in the unit of the values."""
    low: float
    """Ends of the 95 % interval of `change`."""
    high: float
    p: float
    """Share of stationary series that have a step as clear as this one by chance. NaN
    in a series that wanders."""

    @property
    def ratio(self) -> float:
        """The new level / the old one, where the values are logarithms."""
        return math.exp(self.change)

    @property
    def ratio_low(self) -> float:
        return math.exp(self.low)

    @property
    def ratio_high(self) -> float:
        return math.exp(self.high)


PatternKind = Literal["excursion", "drift", "modes", "spread"]


class Pattern(msgspec.Struct, frozen=True):
    """What a series has that is no step of its level.

    `excursion`: a few values of another level, after which the series is back. `drift`: a slope.
    `modes`: the values have two levels at once. `spread`: the noise is larger, or smaller, from
    some value on.
    """

    kind: PatternKind
    first: int
    """The first value that it concerns, from 0."""
    last: int
    """The last one."""
    size: float
    """In the unit of the values: by how much the values of an excursion are above the level around
    them, the last value of a slope above the first one, the upper mode above the lower one. Of a
    spread the ratio of the standard deviations."""
    share: float = 1.0
    """The share of the values that the upper mode has."""
    is_alternative: bool = False
    """Whether a step is reported too that fits about as well as this slope."""


class StepFit(msgspec.Struct, frozen=True):
    """The steps and the spikes of a series."""

    steps: tuple[LevelStep, ...] = ()
    spikes: tuple[int, ...] = ()
    """Single values far from the level around them, from 0."""
    undecided_from: int | None = None
    """Values from this one on may have a new level: too few to decide. None if the end
    is like its level."""
    sdev: float = math.nan
    """Standard deviation of the noise, spikes limited; NaN for too few values."""
    correlation: float = math.nan
    """Correlation of neighbours, at least 0."""
    wanders: bool = False
    """Whether the level moves without steps: neighbours correlate by 0.9 or more, and no step
    explains that. `steps` are then the few largest moves, which no error rate holds for."""
    size: int = 0
    """The number of values."""
    patterns: tuple[Pattern, ...] = ()
    """What is no step of the level."""
    slope: float = 0.0
    """By how much the levels rise with each value, in the unit of the values; 0 unless the steps
    are on a slope. The changes of steps are without it."""

    def change_since(self, at: int) -> tuple[float, float, float]:
        """Return by how much the last level is above the level before step `at`, from 0, with the
        ends of its 95 % interval, in the unit of the values."""
        edges = [0, *(step.index for step in self.steps), self.size]
        change = sum(step.change for step in self.steps[at:])
        lengths = edges[at + 1] - edges[at], edges[-1] - edges[-2]
        apart = (edges[-1] + edges[-2] - edges[at + 1] - edges[at]) / 2
        share = _slope_variance(edges) * apart**2 if self.slope else 0.0
        degrees = self.size - len(edges) + 1 - bool(self.slope)
        reach = self.sdev * _reach(*lengths, self.correlation, degrees, share)
        return change, change - reach, change + reach


def find_steps(
    values: SampleValues,
    *,
    standard_errors: SampleValues | None = None,
    false_alarms: float = FALSE_ALARMS,
    logarithms: bool = False,
) -> StepFit:
    """Return the steps of finite values, shape `(n,)`, in the order of runs.

    `false_alarms` is the share of stationary series with any step. `standard_errors`, shape `(n,)`,
    are those of the single values (NaN where unknown): the noise is at least as large as they are,
    and a value that is less certain than the others counts less. The noise is also at least that of
    rounding to the values' resolution, which is that of the numbers themselves where the values are
    their `logarithms`.
    """
    data = np.asarray(values, dtype=np.float64)
    assert data.ndim == 1
    assert np.isfinite(data).all()
    n = data.size
    if n < MIN_VALUES:
        return StepFit((), (), 0 if n else None)
    scaled, unit = _scaled(data)
    if not unit:
        return StepFit((), (), None, 0.0, 0.0)
    grid = _grid(data, logarithms=logarithms) / unit
    errors = _errors(standard_errors, unit, n).rounded(grid * grid / 12)
    left = np.arange(n)
    excursions: list[tuple[int, int]] = []
    while True:
        fit = _fit(scaled[left], errors.of(left), false_alarms)
        found = _excursions(fit)
        # Values of which most are away have no level to be back at.
        away = sum(last - first for first, last in found) + n - left.size
        if not found or 2 * away >= n:
            break
        excursions += ((int(left[first]), int(left[last - 1])) for first, last in found)
        stays = np.ones(left.size, dtype=np.bool_)
        for first, last in found:
            stays[first:last] = False
        left = left[stays]
    return _described(fit, scaled, left, excursions, unit)


def may_step(table: FloatArray) -> npt.NDArray[np.bool_]:
    """Return of each row of finite values, shape `(series, n)`, whether it may have a step: where
    this is false, `find_steps`, which takes ten times as long, finds one in less than 1 in 1,000 of
    those with a step."""
    n = table.shape[1]
    if n < MIN_VALUES:
        return np.zeros(len(table), dtype=np.bool_)
    sdev = _MAD * _row_medians(np.abs(np.diff(table))) / math.sqrt(2)
    known = sdev > 0
    x = (table - _row_medians(table)) / np.where(known, sdev, 1.0)
    x = np.clip(x, -_FAR, _FAR)
    after = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    sums = np.cumsum(x[:, ::-1], axis=1)[:, after - 1]
    change = sums / after - (x.sum(axis=1, keepdims=True) - sums) / (n - after)
    clear = np.abs(change) > _MAY_STEP * np.sqrt(1 / after + 1 / (n - after))
    rough = ~known[:, 0] & (np.ptp(table, axis=1) > 0)
    found: npt.NDArray[np.bool_] = clear.any(axis=1) | rough
    return found


_FAR = 8.0
_MAY_STEP = 2.5
"""Standard deviations."""

# -- The threshold ----------------------------------------------------------------------------


def threshold(n: int, false_alarms: float = FALSE_ALARMS) -> float:
    """Return the minimum gain of a step, in twice the log-likelihood, among n values.

    At most `false_alarms` of stationary series of each noise of the calibration have a larger
    gain for each of their steps.
    """
    longer = _PER_LENGTH * max(math.log(n / 100), 0.0)
    return _AT_5_PERCENT + longer + _PER_E * math.log(FALSE_ALARMS / false_alarms)


def _p_value(gain: float, n: int) -> float:
    """Return the share of stationary series with a gain as large as this."""
    return min(1.0, FALSE_ALARMS * math.exp((threshold(n) - gain) / _PER_E))


_AT_5_PERCENT = 12.4
"""For at most 100 values."""
_PER_LENGTH = 3.0
"""Increase of the threshold where the series is e times as long,"""
_PER_E = 3.0
"""... or false alarms are 1/e as frequent."""


# -- The likelihood ---------------------------------------------------------------------------


def _criterion(
    squares: FloatArray, products: FloatArray, inner: FloatArray, n: int, floor: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return minus twice the log-likelihood of AR(1) noise, and its correlation.

    `squares` are sums of squared residuals, `products` of neighbours' products, `inner` of
    squares without the first and the last. The correlation is the least-squares one.
    """
    phi = np.clip(products / np.maximum(inner, 1e-300), 0.0, _STRONGEST)
    total = squares - 2 * phi * products + phi * phi * inner
    variance = np.maximum(total / n, floor)
    return n * np.log(variance) + total / variance - np.log1p(-phi * phi), phi


def _fitted(data: FloatArray, cuts: Sequence[int]) -> FloatArray:
    """Return the level at each value: the mean of its segment."""
    starts = np.array([0, *cuts])
    lengths = np.array([*cuts, data.size]) - starts
    return np.repeat(np.add.reduceat(data, starts) / lengths, lengths)


def _minus_twice_log(data: FloatArray, cuts: Sequence[int], floor: _Floor) -> float:
    return _of_rest(data - _fitted(data, cuts), floor)[0]


def _of_rest(rest: FloatArray, floor: _Floor) -> tuple[float, float]:
    """Return minus twice the log-likelihood of residuals, and their correlation."""
    squares = rest * rest
    rounding = rest.size * floor.rounding
    value, phi = _criterion(
        squares.sum() + rounding,
        rest[1:] @ rest[:-1],
        squares[1:-1].sum() + rounding,
        rest.size,
        floor.least,
    )
    return float(value), float(phi)


# -- Partitions -------------------------------------------------------------------------------


class _Partition(msgspec.Struct, frozen=True):
    """What explains a series best."""

    cuts: list[int]
    """The starts of levels, without the first."""
    wanders: bool = False
    has_line: bool = False
    """Whether a straight line through all values explains them better, or about as well."""
    slope: float = 0.0
    """By how much the levels rise with each value, between the steps as well."""


def _best(data: FloatArray, floor: _Floor, price: float) -> _Partition:
    """Return the partition that maximizes gain - price * steps, or none where a straight line, at
    the price of a step, is as good. If no step remains in a series that wanders, they are its few
    large moves.
    """
    paths = _all_partitions(data)
    scores = [_minus_twice_log(data, cuts, floor) + price * len(cuts) for cuts in paths]
    cuts = _without_slopes(data, paths[int(np.argmin(scores))])
    straight = data - _line(data)
    line = _of_rest(straight, floor)[0] + price
    bent = _of_rest(straight - _bend(straight), floor)[0] + price
    least = min(*scores, min(line - price, bent) + _SLOPE - _CURVED)
    sloped = _best_on_slope(data, paths, floor, price, least)
    if sloped is not None:
        return sloped
    if cuts:
        stairs = _minus_twice_log(data, cuts, floor) + price * len(cuts)
        if line <= stairs:
            return _Partition([], has_line=True)
        return _Partition(cuts, has_line=line <= min(stairs + _ALIKE, scores[0]))
    has_line = line <= scores[0]
    if _neighbours_correlation(data) < _WANDERS:
        return _Partition([], has_line=has_line)
    rests = [data - _fitted(data, cuts) for cuts in paths]
    share = _MOVE * math.log(data.size) / data.size * float(rests[0] @ rests[0])
    left = [float(rest @ rest) + share * m for m, rest in enumerate(rests)]
    cuts = _without_slopes(data, paths[int(np.argmin(left))])
    if not cuts and has_line and _neighbours_correlation(straight) < _WANDERS:
        return _Partition([], has_line=True)
    return _Partition(cuts, wanders=True)


def _best_on_slope(
    data: FloatArray, paths: list[list[int]], floor: _Floor, price: float, least: float
) -> _Partition | None:
    """Return the steps on a common slope that explain the values best, if they are better than
    `least`, the minimum of steps and of a line alone, and each better than a bend; else None.

    Candidates are a step on a line, of all places, and those of the levels alone; then, without
    the slope of the best one, the partitions again.
    """

    def of_cuts(cuts: list[int]) -> float:
        flat = data - _slope(data, cuts) * np.arange(data.size)
        return _minus_twice_log(flat, cuts, floor) + price * len(cuts) + _SLOPE

    found = min((*filter(None, paths), [_step_on_line(data)]), key=of_cuts)
    if of_cuts(found) >= least:
        return None
    flat = data - _slope(data, found) * np.arange(data.size)
    again = _all_partitions(flat)
    found = min((found, *filter(None, again)), key=of_cuts)
    slope = _slope(data, found)
    flat = data - slope * np.arange(data.size)
    if _without_slopes(flat, found) != found or _has_bend(data, flat, found):
        return None
    return _Partition(found, slope=slope)


_SLOPE = 7.0
"""The gain of a slope beside steps, in twice the log-likelihood. It has no place, so it needs less
than a step; a line alone has this price only where it is compared with steps on a slope."""


_CURVED = 4.0
"""How much better than a line or a parabola alone they must be beyond the prices: without a slope,
noise seems to be less correlated than it is."""


def _has_bend(data: FloatArray, flat: FloatArray, cuts: list[int]) -> bool:
    """Return whether the values of two levels on a slope, without it `flat`, are fitted better by a
    parabola than by the step between them."""
    edges = [0, *cuts, data.size]
    for a, b, c in zip(edges, edges[1:], edges[2:], strict=False):
        rest = data[a:c] - _line(data[a:c])
        curved = rest - _bend(rest)
        level = flat[a:c] - _fitted(flat[a:c], [b - a])
        if curved @ curved <= level @ level:
            return True
    return False


def _bend(straight: FloatArray) -> FloatArray:
    """Return the part of deviations from their straight line that a parabola explains, at each
    value."""
    ramp = np.arange(straight.size) - (straight.size - 1) / 2
    bend = ramp * ramp - (ramp @ ramp) / ramp.size
    return np.asarray(bend * (bend @ straight) / max(float(bend @ bend), 1e-300))


def _step_on_line(data: FloatArray) -> int:
    """Return the start of the second level of the step that explains the values best beside a
    straight line through both levels."""
    n = data.size
    ramp = (np.arange(n) - (n - 1) / 2) / math.sqrt((n**3 - n) / 12)
    places = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    lengths = n - places
    tails = np.cumsum((data - _line(data))[::-1])[::-1][places]
    ramps = np.cumsum(ramp[::-1])[::-1][places]
    # What is left of the squares of a step without its mean and its part along the line.
    squares = lengths - lengths**2 / n - ramps**2
    return int(places[np.argmax(tails * tails / np.maximum(squares, 1e-9))])


def _slope(data: FloatArray, cuts: Sequence[int]) -> float:
    """Return the least-squares slope that all levels have, for each value."""
    at = np.arange(data.size, dtype=np.float64)
    ramp = at - _fitted(at, cuts)
    return float(ramp @ data / (ramp @ ramp))


def _line(data: FloatArray) -> FloatArray:
    """Return the straight line with the least squared error, at each value."""
    ramp = np.arange(data.size) - (data.size - 1) / 2
    return np.asarray(data.mean() + ramp * (ramp @ data) / (ramp @ ramp))


_ALIKE = 2 * math.log(19)
"""A line whose likelihood is at least 5 % of that of itself and the steps together fits about as
well as they do."""


def _neighbours_correlation(data: FloatArray) -> float:
    rest = data - data.mean()
    return float(rest[1:] @ rest[:-1]) / max(float(rest @ rest), 1e-300)


def _without_slopes(data: FloatArray, cuts: list[int]) -> list[int]:
    """Return the steps without those where a straight line through both levels fits better."""
    cuts = list(cuts)
    while cuts:
        edges = [0, *cuts, data.size]
        better = []
        for a, b, c in zip(edges, edges[1:], edges[2:], strict=False):
            both = data[a:c] - data[a:c].mean()
            ramp = np.arange(c - a) - (c - a - 1) / 2
            line = both @ both - (ramp @ both) ** 2 / (ramp @ ramp)
            rest = both - _fitted(both, [b - a])
            better.append(float(rest @ rest - line) / max(float(both @ both), 1e-300))
        worst = int(np.argmax(better))
        if better[worst] <= 0:
            break
        del cuts[worst]
    return cuts


_WANDERS = 0.9
"""A series whose neighbours correlate by this has no level to return to."""
_MOVE = 5.0
"""In such a series a step accounts for this share of all variation * log(n) / n."""


def _all_partitions(data: FloatArray) -> list[list[int]]:
    """Return the least-squares partitions with 0, 1, ... changes, of means of neighbours where there
    are many values."""
    width = -(-data.size // MAX_VALUES)
    means = data[: data.size // width * width].reshape(-1, width).mean(axis=1)
    paths = _partitions(means, max(2, min(means.size // 10, MAX_STEPS)))
    return [[cut * width for cut in cuts] for cuts in paths]


def _partitions(data: FloatArray, most: int) -> list[list[int]]:
    """Return the least-squares partitions with 0, 1, ... `most` changes."""
    n = data.size
    sums = np.concatenate([[0.0], np.cumsum(data - data.mean())])
    best = np.full((most + 1, n + 1), math.inf)
    start = np.zeros((most + 1, n + 1), dtype=np.int64)
    best[0, MIN_SEGMENT:] = -(sums[MIN_SEGMENT:] ** 2) / np.arange(MIN_SEGMENT, n + 1)
    rows = np.arange(most)
    for end in range(2 * MIN_SEGMENT, n + 1):
        starts = slice(MIN_SEGMENT, end - MIN_SEGMENT + 1)
        total = sums[end] - sums[starts]
        gain = total * total / np.arange(end - MIN_SEGMENT, MIN_SEGMENT - 1, -1)
        costs = best[:most, starts] - gain
        places = costs.argmin(axis=1)
        best[1:, end] = costs[rows, places]
        start[1:, end] = places + MIN_SEGMENT
    paths = []
    for changes in range(most + 1):
        if not math.isfinite(best[changes, n]):
            break
        cuts, end = [], n
        for left in range(changes, 0, -1):
            end = int(start[left, end])
            cuts.append(end)
        paths.append(cuts[::-1])
    return paths


# -- Preparation ------------------------------------------------------------------------------


class _Floor(msgspec.Struct, frozen=True):
    """How small the noise can be, in scaled units."""

    least: float = _TINY
    """Minimum of its variance."""
    rounding: float = 0.0
    """Variance of the rounding of values, which has no correlation: it is added to what the values
    show, because values that are rounded alike show none of it."""

    def raised(self, variance: float) -> float:
        """Return a variance that values show, with this floor."""
        return max(variance, self.least) + self.rounding


class _Errors(msgspec.Struct, frozen=True):
    """What the values' own standard errors and their resolution say about the noise, in scaled
    units."""

    floor: _Floor = _Floor()
    excess: FloatArray | None = None
    """Variance of each value beyond that of a typical one, shape `(n,)`."""

    def rounded(self, variance: float) -> _Errors:
        """Return these with a variance of rounding."""
        return _Errors(_Floor(self.floor.least, variance), self.excess)

    def of(self, places: IntArray) -> _Errors:
        """Return those of some values."""
        return _Errors(self.floor, None if self.excess is None else self.excess[places])


def _grid(data: FloatArray, *, logarithms: bool) -> float:
    """Return the resolution of values in order, shape `(n,)`, at their median; 0 where they hardly
    repeat.

    A clock rounds a value that hardly varies now up and now down. Values that change and stay so
    show how far they went, and nothing of a clock: their resolution is their last decimal.
    """
    with np.errstate(over="ignore"):
        values = np.exp(data) if logarithms else data
        unit = max(float(np.median(values)), _SMALLEST) if logarithms else 1.0
    step = resolution(values)
    if step and _only_lasts(data):
        step = min(step, last_decimal(values.tolist()))
    return step / unit


def _only_lasts(data: FloatArray) -> bool:
    """Return whether each value stays, for at least `_LASTS` values."""
    halves = data / 2
    apart = np.abs(np.diff(halves)) > 1e-12 * np.abs(halves).max()
    starts = 1 + np.flatnonzero(apart)
    return bool(np.diff(starts, prepend=0, append=data.size).min() >= _LASTS)


_LASTS = 3
"""So many equal values in a row are a level. Of series of 12 independent values with two results,
at most 1 % then have a step (tests/calibration/test_steps_grid.py)."""
_SMALLEST = 1e-300


def _scaled(data: FloatArray) -> tuple[FloatArray, float]:
    """Return the values within +-1 around their median, and the unit; 0 if they are all equal."""
    halves = data / 2
    middle = float(np.median(halves))
    half = float(np.abs(halves - middle).max())
    if half <= 1e-12 * float(np.abs(halves).max()):
        return np.zeros_like(data), 0.0
    return (halves - middle) / half, 2 * half


def _errors(standard_errors: SampleValues | None, unit: float, n: int) -> _Errors:
    if standard_errors is None:
        return _Errors()
    variances = (np.asarray(standard_errors, dtype=np.float64) / unit) ** 2
    assert variances.shape == (n,)
    known = variances[np.isfinite(variances)]
    if not known.size:
        return _Errors()
    typical = float(np.median(known))
    return _Errors(_Floor(max(typical, _TINY)), np.fmax(variances - typical, 0.0))


def _certain(data: FloatArray, errors: _Errors) -> FloatArray:
    """Return the values, each one with a large error of its own replaced by the one before it."""
    if errors.excess is None:
        return data
    noise = _MAD * float(np.median(np.abs(np.diff(data)))) / math.sqrt(2)
    sure = np.flatnonzero(errors.excess <= noise * noise)
    if not sure.size:
        return data
    places = np.searchsorted(sure, np.arange(data.size), side="right") - 1
    return np.asarray(data[sure[np.maximum(places, 0)]])


def _running_median(data: FloatArray) -> FloatArray:
    width = min(_BASE, data.size)
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    places = np.clip(np.arange(data.size) - width // 2, 0, data.size - width)
    return np.asarray(np.median(windows, axis=1)[places])


def _limited(data: FloatArray, base: FloatArray, errors: _Errors) -> FloatArray:
    """Return the values, at most `_LIMIT` robust deviations from a base.

    Where all values but one and those of steps are equal, the one is replaced by its base.
    """
    rest = data - base
    scale = float(_row_spreads(rest[None])[0, 0])
    if scale <= 1e-9:
        alone = _alone(rest[None])[0]
        if alone.sum() < _TWO_ALONE:
            return np.where(alone, base, data)
        scale = math.sqrt(float(rest @ rest) / rest.size)
    if errors.excess is not None:
        rest = rest * scale / np.sqrt(scale * scale + errors.excess)
    return base + np.clip(rest, -_LIMIT * scale, _LIMIT * scale)


def _alone(rest: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which deviations, shape `(series, n)`, have neighbours of another sign."""
    sign = np.sign(rest)
    alone: npt.NDArray[np.bool_] = sign != 0
    alone[:, 1:] &= sign[:, 1:] != sign[:, :-1]
    alone[:, :-1] &= sign[:, :-1] != sign[:, 1:]
    return alone


_TWO_ALONE = 2
"""So many single deviations among equal values are noise."""


def _row_spreads(rest: FloatArray, earlier: int | None = None) -> FloatArray:
    """Return the robust standard deviation of each row of deviations, shape `(series, 1)`.

    It is that of their median size, or of the size that a tenth of them (of the first ones, of
    which there are `earlier`) exceed if that is larger: a mode that more than a tenth of the values
    have is noise, and not a sequence of spikes. It is 0 where more than half of them are 0.
    """
    sizes = np.abs(rest)
    middle = _row_medians(sizes)
    some = np.sort(sizes[:, :earlier], axis=1)
    large = some[:, int(_LARGE * (some.shape[1] - 1)), None]
    wider = np.maximum(_MAD * middle, large / _LARGE_SDEVS)
    return np.asarray(np.where(middle > 0, wider, 0.0))


_LARGE = 0.9
_LARGE_SDEVS = 1.6448536269514722
"""The size that a tenth of normal values exceed, in standard deviations."""


# -- What is reported of a fit ----------------------------------------------------------------


class _Fit(msgspec.Struct, frozen=True):
    """The levels of values without excursions and without their slope, in scaled units."""

    data: FloatArray
    limited: FloatArray
    errors: _Errors
    price: float
    cuts: list[int]
    gains: list[float]
    wanders: bool
    has_line: bool
    slope: float


def _fit(data: FloatArray, errors: _Errors, false_alarms: float) -> _Fit:
    """Return the levels whose steps are clear, also beside the noise around each."""
    price = threshold(data.size, false_alarms)
    limited = _limited(data, _running_median(_certain(data, errors)), errors)
    best = _best(limited, errors.floor, price)
    cuts = best.cuts
    if best.slope:
        trend = best.slope * np.arange(data.size)
        data, limited = data - trend, limited - trend
    gains = _gains(limited, cuts, errors.floor)
    while gains and min(gains) < price and not best.wanders:
        del cuts[int(np.argmin(gains))]
        gains = _gains(limited, cuts, errors.floor)
    return _Fit(data, limited, errors, price, cuts, gains, best.wanders, best.has_line, best.slope)


def _excursions(fit: _Fit) -> list[tuple[int, int]]:
    """Return the first value of each excursion, and the first one after it: a level of no more
    values than an answer needs, between two others that are one level, or at the beginning."""
    if fit.wanders:
        return []
    found: list[tuple[int, int]] = []
    edges = [0, *fit.cuts, fit.data.size]
    if 0 < edges[1] <= MIN_VALUES < fit.data.size - edges[1]:
        found.append((0, edges[1]))
    at = 1 + len(found)
    while at < len(edges) - 2:
        before, first, last, after = edges[at - 1 : at + 3]
        is_short = last - first <= min(MIN_VALUES, after - last + first - before - 1)
        if is_short and _is_back(fit, before, first, last, after):
            found.append((first, last))
            at += 1
        at += 1
    return found


def _is_back(fit: _Fit, before: int, first: int, last: int, after: int) -> bool:
    places = np.r_[before:first, last:after]
    values, lengths = fit.data[places], (first - before, after - last)
    # The running median beside an excursion is that of the excursion.
    levels = [np.median(values[: lengths[0]]), np.median(values[lengths[0] :])]
    around = _limited(values, np.repeat(levels, lengths), fit.errors.of(places))
    floor = fit.errors.floor
    change = _minus_twice_log(around, [], floor)
    change -= _minus_twice_log(around, [lengths[0]], floor)
    return change < fit.price


def _described(
    fit: _Fit, whole: FloatArray, left: IntArray, excursions: list[tuple[int, int]], unit: float
) -> StepFit:
    """Return a fit's steps, with intervals, its spikes, its undecided end, and what is no step.

    `left` are the places of its values among the `whole` ones, of which the others are excursions.
    """
    data, limited, errors, cuts = fit.data, fit.limited, fit.errors, fit.cuts
    n, floor, wanders = data.size, errors.floor, fit.wanders
    whole = whole - fit.slope * np.searchsorted(left, np.arange(whole.size))
    placed = _between_levels(data, cuts)
    intervals = []
    for at in range(len(cuts)):
        place, *ends = _place(placed, cuts, at, floor)
        intervals.append([min(cuts[at], ends[0]), max(cuts[at], ends[1])])
        if not wanders:
            cuts[at], intervals[at] = place, ends
    doubtful = None
    if cuts and not wanders and _is_too_short(whole, left, cuts):
        doubtful = cuts.pop()
    edges = [0, *cuts, n]
    if cuts:
        # The running median follows a step late, so the limits move to the levels.
        medians = [np.median(data[a:b]) for a, b in itertools.pairwise(edges)]
        limited = _limited(data, np.repeat(medians, np.diff(edges)), errors)
    rest = limited - _fitted(limited, cuts)
    _, correlation = _of_rest(rest, floor)
    variance = floor.raised(float(rest @ rest) / max(n - len(cuts) - 1, 1))
    steps = tuple(
        _step(
            limited,
            cuts,
            at,
            variance,
            correlation,
            bool(fit.slope),
            intervals[at],
            math.nan if wanders else _p_value(fit.gains[at], n),
            unit,
        )
        for at in range(len(cuts))
    )
    far = np.abs(data - _fitted(limited, cuts)) > _spike_limit(n) * math.sqrt(variance)
    spikes = [int(place) for place in np.flatnonzero(far)]
    alone = n - int(far[::-1].argmin()) if far[-1] and not far.all() else n
    since = doubtful or _undecided(data, limited, cuts, floor, fit.price, n - max(alone, n - 2))
    if since is not None:
        spikes = [place for place in spikes if place < since]
    level = np.interp(np.arange(whole.size), left, _fitted(limited, cuts))
    patterns = (
        *_excursion_patterns(whole, level, sorted(excursions), unit),
        *_patterns(fit, steps, spikes, since, rest, left, unit),
    )
    return StepFit(
        tuple(_moved(step, left) for step in steps),
        tuple(int(left[place]) for place in spikes),
        None if since is None else int(left[since]),
        math.sqrt(variance) * unit,
        correlation,
        wanders,
        whole.size,
        patterns,
        fit.slope * unit,
    )


def _moved(step: LevelStep, left: IntArray) -> LevelStep:
    """Return a step at the places of values among all."""
    first, index, last = (int(left[at]) for at in (step.first, step.index, step.last))
    return msgspec.structs.replace(step, first=first, index=index, last=last)


def _is_too_short(whole: FloatArray, left: IntArray, cuts: list[int]) -> bool:
    """Return whether the last level has too few values for a step: two, which may be spikes, or no
    more than the level before it had in a row that were as far from it."""
    values = whole[left]
    before = cuts[-2] if len(cuts) > 1 else 0
    old, new = (float(np.median(one)) for one in (values[before : cuts[-1]], values[cuts[-1] :]))
    earlier = whole[left[before] : left[cuts[-1]]]
    count = values.size - cuts[-1]
    return count <= max(MIN_SEGMENT, _longest_run(earlier, old, new - old))


def _longest_run(values: FloatArray, level: float, change: float) -> int:
    """Return how many values in a row are nearer to a changed level than to the level."""
    near = ~_is_far(values, level, change)
    ends = np.flatnonzero(np.concatenate([[True], near, [True]]))
    return int(np.diff(ends).max()) - 1


def _is_far(values: FloatArray, level: float, change: float) -> npt.NDArray[np.bool_]:
    """Return which values are nearer to a changed level than to the level."""
    return (values - level) * math.copysign(1.0, change) > abs(change) / 2


# -- What is no step --------------------------------------------------------------------------


def _excursion_patterns(
    whole: FloatArray, level: FloatArray, excursions: list[tuple[int, int]], unit: float
) -> Iterator[Pattern]:
    for first, last in excursions:
        size = float((whole - level)[first : last + 1].mean())
        yield Pattern("excursion", first, last, size * unit)


def _patterns(
    fit: _Fit,
    steps: Sequence[LevelStep],
    spikes: Sequence[int],
    since: int | None,
    rest: FloatArray,
    left: IntArray,
    unit: float,
) -> Iterator[Pattern]:
    """Yield what values without excursions have beside their steps; `rest` are the limited
    deviations from the levels."""
    if fit.wanders:
        return
    if fit.slope and steps:
        size = fit.slope * (fit.data.size - 1)
        yield Pattern("drift", int(left[0]), int(left[-1]), size * unit)
    elif fit.has_line or fit.slope:
        line = _line(fit.limited)
        size = float(line[-1] - line[0])
        alike = bool(steps)
        yield Pattern("drift", int(left[0]), int(left[-1]), size * unit, is_alternative=alike)
        if not alike:
            rest = fit.limited - line
    end = rest.size if since is None else since
    decided = np.setdiff1d(np.arange(end), spikes)
    levels = fit.limited - rest
    modes = two_modes((fit.data - levels)[decided]) if decided.size else None
    if modes is not None:
        share = modes.n_high / (modes.n_low + modes.n_high)
        size = modes.high - modes.low
        yield Pattern("modes", int(left[0]), int(left[decided[-1]]), size * unit, share)
    found = _spread_change(rest[:end], fit.errors.floor, fit.price)
    if found is not None:
        cut, ratio = found
        yield Pattern("spread", int(left[cut]), int(left[-1]), ratio)


def _spread_change(rest: FloatArray, floor: _Floor, price: float) -> tuple[int, float] | None:
    """Return from which value on deviations are larger, or smaller, and how many times; None if
    they are not.

    It is the clearest step of the logarithms of their sizes, if that is as clear as a step of the
    level must be.
    """
    n = rest.size
    typical = float(rest @ rest) / max(n, 1)
    if n < 2 * MIN_VALUES or typical <= max(floor.least, floor.rounding):
        return None
    # Sizes near 0 have no logarithm: below a tenth of the deviation they are alike.
    sizes = np.log(rest * rest + max(typical / 100, floor.least) + floor.rounding) / 2
    sums = np.cumsum(sizes - sizes.mean())[MIN_VALUES - 1 : n - MIN_VALUES]
    after = np.arange(MIN_VALUES, n - MIN_VALUES + 1)
    cut = MIN_VALUES + int(np.argmax(sums * sums / (after * (n - after))))
    gain = _minus_twice_log(sizes, [], _Floor()) - _minus_twice_log(sizes, [cut], _Floor())
    if gain < price:
        return None
    return cut, math.exp(float(sizes[cut:].mean() - sizes[:cut].mean()))


# -- How clear a step is ----------------------------------------------------------------------


def _gains(data: FloatArray, cuts: list[int], floor: _Floor) -> list[float]:
    """Return what each step adds to the likelihood if the others stay, with the noise around it
    where that is larger than in the whole series."""
    rest = data - _fitted(data, cuts)
    whole, _ = _of_rest(rest, floor)
    squares = rest * rest + floor.rounding
    variance = max(float(squares.mean()), floor.least)
    edges = [0, *cuts, data.size]
    found = []
    for at, cut in enumerate(cuts):
        gain = _minus_twice_log(data, cuts[:at] + cuts[at + 1 :], floor) - whole
        # As many values on each side; at an end of the series the nearest ones.
        old = squares[max(cut - _AROUND, 0) : max(cut, _AROUND)]
        new = squares[max(min(cut, data.size - _AROUND), 0) : cut + _AROUND]
        before, after = edges[at + 1] - edges[at], edges[at + 2] - edges[at + 1]
        share = after / (before + after)
        ratio = share * _noise_ratio(old, variance) + (1 - share) * _noise_ratio(new, variance)
        found.append(float(_with_noise(gain, ratio, data.size)))
    return found


def _noise_ratio(squares: FloatArray, variance: float) -> float:
    """Return the noise's variance at a place / that of all values, at least 1, from squared
    deviations there."""
    return max(float(squares.mean()) / variance, 1.0)


def _with_noise(gain: float | FloatArray, ratio: float | FloatArray, n: int) -> FloatArray:
    """Return the gain of a step where the variance around it is this many times that of all n
    values; a ratio below 1 changes nothing."""
    ratio = np.maximum(ratio, 1.0)
    share = np.minimum(gain / n, 30.0)
    return np.asarray(gain + n * (np.log1p(np.expm1(share) / ratio) - share))


_AROUND = 20
"""The noise of a level beside a step is that of its nearest values, so many."""


def _spike_limit(n: int) -> float:
    """Return how many deviations a spike is away: 1 % of clean series have one."""
    return special.normal_quantile(1 - 0.005 / n)


def _step(
    data: FloatArray,
    cuts: list[int],
    at: int,
    variance: float,
    correlation: float,
    has_slope: bool,
    interval: list[int],
    p: float,
    unit: float,
) -> LevelStep:
    n, cut = data.size, cuts[at]
    edges = [0, *cuts, n]
    before, after = edges[at], edges[at + 2]
    change = float(data[cut:after].mean() - data[before:cut].mean())
    share = _slope_variance(edges) * ((after - before) / 2) ** 2 if has_slope else 0.0
    degrees = n - len(cuts) - 1 - has_slope
    reach = math.sqrt(variance) * _reach(cut - before, after - cut, correlation, degrees, share)
    return LevelStep(
        cut,
        interval[0],
        interval[1],
        change * unit,
        (change - reach) * unit,
        (change + reach) * unit,
        p,
    )


def _slope_variance(edges: Sequence[int]) -> float:
    """Return the variance of the slope of levels with these ends / that of one independent value."""
    lengths = np.diff(edges).astype(np.float64)
    return 12 / max(float((lengths**3 - lengths).sum()), 1.0)


def _reach(
    before: int, after: int, correlation: float, degrees: int, of_slope: float = 0.0
) -> float:
    """Return half the width of Student's 95 % interval of the difference of two levels of so many
    values, in standard deviations of the noise; `degrees` are those of independent values,
    `of_slope` the variance of what a slope adds to the difference, for such values."""
    share = _mean_variance(before, correlation) + _mean_variance(after, correlation)
    share += of_slope * (1 + correlation) / (1 - correlation)
    left = max(degrees * (1 - correlation) / (1 + correlation), 3.0)
    return special.t_quantile(left, 0.975) * math.sqrt(share)


def _between_levels(data: FloatArray, cuts: list[int]) -> FloatArray:
    """Return the values, limited beyond the levels of their segment and of its neighbours.

    So a value beside a step may belong to either level.
    """
    edges = [0, *cuts, data.size]
    levels = [float(np.median(data[a:b])) for a, b in itertools.pairwise(edges)]
    lengths = np.diff(edges)
    scale = _MAD * float(np.median(np.abs(data - np.repeat(levels, lengths))))
    near = [levels[max(at - 1, 0) : at + 2] for at in range(len(levels))]
    low = np.repeat([min(some) for some in near], lengths) - _LIMIT * scale
    high = np.repeat([max(some) for some in near], lengths) + _LIMIT * scale
    return np.clip(data, low, high)


def _place(data: FloatArray, cuts: list[int], at: int, floor: _Floor) -> tuple[int, int, int]:
    """Return the likeliest place of a step between its neighbours, and the ends of the smallest
    set of places with 95 % of the likelihood."""
    cut, edges = cuts[at], [0, *cuts, data.size]
    before, after = edges[at], edges[at + 2]
    found = {cut: _minus_twice_log(data, cuts, floor)}
    for side in (-1, 1):
        place = cut + side
        unlikely = 0
        while before + 1 < place < after - 1 and unlikely < _UNLIKELY_PLACES:
            moved = [*cuts[:at], place, *cuts[at + 1 :]]
            found[place] = _minus_twice_log(data, moved, floor)
            unlikely = unlikely + 1 if found[place] > min(found.values()) + 18 else 0
            place += side
    best = min(found, key=found.__getitem__)
    weights = {place: math.exp((found[best] - value) / 2) for place, value in found.items()}
    total, held, inside = sum(weights.values()), 0.0, [best]
    for place in sorted(weights, key=found.__getitem__):
        if held >= 0.95 * total:
            break
        inside.append(place)
        held += weights[place]
    return best, min(inside), max(inside)


_UNLIKELY_PLACES = 5
"""After so many unlikely places in a row the others are unlikely too."""


def _mean_variance(n: int, correlation: float) -> float:
    """Return the variance of the mean of n AR(1) values / that of one value."""
    lags = np.arange(1, n)
    return float(1 + 2 * ((1 - lags / n) * correlation**lags).sum()) / n


def _undecided(
    raw: FloatArray, data: FloatArray, cuts: list[int], floor: _Floor, price: float, far: int
) -> int | None:
    """Return where the end may have a new level; None if it does not look so.

    `far` is the number of last values that are as far from their level as spikes.
    """
    n = data.size
    start = cuts[-1] if cuts else 0
    whole = _minus_twice_log(data, cuts, floor)
    most = min(_TAIL, (n - start) // 2)
    gains = [
        whole - _minus_twice_log(data, [*cuts, n - tail], floor) for tail in range(1, most + 1)
    ]
    if not gains:
        return None
    tail = 1 + int(np.argmax(gains))
    if gains[tail - 1] < _DOUBT * price:
        if not far:
            return None
        tail = far
        if data[-1] != raw[-1] and len(set(data[start:])) == 1:
            tail = 1
    return n - tail


_TAIL = 10
_DOUBT = 0.6
"""Share of the threshold from which the end is doubtful."""


# -- The newest value -------------------------------------------------------------------------
#
# Purpose: after each run, "does the program still have its present level?", with an error rate for
# all the looks together and not for each. Method: the likelihood gain of one step among the last 60
# values of the present level, as above, against a threshold that grows with the logarithm of the
# number of looks, so that later looks share what earlier ones leave of the rate. The level begins
# at the last change that was reported (or accepted). The newest values are compared with the last
# 200 of the level before them, so an answer depends on where the last two levels begin and on the
# values since: a store keeps these two integers of a series (features/history/levels.py). Decision:
# rejected are e-detectors and CUSUM for a given size of step. Their guarantee holds for any number
# of looks without simulation, but needs independent values whose deviation is known; both are
# estimated here from the values, with the correlation. Non-goals: a bound for ever. The rate is
# simulated for 1,000 looks at one level. Sources: D. Siegmund and E. Venkatraman 1995, Using the
# generalized likelihood ratio statistic for sequential detection of a change-point, Annals of
# Statistics 23(1).

_LOOK_100 = 21.5
"""Threshold after 100 looks: at most 5 % of series of each noise of the calibration have a larger
gain at any of their first 1000 looks."""
_LOOK_GROWTH = 2.0
"""Increase where there are e times as many looks."""
WINDOW = 200
"""The present level is known from at most this many values."""
_TAIL_LOOK = 60
"""Maximum of values that a look tests as a new level."""
TAIL = WINDOW + _TAIL_LOOK
"""So many last values of a series are enough for a look at the newest and for its comparison."""

LevelState = Literal["short", "same", "unclear", "differs"]
"""`short`: the level has too few values to compare with. `unclear`: the newest values differ, but
one or two more are needed to tell a step from spikes."""


class LevelVerdict(msgspec.Struct, frozen=True):
    """Whether the newest value of a series has the present level."""

    state: LevelState
    level_start: int
    """The first value of the present level; of the new level if the state is `differs`. The next
    look begins there."""
    since: int | None = None
    """The first value that differs; None if none does."""
    level: float = math.nan
    """Mean of the level before `since`, in the unit of the values."""
    change: float = math.nan
    """Newest values minus that level; NaN where no value differs."""
    gain: float = math.nan
    """Likelihood gain of a step, to compare with the threshold."""
    threshold: float = math.nan
    before: int = 0
    """The first value of the level before the present one."""

    @property
    def p(self) -> float:
        """Share of stationary series with such a gain at any of their looks; NaN for too few
        values."""
        return min(FALSE_ALARMS * math.exp((self.threshold - self.gain) / _PER_E), 1.0)


def look_threshold(looks: int) -> float:
    """Return the minimum gain at a look, after a number of looks at one level."""
    return _LOOK_100 + _LOOK_GROWTH * math.log(looks / 100)


def newest_differs(
    values: SampleValues,
    *,
    standard_errors: SampleValues | None = None,
    level_start: int | None = None,
    logarithms: bool = False,
) -> LevelVerdict:
    """Return whether the newest of finite values, shape `(n,)`, has the present level.

    `level_start` is that of the last verdict, or where a change was accepted. Without it, all looks
    from the first value on are repeated.
    """
    errors = None if standard_errors is None else [standard_errors]
    starts = None if level_start is None else [level_start]
    return newest_verdicts(
        [values], standard_errors=errors, level_starts=starts, logarithms=logarithms
    )[0]


def newest_verdicts(
    series: Sequence[SampleValues],
    *,
    standard_errors: Sequence[SampleValues | None] | None = None,
    level_starts: Sequence[int] | None = None,
    befores: Sequence[int] | None = None,
    logarithms: bool = False,
) -> list[LevelVerdict]:
    """Return `newest_differs` of many series; those of one length are computed together.

    `level_starts` and `befores` are those of the verdicts before the newest value, and may be
    negative: only the last `TAIL` values of a series are needed. `logarithms` as in `find_steps`.
    """
    data = [np.asarray(values, dtype=np.float64) for values in series]
    errors = _error_arrays(standard_errors, len(data))
    if level_starts is not None:
        ends = [values.size for values in data]
        before = befores or [0] * len(data)
        return _looks(data, errors, ends, level_starts, before, logarithms=logarithms)
    verdicts = [LevelVerdict("short", 0) for _ in data]
    for end in range(1, max((values.size for values in data), default=0) + 1):
        long = [at for at, values in enumerate(data) if values.size >= end]
        level_verdicts = _looks(
            [data[at] for at in long],
            [errors[at] for at in long],
            [end] * len(long),
            [verdicts[at].level_start for at in long],
            [verdicts[at].before for at in long],
            logarithms=logarithms,
        )
        for at, verdict in zip(long, level_verdicts, strict=True):
            verdicts[at] = verdict
    return verdicts


def _error_arrays(
    standard_errors: Sequence[SampleValues | None] | None, count: int
) -> list[FloatArray | None]:
    return [
        None if e is None else np.asarray(e, dtype=np.float64)
        for e in (standard_errors or [None] * count)
    ]


_ROWS = 64
"""Series of one length that are computed together: their arrays fit into a CPU's cache, and are
small enough for malloc to reuse their memory instead of asking the kernel for new pages."""

_T = TypeVar("_T")


def _batches(rows: Sequence[_T]) -> list[Sequence[_T]]:
    return [rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS)]


def _looks(
    data: Sequence[FloatArray],
    errors: Sequence[FloatArray | None],
    ends: Sequence[int],
    starts: Sequence[int],
    befores: Sequence[int],
    *,
    logarithms: bool,
) -> list[LevelVerdict]:
    """Return one look at each series, at its values from its start to its end.

    A level of a few values may be an excursion: where the level before it goes on, it is the
    present one again.
    """
    spans = {}
    for at, (end, start, before) in enumerate(zip(ends, starts, befores, strict=True)):
        is_over = before < start and _is_over(data[at][:end], start, before)
        spans[at] = (end, before, before) if is_over else (end, start, before)
    found = dict(_looks_at(data, errors, spans, logarithms=logarithms))
    return [found[at] for at in range(len(data))]


def _is_over(values: FloatArray, start: int, before: int) -> bool:
    """Return whether the last values are back at the level before a start, after a few of another
    level."""
    if not _BACK < values.size - start <= MIN_VALUES + _BACK:
        return False
    level = float(np.median(values[max(before, start - WINDOW, 0) : start]))
    change = float(np.median(values[start : start + _BACK])) - level
    return not _is_far(values[-_BACK:], level, change).any()


def _looks_at(
    data: Sequence[FloatArray],
    errors: Sequence[FloatArray | None],
    spans: Mapping[int, tuple[int, int, int]],
    *,
    logarithms: bool,
    most_new: int = 0,
) -> Iterator[tuple[int, LevelVerdict]]:
    """Yield the look at each of some series, given the end, the start of its level and that of the
    level before. `most_new` as in `_look`."""
    alike: dict[int, list[int]] = {}
    for at, (end, start, before) in spans.items():
        n = end - start
        if n <= MIN_VALUES:
            yield at, LevelVerdict("short", start, before=before)
        else:
            alike.setdefault(min(n, WINDOW), []).append(at)
    unknown = np.full(WINDOW, math.nan)
    for n, same in alike.items():
        for places in _batches(same):
            cut = [slice(spans[at][0] - n, spans[at][0]) for at in places]
            table = np.array([data[at][one] for at, one in zip(places, cut, strict=True)])
            own = None
            if any(errors[at] is not None for at in places):
                own = np.array(
                    [
                        unknown[:n] if of is None else of[one]
                        for at, one in zip(places, cut, strict=True)
                        for of in (errors[at],)
                    ]
                )
                own = own if np.isfinite(own).any() else None
            seen = _look(table, own, logarithms=logarithms, most_new=most_new)
            for at, row in zip(places, seen.rows(), strict=True):
                end, start, before = spans[at]
                yield at, _verdict(*row, start, before, data[at][:end])


class _Look(msgspec.Struct, frozen=True):
    """The best step near the end of each series, shapes `(series,)`."""

    gain: FloatArray
    tail: FloatArray
    """Number of values after it."""
    far: FloatArray
    """Whether the newest value is as far from the level as a spike."""
    level: FloatArray
    """Medians of all values."""

    def rows(self) -> Iterator[tuple[float, int, bool, float]]:
        """Yield the look at each series, as Python's numbers."""
        return zip(
            self.gain.tolist(),
            self.tail.tolist(),
            self.far.tolist(),
            self.level.tolist(),
            strict=True,
        )


def _verdict(
    gain: float, tail: int, far: bool, level: float, start: int, before: int, values: FloatArray
) -> LevelVerdict:
    """Return the verdict on a row of looks; `values` end with the newest."""
    n = values.size
    limit = look_threshold(n - start)
    same = LevelVerdict("same", start, None, level, math.nan, gain, limit, before)
    doubtful = gain >= _DOUBT * limit
    if not doubtful:
        if not far:
            return same
        tail = 1
    since = n - tail
    earlier = values[max(start, since - WINDOW) : since]
    level = float(np.median(earlier))
    change = float(np.median(values[since:])) - level
    if doubtful:
        new = _is_far(values[since:], level, change)
        if tail > _BACK and not new[-_BACK:].any():
            # The values are back at the level.
            return same
        if np.count_nonzero(new) <= _longest_run(earlier, level, change):
            # The level had as many such values before.
            doubtful = False
            if gain < limit:
                return same
    if doubtful and gain >= limit:
        return LevelVerdict("differs", since, since, level, change, gain, limit, start)
    return LevelVerdict("unclear", start, since, level, change, gain, limit, before)


def _look(
    table: FloatArray, errors: FloatArray | None, *, logarithms: bool, most_new: int = 0
) -> _Look:
    """Return the best step among the last values of each row, shape `(series, n)`: at most half of
    them, or `most_new` if that is more."""
    n = table.shape[1]
    ordered = np.sort(table, axis=1)
    middle = _middles(ordered)
    x = table - middle
    # A few newest values of another level are no mode yet.
    scale = _row_spreads(x, earlier=n - MIN_VALUES)
    tiny = 1e-12 * np.abs(ordered[:, [0, -1]]).max(axis=1, keepdims=True)
    x, floor = _limited_rows(x, scale, tiny, errors)
    rounding = _row_grids(table, ordered, logarithms=logarithms)
    x -= x.mean(axis=1, keepdims=True)
    most = min(_TAIL_LOOK, max(n // 2, min(most_new, n - MIN_SEGMENT)))
    tails = np.arange(MIN_SEGMENT, most + 1)
    back = x[:, ::-1][:, : most + 1]
    right = np.cumsum(back[:, :most], axis=1)[:, 1:]
    pairs = np.cumsum(back[:, :-1] * back[:, 1:], axis=1)
    squares = (x * x).sum(axis=1, keepdims=True)
    products = (x[:, 1:] * x[:, :-1]).sum(axis=1, keepdims=True)
    first, newest = x[:, :1], x[:, -1:]
    new, old = right / tails, -right / (n - tails)
    # The two values beside the step, newer and older.
    newer, older = back[:, 1:most], back[:, 2:]
    rest = squares - right * new + right * old
    lagged = (
        pairs[:, :-1]
        - new * (2 * right - newer - newest)
        + (tails - 1) * new * new
        + (products - pairs[:, 1:])
        - old * (-2 * right - first - older)
        + (n - tails - 1) * old * old
        + (newer - new) * (older - old)
    )
    squares, rest = squares + n * rounding, rest + n * rounding
    inner = rest - (first - old) ** 2 - (newest - new) ** 2
    without, _ = _criterion(squares, products, squares - first**2 - newest**2, n, floor)
    value, _ = _criterion(rest, lagged, inner, n, floor)
    gains = without - value
    best = gains.argmax(axis=1)
    rows = np.arange(best.size)
    variance = np.maximum(rest[rows, best] / n, floor[:, 0])
    spread = np.sqrt(variance)
    from_level = table[:, -1] - middle[:, 0]
    # The noise of the newest values, which decides for a new level that is short.
    count = np.minimum(np.maximum(tails[best], _AROUND), n)
    from_end = np.arange(n, 0, -1)
    is_new = from_end <= tails[best, None]
    off = x - np.where(is_new, new[rows, best, None], old[rows, best, None])
    near = np.where(from_end <= count[:, None], off * off, 0.0).sum(axis=1)
    local = np.maximum((near / count + rounding[:, 0]) / variance, 1.0)
    share = tails[best] / n
    return _Look(
        _with_noise(gains[rows, best], share + (1 - share) * local, n),
        tails[best],
        np.abs(from_level) > _spike_limit(n) * np.maximum(spread, tiny[:, 0]),
        middle[:, 0],
    )


_BACK = 3
"""An excursion is over after so many values that are back."""


def _row_grids(table: FloatArray, ordered: FloatArray, *, logarithms: bool) -> FloatArray:
    """Return the variance of rounding of each row, shape `(series, 1)`, also given in ascending
    order; 0 where values hardly repeat."""
    found = np.zeros((len(table), 1))
    different = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    rough = (different > 1) & (2 * different <= ordered.shape[1])
    for row in np.flatnonzero(rough):
        step = _grid(table[row], logarithms=logarithms)
        found[row] = step * step / 12
    return found


def _row_medians(table: FloatArray) -> FloatArray:
    """Return the median of each row, shape `(series, 1)`. Sorting takes a tenth of the time of
    `np.median`, which partitions without SIMD instructions."""
    return _middles(np.sort(table, axis=1))


def _middles(ordered: FloatArray) -> FloatArray:
    n = ordered.shape[1]
    low, high = ordered[:, (n - 1) // 2, None], ordered[:, n // 2, None]
    return np.where(low == high, low, (low + high) / 2)


def _limited_rows(
    rest: FloatArray, scale: FloatArray, tiny: FloatArray, errors: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return deviations, limited as by `_limited`, and the floors of the noise's variances."""
    floor = tiny * tiny + 1e-300
    same = scale <= tiny
    if same.any():
        same &= _alone(rest).sum(axis=1, keepdims=True) < _TWO_ALONE
        rough = np.sqrt((rest * rest).mean(axis=1, keepdims=True))
        scale = np.where(scale > tiny, scale, rough)
    reach = _LIMIT * scale
    if errors is not None:
        variances = errors * errors
        is_whole = np.isfinite(variances).all(axis=1)
        typical = np.zeros_like(scale)
        typical[is_whole] = _row_medians(variances[is_whole])
        some = ~is_whole & np.isfinite(variances).any(axis=1)
        if some.any():
            typical[some] = np.nanmedian(variances[some], axis=1, keepdims=True)
        floor = np.maximum(floor, typical)
        excess = np.fmax(variances - typical, 0.0)
        with np.errstate(all="ignore"):
            shrink = scale / np.sqrt(scale * scale + excess)
        # A value without any excess stays as it is, whatever the rounding of the root.
        rest = np.where(same | (excess == 0), rest, rest * shrink)
    limited = np.clip(rest, -reach, reach)
    if same.any():
        limited = np.where(same, np.where(_alone(rest), 0.0, rest), limited)
    return limited, floor


# -- The newest values beside the level before them ---------------------------------------------


class NewestComparison(msgspec.Struct, frozen=True):
    """The newest values of a series, and the level before them."""

    end: int
    """The first of the newest values: where the present level begins if it differs from the one
    before, else the last value."""
    old: Moments
    """Of at most the last `WINDOW` values before them, without spikes."""
    new: Moments
    p: float
    """As of a verdict."""
    before: int
    """The number of values before them that were looked at, with spikes."""
    as_far: int
    """How many of these are at least as far from the level."""

    @property
    def half(self) -> float:
        """Half the width of Student's 95 % interval of the change, for one standard deviation: that
        of a single new value is unknown."""
        degrees = self.old.n + self.new.n - 2
        if degrees <= 0:
            return math.inf
        parts = (self.old, self.new)
        squares = sum((m.n - 1) * m.sdev**2 for m in parts if m.n > 1)
        sdev = math.sqrt(squares / degrees)
        return t_quantile(0.95, degrees) * sdev * math.sqrt(sum(1 / m.n for m in parts))

    @property
    def is_beyond(self) -> bool:
        """Whether the interval of the change excludes no change, apart from rounding."""
        change = abs(self.new.mean - self.old.mean)
        return change > max(self.half, 1e-12 * max(abs(self.old.mean), 1.0))


def newest_comparisons(
    series: Sequence[SampleValues],
    verdicts: Sequence[LevelVerdict],
    *,
    standard_errors: Sequence[SampleValues | None] | None = None,
    logarithms: bool = False,
) -> list[NewestComparison | None]:
    """Return what the verdicts of `newest_verdicts` about the same values compare.

    None where a verdict is unclear, and where there is no level to compare with. A change is
    compared with the level before it until the new level has enough values.
    """
    data = [np.asarray(values, dtype=np.float64) for values in series]
    errors = _error_arrays(standard_errors, len(data))
    spans: dict[int, list[tuple[int, int]]] = {}
    changed = []
    for at, verdict in enumerate(verdicts):
        start, before = verdict.level_start, verdict.before
        if verdict.state == "unclear" or (verdict.state == "short" and before == start):
            continue
        if verdict.state == "same":
            begin, end = start, data[at].size - 1
        else:
            begin, end = before, start
            changed.append(at)
        spans.setdefault(end - max(begin, end - WINDOW), []).append((at, end))
    short = [at for at in changed if verdicts[at].state == "short"]
    again = {at: (data[at].size, verdicts[at].before, 0) for at in short}
    looks = _looks_at(data, errors, again, logarithms=logarithms, most_new=MIN_VALUES)
    p = {at: verdict.p for at, verdict in looks}
    comparisons: list[NewestComparison | None] = [None] * len(data)
    for n, alike in spans.items():
        for rows in _batches(alike):
            table = np.array([data[at][end - n : end] for at, end in rows])
            olds = _level_moments(table)
            for (at, end), old, values in zip(rows, olds, table, strict=True):
                new = moments(data[at][end:])
                rest, far = values - old.mean, abs(new.mean - old.mean)
                comparisons[at] = NewestComparison(
                    end,
                    old,
                    new,
                    p.get(at, verdicts[at].p),
                    n,
                    int(np.count_nonzero(np.abs(rest) >= far)),
                )
    return comparisons


def _level_moments(table: FloatArray) -> list[Moments]:
    """Return the moments of each row, shape `(series, n)`, without its spikes."""
    n = table.shape[1]
    middle = _row_medians(table)
    x = table - middle
    scale = _row_spreads(x)
    tiny = 1e-12 * np.abs(table).max(axis=1, keepdims=True)
    limited, _ = _limited_rows(x, scale, tiny, None)
    limited -= limited.mean(axis=1, keepdims=True)
    spread = np.sqrt((limited * limited).mean(axis=1, keepdims=True))
    used = np.abs(x) <= _spike_limit(n) * np.maximum(spread, tiny)
    counts = used.sum(axis=1)
    means = np.where(used, x, 0.0).sum(axis=1) / counts
    rest = np.where(used, x - means[:, None], 0.0)
    variances = (rest * rest).sum(axis=1) / np.maximum(counts - 1, 1)
    return [
        Moments(*row)
        for row in zip(
            counts.tolist(),
            (middle[:, 0] + means).tolist(),
            np.sqrt(variances).tolist(),
            strict=True,
        )
    ]
