"""The distribution of the peak, assuming only that the response grows with the rate.

There are two estimates: one for each load alone, a mean with a Student-t error; and a distribution
over (peak, steepness, bend, noise) on a grid. In the latter, runs near the limit lie on a parabola
in logarithms with one relative noise for all, estimated from their batches and their scatter; every
other run is a vote for a side. Decision: the abscissa is the realised rate. Where the response is
steep (elasticity 20), the random number of arrivals causes most of a run's noise, and that number
is known. Rejected: a second abscissa near the intended rate, for servers whose work grows with the
rate; without it the claims hold as often, with 6 % less load. Decision: one noise for all runs.
Rejected: a separate noise for each load, which has few degrees of freedom and needs twice the runs
for the same coverage. Decision: the noise of a run grows with the square of its response, as in a
queue (measured on three: 1.8), and a run's deviation is that of a gamma distribution, whose
estimate is the mean whatever its real distribution is. Rejected: a Student distribution of
logarithms, which takes the rare slow runs of a heavy tail for outliers: nearly all of its wrong
answers were too high.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import TrialCache, counted_rate
from benchwright.features.search.peak.policies.policy import share_of_limit
from benchwright.features.search.peak.policies.reading import (
    UNKNOWN_NOISE,
    RunNoise,
    pause_period_s,
    read_runs,
    run_noise,
)
from benchwright.features.search.peak.policies.trials import lowest_failed
from benchwright.features.search.types import Claim, ClaimKind, PeakGoal
from benchwright.stats.arrays import FloatArray

# -- each load alone ----------------------------------------------------------------------------
#
# Runs at one intended rate are pooled. The error of their mean is estimated from each run's batch
# means and from the differences between runs, pooled; with three runs or more, the differences
# alone are used where they are larger.
# Decision: errors are relative (of the logarithm): near saturation a run's mean is skewed, its
# logarithm much less.


class LoadEstimate(msgspec.Struct, frozen=True):
    """The binding criterion at one load, as a share of its limit."""

    rate: float
    """Mean of the realised rates [1/s]."""
    value: float
    """1 at the limit, more is worse; infinite where the server failed."""
    error: float
    """Relative standard error of the value."""
    freedom: float
    """Degrees of freedom of the error."""
    key: str = ""
    """Key of the criterion that binds here."""


def loads_by_criterion(criterion: Criterion, history: Sequence[LoadTrial]) -> list[LoadEstimate]:
    """Return the loads tested so far by one criterion, in the order of their realised rates."""
    by_rate: dict[float, list[LoadTrial]] = {}
    for trial in history:
        by_rate.setdefault(trial.rate, []).append(trial)
    loads = [load_by_criterion(criterion, trials) for trials in by_rate.values()]
    return sorted(loads, key=lambda load: load.rate)


def growing_levels(loads: Sequence[LoadEstimate]) -> list[tuple[float, float, float]]:
    """Return for each load its rate [1/s], and the logarithm of its value as a share of the limit
    with its standard error, fitted so that it grows with the rate.

    `loads` are finite and in the order of their rates; loads that are pooled share one level.
    Source: R. E. Barlow et al. 1972, Statistical Inference under Order Restrictions.
    """
    from scipy.optimize import isotonic_regression

    if not loads:
        return []
    values = np.array([max(load.value, 1e-9) for load in loads])
    errors = np.array([max(load.error, tuning.LEAST_ERROR) for load in loads])
    weights = errors**-2.0
    fit = isotonic_regression(np.log(values), weights=weights)
    found: list[tuple[float, float, float]] = []
    for first, last in itertools.pairwise(fit.blocks):
        block = slice(int(first), int(last))
        level, weight = float(fit.x[first]), weights[block].sum()
        # Loads that differ by more than their errors have a wider band.
        apart = weights[block] @ (np.log(values[block]) - level) ** 2
        spread = max(1.0, float(apart) / max(int(last - first) - 1, 1))
        error = math.sqrt(spread / float(weight))
        found += [(load.rate, level, error) for load in loads[block]]
    return found


def worst_load(goal: PeakGoal, trials: Sequence[LoadTrial]) -> LoadEstimate:
    """Return the estimate for one load with at least one trial, by the criterion whose value is
    worst relative to its limit."""
    each = [load_by_criterion(criterion, trials) for criterion in goal.criteria]
    return max(each, key=lambda load: load.value)


def load_by_criterion(criterion: Criterion, trials: Sequence[LoadTrial]) -> LoadEstimate:
    """Return the estimate for one load with at least one trial, by one criterion."""
    rate = math.fsum(counted_rate(t) for t in trials) / len(trials)
    values = np.array([value_share(criterion, trial) for trial in trials])
    lengths = np.array([trial.lasted_s for trial in trials])
    if not np.isfinite(values).all():
        return LoadEstimate(rate, math.inf, 0.0, 1.0, criterion.key)
    value = float(np.average(values, weights=lengths))
    error, freedom = _error(criterion, trials, values, lengths)
    return LoadEstimate(rate, value, error, freedom, criterion.key)


def value_share(criterion: Criterion, trial: LoadTrial) -> float:
    """Return a trial's value as a share of the limit; more is worse."""
    if trial.ending is LoadEnding.FAILED:
        return math.inf
    value = trial.values.get(criterion.key, math.inf)
    if not criterion.limit > 0:
        # No share of such a limit is known, only the side.
        return tuning.LEAST_SHARE_OF_LIMIT if criterion.holds(value) else math.inf
    if criterion.better == "lower":
        return value / criterion.limit
    if criterion.key not in trial.values or value <= 0:
        return math.inf
    return float(share_of_limit(criterion, value))


