"""What runs show when only the order is believed: each load alone, and a distribution of the peak."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.core.search import (
    Claim,
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
)
from benchwright.decide.peak.reading import (
    UNKNOWN_NOISE,
    RunNoise,
    read_runs,
    run_noise,
)
from benchwright.decide.peak.trials import TrialCache, counted_rate, lowest_failed

# --------------------------------------------------------------------------------------
# What the runs at each load say by themselves: a mean with a Student-t error, no
# curve.
#
# Purpose: the evidence of a search that assumes only that the response grows with the rate.
# Runs at one intended rate are pooled; the error of their mean has two sources, each run's own
# batch means and the differences between runs, and the larger one is believed.
# Decision: errors are relative (of the logarithm): a run's mean near saturation is skewed,
# its logarithm much less.
# The variance has two levels, within and between runs; within: batch means.

LEAST_FREEDOM = 1.0
BLIND_SD = 0.3
"""Relative standard deviation of a mean about whose noise nothing is known."""
LOAD_SURE = 0.995
"""No single load is believed more than this: one run may be anything."""
IDLE_SHARE = 0.05
"""A value below this share of its limit has no logarithm worth a t-interval: it holds."""


class LoadEstimate(msgspec.Struct, frozen=True):
    """The binding criterion at one load, as a share of its limit."""

    rate: float
    """Mean of the realised rates [1/s]."""
    value: float
    """1 at the limit, more is worse; infinite where the server failed."""
    error: float
    """Relative standard error of the value."""
    freedom: float
    runs: int
    lasts_s: float
    key: str = ""
    """Of the criterion that binds here."""

    def below(self, bound: float) -> float:
        """Return the probability that the true value is below a bound."""
        if math.isinf(self.value):
            return 1 - LOAD_SURE
        if self.value < IDLE_SHARE:
            return LOAD_SURE
        t = (math.log(bound) - math.log(self.value)) / self.error
        return min(max(_student_t(self.freedom, t), 1 - LOAD_SURE), LOAD_SURE)


def load_estimates(goal: PeakGoal, history: Sequence[LoadTrial]) -> list[LoadEstimate]:
    """Return the loads tested so far, in the order of their rates."""
    by_rate: dict[float, list[LoadTrial]] = {}
    for trial in history:
        by_rate.setdefault(trial.rate, []).append(trial)
    found = [worst_load(goal, trials) for trials in by_rate.values()]
    return sorted(found, key=lambda load: load.rate)


def worst_load(goal: PeakGoal, trials: Sequence[LoadTrial]) -> LoadEstimate:
    """Return what the trials at one load, at least one, come to."""
    each = [load_by_criterion(criterion, trials) for criterion in goal.criteria]
    # The one that is worst: by its value, in units of what it may be.
    return max(each, key=lambda load: load.value)


def load_by_criterion(
    criterion: Criterion, trials: Sequence[LoadTrial]
) -> LoadEstimate:
    """Return what the trials at one load, at least one, come to by one criterion."""
    rate = math.fsum(counted_rate(t) for t in trials) / len(trials)
    lasts_s = math.fsum(t.lasted_s for t in trials)
    values = np.array([value_share(criterion, trial) for trial in trials])
    lengths = np.array([trial.lasted_s for trial in trials])
    if not np.isfinite(values).all():
        return LoadEstimate(
            rate, math.inf, 0.0, LEAST_FREEDOM, len(trials), lasts_s, criterion.key
        )
    value = float(np.average(values, weights=lengths))
    error, freedom = _error(criterion, trials, values, lengths)
    return LoadEstimate(
        rate, value, error, freedom, len(trials), lasts_s, criterion.key
    )


def value_share(criterion: Criterion, trial: LoadTrial) -> float:
    """Return a trial's value as a share of the limit, more being worse."""
    if trial.ending is LoadEnding.FAILED:
        return math.inf
    value = trial.values.get(criterion.key, math.inf)
    if criterion.better == "lower":
        return value / criterion.limit if criterion.limit else math.copysign(9, value)
    return criterion.limit / value if value > 0 else math.inf


