"""Trials in which the generator, not the server, missed the limit.

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

from benchwright.core.results import Finding, Severity, states
from benchwright.features.generators.marked_trials import (
    LATE_MARK,
    late_figures,
    late_text,
    neighbours_text,
)
from benchwright.features.load.trial import LoadSeries, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.cache import TrialCache
from benchwright.features.search.peak.policies.evidence import (
    SEARCH_SUBJECT,
    exceeded,
    is_void,
    late_share,
    limits_hold,
)
from benchwright.features.search.peak.policies.units import limit_s
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
