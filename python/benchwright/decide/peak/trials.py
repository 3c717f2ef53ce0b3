"""The trials of a search as a policy sees them, with failures resolved.

Decision: a policy never sees an unusable trial. A probe that failed is run once more. If that
fails too and lower rates worked, the server does not sustain the rate: the policy gets one trial
with ending FAILED. For a policy this ending always means overload without a value.
`LoadTrial.rate` remains the intended rate, so that a policy finds its probes; a trial whose
generator was far below that rate counts at the offered rate (`counted_rate`).
A missing value is not zero, and the achieved rate is not the offered rate (GLOSSARY.md).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from benchwright.core.results import Finding
from benchwright.core.search import LoadEnding, LoadTrial, PeakGoal, Probe
from benchwright.core.text import percent_text, plural, was
from benchwright.decide.peak import tuning
from benchwright.findings.codes import finding_of_mark, make_finding

SEARCH_SUBJECT = "search"


class ResolvedHistory(msgspec.Struct, frozen=True):
    """A search's history with its failures resolved."""

    trials: tuple[LoadTrial, ...]
    """The trials that the policy sees."""
    retry: Probe | None = None
    """A probe that failed once and is run again."""
    fatal: LoadTrial | None = None
    """A probe that failed twice where no lower rate had worked."""
    behind: tuple[LoadTrial, ...] = ()
    """Trials whose generator was behind."""
    overloads: tuple[LoadTrial, ...] = ()
    """Trials whose failure counts as overload."""
    failures: int = 0


def is_behind(trial: LoadTrial) -> bool:
    """Return whether the generator offered far less than the intended rate."""
    return trial.offered is not None and _is_fewer(trial, trial.offered)


def is_short(trial: LoadTrial) -> bool:
    """Return whether far fewer operations ended than were intended, in a trial without counted
    arrivals."""
    if trial.offered is not None or trial.completed is None:
        return False
    return _is_fewer(trial, trial.completed + trial.errors)


def _is_fewer(trial: LoadTrial, count: int) -> bool:
    """Return whether a count is far below the intended one, by more than chance explains."""
    wanted = trial.rate * trial.lasted_s
    missing = wanted - count
    return count < tuning.BEHIND_SHARE * wanted and missing > (
        tuning.BEHIND_DEVIATIONS * math.sqrt(wanted)
    )


def counted_rate(trial: LoadTrial) -> float:
    """Return the rate at which a trial counts: the offered rate if behind, else the intended [1/s]."""
    return trial.offered_rate if is_behind(trial) else trial.rate


def lowest_failed(trials: Sequence[LoadTrial]) -> float:
    """Return the lowest rate whose failure counts as overload; infinite without one [1/s].

    `trials` are those that a policy sees.
    """
    failed = (t.rate for t in trials if t.ending is LoadEnding.FAILED)
    return min(failed, default=math.inf)


def why_unusable(goal: PeakGoal, trial: LoadTrial) -> str:
    """Return why a trial cannot be used; empty where it can."""
    if trial.ending is LoadEnding.FAILED:
        return trial.failure or "it failed"
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
    """Return the history with failures resolved."""
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


def trial_findings(
    resolved: ResolvedHistory, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    """Return the findings that do not depend on a policy."""
    return (
        *_behind_finding(resolved.behind),
        *_overload_finding(resolved.overloads),
        *_failure_finding(resolved, len(history)),
        *_mark_findings(history),
    )


def _behind_finding(trials: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    if not trials:
        return ()
    worst = min(trials, key=lambda trial: trial.offered_rate / trial.rate)
    share = 100 * worst.offered_rate / worst.rate
    evidence = (
        f"in {plural(len(trials), 'trial')} less than {percent_text(tuning.BEHIND_SHARE)} of the "
        "rate was "
        f"offered; the worst offered {worst.offered_rate:.5g}/s of {worst.rate:.5g}/s "
        f"({share:.0f} %)"
    )
    return (make_finding("generator-behind", SEARCH_SUBJECT, evidence),)


def _overload_finding(trials: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return one finding about all rates that failed, with the failure at the lowest rate."""
    if not trials:
        return ()
    by_rate = sorted(trials, key=lambda trial: trial.rate)
    rates = list(dict.fromkeys(f"{trial.rate:.5g}" for trial in by_rate))
    what = "the probe"
    if len(rates) > 1:
        what = f"at {len(rates)} rates, up to {rates[-1]}/s, the probe"
    evidence = (
        f"{what} failed twice in a row ({by_rate[0].failure}) and lower rates worked"
    )
    subject = f"{SEARCH_SUBJECT} rate {rates[0]}/s"
    return (make_finding("failure-counted-as-overload", subject, evidence),)


def _failure_finding(resolved: ResolvedHistory, trials: int) -> tuple[Finding, ...]:
    overloads, fatal = len(resolved.overloads), resolved.fatal is not None
    single = resolved.failures - 2 * overloads - 2 * fatal
    if single <= 0:
        return ()
    evidence = (
        f"{single} of {plural(trials, 'probe')} failed and {was(single)} run again"
    )
    return (make_finding("probe-failed", SEARCH_SUBJECT, evidence),)


def _mark_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    counts = Counter(mark for trial in history for mark in trial.marks)
    return tuple(
        finding_of_mark(
            code,
            SEARCH_SUBJECT,
            f"{code.replace('-', ' ')} in {n} of {plural(len(history), 'trial')}",
        )
        for code, n in counts.items()
    )


# -- a cache for pure functions of trials --------------------------------------------------------------
#
# With the cache, a decision computes only what is new. It changes the time and no result.
# Decision: a value is identified by the trials themselves (the same objects) and a key for its other
# inputs. Rejected: values stored in a policy, because a report and a running search each have their
# own policy.

CachedValue = TypeVar("CachedValue")


class TrialCache(Generic[CachedValue]):
    """The most recent values of a pure function of trials."""

    def __init__(self, most: int) -> None:
        """Make a cache of at most `most` values."""
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Sequence[LoadTrial], CachedValue]] = (
            OrderedDict()
        )

    def value(
        self,
        trials: Sequence[LoadTrial],
        key: Hashable,
        compute: Callable[[], CachedValue],
    ) -> CachedValue:
        """Return the value for these trials and this key, from the cache or from `compute`."""
        whole_key = (tuple(map(id, trials)), key)
        entry = self._values.pop(whole_key, None)
        # The trials are stored with the value, so that no other object gets their ids.
        entry = (tuple(trials), compute()) if entry is None else entry
        self._values[whole_key] = entry
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return entry[1]