def _error(
    criterion: Criterion,
    trials: Sequence[LoadTrial],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    lengths: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float]:
    """Return the relative standard error of the pooled mean, and its freedom."""
    mean = max(float(np.average(values, weights=lengths)), 1e-12)
    own = [_trial_noise(criterion, trial) for trial in trials]
    inside = math.fsum(one.freedom for one in own)
    between = float(len(trials) - 1)
    if inside + between == 0:
        return BLIND_SD, LEAST_FREEDOM
    own_s = math.fsum(o.freedom * o.relative_s for o in own) / max(inside, 1e-9)
    runs_s = float(lengths @ (values / mean - 1) ** 2) / max(between, 1.0)
    pooled_s = (inside * own_s + between * runs_s) / (inside + between)
    if between >= 2 and runs_s > pooled_s:
        pooled_s, inside = runs_s, 0.0
    error = math.sqrt(pooled_s / float(lengths.sum()))
    return max(error, 1e-6), max(inside + between, LEAST_FREEDOM)


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
    return run_noise(values[known], counts[known], trial.series.width_s, 0.0)


def _student_t(freedom: float, t: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, t))


# --------------------------------------------------------------------------------------
# What the runs say of the peak when nothing is believed but that the response grows.
#
# Purpose: a distribution over (peak, steepness, bend, noise) on a grid: runs with a response
# near the limit lie on a parabola in logarithms, with one relative noise for all, that their
# own batches and their scatter tell; every other run is a vote for a side.
# Decision: the abscissa is the realised rate. Where the response is steep (elasticity 20),
# the chance in the number of arrivals is most of a run's noise, and it is known.
# Decision: one noise for all runs. A noise of its own for each load, with the few degrees of
# freedom that a load has, lost: twice the runs for the same coverage.

PARABOLA_NEAR = (0.55, 1.8)
"""Responses that the parabola is believed of, as shares of the limit."""
BEND_ERROR = 0.12
"""Its error at a response e times the limit, relative; squared in between."""
STEEPNESS_GRID = np.geomspace(0.7, 70.0, 18)
"""Elasticities of the response to the rate at the limit."""
BEND_GRID = np.array([-0.5, 0.5, 1.5])
"""Of the logarithm: 1 for a pole without a base, about 0 for errors."""
NOISE_GRID_S = np.geomspace(0.05, 40.0, 12)
"""Relative variance of a run's mean at the limit, times its length [s]."""
PARABOLA_NOISE_PRIOR = (math.log(1.2), 1.3)
BLIND_NOISE_S = 2.0
"""The same of a run that says nothing of it, to vote for a side."""
PEAK_POINTS = 120
GRID_BLOCK = 648
"""Cells that are computed at a time, for each noise: their tables fit a CPU's cache."""
RUNS_TOGETHER = 16
"""Runs whose likelihoods are multiplied before a logarithm: no product leaves the range."""
VOTE_SURE = 0.995
"""No run's vote is believed more than this."""

FloatArray = NDArray[np.float64]


class MonotoneRun(msgspec.Struct, frozen=True):
    """One trial by the criterion that is worst in it."""

    rate: float
    """Realised, of the part that counts [1/s]."""
    value: float
    """Share of the limit, more is worse; infinite: overload."""
    lasts_s: float
    noise: RunNoise
    key: str

    @property
    def near(self) -> bool:
        """Tell whether it is near the limit."""
        return PARABOLA_NEAR[0] < self.value < PARABOLA_NEAR[1]

    @property
    def holds(self) -> float:
        """Return the probability that the limit holds at its rate."""
        from scipy.special import ndtr

        if math.isinf(self.value):
            return 1 - VOTE_SURE
        relative_s = self.noise.relative_s if self.noise.freedom >= 2 else BLIND_NOISE_S
        error = math.sqrt(max(relative_s, 0.1) / self.lasts_s)
        z = -math.log(max(self.value, IDLE_SHARE)) / error
        return min(max(float(ndtr(z)), 1 - VOTE_SURE), VOTE_SURE)


