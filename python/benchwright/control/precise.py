"""The decision of a rule of precision: run more, or stop with the interval reached.

Purpose: batches that end where something is decided, limits, and the reason in words.
Decision: limits end the test undecided, with the interval reached: stopping by count or
by time does not look at values. With several metrics each is sized by itself and the
worst decides; each interval has its own confidence.
Non-goals: how a metric is sized (stage.py); dependence and modes as doubts (finding/).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchwright.control.history import History
from benchwright.control.stage import Stage, next_look, pilot_size, stages
from benchwright.model.decision import Decision, RunMore, Stop
from benchwright.model.estimate import Estimate, Reached
from benchwright.model.plan import UntilPrecise


def decide_precise(rule: UntilPrecise, history: History) -> Decision:
    """Return the decision of a rule of precision."""
    found = stages(rule, history)
    left = _to_next_look(rule, history)
    if not left and all(stage.satisfied for stage in found):
        return _stop(rule, found, ("precise", _plan_text(rule, history, found)))
    ended = _cannot(rule, history, found) or _limit(rule, history)
    if ended is not None:
        return _stop(rule, found, ended, answered=False)
    return RunMore(_batch(rule, history, found, left))


def _stop(
    rule: UntilPrecise,
    found: Sequence[Stage],
    why: tuple[str, str],
    *,
    answered: bool = True,
) -> Stop:
    reason, text = why
    return Stop(
        reason,
        text + _reached_text(rule, found),
        answered=answered,
        looks=max(
            [1 if stage.have else 0 for stage in found]
            + [stage.looks for stage in found]
        ),
        target=rule.target,
        reached=tuple(
            Reached(s.name, rule.statistic, s.estimate.n, bounded(s.estimate))
            for s in found
        ),
    )


def bounded(estimate: Estimate) -> Estimate | None:
    """Return an estimate whose interval has both its ends, else None."""
    return estimate if math.isfinite(estimate.half_width) else None


def _to_next_look(rule: UntilPrecise, history: History) -> int:
    """Return how many epochs are missing to where something is decided; 0 there."""
    first = pilot_size(rule)
    if rule.mode == "plan" or history.epochs < first:
        return max(first - history.epochs, 0)
    return next_look(first, history.epochs) - history.epochs


def _batch(
    rule: UntilPrecise, history: History, found: Sequence[Stage], left: int
) -> int:
    """Return how many epochs to run: never past a point where something is decided."""
    if left:
        wanted = left
    elif rule.mode == "watch":
        wanted = next_look(pilot_size(rule), history.epochs + 1) - history.epochs
    else:
        wanted = max(
            rule.maximum if stage.need is None else stage.need - stage.have
            for stage in found
        )
    most = rule.maximum - history.epochs
    return max(1, min(wanted, most, _affordable(rule, history)))


def _cannot(
    rule: UntilPrecise, history: History, found: Sequence[Stage]
) -> tuple[str, str] | None:
    """Return why no number of further trials would help, after a whole pilot."""
    if history.epochs < pilot_size(rule):
        return None
    if not history.trials:
        return "failed", f"all {history.failed} epochs failed"
    absent = [stage.name for stage in found if not stage.have]
    if absent:
        names = ", ".join(absent)
        return "missing", f"{names} is in none of {history.trials} completed trials"
    return None


def _limit(rule: UntilPrecise, history: History) -> tuple[str, str] | None:
    """Return which limit is reached. A trial is not begun that, at the mean duration
    so far, would end after max_time."""
    if history.epochs >= rule.maximum:
        return "max-runs", f"{history.epochs} epochs, the most allowed"
    if rule.max_time_ns is None or not history.epochs:
        return None
    left = rule.max_time_ns - history.duration_ns
    if left <= 0 or left * history.epochs < history.duration_ns:
        spent, limit = history.duration_ns / 1e9, rule.max_time_ns / 1e9
        return "max-time", f"{spent:.1f} s of {limit:.1f} s spent"
    return None


def _affordable(rule: UntilPrecise, history: History) -> int:
    """Return how many epochs fit into the time left; one, to learn their duration."""
    if rule.max_time_ns is None:
        return rule.maximum
    if not history.epochs:
        return 1
    if not history.duration_ns:
        return rule.maximum
    left = rule.max_time_ns - history.duration_ns
    return left * history.epochs // history.duration_ns


def reached_intervals(rule: UntilPrecise, history: History) -> tuple[Estimate, ...]:
    """Return the interval of each metric of the rule, as it is now."""
    return tuple(stage.estimate for stage in stages(rule, history))


def _plan_text(rule: UntilPrecise, history: History, found: Sequence[Stage]) -> str:
    looks = max(stage.looks for stage in found)
    times = "one look" if looks == 1 else f"{looks} looks"
    if rule.mode == "watch":
        return f"{history.trials} trials, {times} of a confidence sequence"
    size = pilot_size(rule)
    more = history.trials - size
    plan = f" and {more} more trials" if more > 0 else " was enough"
    return f"pilot of {size}{plan}, {times}"


def _reached_text(rule: UntilPrecise, found: Sequence[Stage]) -> str:
    """Return `; elapsed 6.06 +- 1.07 % (target 5 %)` for every metric."""
    parts = []
    for stage in found:
        estimate = stage.estimate
        name = stage.name if rule.share is None else f"{rule.statistic} {stage.name}"
        if not math.isfinite(estimate.half_width):
            parts.append(f"{name}: no interval from n = {estimate.n}")
            continue
        parts.append(f"{name} {estimate.value:.6g} ± {half_width_text(estimate)}")
    level = f"{100 * rule.confidence:g} % confidence"
    return "; " + ", ".join(parts) + f" (target {100 * rule.target:g} %, {level})"


def half_width_text(estimate: Estimate) -> str:
    """Return the half width in percent of the value, or in units for a value of 0."""
    if estimate.value:
        return f"{100 * estimate.half_width / abs(estimate.value):.3g} %"
    return f"{estimate.half_width:.3g}"
