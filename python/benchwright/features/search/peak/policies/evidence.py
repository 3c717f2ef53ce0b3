"""What the trials of a search show without any model: which rates held, which failed, and how
often.

Purpose: what was measured outweighs what was fitted. No result lies beyond the rates that were
tried, no interval excludes a rate that held and that nothing contradicts, and a rate fails only by
the majority of its trials.

`TrialCache`, a cache for pure functions of trials, changes the time and no result. Decision: a
value is identified by the trials themselves (the same objects) and a key for its other inputs.
Rejected: values stored in a policy, because a report and a running search each have their own
policy.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.results import Estimate
from benchwright.features.generators.findings import count_unit, in_asked_unit
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.policy import limit_s, share_of_limit
from benchwright.features.search.types import ClaimResult, PeakStatus, RateTally, rounded_bound

CachedValue = TypeVar("CachedValue")


class TrialCache(Generic[CachedValue]):
    """The most recent values of a pure function of trials."""

    def __init__(self, most: int) -> None:
        """Make a cache of at most `most` values."""
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Sequence[LoadTrial], CachedValue]] = OrderedDict()

    def value(
        self, trials: Sequence[LoadTrial], key: Hashable, compute: Callable[[], CachedValue]
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


SEARCH_SUBJECT = "search"


_IN_UNIT: TrialCache[LoadTrial] = TrialCache(4096)


def in_asked_units(history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
    """Return the trials with their counts in operations as they were asked for.

    A generator that always counts the same part of what it is asked for, or several for each, has
    another unit: its counts do not show that it, or the server, was at its limit.
    """
    unit = count_unit(history)
    if unit is None:
        return history
    # Rounded, so that a trial stays the same object while more of them make the unit more exact.
    unit = float(f"{unit:.3g}")
    return [_IN_UNIT.value([trial], unit, partial(in_asked_unit, trial, unit)) for trial in history]


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
    return count < tuning.BEHIND_SHARE * wanted and missing > (tuning.CERTAIN_Z * math.sqrt(wanted))


def counted_rate(trial: LoadTrial) -> float:
    """Return the rate at which a trial counts: the offered rate if behind, else the intended [1/s]."""
    failed = trial.ending is LoadEnding.FAILED
    return trial.offered_rate if is_behind(trial) and not failed else trial.rate


def limits_hold(criteria: Sequence[Criterion], trial: LoadTrial) -> bool:
    """Return whether a trial met every criterion that it has a value of, and did not fail."""
    return trial.ending is not LoadEnding.FAILED and not exceeded(criteria, trial)


def is_void(criteria: Sequence[Criterion], trial: LoadTrial) -> bool:
    """Return whether a trial exceeds its limits perhaps only because the generator was late
    (trials.py).

    That is so for each of them if it would have held without the lateness; or if the lateness is
    much of the limit and the rest is not far beyond it, because the operations that waited for the
    generator then came in bursts.
    """
    if trial.ending is LoadEnding.FAILED or trial.users is not None:
        return False
    wrong = exceeded(criteria, trial)
    return bool(wrong) and all(_only_late(one, trial) for one in wrong)


def _only_late(criterion: Criterion, trial: LoadTrial) -> bool:
    value = trial.target_values.get(criterion.key)
    if value is None:
        return False
    if criterion.holds(value):
        return True
    if late_share(criterion, trial) <= tuning.LATE_MUCH:
        return False
    if criterion.statistic in ("ratio", "share"):
        # One in a hundred operations came later than the p99, in a burst that may have made each of
        # them fail.
        wrong, allowed = value, criterion.limit
        if criterion.statistic == "share":
            wrong, allowed = 1 - value, 1 - criterion.limit
        return wrong < tuning.VOID_BEYOND * (allowed + 0.01)
    return float(share_of_limit(criterion, value)) < tuning.VOID_BEYOND


def late_share(criterion: Criterion, trial: LoadTrial) -> float:
    """Return how much the generator's lateness (p99) matters for a criterion: as a share of its
    limit, or where that is no time of a burst that a server may refuse."""
    late_ms = trial.late_p99_ms or 0.0
    limit = limit_s(criterion)
    if limit:
        return late_ms / (1e3 * limit)
    if criterion.statistic in ("ratio", "share"):
        return late_ms / 1e3 * counted_rate(trial) / tuning.LATE_BURST
    return 0.0


def exceeded(criteria: Sequence[Criterion], trial: LoadTrial) -> list[Criterion]:
    """Return the criteria that a trial exceeds by its values."""
    return [
        criterion
        for criterion in criteria
        if (value := trial.values.get(criterion.key)) is not None and not criterion.holds(value)
    ]


def tallies(criteria: Sequence[Criterion], trials: Sequence[LoadTrial]) -> tuple[RateTally, ...]:
    """Return how often each rate held and failed, in the order of the rates."""
    return tallies_of((counted_rate(t), limits_hold(criteria, t)) for t in trials)


def tallies_of(runs: Iterable[tuple[float, bool]]) -> tuple[RateTally, ...]:
    """Return how often each rate held and failed; of each run its rate and whether it held."""
    by_rate: dict[float, list[bool]] = {}
    for rate, holds in runs:
        by_rate.setdefault(rate, []).append(holds)
    return tuple(
        RateTally(rate, sum(held), len(held) - sum(held)) for rate, held in sorted(by_rate.items())
    )


class MeasuredBounds(msgspec.Struct, frozen=True):
    """Where the peak is by the trials alone [1/s]."""

    held: float | None
    """The highest rate that held and that no failure at or below it contradicts; None: no such
    rate."""
    failed: float | None
    """The lowest rate that failed and that no rate at or above it contradicts by holding; None:
    none."""


def measured_bounds(rates: Sequence[RateTally]) -> MeasuredBounds:
    """Return the bounds that tallies show, in the order of their rates."""
    held: float | None = None
    for tally in rates:
        if tally.fails:
            break
        held = tally.rate
    failed: float | None = None
    for tally in reversed(rates):
        if not tally.fails:
            break
        failed = tally.rate
    return MeasuredBounds(held, failed)


def weighed(
    criteria: Sequence[Criterion],
    result: ClaimResult,
    trials: Sequence[LoadTrial],
    step: float | None = None,
) -> ClaimResult:
    """Return a result that its trials do not contradict, with a rate that a generator with this
    step can offer [1/s].

    Where no rate failed the result is the highest rate, as a lower bound, and where none held the
    lowest, as an upper bound. Otherwise its interval is widened up to the rates that held, and down
    to those that failed.
    """
    rates = tallies(criteria, trials)
    if not rates or result.peak_rate is None or result.bound_kind is not None:
        return result
    bounds = measured_bounds(rates)
    if not any(tally.fails for tally in rates):
        return bound_result(result, "lower", rates[-1].rate)
    if all(tally.fails for tally in rates):
        return bound_result(result, "upper", rates[0].rate)
    rate = result.peak_rate
    if result.status is not PeakStatus.FOUND:
        rate = max(rate, bounds.held or 0.0)
        rate = min(rate, rates[-1].rate)
        if bounds.failed is not None and rate >= bounds.failed:
            # A rate that exceeded a limit is no answer: the middle to the one that held.
            below = [t.rate for t in rates if not t.fails and t.rate < bounds.failed]
            held = max(below, default=bounds.failed)
            middle = math.sqrt(held * bounds.failed)
            rate = max(rounded_bound(middle, step, math.floor), held)
    changed = rate != result.peak_rate
    return msgspec.structs.replace(
        result,
        peak_rate=rate,
        interval=_widened(result.interval, rate, bounds),
        claim_probability=None if changed else result.claim_probability,
        # The fit says something else than the trials, and the check was beside its answer.
        curve=() if changed else result.curve,
        check=() if changed else result.check,
    )


def bound_result(result: ClaimResult, bound: str, rate: float) -> ClaimResult:
    """Return a result whose rate is only a bound: `lower` or `upper`. It has no check, which is
    beside an answer, and no curve of another answer."""
    return msgspec.structs.replace(
        result,
        curve=result.curve if rate == result.peak_rate else (),
        peak_rate=rate,
        bound=bound,
        interval=None,
        claim_probability=None,
        check=(),
    )


def _widened(interval: Estimate | None, rate: float, bounds: MeasuredBounds) -> Estimate | None:
    if interval is None:
        return None
    low = min(interval.low, rate, bounds.failed or math.inf)
    high = max(interval.high, rate, bounds.held or 0.0)
    return msgspec.structs.replace(interval, value=rate, low=low, high=high)
