"""Findings about a search: evidence in its trials against the search's assumptions.

Purpose: the findings of a search, and which of them mean that a queue's curve must not be used
(default.py). Whenever the curve is not used, a finding reports the reason.
Decision: a finding must be certain: on servers that are queues, at most about one search in a
hundred may have one. So each test has a high threshold and a minimum effect (tuning.py).
Source: docs/peak-method.md; tests/calibration measures the rates behind the thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Finding, Severity
from benchwright.core.search import (
    ClaimKind,
    ClaimResult,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakStatus,
)
from benchwright.core.search_text import criterion_name
from benchwright.core.text import percent_text, plural
from benchwright.decide.peak import tuning
from benchwright.decide.peak.final_checks import drift, not_monotonic
from benchwright.decide.peak.monotone_posterior import (
    load_by_criterion,
    monotone_posterior,
    value_share,
)
from benchwright.decide.peak.pauses import find_pauses
from benchwright.decide.peak.reading import LongRuns, RunEstimate, read_runs
from benchwright.decide.peak.trials import SEARCH_SUBJECT, TrialCache
from benchwright.findings.codes import make_finding
from benchwright.stats.arrays import FloatArray

NO_QUEUE_CODE = "curve-fits-no-queue"
DRIFT_CODE = "drift"
_FINDINGS: TrialCache[tuple[Finding, ...]] = TrialCache(64)


def server_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    """Return every finding about the server; of the goal the criteria and the kind of claim count."""
    key = ("all", goal.criteria, goal.claim.kind)
    return _FINDINGS.value(history, key, lambda: _computed_findings(goal, history))


def _computed_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    shape = shape_findings(goal, history)
    each = (
        *shape,
        *_finding_of("sheds-load", load_shedding(goal, history)),
        *_finding_of("response-not-monotonic", not_monotonic(goal, history)),
        # If the capacity depends on the load, a change of it is no evidence of drift.
        *_finding_of(DRIFT_CODE, "" if shape else drift(goal, history)),
    )
    by_code = {finding.code: finding for finding in reversed(each)}
    return tuple(by_code.values())[::-1]


def shape_findings(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the findings that contradict a queue's curve."""
    key = ("shape", goal.criteria[0], goal.claim.kind)
    return _FINDINGS.value(
        history, key, lambda: _computed_shape_findings(goal, history)
    )


def _computed_shape_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    drop = throughput_drop(goal, history)
    pauses = find_pauses(goal.criteria[0], history)
    return (
        *_finding_of("throughput-drops-under-overload", drop),
        *_finding_of("server-stalls", pauses.evidence if pauses else ""),
        *_finding_of(NO_QUEUE_CODE, wall(goal, history), Severity.NOTE),
    )


def not_converged_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the note that the curve did not reach its claim in this number of trials. It is only
    a note because this can happen with a queue too."""
    evidence = (
        f"the queue model did not converge in {plural(len(history), 'trial')}; continued "
        "with the monotone search (this is not a problem of the server)"
    )
    return (make_finding(NO_QUEUE_CODE, SEARCH_SUBJECT, evidence, Severity.NOTE),)


def short_run_findings(seen: LongRuns) -> tuple[Finding, ...]:
    """Return the finding about runs that were left out because they contradict each other."""
    if not seen.evidence:
        return ()
    evidence = (
        f"{seen.evidence}: runs of up to {seen.too_short_s:.3g} s were left out, and the next ones "
        f"took at least {seen.least_s:.3g} s"
    )
    return _finding_of("short-runs-contradict", evidence)


def no_curve_findings(criterion: Criterion) -> tuple[Finding, ...]:
    """Return the note about a criterion for which no queue's curve is known."""
    evidence = (
        f"no queue's curve is known for the criterion that limits ({criterion_name(criterion)}): the "
        "search assumes only that more load is not better"
    )
    return (make_finding(NO_QUEUE_CODE, SEARCH_SUBJECT, evidence, Severity.NOTE),)


