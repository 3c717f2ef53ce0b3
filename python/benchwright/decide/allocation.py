"""The next trials of a design whose numbers the controller chooses: how many replicates of each level
pay, and when the interval is narrow enough. A function of the history.

Method: outermost replicates are completed one after the other. The first three are a pilot: two
replicates of each inner level in each, and as many trials as pay if trials differ as much as the
innermost replicates. Then each outermost replicate has the numbers that narrow the interval most
per second by the components and the costs so far (Kalibera and Jones 2013, section 7: replicates of a
level in proportion to the square root of its variance over the cost of one; a level that would have
fewer than its outer one is joined with it). A component counts as at least a share of its mean square,
and numbers grow at most fourfold from one replicate to the next, because few replicates show a
component roughly. There is a look after each outermost replicate from the fourth on; the interval is
wider for the looks (stats/nested.py).
Decision: an outermost replicate is not visited again, although more trials in the first ones would
sometimes pay: a boot or an hour cannot be made twice. They have smaller weights instead.
Lost: a plan of the remaining cost by the projected number of replicates; it chose single trials too
often, and cost up to 3 times the best fixed design where making a replicate is expensive.
Source: T. Kalibera and R. Jones 2013, Rigorous benchmarking in reasonable time, ISMM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.plan import (
    PILOT_TRIALS,
    Replicated,
    ReplicatePath,
    Replication,
    RunMore,
    StopDecision,
    UntilPrecise,
)
from benchwright.core.results import ReachedPrecision
from benchwright.core.text import duration_ns_text, percent_text, plural, replicates_text
from benchwright.decide.history import History, ReplicateOutcome, missing_text
from benchwright.decide.precision import bounded, half_width_text, precise_enough
from benchwright.stats import special
from benchwright.stats.intervals import t_quantile
from benchwright.stats.nested import NestedEstimate, nested_estimate

PILOT_REPLICATES = 3
"""Outermost replicates of the pilot; the first look is after one more."""
_FEWEST = 2
"""Replicates in each of the pilot's: with fewer there is no variance within one."""
_GROWTH = 4
"""From one outermost replicate to the next, each number grows at most by this factor."""
_MOST_FAILURES = 10
"""So many more failed trials than good ones end a test."""
_CERTAIN = 0.999
"""A target is out of reach only if even the least variance that has this probability needs more."""

Shape = tuple[int, ...]
"""How many there are in each replicate of the next outer level, of each inner level; the last are
trials."""


def spent_ns(outcomes: Sequence[ReplicateOutcome]) -> int:
    """Return the time of all trials and of all replicates that were made [ns]."""
    return sum(one.spent_ns + sum(one.made_ns) for one in outcomes)


def next_path(rule: Replicated, history: History) -> RunMore | StopDecision:
    """Return the next trials, all of one replicate, or why the test stops; for a rule with a
    precision."""
    precise = rule.precise
    assert precise is not None, "without a precision the numbers are given"
    outcomes = history.outcomes
    outermost = outcomes[-1].path[0] if outcomes else 1
    here = _within((outermost,), _shape(rule, outcomes, outermost), outcomes)
    limit = _limit(precise, history)
    if here is None or limit is not None:
        ending = _look(rule, history, limit)
        if ending is not None:
            return ending
    if here is None:
        there = outermost + 1
        here = _within((there,), _shape(rule, outcomes, there), outcomes)
    assert here is not None, "a new replicate has room"
    return RunMore(min(here.epochs, max(precise.maximum - history.epochs, 1)), here.path)


def _within(
    path: ReplicatePath, shape: Shape, outcomes: Sequence[ReplicateOutcome]
) -> RunMore | None:
    """Return the next trials within a replicate of this shape; None if it is complete."""
    inner = shape[len(path) - 1 :]
    own = [one for one in outcomes if one.path[: len(path)] == path]
    if len(inner) == 1:
        left = inner[0] - sum(one.counts for one in own)
        return RunMore(left, path) if left > 0 else None
    for number in range(1, inner[0] + 1):
        if (found := _within((*path, number), shape, own)) is not None:
            return found
    return None


# -- how many pay ------------------------------------------------------------------------


def _shape(rule: Replicated, outcomes: Sequence[ReplicateOutcome], outermost: int) -> Shape:
    """Return the numbers within an outermost replicate, from the outcomes before it."""
    replication = rule.replication
    if outermost <= PILOT_REPLICATES:
        chosen = _pilot_shape(replication, outcomes)
    else:
        before = [one for one in outcomes if one.path[0] < outermost]
        chosen = _best_shape(rule, before, outermost)
    given = (*(level.count for level in replication.levels[1:]), replication.trials)
    return tuple(own or number for own, number in zip(given, chosen, strict=True))


