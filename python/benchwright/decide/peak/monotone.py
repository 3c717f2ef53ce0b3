"""The search that assumes only that the response grows with the rate; it finds jumps of the response too."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.core.results import Estimate
from benchwright.core.search import (
    ClaimKind,
    CurvePoint,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
    VarianceComponents,
    rounded_rate,
)
from benchwright.decide.peak.monotone_posterior import (
    IDLE_SHARE,
    STEEPNESS_GRID,
    MonotonePosterior,
    MonotoneRun,
    load_estimates,
    monotone_posterior,
    worst_load,
)
from benchwright.decide.peak.policy import probability_wanted
from benchwright.decide.peak.trials import counted_rate, lowest_failed
from benchwright.findings.codes import make_finding

# --------------------------------------------------------------------------------------
# Whether the response crosses the region of a claim in a jump, between two rates.
#
# Purpose: a step (a cache that no longer holds, a pool, a server that refuses) has no rate with a
# response near the limit, and a parabola through the runs on one side of it claims one.
# Decision: a claim of the region needs a run that saw a response in it. While there is none, runs
# are aimed into the middle of what is not known; where what is left is narrow and the runs
# on either side keep apart far beyond their scatter, that is the answer: a jump.
# Decision: rates are the intended ones; where a server jumps at a realised rate, the chance in
# arrivals mixes the sides, and what is left is as wide as that chance.

JUMP_NARROW = 0.01
"""So near, relatively, are rates between which a jump is sure."""
JUMP_FEWEST = 3
"""Runs on either side of a jump."""
JUMP_APART = 4.0
"""Standard deviations of a run that lie between the sides, beyond what the steepest curve
that is believed (`STEEPNESS`) has there."""
JUMP_LONG = 0.5
"""Share of the longest run's seconds from which on a run saw what it saw."""
JUMP_ENOUGH_S = 40.0
"""... and so many seconds are long enough [s]."""
JUMP_MIXED = 4.0
"""Standard deviations of a run's number of arrivals over which sides may mix."""
JUMP_BESIDE = 0.05
"""Runs so near the jump, relatively, tell how far apart its sides are."""


class IntendedRun(msgspec.Struct, frozen=True):
    """A run beside the rate that was asked for."""

    rate: float
    """Intended [1/s]."""
    run: MonotoneRun


class RegionCrossing(msgspec.Struct, frozen=True):
    """What lies between the runs below a region and those above it."""

    low: float
    high: float
    """The highest rate that was below and the lowest that was above or failed, or, where
    they are mixed, these two the other way round [1/s]."""
    below: tuple[IntendedRun, ...]
    above: tuple[IntendedRun, ...]

    @property
    def middle(self) -> float:
        """The rate between them [1/s]."""
        return math.sqrt(self.low * self.high)

    @property
    def is_mixed(self) -> bool:
        """Tell whether a lower rate was above, and a higher one below."""
        return self.low not in {asked.rate for asked in self.below}

    def is_jump(self, noise_s: float) -> bool:
        """Tell whether the sides are close in rate and far apart in response.

        noise_s: relative variance of a run's mean at the limit, times its length [s].
        """
        if self.high > self.low * (1 + self._narrow()):
            return False
        below = [a.run for a in self.below if a.rate > self.low * (1 - JUMP_BESIDE)]
        near = [a.run for a in self.above if a.rate < self.high * (1 + JUMP_BESIDE)]
        above = [run for run in near if math.isfinite(run.value)]
        if any(math.isinf(a.run.value) for a in self.above if a.rate == self.high):
            return True
        if min(len(below), len(above)) < JUMP_FEWEST:
            return False
        left = float(min(r.value for r in above) / max(r.value for r in below))
        steep = (
            0.0
            if self.is_mixed
            else STEEPNESS_GRID[-1] * math.log(self.high / self.low)
        )
        return math.log(left) - steep > JUMP_APART * _deviation((below, above), noise_s)

    def _narrow(self) -> float:
        """Return how far apart the ends may be, relatively: further where sides mix."""
        if not self.is_mixed:
            return JUMP_NARROW
        lasts_s = max(asked.run.lasts_s for asked in self.above)
        return JUMP_NARROW + JUMP_MIXED / math.sqrt(self.low * lasts_s)