def _error(
    criterion: Criterion, trials: Sequence[LoadTrial], values: FloatArray, lengths: FloatArray
) -> tuple[float, float]:
    """Return the relative standard error of the pooled mean, and its degrees of freedom."""
    mean = max(float(np.average(values, weights=lengths)), 1e-12)
    own = [_trial_noise(criterion, trial) for trial in trials]
    inside = math.fsum(noise.freedom for noise in own)
    between = float(len(trials) - 1)
    if inside + between == 0:
        return math.sqrt(tuning.BLIND_NOISE_S / float(lengths.sum())), 1.0
    own_s = math.fsum(o.freedom * o.relative_s for o in own) / max(inside, 1e-9)
    runs_s = float(lengths @ (values / mean - 1) ** 2) / max(between, 1.0)
    pooled_s = (inside * own_s + between * runs_s) / (inside + between)
    if between >= 2 and runs_s > pooled_s:
        pooled_s, inside = runs_s, 0.0
    error = math.sqrt(pooled_s / float(lengths.sum()))
    return max(error, 1e-6), max(inside + between, 1.0)


def _trial_noise(criterion: Criterion, trial: LoadTrial) -> RunNoise:
    return _NOISES.value([trial], criterion, lambda: _computed_noise(criterion, trial))


_NOISES: TrialCache[RunNoise] = TrialCache(1024)


def _computed_noise(criterion: Criterion, trial: LoadTrial) -> RunNoise:
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s):
        return UNKNOWN_NOISE
    values = np.asarray(column, dtype=float)
    counts = np.asarray(trial.series.counts, dtype=float)
    known = (counts > 0) & np.isfinite(values)
    return run_noise(values[known], counts[known], trial.series.width_s)


# -- the distribution of the peak ------------------------------------------------------

STEEPNESS_GRID = np.geomspace(*tuning.STEEPNESS_RANGE)
"""Elasticities of the response to the rate at the limit."""
BEND_GRID = np.array(tuning.BENDS)
"""Bends of the logarithm: 1 for a pole without a base, about 0 for errors."""
NOISE_GRID_S = np.geomspace(*tuning.NOISE_RANGE_S)
"""Relative variance of a run's mean at the limit, times its length [s]."""


