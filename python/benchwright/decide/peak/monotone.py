"""The monotone search: it assumes only that the response grows with the rate, smoothly near the limit.

Purpose: the fallback of `qgs` where the curve is not a queue's, and a policy of its own
(`monotone`). Runs whose response is near the limit are modelled by a parabola in logarithms
(monotone_posterior.py); any other run only shows on which side of it the peak is.
Decision: there is no model away from the limit, so a kink or a plateau there does not matter; the
price is more runs near the limit. Rejected: judging each load alone, three times the cost for the
same coverage; a bisection by sign only, biased because the means of short runs are skewed.
Source: R. Waeber et al. 2013, SIAM J. Control Optim. 51(3); Workbench paper, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.core.search import (
    ClaimKind,
    ClaimResult,
    Criterion,
    CurvePoint,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
    VarianceComponents,
    rounded_rate,
)
from benchwright.core.text import percent_text
from benchwright.decide.peak import tuning
from benchwright.decide.peak.monotone_posterior import (
    STEEPNESS_GRID,
    MonotoneRun,
    growing_levels,
    loads_by_criterion,
    monotone_posterior,
    worst_load,
)
from benchwright.decide.peak.pauses import pause_period_s
from benchwright.decide.peak.policy import no_trial_result, probability_wanted
from benchwright.decide.peak.reading import LongRuns, long_runs, read_runs
from benchwright.decide.peak.trials import SEARCH_SUBJECT, counted_rate, lowest_failed
from benchwright.findings.codes import make_finding

MONOTONE_PURPOSES = ("double", "halve", "bisect", "hold")
"""Purposes of its probes; no other policy uses them, so they identify its probes."""
MONOTONE_METHOD = "response that grows, a parabola near the limit"


class Monotone:
    """The monotone search."""

    name = "monotone"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        seen = long_runs(goal, history)
        if not seen.trials:
            length_s = max(tuning.MONOTONE_CLIMB_S, seen.least_s)
            return Probe(goal.start_rate, goal.run_length_s or length_s, "double")
        state = _MonotoneState(goal, seen)
        if state.probability() >= state.wanted:
            return state.result(PeakStatus.FOUND)
        return state.jump() or state.probe()

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer now."""
        if not history:
            return no_trial_result(goal, self.name)
        seen = long_runs(goal, history)
        if not seen.trials:
            seen = LongRuns(tuple(history))
        return _MonotoneState(goal, seen).result(PeakStatus.UNDECIDED)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Return whether a running probe is clearly on one side of the limit and far from it."""
        age_s, looks_s = so_far.lasted_s, tuning.MONOTONE_LOOKS_S
        # Part of a period shows no pause, or too much of one.
        period_s = pause_period_s(goal.criteria[0], history)
        period_s = min(period_s, tuning.MONOTONE_RUNS_S[1])
        least_s = max(long_runs(goal, history).least_s, period_s)
        if age_s < max(tuning.MONOTONE_EARLIEST_S, least_s):
            return False
        if age_s > 2 * looks_s and int(age_s) % looks_s:
            return False
        here = worst_load(goal, [so_far])
        if probe.purpose == "hold" and here.value < 1:
            # Errors come in bursts: no errors so far do not show that there will be few.
            return False
        if here.freedom <= 1:
            return math.isinf(here.value)
        past = abs(math.log(max(here.value, tuning.IDLE_SHARE)))
        beyond = past - math.log(tuning.MONOTONE_AWAY)
        return beyond > tuning.MONOTONE_LEAVE_Z * here.error


class _MonotoneState:
    """The state of the search after at least one trial; immutable."""

    def __init__(self, goal: PeakGoal, seen: LongRuns) -> None:
        history = seen.trials
        self.goal, self.claim, self.history = goal, goal.claim, history
        self.least_s = seen.least_s
        """Least length of the next run [s]."""
        self.period_s = pause_period_s(goal.criteria[0], history)
        """From one pause of the server to the next; 0: it has none [s]."""
        self.known = monotone_posterior(goal, history)
        self.failed = lowest_failed(history)
        self.ceiling = self.failed * (1 - tuning.JUMP_NARROW / 2)
        """Highest rate to probe: just below the lowest rate that failed [1/s]."""
        self.crossing: RegionCrossing | None = None
        """The rates between which the response crosses the claim's region without a run in it."""
        if self.claim.kind is ClaimKind.REGION:
            pairs = zip(history, self.known.runs, strict=True)
            runs = [IntendedRun(counted_rate(trial), run) for trial, run in pairs]
            self.crossing = region_crossing(runs, self.claim.tolerance)
        self.wanted = probability_wanted(
            self.claim,
            tuning.MONOTONE_LOOK_MARGIN,
            tuning.MONOTONE_FEW_RUNS_MARGIN,
            self.known.runs_near,
        )
        """Probability of the claim at which the search may stop."""

    # The answer ---------------------------------------------------------------------

    def rate(self) -> float:
        """Return the answer [1/s]."""
        share = 0.5
        if self.claim.kind is ClaimKind.SLO:
            # Half a margin more: a quantile of a grid is not exact, and the claim would
            # depend on its last digit.
            share = 1 - self.claim.confidence
            share -= 1.5 * (self.wanted - self.claim.confidence)
        # The parabola does not model a server that refuses.
        return min(self.known.quantile(share), self.ceiling)

    def probability(self) -> float:
        """Return the probability that the claim holds at the answer; 0: no claim yet."""
        if None in self.known.bracket:
            return 0.0
        few = self.known.runs_near < tuning.MONOTONE_FEWEST_NEAR
        if self.claim.kind is ClaimKind.REGION and (few or self.crossing is not None):
            return 0.0
        return self.known.probability(self.claim, self.rate())

    def result(self, status: PeakStatus) -> ClaimResult:
        """Return the answer as a result."""
        rate, probability = rounded_rate(self.rate()), self.probability()
        binding = self.known.binding(rate)
        tail = (1 - self.claim.confidence) / 2
        return ClaimResult(
            status=status,
            detail=f"{self.claim.text} holds with probability {probability:.3f}, assuming "
            "only that the response grows with the rate",
            claim=self.claim,
            policy=Monotone.name,
            peak_rate=rate,
            interval=Estimate(
                value=rate,
                low=min(self.known.quantile(tail), rate),
                high=max(min(self.known.quantile(1 - tail), self.failed), rate),
                confidence=self.claim.confidence,
                method=MONOTONE_METHOD,
                n=len(self.history),
                unit="1/s",
            ),
            claim_probability=probability,
            stop_probability=self.wanted,
            binding=binding,
            components=VarianceComponents(self.known.noise_s, None),
            curve=self._curve(binding),
        )

    def _curve(self, key: str, *, fitted: bool = True) -> tuple[CurvePoint, ...]:
        """Return the response of the binding criterion by rate, each point with a band of 95 %.

        Between the runs near the limit it is the fitted parabola, the same distribution as the
        answer's, so that its median is within the limit below a median of the peak. Elsewhere,
        and everywhere if not `fitted`, it is the means of the tested loads, as they grow with
        the rate. Rejected: only means, which contradicted 15 % of the answers (docs/peak-method.md);
        each load's worst criterion, because a curve has one unit.
        """
        criterion = next((c for c in self.goal.criteria if c.key == key), None)
        if criterion is None or criterion.better == "higher":
            return ()
        known = self.known
        span = [run.rate for run in known.close] if fitted else []
        points: list[CurvePoint] = []
        if span:
            # Up to the answer, because a run far from the limit below it is refuted by others.
            span.append(self.rate())
            rates = np.geomspace(min(span), max(span), tuning.CURVE_POINTS)
            points = [
                _curve_point(criterion, float(rate), *known.levels(float(rate)))
                for rate in rates
            ]
        away = [
            trial
            for trial, run in zip(self.history, known.runs, strict=True)
            if not (fitted and run.near)
        ]
        loads = [
            load
            for load in loads_by_criterion(criterion, away)
            if math.isfinite(load.value)
            and not (span and min(span) <= load.rate <= max(span))
        ]
        points += [
            _curve_point(criterion, rate, level - 2 * error, level, level + 2 * error)
            for rate, level, error in growing_levels(loads)
        ]
        return tuple(sorted(points, key=lambda point: point.rate))

    def jump(self) -> ClaimResult | None:
        """Return the result of a search for a region that does not exist, once it is certain that
        the response jumps between a rate that works and one that is too high; else None."""
        gap = self.crossing
        if gap is None or not gap.is_jump(self.known.noise_s):
            return None
        key = self.known.binding(gap.low)
        curve = self._curve(key, fitted=False)
        limits = [one.limit for one in self.goal.criteria if one.key == key]
        if any(p.rate < gap.low and p.middle > max(limits) for p in curve):
            return None  # The limit was exceeded at a lower rate too.
        evidence = self._across(gap)
        return msgspec.structs.replace(
            self.result(PeakStatus.UNDECIDED),
            curve=curve,
            detail=f"no rate has a response near the limit: {evidence}; a claim of the "
            "rate, such as rate:5%, can hold here",
            peak_rate=rounded_rate(gap.low),
            interval=Estimate(
                value=gap.low,
                low=gap.low,
                high=gap.high,
                confidence=self.claim.confidence,
                method="between a rate that works and one that is too much",
                n=len(self.history),
                unit="1/s",
            ),
            findings=(make_finding("response-jumps", SEARCH_SUBJECT, evidence),),
        )

    def _across(self, gap: RegionCrossing) -> str:
        """Return the responses on both sides of a jump as text."""
        low = max(gap.below, key=lambda side: side.rate)
        high = min(gap.above, key=lambda side: side.rate)
        beyond = f"it is {percent_text(high.run.value)} of it"
        if self.failed <= high.rate:
            beyond = "the server or the generator fails"
        elif math.isinf(high.run.value):
            beyond = "the server is overloaded"
        return (
            f"at {low.rate:.5g}/s it is {percent_text(low.run.value)} of the limit, and at "
            f"{high.rate:.5g}/s {beyond}"
        )

    # The next probe -----------------------------------------------------------------

    def probe(self) -> Probe:
        """Return the next probe."""
        known = self.known
        climb_s = self.goal.run_length_s or self._length_s(tuning.MONOTONE_CLIMB_S, 1)
        low, high = known.bracket
        if high is None:
            assert low is not None
            return Probe(2 * low, climb_s, "double")
        if low is None:
            return Probe(high / 2, climb_s, "halve")
        spread = math.log(known.quantile(0.9) / known.quantile(0.1))
        if not known.runs_near or spread > tuning.MONOTONE_WIDE:
            return Probe(self._working(known.quantile(0.5)), climb_s, "bisect")
        shortest_s, longest_s = tuning.MONOTONE_RUNS_S
        relaxed_s = tuning.MONOTONE_RELAXATIONS * known.noise_s
        length_s = self._length_s(min(max(relaxed_s, shortest_s), longest_s), 2)
        return Probe(self._hold_rate(), self.goal.run_length_s or length_s, "hold")

    def _length_s(self, usual_s: float, fewest: int) -> float:
        """Return the length of a run [s]: of whole periods after its warm-up where the server pauses, at
        least `fewest`; else the usual one, unless shorter runs contradict each other."""
        counted = 1 - tuning.WARM_UP_SHARE
        if not 0 < self.period_s * fewest < counted * tuning.MONOTONE_RUNS_S[1]:
            return math.ceil(max(usual_s, self.least_s))
        periods = max(math.ceil(counted * usual_s / self.period_s), fewest)
        whole_s = periods * self.period_s
        warm_up_s = read_runs(self.goal.criteria[0], self.history).warm_up_s
        return math.ceil(max(whole_s / counted, whole_s + warm_up_s)) + 1

    def _hold_rate(self) -> float:
        """Return the rate of a run near the limit: the middle of a crossing without a run in it,
        else on the side of the answer with fewer seconds of runs, since the curve needs
        both sides."""
        known, gap = self.known, self.crossing
        enough = known.runs_near >= tuning.MONOTONE_FEWEST_NEAR
        if gap is not None and not gap.is_mixed and enough:
            return self._working(gap.middle)
        answer = self.rate()
        lower, upper = known.seconds_beside(answer)
        step = tuning.MONOTONE_RATE_STEP
        if self.claim.kind is not ClaimKind.RATE:
            step = min(self.claim.tolerance, tuning.MONOTONE_STEP)
        step = step / max(known.steepness, 1.0) / 2
        rate = answer * (1 + step if lower > upper else 1 - step)
        return self._working(self._between_the_certain(rate))

    def _between_the_certain(self, rate: float) -> float:
        """Return a rate for which it is unknown whether the limit holds. Another run at a rate
        whose run was far from the limit would show nothing new.

        Exception: if the answer lies beyond such a rate, the other runs contradict its run,
        and the rate is run again. Rejected: runs beside that rate. After one cold start far
        beyond the limit, 122 runs at one rate below it showed nothing about the steepness.
        """
        far = [r for r in self.known.runs if not r.near and not self._refuted(r)]
        below = [run.rate for run in far if run.holds > 0.9]
        above = [run.rate for run in far if run.holds < 0.1]
        close = [run.rate for run in self.known.close]
        ceiling, floor = min(above, default=math.inf), max(below, default=0.0)
        answer = self.rate()
        if floor < ceiling < answer:
            return ceiling
        if answer < floor < ceiling:
            return floor
        if rate > ceiling * (1 - tuning.JUMP_NARROW / 2):
            lower = [other for other in (*close, *below) if other < ceiling]
            return math.sqrt(max(lower, default=rate / 2) * ceiling)
        if rate < floor * (1 + tuning.JUMP_NARROW / 2):
            higher = [other for other in (*close, *above) if other > floor]
            return math.sqrt(min(higher, default=rate * 2) * floor)
        return rate

    def _refuted(self, far: MonotoneRun) -> bool:
        """Return whether, at the rate of a run far from the limit, runs near it or far on its other side
        lasted longer in total."""
        narrow = tuning.JUMP_NARROW
        beside = [r for r in self.known.runs if abs(r.rate / far.rate - 1) < narrow]
        same_s = math.fsum(
            run.lasts_s
            for run in beside
            if not run.near and (run.holds > 0.5) == (far.holds > 0.5)
        )
        return math.fsum(run.lasts_s for run in beside) - same_s > same_s

    def _working(self, rate: float) -> float:
        """Return the rate to probe: below every rate that failed, by at least a margin."""
        if rate <= self.ceiling:
            return rounded_rate(rate)
        close = self.known.close
        longest_s = max((run.lasts_s for run in close), default=0.0)
        # Runs of a climb are short and do not count here.
        long = (run.rate for run in close if run.lasts_s >= longest_s / 2)
        low = max((r for r in long if r < self.ceiling), default=self.ceiling)
        return rounded_rate(min(math.sqrt(low * self.failed), self.ceiling))


