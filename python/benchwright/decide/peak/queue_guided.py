"""Our policy: guided by a queue's shape, with a stated probability.

Purpose: the peak at the least cost. Climb with short probes; then let the posterior of the
curve choose each load and length; stop when the claim has its probability.
Each decision is one pipeline: read the trials, fit the curve, answer the claim, choose a probe.
The parts: qgs_reading (what a trial tells), qgs_posterior (what is known), qgs_plan (what to
run next), qgs_claim (the answer). Whether the server is a queue at all is doubted elsewhere
(doubts.py, guided.py). docs/peak.md explains the method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.core.results import Estimate
from benchwright.core.search import (
    ClaimKind,
    CurvePoint,
    CurveShape,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
    VarianceComponents,
    rounded_rate,
)
from benchwright.decide.peak.curve import FloatArray
from benchwright.decide.peak.next_run import (
    ClimbState,
    choose_run,
    climb_state,
    shortest_s,
)
from benchwright.decide.peak.policy import probability_wanted
from benchwright.decide.peak.posterior import (
    ClaimAnswer,
    Posterior,
    answer_at,
    best_answer,
    posterior,
    weighted_quantile,
)
from benchwright.decide.peak.reading import (
    OVERLOAD_LIMITS,
    RunEstimates,
    limit_s,
    read_runs,
    run_length_s,
    share_of_limit,
    time_scale,
    without_contradictory_capacities,
)
from benchwright.decide.peak.trials import TrialCache

LOOK_MARGIN = 0.015
"""On top of the claim's confidence, at least: the price of looking after every run."""
FEW_RUNS_MARGIN = 0.12
"""... over the number of runs near the peak: what few runs say of their own noise and of what
differs between runs is little, and a lucky agreement of the first ones ends no search."""
NEAR_PEAK = (0.6, 1.7)
"""Responses that count as near the peak, as shares of the limit."""
FEWEST_NEAR_PEAK = 6
"""Independent runs near the peak before a claim: a few show no spread."""
CONFIRM_S = 60.0
"""Of a run that only the number of runs asks for [s]."""
LEAVE_EARLIEST_S = 5.0
"""A climbing probe is not left before [s]."""
LEAVE_Z = 3.5
"""Standard errors by which a climbing probe's mean must miss the limit."""
LEAVE_OVERLOAD_S = 12.0
"""Of a probe that turned out overloaded without being meant to be [s]. Whatever the limit
is: on a busy machine a quick server stalls for seconds, and what is left then tells little."""
LEAVE_EXCURSION_S = 40.0
"""... of a run that was to be steady: from an excursion a queue comes back, and to leave the
high ones early is to measure the low ones [s]."""
TURNAROUND_S = 10.0
"""What a trial is counted as costing beside its load, at least: fewer, longer runs [s]."""


FIRST_OVERLOAD_S = 60.0
"""Of the overloaded run that a claim of the region begins with [s]."""
FIRST_OVERLOAD_RATIO = 1.2
MOST_WITHOUT_CAPACITY = 1
"""Overloaded runs that told no capacity, after which no more are asked for."""
MOST_OVERLOADS_AHEAD = 2
"""More overloaded runs than runs near the peak, at most: what they have in common (a server
that completes less when overloaded, a machine's hour) no number of them tells. On a real
server eight in a row were once made, and the first run near the peak was enough."""
STEEPEST_SLOPE = 30.0


FEWEST_EFFECTIVE_DRAWS = 60.0
"""Draws that a posterior must be worth; one that lost its way begins again with `MANY`."""
RESTART_DRAWS = 4096
ROUGH_DRAWS = 512
"""Draws of a first look, which only tells how steep the curve is."""


