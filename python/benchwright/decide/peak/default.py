"""The default policy: the queue-guided search while its assumptions hold, the monotone search where they do not.

Purpose: `qgs` for users. QGS asks for a tenth of the load because it believes in a queue;
doubts.py looks whether it may. Once a doubt about the shape stands, `Monotone` has the rest of
the search, with every trial so far, and the result says why.
Decision: a doubt is for good. It is looked for in every beginning of the history, so the
policy stays a pure function of it, and a search does not waver between two methods. What was
found for a beginning is remembered (remembered.py).
Decision: only the last doubt, of runs that contradict the curve that a search would end with, is
looked for at that moment alone: with more runs the curve may find its way back.
Decision: a search that finds a drift has no answer: its claim would be of no moment. It ends
undecided, with its best answer and the doubt. Going on lost: the peak moves on too.
Decision: a rate that failed twice is not asked for again, and none above it: the curve knows
nothing of a server that refuses. Where it would have more, `Monotone` has the step.
Decision: of several criteria the curve is that of the one that fails first; where that is a
ratio, a share or a user's metric there is no curve to believe in.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from benchwright.core.results import Finding
from benchwright.core.search import (
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
)
from benchwright.decide.peak.diagnostics import (
    DRIFT_CODE,
    misfit_findings,
    no_curve_findings,
    not_converged_findings,
    refusal_findings,
    server_findings,
    shape_findings,
)
from benchwright.decide.peak.final_checks import check_for_drift, check_for_order
from benchwright.decide.peak.monotone import MONOTONE_PURPOSES, Monotone
from benchwright.decide.peak.monotone_posterior import load_by_criterion, value_share
from benchwright.decide.peak.policy import Policy
from benchwright.decide.peak.queue_guided import QueueGuided
from benchwright.decide.peak.trials import TrialCache, lowest_failed

MOST_GUIDED_TRIALS = 40
"""Of the guided search: one that has not converged by then will not."""
MOST_FAILED_RATES = 2
"""... and with so many rates that failed, the limit is where the server refuses."""
CURVED_STATISTICS = ("mean", "percentile")
"""Statistics that a queue's curve is known of."""
SURELY_FAILS = 0.1
"""Probability that a criterion without a curve holds, below which it is what fails."""


class SearchMode(msgspec.Struct, frozen=True):
    """By which search a history goes on, and why."""

    criterion: Criterion | None
    """Whose curve is followed; None: only order is believed in."""
    told: tuple[Finding, ...] = ()
    """The doubts that ended the belief."""


class DefaultPeakPolicy:
    """QGS where the server is a queue, Monotone where it is not."""

    name = "qgs"

    def __init__(self, guided: Policy | None = None, fallback: Policy | None = None):
        self.guided = guided or QueueGuided()
        self.fallback = fallback or Monotone()

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        course = search_mode(goal, history)
        step: Probe | PeakResult | None = None
        if course.criterion is not None:
            followed = _goal_of_criterion(goal, course.criterion)
            step = self.guided.next(followed, history)
            course = _unless_contradicted(course, followed, history, step)
        if step is None or course.criterion is None or _is_refused(step, history):
            step = self.fallback.next(goal, history)
        if isinstance(step, PeakResult) and step.status is PeakStatus.FOUND:
            check = check_for_order(goal, history)
            if check is None and not course.told:
                # Where the capacity depends on the load, a change of it tells no drift.
                check = check_for_drift(goal, history)
            step = check or step
        return _with_findings(step, course, goal, history)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough, by who asked for it."""
        if probe.purpose in MONOTONE_PURPOSES:
            return self.fallback.leaves(goal, history, probe, so_far)
        criterion = _first_to_fail(goal, [*history, so_far])
        if criterion is None:
            return False
        return self.guided.leaves(
            _goal_of_criterion(goal, criterion), history, probe, so_far
        )

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        course = search_mode(goal, history)
        result: PeakResult | None = None
        if course.criterion is not None:
            followed = _goal_of_criterion(goal, course.criterion)
            result = self.guided.best(followed, history)
            course = _unless_contradicted(course, followed, history, result)
        if result is None or course.criterion is None or _is_refused(result, history):
            result = self.fallback.best(goal, history)
        told = _with_findings(result, course, goal, history)
        assert isinstance(told, PeakResult)
        return told


_MODES: TrialCache[SearchMode] = TrialCache(1024)
"""By beginnings of histories: those of a search of 200 trials, with several claims."""


def search_mode(goal: PeakGoal, history: Sequence[LoadTrial]) -> SearchMode:
    """Return by which search a history goes on; it depends on the goal's criteria alone."""
    course = SearchMode(goal.criteria[0])
    for n in range(min(len(history), 1), len(history) + 1):
        compute = functools.partial(_mode_for, goal, history[:n])
        course = _MODES.value(history[:n], goal.criteria, compute)
        if course.criterion is None:
            break
    return course