def _curve_point(criterion: Criterion, rate: float, *levels: float) -> CurvePoint:
    """Return a point of the curve from the logarithms of three shares of the limit."""
    low, middle, high = (criterion.limit * math.exp(level) for level in levels)
    return CurvePoint(rate, low, middle, high)


# -- a jump of the response across the region of a claim ------------------------------------------
#
# At a step (a cache that is too small, a pool, a server that refuses) no rate has a response
# near the limit, but a parabola through the runs on one side predicts one.
# Decision: a claim of the region needs a run with a response in it. While there is none, runs
# are made in the middle of the unknown interval of rates. If the interval is narrow and the
# responses on its sides differ far more than they vary, the answer is a jump.
# Decision: the rates here are the intended ones. Where a server jumps at a realised rate, the random
# number of arrivals mixes the sides, and the interval is as wide as that variation.


class IntendedRun(msgspec.Struct, frozen=True):
    """A run with its intended rate."""

    rate: float
    """Intended [1/s]."""
    run: MonotoneRun


class RegionCrossing(msgspec.Struct, frozen=True):
    """The interval of rates between the runs below a region and those above it."""

    low: float
    high: float
    """`low` is the highest rate below the region, `high` the lowest rate above it or failed;
    where the sides are mixed, the other way round [1/s]."""
    below: tuple[IntendedRun, ...]
    above: tuple[IntendedRun, ...]

    @property
    def middle(self) -> float:
        """The rate between them [1/s]."""
        return math.sqrt(self.low * self.high)

    @property
    def is_mixed(self) -> bool:
        """Whether a lower rate was above the region and a higher one below it."""
        return self.low not in {side.rate for side in self.below}

    def is_jump(self, noise_s: float) -> bool:
        """Return whether the sides are close in rate and far apart in response.

        `noise_s` is the relative variance of a run's mean at the limit, times its length [s].
        """
        if self.high > self.low * (1 + self._narrow()):
            return False
        beside = tuning.JUMP_BESIDE
        below = [s.run for s in self.below if s.rate > self.low * (1 - beside)]
        near = [s.run for s in self.above if s.rate < self.high * (1 + beside)]
        above = [run for run in near if math.isfinite(run.value)]
        if any(math.isinf(s.run.value) for s in self.above if s.rate == self.high):
            return True
        if min(len(below), len(above)) < tuning.JUMP_FEWEST:
            return False
        ratio = min(run.value for run in above) / max(run.value for run in below)
        steep = 0.0
        if not self.is_mixed:
            steep = float(STEEPNESS_GRID[-1]) * math.log(self.high / self.low)
        least = tuning.JUMP_APART * _deviation((below, above), noise_s)
        return math.log(ratio) - steep > least

    def _narrow(self) -> float:
        """Return the largest relative distance of the ends for a jump; larger where sides mix."""
        if not self.is_mixed:
            return tuning.JUMP_NARROW
        lasts_s = max(side.run.lasts_s for side in self.above)
        return tuning.JUMP_NARROW + tuning.JUMP_MIXED / math.sqrt(self.low * lasts_s)