def _pilot_shape(replication: Replication, outcomes: Sequence[ReplicateOutcome]) -> Shape:
    levels = len(replication.levels)
    trials = _FEWEST
    first = [one for one in outcomes if one.path == (1,) * levels and one.made_ns]
    if first and first[0].spent_ns:
        # As many as pay if trials differ as much as these replicates.
        ratio = math.sqrt(first[0].made_ns[-1] / first[0].spent_ns)
        trials = max(_FEWEST, min(round(ratio), PILOT_TRIALS))
    return (*[_FEWEST] * (levels - 1), trials)


def _best_shape(rule: Replicated, before: Sequence[ReplicateOutcome], outermost: int) -> Shape:
    levels = len(rule.replication.levels) + 1
    costs = _costs(before, levels)
    nested = max(
        (_nested(rule, before, name) for name in rule.metrics),
        key=lambda one: one.mean.half_width / (abs(one.mean.value) or 1.0),
    )
    variances = [max(one.variance, one.least) if one.degrees else 0.0 for one in nested.components]
    numbers = pooled_numbers(variances, costs)
    last = _numbers_of([one for one in before if one.path[0] == outermost - 1], levels)
    return tuple(
        min(max(round(number), 1), _GROWTH * most)
        for number, most in zip(numbers, last, strict=True)
    )


def _costs(outcomes: Sequence[ReplicateOutcome], levels: int) -> list[float]:
    """Return the mean cost of one replicate of each level, without what is in it; of trials the
    last [ns]."""
    found = []
    for depth in range(1, levels):
        made = len({one.path[:depth] for one in outcomes})
        total = sum(one.made_ns[depth - 1] for one in outcomes if one.made_ns)
        found.append(total / made)
    return [*found, sum(one.spent_ns for one in outcomes) / len(outcomes)]


