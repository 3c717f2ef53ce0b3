"""A search that assumes only that the response grows with the rate, smoothly near the limit.

Purpose: what our search falls back to where the curve is no queue's, and a policy of its own
(`monotone`). What is known is a distribution over (peak, steepness): loads whose response is
near the limit are taken to lie on a line in logarithms, with an error that grows away from
it; any other load only says on which side of it the peak is (probabilistic bisection).
Decision: no curve beyond that line, so a kink or a plateau elsewhere does not matter; the
price is runs near the limit. Judging each load quite alone lost: three times the cost for
the same coverage. A sign-only bisection lost: short runs' means are skewed, so it is biased.
Source: R. Waeber et al. 2013, SIAM J. Control Optim. 51(3); workbench.txt section 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchwright.control.peak.bounds import significant
from benchwright.control.peak.loads import UNWORKED, Load, load_of, loads
from benchwright.model.estimate import Estimate
from benchwright.model.peak import (
    ClaimKind,
    CurvePoint,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
)

PURPOSES = ("double", "halve", "bisect", "hold")
"""What its probes are for: other words than those of other policies, by which a probe
tells whose it is."""
METHOD = "response that grows, a line near the limit"
MARGIN = 0.015
"""On top of the claim's confidence: the price of looking after every run."""
FEWEST_RUNS = 3
"""Near the limit, so that what differs between runs is seen."""
CLIMB_S = 20.0
RUN_S = 120.0
NEAR = (0.5, 2.0)
"""Responses that the line is believed of, as shares of the limit."""
BEND = 0.25
"""The line's error at a response e times the limit, relative; squared in between."""
STEEPNESS = np.geomspace(0.5, 60.0, 40)
"""Elasticities of the response to the rate that are considered: 5 to 25 at usual limits."""
POINTS = 400
EARLIEST_S = 5.0
CLEARLY = 3.5
LEAST_STEP = 0.004
"""Two loads closer than this are one [share of the rate]."""

FloatArray = NDArray[np.float64]


