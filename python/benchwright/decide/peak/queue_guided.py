"""The queue-guided search: our policy, which assumes the shape of a queue's response curve.

Purpose: the peak at the lowest cost, with a stated probability. A decision is one pipeline:

    trials -> reading.py: what each trial shows -> the side of the peak of each trial
           -> the climb, until the peak is bracketed (next_run.py)
           -> posterior.py: the curve -> the answer
           -> the stop rule -> the result, or next_run.py: the most valuable run

diagnostics.py and default.py check whether the server behaves like a queue at all.
docs/peak-method.md explains the method, tuning.py every constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.core.search import (
    ClaimKind,
    ClaimResult,
    CurvePoint,
    CurveShape,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
    VarianceComponents,
    rounded_rate,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.next_run import (
    Bracket,
    SearchState,
    bracket_of,
    next_climb,
    next_run,
)
from benchwright.decide.peak.policy import no_trial_result, probability_wanted
from benchwright.decide.peak.posterior import (
    answer_at,
    best_answer,
    fit_curve,
    weighted_quantiles,
)
from benchwright.decide.peak.reading import (
    FEWEST_BINS,
    LongRuns,
    limit_s,
    long_runs,
    share_of_limit,
    time_scale,
)
from benchwright.stats.arrays import FloatArray


class QueueGuided:
    """The queue-guided search."""

    name = "qgs"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        seen = long_runs(goal, history)
        bracket = bracket_of(goal, seen.trials)
        climb = next_climb(goal, bracket, seen.least_s)
        if climb is not None:
            return climb
        state = _search_state(goal, seen, bracket)
        if _may_stop(state):
            return _result(state, PeakStatus.FOUND)
        return next_run(state)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer now."""
        if not history:
            return no_trial_result(goal, self.name)
        seen = long_runs(goal, history)
        if not seen.trials:
            seen = LongRuns(tuple(history))
        state = _search_state(goal, seen, bracket_of(goal, seen.trials))
        return _result(state, PeakStatus.UNDECIDED)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Return whether a running probe has shown enough."""
        criterion = goal.criteria[0]
        scale = time_scale(limit_s(criterion))
        if probe.purpose == "overload":
            return False
        earliest_s = max(
            scale * tuning.LEAVE_EARLIEST_S, long_runs(goal, history).least_s
        )
        if so_far.lasted_s < earliest_s:
            return False
        column = so_far.series.values.get(criterion.key, ())
        values = share_of_limit(criterion, np.asarray(column, dtype=float))
        values = values[np.isfinite(values)]
        if values.size < FEWEST_BINS:
            return False
        climbs = probe.purpose == "climb"
        enough_s = tuning.LEAVE_OVERLOAD_S
        if not climbs:
            enough_s = max(enough_s, scale * tuning.LEAVE_EXCURSION_S)
        if so_far.lasted_s >= enough_s and _is_overloaded(values):
            return True
        return climbs and _is_clearly_below(values)


def _is_overloaded(values: FloatArray) -> bool:
    """Return whether the last half of a running probe is far beyond the limit and still grows."""
    half = values[values.size // 2 :]
    return bool(half.min() > tuning.OVERLOAD_LIMITS and half[-1] > half[0])


def _is_clearly_below(values: FloatArray) -> bool:
    """Return whether the mean of a running probe is below the limit by more than its noise."""
    rest = values[1:]
    error = float(rest.std(ddof=1)) / math.sqrt(rest.size)
    return bool(rest.mean() + 2 * tuning.LEAVE_Z * error < tuning.LEAVE_BELOW)


def _search_state(goal: PeakGoal, seen: LongRuns, bracket: Bracket) -> SearchState:
    """Return the curve with the best answer to the claim; `seen` has at least one trial."""
    fitted = fit_curve(goal, seen.trials, bracket.guess)
    low, high = tuning.NEAR_PEAK
    runs = fitted.estimates.runs
    near_peak = sum(run.steady and low < run.value < high for run in runs)
    wanted = goal.claim.confidence
    if goal.claim.kind is not ClaimKind.SLO:
        wanted = probability_wanted(
            goal.claim, tuning.LOOK_MARGIN, tuning.FEW_RUNS_MARGIN, near_peak
        )
    return SearchState(
        goal=goal,
        history=seen.trials,
        least_s=seen.least_s,
        bracket=bracket,
        estimates=fitted.estimates,
        posterior=fitted.posterior,
        answer=best_answer(goal.claim, fitted.posterior),
        near_peak=near_peak,
        wanted=wanted,
    )


def _may_stop(state: SearchState) -> bool:
    """Return whether the claim has the wanted probability, with enough runs near the peak and
    enough effective draws."""
    region = state.goal.claim.kind is ClaimKind.REGION
    fewest = tuning.FEWEST_NEAR_PEAK if region else 1
    return (
        state.near_peak >= fewest
        and state.posterior.effective >= tuning.FEWEST_EFFECTIVE_DRAWS
        and state.answer.probability >= state.wanted
    )


def _result(state: SearchState, status: PeakStatus) -> ClaimResult:
    """Return the answer as a result: the best answer, or the median of the peak where the best
    answer is more probably wrong than right.

    At an answer that is right in at least half of the draws, the median curve satisfies the
    claim too; at any other answer the curve that is shown may contradict the claim.
    """
    claim, posterior, answer = state.goal.claim, state.posterior, state.answer
    if answer.probability < 0.5 and claim.kind is not ClaimKind.SLO:
        answer = answer_at(claim, posterior, posterior.quantile(0.5))
    noise_s = posterior.mean(posterior.noise_s)
    return ClaimResult(
        status=status,
        detail=f"{claim.text} holds with probability {answer.probability:.3f}",
        claim=claim,
        policy=QueueGuided.name,
        peak_rate=rounded_rate(answer.rate),
        interval=Estimate(
            value=answer.rate,
            low=answer.low,
            high=answer.high,
            confidence=claim.confidence,
            method="posterior of a queue's curve",
            n=len(state.history),
            unit="1/s",
        ),
        claim_probability=answer.probability,
        stop_probability=state.wanted,
        binding=state.goal.criteria[0].key,
        components=VarianceComponents(noise_s, posterior.mean(posterior.between)),
        curve=_curve(state, answer.rate),
        shape=CurveShape(
            posterior.mean(posterior.curve.gap),
            posterior.mean(posterior.curve.unloaded),
            noise_s,
            state.estimates.warm_up_s,
        ),
    )


def _curve(state: SearchState, answer_rate: float) -> tuple[CurvePoint, ...]:
    """Return the response curve around an answer, with its 95 % band."""
    posterior, limit = state.posterior, state.goal.criteria[0].limit
    points = []
    for rate in np.linspace(0.2, 1.05, 40) * answer_rate:
        response = posterior.curve.response(np.array(rate), tuning.SOFTNESS) * limit
        shares = (0.025, 0.5, 0.975)
        low, middle, high = weighted_quantiles(response, posterior.weight, shares)
        points.append(CurvePoint(float(rate), low, middle, high))
    return tuple(points)