class QueueGuided:
    """The queue-guided search."""

    name = "qgs"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        seen = climb_state(goal, history)
        climb = seen.climb()
        if climb is not None:
            return climb
        known = _search_state(seen)
        return known.result(PeakStatus.FOUND) if known.is_sure() else known.probe()

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough."""
        criterion = goal.criteria[0]
        clock = time_scale(limit_s(criterion))
        if so_far.lasted_s < clock * LEAVE_EARLIEST_S or probe.purpose == "overload":
            return False
        column = so_far.series.values.get(criterion.key, ())
        values = share_of_limit(criterion, np.asarray(column, dtype=float))
        values = values[np.isfinite(values)]
        if values.size < 4:
            return False
        half = values[values.size // 2 :]
        overloaded = half.min() > OVERLOAD_LIMITS and half[-1] > half[0]
        enough_s = LEAVE_OVERLOAD_S
        if probe.purpose != "climb":
            enough_s = max(enough_s, clock * LEAVE_EXCURSION_S)
        if overloaded and so_far.lasted_s >= enough_s:
            return True
        return probe.purpose == "climb" and _clearly_below(values)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        seen = climb_state(goal, history)
        if not history:
            return PeakResult(
                status=PeakStatus.UNDECIDED,
                detail="no usable trial",
                claim=goal.claim,
                policy=QueueGuided.name,
            )
        return _search_state(seen).result(PeakStatus.UNDECIDED)


def _clearly_below(values: FloatArray) -> bool:
    rest = values[1:]
    error = float(rest.std(ddof=1)) / math.sqrt(rest.size)
    return bool(rest.mean() + 2 * LEAVE_Z * error < 0.9)


class FittedCurve(msgspec.Struct, frozen=True):
    """A curve that was fitted to the trials, and what they tell once its slope is known."""

    readings: RunEstimates
    posterior: Posterior


_FITS: TrialCache[FittedCurve] = TrialCache(4)


def _fit_curve(seen: ClimbState) -> FittedCurve:
    """Return the curve: the slope of a first look tells each run's noise."""
    goal, start = seen.goal, seen.start
    criterion = goal.criteria[0]
    rough = without_contradictory_capacities(read_runs(criterion, seen.history))
    first = posterior(rough, start, goal.shape, draws=ROUGH_DRAWS)
    slope = (1 - first.mean(first.curve.unloaded)) * (
        first.mean(first.curve.exponent) + 1 / first.mean(first.curve.gap)
    )
    readings = without_contradictory_capacities(
        read_runs(criterion, seen.history, min(slope, STEEPEST_SLOPE))
    )
    known = posterior(readings, start, goal.shape, begin=first)
    if known.effective < FEWEST_EFFECTIVE_DRAWS:
        known = posterior(readings, start, goal.shape, draws=RESTART_DRAWS)
    return FittedCurve(readings, known)


def _search_state(seen: ClimbState) -> SearchState:
    """Return the curve with the best answer to the claim. Needs a trial."""
    key = (seen.goal.criteria[0], seen.goal.shape)
    fitted = _FITS.value(seen.history, key, lambda: _fit_curve(seen))
    best = best_answer(seen.goal.claim, fitted.posterior)
    return SearchState(seen, fitted.readings, fitted.posterior, best)