class Monotone:
    """The fallback search."""

    name = "monotone"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        known = _Known(goal, history)
        if known.found() >= goal.claim.confidence + MARGIN:
            return known.result(PeakStatus.FOUND)
        return known.probe()

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe is clearly on one side, away from the limit."""
        if so_far.lasted_s < EARLIEST_S:
            return False
        here = load_of(goal, [so_far])
        if here.freedom <= 1:
            return math.isinf(here.value)
        past = abs(math.log(max(here.value, UNWORKED)))
        return past - math.log(NEAR[1]) > 2 * CLEARLY * here.error

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        return _Known(goal, history).result(PeakStatus.UNDECIDED)


class _Known:
    """What a history says."""

    def __init__(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> None:
        self.goal = goal
        self.claim = goal.claim
        self.history = history
        self.loads = loads(goal, history)
        self.below = [load for load in self.loads if load.below(1.0) >= 0.5]
        self.above = [load for load in self.loads if load.below(1.0) < 0.5]
        self.near = [load for load in self.loads if NEAR[0] < load.value < NEAR[1]]

    # The next probe -----------------------------------------------------------------

    def probe(self) -> Probe:
        """Return the next probe."""
        if not self.loads:
            return Probe(self.goal.start_rate, self._length(CLIMB_S), "double")
        if not self.above:
            rate = 2 * max(load.rate for load in self.below)
            return Probe(rate, self._length(CLIMB_S), "double")
        if not self.below:
            rate = min(load.rate for load in self.above) / 2
            return Probe(rate, self._length(CLIMB_S), "halve")
        spread = math.log(self.quantile(0.9) / self.quantile(0.1))
        if not self.near or spread > 0.25:
            return Probe(
                self.tested(self.quantile(0.5)), self._length(CLIMB_S), "bisect"
            )
        return Probe(self.tested(self._flank()), self._length(RUN_S), "hold")

    def _length(self, usual_s: float) -> float:
        return self.goal.run_length_s or usual_s

    def _flank(self) -> float:
        """Return the answer's load, or one on the thinner side of it.

        Runs on both sides fix the line; at the answer itself they fix its height.
        """
        answer = self._rate()
        lower = math.fsum(load.lasts_s for load in self.near if load.rate < answer)
        upper = math.fsum(load.lasts_s for load in self.near if load.rate >= answer)
        step = min(self.claim.tolerance, 0.1) / max(self._steepness(), 1.0)
        return answer * (1 + step if lower > upper else 1 - step)

    def tested(self, rate: float) -> float:
        """Return the intended rate of a load tested before that is as good as this one."""
        for trial in self.history:
            if abs(trial.rate / rate - 1) < LEAST_STEP:
                return trial.rate
        return significant(rate)

    # What is known ------------------------------------------------------------------

    @functools.cached_property
    def _rates(self) -> FloatArray:
        """Return the rates that may be the peak `(POINTS,)`."""
        below = [load.rate for load in self.loads if load.below(1.0) > 0.9]
        above = [load.rate for load in self.loads if load.below(1.0) < 0.1]
        every = [load.rate for load in self.loads]
        low = max(below, default=min(every) / 2)
        high = min(above, default=max(every) * 2)
        low, high = min(low, high), max(low, high)
        return np.geomspace(low / 1.25, high * 1.25, POINTS)

    @functools.cached_property
    def _joint(self) -> FloatArray:
        """Return the probability of each (peak, steepness) `(POINTS, 40)`."""
        peak = np.log(self._rates)[:, None]
        log_weight = np.zeros((POINTS, STEEPNESS.size))
        for load in self.loads:
            if NEAR[0] < load.value < NEAR[1]:
                log_weight += _on_line(load, peak)
            else:
                holds = load.below(1.0)
                beyond = peak > math.log(load.rate)
                log_weight += np.log(np.where(beyond, holds, 1 - holds))
        weight = np.exp(log_weight - log_weight.max())
        return np.asarray(weight / weight.sum())

    @functools.cached_property
    def _weight(self) -> FloatArray:
        """Return the probability of each rate to be the peak `(POINTS,)`."""
        return np.asarray(self._joint.sum(axis=1))

    def _steepness(self) -> float:
        return float(np.exp(self._joint.sum(axis=0) @ np.log(STEEPNESS)))

    def quantile(self, share: float) -> float:
        """Return a quantile of the peak's distribution [1/s]."""
        below = np.cumsum(self._weight) - self._weight / 2
        return float(np.exp(np.interp(share, below, np.log(self._rates))))

    # The answer ---------------------------------------------------------------------

    def found(self) -> float:
        """Return the probability that the claim holds at the answer; 0: no claim yet."""
        if not self.below or not self.above:
            return 0.0
        if self.claim.kind is ClaimKind.REGION and (
            sum(load.runs for load in self.near) < FEWEST_RUNS
        ):
            return 0.0
        return self._held(self._rate())

    def _held(self, rate: float) -> float:
        claim = self.claim
        if claim.kind is ClaimKind.SLO:
            near = rate >= self.quantile(0.5) * (1 - claim.tolerance)
            return float(self._weight[self._rates >= rate].sum()) if near else 0.0
        if claim.kind is ClaimKind.RATE:
            kept = np.abs(rate / self._rates - 1) <= claim.tolerance
            return float(self._weight[kept].sum())
        excess = STEEPNESS * np.log(rate / self._rates)[:, None]
        inside = np.abs(np.expm1(excess)) <= claim.tolerance
        return float(self._joint[inside].sum())

    def _rate(self) -> float:
        if self.claim.kind is ClaimKind.SLO:
            return self.quantile(1 - self.claim.confidence - MARGIN)
        return self.quantile(0.5)

    def result(self, status: PeakStatus) -> PeakResult:
        """Return the answer as a result."""
        if not self.loads:
            return PeakResult(
                status=status,
                detail="no trial told anything",
                claim=self.claim,
                policy=Monotone.name,
            )
        rate, held = significant(self._rate()), self.found()
        tail = (1 - self.claim.confidence) / 2
        return PeakResult(
            status=status,
            detail=f"{self.claim.text} holds with probability {held:.3f}, assuming only "
            "that the response grows with the rate",
            claim=self.claim,
            policy=Monotone.name,
            peak_rate=rate,
            interval=Estimate(
                value=rate,
                low=min(self.quantile(tail), rate),
                high=max(self.quantile(1 - tail), rate),
                confidence=self.claim.confidence,
                method=METHOD,
                n=len(self.history),
                unit="1/s",
            ),
            claim_probability=held,
            binding=min(self.loads, key=lambda load: abs(load.rate - rate)).key,
            curve=self._curve(),
        )

    def _curve(self) -> tuple[CurvePoint, ...]:
        """Return the loads themselves, with two standard errors."""
        limits = {c.key: c for c in self.goal.criteria}
        points = []
        for load in self.loads:
            limit = limits[load.key]
            if math.isinf(load.value) or limit.better == "higher":
                continue
            ends = (load.value * math.exp(s * load.error) for s in (-2.0, 0.0, 2.0))
            points.append(
                CurvePoint(load.rate, *(limit.limit * value for value in ends))
            )
        return tuple(points)


def _on_line(load: Load, peak: FloatArray) -> FloatArray:
    """Return the log likelihood of a load's response on lines `(POINTS, 40)`."""
    expected = STEEPNESS * (math.log(load.rate) - peak)
    bend = BEND * np.minimum(expected * expected, 4.0)
    scale = np.sqrt(load.error**2 + bend * bend)
    left = (math.log(load.value) - expected) / scale
    freedom = load.freedom
    result: FloatArray = -np.log(scale) - 0.5 * (freedom + 1) * np.log1p(
        left * left / freedom
    )
    return result
