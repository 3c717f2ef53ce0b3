"""What a search's trials say against its assumptions: a queue, a steady one, more is slower.

Purpose: the findings of a search, and which of them end the belief in a queue's curve. Every
way out of that belief has a finding with its reason.
Decision: a doubt must be clear; on servers that are queues hardly one search in a hundred
may be told of any. So each has a test with a high threshold and a least size.
Source: docs/peak.md; the figures behind the thresholds are tests/calibration's.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.control.peak.doubts_drift import drift
from benchwright.control.peak.doubts_misfit import misfit
from benchwright.control.peak.doubts_order import not_monotonic
from benchwright.control.peak.doubts_overload import retrograde, sheds
from benchwright.control.peak.doubts_pauses import stalls
from benchwright.control.peak.remembered import Remembered
from benchwright.finding.codes import doubt
from benchwright.finding.load_words import name_of
from benchwright.finding.words import counted
from benchwright.model.finding import Finding, Severity
from benchwright.model.peak import (
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakResult,
)

NO_QUEUE = "curve-fits-no-queue"
DRIFT = "drift"
SUBJECT = "search"


_DOUBTS: Remembered[tuple[Finding, ...]] = Remembered(64)


def doubts(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return every doubt about the server that the trials give reason for; of the goal it
    looks at the criteria only."""
    key = ("all", goal.criteria)
    return _DOUBTS.value(history, key, lambda: _doubts(goal, history))


def _doubts(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    shape = no_queue(goal, history)
    each = (
        *shape,
        *_told("sheds-load", sheds(goal, history)),
        *_told("response-not-monotonic", not_monotonic(goal, history)),
        # Where the capacity depends on the load, a change of it tells no drift.
        *_told(DRIFT, "" if shape else drift(goal, history)),
    )
    return tuple({found.code: found for found in reversed(each)}.values())[::-1]


def no_queue(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubts with which a queue's curve is not to be believed; none: it may."""
    key = ("shape", goal.criteria[0])
    return _DOUBTS.value(history, key, lambda: _no_queue(goal, history))


def _no_queue(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    backwards, pauses = retrograde(goal, history), stalls(goal, history)
    first = backwards or pauses
    return (
        *_told(NO_QUEUE, first),
        *_told("retrograde-under-overload", backwards),
        *_told("server-stalls", pauses),
    )


def no_claim(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return why a search goes on without a curve that came to no claim in so many trials:
    a note, since a queue can be so too."""
    evidence = (
        f"the queue model did not converge in {counted(len(history), 'trial')}; continued "
        "with the monotone search (this says nothing against the server)"
    )
    return (doubt(NO_QUEUE, SUBJECT, evidence, Severity.NOTE),)


def no_curve(criterion: Criterion) -> tuple[Finding, ...]:
    """Return what is to be said of a criterion that no queue's curve is known of."""
    evidence = (
        f"no queue's curve is known of what limits ({name_of(criterion)}): the search "
        "assumes only that more load is not better"
    )
    return (doubt(NO_QUEUE, SUBJECT, evidence, Severity.NOTE),)


def refuses(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubt about a server whose limit is where it, or its generator, fails."""
    failed = [trial.rate for trial in history if trial.ending is LoadEnding.FAILED]
    evidence = (
        f"{counted(len(failed), 'rate')} failed, from {min(failed):.5g}/s on: the limit is where "
        "the server refuses, of which a queue's curve knows nothing"
    )
    return _told(NO_QUEUE, evidence)


def contradicted(
    goal: PeakGoal, history: Sequence[LoadTrial], result: PeakResult
) -> tuple[Finding, ...]:
    """Return the doubt about a curve that its own runs contradict."""
    return _told(NO_QUEUE, misfit(goal, history, result))


def _told(code: str, evidence: str) -> tuple[Finding, ...]:
    return (doubt(code, SUBJECT, evidence),) if evidence else ()
