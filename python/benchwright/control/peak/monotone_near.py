"""What the runs say of the peak when nothing is believed but that the response grows.

Purpose: a distribution over (peak, steepness, bend, noise) on a grid: runs with a response
near the limit lie on a parabola in logarithms, with one relative noise for all, that their
own batches and their scatter tell; every other run is a vote for a side.
Decision: the abscissa is the realised rate. Where the response is steep (elasticity 20),
the chance in the number of arrivals is most of a run's noise, and it is known.
Decision: one noise for all runs. A noise of its own for each load, with the few degrees of
freedom that a load has, lost: twice the runs for the same coverage.
Source: reference/peak.md section 3.
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
        for run in self.runs:
            if run.near:
                total += _on_parabola(run, peak)
            else:
                beyond = peak > math.log(run.rate)
                vote = np.log(np.where(beyond, run.holds, 1 - run.holds))
                total += vote[:, None, None, None]
        weight = np.exp(total - total.max())
        return np.asarray(weight / weight.sum(), dtype=np.float64)

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


def _parabola(at: float, peak: FloatArray) -> FloatArray:
    """Return the logarithm of the response at a rate `(n_peaks, steepness, bend)`."""
    z = (STEEPNESS * (at - peak)[:, None])[:, :, None]
    # It never falls: below its turning point it stays.
    turn = np.where(BENDS > 0, -1 / np.maximum(BENDS, 1e-9), -np.inf)
    top = np.where(BENDS < 0, 1 / np.maximum(-BENDS, 1e-9), np.inf)
    z = np.clip(z, turn, top)
    z = np.clip(z, -3.0, 3.0)
    return np.asarray(z + BENDS * z * z / 2, dtype=np.float64)


def _on_parabola(run: Run, peak: FloatArray) -> FloatArray:
    """Return the log likelihood of a run near the limit, its own noise included."""
    level = _parabola(math.log(run.rate), peak)[..., None]
    bend = BEND_ERROR * np.minimum(level * level, 4.0)
    chance = NOISES_S * np.exp(np.clip(level, -1.0, 1.0)) / run.lasts_s
    variance = chance + bend * bend
    # The mean of a logarithm is below the logarithm of the mean.
    left = math.log(run.value) - level + np.minimum(chance, 0.5) / 2
    fit = -0.5 * np.log(variance) - 3.5 * np.log1p(left * left / variance / 6)
    here_s = NOISES_S * min(max(run.value, 0.4), 2.5)
    own = -0.5 * run.noise.freedom * (np.log(here_s) + run.noise.relative_s / here_s)
    return np.asarray(fit + own, dtype=np.float64)
