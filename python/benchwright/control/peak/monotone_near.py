"""What the runs say of the peak when nothing is believed but that the response grows.

Purpose: a distribution over (peak, steepness, bend, noise) on a grid: runs with a response
near the limit lie on a parabola in logarithms, with one relative noise for all, that their
own batches and their scatter tell; every other run is a vote for a side.
Decision: the abscissa is the realised rate. Where the response is steep (elasticity 20),
the chance in the number of arrivals is most of a run's noise, and it is known.
Decision: one noise for all runs. A noise of its own for each load, with the few degrees of
freedom that a load has, lost: twice the runs for the same coverage.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.control.peak.loads import UNWORKED, value_share
from benchwright.control.peak.noise import NOTHING, OwnNoise
from benchwright.control.peak.qgs_reading import read
from benchwright.control.peak.remembered import Remembered
from benchwright.control.peak.seen import counted_rate, lowest_failed
from benchwright.model.peak import (
    Claim,
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
)

NEAR = (0.55, 1.8)
"""Responses that the parabola is believed of, as shares of the limit."""
BEND_ERROR = 0.12
"""Its error at a response e times the limit, relative; squared in between."""
STEEPNESS = np.geomspace(0.7, 70.0, 18)
"""Elasticities of the response to the rate at the limit."""
BENDS = np.array([-0.5, 0.5, 1.5])
"""Of the logarithm: 1 for a pole without a base, about 0 for errors."""
NOISES_S = np.geomspace(0.05, 40.0, 12)
"""Relative variance of a run's mean at the limit, times its length [s]."""
NOISE_PRIOR = (math.log(1.2), 1.3)
BLIND_S = 2.0
"""The same of a run that says nothing of it, to vote for a side."""
POINTS = 120
BLOCK = 648
"""Cells that are computed at a time, for each noise: their tables fit a CPU's cache."""
TOGETHER = 16
"""Runs whose likelihoods are multiplied before a logarithm: no product leaves the range."""
SURE = 0.995
"""No run's vote is believed more than this."""

FloatArray = NDArray[np.float64]


class Run(msgspec.Struct, frozen=True):
    """One trial by the criterion that is worst in it."""

    rate: float
    """Realised, of the part that counts [1/s]."""
    value: float
    """Share of the limit, more is worse; infinite: overload."""
    lasts_s: float
    noise: OwnNoise
    key: str

    @property
    def near(self) -> bool:
        """Tell whether it is near the limit."""
        return NEAR[0] < self.value < NEAR[1]

    @property
    def holds(self) -> float:
        """Return the probability that the limit holds at its rate."""
        from scipy.special import ndtr

        if math.isinf(self.value):
            return 1 - SURE
        relative_s = self.noise.relative_s if self.noise.freedom >= 2 else BLIND_S
        error = math.sqrt(max(relative_s, 0.1) / self.lasts_s)
        z = -math.log(max(self.value, UNWORKED)) / error
        return min(max(float(ndtr(z)), 1 - SURE), SURE)


def near_of(goal: PeakGoal, history: Sequence[LoadTrial]) -> Near:
    """Return what at least one trial says."""
    return _NEARS.value(history, goal.criteria, lambda: _near(goal, history))


def _near(goal: PeakGoal, history: Sequence[LoadTrial]) -> Near:
    columns = [_runs(criterion, history) for criterion in goal.criteria]
    runs = [max(each, key=lambda run: run.value) for each in zip(*columns, strict=True)]
    return Near(runs, lowest_failed(history))


def _runs(criterion: Criterion, history: Sequence[LoadTrial]) -> list[Run]:
    """Return the trials by one criterion."""
    if criterion.better == "lower" and criterion.limit > 0:
        readings = read(criterion, history)
        return [
            Run(
                one.rate,
                one.value if one.steady else math.inf,
                max(one.lasts_s, 1.0),
                one.noise,
                criterion.key,
            )
            if trial.ending is not LoadEnding.FAILED
            else _failed(criterion, trial)
            for one, trial in zip(readings.runs, history, strict=True)
        ]
    return [
        Run(
            counted_rate(trial),
            value_share(criterion, trial),
            max(trial.lasted_s, 1.0),
            NOTHING,
            criterion.key,
        )
        for trial in history
    ]


def _failed(criterion: Criterion, trial: LoadTrial) -> Run:
    lasts_s = max(trial.lasted_s, 1.0)
    return Run(counted_rate(trial), math.inf, lasts_s, NOTHING, criterion.key)