def pooled_numbers(variances: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Return how many replicates of each level but the outermost pay in each of the next outer one.

    `variances` and `costs` (of one replicate without what is in it) are of all levels, outermost
    first, trials last. Numbers are at least 1: a level that would have fewer replicates than its
    outer level is joined with it.
    """
    # Blocks of joined levels: how many levels, their variance, their cost.
    blocks: list[tuple[int, float, float]] = []
    for variance, cost in zip(variances, costs, strict=True):
        blocks.append((1, variance, cost))
        while len(blocks) > 1 and _density(blocks[-2]) >= _density(blocks[-1]):
            (more, other, paid), (count, own, price) = blocks[-2:]
            blocks[-2:] = [(more + count, other + own, paid + price)]
    found = []
    for place, block in enumerate(blocks):
        if place:
            found.append(math.sqrt(_density(block) / _density(blocks[place - 1])))
        found += [1.0] * (block[0] - 1)
    return found


def _density(block: tuple[int, float, float]) -> float:
    """Return the square of a number to which replicates of joined levels are in proportion."""
    _, variance, cost = block
    return max(variance, _LEAST) / max(cost, _LEAST)


_LEAST = 1e-300
"""In place of a variance or a cost of 0."""


def _numbers_of(outcomes: Sequence[ReplicateOutcome], levels: int) -> list[int]:
    """Return how many of each inner level an outermost replicate had in its first replicates."""
    path = outcomes[0].path
    found = [
        len({one.path[depth] for one in outcomes if one.path[:depth] == path[:depth]})
        for depth in range(1, levels - 1)
    ]
    return [*found, sum(one.path == path and one.counts for one in outcomes)]


# -- when it ends ------------------------------------------------------------------------


class _Ending(msgspec.Struct, frozen=True):
    """Why a test ends without an answer."""

    reason: str
    text: str


def _nested(rule: Replicated, outcomes: Sequence[ReplicateOutcome], name: str) -> NestedEstimate:
    """Return the mean of a metric, with the interval by which the test stops."""
    known = [
        (one.values[name], one.path)
        for one in outcomes
        if one.counts and one.values is not None and name in one.values
    ]
    paths = np.array([path for _, path in known], dtype=np.int64)
    return nested_estimate(
        [value for value, _ in known],
        paths.reshape(len(known), len(rule.replication.levels)),
        rule.confidence,
        sequential=True,
    )


def _limit(precise: UntilPrecise, history: History) -> _Ending | None:
    """Return the limit that is reached, wherever the trials are; it depends on no value."""
    if history.failed >= history.trials + _MOST_FAILURES:
        return _Ending("failed", f"{history.failed} of {history.epochs} failed")
    if history.epochs >= precise.maximum:
        return _Ending("max-runs", "the maximum")
    if precise.max_time_ns is not None and spent_ns(history.outcomes) >= precise.max_time_ns:
        return _Ending("max-time", f"{duration_ns_text(precise.max_time_ns)} are used up")
    return None


def _look(rule: Replicated, history: History, limit: _Ending | None) -> StopDecision | None:
    """Return the end if the interval is narrow enough, or if no more trials run; else None."""
    found = {name: _nested(rule, history.outcomes, name) for name in rule.metrics}
    replicates = min(one.replicates for one in found.values())
    count = rule.replication.levels[0].count or math.inf
    first = min(PILOT_REPLICATES + 1, count)
    are_precise = all(precise_enough(one.mean, rule.target or 0.0) for one in found.values())
    if replicates >= first and are_precise:
        return _stop(rule, history, found, _Ending("precise", ""))
    made = history.outcomes[-1].path[0]
    ending = limit
    if ending is None and made >= count:
        ending = _Ending("max-runs", "as many as requested")
    if ending is None and made >= PILOT_REPLICATES:
        ending = _hopeless(rule, history, found)
    return None if ending is None else _stop(rule, history, found, ending)


def _hopeless(
    rule: Replicated, history: History, found: Mapping[str, NestedEstimate]
) -> _Ending | None:
    """Return why another outermost replicate would not help."""
    if not history.trials:
        return _Ending("failed", "all of which failed")
    absent = [name for name, one in found.items() if not one.mean.n]
    if absent:
        return _Ending("missing", missing_text(absent, history))
    precise = rule.precise
    assert precise is not None
    made, spent = history.outcomes[-1].path[0], spent_ns(history.outcomes)
    if precise.max_time_ns is not None and spent + spent / made > precise.max_time_ns:
        limit = duration_ns_text(precise.max_time_ns)
        return _Ending("max-time", f"another would end after {limit}")
    if precise.give_up_ns is None or spent < precise.give_up_ns:
        return None
    fewest = max(_fewest(rule, one) for one in found.values())
    time, trials = fewest * spent / made, fewest * history.epochs / made
    is_beyond = trials > precise.maximum
    if precise.max_time_ns is not None:
        is_beyond |= time > precise.max_time_ns
    if not is_beyond:
        return None
    # Two digits: it is a projection.
    level = rule.replication.levels[0].kind
    number = replicates_text(int(float(f"{fewest:.2g}")), level)
    needed = duration_ns_text(float(f"{time:.2g}"))
    target = percent_text(rule.target or 0.0, 10)
    return _Ending("out-of-reach", f"±{target} needs at least {number} ({needed})")


def _fewest(rule: Replicated, found: NestedEstimate) -> float:
    """Return how many outermost replicates the target needs at least, with as many in each as so
    far on average."""
    ratio = found.mean.half_width / (abs(found.mean.value) or 1.0) / (rule.target or 1.0)
    if not math.isfinite(ratio):
        return 0.0
    # The least variance that these replicates allow; Student's quantile falls to the normal one.
    scale = found.degrees / special.chi_square_quantile(found.degrees, _CERTAIN)
    quantile = special.normal_quantile(0.5 + rule.confidence / 2)
    narrower = quantile / t_quantile(rule.confidence, found.degrees)
    return found.replicates * ratio**2 * scale * narrower**2


def _stop(
    rule: Replicated, history: History, found: Mapping[str, NestedEstimate], ending: _Ending
) -> StopDecision:
    outer = max(one.replicates for one in found.values())
    number = replicates_text(outer, rule.replication.levels[0].kind)
    detail = f"{plural(history.epochs, 'trial')} in {number}"
    if ending.text:
        detail += f", {ending.text}"
    widths = [
        f"{name} {one.mean.value:.6g} ± {half_width_text(one.mean)}"
        if math.isfinite(one.mean.half_width)
        else f"{name}: no interval"
        for name, one in found.items()
    ]
    target = percent_text(rule.target or 0.0, 10)
    level = f"{percent_text(rule.confidence, 10)} confidence"
    return StopDecision(
        ending.reason,
        f"{detail}; {', '.join(widths)} (target {target}, {level})",
        answered=ending.reason == "precise",
        looks=max(outer - PILOT_REPLICATES, 0),
        target=rule.target,
        reached=tuple(
            ReachedPrecision(name, "mean", one.mean.n, bounded(one.mean))
            for name, one in found.items()
        ),
    )
