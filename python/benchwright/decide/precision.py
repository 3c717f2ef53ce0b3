"""The precision rule: a test stops when the intervals of its metrics are narrow enough.

Three parts: Stein's two stages for a mean; how many values each metric needs under the rule
(a mean or a quantile by plan, or either by a confidence sequence); the decision with its limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.plan import Decision, RunMore, StopDecision, UntilPrecise
from benchwright.core.results import Estimate, ReachedPrecision
from benchwright.core.text import duration_ns_text, percent_text, plural
from benchwright.decide.history import History, missing_text
from benchwright.stats.dependence import cosine_count, inflation, long_run_sdev
from benchwright.stats.intervals import (
    quantile_interval,
    quantile_sequence_interval,
    t_interval,
    t_mixture_interval,
    t_quantile,
)
from benchwright.stats.moments import moments

# -- Stein's two stages: a pilot sets the number of trials, and one look ends the test -------------
#
# Looking at the interval after every trial and stopping when it is narrow selects samples whose
# variance happens to be underestimated; on normal data of CV 16 % only 86 % of such "95 %"
# intervals cover (simulated). Here the pilot's spread sets the size, nothing about the second
# stage is examined before its end, and the interval uses the pilot's spread with its degrees
# of freedom, which makes it exact for normal data whatever the second stage contains.
# Decisions: the spread is the pilot's long-run deviation (stats/dependence.py), so that the rule
# holds for correlated trials too, and at least its plain deviation; the pilot's mean converts the
# relative target to an absolute one; the pilot is the first values of a metric.
# Source: C. Stein 1945, A two-sample test for a linear hypothesis whose power is
# independent of the variance, Annals of Mathematical Statistics 16(3), pp. 243-258.

STEIN_METHOD = "stein-two-stage"
_MOST_VALUES = 10**9
"""A plan that needs more values counts as impossible."""


def sample_size(pilot: Sequence[float], target: float, confidence: float) -> int | None:
    """Return N = max(n0, ceil((t * s / (target * |mean|))^2)) for a pilot of n0 values.

    `target` is the half width as a share of the mean. Constant values need no second
    stage, even if all are 0. None where no N is enough: the mean is 0 but the values vary.
    """
    found = moments(pilot)
    assert found.n >= 2, "a pilot without a variance sizes nothing"
    if not found.sdev:
        return found.n
    if not found.mean:
        return None
    ratio = _reach(pilot, confidence) / abs(found.mean) / target
    if ratio > math.sqrt(_MOST_VALUES):
        return None
    return max(found.n, math.ceil(ratio * ratio))


def _reach(pilot: Sequence[float], confidence: float) -> float:
    """Return the half width of the mean's interval times the square root of n: t(nu) * s0
    from nu slow cosines, at least Student's from the same pilot. Without that minimum,
    values that alternate would give an interval that is far too narrow."""
    found = moments(pilot)
    slow = long_run_sdev(pilot)
    return max(
        slow * t_quantile(confidence, cosine_count(found.n)),
        found.sdev * t_quantile(confidence, found.n - 1),
    )


def stein_interval(values: Sequence[float], pilot: int, confidence: float) -> Estimate:
    """Return the mean of all values with Stein's interval from the first `pilot`.

    Before the pilot is complete: the plain Student-t interval of the values so far; NaN
    for n < 2.
    """
    if len(values) < pilot:
        return t_interval(values, confidence)
    every = moments(values)
    half = _reach(values[:pilot], confidence) / math.sqrt(every.n)
    return Estimate(
        every.mean,
        every.mean - half,
        every.mean + half,
        confidence,
        STEIN_METHOD,
        every.n,
    )


# -- how many values each metric needs ------------------------------------------------------------------
#
# Mean by plan: Stein's two stages. Quantile by plan: the pilot's interval sets the number of
# trials; if these are not enough, their interval sets it again; each look is counted. Watch: a
# confidence sequence, examined at fixed epoch counts, each 5 % above the one before.
# Decision: every call computes everything again from the values alone, so that a replayed
# history gives the same decisions as the live one.

RESIZE_SAFETY = 1.1
"""A resized quantile test plans this multiple of the trials that its last width requires."""


class MetricStage(msgspec.Struct, frozen=True):
    """How many values one metric has and needs."""

    name: str
    have: int
    """Values so far."""
    need: int | None
    """Values needed, by the current estimate; None when no number of trials is enough (the
    estimate is 0, or more than 1e9 trials)."""
    pilot_complete: bool
    looks: int
    """Number of looks at its values so far."""
    estimate: Estimate

    @property
    def satisfied(self) -> bool:
        """True when the metric has the planned number of values."""
        return self.pilot_complete and self.need is not None and self.have >= self.need


def pilot_size(rule: UntilPrecise) -> int:
    """Return the pilot's size: the rule's minimum within its maximum, at least 2."""
    return max(2, min(rule.minimum, rule.maximum))


def stages(rule: UntilPrecise, history: History) -> tuple[MetricStage, ...]:
    """Return how many values each metric of the rule has and needs."""
    return tuple(
        metric_stage(rule, name, history.series.get(name, ())) for name in rule.metrics
    )


def metric_stage(rule: UntilPrecise, name: str, values: Sequence[float]) -> MetricStage:
    """Return how many values one metric has and needs, and its interval under the rule."""
    by_plan = _planned_mean if rule.share is None else _planned_quantile
    stage_of = by_plan if rule.mode == "plan" else _watched_stage
    return stage_of(rule, name, values)


def precise_enough(estimate: Estimate, target: float) -> bool:
    """Return whether the interval's half width is within `target` of the value."""
    return estimate.half_width <= target * abs(estimate.value)