def _deviation(sides: Sequence[Sequence[MonotoneRun]], noise_s: float) -> float:
    """Return the standard deviation of a run's logarithm: its noise's or its side's."""
    scatter = [float(np.std(np.log([r.value for r in s]), ddof=1)) for s in sides]
    lasts_s = min(run.lasts_s for side in sides for run in side)
    return max(*scatter, math.sqrt(noise_s / lasts_s))


def region_crossing(
    every: Sequence[IntendedRun], tolerance: float
) -> RegionCrossing | None:
    """Return where the response passes a region of this half-width without a run in it;
    None: a run saw it there, or one side is missing."""
    longest_s = max((a.run.lasts_s for a in every if a.run.near), default=0.0)
    long_s = min(JUMP_LONG * longest_s, JUMP_ENOUGH_S)
    sure = [a for a in every if not a.run.near or a.run.lasts_s >= long_s]
    below = tuple(a for a in sure if a.run.value < 1 - tolerance)
    above = tuple(a for a in sure if a.run.value > 1 + tolerance)
    if len(below) + len(above) < len(sure) or not below or not above:
        return None
    ends = max(a.rate for a in below), min(a.rate for a in above)
    return RegionCrossing(min(ends), max(ends), below, above)


# --------------------------------------------------------------------------------------
# A search that assumes only that the response grows with the rate, smoothly near the
# limit.
#
# Purpose: what our search falls back to where the curve is no queue's, and a policy of its own
# (`monotone`). Runs whose response is near the limit are taken to lie on a parabola in
# logarithms (monotone_near.py); any other run only says on which side of it the peak is.
# Decision: no curve beyond that, so a kink or a plateau elsewhere does not matter; the price
# is runs near the limit. Judging each load alone lost: three times the cost for the same
# coverage. A sign-only bisection lost: short runs' means are skewed, so it is biased.
# Source: R. Waeber et al. 2013, SIAM J. Control Optim. 51(3); Workbench paper, section 4.

MONOTONE_PURPOSES = ("double", "halve", "bisect", "hold")
"""What its probes are for: other words than those of other policies, by which a probe
tells whose it is."""
MONOTONE_METHOD = "response that grows, a parabola near the limit"
MONOTONE_LOOK_MARGIN = 0.015
"""On top of the claim's confidence: the price of looking after every run."""
MONOTONE_FEW_RUNS_MARGIN = 0.3
"""... over the number of runs near the limit, at most half of what is missing to 1: few
runs say little of what differs between runs, and a lucky agreement should end nothing."""
MONOTONE_FEWEST_NEAR = 3
"""Near the limit, so that what differs between runs is seen."""
MONOTONE_CLIMB_S = 20.0
MONOTONE_RUNS_S = (60.0, 180.0)
"""Of a run near the limit: the shortest and the longest."""
MONOTONE_RELAXATIONS = 40.0
"""A run near the limit lasts so many times its noise's time."""
MONOTONE_WIDE = 0.25
"""Logarithmic width of the peak's distribution below which runs are held."""
MONOTONE_AWAY = 2.0
"""A probe whose value is so many times the limit, or less than its share, may be left."""
MONOTONE_EARLIEST_S = 5.0
MONOTONE_LOOKS_S = 5
"""After ten seconds a probe is looked at that often [s]."""
MONOTONE_LEAVE_Z = 7.0
MONOTONE_STEP = 0.1
"""How far from the limit runs on either side of the answer are aimed [share]."""


