"""Stein's two stages: a pilot sets the number of trials, and one look ends the test.

Purpose: a precision that is promised and kept. Looking at the interval after every
trial and stopping when it is narrow selects samples whose variance happens to be
underestimated; on normal data of CV 16 % only 86 % of such "95 %" intervals cover
(reference/runners.md section 1.5). Here the pilot's variance sets the size, nothing
about the second stage is looked at before its end, and the interval uses the pilot's
variance with its degrees of freedom, which makes it exact for normal data whatever the
second stage holds.
Source: C. Stein 1945, A two-sample test for a linear hypothesis whose power is
independent of the variance, Annals of Mathematical Statistics 16(3), pp. 243-258.
Decisions: the relative target is made absolute with the pilot's mean; with several
metrics each is sized by its own pilot and the worst decides; a pilot is the first
`minimum` values that a metric has. Limits end the test undecided, with the interval
reached: stopping by count or by time does not look at values.
Non-goals: dependence and modes (findings of a later room), a level over all metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.control.history import History
from benchwright.model.decision import Decision, RunMore, Stop
from benchwright.model.estimate import Estimate
from benchwright.model.plan import UntilPrecise
from benchwright.stats.moments import moments
from benchwright.stats.students_t import t_interval, t_quantile

METHOD = "stein-two-stage"
_MOST = 10**9


class Stage(msgspec.Struct, frozen=True):
    """Where one metric stands."""

    name: str
    have: int
    """Values so far."""
    need: int | None
    """Values needed; None when no number of trials is enough (mean 0, or beyond 1e9)."""
    pilot_complete: bool

    @property
    def satisfied(self) -> bool:
        """True when the planned number of values is there."""
        return self.pilot_complete and self.need is not None and self.have >= self.need


def pilot_size(rule: UntilPrecise) -> int:
    """Return the pilot's size: the rule's minimum within its maximum, at least 2."""
    return max(2, min(rule.minimum, rule.maximum))


def sample_size(pilot: Sequence[float], target: float, confidence: float) -> int | None:
    """Return N = max(n0, ceil((t * s / (target * |mean|))^2)) for a pilot of n0 values.

    `target` is the half width as a share of the mean. Constant values need no second
    stage, also when they are all 0. None where no N is enough: mean 0 with a spread.
    """
    found = moments(pilot)
    assert found.n >= 2, "a pilot without a variance sizes nothing"
    if not found.sdev:
        return found.n
    if not found.mean:
        return None
    ratio = found.sdev / abs(found.mean) * t_quantile(confidence, found.n - 1) / target
    if ratio > math.sqrt(_MOST):
        return None
    return max(found.n, math.ceil(ratio * ratio))


def stein_interval(
    values: Sequence[float], pilot: int, confidence: float, unit: str = ""
) -> Estimate:
    """Return the mean of all values with Stein's interval from the first `pilot`.

    mean +- t(n0 - 1) * s0 / sqrt(n). With no more values than the pilot it is the
    plain Student-t interval; NaN for n < 2.
    """
    if len(values) <= pilot:
        plain = t_interval(values, confidence, unit)
        return (
            plain if plain.n < pilot else msgspec.structs.replace(plain, method=METHOD)
        )
    first, every = moments(values[:pilot]), moments(values)
    half = t_quantile(confidence, pilot - 1) * (first.sdev / math.sqrt(every.n))
    return Estimate(
        every.mean,
        every.mean - half,
        every.mean + half,
        confidence,
        METHOD,
        every.n,
        unit,
    )


def stages(rule: UntilPrecise, history: History) -> tuple[Stage, ...]:
    """Return where each metric of the rule stands."""
    size = pilot_size(rule)
    result = []
    for name in rule.metrics:
        values = history.series.get(name, ())
        complete = len(values) >= size
        need = (
            sample_size(values[:size], rule.target, rule.confidence)
            if complete
            else size
        )
        result.append(Stage(name, len(values), need, complete))
    return tuple(result)


def decide_precise(rule: UntilPrecise, history: History) -> Decision:
    """Return the decision of the two-stage rule."""
    found = stages(rule, history)
    if all(stage.satisfied for stage in found):
        return Stop("precise", _detail(rule, history), looks=1)
    ended = _cannot(rule, history, found) or _limit(rule, history)
    if ended is not None:
        reason, why = ended
        looks = 1 if history.trials else 0
        detail = why + _reached(rule, history)
        return Stop(reason, detail, answered=False, looks=looks)
    return RunMore(_batch(rule, history, found))


def _batch(rule: UntilPrecise, history: History, found: Sequence[Stage]) -> int:
    """Return how many epochs to run: never past a point where something is decided."""
    first = pilot_size(rule) - history.epochs
    if first > 0:
        wanted = first
    else:
        wanted = max(
            rule.maximum if stage.need is None else stage.need - stage.have
            for stage in found
        )
    left = rule.maximum - history.epochs
    return max(1, min(wanted, left, _affordable(rule, history)))


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
    size = pilot_size(rule)
    return tuple(
        stein_interval(history.series.get(name, ()), size, rule.confidence)
        for name in rule.metrics
    )


def _detail(rule: UntilPrecise, history: History) -> str:
    size = pilot_size(rule)
    more = history.trials - size
    plan = f"pilot of {size}" + (
        f" and {more} more trials" if more > 0 else " was enough"
    )
    return f"{plan}, one look{_reached(rule, history)}"


def _reached(rule: UntilPrecise, history: History) -> str:
    """Return `; elapsed 6.06 +- 1.07 % (target 5 %)` for every metric."""
    parts = []
    for name, estimate in zip(
        rule.metrics, reached_intervals(rule, history), strict=True
    ):
        if estimate.n < 2:
            parts.append(f"{name}: no interval from n = {estimate.n}")
            continue
        width = half_width_text(estimate)
        parts.append(f"{name} {estimate.value:.6g} ± {width}")
    level = f"{100 * rule.confidence:g} % confidence"
    return "; " + ", ".join(parts) + f" (target {100 * rule.target:g} %, {level})"


def half_width_text(estimate: Estimate) -> str:
    """Return the half width in percent of the mean, or in units for a mean of 0."""
    if estimate.value:
        return f"{100 * estimate.half_width / abs(estimate.value):.3g} %"
    return f"{estimate.half_width:.3g}"