def _with_findings(
    step: Probe | PeakResult,
    course: SearchMode,
    goal: PeakGoal,
    history: Sequence[LoadTrial],
) -> Probe | PeakResult:
    """Return a step; a result with the doubts about the server, undecided where one of
    them takes the answer away."""
    if isinstance(step, Probe):
        return step
    codes = {finding.code for finding in course.told}
    late = [
        found for found in server_findings(goal, history) if found.code not in codes
    ]
    findings = (*step.findings, *course.told, *late)
    result = msgspec.structs.replace(
        step, policy=DefaultPeakPolicy.name, findings=findings
    )
    drifts = [finding.evidence for finding in findings if finding.code == DRIFT_CODE]
    if not drifts or step.status is not PeakStatus.FOUND:
        return result
    return msgspec.structs.replace(
        result,
        status=PeakStatus.UNDECIDED,
        detail=f"the server drifted during the search ({drifts[0]}), so the answer may not "
        f"hold; without drift it would be: {step.detail}",
        claim_probability=None,
    )


def _unless_contradicted(
    course: SearchMode,
    followed: PeakGoal,
    history: Sequence[LoadTrial],
    step: Probe | PeakResult,
) -> SearchMode:
    """Return a course that follows a curve, or the other one, where the curve's result is
    contradicted by its own runs."""
    if isinstance(step, Probe):
        return course
    wrong = misfit_findings(followed, history, step)
    return SearchMode(None, wrong) if wrong else course


def _mode_for(goal: PeakGoal, history: Sequence[LoadTrial]) -> SearchMode:
    """Return by which search a history would go on, were there nothing before it."""
    criterion = _first_to_fail(goal, history)
    if criterion is None:
        return SearchMode(
            None,
            server_findings(goal, history)
            or no_curve_findings(_criterion_without_curve(goal, history)),
        )
    told = shape_findings(goal, history)
    failed = sum(trial.ending is LoadEnding.FAILED for trial in history)
    if not told and failed >= MOST_FAILED_RATES:
        told = refusal_findings(history)
    if not told and len(history) >= MOST_GUIDED_TRIALS:
        told = not_converged_findings(history)
    return SearchMode(None, told) if told else SearchMode(criterion)


def _criterion_without_curve(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion:
    """Return the criterion without a curve that is or was furthest beyond its limit."""
    return max(
        (c for c in goal.criteria if c.statistic not in CURVED_STATISTICS),
        key=lambda c: max((value_share(c, trial) for trial in history), default=0.0),
    )


def _is_refused(step: Probe | PeakResult, history: Sequence[LoadTrial]) -> bool:
    """Tell whether a probe or an answer is at a rate that failed, or above one."""
    rate = step.rate if isinstance(step, Probe) else step.peak_rate
    return rate is not None and rate >= lowest_failed(history)


def _goal_of_criterion(goal: PeakGoal, criterion: Criterion) -> PeakGoal:
    return msgspec.structs.replace(goal, criteria=(criterion,))


def _first_to_fail(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion | None:
    """Return the criterion whose curve is to be followed; None where it has none."""
    shaped = [c for c in goal.criteria if c.statistic in CURVED_STATISTICS]
    for trial in sorted(history, key=lambda trial: trial.rate):
        failing = [c for c in goal.criteria if value_share(c, trial) > 1]
        curved = [c for c in failing if c in shaped]
        if curved:
            return max(curved, key=lambda c: value_share(c, trial))
        if any(
            load_by_criterion(c, [trial]).below(1.0) < SURELY_FAILS for c in failing
        ):
            return None
    return shaped[0] if shaped else None
