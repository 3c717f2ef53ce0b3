"""Our policy: guided by a queue's shape, with a stated probability.

Purpose: the peak at the least cost. Climb with short probes; then let the posterior of the
curve choose each load and length; stop when the claim has its probability.
The parts: qgs_reading (what a trial tells), qgs_posterior (what is known), qgs_plan (what to
run next), qgs_claim (the answer). Whether the server is a queue at all is doubted elsewhere
(doubts.py, guided.py). docs/peak.md explains the method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.clock import clock_of, run_length_s
from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.qgs_claim import Answer, answer
from benchwright.control.peak.qgs_plan import choose, shortest_s
from benchwright.control.peak.qgs_posterior import (
    Posterior,
    posterior,
    weighted_quantile,
)
from benchwright.control.peak.qgs_reading import (
    OVERLOAD,
    Readings,
    believed,
    limit_s,
    read,
    share_of_limit,
)
from benchwright.control.peak.stop_rule import probability_wanted
from benchwright.model.estimate import Estimate
from benchwright.model.peak import (
    ClaimKind,
    CurvePoint,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
    Shape,
    VarianceComponents,
    written_rate,
)

MARGIN = 0.015
"""On top of the claim's confidence, at least: the price of looking after every run."""
MARGIN_OF_FEW = 0.12
"""... over the number of runs near the peak: what few runs say of their own noise and of what
differs between runs is little, and a lucky agreement of the first ones ends no search."""
NEAR = (0.6, 1.7)
"""Responses that count as near the peak, as shares of the limit."""
FEWEST_NEAR = 6
"""Independent runs near the peak before a claim: a few show no spread."""
CONFIRM_S = 60.0
"""Of a run that only the number of runs asks for [s]."""
CLIMB_S = 20.0
CLIMB_UNWATCHED_S = 8.0
EARLIEST_S = 5.0
"""A climbing probe is not left before [s]."""
CLEARLY = 3.5
"""Standard errors by which a climbing probe's mean must miss the limit."""
ENOUGH_OVERLOAD_S = 12.0
"""Of a probe that turned out overloaded without being meant to be [s]. Whatever the limit
is: on a busy machine a quick server stalls for seconds, and what is left then tells little."""
EXCURSION_S = 40.0
"""... of a run that was to be steady: from an excursion a queue comes back, and to leave the
high ones early is to measure the low ones [s]."""
TURN_S = 10.0
"""What a trial is counted as costing beside its load, at least: fewer, longer runs [s]."""


OVERLOAD_S = 60.0
"""Of the overloaded run that a claim of the region begins with [s]."""
OVERLOAD_SHARE = 1.2
WIDE = 5.0
"""Bracket, as a ratio of rates, that the climb halves before the curve is asked."""
DESCENT = (2.0, 4.0, 16.0)
"""By how much each next rate is lower while nothing holds."""
BELOW_CAPACITY = 0.7
"""A first descent goes to this share of the capacity, if overload told one."""
MOST_MUTE = 1
"""Overloaded runs that told no capacity, after which no more are asked for."""
MOST_AHEAD = 2
"""More overloaded runs than runs near the peak, at most: what they have in common (a server
that completes less when overloaded, a machine's hour) no number of them tells. On a real
server eight in a row were once made, and the first run near the peak was enough."""
STEEPEST = 30.0


FEWEST_EFFECTIVE = 60.0
"""Draws that a posterior must be worth; one that lost its way begins again with `MANY`."""
MANY = 4096
ROUGH = 512
"""Draws of a first look, which only tells how steep the curve is."""