def refusal_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the finding about rates at which the server or its generator fails."""
    failed = [trial.rate for trial in history if trial.ending is LoadEnding.FAILED]
    evidence = (
        f"{plural(len(failed), 'rate')} failed, from {min(failed):.5g}/s on: the limit is where "
        "the server refuses, which no queue's curve describes"
    )
    return _finding_of(NO_QUEUE_CODE, evidence)


def misfit_findings(
    goal: PeakGoal, history: Sequence[LoadTrial], result: ClaimResult
) -> tuple[Finding, ...]:
    """Return the finding about a curve or an interval that its own runs contradict."""
    evidence = misfit(goal, history, result) or contradiction(goal, history, result)
    return _finding_of(NO_QUEUE_CODE, evidence)


def _finding_of(
    code: str, evidence: str, severity: Severity | None = None
) -> tuple[Finding, ...]:
    if not evidence:
        return ()
    return (make_finding(code, SEARCH_SUBJECT, evidence, severity),)


# -- overload: the server completes less than in a steady run, or only refuses -------------------
#
# An overloaded queue completes its capacity, and no steady run can complete more. If one did,
# then overload makes the server slower (thrashing), or the work of an operation grows with the
# rate (a second bottleneck: a kink).


def throughput_drop(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return evidence that an overloaded run completed less than a steady one, or ''."""
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    estimates = read_runs(goal.criteria[0], usable)
    steady_below = tuning.RETROGRADE_STEADY
    steady = [run for run in estimates.runs if run.steady and run.value < steady_below]
    over = [run for run in estimates.runs if run.capacity is not None]
    ends_s = np.cumsum([t.cost_s for t in usable])
    scored = [
        (_drop_z(one, other, estimates.limit_s, ends_s), one, other)
        for one in steady
        for other in over
    ]
    if not scored:
        return ""
    z, served, overloaded = max(scored, key=lambda pair: pair[0])
    capacity = overloaded.capacity
    if z < tuning.RETROGRADE_Z or capacity is None:
        return ""
    return (
        f"overloaded at {overloaded.rate:.5g}/s it completes {capacity.rate:.4g}/s "
        f"({percent_text(1 - capacity.rate / served.rate)} less than the {served.rate:.4g}/s "
        f"that it served with a response of {percent_text(served.value)} of the limit)"
    )


def _drop_z(
    served: RunEstimate,
    overloaded: RunEstimate,
    limit_s: float | None,
    ends_s: FloatArray,
) -> float:
    """Return by how many standard errors the steady run's rate exceeds the overloaded run's, beyond
    what a drift may explain. `ends_s` are the ends of all runs since the search began [s]."""
    capacity = overloaded.capacity
    if capacity is None or served.rate < (1 + tuning.RETROGRADE_LEAST) * capacity.rate:
        return 0.0
    apart_s = abs(float(ends_s[served.index] - ends_s[overloaded.index]))
    long_s = max(apart_s - tuning.RETROGRADE_TOGETHER_S, 0.0)
    drifted = tuning.RETROGRADE_DRIFT_PER_S * long_s
    # Operations that still wait when a run ends were not completed.
    waiting = served.value * (limit_s or 0.0) / served.lasts_s
    chance = tuning.RETROGRADE_CV2 / (served.rate * served.lasts_s)
    between = 2 * tuning.RETROGRADE_BETWEEN_RUNS**2
    scale = math.sqrt(chance + capacity.relative_sd**2 + between)
    return (math.log(served.rate / capacity.rate) - waiting - drifted) / scale


# -- a wall: no waiting just below a rate that is too high -------------------------------------------
#
# A limit of operations per second delays nothing until it is reached. A queue's curve can be as steep,
# but nothing below the wall shows where it is, and the capacity under overload need not be the pole:
# operations that a cache answers are completed at any rate.
# Decision: not for a claim of the region. A tenth of the response is a thousandth of the rate here, and
# for a steep queue (gap 0.02) the curve was in the region more often: 19 of 20 searches, 15 without it.


