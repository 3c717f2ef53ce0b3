"""The trials of a search as a policy sees them, with failures resolved.

Decision: a policy never sees an unusable trial. A probe that failed is run once more. If that fails
too and lower rates worked, the server does not sustain the rate: the policy gets one trial with
ending FAILED. For a policy this ending always means overload without a value. `LoadTrial.rate`
remains the intended rate, so that a policy finds its probes; a trial whose generator was far below
that rate counts at the offered rate (`counted_rate`). A missing value is not zero, and the achieved
rate is not the offered rate (GLOSSARY.md). A trial that only its generator spoilt is not seen
either (lateness.py), nor the closed loop of the first guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from benchwright.core.results import Figure, Finding, states
from benchwright.features.generators.findings import OPERATIONS_MISSING, mark_findings
from benchwright.features.generators.marked_trials import LATE_MARK
from benchwright.features.load.trial import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import (
    SEARCH_SUBJECT,
    in_asked_units,
    is_behind,
)
from benchwright.features.search.peak.policies.lateness import LateTrials, late_trials, on_time
from benchwright.features.search.types import PeakGoal
from benchwright.findings.codes import make_finding


class ResolvedHistory(msgspec.Struct, frozen=True):
    """A search's history with its failures resolved."""

    trials: tuple[LoadTrial, ...]
    """The trials that the policy sees, without the generator's lateness."""
    retry: Probe | None = None
    """A probe that failed once, or that is void, and is run again."""
    fatal: LoadTrial | None = None
    """A probe that failed twice where no lower rate had worked."""
    behind: tuple[LoadTrial, ...] = ()
    """Trials whose generator was behind."""
    overloads: tuple[LoadTrial, ...] = ()
    """Trials whose failure counts as overload."""
    failures: int = 0
    guess: LoadTrial | None = None
    """The closed loop of the first guess."""
    late: LateTrials = LateTrials(())


def lowest_failed(trials: Sequence[LoadTrial]) -> float:
    """Return the lowest rate whose failure counts as overload; infinite without one [1/s].

    `trials` are those that a policy sees.
    """
    failed = (t.rate for t in trials if t.ending is LoadEnding.FAILED)
    return min(failed, default=math.inf)


def why_unusable(goal: PeakGoal, trial: LoadTrial) -> str:
    """Return why a trial cannot be used; empty where it can."""
    if trial.why_failed:
        return trial.why_failed
    # An infinite value is usable: a percentile beyond the longest wait.
    absent = [
        criterion.key
        for criterion in goal.criteria
        if math.isnan(trial.values.get(criterion.key, math.nan))
    ]
    if not absent:
        return ""
    why = f": {trial.failure}" if trial.failure else ""
    why = ": no operation was offered" if trial.offered == 0 else why
    return f"it reported no value of {' and '.join(absent)}{why}"


def resolve_failures(goal: PeakGoal, history: Sequence[LoadTrial]) -> ResolvedHistory:
    """Return the history with failures and void trials resolved."""
    history = in_asked_units(history)
    guess = next((trial for trial in history if trial.users is not None), None)
    open_loops = [trial for trial in history if trial.users is None]
    resolved = _without_failures(goal, open_loops)
    late = late_trials(goal, resolved.trials)
    return replace(
        resolved,
        trials=tuple(map(on_time, late.usable)),
        retry=resolved.retry or late.next,
        guess=guess,
        late=late,
    )


def _without_failures(goal: PeakGoal, history: Sequence[LoadTrial]) -> ResolvedHistory:
    trials: list[LoadTrial] = []
    behind, overloads = [], []
    streak: LoadTrial | None = None
    failures = 0
    for trial in history:
        why = why_unusable(goal, trial)
        if not why:
            streak = None
            behind += [trial] if is_behind(trial) else []
            trials.append(trial)
            continue
        failures += 1
        failed = replace(trial, ending=LoadEnding.FAILED, failure=why)
        if streak is None or streak.rate != trial.rate:
            streak = failed
        elif any(earlier.rate < trial.rate for earlier in trials):
            streak = None
            overloads.append(failed)
            trials.append(failed)
        else:
            return ResolvedHistory(tuple(trials), fatal=failed, failures=failures)
    retry = None
    if streak is not None:
        retry = Probe(streak.rate, streak.duration_s, "again")
    return ResolvedHistory(
        tuple(trials),
        retry=retry,
        behind=tuple(behind),
        overloads=tuple(overloads),
        failures=failures,
    )


def trial_findings(resolved: ResolvedHistory, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the findings that do not depend on a policy."""
    return (
        # Where operations are missing, nobody knows whether the generator was behind.
        *_behind_finding([t for t in resolved.behind if OPERATIONS_MISSING not in t.marks]),
        *_overload_finding(resolved.overloads),
        *_failure_finding(resolved, len(history)),
        *_mark_findings(history),
    )


def _behind_finding(trials: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    if not trials:
        return ()
    worst = min(trials, key=lambda trial: trial.offered_rate / trial.rate)
    shown = states(
        trials=len(trials),
        least=Figure(tuning.BEHIND_SHARE, "%"),
        offered=Figure(worst.offered_rate, "1/s"),
        rate=Figure(worst.rate, "1/s"),
        share=Figure(worst.offered_rate / worst.rate, "%"),
    )
    return (make_finding("generator-behind", SEARCH_SUBJECT, shown),)


def _overload_finding(trials: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return one finding about all rates that failed, with the failure at the lowest rate."""
    if not trials:
        return ()
    by_rate = sorted(trials, key=lambda trial: trial.rate)
    rates = list(dict.fromkeys(f"{trial.rate:.5g}" for trial in by_rate))
    several = len(rates) > 1
    shown = states(
        rates=len(rates) if several else None,
        highest=by_rate[-1].rate if several else None,
        failure=by_rate[0].failure,
    )
    subject = f"{SEARCH_SUBJECT} rate {rates[0]}/s"
    return (make_finding("failure-counted-as-overload", subject, shown),)


def _failure_finding(resolved: ResolvedHistory, trials: int) -> tuple[Finding, ...]:
    overloads, fatal = len(resolved.overloads), resolved.fatal is not None
    single = resolved.failures - 2 * overloads - 2 * fatal
    if single <= 0:
        return ()
    shown = states(again=single, trials=trials)
    return (make_finding("probe-failed", SEARCH_SUBJECT, shown),)


def _mark_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    # Where the lateness is known, its finding has the amounts (lateness.py).
    known = any(trial.late_p99_ms is not None for trial in history)
    found = mark_findings(history, SEARCH_SUBJECT)
    return tuple(one for one in found if not known or one.code != LATE_MARK)