def _deviation(sides: Sequence[Sequence[MonotoneRun]], noise_s: float) -> float:
    """Return the standard deviation of a run's logarithm: the largest of the noise and the sides' scatter."""
    scatter = [float(np.std(np.log([r.value for r in s]), ddof=1)) for s in sides]
    lasts_s = min(run.lasts_s for side in sides for run in side)
    return max(*scatter, math.sqrt(noise_s / lasts_s))


def region_crossing(
    runs: Sequence[IntendedRun], tolerance: float
) -> RegionCrossing | None:
    """Return where the response crosses a region of this half-width without a run in it; None
    if a run had a response in the region, or if one side has no run."""
    longest_s = max((r.run.lasts_s for r in runs if r.run.near), default=0.0)
    long_s = min(tuning.JUMP_LONG * longest_s, tuning.JUMP_ENOUGH_S)
    sure = [
        r
        for r in runs
        if not (r.run.near and r.run.lasts_s < long_s) and not _in_doubt(r, runs)
    ]
    below = tuple(r for r in sure if r.run.value < 1 - tolerance)
    above = tuple(r for r in sure if r.run.value > 1 + tolerance)
    if len(below) + len(above) < len(sure) or not below or not above:
        return None
    ends = max(r.rate for r in below), min(r.rate for r in above)
    return RegionCrossing(min(ends), max(ends), below, above)


def _in_doubt(one: IntendedRun, runs: Sequence[IntendedRun]) -> bool:
    """Return whether a much longer run contradicts one: it was below the limit at no lower a rate, or above it at
    no higher one. A few seconds with a pause of the server seem to be overload."""
    for other in runs:
        longer = other.run.lasts_s >= tuning.CONTRARY_ALIKE * one.run.lasts_s
        holds = one.run.value > 1 > other.run.value and other.rate >= one.rate
        fails = one.run.value < 1 < other.run.value and other.rate <= one.rate
        if longer and (holds or fails):
            return True
    return False
