"""What a search's trials say against its assumptions: a queue, a steady one, more is slower.

Purpose: the findings of a search, and which of them end the belief in a queue's curve.
Decision: a doubt must be clear; on servers that are queues hardly one search in a hundred
may be told of any. So each has a test with a high threshold and a least size.
Source: docs/peak.md; the figures behind the thresholds are tests/calibration's.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.control.peak.doubts_drift import drift
from benchwright.control.peak.doubts_order import not_monotonic
from benchwright.control.peak.doubts_overload import retrograde, sheds
from benchwright.control.peak.doubts_pauses import stalls
from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.model.peak import LoadTrial, PeakGoal

NO_QUEUE = "curve-fits-no-queue"
SUBJECT = "search"


def doubts(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return every doubt about the server that the trials give reason for."""
    shape = no_queue(goal, history)
    each = (
        *shape,
        *_told("sheds-load", sheds(goal, history)),
        *_told("response-not-monotonic", not_monotonic(goal, history)),
        # Where the capacity depends on the load, a change of it tells no drift.
        *_told("drift", "" if shape else drift(goal, history)),
    )
    return tuple({found.code: found for found in reversed(each)}.values())[::-1]


def no_queue(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubts with which a queue's curve is not to be believed; none: it may."""
    backwards, pauses = retrograde(goal, history), stalls(goal, history)
    first = backwards or pauses
    return (
        *_told(NO_QUEUE, first),
        *_told("retrograde-under-overload", backwards),
        *_told("server-stalls", pauses),
    )


def _told(code: str, evidence: str) -> tuple[Finding, ...]:
    return (doubt(code, SUBJECT, evidence),) if evidence else ()