class Near:
    """The distribution of the peak."""

    def __init__(self, runs: Sequence[Run], ceiling: float = math.inf) -> None:
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
            rates = np.geomspace(low, high, POINTS)
            weight = self._weight(np.log(rates))
            kept = np.flatnonzero(weight.sum(axis=(1, 2, 3)) > 1e-6 / POINTS)
            ends = max(kept[0] - 2, 0), min(kept[-1] + 2, POINTS - 1)
            if ends[1] - ends[0] > POINTS / 2:
                break
            low, high = float(rates[ends[0]]), float(rates[ends[1]])
        return rates, weight

    def _weight(self, peak: FloatArray) -> FloatArray:
        centre, spread = NOISE_PRIOR
        noise = -0.5 * ((np.log(NOISES_S) - centre) / spread) ** 2
        shape = (peak.size, STEEPNESS.size, BENDS.size, NOISES_S.size)
        total = np.broadcast_to(noise, shape).copy()
        total += _on_parabola(self.close, peak)
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
        return math.exp(float(self._told[1].sum(axis=(0, 2, 3)) @ np.log(STEEPNESS)))

    @functools.cached_property
    def noise_s(self) -> float:
        """The relative variance of a run's mean at the limit, times its length [s]."""
        return math.exp(float(self._told[1].sum(axis=(0, 1, 2)) @ np.log(NOISES_S)))

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


_NEARS: Remembered[Near] = Remembered(4)


def _parabola(at: float, peak: FloatArray) -> FloatArray:
    """Return the logarithm of the response at a rate `(n_peaks, steepness, bend)`."""
    z = (STEEPNESS * (at - peak)[:, None])[:, :, None]
    # It never falls: below its turning point it stays.
    turn = np.where(BENDS > 0, -1 / np.maximum(BENDS, 1e-9), -np.inf)
    top = np.where(BENDS < 0, 1 / np.maximum(-BENDS, 1e-9), np.inf)
    z = np.clip(z, turn, top)
    z = np.clip(z, -3.0, 3.0)
    return np.asarray(z + BENDS * z * z / 2, dtype=np.float64)


def _on_parabola(runs: Sequence[Run], peak: FloatArray) -> FloatArray:
    """Return the log likelihood of the runs near the limit, less what all cells have alike
    `(n_peaks, steepness, bend, noise)`; their own noise is included.

    Each run has -log(variance) / 2 - 3.5 log(1 + left^2 / (6 variance)). Logarithms are most
    of the work, so both factors are multiplied up over `TOGETHER` runs first.
    """
    cells = _sum_of(tuple(runs), float(peak[0]), float(peak[-1]))
    grid = cells.reshape(NOISES_S.size, POINTS, STEEPNESS.size, BENDS.size)
    return np.moveaxis(grid, 0, -1)


@functools.lru_cache(maxsize=32)
def _sum_of(runs: tuple[Run, ...], low: float, high: float) -> FloatArray:
    """Return the log likelihood of some runs over logarithms of the peak `(noise, n_cells)`.

    A search adds a run at a time, mostly over the same peaks: the sums of its whole groups
    of runs are remembered.
    """
    peak = np.linspace(low, high, POINTS)
    first = max(len(runs) - 1, 0) // TOGETHER * TOGETHER
    if first:
        cells = _sum_of(runs[:first], low, high).copy()
    else:
        cells = np.zeros((NOISES_S.size, POINTS * STEEPNESS.size * BENDS.size))
    if runs:
        _add_factors(cells, runs[first:], peak)
    for run in runs[first:]:
        here_s = NOISES_S * min(max(run.value, 0.4), 2.5)
        own = np.log(here_s) + run.noise.relative_s / here_s
        cells -= (0.5 * run.noise.freedom * own)[:, None]
    cells.setflags(write=False)
    return cells


def _add_factors(cells: FloatArray, runs: Sequence[Run], peak: FloatArray) -> None:
    """Add the log likelihood of some runs to a table `(noise, n_cells)`: arithmetic is
    quick along the longest axis, so the noise comes first."""
    level = np.array([_parabola(math.log(run.rate), peak).ravel() for run in runs])
    bend = BEND_ERROR * np.minimum(level * level, 4.0)
    bends = bend * bend / 2
    lasts_s = np.array([[run.lasts_s] for run in runs])
    chance = np.exp(np.clip(level, -1.0, 1.0)) / (2 * lasts_s)
    away = np.array([[math.log(run.value)] for run in runs]) - level
    noises_s = NOISES_S[:, None]
    for begin in range(0, cells.shape[1], BLOCK):
        block = slice(begin, begin + BLOCK)
        size = chance[0, block].size
        variances, sums = np.ones((2, NOISES_S.size, size))
        half, left = np.empty((2, NOISES_S.size, size))
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
