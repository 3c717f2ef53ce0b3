"""The default policy `qgs`: the queue-guided search while its assumptions hold, then the monotone one.

Purpose: the queue-guided search needs a tenth of the load because it assumes the shape of a queue's
curve. diagnostics.py checks this assumption. Once the trials contradict the shape, `Monotone`
continues the search with all trials so far, and the result reports why.
Decision: runs that are too short for the server (reading.py) are no part of the history here.
Decision: the change to `Monotone` is final. The assumption is checked for every prefix of the
history, so that the policy is a pure function of the history and a search does not alternate
between two methods. The results for each prefix are cached (trials.py).
Decision: only the last check is not final. It runs when a search would end, and compares the runs
with the curve of the result; with more runs the curve may fit again.
Decision: a search with a drift has no answer, because an answer would be outdated at once. It ends
undecided, with its best answer and the finding. Rejected: continuing, because the peak moves too.
Decision: neither a rate that failed twice nor a higher one is probed again, because the curve does
not model a server that refuses requests. Where the curve requires such a rate, `Monotone` decides.
Decision: with several criteria, the curve is that of the criterion that fails first. There is no
curve for a ratio, a share or a user's metric.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from benchwright.core.results import Finding
from benchwright.core.search import (
    ClaimResult,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.diagnostics import (
    DRIFT_CODE,
    misfit_findings,
    no_curve_findings,
    not_converged_findings,
    refusal_findings,
    region_at_wall,
    server_findings,
    shape_findings,
    short_run_findings,
)
from benchwright.decide.peak.final_checks import check_for_drift, check_for_order
from benchwright.decide.peak.monotone import MONOTONE_PURPOSES, Monotone
from benchwright.decide.peak.monotone_posterior import load_by_criterion, value_share
from benchwright.decide.peak.policy import Policy
from benchwright.decide.peak.queue_guided import QueueGuided
from benchwright.decide.peak.reading import long_runs
from benchwright.decide.peak.trials import TrialCache, lowest_failed

CURVED_STATISTICS = ("mean", "percentile")
"""Statistics for which a queue's curve is known."""

Step = TypeVar("Step", Probe | ClaimResult, ClaimResult)


class SearchMode(msgspec.Struct, frozen=True):
    """The search that continues a history, and why."""

    criterion: Criterion | None
    """The criterion whose curve is used; None: the monotone search."""
    findings: tuple[Finding, ...] = ()
    """Why no curve is used."""


class DefaultPeakPolicy:
    """`QueueGuided` while the server behaves like a queue, then `Monotone`."""

    name = "qgs"

    def __init__(self, guided: Policy | None = None, fallback: Policy | None = None):
        self.guided = guided or QueueGuided()
        self.fallback = fallback or Monotone()

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        mode, step = self._step(goal, history, self.guided.next, self.fallback.next)
        if isinstance(step, Probe):
            return step
        if step.status is PeakStatus.FOUND:
            seen = long_runs(goal, history).trials
            check = check_for_order(goal, seen)
            if check is None and not mode.findings:
                # If the capacity depends on the load, a change of it is no evidence of drift.
                check = check_for_drift(goal, seen)
            if check is not None:
                return check
        return _with_findings(step, mode, goal, history)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Return whether a running probe has shown enough, by the search that requested it."""
        if probe.purpose in MONOTONE_PURPOSES:
            return self.fallback.leaves(goal, history, probe, so_far)
        criterion = _first_to_fail(goal, [*history, so_far])
        if criterion is None:
            return False
        guided_goal = _goal_of_criterion(goal, criterion)
        return self.guided.leaves(guided_goal, history, probe, so_far)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer now."""
        mode, result = self._step(goal, history, self.guided.best, self.fallback.best)
        return _with_findings(result, mode, goal, history)

    def _step(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        guided: Callable[[PeakGoal, Sequence[LoadTrial]], Step],
        fallback: Callable[[PeakGoal, Sequence[LoadTrial]], Step],
    ) -> tuple[SearchMode, Step]:
        """Return the search that continues a history, and its step."""
        seen = long_runs(goal, history).trials
        mode = search_mode(goal, seen)
        if mode.criterion is None:
            return mode, fallback(goal, history)
        guided_goal = _goal_of_criterion(goal, mode.criterion)
        step = guided(guided_goal, history)
        answer: Probe | ClaimResult = step
        if isinstance(step, Probe) and len(seen) >= tuning.CONTRADICTION_FEWEST_TRIALS:
            answer = self.guided.best(guided_goal, history)
        if isinstance(answer, ClaimResult):
            misfit = misfit_findings(guided_goal, seen, answer)
            if misfit:
                return SearchMode(None, misfit), fallback(goal, history)
        if _is_refused(step, history):
            return mode, fallback(goal, history)
        return mode, step


