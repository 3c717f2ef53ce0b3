"""Our search as it is offered: a queue's shape while it fits, and only order where it does not.

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

from benchwright.control.peak.doubts import (
    DRIFT,
    contradicted,
    doubts,
    no_claim,
    no_curve,
    no_queue,
    refuses,
)
from benchwright.control.peak.doubts_drift import check_for_drift
from benchwright.control.peak.doubts_order import check_for_order
from benchwright.control.peak.loads import load_by, value_share
from benchwright.control.peak.monotone import PURPOSES, Monotone
from benchwright.control.peak.policy import Policy
from benchwright.control.peak.qgs import QGS
from benchwright.control.peak.remembered import Remembered
from benchwright.control.peak.seen import lowest_failed
from benchwright.model.finding import Finding
from benchwright.model.peak import (
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
)

MOST_TRIALS = 40
"""Of the guided search: one that has not converged by then will not."""
MOST_FAILED = 2
"""... and with so many rates that failed, the limit is where the server refuses."""
SHAPED = ("mean", "percentile")
"""Statistics that a queue's curve is known of."""
SURELY = 0.1
"""Probability that a criterion without a curve holds, below which it is what fails."""


class Course(msgspec.Struct, frozen=True):
    """By which search a history goes on, and why."""

    criterion: Criterion | None
    """Whose curve is followed; None: only order is believed in."""
    told: tuple[Finding, ...] = ()
    """The doubts that ended the belief."""


class Guided:
    """QGS where the server is a queue, Monotone where it is not."""

    name = "qgs"

    def __init__(self, guided: Policy | None = None, fallback: Policy | None = None):
        self.guided = guided or QGS()
        self.fallback = fallback or Monotone()

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        course = course_of(goal, history)
        step: Probe | PeakResult | None = None
        if course.criterion is not None:
            followed = _followed(goal, course.criterion)
            step = self.guided.next(followed, history)
            course = _still(course, followed, history, step)
        if step is None or course.criterion is None or _is_refused(step, history):
            step = self.fallback.next(goal, history)
        if isinstance(step, PeakResult) and step.status is PeakStatus.FOUND:
            check = check_for_order(goal, history)
            if check is None and not course.told:
                # Where the capacity depends on the load, a change of it tells no drift.
                check = check_for_drift(goal, history)
            step = check or step
        return _told(step, course, goal, history)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough, by who asked for it."""
        if probe.purpose in PURPOSES:
            return self.fallback.leaves(goal, history, probe, so_far)
        criterion = _first_to_fail(goal, [*history, so_far])
        if criterion is None:
            return False
        return self.guided.leaves(_followed(goal, criterion), history, probe, so_far)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now."""
        course = course_of(goal, history)
        result: PeakResult | None = None
        if course.criterion is not None:
            followed = _followed(goal, course.criterion)
            result = self.guided.best(followed, history)
            course = _still(course, followed, history, result)
        if result is None or course.criterion is None or _is_refused(result, history):
            result = self.fallback.best(goal, history)
        told = _told(result, course, goal, history)
        assert isinstance(told, PeakResult)
        return told


_COURSES: Remembered[Course] = Remembered(1024)
"""By beginnings of histories: those of a search of 200 trials, with several claims."""


def course_of(goal: PeakGoal, history: Sequence[LoadTrial]) -> Course:
    """Return by which search a history goes on; it depends on the goal's criteria alone."""
    course = Course(goal.criteria[0])
    for n in range(min(len(history), 1), len(history) + 1):
        compute = functools.partial(_course, goal, history[:n])
        course = _COURSES.value(history[:n], goal.criteria, compute)
        if course.criterion is None:
            break
    return course


def _told(
    step: Probe | PeakResult,
    course: Course,
    goal: PeakGoal,
    history: Sequence[LoadTrial],
) -> Probe | PeakResult:
    """Return a step; a result with the doubts about the server, undecided where one of
    them takes the answer away."""
    if isinstance(step, Probe):
        return step
    codes = {finding.code for finding in course.told}
    late = [found for found in doubts(goal, history) if found.code not in codes]
    findings = (*step.findings, *course.told, *late)
    result = msgspec.structs.replace(step, policy=Guided.name, findings=findings)
    drifts = [finding.evidence for finding in findings if finding.code == DRIFT]
    if not drifts or step.status is not PeakStatus.FOUND:
        return result
    return msgspec.structs.replace(
        result,
        status=PeakStatus.UNDECIDED,
        detail=f"the server drifted during the search ({drifts[0]}), so the answer may not "
        f"hold; without drift it would be: {step.detail}",
        claim_probability=None,
    )


def _still(
    course: Course,
    followed: PeakGoal,
    history: Sequence[LoadTrial],
    step: Probe | PeakResult,
) -> Course:
    """Return a course that follows a curve, or the other one, where the curve's result is
    contradicted by its own runs."""
    if isinstance(step, Probe):
        return course
    wrong = contradicted(followed, history, step)
    return Course(None, wrong) if wrong else course


def _course(goal: PeakGoal, history: Sequence[LoadTrial]) -> Course:
    """Return by which search a history would go on, were there nothing before it."""
    criterion = _first_to_fail(goal, history)
    if criterion is None:
        return Course(None, doubts(goal, history) or no_curve(_unshaped(goal, history)))
    told = no_queue(goal, history)
    failed = sum(trial.ending is LoadEnding.FAILED for trial in history)
    if not told and failed >= MOST_FAILED:
        told = refuses(history)
    if not told and len(history) >= MOST_TRIALS:
        told = no_claim(history)
    return Course(None, told) if told else Course(criterion)


def _unshaped(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion:
    """Return the criterion without a curve that is or was furthest beyond its limit."""
    return max(
        (c for c in goal.criteria if c.statistic not in SHAPED),
        key=lambda c: max((value_share(c, trial) for trial in history), default=0.0),
    )


def _is_refused(step: Probe | PeakResult, history: Sequence[LoadTrial]) -> bool:
    """Tell whether a probe or an answer is at a rate that failed, or above one."""
    rate = step.rate if isinstance(step, Probe) else step.peak_rate
    return rate is not None and rate >= lowest_failed(history)


def _followed(goal: PeakGoal, criterion: Criterion) -> PeakGoal:
    return msgspec.structs.replace(goal, criteria=(criterion,))


def _first_to_fail(goal: PeakGoal, history: Sequence[LoadTrial]) -> Criterion | None:
    """Return the criterion whose curve is to be followed; None where it has none."""
    shaped = [c for c in goal.criteria if c.statistic in SHAPED]
    for trial in sorted(history, key=lambda trial: trial.rate):
        failing = [c for c in goal.criteria if value_share(c, trial) > 1]
        curved = [c for c in failing if c in shaped]
        if curved:
            return max(curved, key=lambda c: value_share(c, trial))
        if any(load_by(c, [trial]).below(1.0) < SURELY for c in failing):
            return None
    return shaped[0] if shaped else None