def _planned_mean(
    rule: UntilPrecise, name: str, values: Sequence[float]
) -> MetricStage:
    size, have = pilot_size(rule), len(values)
    estimate = stein_interval(values, size, rule.confidence)
    if have < size:
        return MetricStage(name, have, size, False, 0, estimate)
    need = sample_size(values[:size], rule.target, rule.confidence)
    return MetricStage(name, have, need, True, 1, estimate)


def _planned_quantile(
    rule: UntilPrecise, name: str, values: Sequence[float]
) -> MetricStage:
    assert rule.share is not None
    have = len(values)
    size = need = pilot_size(rule)
    looks = 0
    while have >= need:
        looks += 1
        found = quantile_interval(values[:need], rule.share, rule.confidence)
        if precise_enough(found, rule.target):
            break
        more = _resized(found, rule.target)
        if more is None:
            return MetricStage(name, have, None, True, looks, found)
        need = more
    estimate = quantile_interval(values, rule.share, rule.confidence)
    return MetricStage(name, have, need, have >= size, looks, estimate)


def _resized(estimate: Estimate, target: float) -> int | None:
    """Return how many values the last width requires, at least n + 1; 2 n where n was too
    small for an interval; None where no number is enough."""
    if math.isnan(estimate.half_width):
        return 2 * estimate.n
    if not estimate.value:
        return None
    ratio = estimate.half_width / abs(estimate.value) / target
    if ratio > math.sqrt(_MOST_VALUES / estimate.n / RESIZE_SAFETY):
        return None
    return max(estimate.n + 1, math.ceil(RESIZE_SAFETY * estimate.n * ratio * ratio))


def _watched_stage(
    rule: UntilPrecise, name: str, values: Sequence[float]
) -> MetricStage:
    size, have = pilot_size(rule), len(values)
    estimate = _sequence_interval(values, rule)
    if have < size:
        return MetricStage(name, have, size, False, 0, estimate)
    looks = looks_taken(size, have)
    if precise_enough(estimate, rule.target):
        return MetricStage(name, have, have, True, looks, estimate)
    more = _expected(estimate, rule.target)
    return MetricStage(name, have, more, True, looks, estimate)


def _expected(estimate: Estimate, target: float) -> int | None:
    """Return roughly how many values a watched metric needs; used only to show progress."""
    if not math.isfinite(estimate.half_width):
        return 2 * estimate.n
    if not estimate.value:
        return None
    ratio = estimate.half_width / abs(estimate.value) / target
    if ratio > math.sqrt(_MOST_VALUES / estimate.n):
        return None
    return max(estimate.n + 1, math.ceil(estimate.n * ratio * ratio))


def _sequence_interval(values: Sequence[float], rule: UntilPrecise) -> Estimate:
    if rule.share is not None:
        return quantile_sequence_interval(values, rule.share, rule.confidence)
    plain = t_mixture_interval(values, rule.confidence)
    wider = inflation(values) * plain.half_width
    return msgspec.structs.replace(
        plain, low=plain.value - wider, high=plain.value + wider
    )


