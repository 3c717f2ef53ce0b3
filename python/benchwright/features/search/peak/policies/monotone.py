"""The monotone search: it assumes only that the response grows with the rate, smoothly near the
limit.

Runs whose response is near the limit are modelled by a parabola in logarithms
(monotone_posterior.py); any other run only shows on which side of it the peak is. Decision: there
is no model away from the limit, so a kink or a plateau there does not matter; the price is more
runs near the limit. Rejected: judging each load alone, three times the cost for the same coverage;
a bisection by sign only, biased because the means of short runs are skewed; the curve of a queue,
which needed less load in simulation and was wrong by a factor of 30 to 150 on real servers
(docs/decisions/0007). Decision: a rate that failed is tried again before it bounds the answer, and
a search does not end before runs just below and just above its answer, in random order, agree with
it (the check). Source: R. Waeber et al. 2013, SIAM J. Control Optim. 51(3); Workbench paper,
section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np
from benchwright.core.results import Estimate, Figure, FindingFigures, states
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe, rounded_rate
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.check import (
    CheckSide,
    IntendedRun,
    RegionCrossing,
    check_side,
    check_text,
    movement,
    region_crossing,
)
from benchwright.features.search.peak.policies.diagnostics import server_findings
from benchwright.features.search.peak.policies.evidence import (
    SEARCH_SUBJECT,
    counted_rate,
    measured_bounds,
    tallies_of,
)
from benchwright.features.search.peak.policies.monotone_posterior import (
    MonotoneRun,
    growing_levels,
    loads_by_criterion,
    monotone_posterior,
    monotone_runs,
    worst_load,
)
from benchwright.features.search.peak.policies.policy import (
    no_trial_result,
    probability_wanted,
    within_bounds,
)
from benchwright.features.search.peak.policies.reading import (
    LongRuns,
    is_as_long,
    long_runs,
    longest_run_s,
    pause_period_s,
)
from benchwright.features.search.peak.policies.trials import lowest_failed
from benchwright.features.search.types import (
    ClaimKind,
    ClaimResult,
    CurvePoint,
    PeakGoal,
    PeakStatus,
    VarianceComponents,
    rounded_bound,
)
from benchwright.findings.codes import make_finding

WARM_UP_CODE = "warm-up-not-over"
MONOTONE_METHOD = "response that grows, a parabola near the limit"
_CURVE_POINTS = 9
"""Points of the fitted parabola in a curve, between the runs near the limit."""


class Monotone:
    """The monotone search."""

    name = "monotone"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        seen = long_runs(goal, history)
        if not seen.trials:
            length_s = max(_climb_s(goal), seen.least_s)
            return Probe(goal.start_rate, goal.run_length_s or length_s, "double")
        state = _MonotoneState(goal, seen)
        step: Probe | ClaimResult | None = state.jump()
        if step is None and state.probability() >= state.wanted:
            step = state.confirmed()
        if step is None:
            step = state.probe()
        if isinstance(step, Probe):
            return step
        return _with_findings(step, goal, history, seen)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer now."""
        if not history:
            return no_trial_result(goal, self.name)
        seen = long_runs(goal, history)
        usable = seen if seen.trials else LongRuns(tuple(history))
        state = _MonotoneState(goal, usable)
        result = state.unless_moved(state.result(PeakStatus.UNDECIDED))
        return _with_findings(result, goal, history, seen)

    def leaves(
        self, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
    ) -> bool:
        """Return whether a running probe is clearly on one side of the limit and far from it."""
        age_s, looks_s = so_far.lasted_s, tuning.LOOKS_S
        # Part of a period shows no pause, or too much of one.
        period_s = pause_period_s(goal.criteria[0], history)
        period_s = min(period_s, tuning.MONOTONE_RUNS_S[1])
        least_s = max(long_runs(goal, history).least_s, period_s)
        if age_s < max(tuning.LOOKS_S, least_s):
            return False
        if age_s > 2 * looks_s and int(age_s) % looks_s:
            return False
        here = worst_load(goal, [so_far])
        if probe.purpose == "check":
            return False
        if probe.purpose in ("hold", "confirm", "again") and here.value < 1:
            # Errors come in bursts: no errors so far do not show that there will be few.
            return False
        if here.freedom <= 1:
            return math.isinf(here.value)
        past = abs(math.log(max(here.value, tuning.IDLE_SHARE)))
        beyond = past - math.log(tuning.FAR_LIMITS)
        return beyond > tuning.MONOTONE_LEAVE_Z * here.error

    def read(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
        """Return the trials that are long enough, with the values of the part that counts; of one
        without a steady response those of the whole."""
        seen = long_runs(goal, history)
        trials = list(seen.trials)
        for criterion in goal.criteria:
            if criterion.better != "lower" or not criterion.limit > 0:
                continue
            runs = monotone_runs(criterion, seen.trials, seen.left_out)
            for at, run in enumerate(runs):
                if math.isfinite(run.value) and criterion.key in trials[at].values:
                    value = {criterion.key: run.value * criterion.limit}
                    trials[at] = msgspec.structs.replace(
                        trials[at], values=trials[at].values | value
                    )
        return trials


def _with_findings(
    result: ClaimResult, goal: PeakGoal, history: Sequence[LoadTrial], seen: LongRuns
) -> ClaimResult:
    """Return a result with the findings about the server."""
    # Another reason why a claim does not hold is a longer check's, or a change that cold starts do
    # not explain.
    unexplained = not result.findings and result.status is not PeakStatus.FOUND
    findings = (*result.findings, *server_findings(goal, history, seen))
    if seen.cold and unexplained:
        findings = (make_finding(WARM_UP_CODE, SEARCH_SUBJECT, seen.cold), *findings)
    findings = tuple(dict.fromkeys(findings))
    return msgspec.structs.replace(result, findings=findings)


def _undecided(result: ClaimResult, code: str, evidence: str) -> ClaimResult:
    """Return a result whose claim does not hold because of a finding."""
    finding = make_finding(code, SEARCH_SUBJECT, evidence)
    return msgspec.structs.replace(
        result,
        status=PeakStatus.UNDECIDED,
        detail=evidence,
        claim_probability=None,
        findings=(finding, *result.findings),
    )


def _climb_s(goal: PeakGoal) -> float:
    """Return the length of a probe far from the limit [s]."""
    return _within_budget_s(goal, tuning.MONOTONE_CLIMB_S, tuning.BUDGET_CLIMB_SHARE)


def _within_budget_s(goal: PeakGoal, usual_s: float, share: float) -> float:
    """Return a length that is at most this share of the budget, and at least a second [s]."""
    if goal.budget_s is None:
        return usual_s
    return min(usual_s, max(share * goal.budget_s, tuning.SHORTEST_S))


def _allowed_share(criterion: Criterion) -> float:
    """Return the share of operations that may be worse than a criterion demands; 1 of a mean."""
    match criterion.statistic:
        case "percentile":
            return 1 - (criterion.share or 0.0)
        case "ratio":
            return criterion.limit or 1.0
        case "share":
            return 1 - criterion.limit if criterion.limit < 1 else 1.0
    return 1.0


class _MonotoneState:
    """The state of the search after at least one trial; immutable."""

    def __init__(self, goal: PeakGoal, seen: LongRuns) -> None:
        history = seen.trials
        self.goal, self.claim, self.history = goal, goal.claim, history
        self.seen = seen
        self.least_s = seen.least_s
        """Least length of the next run [s]."""
        self.period_s = pause_period_s(goal.criteria[0], history)
        """From one pause of the server to the next; 0: it has none [s]."""
        self.known = monotone_posterior(goal, history, seen.left_out)
        self.failed = lowest_failed(history)
        self.ceiling = self.failed * (1 - tuning.JUMP_NARROW / 2)
        """Highest rate to probe: just below the lowest rate that failed [1/s]."""
        self.crossing: RegionCrossing | None = None
        """The rates between which the response crosses the claim's region without a run in it."""
        if self.claim.kind is ClaimKind.REGION:
            pairs = zip(history, self.known.runs, strict=True)
            runs = [IntendedRun(counted_rate(trial), run) for trial, run in pairs]
            self.crossing = region_crossing(runs, self.claim.tolerance)
        self.wanted = probability_wanted(self.claim)
        """Probability of the claim at which the search may stop."""

    # The answer ---------------------------------------------------------------------

    def rate(self) -> float:
        """Return the answer [1/s]: the estimate, or the nearest rate that the generator offers; the
        next lower one for `slo`, or if most trials at the nearest one exceeded a limit."""
        rate, step = self._estimate(), self.goal.rate_step
        if step is None:
            return rate
        nearest = rounded_rate(rate, step)
        here = [held for at, held in self._held() if math.isclose(at, nearest)]
        lower = rounded_bound(rate, step, math.floor)
        if 2 * sum(here) < len(here):
            return lower if lower < nearest else rounded_rate(nearest - step, step)
        return lower if self.claim.kind is ClaimKind.SLO else nearest

    def _estimate(self) -> float:
        """Return the estimate of the peak, or the rate that the peak exceeds with the probability
        of `slo` [1/s]."""
        share = 0.5
        if self.claim.kind is ClaimKind.SLO:
            # A little less: a quantile of a grid is not exact, and the claim would depend on its
            # last digit.
            share = 0.8 * (1 - self.wanted)
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
        low, high = self._interval(rate)
        return ClaimResult(
            status=status,
            detail=""
            if status is not PeakStatus.FOUND
            else f"{self.claim.text} holds with probability {probability:.3f}, assuming "
            "only that the response grows with the rate",
            claim=self.claim,
            policy=Monotone.name,
            peak_rate=rate,
            interval=Estimate(
                value=rate,
                low=low,
                high=high,
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
            check=tuple(side.tally for side in self.check_sides()),
        )

    def _interval(self, rate: float) -> tuple[float, float]:
        """Return the ends of the answer's interval [1/s], which is wider than the distribution by
        what runs of one length do not show."""
        tail = (1 - self.claim.confidence) / 2
        low = min(self.known.quantile(tail), rate)
        high = max(min(self.known.quantile(1 - tail), self.failed), rate)
        unseen = tuning.ANSWER_UNSEEN * rate
        most = max(self.failed, rate)
        return (
            rate - math.hypot(rate - low, unseen),
            min(rate + math.hypot(high - rate, unseen), most),
        )

    def _curve(self, key: str, *, fitted: bool = True) -> tuple[CurvePoint, ...]:
        """Return the response of the binding criterion by rate, each point with a band of 95 %.

        Between the runs near the limit it is the fitted parabola, the same distribution as the
        answer's, so that its median is within the limit below a median of the peak. Elsewhere,
        and everywhere if not `fitted`, it is the means of the tested loads, as they grow with
        the rate. Rejected: only means, which contradicted 15 % of the answers;
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
            rates = np.geomspace(min(span), max(span), _CURVE_POINTS)
            points = [
                _curve_point(criterion, float(rate), *known.levels(float(rate))) for rate in rates
            ]
        away = [
            trial
            for trial, run in zip(self.history, known.runs, strict=True)
            if not (fitted and run.near)
        ]
        loads = [
            load
            for load in loads_by_criterion(criterion, away)
            if math.isfinite(load.value) and not (span and min(span) <= load.rate <= max(span))
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
        limits = [criterion.limit for criterion in self.goal.criteria if criterion.key == key]
        if any(p.rate < gap.low and p.middle > max(limits) for p in curve):
            return None  # The limit was exceeded at a lower rate too.
        jump = make_finding("response-jumps", SEARCH_SUBJECT, self._across(gap))
        return msgspec.structs.replace(
            self.result(PeakStatus.UNDECIDED),
            curve=curve,
            detail=f"no rate has a response near the limit: {jump.evidence}; a claim of the "
            "rate, such as rate:5%, can hold here",
            check=(),
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
            findings=(jump,),
        )

    def _across(self, gap: RegionCrossing) -> FindingFigures:
        """Return the responses on both sides of a jump."""
        low = max(gap.below, key=lambda side: side.rate)
        high = min(gap.above, key=lambda side: side.rate)
        beyond = None
        if self.failed <= high.rate:
            beyond = "the server or the generator fails"
        elif math.isinf(high.run.value):
            beyond = "the server is overloaded"
        return states(
            low=Figure(low.rate, "1/s"),
            below=Figure(low.run.value, "%"),
            high=Figure(high.rate, "1/s"),
            above=Figure(high.run.value, "%") if beyond is None else None,
            beyond=beyond,
        )

    # The check ------------------------------------------------------------------------

    def check_sides(self) -> tuple[CheckSide, ...]:
        """Return what the trials just below and just above the answer show; `slo` promises nothing
        above it."""
        answer = self.rate()
        apart = self._apart()
        shares: tuple[float, ...] = (1 - apart, 1 + apart)
        if self.claim.kind is ClaimKind.SLO:
            shares = (1.0,)
        rates = [within_bounds(self.goal, share * answer) for share in shares]
        # A generator's step or a bound may leave no rate there. The share is not that of the rate,
        # which is rounded: one at the answer would be above it by chance.
        sides = [
            (share, rate)
            for rate, share in zip(rates, shares, strict=True)
            if (share > 1 and rate > answer) or (share < 1 and rate < answer) or share == 1.0
        ]
        sides += [(rate / answer, rate) for rate in self._contrary(answer, apart)]
        long = self._held(self._longer_s())
        return tuple(check_side(share, rate, apart, long) for share, rate in sides)

    def _held(self, least_s: float = 0.0) -> list[tuple[float, bool]]:
        """Return the rate of each run and whether it held, without the begin that is left out of
        it; of those that did not fail the ones of about this length [s] at least."""
        return [
            (counted_rate(trial), run.value <= 1)
            for trial, run in zip(self.history, self.known.runs, strict=True)
            if is_as_long(trial.lasted_s, least_s) or trial.ending is LoadEnding.FAILED
        ]

    def _longer_s(self) -> float:
        """Return the least length of a run of the check: several times that of runs that are cold
        at their begin, because halves of runs do not show a start that is slow all the time; 0
        where none is cold [s]."""
        longer_s = tuning.CONTRARY_LONGER * self.seen.cold_s
        return min(longer_s, longest_run_s(self.goal))

    def _contrary(self, answer: float, apart: float) -> list[float]:
        """Return the rates farther from the answer than the check that failed below it, or held
        above it, where no other rate contradicts that."""
        bounds = measured_bounds(tallies_of(self._held()))
        far = []
        if bounds.failed is not None and bounds.failed < (1 - apart) * answer:
            far.append(bounds.failed)
        if self.claim.kind is not ClaimKind.SLO and (bounds.held or 0.0) > (1 + apart) * answer:
            far.append(bounds.held or 0.0)
        return [within_bounds(self.goal, rate) for rate in far]

    def _apart(self) -> float:
        """Return the distance of the check from the answer: the claim's, or where the response
        differs by the claim's share of the limit."""
        if self.claim.kind is ClaimKind.RATE:
            return self.claim.tolerance
        if self.claim.kind is ClaimKind.SLO:
            return tuning.CHECK_APART
        by_response = self.claim.tolerance / max(self.known.steepness, 1.0)
        return min(max(tuning.CHECK_APART, by_response), tuning.CHECK_MOST_APART)

    def confirmed(self) -> Probe | ClaimResult:
        """Return the next run of the check, or the result: undecided if many runs of the check
        contradict it."""
        sides = self.check_sides()
        missing = [side for side in sides if side.size < tuning.ENOUGH_TRIALS]
        if missing:
            order = np.random.default_rng([self.goal.seed, len(self.history)])
            side = missing[int(order.integers(len(missing)))]
            return Probe(side.tally.rate, self._check_s(), "check")
        contrary = [side for side in sides if not side.agrees]
        if contrary and contrary[0].size < tuning.MANY_TRIALS:
            return Probe(contrary[0].tally.rate, self._check_s(), "check")
        if contrary:
            text = check_text([side.tally for side in contrary], self.rate())
            evidence = f"the trials beside the answer contradict it: {text}"
            result = self.unless_moved(self.result(PeakStatus.UNDECIDED))
            return _undecided(result, "check-contradicts", evidence)
        result = self.unless_moved(self.result(PeakStatus.FOUND))
        if self.seen.stays_cold:
            return _undecided(result, WARM_UP_CODE, self.seen.cold)
        return result

    def _check_s(self) -> float:
        """Return the length of a run of the check: its noise is half the difference of its response
        from the limit, as far as runs near the limit are so long [s]."""
        difference = max(self.known.steepness, 1.0) * self._apart()
        enough_s = 4 * self.known.noise_s / difference**2
        usual_s = self._length_s(max(enough_s, self._shortest_s()), 1)
        usual_s = max(min(usual_s, self._hold_s()), self._longer_s())
        return self.goal.run_length_s or usual_s

    # The next probe -----------------------------------------------------------------

    def _unconfirmed(self) -> float | None:
        """Return the lowest rate that failed far from the limit, if a transient could have caused
        it: one that no other failure confirms [1/s]."""
        runs = [(trial.rate, run) for trial, run in zip(self.history, self.known.runs, strict=True)]
        far = [(at, run) for at, run in runs if not run.near and run.holds < 0.5]
        if not far:
            return None
        rate, lowest = min(far, key=lambda one: one[0])
        if math.isinf(lowest.value) and rate == self.failed:
            return None  # It failed twice already.
        here = [run for at, run in runs if at == rate]
        fails = sum(run.holds < 0.5 for run in here)
        if abs(2 * fails - len(here)) >= 2 or len(here) >= tuning.ENOUGH_TRIALS:
            return None
        return rate

    def probe(self) -> Probe:
        """Return the next probe."""
        known = self.known
        climb_s = self.goal.run_length_s or self._length_s(_climb_s(self.goal), 1)
        unconfirmed = self._unconfirmed()
        if unconfirmed is not None:
            return Probe(unconfirmed, climb_s, "confirm")
        low, high = known.bracket
        if high is None:
            assert low is not None
            return Probe(2 * low, climb_s, "double")
        if low is None:
            return Probe(high / 2, climb_s, "halve")
        spread = math.log(known.quantile(0.9) / known.quantile(0.1))
        if not known.runs_near or spread > tuning.MONOTONE_WIDE:
            rate = self._working(known.quantile(0.5))
            return Probe(self._less_tried(rate), climb_s, "bisect")
        return Probe(self._less_tried(self._hold_rate()), self._hold_s(), "hold")

    def _shortest_s(self) -> float:
        """Return the least length of a run near the limit [s]."""
        share = tuning.BUDGET_RUN_SHARE
        usual_s = _within_budget_s(self.goal, tuning.MONOTONE_RUNS_S[0], share)
        allowed = min(map(_allowed_share, self.goal.criteria))
        enough_s = tuning.FEWEST_OPERATIONS / (allowed * self.rate())
        return max(usual_s, min(enough_s, longest_run_s(self.goal)))

    def _hold_s(self) -> float:
        """Return the length of a run near the limit [s]."""
        relaxed_s = tuning.MONOTONE_RELAXATIONS * self.known.noise_s
        relaxed_s = min(relaxed_s, tuning.MONOTONE_RUNS_S[1])
        usual_s = _within_budget_s(self.goal, relaxed_s, tuning.BUDGET_RUN_SHARE)
        usual_s = max(usual_s, self._shortest_s())
        return self.goal.run_length_s or self._length_s(usual_s, 2)

    def unless_moved(self, result: ClaimResult) -> ClaimResult:
        """Return a result; undecided where the peak moved by more than the claim's width meanwhile,
        with an interval of both peaks."""
        criterion = next(c for c in self.goal.criteria if c.key == result.binding)
        moved = movement(criterion, self.history, self.known.runs, self.known.steepness)
        width = self.claim.tolerance
        if self.claim.kind is ClaimKind.REGION:
            width /= max(self.known.steepness, 1.0)
        if moved is None or moved.share <= width:
            return result
        interval = result.interval
        if interval is not None:
            ends = (moved.before, moved.after)
            interval = msgspec.structs.replace(
                interval, low=min(interval.low, *ends), high=max(interval.high, *ends)
            )
        result = msgspec.structs.replace(result, interval=interval)
        return _undecided(result, "drift", moved.evidence)

    def _length_s(self, usual_s: float, fewest: int) -> float:
        """Return the length of a run [s]: of whole periods after its warm-up where the server
        pauses, at least `fewest`; else the usual one, unless shorter runs contradict each other."""
        counted = 1 - tuning.WARM_UP_SHARE
        if not 0 < self.period_s * fewest < counted * tuning.MONOTONE_RUNS_S[1]:
            return math.ceil(max(usual_s, self.least_s))
        counted_s = counted * max(usual_s, self.least_s)
        whole_s = max(math.ceil(counted_s / self.period_s), fewest) * self.period_s
        least_s = whole_s + tuning.WARM_UP_LEAST_S
        return math.ceil(max(whole_s / counted, least_s)) + 1

    def _hold_rate(self) -> float:
        """Return the rate of a run near the limit: the middle of a crossing without a run in it,
        else on the side of the answer with fewer seconds of runs, since the curve needs
        both sides."""
        known, gap = self.known, self.crossing
        enough = known.runs_near >= tuning.MONOTONE_FEWEST_NEAR
        if gap is not None and not gap.is_mixed and enough:
            return self._working(gap.middle)
        answer = self._estimate()
        lower, upper = known.seconds_beside(answer)
        step = tuning.MONOTONE_RATE_STEP
        if self.claim.kind is not ClaimKind.RATE:
            step = min(self.claim.tolerance, step)
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
        answer = self._estimate()
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

    def _less_tried(self, rate: float) -> float:
        """Return a rate; where its trial would be at one of the two rates of the generator beside
        the estimate, a rate between these two, nearer to the one with fewer trials."""
        step = self.goal.rate_step
        if step is None:
            return rate
        low = rounded_bound(self._estimate(), step, math.floor)
        high, nearest = rounded_rate(low + step, step), rounded_rate(rate, step)
        if nearest not in (low, high):
            return rate
        tried = [trial.rate for trial in self.history]
        more = tried.count(low) - tried.count(high)
        is_low = more < 0 or (more == 0 and nearest == low) or high >= self.failed
        return low + step / 4 if is_low else high - step / 4

    def _refuted(self, far: MonotoneRun) -> bool:
        """Return whether, at the rate of a run far from the limit, runs near it or far on its other
        side lasted longer in total."""
        narrow = tuning.JUMP_NARROW
        beside = [r for r in self.known.runs if abs(r.rate / far.rate - 1) < narrow]
        same_s = math.fsum(
            run.lasts_s for run in beside if not run.near and (run.holds > 0.5) == (far.holds > 0.5)
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