class MonotoneRun(msgspec.Struct, frozen=True):
    """One trial, by its worst criterion."""

    rate: float
    """Realised rate in the part that counts [1/s]."""
    value: float
    """Share of the limit, more is worse; infinite: overload."""
    lasts_s: float
    noise: RunNoise
    key: str

    @property
    def near(self) -> bool:
        """Whether the response is near the limit."""
        return tuning.PARABOLA_NEAR[0] < self.value < tuning.PARABOLA_NEAR[1]

    @property
    def holds(self) -> float:
        """The probability that the limit holds at this run's rate."""
        from scipy.special import ndtr

        if math.isinf(self.value):
            return 1 - tuning.LOAD_SURE
        relative_s = self.noise.relative_s if self.noise.freedom >= 1 else tuning.BLIND_NOISE_S
        error = math.sqrt(max(relative_s, 0.1) / self.lasts_s)
        z = -math.log(max(self.value, tuning.IDLE_SHARE)) / error
        return min(max(float(ndtr(z)), 1 - tuning.LOAD_SURE), tuning.LOAD_SURE)


def monotone_posterior(
    goal: PeakGoal, history: Sequence[LoadTrial], left_out: float
) -> MonotonePosterior:
    """Return the distribution of the peak after at least one trial. `left_out`: as in `read_runs`."""
    return _POSTERIORS.value(
        history, (goal.criteria, left_out), lambda: _computed_posterior(goal, history, left_out)
    )


def _computed_posterior(
    goal: PeakGoal, history: Sequence[LoadTrial], left_out: float
) -> MonotonePosterior:
    columns = [monotone_runs(criterion, history, left_out) for criterion in goal.criteria]
    runs = [max(each, key=lambda run: run.value) for each in zip(*columns, strict=True)]
    return MonotonePosterior(runs, lowest_failed(history))


def monotone_runs(
    criterion: Criterion, history: Sequence[LoadTrial], left_out: float
) -> list[MonotoneRun]:
    """Return the trials by one criterion."""
    if criterion.better != "lower" or not criterion.limit > 0:
        return [_run_of_totals(criterion, trial) for trial in history]
    period_s = pause_period_s(criterion, history)
    estimates = read_runs(criterion, history, period_s, left_out)
    return [
        _run_of_totals(criterion, trial)
        if trial.ending is LoadEnding.FAILED
        else MonotoneRun(
            rate=estimate.rate,
            value=estimate.value if estimate.steady else math.inf,
            lasts_s=max(estimate.lasts_s, 1.0),
            noise=estimate.noise,
            key=criterion.key,
        )
        for estimate, trial in zip(estimates, history, strict=True)
    ]


def _run_of_totals(criterion: Criterion, trial: LoadTrial) -> MonotoneRun:
    """Return a run from the trial's total value only; infinite where it failed."""
    return MonotoneRun(
        rate=counted_rate(trial),
        value=max(value_share(criterion, trial), tuning.LEAST_SHARE_OF_LIMIT),
        lasts_s=max(trial.lasted_s, 1.0),
        noise=UNKNOWN_NOISE,
        key=criterion.key,
    )


