"""Findings about a server: what its trials show beside the answer.

Decision: a finding must be certain, because on servers without the problem at most about one search
in a hundred may have one. So each has a high threshold and a minimum effect (tuning.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from benchwright.core.criterion import criterion_name
from benchwright.core.results import Figure, Finding, FindingFigures, states
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import SEARCH_SUBJECT, limits_hold, tallies
from benchwright.features.search.peak.policies.monotone_posterior import (
    load_by_criterion,
    value_share,
)
from benchwright.features.search.peak.policies.reading import LongRuns, find_pauses
from benchwright.features.search.types import PeakGoal
from benchwright.findings.codes import make_finding


def server_findings(
    goal: PeakGoal, history: Sequence[LoadTrial], seen: LongRuns
) -> tuple[Finding, ...]:
    """Return the findings about the server; `seen` are the trials of `history` that are long
    enough."""
    pauses = find_pauses(goal.criteria[0], seen.trials)
    short = None
    if seen.evidence:
        longest, least = Figure(seen.too_short_s, "s"), Figure(seen.least_s, "s")
        short = states(seen=seen.evidence, longest=longest, least=least)
    each: dict[str, str | FindingFigures | None] = {
        "throughput-drops-under-overload": throughput_drop(goal, seen.trials),
        "server-stalls": pauses.figures if pauses else None,
        "sheds-load": load_shedding(goal, seen.trials),
        "response-not-monotonic": not_monotonic(goal, history),
        "short-runs-contradict": short,
    }
    return tuple(
        make_finding(code, SEARCH_SUBJECT, evidence) for code, evidence in each.items() if evidence
    )


def throughput_drop(goal: PeakGoal, history: Sequence[LoadTrial]) -> FindingFigures | None:
    """Return evidence that the server completed less under overload than in trials that held, if
    any.

    An overloaded queue completes its capacity; a server that completes less has more work for each
    operation then.
    """
    counted = [
        (trial, trial.completed)
        for trial in history
        if trial.completed is not None and trial.ending is not LoadEnding.FAILED
    ]
    held = [one for one in counted if limits_hold(goal.criteria, one[0])]
    over = [
        (trial, completed)
        for trial, completed in counted
        if trial.offered and completed < tuning.BEHIND_SHARE * trial.offered
    ]
    drops = []
    for (low, served), (high, completed) in itertools.product(held, over):
        if low.rate >= high.rate:
            continue
        before, after = served / low.lasted_s, completed / high.lasted_s
        error = math.hypot(max(served, 1) ** -0.5, max(completed, 1) ** -0.5)
        drop = 1 - after / before if before else 0.0
        if drop > tuning.DROP_LEAST + tuning.CERTAIN_Z * error:
            drops.append((drop, before, low, after, high))
    if len(drops) < tuning.CONFIRMED_TRIALS:
        return None
    drop, before, low, after, high = max(drops, key=lambda one: one[0])
    return states(
        rate=Figure(high.rate, "1/s"),
        after=Figure(after, "1/s"),
        drop=Figure(drop, "%"),
        before=Figure(before, "1/s"),
        low=Figure(low.rate, "1/s"),
    )


def load_shedding(goal: PeakGoal, history: Sequence[LoadTrial]) -> FindingFigures | None:
    """Return evidence that errors rise while the response stays flat, if any."""
    timed = [c for c in goal.criteria if c.statistic in ("mean", "percentile")]
    refusing = [t for t in history if _error_share(t) > tuning.SHEDDING_ERRORS]
    if not timed or not refusing:
        return None
    flat = tuning.QUIET_LIMITS
    if any(value_share(c, t) >= flat for c in timed for t in refusing):
        return None
    worst = max(refusing, key=_error_share)
    value = load_by_criterion(timed[0], [worst]).value
    return states(
        rate=Figure(worst.rate, "1/s"),
        share=Figure(_error_share(worst), "%"),
        criterion=criterion_name(timed[0]),
        value=Figure(value, "%"),
    )


def _error_share(trial: LoadTrial) -> float:
    known = (trial.completed or 0) + trial.errors
    return trial.errors / known if known and trial.completed is not None else 0.0


def not_monotonic(goal: PeakGoal, history: Sequence[LoadTrial]) -> FindingFigures | None:
    """Return evidence that a rate fails below one that holds, each by several trials and clearly,
    if any."""
    rates = tallies(goal.criteria, history)
    fails = next((r for r in rates if r.failed - r.held >= tuning.CONFIRMED_TRIALS), None)
    if fails is None:
        return None
    apart = tuning.NEAR_RATES * fails.rate
    holds = [r for r in rates if r.rate > apart and r.held - r.failed >= tuning.CONFIRMED_TRIALS]
    if not holds:
        return None
    high = holds[-1]
    return states(
        failed=fails.failed,
        fails=fails.held + fails.failed,
        low=Figure(fails.rate, "1/s"),
        held=high.held,
        holds=high.held + high.failed,
        high=Figure(high.rate, "1/s"),
    )