class QGS:
    """The queue-guided search."""

    name = "qgs"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        state = _State(goal, history)
        climb = state.climb()
        if climb is not None:
            return climb
        if state.kept():
            return state.result(PeakStatus.FOUND)
        return state.probe()

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough."""
        criterion = goal.criteria[0]
        clock = clock_of(limit_s(criterion))
        if so_far.lasted_s < clock * EARLIEST_S or probe.purpose == "overload":
            return False
        column = so_far.series.values.get(criterion.key, ())
        values = share_of_limit(criterion, np.asarray(column, dtype=float))
        values = values[np.isfinite(values)]
        if values.size < 4:
            return False
        half = values[values.size // 2 :]
        overloaded = half.min() > OVERLOAD and half[-1] > half[0]
        enough_s = ENOUGH_OVERLOAD_S
        if probe.purpose != "climb":
            enough_s = max(enough_s, clock * EXCURSION_S)
        if overloaded and so_far.lasted_s >= enough_s:
            return True
        return probe.purpose == "climb" and _clearly_below(values)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        return _State(goal, history).result(PeakStatus.UNDECIDED)


def _clearly_below(values: FloatArray) -> bool:
    rest = values[1:]
    error = float(rest.std(ddof=1)) / math.sqrt(rest.size)
    return bool(rest.mean() + 2 * CLEARLY * error < 0.9)


class _State:
    """What a decision looks at, computed once."""

    def __init__(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> None:
        self.goal = goal
        self.history = history
        self.criterion = goal.criteria[0]
        self.clock = clock_of(limit_s(self.criterion))
        self.readings: Readings = believed(read(self.criterion, history))
        holds = [run.steady and run.value <= 1 for run in self.readings.runs]
        rates = [trial.offered_rate for trial in history]
        self.below = [rate for rate, ok in zip(rates, holds, strict=True) if ok]
        self.above = [rate for rate, ok in zip(rates, holds, strict=True) if not ok]
        self._known: Posterior | None = None
        self._found: Answer | None = None

    def climb(self) -> Probe | None:
        """Return the next probe of the climb, or None when the peak is bracketed."""
        length = self.clock * (CLIMB_S if self.goal.watched else CLIMB_UNWATCHED_S)
        length = self.goal.run_length_s or max(length, self.goal.restart_s)
        rate = self._climbs_to()
        return None if rate is None else Probe(written_rate(rate), length, "climb")

    def _climbs_to(self) -> float | None:
        """Return the climb's next rate [1/s]: doubled while all holds, and down in ever
        longer steps while nothing does; None when the peak is bracketed closely enough."""
        if not self.history:
            return self.goal.start_rate
        if not self.above:
            return 2 * max(self.below)
        if self.below:
            low, high = max(self.below), min(self.above)
            return math.sqrt(low * high) if high > WIDE * low else None
        down = DESCENT[min(len(self.above), len(DESCENT)) - 1]
        told = [r.capacity.rate for r in self.readings.runs if r.capacity is not None]
        if len(self.above) == 1 and told:
            return min(self.above[0] / down, BELOW_CAPACITY * told[0])
        return min(self.above) / down

    @property
    def known(self) -> Posterior:
        """What is known of the curve."""
        if self._known is None:
            start = self._start()
            shape = self.goal.shape
            first = posterior(self.readings, start, shape, draws=ROUGH)
            slope = (1 - first.mean(first.curve.unloaded)) * (
                first.mean(first.curve.exponent) + 1 / first.mean(first.curve.gap)
            )
            slope = min(slope, STEEPEST)
            self.readings = believed(read(self.criterion, self.history, slope))
            known = posterior(self.readings, start, shape, begin=first)
            if known.effective < FEWEST_EFFECTIVE:
                known = posterior(self.readings, start, shape, draws=MANY)
            self._known = known
        return self._known

    def _start(self) -> tuple[float, float]:
        """Return a low and a high guess of the peak [1/s]."""
        low = max(self.below, default=min(self.above, default=1.0) / 4)
        high = min(self.above, default=4 * low)
        return min(low, high), max(low, high)

    @property
    def found(self) -> Answer:
        """The best answer."""
        if self._found is None:
            self._found = answer(self.goal.claim, self.known)
        return self._found

    def near(self) -> int:
        """Return how many runs are near the peak."""
        low, high = NEAR
        return sum(r.steady and low < r.value < high for r in self.readings.runs)

    def kept(self) -> bool:
        """Tell whether the claim has its probability."""
        claim = self.goal.claim
        enough = FEWEST_NEAR if claim.kind is ClaimKind.REGION else 1
        if self.near() < enough or self.known.effective < FEWEST_EFFECTIVE:
            return False
        return self.found.probability >= self.wanted()

    def wanted(self) -> float:
        """Return the probability at which the search may stop."""
        claim = self.goal.claim
        if claim.kind is ClaimKind.SLO:
            return claim.confidence
        return probability_wanted(claim, MARGIN, MARGIN_OF_FEW, self.near())

    def first_overload(self) -> Probe | None:
        """Return the overloaded run that a narrow claim begins with, if it is missing.

        It tells the capacity, and no other run shows a warm-up as plainly.
        """
        enough_s = 40 * self.clock
        long = [r for r in self.readings.runs if not r.steady and r.lasts_s >= enough_s]
        if self.goal.claim.kind is not ClaimKind.REGION or long:
            return None
        if not self._overload_tells():
            return None
        curve = self.known.curve
        capacity = self.known.mean(np.log(curve.capacity))
        rate = OVERLOAD_SHARE * math.exp(capacity)
        length = run_length_s(self.goal, OVERLOAD_S)
        return Probe(written_rate(rate), length, "overload")

    def _is_far(self, rate: float) -> bool:
        return rate > OVERLOAD_SHARE * max(self.below, default=math.inf)

    def probe(self) -> Probe:
        """Return the probe that pays most."""
        overload = self.first_overload()
        if overload is not None:
            return overload
        overhead = self.clock * TURN_S + self.readings.warm_up_s + self._restart_s()
        chosen = choose(
            self.goal.claim,
            self.known,
            self.found,
            overhead,
            overload=self._overload_tells(),
            clock=self.clock,
        )
        rate, length, purpose = chosen.rate, chosen.lasts_s, chosen.purpose
        if self.found.probability >= self.wanted():
            length = self.clock * min(shortest_s(self.goal.claim), CONFIRM_S)
            rate, purpose = self.found.rate, "focus"
        length = math.ceil(length + self.readings.warm_up_s)
        return Probe(written_rate(rate), self.goal.run_length_s or length, purpose)

    def _overload_tells(self) -> bool:
        """Tell whether overload is worth running: not where it told nothing before, or
        where the response stays bounded however high the rate."""
        mute = [
            run
            for run in self.readings.runs
            if run.capacity is None and (not run.steady or self._is_far(run.rate))
        ]
        long_s = 0.5 * self.clock * OVERLOAD_S
        bounded = [run for run in mute if run.lasts_s >= long_s]
        told = [
            run
            for run in self.readings.runs
            if run.capacity is not None and run.lasts_s >= long_s
        ]
        return (
            self.readings.limit_s is not None
            and len(bounded) < MOST_MUTE
            and len(told) < MOST_AHEAD + self.near()
        )

    def _restart_s(self) -> float:
        beside = [trial.cost_s - trial.lasted_s for trial in self.history]
        return float(np.mean(beside)) if beside else self.goal.restart_s

    def result(self, status: PeakStatus) -> PeakResult:
        """Return the answer as a result."""
        if not self.below and not self.above:
            return PeakResult(
                status=status,
                detail="no trial told anything",
                claim=self.goal.claim,
                policy=QGS.name,
            )
        found, known, claim = self.found, self.known, self.goal.claim
        detail = f"{claim.text} holds with probability {found.probability:.3f}"
        return PeakResult(
            status=status,
            detail=detail,
            claim=claim,
            policy=QGS.name,
            peak_rate=written_rate(found.rate),
            interval=Estimate(
                found.rate,
                found.low,
                found.high,
                claim.confidence,
                "posterior of a queue's curve",
                len(self.history),
                "1/s",
            ),
            claim_probability=found.probability,
            binding=self.criterion.key,
            components=VarianceComponents(
                known.mean(known.noise_s), known.mean(known.between)
            ),
            curve=self._curve(),
            shape=Shape(
                known.mean(known.curve.gap),
                known.mean(known.curve.unloaded),
                known.mean(known.noise_s),
                self.readings.warm_up_s,
            ),
        )

    def _curve(self) -> tuple[CurvePoint, ...]:
        """Return the response curve with its band."""
        known = self.known
        rates = np.linspace(0.2, 1.05, 40) * self.found.rate
        points = []
        for rate in rates:
            response = (
                known.curve.response(np.array(rate), 0.004) * self.criterion.limit
            )
            low, middle, high = (
                weighted_quantile(response, known.weight, share)
                for share in (0.025, 0.5, 0.975)
            )
            points.append(CurvePoint(float(rate), low, middle, high))
        return tuple(points)
