"""When a test with levels of replication stops, and which replicate its next trials are of.

The replicates of fixed numbers run in order, each outer one completed before the next, so that what
is made for one is made once. Environments take turns (core/replication.py). Sources:
decide/allocation.py for numbers that the controller chooses; stats/nested.py for the estimate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from benchwright.core.plan import (
    Replicated,
    ReplicatePath,
    Replication,
    RunMore,
    StopDecision,
    UntilPrecise,
)
from benchwright.core.quantity import exponential, finite
from benchwright.core.replication import outermost_take_turns, takes_turns, turn_of
from benchwright.core.results import LevelSpread, Population
from benchwright.core.text import plural, replicates_text
from benchwright.decide.allocation import next_path
from benchwright.decide.history import History, ReplicateOutcome, missing_text
from benchwright.stats.nested import NestedEstimate, Prediction, nested_estimate


def decide_replicated(rule: Replicated, history: History) -> RunMore | StopDecision:
    """Return the next trials, all of one replicate, or why the test stops."""
    if rule.precise is not None:
        return next_path(rule, history)
    replication, outcomes = rule.replication, history.outcomes
    path = next_in_order(replication, outcomes)
    if path is None:
        return _ended(rule, history)
    assert replication.trials is not None, "the numbers are given"
    if takes_turns(replication):
        return RunMore(1, path)
    done = sum(one.path == path and one.counts for one in outcomes)
    return RunMore(replication.trials - done, path)


def next_in_order(
    replication: Replication, outcomes: Sequence[ReplicateOutcome]
) -> ReplicatePath | None:
    """Return the replicate of the next trial where all numbers are given; None at the end."""
    assert replication.trials is not None
    first = (replication.only or 1, *(1 for _ in replication.levels[1:]))
    path = outcomes[-1].path if outcomes else first
    if takes_turns(replication):
        return _in_turn(replication, outcomes, path)
    done = sum(one.path == path and one.counts for one in outcomes)
    return path if done < replication.trials else _following(replication, path)


def _in_turn(
    replication: Replication, outcomes: Sequence[ReplicateOutcome], path: ReplicatePath
) -> ReplicatePath | None:
    """Return the one of a path's innermost siblings whose turn it is; the first one of the next outer
    replicate where all have their trials, None after the last."""
    *outer, _ = path
    done = Counter(one.path for one in outcomes if one.counts)
    siblings = [(*outer, number + 1) for number in range(replication.levels[-1].count or 0)]
    rounds = min(done[one] for one in siblings)
    if rounds == replication.trials:
        following = _following(replication, siblings[-1])
        return None if following is None else _in_turn(replication, outcomes, following)
    waiting = [one for one in siblings if done[one] == rounds]
    return min(waiting, key=lambda one: turn_of(replication, one, rounds))


_FAR = 1000.0
"""Added to log ratios, so that a half width as a share of the mean is one of the log ratio."""


def next_block(
    replication: Replication, outcomes: Sequence[ReplicateOutcome], precise: UntilPrecise
) -> RunMore | StopDecision:
    """Return the replicate of a comparison's next block, or why it stops: `count` at the end of given
    numbers, else as a test with a precision. Its target is a half width of the log ratios that
    outcomes have by the names of its metrics, its minimum a number of blocks."""
    if expected_trials(replication) is not None:
        path = next_in_order(replication, outcomes)
        return StopDecision("count", "") if path is None else RunMore(1, path)
    shifted = [
        one
        if one.values is None
        else msgspec.structs.replace(
            one, values={name: value + _FAR for name, value in one.values.items()}
        )
        for one in outcomes
    ]
    counted = [one for one in shifted if one.counts]
    failed = sum(one.values is None for one in counted)
    good = len(counted) - failed
    target = precise.target / _FAR if good >= precise.minimum else 0.0
    rule = Replicated(replication, precise.metrics, msgspec.structs.replace(precise, target=target))
    return next_path(rule, History(good, failed, outcomes=tuple(shifted)))


def _following(replication: Replication, path: ReplicatePath) -> ReplicatePath | None:
    numbers = list(path)
    for depth in reversed(range(0 if replication.only is None else 1, len(numbers))):
        count = replication.levels[depth].count
        assert count is not None, "the numbers are given"
        if numbers[depth] < count:
            numbers[depth] += 1
            return tuple(numbers)
        numbers[depth] = 1
    return None


def _ended(rule: Replicated, history: History) -> StopDecision:
    if not history.trials:
        detail = f"all {history.failed} trials failed: there is nothing to estimate"
        return StopDecision("failed", detail, answered=False)
    if absent := [name for name in history.metrics if not history.series.get(name)]:
        return StopDecision("missing", missing_text(absent, history), answered=False)
    return StopDecision("count", f"{_counts(rule, history)}, as requested")


def _counts(rule: Replicated, history: History) -> str:
    """Return how much ran: `50 trials in 5 environments`."""
    level = rule.replication.levels[0]
    outer = len({one.path[0] for one in history.outcomes if one.counts})
    trials = plural(history.epochs, "trial")
    failed = f" ({history.failed} failed)" if history.failed else ""
    return f"{trials}{failed} in {replicates_text(outer, level.kind)}"


def nested_of(
    replication: Replication,
    values: Sequence[float],
    paths: Sequence[ReplicatePath],
    confidence: float,
) -> NestedEstimate:
    """Return the mean over the outermost level, with what its error is made of. `values` and `paths`
    are in the order of their trials."""
    names = [level.kind.value for level in replication.levels]
    chosen = expected_trials(replication) is None
    in_turns = outermost_take_turns(replication)
    return nested_estimate(values, paths, confidence, names, sequential=chosen, in_turns=in_turns)


def expected_trials(replication: Replication) -> int | None:
    """Return the number of trials of the design, without warm-up trials; None if it is chosen."""
    total = replication.trials
    for level in replication.levels:
        if total is None or level.count is None:
            return None
        total *= level.count
    return total


def population_of(
    nested: NestedEstimate, *, is_ratio: bool = False, least: float = -math.inf
) -> Population:
    """Return what the replicates show. `is_ratio`: whether the values are logarithms of ratios of
    blocks; then the ends of predictions are ratios. `least`: the smallest possible value."""
    mean = nested.mean
    per = 1.0 if is_ratio else abs(mean.value)
    innermost = "block" if is_ratio else "trial"

    def share(value: float) -> float | None:
        return finite(value / per) if per else None

    def ends(found: Prediction) -> tuple[float | None, float | None]:
        if is_ratio:
            return finite(exponential(found.low)), finite(exponential(found.high))
        return finite(max(found.low, least)), finite(found.high)

    return Population(
        tuple(
            LevelSpread(
                innermost if one is nested.components[-1] else one.name,
                one.replicates,
                share(one.sdev),
                share(math.sqrt(one.low)),
                share(math.sqrt(one.high)),
                one.share_of_error,
            )
            for one in nested.components
        ),
        share(mean.half_width),
        share(nested.components[0].limit),
        ends(nested.next_replicate),
        ends(nested.next_trial),
    )


def level_spreads(
    replication: Replication,
    values: Sequence[float],
    paths: Sequence[ReplicatePath],
    confidence: float,
) -> tuple[LevelSpread, ...]:
    """Return by how much positive values differ between the replicates of each level, trials last;
    nothing where one is not positive."""
    if not values or min(values) <= 0:
        return ()
    logs = [math.log(value) for value in values]
    levels = population_of(nested_of(replication, logs, paths, confidence), is_ratio=True).levels
    return (*levels[:-1], msgspec.structs.replace(levels[-1], level="trial"))