def next_look(first: int, epochs: int) -> int:
    """Return the epoch count of the first look at or after `epochs`."""
    look = first
    while look < epochs:
        look += max(1, look // 20)
    return look


def looks_taken(first: int, epochs: int) -> int:
    """Return how many looks there are up to `epochs`."""
    look, count = first, 0
    while look <= epochs:
        look += max(1, look // 20)
        count += 1
    return count


# -- the decision: run more, or stop with the interval reached -----------------------------------------
#
# Decision: at a limit the test ends undecided and reports the interval reached: a limit of
# count or time does not depend on the values. Each of several metrics is sized separately and the
# largest size counts; the confidence applies to each interval separately.


class _Ending(msgspec.Struct, frozen=True):
    """Why a test ends."""

    reason: str
    text: str


def decide_precise(rule: UntilPrecise, history: History) -> Decision:
    """Return the decision of a precision rule."""
    metrics = stages(rule, history)
    left = _to_next_look(rule, history)
    if not left and all(stage.satisfied for stage in metrics):
        text = _plan_text(rule, history, metrics)
        return _stop(rule, metrics, _Ending("precise", text))
    ending = _hopeless(rule, history, metrics) or _limit(rule, history)
    if ending is not None:
        return _stop(rule, metrics, ending, answered=False)
    return RunMore(_batch(rule, history, metrics, left))


def _stop(
    rule: UntilPrecise,
    metrics: Sequence[MetricStage],
    ending: _Ending,
    *,
    answered: bool = True,
) -> StopDecision:
    return StopDecision(
        ending.reason,
        ending.text + _reached_text(rule, metrics, answered=answered),
        answered=answered,
        looks=max(max(stage.looks, int(stage.have > 0)) for stage in metrics),
        target=rule.target,
        reached=tuple(
            ReachedPrecision(s.name, rule.statistic, s.estimate.n, bounded(s.estimate))
            for s in metrics
        ),
    )


def bounded(estimate: Estimate) -> Estimate | None:
    """Return the estimate if both ends of its interval are finite, else None."""
    return estimate if math.isfinite(estimate.half_width) else None


def _to_next_look(rule: UntilPrecise, history: History) -> int:
    """Return the number of epochs until the next look; 0 at a look."""
    first = pilot_size(rule)
    if rule.mode == "plan" or history.epochs < first:
        return max(first - history.epochs, 0)
    return next_look(first, history.epochs) - history.epochs


def _batch(
    rule: UntilPrecise, history: History, metrics: Sequence[MetricStage], left: int
) -> int:
    """Return how many epochs to run, at most up to the next look."""
    if left:
        wanted = left
    elif rule.mode == "watch":
        wanted = next_look(pilot_size(rule), history.epochs + 1) - history.epochs
    else:
        wanted = max(
            rule.maximum if stage.need is None else stage.need - stage.have
            for stage in metrics
        )
    most = rule.maximum - history.epochs
    return max(1, min(wanted, most, _affordable(rule, history)))


def _hopeless(
    rule: UntilPrecise, history: History, metrics: Sequence[MetricStage]
) -> _Ending | None:
    """Return why more trials would not help, once the pilot is complete; None if they may."""
    if history.epochs < pilot_size(rule):
        return None
    if not history.trials:
        return _Ending("failed", f"all {history.failed} trials failed")
    absent = [stage.name for stage in metrics if not stage.have]
    return _Ending("missing", missing_text(absent, history)) if absent else None


def _limit(rule: UntilPrecise, history: History) -> _Ending | None:
    """Return the limit that is reached, or None. The time limit is reached when a trial of
    the mean duration so far would end after max_time."""
    if history.epochs >= rule.maximum:
        return _Ending("max-runs", f"{history.epochs} trials, the maximum")
    if rule.max_time_ns is None or not history.epochs:
        return None
    left = rule.max_time_ns - history.duration_ns
    if left <= 0 or left * history.epochs < history.duration_ns:
        spent = duration_ns_text(history.duration_ns)
        limit = duration_ns_text(rule.max_time_ns)
        return _Ending("max-time", f"{spent} of {limit} spent")
    return None


def _affordable(rule: UntilPrecise, history: History) -> int:
    """Return how many epochs fit into the time left; 1 until a duration is known."""
    if rule.max_time_ns is None:
        return rule.maximum
    if not history.epochs:
        return 1
    if not history.duration_ns:
        return rule.maximum
    left = rule.max_time_ns - history.duration_ns
    return left * history.epochs // history.duration_ns


# -- a target that is out of reach: only reported, never used for a decision ---------------------------

FAR = 2.0
"""A projection that exceeds a limit by this factor is reported; nearer ones may still change."""
_FEWEST = 3
"""Trials from which on their mean duration is used."""
_FEWEST_VALUES = 10
"""Values from which on their scatter is used, before the pilot is complete."""


def out_of_reach(rule: UntilPrecise, history: History) -> str:
    """Return why the rule's limits are far from enough for its target, as a sentence; an empty text
    if they may be enough, or if it is too early.

    Every answer needs the pilot. From ten values on, the number of trials is projected from their
    scatter; after the pilot it is the plan.
    """
    if history.epochs < _FEWEST or history.epochs >= rule.maximum:
        return ""
    each_ns = history.duration_ns / history.epochs
    wanted = needed_trials(rule, history.series)
    target = f"±{percent_text(rule.target)}"
    ending = "the test will probably end undecided"
    if math.isinf(wanted):
        return f"{target} needs more than {_MOST_VALUES:,} trials: {ending}"
    # Two digits: it is a projection.
    time = duration_ns_text(float(f"{wanted * each_ns:.2g}"))
    count = plural(int(float(f"{wanted:.2g}")), "trial")
    if rule.max_time_ns is not None and wanted * each_ns > FAR * rule.max_time_ns:
        limit = duration_ns_text(rule.max_time_ns)
        return f"{target} needs about {time} ({count}); the limit is {limit}: {ending}"
    if wanted > FAR * rule.maximum:
        limit = plural(rule.maximum, "trial")
        return f"{target} needs about {count} ({time}); the limit is {limit}: {ending}"
    return ""


def needed_trials(rule: UntilPrecise, series: Mapping[str, Sequence[float]]) -> float:
    """Return how many trials the rule's target needs by the values of its metrics so far; infinite
    if no number is enough."""
    return max(
        (_projected(rule, name, series.get(name, ())) for name in rule.metrics),
        default=0,
    )


def _projected(rule: UntilPrecise, name: str, values: Sequence[float]) -> float:
    """Return how many trials a metric needs by what is known; infinite if no number is enough."""
    stage = metric_stage(rule, name, values)
    need: float | None = stage.need
    if not stage.pilot_complete:
        need = pilot_size(rule)
        if rule.share is None and len(values) >= _FEWEST_VALUES:
            sized = sample_size(values, rule.target, rule.confidence)
            need = math.inf if sized is None else max(need, sized)
    return math.inf if need is None else need


def _plan_text(
    rule: UntilPrecise, history: History, metrics: Sequence[MetricStage]
) -> str:
    looks = max(stage.looks for stage in metrics)
    times = "one look" if looks == 1 else f"{looks} looks"
    if rule.mode == "watch":
        return f"{history.trials} trials, {times} of a confidence sequence"
    size = pilot_size(rule)
    more = history.trials - size
    plan = f" and {more} more trials" if more > 0 else " was enough"
    return f"pilot of {size}{plan}, {times}"


def _reached_text(
    rule: UntilPrecise, metrics: Sequence[MetricStage], *, answered: bool
) -> str:
    """Return `; elapsed 6.06 ± 1.07 % (target 5 %)` for every metric.

    An answered rule can end with a wider interval than its target: a plan's target is a share of
    the pilot's mean, and the mean of all trials may be smaller.
    """
    parts = []
    for stage in metrics:
        estimate = stage.estimate
        name = stage.name if rule.share is None else f"{rule.statistic} {stage.name}"
        if not math.isfinite(estimate.half_width):
            parts.append(f"{name}: no interval from n = {estimate.n}")
            continue
        parts.append(f"{name} {estimate.value:.6g} ± {half_width_text(estimate)}")
    level = f"{percent_text(rule.confidence, 10)} confidence"
    target = percent_text(rule.target, 10)
    if answered and not all(
        precise_enough(stage.estimate, rule.target) for stage in metrics
    ):
        target += " of the pilot's mean"
    return f"; {', '.join(parts)} (target {target}, {level})"


def half_width_text(estimate: Estimate) -> str:
    """Return the half width in percent of the value, or in units for a value of 0."""
    if estimate.value:
        return percent_text(estimate.half_width / abs(estimate.value))
    return f"{estimate.half_width:.3g}"