_MODES: TrialCache[SearchMode] = TrialCache(1024)
"""Modes by prefixes of histories; enough for a search of 200 trials with several claims."""


def search_mode(goal: PeakGoal, history: Sequence[LoadTrial]) -> SearchMode:
    """Return the search that continues a history; of the goal the criteria and the kind of claim
    count."""
    mode = SearchMode(goal.criteria[0])
    for n in range(min(len(history), 1), len(history) + 1):
        compute = functools.partial(_mode_of, goal, history[:n])
        mode = _MODES.value(history[:n], (goal.criteria, goal.claim.kind), compute)
        if mode.criterion is None:
            break
    return mode


def _mode_of(goal: PeakGoal, history: Sequence[LoadTrial]) -> SearchMode:
    """Return the search that would continue a history, without regard to shorter prefixes."""
    criterion = _first_to_fail(goal, history)
    if criterion is None:
        findings = server_findings(goal, history)
        without_curve = _criterion_without_curve(goal, history)
        return SearchMode(None, findings or no_curve_findings(without_curve))
    findings = shape_findings(goal, history)
    failed = sum(trial.ending is LoadEnding.FAILED for trial in history)
    if not findings and failed >= tuning.MOST_FAILED_RATES:
        findings = refusal_findings(history)
    if not findings and len(history) >= tuning.MOST_GUIDED_TRIALS:
        findings = not_converged_findings(history)
    return SearchMode(None, findings) if findings else SearchMode(criterion)


def _first_to_fail(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion | None:
    """Return the criterion with a curve that fails first, or the first one while none fails; None
    where a criterion without a curve fails first or no criterion has a curve."""
    curved = [c for c in goal.criteria if c.statistic in CURVED_STATISTICS]
    for trial in sorted(history, key=lambda trial: trial.rate):
        failing = [c for c in goal.criteria if value_share(c, trial) > 1]
        failing_curved = [c for c in failing if c in curved]
        if failing_curved:
            return max(failing_curved, key=lambda c: value_share(c, trial))
        for criterion in failing:
            holds = load_by_criterion(criterion, [trial]).below(1.0)
            if holds < tuning.SURELY_FAILS:
                return None
    return curved[0] if curved else None


def _criterion_without_curve(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion:
    """Return the criterion without a curve that was furthest beyond its limit in any trial."""
    return max(
        (c for c in goal.criteria if c.statistic not in CURVED_STATISTICS),
        key=lambda c: max((value_share(c, trial) for trial in history), default=0.0),
    )


def _goal_of_criterion(goal: PeakGoal, criterion: Criterion) -> PeakGoal:
    return msgspec.structs.replace(goal, criteria=(criterion,))


def _is_refused(step: Probe | ClaimResult, history: Sequence[LoadTrial]) -> bool:
    """Return whether a probe or an answer is at or above a rate that failed."""
    rate = step.rate if isinstance(step, Probe) else step.peak_rate
    return rate is not None and rate >= lowest_failed(history)


def _with_findings(
    result: ClaimResult, mode: SearchMode, goal: PeakGoal, history: Sequence[LoadTrial]
) -> ClaimResult:
    """Return a result with the findings about the server; undecided where it drifted."""
    seen = long_runs(goal, history)
    codes = {finding.code for finding in mode.findings}
    late = [
        server_finding
        for server_finding in (
            *server_findings(goal, seen.trials),
            *short_run_findings(seen),
        )
        if server_finding.code not in codes
    ]
    of_region = region_at_wall(goal, history, result)
    findings = (*result.findings, *mode.findings, *late, *of_region)
    complete = msgspec.structs.replace(
        result, policy=DefaultPeakPolicy.name, findings=findings
    )
    drifts = [finding.evidence for finding in findings if finding.code == DRIFT_CODE]
    if not drifts or result.status is not PeakStatus.FOUND:
        return complete
    return msgspec.structs.replace(
        complete,
        status=PeakStatus.UNDECIDED,
        detail=f"the server drifted during the search ({drifts[0]}), so the answer may not "
        f"hold; without drift it would be: {result.detail}",
        claim_probability=None,
    )