class Monotone:
    """The fallback search."""

    name = "monotone"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        known = _MonotoneState(goal, history)
        if known.found() >= known.wanted():
            return known.result(PeakStatus.FOUND)
        return known.jump() or known.probe()

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe is clearly on one side, away from the limit."""
        age_s = so_far.lasted_s
        if age_s < MONOTONE_EARLIEST_S or (
            age_s > 2 * MONOTONE_LOOKS_S and int(age_s) % MONOTONE_LOOKS_S
        ):
            return False
        here = worst_load(goal, [so_far])
        if probe.purpose == "hold" and here.value < 1:
            # Errors come in bursts: none so far is no evidence that there will be few.
            return False
        if here.freedom <= 1:
            return math.isinf(here.value)
        past = abs(math.log(max(here.value, IDLE_SHARE)))
        return past - math.log(MONOTONE_AWAY) > MONOTONE_LEAVE_Z * here.error

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        return _MonotoneState(goal, history).result(PeakStatus.UNDECIDED)


class _MonotoneState:
    """What a history says."""

    def __init__(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> None:
        self.goal = goal
        self.claim = goal.claim
        self.history = history
        self.near: MonotonePosterior | None = (
            monotone_posterior(goal, history) if history else None
        )
        self.failed = lowest_failed(history)

    # The next probe -----------------------------------------------------------------

    def probe(self) -> Probe:
        """Return the next probe."""
        if self.near is None:
            return Probe(self.goal.start_rate, self._length(MONOTONE_CLIMB_S), "double")
        low, high = self.near.bracket
        if high is None:
            assert low is not None
            return Probe(2 * low, self._length(MONOTONE_CLIMB_S), "double")
        if low is None:
            return Probe(high / 2, self._length(MONOTONE_CLIMB_S), "halve")
        spread = math.log(self.near.quantile(0.9) / self.near.quantile(0.1))
        if not self.near.runs_near or spread > MONOTONE_WIDE:
            middle = self._working(self.near.quantile(0.5))
            return Probe(middle, self._length(MONOTONE_CLIMB_S), "bisect")
        length = min(
            max(MONOTONE_RELAXATIONS * self.near.noise_s, MONOTONE_RUNS_S[0]),
            MONOTONE_RUNS_S[1],
        )
        gap = self.crossing
        blind = gap is not None and not gap.is_mixed
        enough = self.near.runs_near >= MONOTONE_FEWEST_NEAR
        rate = self._working(gap.middle) if gap and blind and enough else self._flank()
        return Probe(rate, self._length(math.ceil(length)), "hold")

    def _length(self, usual_s: float) -> float:
        return self.goal.run_length_s or usual_s

    def _flank(self) -> float:
        """Return a load on the thinner side of the answer: both sides fix the curve."""
        assert self.near is not None
        answer = self._rate()
        lower, upper = self.near.seconds_beside(answer)
        step = (
            min(self.claim.tolerance, MONOTONE_STEP) / max(self.near.steepness, 1.0) / 2
        )
        rate = answer * (1 + step if lower > upper else 1 - step)
        return self._working(self._between_the_sure(rate))

    def _between_the_sure(self, rate: float) -> float:
        """Return a rate of which it is open whether it holds: where a run was far from the
        limit another one there would say nothing new.

        Unless the other runs contradict it, by an answer on its far side: then it is run
        again. Runs beside it lost: a start from cold was far beyond the limit once, and
        122 runs at one and the same rate below it said nothing of the steepness.
        """
        assert self.near is not None
        sure = [
            run for run in self.near.runs if not run.near and not self._refuted(run)
        ]
        below = [run.rate for run in sure if run.holds > 0.9]
        above = [run.rate for run in sure if run.holds < 0.1]
        close = [run.rate for run in self.near.close]
        ceiling, floor = min(above, default=math.inf), max(below, default=0.0)
        answer = self._rate()
        if floor < ceiling < answer:
            return ceiling
        if answer < floor < ceiling:
            return floor
        if rate > ceiling * (1 - JUMP_NARROW / 2):
            known = [one for one in (*close, *below) if one < ceiling]
            return math.sqrt(max(known, default=rate / 2) * ceiling)
        if rate < floor * (1 + JUMP_NARROW / 2):
            known = [one for one in (*close, *above) if one > floor]
            return math.sqrt(min(known, default=rate * 2) * floor)
        return rate

    def _refuted(self, far: MonotoneRun) -> bool:
        """Tell whether runs near the limit at the rate of one far from it lasted longer."""
        assert self.near is not None
        beside = [r for r in self.near.runs if abs(r.rate / far.rate - 1) < JUMP_NARROW]
        near_s = math.fsum(run.lasts_s for run in beside if run.near)
        return near_s > math.fsum(run.lasts_s for run in beside if not run.near)

    def _working(self, rate: float) -> float:
        """Return the rate to ask for: none that failed, nor one as good as that."""
        assert self.near is not None
        ceiling = self.failed * (1 - JUMP_NARROW / 2)
        if rate <= ceiling:
            return rounded_rate(rate)
        low = max((r.rate for r in self._long() if r.rate < ceiling), default=ceiling)
        return rounded_rate(min(math.sqrt(low * self.failed), ceiling))

    # The answer ---------------------------------------------------------------------

    def wanted(self) -> float:
        """Return the probability at which the search may stop."""
        runs_near = 0 if self.near is None else self.near.runs_near
        return probability_wanted(
            self.claim, MONOTONE_LOOK_MARGIN, MONOTONE_FEW_RUNS_MARGIN, runs_near
        )

    def found(self) -> float:
        """Return the probability that the claim holds at the answer; 0: no claim yet."""
        if self.near is None or None in self.near.bracket:
            return 0.0
        if self.claim.kind is ClaimKind.REGION and (
            self.near.runs_near < MONOTONE_FEWEST_NEAR or self.crossing is not None
        ):
            return 0.0
        return self.near.held(self.claim, self._rate())

    @functools.cached_property
    def crossing(self) -> RegionCrossing | None:
        """Between which rates the response passes the claim's region unseen, if it does."""
        if self.near is None or self.claim.kind is not ClaimKind.REGION:
            return None
        pairs = zip(self.history, self.near.runs, strict=True)
        every = [IntendedRun(counted_rate(trial), run) for trial, run in pairs]
        return region_crossing(every, self.claim.tolerance)

    def _long(self) -> list[MonotoneRun]:
        """Return the runs near the limit that are no short ones of a climb."""
        close = [] if self.near is None else self.near.close
        longest_s = max((run.lasts_s for run in close), default=0.0)
        return [run for run in close if run.lasts_s >= longest_s / 2]

    def jump(self) -> PeakResult | None:
        """Return the end of a search for a region that is not there, once that is sure:
        between a rate that works and one that is too much."""
        gap = self.crossing
        if gap is None or self.near is None or not gap.is_jump(self.near.noise_s):
            return None
        result = self.result(PeakStatus.UNDECIDED)
        between = Estimate(
            gap.low,
            gap.low,
            gap.high,
            self.claim.confidence,
            "between a rate that works and one that is too much",
            len(self.history),
            "1/s",
        )
        evidence = self._across(gap)
        return msgspec.structs.replace(
            result,
            detail=f"no rate has a response near the limit: {evidence}; a claim of the "
            "rate, such as rate:5%, can hold here",
            peak_rate=rounded_rate(gap.low),
            interval=between,
            findings=(make_finding("response-jumps", "search", evidence),),
        )

    def _across(self, gap: RegionCrossing) -> str:
        """Return what is known on both sides of a jump."""
        low = max(gap.below, key=lambda asked: asked.rate)
        high = min(gap.above, key=lambda asked: asked.rate)
        beyond = f"it is {100 * high.run.value:.0f} % of it"
        if self.failed <= high.rate:
            beyond = "the server or the generator fails"
        elif math.isinf(high.run.value):
            beyond = "the server is overloaded"
        return (
            f"at {low.rate:.5g}/s it is {100 * low.run.value:.0f} % of the limit, and at "
            f"{high.rate:.5g}/s {beyond}"
        )

    def _rate(self) -> float:
        assert self.near is not None
        slo = self.claim.kind is ClaimKind.SLO
        # Half a margin beyond: a quantile of a grid is not exact, and the claim would
        # hang on its last digit.
        margin = 1.5 * (self.wanted() - self.claim.confidence)
        share = 1 - self.claim.confidence - margin if slo else 0.5
        # The parabola knows nothing of a server that refuses.
        return min(self.near.quantile(share), self.failed * (1 - JUMP_NARROW / 2))

    def result(self, status: PeakStatus) -> PeakResult:
        """Return the answer as a result."""
        if self.near is None:
            return PeakResult(
                status=status,
                detail="no usable trial",
                claim=self.claim,
                policy=Monotone.name,
            )
        rate, held = rounded_rate(self._rate()), self.found()
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
                low=min(self.near.quantile(tail), rate),
                high=max(min(self.near.quantile(1 - tail), self.failed), rate),
                confidence=self.claim.confidence,
                method=MONOTONE_METHOD,
                n=len(self.history),
                unit="1/s",
            ),
            claim_probability=held,
            binding=self.near.binding(rate),
            components=VarianceComponents(self.near.noise_s, None),
            curve=self._curve(),
        )

    def _curve(self) -> tuple[CurvePoint, ...]:
        """Return the loads themselves, with two standard errors."""
        limits = {c.key: c for c in self.goal.criteria}
        points = []
        for load in load_estimates(self.goal, self.history):
            limit = limits[load.key]
            if math.isinf(load.value) or limit.better == "higher":
                continue
            ends = (load.value * math.exp(s * load.error) for s in (-2.0, 0.0, 2.0))
            points.append(
                CurvePoint(load.rate, *(limit.limit * value for value in ends))
            )
        return tuple(points)