def monotone_posterior(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> MonotonePosterior:
    """Return what at least one trial says."""
    return _POSTERIORS.value(
        history, goal.criteria, lambda: _computed_posterior(goal, history)
    )


def _computed_posterior(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> MonotonePosterior:
    columns = [_monotone_runs(criterion, history) for criterion in goal.criteria]
    runs = [max(each, key=lambda run: run.value) for each in zip(*columns, strict=True)]
    return MonotonePosterior(runs, lowest_failed(history))


def _monotone_runs(
    criterion: Criterion, history: Sequence[LoadTrial]
) -> list[MonotoneRun]:
    """Return the trials by one criterion."""
    if criterion.better == "lower" and criterion.limit > 0:
        readings = read_runs(criterion, history)
        return [
            MonotoneRun(
                one.rate,
                one.value if one.steady else math.inf,
                max(one.lasts_s, 1.0),
                one.noise,
                criterion.key,
            )
            if trial.ending is not LoadEnding.FAILED
            else _failed_run(criterion, trial)
            for one, trial in zip(readings.runs, history, strict=True)
        ]
    return [
        MonotoneRun(
            counted_rate(trial),
            value_share(criterion, trial),
            max(trial.lasted_s, 1.0),
            UNKNOWN_NOISE,
            criterion.key,
        )
        for trial in history
    ]


def _failed_run(criterion: Criterion, trial: LoadTrial) -> MonotoneRun:
    lasts_s = max(trial.lasted_s, 1.0)
    return MonotoneRun(
        counted_rate(trial), math.inf, lasts_s, UNKNOWN_NOISE, criterion.key
    )


class MonotonePosterior:
    """The distribution of the peak."""

    def __init__(self, runs: Sequence[MonotoneRun], ceiling: float = math.inf) -> None:
        """`ceiling`: a rate that failed, so that the peak is not above it [1/s]."""
        self.runs = runs
        self.ceiling = ceiling
        self.close = [run for run in runs if run.near]

    @property
    def runs_near(self) -> int:
        """How many runs are near the limit."""
        return len(self.close)

    @property
    def bracket(self) -> tuple[float | None, float | None]:
        """The highest rate that rather holds, the lowest that rather does not [1/s]."""
        below = [run.rate for run in self.runs if run.holds >= 0.5]
        above = [run.rate for run in self.runs if run.holds < 0.5]
        return max(below, default=None), min(above, default=None)

    def seconds_beside(self, rate: float) -> tuple[float, float]:
        """Return the seconds of near runs below a rate, and at or above it."""
        lower = math.fsum(run.lasts_s for run in self.close if run.rate < rate)
        return lower, math.fsum(run.lasts_s for run in self.close) - lower

    def binding(self, rate: float) -> str:
        """Return the key of the criterion that is worst nearest to a rate."""
        return min(self.runs, key=lambda run: abs(run.rate - rate)).key

    # The grid -----------------------------------------------------------------------

    @functools.cached_property
    def _told(self) -> tuple[FloatArray, FloatArray]:
        """Return rates `(POINTS,)` and weights `(POINTS, steepness, bend, noise)`."""
        below = [run.rate for run in self.runs if run.holds > 0.9]
        above = [run.rate for run in self.runs if run.holds < 0.1]
        every = [run.rate for run in self.runs]
        low = max(below, default=min(every) / 2)
        high = min(above, default=max(every) * 2)
        low, high = min(low, high) / 1.3, max(low, high) * 1.3
        for _ in range(3):
            rates = np.geomspace(low, high, PEAK_POINTS)
            weight = self._weight(np.log(rates))
            kept = np.flatnonzero(weight.sum(axis=(1, 2, 3)) > 1e-6 / PEAK_POINTS)
            ends = max(kept[0] - 2, 0), min(kept[-1] + 2, PEAK_POINTS - 1)
            if ends[1] - ends[0] > PEAK_POINTS / 2:
                break
            low, high = float(rates[ends[0]]), float(rates[ends[1]])
        return rates, weight

    def _weight(self, peak: FloatArray) -> FloatArray:
        centre, spread = PARABOLA_NOISE_PRIOR
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
    def _of_peak(self) -> FloatArray:
        return np.asarray(self._told[1].sum(axis=(1, 2, 3)), dtype=np.float64)

    @functools.cached_property
    def steepness(self) -> float:
        """The elasticity at the limit, in the geometric mean."""
        return math.exp(
            float(self._told[1].sum(axis=(0, 2, 3)) @ np.log(STEEPNESS_GRID))
        )

    @functools.cached_property
    def noise_s(self) -> float:
        """The relative variance of a run's mean at the limit, times its length [s]."""
        return math.exp(float(self._told[1].sum(axis=(0, 1, 2)) @ np.log(NOISE_GRID_S)))

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak's distribution [1/s]."""
        below = np.cumsum(self._of_peak) - self._of_peak / 2
        found = float(np.exp(np.interp(share, below, np.log(self._told[0]))))
        return min(found, self.ceiling)

    def held(self, claim: Claim, rate: float) -> float:
        """Return the probability that a claim holds at a rate."""
        rates, weight = self._told
        peaks = np.minimum(rates, self.ceiling)
        if claim.kind is ClaimKind.SLO:
            near = rate >= self.quantile(0.5) * (1 - claim.tolerance)
            return float(self._of_peak[peaks >= rate].sum()) if near else 0.0
        if claim.kind is ClaimKind.RATE:
            kept = np.abs(rate / peaks - 1) <= claim.tolerance
            return float(self._of_peak[kept].sum())
        level = _parabola(math.log(rate), np.log(rates))
        inside = np.abs(np.expm1(level)) <= claim.tolerance
        return float(weight.sum(axis=3)[inside].sum())


_POSTERIORS: TrialCache[MonotonePosterior] = TrialCache(4)


def _parabola(at: float, peak: FloatArray) -> FloatArray:
    """Return the logarithm of the response at a rate `(n_peaks, steepness, bend)`."""
    z = (STEEPNESS_GRID * (at - peak)[:, None])[:, :, None]
    # It never falls: below its turning point it stays.
    turn = np.where(BEND_GRID > 0, -1 / np.maximum(BEND_GRID, 1e-9), -np.inf)
    top = np.where(BEND_GRID < 0, 1 / np.maximum(-BEND_GRID, 1e-9), np.inf)
    z = np.clip(z, turn, top)
    z = np.clip(z, -3.0, 3.0)
    return np.asarray(z + BEND_GRID * z * z / 2, dtype=np.float64)


def _log_likelihood(runs: Sequence[MonotoneRun], peak: FloatArray) -> FloatArray:
    """Return the log likelihood of the runs near the limit, less what all cells have alike
    `(n_peaks, steepness, bend, noise)`; their own noise is included.

    Each run has -log(variance) / 2 - 3.5 log(1 + left^2 / (6 variance)). Logarithms are most
    of the work, so both factors are multiplied up over `TOGETHER` runs first.
    """
    cells = _grid_sums(tuple(runs), float(peak[0]), float(peak[-1]))
    grid = cells.reshape(
        NOISE_GRID_S.size, PEAK_POINTS, STEEPNESS_GRID.size, BEND_GRID.size
    )
    return np.moveaxis(grid, 0, -1)


@functools.lru_cache(maxsize=32)
def _grid_sums(runs: tuple[MonotoneRun, ...], low: float, high: float) -> FloatArray:
    """Return the log likelihood of some runs over logarithms of the peak `(noise, n_cells)`.

    A search adds a run at a time, mostly over the same peaks: the sums of its whole groups
    of runs are remembered.
    """
    peak = np.linspace(low, high, PEAK_POINTS)
    first = max(len(runs) - 1, 0) // RUNS_TOGETHER * RUNS_TOGETHER
    if first:
        cells = _grid_sums(runs[:first], low, high).copy()
    else:
        cells = np.zeros(
            (NOISE_GRID_S.size, PEAK_POINTS * STEEPNESS_GRID.size * BEND_GRID.size)
        )
    if runs:
        _add_factors(cells, runs[first:], peak)
    for run in runs[first:]:
        here_s = NOISE_GRID_S * min(max(run.value, 0.4), 2.5)
        own = np.log(here_s) + run.noise.relative_s / here_s
        cells -= (0.5 * run.noise.freedom * own)[:, None]
    cells.setflags(write=False)
    return cells


def _add_factors(
    cells: FloatArray, runs: Sequence[MonotoneRun], peak: FloatArray
) -> None:
    """Add the log likelihood of some runs to a table `(noise, n_cells)`: arithmetic is
    quick along the longest axis, so the noise comes first."""
    level = np.array([_parabola(math.log(run.rate), peak).ravel() for run in runs])
    bend = BEND_ERROR * np.minimum(level * level, 4.0)
    bends = bend * bend / 2
    lasts_s = np.array([[run.lasts_s] for run in runs])
    chance = np.exp(np.clip(level, -1.0, 1.0)) / (2 * lasts_s)
    away = np.array([[math.log(run.value)] for run in runs]) - level
    noises_s = NOISE_GRID_S[:, None]
    for begin in range(0, cells.shape[1], GRID_BLOCK):
        block = slice(begin, begin + GRID_BLOCK)
        size = chance[0, block].size
        variances, sums = np.ones((2, NOISE_GRID_S.size, size))
        half, left = np.empty((2, NOISE_GRID_S.size, size))
        for k in range(len(runs)):
            np.multiply(noises_s, chance[k, block], out=half)
            # The mean of a logarithm is below the logarithm of the mean.
            np.minimum(half, 0.25, out=left)
            left += away[k, block]
            left *= left
            half += bends[k, block]
            variances *= half
            half *= 12.0
            half += left
            sums *= half
        cells[:, block] += 3.0 * np.log(variances) - 3.5 * np.log(sums)
