"""The trials of a search as a policy sees them, with failures resolved, and those in which the
generator, not the server, missed the limit.

Decision: a policy never sees an unusable trial. A probe that failed is run once more. If that fails
too and lower rates worked, the server does not sustain the rate: the policy gets one trial with
ending FAILED. For a policy this ending always means overload without a value. `LoadTrial.rate`
remains the intended rate, so that a policy finds its probes; a trial whose generator was far below
that rate counts at the offered rate (`counted_rate`). A missing value is not zero, and the achieved
rate is not the offered rate (GLOSSARY.md). A trial that only its generator spoilt is not seen
either (`LateTrials`), nor the closed loop of the first guess.

A response counts from its intended start. Where the generator came late to its operations, it also
includes the generator's own lateness (`LoadTrial.target_values` are the values without it).
Decision: a trial that exceeds a limit only because of that decides nothing: it is void, and its
rate is tried again. The repetitions are spread over time by trials at the highest rate that held,
so that one preemption of the machine cannot spoil them all. If they stay void, the rate cannot be
tested here: a lower one is tried, and after some of them the search ends with what held. Where a
trial's verdict is the same both ways, its values without the lateness count, because they are those
of the server. Rejected: response from the actual start alone, which hides a server that is too slow
for a generator that waits for it; a threshold on the lateness, because 5 ms matter for a limit of
10 ms and not for one of 100.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from benchwright.core.results import Figure, Finding, Severity, states
from benchwright.features.generators.findings import (
    LATE_MARK,
    OPERATIONS_MISSING,
    late_figures,
    late_text,
    mark_findings,
    neighbours_text,
)
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import (
    SEARCH_SUBJECT,
    TrialCache,
    exceeded,
    in_asked_units,
    is_behind,
    is_void,
    late_share,
    limits_hold,
)
from benchwright.features.search.peak.policies.policy import limit_s
from benchwright.features.search.types import PeakGoal
from benchwright.findings.codes import make_finding

_ON_TIME: TrialCache[LoadTrial] = TrialCache(4096)


def on_time(trial: LoadTrial) -> LoadTrial:
    """Return a trial as it is without the generator's lateness: the values, and the series in
    proportion."""
    if not trial.target_values:
        return trial
    return _ON_TIME.value([trial], None, lambda: _computed_on_time(trial))


def _computed_on_time(trial: LoadTrial) -> LoadTrial:
    values = trial.values | trial.target_values
    columns = dict(trial.series.values)
    for key, column in columns.items():
        ratio = _ratio(values.get(key), trial.values.get(key))
        if ratio != 1.0:
            columns[key] = tuple(ratio * value for value in column)
    series = trial.series
    series = LoadSeries(series.at_s, series.width_s, series.counts, columns, series.binned_by)
    return msgspec.structs.replace(trial, values=values, series=series)


def _ratio(value: float | None, whole: float | None) -> float:
    if value is None or whole is None or not whole > 0:
        return 1.0
    ratio = value / whole
    return ratio if math.isfinite(ratio) else 1.0


class LateTrials(msgspec.Struct, frozen=True):
    """The trials of a search that are void, and what is to be done about the last of them."""

    usable: tuple[LoadTrial, ...]
    """The trials that are not void."""
    void: tuple[LoadTrial, ...] = ()
    next: Probe | None = None
    """The next probe, where a void one is to be tried again."""
    ended: bool = False
    """Whether no rate above those that held can be tested with this generator, here and now."""
    untestable: float = math.inf
    """The lowest rate that was void `ENOUGH_TRIALS` times, and never usable [1/s]."""


def late_trials(goal: PeakGoal, history: Sequence[LoadTrial]) -> LateTrials:
    """Return which trials of a history are void; it has none of a closed loop, and no unresolved
    failure."""
    is_late = [is_void(goal.criteria, trial) for trial in history]
    void = tuple(itertools.compress(history, is_late))
    usable = tuple(itertools.compress(history, map(operator.not_, is_late)))
    if not void:
        return LateTrials(usable)
    tested = {trial.rate for trial in usable}
    times = {t.rate: sum(v.rate == t.rate for v in void) for t in void}
    blocked = [
        rate
        for rate, number in times.items()
        if rate not in tested and number >= tuning.ENOUGH_TRIALS
    ]
    untestable = min(blocked, default=math.inf)
    held = [t.rate for t in usable if limits_hold(goal.criteria, t) and t.rate < untestable]
    last = void[-1]
    pending = last.rate not in tested and times[last.rate] < tuning.ENOUGH_TRIALS
    if pending and last.rate < untestable:
        again = history[-1].rate != last.rate or not held
        rate = last.rate if again else max(held)
        purpose = "again" if again else "control"
        return LateTrials(usable, void, Probe(rate, last.duration_s, purpose))
    mostly = len(void) >= max(tuning.MANY_TRIALS, tuning.VOID_MOST_SHARE * len(history))
    low = max(held, default=0.0)
    return LateTrials(
        usable, void, ended=mostly or untestable < tuning.NEAR_RATES * low, untestable=untestable
    )


def late_findings(
    goal: PeakGoal, rate: float | None, history: Sequence[LoadTrial], late: LateTrials
) -> tuple[Finding, ...]:
    """Return the finding about a late generator with its amounts, for an answer of this rate [1/s].

    It is serious where the lateness, not the server, decided how the search ended: where rates
    could not be tested, or the trials beside the answer were late by much of the limit.
    """
    known = [trial for trial in history if trial.late_p99_ms is not None]
    worst = [t for t in known if _late_share(goal, t) > tuning.LATE_SHARE]
    if not worst:
        return ()
    beside = tuning.NEAR_RATES
    deciding = [
        trial for trial in known if rate is None or rate / beside <= trial.rate <= rate * beside
    ]
    failed = [trial for trial in deciding if exceeded(goal.criteria, trial)]
    mostly_late = any(
        sum(_late_share(goal, t) > tuning.LATE_MUCH for t in some) > len(some) / 2
        for some in (deciding, failed)
    )
    many_void = len(late.void) >= tuning.VOID_MOST_SHARE * len(history)
    serious = late.ended or many_void or mostly_late
    shown = states(
        "search",
        late=len(worst),
        trials=len(history),
        **late_figures(worst, _least_limit_ms(goal)),
        beside=neighbours_text(worst),
        void=len(late.void) or None,
    )
    severity = Severity.SERIOUS if serious else None
    return (make_finding(LATE_MARK, SEARCH_SUBJECT, shown, severity),)


def late_of_limit_text(goal: PeakGoal, trials: Sequence[LoadTrial]) -> str:
    """Return how late the generator came: `p99 up to 258 ms (limit 50 ms)`."""
    return late_text(trials, _least_limit_ms(goal))


def _least_limit_ms(goal: PeakGoal) -> float | None:
    limits_s = [s for s in map(limit_s, goal.criteria) if s]
    return 1e3 * min(limits_s) if limits_s else None


def _late_share(goal: PeakGoal, trial: LoadTrial) -> float:
    """Return how much a trial's lateness matters: for what it exceeds, else for the limits of
    times."""
    wrong = exceeded(goal.criteria, trial)
    timed = [criterion for criterion in goal.criteria if limit_s(criterion)]
    return max((late_share(one, trial) for one in wrong or timed), default=0.0)


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
    # Where the lateness is known, its finding has the amounts (`late_findings`).
    known = any(trial.late_p99_ms is not None for trial in history)
    findings = mark_findings(history, SEARCH_SUBJECT)
    return tuple(finding for finding in findings if not known or finding.code != LATE_MARK)