class MonotonePosterior:
    """The distribution of the peak."""

    def __init__(self, runs: Sequence[MonotoneRun], ceiling: float = math.inf) -> None:
        """`ceiling` is a rate that failed: the peak is not above it [1/s]."""
        self.runs = runs
        self.ceiling = ceiling
        self.close = [run for run in runs if run.near]

    @property
    def runs_near(self) -> int:
        """How many runs are near the limit."""
        return len(self.close)

    @property
    def bracket(self) -> tuple[float | None, float | None]:
        """The highest rate that probably holds, and the lowest that probably does not [1/s]."""
        below = [run.rate for run in self.runs if run.holds >= 0.5]
        above = [run.rate for run in self.runs if run.holds < 0.5]
        return max(below, default=None), min(above, default=None)

    def seconds_beside(self, rate: float) -> tuple[float, float]:
        """Return the total seconds of runs near the limit, below a rate and at or above it."""
        lower = math.fsum(run.lasts_s for run in self.close if run.rate < rate)
        return lower, math.fsum(run.lasts_s for run in self.close) - lower

    def binding(self, rate: float) -> str:
        """Return the key of the worst criterion of the run nearest to a rate."""
        return min(self.runs, key=lambda run: abs(run.rate - rate)).key

    @functools.cached_property
    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return rates `(n_peaks,)` and weights `(n_peaks, steepness, bend, noise)`."""
        below = [run.rate for run in self.runs if run.holds > 0.9]
        above = [run.rate for run in self.runs if run.holds < 0.1]
        rates = np.array([run.rate for run in self.runs])
        low = max(below, default=float(rates.min()) / 2)
        high = min(above, default=float(rates.max()) * 2)
        low, high = min(low, high) / 1.3, max(low, high) * 1.3
        for _ in range(3):
            rates = np.geomspace(low, high, tuning.PEAK_POINTS)
            weight = self._weight(np.log(rates))
            points = rates.size
            likely = np.flatnonzero(weight.sum(axis=(1, 2, 3)) > 1e-6 / points)
            first, last = max(likely[0] - 2, 0), min(likely[-1] + 2, points - 1)
            if last - first > points / 2:
                break
            low, high = float(rates[first]), float(rates[last])
        return rates, weight

    def _weight(self, peak: FloatArray) -> FloatArray:
        centre, spread = tuning.PARABOLA_NOISE_PRIOR
        noise = -0.5 * ((np.log(NOISE_GRID_S) - centre) / spread) ** 2
        shape = (peak.size, STEEPNESS_GRID.size, BEND_GRID.size, NOISE_GRID_S.size)
        total = np.broadcast_to(noise, shape).copy()
        total += _log_likelihood(self.close, peak)
        for run in self.runs:
            if not run.near:
                beyond = peak > math.log(run.rate)
                vote = np.log(np.where(beyond, run.holds, 1 - run.holds))
                total += vote[:, None, None, None]
        total -= total.max()
        weight = np.exp(total, out=total)
        weight /= weight.sum()
        return weight

    @functools.cached_property
    def _peak_weight(self) -> FloatArray:
        """The weights of the rates, summed over the other parameters `(n_peaks,)`."""
        return np.asarray(self._grid[1].sum(axis=(1, 2, 3)), dtype=np.float64)

    @functools.cached_property
    def steepness(self) -> float:
        """The geometric mean of the elasticity at the limit."""
        return math.exp(float(self._grid[1].sum(axis=(0, 2, 3)) @ np.log(STEEPNESS_GRID)))

    @functools.cached_property
    def noise_s(self) -> float:
        """The relative variance of a run's mean at the limit, times its length [s]."""
        return math.exp(float(self._grid[1].sum(axis=(0, 1, 2)) @ np.log(NOISE_GRID_S)))

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak's distribution [1/s]."""
        below = np.cumsum(self._peak_weight) - self._peak_weight / 2
        rate = float(np.exp(np.interp(share, below, np.log(self._grid[0]))))
        return min(rate, self.ceiling)

    def levels(self, rate: float) -> tuple[float, float, float]:
        """Return the ends and the middle of the 95 % band of the response at a rate between runs
        near the limit: logarithms of shares of the limit."""
        rates, weight = self._grid
        peaks = np.minimum(rates, self.ceiling)
        level = _parabola(math.log(rate), np.log(peaks)).ravel()
        order = np.argsort(level)
        weights = weight.sum(axis=3).ravel()[order]
        below = np.cumsum(weights) - weights / 2
        low, middle, high = np.interp((0.025, 0.5, 0.975), below, level[order])
        return float(low), float(middle), float(high)

    def probability(self, claim: Claim, rate: float) -> float:
        """Return the probability that a claim holds at a rate."""
        rates, weight = self._grid
        peaks = np.minimum(rates, self.ceiling)
        if claim.kind is ClaimKind.SLO:
            near = rate >= self.quantile(0.5) * (1 - claim.tolerance)
            return float(self._peak_weight[peaks >= rate].sum()) if near else 0.0
        if claim.kind is ClaimKind.RATE:
            keeps = np.abs(rate / peaks - 1) <= claim.tolerance
            return float(self._peak_weight[keeps].sum())
        level = _parabola(math.log(rate), np.log(rates))
        inside = np.abs(np.expm1(level)) <= claim.tolerance
        return float(weight.sum(axis=3)[inside].sum())


_POSTERIORS: TrialCache[MonotonePosterior] = TrialCache(4)