def wall(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return evidence that the response is still low just below a rate that is too high; '' where it
    is not, for a claim of the region, and where the goal's first criterion is no response."""
    evidence = (
        "" if goal.claim.kind is ClaimKind.REGION else _quiet_below(goal, history)
    )
    if not evidence:
        return ""
    return f"{evidence}; continued with the monotone search (this is not a problem of the server)"


def region_at_wall(
    goal: PeakGoal, history: Sequence[LoadTrial], result: ClaimResult
) -> tuple[Finding, ...]:
    """Return the finding about a claim of the region that does not hold, where the trials show a wall."""
    is_region = goal.claim.kind is ClaimKind.REGION
    if not is_region or result.status is PeakStatus.FOUND:
        return ()
    return _finding_of("region-at-wall", _quiet_below(goal, history))


def _quiet_below(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    criterion = goal.criteria[0]
    if criterion.statistic not in ("mean", "percentile"):
        return ""
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    too_high: list[float] = []
    quiet: list[tuple[float, float]] = []
    for run, trial in zip(read_runs(criterion, usable).runs, usable, strict=True):
        if not run.steady or run.value > tuning.WALL_BEYOND:
            capacity = math.inf if run.capacity is None else run.capacity.rate
            too_high.append(min(trial.offered_rate, capacity))
        elif run.value < tuning.WALL_QUIET:
            quiet.append((trial.offered_rate, run.value))
    end = min(too_high, default=math.inf)
    rate, value = max((q for q in quiet if q[0] < end), default=(0.0, 0.0))
    if end > tuning.WALL_NEAR * rate:
        return ""
    return (
        f"the {criterion_name(criterion)} is only {percent_text(value)} of its limit at "
        f"{rate:.4g}/s, and {end:.4g}/s is too much: a wall, before which nothing waits"
    )


def load_shedding(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return evidence that errors rise while the response stays flat, or ''."""
    timed = [c for c in goal.criteria if c.statistic in ("mean", "percentile")]
    refusing = [t for t in history if _error_share(t) > tuning.SHEDDING_ERRORS]
    if not timed or not refusing:
        return ""
    flat = tuning.SHEDDING_FLAT
    if any(value_share(c, t) >= flat for c in timed for t in refusing):
        return ""
    worst = max(refusing, key=_error_share)
    value = load_by_criterion(timed[0], [worst]).value
    return (
        f"at {worst.rate:.5g}/s {percent_text(_error_share(worst))} of the operations end "
        f"in an error while the {criterion_name(timed[0])} is only {percent_text(value)} of its limit"
    )


def _error_share(trial: LoadTrial) -> float:
    known = (trial.completed or 0) + trial.errors
    return trial.errors / known if known and trial.completed is not None else 0.0


# -- misfit: runs near an answer that are off the curve of the answer --------------------------------
#
# The last check before a search by a queue's curve ends. A steep enough curve fits anything: at a
# step in the response (12 ms, then 50 ms) it reaches the limit at the step, although every run near
# the step is far from the curve.
# Decision: only deviations count that the curve's noise, its band and a server's usual variation
# between runs do not explain. The variation between runs that the fit estimated is not used,
# because a bad fit overestimates it.
# Decision: the check examines the result, not the posterior, so that it works for any curve.


class _ResultCurve(msgspec.Struct, frozen=True):
    """The result's curve; columns `(n_points,)`; `rate` and `level` (share of the limit) are logarithms."""

    rate: FloatArray
    level: FloatArray
    error: FloatArray
    """Standard deviation of the level."""
    slope: FloatArray
    """Elasticity of the response to the rate."""
    noise_s: float
    """Relative variance of a run's mean at the limit, times its length [s]."""

    def off(self, run: RunEstimate) -> tuple[float, float]:
        """Return a run's distance from the curve as a logarithm and in standard errors; 0 for a
        run that is not near the answer."""
        at, value = math.log(run.rate), math.log(run.value)
        if not self.rate[0] <= at <= self.rate[-1]:
            return 0.0, 0.0
        level, error, slope = (
            float(np.interp(at, self.rate, column))
            for column in (self.level, self.error, self.slope)
        )
        if not tuning.MISFIT_NEAR[0] < math.exp(level) < tuning.MISFIT_NEAR[1]:
            return 0.0, 0.0
        chance = (
            self.noise_s
            / run.lasts_s
            * max(math.exp(level), tuning.MISFIT_QUIETEST) ** tuning.NOISE_EXPONENT
        )
        between = tuning.MISFIT_BETWEEN_RUNS * min(slope, tuning.MISFIT_STEEPEST)
        scale = math.sqrt(
            chance + error**2 + between**2 + tuning.MISFIT_FAMILY_ERROR**2
        )
        # The mean of a logarithm is below the logarithm of the mean.
        left = value - level + min(chance, 0.5) / 2
        return left, abs(left) / scale


def misfit(goal: PeakGoal, history: Sequence[LoadTrial], result: ClaimResult) -> str:
    """Return evidence that runs near a result's answer contradict its curve, or ''.

    The curve is that of the goal's first criterion.
    """
    curve = _result_curve(goal.criteria[0], result)
    if curve is None:
        return ""
    runs = [run for run in read_runs(goal.criteria[0], history).runs if run.steady]
    wrong = []
    for run in runs:
        left, z = curve.off(run)
        if abs(left) > tuning.MISFIT_LEAST and z > tuning.MISFIT_Z:
            wrong.append((z, left, run))
    if len(wrong) < tuning.MISFIT_FEWEST:
        return ""
    z, left, worst = max(wrong, key=lambda item: item[0])
    return (
        f"{len(wrong)} runs contradict the curve: at {worst.rate:.4g}/s the response was "
        f"{percent_text(worst.value)} of the limit and should be "
        f"{percent_text(worst.value / math.exp(left))} ({z:.0f} standard errors)"
    )


def contradiction(
    goal: PeakGoal, history: Sequence[LoadTrial], result: ClaimResult
) -> str:
    """Return evidence that a long run failed below a result's interval, or held above it; or ''.

    A curve that is flat up to its limit and then steep as a wall (a limit of operations per second)
    has a queue's pole far above the wall: the response of runs below says nothing of it.
    """
    if result.interval is None:
        return ""
    low = result.interval.low / (1 + tuning.CONTRADICTION_BEYOND)
    high = result.interval.high * (1 + tuning.CONTRADICTION_BEYOND)
    for run in monotone_posterior(goal, history).runs:
        long = run.lasts_s >= tuning.CONTRADICTION_SHORTEST_S
        fails = run.rate < low and run.holds < tuning.CONTRADICTION_CHANCE
        holds = run.rate > high and run.holds > 1 - tuning.CONTRADICTION_CHANCE
        if long and (fails or holds):
            return (
                f"the curve has its peak from {result.interval.low:.5g} to "
                f"{result.interval.high:.5g}/s, but the limit {'failed' if fails else 'held'} at "
                f"{run.rate:.5g}/s"
            )
    return ""


def _result_curve(criterion: Criterion, result: ClaimResult) -> _ResultCurve | None:
    """Return the curve of a result; None where the curve or its noise is missing."""
    noise_s = result.components.within_s
    points = [p for p in result.curve if min(p.low, p.middle) > 0]
    if noise_s is None or len(points) < 3 or criterion.better != "lower":
        return None
    rate = np.log([p.rate for p in points])
    level = np.log([p.middle / criterion.limit for p in points])
    ends = np.log([p.high / p.low for p in points])
    slope = np.asarray(np.gradient(level, rate), dtype=np.float64)
    return _ResultCurve(rate, level, ends / (2 * 1.96), slope, noise_s)