class SearchState(msgspec.Struct, frozen=True):
    """What a decision looks at once a curve is fitted."""

    seen: ClimbState
    readings: RunEstimates
    posterior: Posterior
    found: ClaimAnswer
    """The best answer."""

    @property
    def goal(self) -> PeakGoal:
        """What is searched for."""
        return self.seen.goal

    @property
    def near(self) -> int:
        """How many runs are near the peak."""
        low, high = NEAR_PEAK
        return sum(r.steady and low < r.value < high for r in self.readings.runs)

    @property
    def wanted(self) -> float:
        """The probability at which the search may stop."""
        claim = self.goal.claim
        if claim.kind is ClaimKind.SLO:
            return claim.confidence
        return probability_wanted(claim, LOOK_MARGIN, FEW_RUNS_MARGIN, self.near)

    def is_sure(self) -> bool:
        """Tell whether the claim has its probability."""
        claim = self.goal.claim
        enough = FEWEST_NEAR_PEAK if claim.kind is ClaimKind.REGION else 1
        if self.near < enough or self.posterior.effective < FEWEST_EFFECTIVE_DRAWS:
            return False
        return self.found.probability >= self.wanted

    def probe(self) -> Probe:
        """Return the probe that pays most."""
        overload = self._first_overload()
        if overload is not None:
            return overload
        clock, warm_up_s = self.seen.clock, self.readings.warm_up_s
        chosen = choose_run(
            self.goal.claim,
            self.posterior,
            self.found,
            clock * TURNAROUND_S + warm_up_s + self._restart_s(),
            overload=self._overload_tells(),
            clock=clock,
        )
        rate, length, purpose = chosen.rate, chosen.lasts_s, chosen.purpose
        if self.found.probability >= self.wanted:
            length = clock * min(shortest_s(self.goal.claim), CONFIRM_S)
            rate, purpose = self.found.rate, "focus"
        length = math.ceil(length + warm_up_s)
        return Probe(rounded_rate(rate), self.goal.run_length_s or length, purpose)

    def _first_overload(self) -> Probe | None:
        """Return the overloaded run that a narrow claim begins with, if it is missing.

        It tells the capacity, and no other run shows a warm-up as plainly.
        """
        enough_s = 40 * self.seen.clock
        long = [r for r in self.readings.runs if not r.steady and r.lasts_s >= enough_s]
        if self.goal.claim.kind is not ClaimKind.REGION or long:
            return None
        if not self._overload_tells():
            return None
        capacity = self.posterior.mean(np.log(self.posterior.curve.capacity))
        rate = FIRST_OVERLOAD_RATIO * math.exp(capacity)
        length = run_length_s(self.goal, FIRST_OVERLOAD_S)
        return Probe(rounded_rate(rate), length, "overload")

    def _is_far(self, rate: float) -> bool:
        return rate > FIRST_OVERLOAD_RATIO * max(self.seen.below, default=math.inf)

    def _overload_tells(self) -> bool:
        """Tell whether overload is worth running: not where it told nothing before, or
        where the response stays bounded however high the rate."""
        mute = [
            run
            for run in self.readings.runs
            if run.capacity is None and (not run.steady or self._is_far(run.rate))
        ]
        long_s = 0.5 * self.seen.clock * FIRST_OVERLOAD_S
        bounded = [run for run in mute if run.lasts_s >= long_s]
        told = [
            run
            for run in self.readings.runs
            if run.capacity is not None and run.lasts_s >= long_s
        ]
        return (
            self.readings.limit_s is not None
            and len(bounded) < MOST_WITHOUT_CAPACITY
            and len(told) < MOST_OVERLOADS_AHEAD + self.near
        )

    def _restart_s(self) -> float:
        beside = [trial.cost_s - trial.lasted_s for trial in self.seen.history]
        return float(np.mean(beside)) if beside else self.goal.restart_s

    def result(self, status: PeakStatus) -> PeakResult:
        """Return the answer as a result: the best one, or the curve's middle where the best
        one is more likely wrong than right.

        An answer that is right in half of the draws is one at which the curve's middle
        keeps the claim too; of another one the curve may say that it is beyond the limit.
        """
        claim, known = self.goal.claim, self.posterior
        found = self.found
        if found.probability < 0.5 and claim.kind is not ClaimKind.SLO:
            found = answer_at(claim, known, known.quantile(0.5))
        return PeakResult(
            status=status,
            detail=f"{claim.text} holds with probability {found.probability:.3f}",
            claim=claim,
            policy=QueueGuided.name,
            peak_rate=rounded_rate(found.rate),
            interval=Estimate(
                found.rate,
                found.low,
                found.high,
                claim.confidence,
                "posterior of a queue's curve",
                len(self.seen.history),
                "1/s",
            ),
            claim_probability=found.probability,
            binding=self.goal.criteria[0].key,
            components=VarianceComponents(
                known.mean(known.noise_s), known.mean(known.between)
            ),
            curve=self._curve(found.rate),
            shape=CurveShape(
                known.mean(known.curve.gap),
                known.mean(known.curve.unloaded),
                known.mean(known.noise_s),
                self.readings.warm_up_s,
            ),
        )

    def _curve(self, answer_rate: float) -> tuple[CurvePoint, ...]:
        """Return the response curve with its band."""
        known, limit = self.posterior, self.goal.criteria[0].limit
        points = []
        for rate in np.linspace(0.2, 1.05, 40) * answer_rate:
            response = known.curve.response(np.array(rate), 0.004) * limit
            low, middle, high = (
                weighted_quantile(response, known.weight, share)
                for share in (0.025, 0.5, 0.975)
            )
            points.append(CurvePoint(float(rate), low, middle, high))
        return tuple(points)