def _parabola(at: float, peak: FloatArray) -> FloatArray:
    """Return the logarithm of the response at a rate `(n_peaks, steepness, bend)`."""
    z = (STEEPNESS_GRID * (at - peak)[:, None])[:, :, None]
    # It never falls: below its turning point it is constant.
    turn = np.where(BEND_GRID > 0, -1 / np.maximum(BEND_GRID, 1e-9), -np.inf)
    top = np.where(BEND_GRID < 0, 1 / np.maximum(-BEND_GRID, 1e-9), np.inf)
    z = np.clip(z, turn, top)
    z = np.clip(z, -3.0, 3.0)
    return np.asarray(z + BEND_GRID * z * z / 2, dtype=np.float64)


def _log_likelihood(runs: Sequence[MonotoneRun], peak: FloatArray) -> FloatArray:
    """Return the log likelihood of the runs near the limit and of their own noise
    `(n_peaks, steepness, bend, noise)`, without constants.

    Each run adds `-(log(variance) + deviance / variance) / 2`, with the deviance of the gamma
    distribution.
    """
    cells = _grid_sums(tuple(runs), float(peak[0]), float(peak[-1]))
    grid = cells.reshape(NOISE_GRID_S.size, tuning.PEAK_POINTS, STEEPNESS_GRID.size, BEND_GRID.size)
    return np.moveaxis(grid, 0, -1)


_RUNS_TOGETHER = 16
"""Runs whose variances are multiplied before a logarithm: no product leaves the range."""
_BLOCK = 648
"""Cells that are computed at a time for each noise; their tables fit a CPU's cache."""


@functools.lru_cache(maxsize=32)
def _grid_sums(runs: tuple[MonotoneRun, ...], low: float, high: float) -> FloatArray:
    """Return the log likelihood of some runs over logarithms of the peak `(noise, n_cells)`.

    A search adds one run at a time, mostly over the same peaks, so the sums of complete groups
    of runs are cached.
    """
    peak = np.linspace(low, high, tuning.PEAK_POINTS)
    first = max(len(runs) - 1, 0) // _RUNS_TOGETHER * _RUNS_TOGETHER
    if first:
        cells = _grid_sums(runs[:first], low, high).copy()
    else:
        cells = np.zeros(
            (NOISE_GRID_S.size, tuning.PEAK_POINTS * STEEPNESS_GRID.size * BEND_GRID.size)
        )
    if runs:
        _add_runs(cells, runs[first:], peak)
    for run in runs[first:]:
        here_s = NOISE_GRID_S * min(max(run.value, 0.4), 2.5) ** 2
        own = np.log(here_s) + run.noise.relative_s / here_s
        cells -= (0.5 * run.noise.freedom * own)[:, None]
    cells.setflags(write=False)
    return cells


def _add_runs(cells: FloatArray, runs: Sequence[MonotoneRun], peak: FloatArray) -> None:
    """Add the log likelihood of some runs to a table `(noise, n_cells)`. The longest axis is
    last because arithmetic along it is fast."""
    level = np.array([_parabola(math.log(run.rate), peak).ravel() for run in runs])
    bends = (tuning.BEND_ERROR * np.minimum(level * level, 4.0)) ** 2
    lasts_s = np.array([[run.lasts_s] for run in runs])
    chance = np.exp(2 * np.clip(level, -1.0, 1.0)) / lasts_s
    away = np.array([[math.log(run.value)] for run in runs]) - level
    away = np.clip(away, -3.0, 3.0)
    deviance = 2 * (np.expm1(away) - away)
    noises_s = NOISE_GRID_S[:, None]
    for begin in range(0, cells.shape[1], _BLOCK):
        block = slice(begin, begin + _BLOCK)
        shape = NOISE_GRID_S.size, chance[0, block].size
        product, sums, variance = np.ones(shape), np.zeros(shape), np.empty(shape)
        for k in range(len(runs)):
            np.multiply(noises_s, chance[k, block], out=variance)
            variance += bends[k, block]
            product *= variance
            sums += deviance[k, block] / variance
        cells[:, block] -= (np.log(product) + sums) / 2
