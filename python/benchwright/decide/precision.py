"""The precision rule: a test stops when the intervals of its metrics are narrow enough.

Three parts: the interval of a mean by plan; how many values each metric needs under the rule
(a mean or a quantile by plan, or either by a confidence sequence); the decision with its limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.plan import (
    LONG_PILOT_NS,
    PILOT_TRIALS,
    Decision,
    MetricSpec,
    RunMore,
    StopDecision,
    UntilPrecise,
)
from benchwright.core.results import Alternative, Estimate, ReachedPrecision
from benchwright.core.text import duration_ns_text, percent_text, plural
from benchwright.decide.history import History, missing_text
from benchwright.stats.aggregate import MetricRules
from benchwright.stats.dependence import ar1_inflation, inflation
from benchwright.stats.intervals import (
    ENOUGH_EQUAL,
    SEQUENCE_MEAN_METHOD,
    SEQUENTIAL_METHOD,
    quantile_interval,
    quantile_sequence_interval,
    t_interval,
    t_mixture_interval,
    t_quantile,
    unless_too_equal,
)
from benchwright.stats.sample import kurtosis, moments, rounding_error, skewness

# -- a mean by plan: an interval that holds where the test stops ---------------------------------
#
# A test that examines Student's interval after every trial, and stops when it is narrow, stops at
# moments when the values happen to agree: from two trials on the interval covers 86 % instead of 95
# % at a CV of 16 %. From a pilot of 30 on little of this is left, and what is left is paid by
# widening every interval by 1.25 / n. Dependence between neighbours is paid by the factor of an
# AR(1) series, with one standard error added to the correlation; in 30 and more values a
# correlation of up to 0.1 counts as chance, which costs independent values little. A test of skewed
# trials stops where few of the slow ones were seen: its mean and its spread are too small together.
# The interval is moved towards the longer tail by half of Johnson's correction, which makes it no
# wider; the other half would cost symmetric values with a few far ones (t with 3 degrees of
# freedom) as much as it wins where a mode is slow. A warm-up of a few trials that no test finds
# moves the mean by as much as the interval is wide. So the interval reaches as far as three
# quarters of that of the trials after the first ten (of fewer than 30, after the first third): of
# trials without a warm-up both are much alike, and where ten are few among all this changes
# nothing. Times of a coarse clock that hardly vary are known no better than its step: their mean is
# off by up to half of it. Where trials take long the pilot has 10 trials. These show few things
# reliably, so every correlation above -0.1 counts, and no interval is narrower than a quarter of
# the target: a rare mode, of which a pilot of ten shows nothing, is narrower than that where ten
# trials are enough. Rejected: Stein's two stages (1945), in which the pilot alone gives the spread:
# exact for normal values, but at a CV of 16 % it costs 1.85 times the trials that the true variance
# needs, this 1.24 times. All constants are by simulation (tests/calibration/test_stopping.py).
# Sources: Y. S. Chow and H. Robbins 1965, On the asymptotic theory of fixed-width sequential
# confidence intervals, Annals of Mathematical Statistics 36(2); M. Woodroofe 1977, Second order
# approximations for sequential point and interval estimation, Annals of Statistics 5(5); N. J.
# Johnson 1978, Modified t tests and confidence intervals for asymmetrical populations, JASA
# 73(363).

_CHANCE = 0.1
"""A correlation of neighbours up to this is not counted, in a pilot's number of values or more;"""
_CHANCE_OF_FEW = -0.1
"""... and in fewer."""
_FINEST = 0.25
"""Share of the target that is the narrowest half width from fewer values than a pilot has."""
_LOOKS = 1.25
"""By this / n every interval is wider, for the looks."""
_SKEW = 0.5
"""Share of the correction for skewness by which the interval is moved."""
_LATER = 0.75
"""The interval reaches this far into that of the later trials,"""
_EARLY = 10
"""... which are those after so many, at most a third."""
_MOST_VALUES = 10**9
"""A plan that needs more values counts as impossible."""


def sequential_interval(values: Sequence[float], target: float, confidence: float) -> Estimate:
    """Return the mean with the interval by which a plan decides. The longer tail of skewed values
    is on the side where the interval reaches further.

    `target` is the half width that the plan wants, as a share of the mean. The interval is NaN
    for n < 2.
    """
    few = len(values) < PILOT_TRIALS
    whole = _skewed_interval(values, confidence, few)
    later = _skewed_interval(values[min(len(values) // 3, _EARLY) :], confidence, few)
    low = min(whole.low, later.value - _LATER * (later.value - later.low))
    high = max(whole.high, later.value + _LATER * (later.high - later.value))
    least = rounding_error(values)
    if few and high > low:
        least = max(least, _FINEST * target * abs(whole.value))
    more = max(least - (high - low) / 2, 0.0)
    return msgspec.structs.replace(whole, low=low - more, high=high + more)


def _skewed_interval(values: Sequence[float], confidence: float, few: bool) -> Estimate:
    """Return the mean with Student's interval, wider for looks and dependence, moved towards the
    longer tail."""
    plain = t_interval(values, confidence)
    factor = ar1_inflation(values, _CHANCE_OF_FEW if few else _CHANCE)
    half = plain.half_width * factor * (1 + _LOOKS / max(plain.n, 1))
    middle = plain.value
    if 0 < half < math.inf:
        # Johnson's m3 (1 + 2 t^2) / (6 s^2 n), as a share of the half width t s / sqrt(n): less
        # than 1, however skewed the values are.
        t = t_quantile(confidence, plain.n - 1)
        share = (1 + 2 * t * t) / (6 * t * math.sqrt(plain.n))
        middle += _SKEW * skewness(values) * share * plain.half_width
    return msgspec.structs.replace(
        plain, low=middle - half, high=middle + half, method=SEQUENTIAL_METHOD
    )


# -- how many values each metric needs -------------------------------------------------
#
# Quantile by plan: the pilot's interval sets the number of trials; if these are not enough,
# their interval sets it again, at most to twice as many; each look is counted. (An interval that
# spans the gap between two modes does not tell how its width will fall: where the modes have 30
# and 70 % of the trials, it asked for 1,901 trials for a median, and 65 are enough.) A mean by
# plan, and both by watch: examined at fixed epoch counts, each 5 % above the one before.
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
    """Values at the end or, of a quantile by plan, at the next look; None when no number of trials is
    enough (the estimate is 0, or more than 1e9 trials)."""
    pilot_complete: bool
    looks: int
    """Number of looks at its values so far."""
    estimate: Estimate

    @property
    def satisfied(self) -> bool:
        """True when the metric has the planned number of values."""
        return self.pilot_complete and self.need is not None and self.have >= self.need


def pilot_size(rule: UntilPrecise, history: History) -> int:
    """Return the pilot's size: the rule's minimum within its maximum, at least 2.

    Where that many trials of the mean duration so far take longer than `LONG_PILOT_NS`, it is what
    fits into this time, at least the rule's `long_minimum`.
    """
    size = rule.minimum
    if rule.long_minimum is not None and history.epochs and history.duration_ns:
        fits = math.ceil(LONG_PILOT_NS * history.epochs / history.duration_ns)
        size = max(min(size, fits), rule.long_minimum)
    return max(2, min(size, rule.maximum))


def stages(rule: UntilPrecise, history: History) -> tuple[MetricStage, ...]:
    """Return how many values each metric of the rule has and needs."""
    size = pilot_size(rule, history)
    return tuple(
        _metric_stage(rule, name, history.series.get(name, ()), size) for name in rule.metrics
    )


def estimate_of(rule: UntilPrecise, values: Sequence[float]) -> Estimate:
    """Return what the rule estimates from values, with the interval by which it decides."""
    if rule.share is not None and rule.mode == "watch":
        return quantile_sequence_interval(values, rule.share, rule.confidence)
    if rule.share is not None:
        return quantile_interval(values, rule.share, rule.confidence)
    if rule.mode == "watch":
        return unless_too_equal(_sequence_interval(values, rule.confidence))
    return unless_too_equal(sequential_interval(values, rule.target, rule.confidence))


def _metric_stage(rule: UntilPrecise, name: str, values: Sequence[float], size: int) -> MetricStage:
    if is_planned(rule):
        return _planned_quantile(rule, name, values, size)
    have, estimate = len(values), estimate_of(rule, values)
    if have < size:
        return MetricStage(name, have, size, False, 0, estimate)
    is_precise = precise_enough(estimate, rule.target)
    need = have if is_precise else _expected(estimate, rule.target)
    return MetricStage(name, have, need, True, looks_taken(size, have), estimate)


def is_planned(rule: UntilPrecise) -> bool:
    """Return whether a pilot sets the number of trials; else it is looked at regularly."""
    return rule.mode == "plan" and rule.share is not None


def precise_enough(estimate: Estimate, target: float) -> bool:
    """Return whether the interval's half width is within `target` of the value."""
    return estimate.half_width <= target * abs(estimate.value)


def _planned_quantile(
    rule: UntilPrecise, name: str, values: Sequence[float], size: int
) -> MetricStage:
    assert rule.share is not None
    have, need, looks = len(values), size, 0
    while have >= need:
        looks += 1
        found = quantile_interval(values[:need], rule.share, rule.confidence)
        if precise_enough(found, rule.target):
            break
        more = _resized(found, rule.target)
        if more is None:
            return MetricStage(name, have, None, True, looks, found)
        need = more
    estimate = estimate_of(rule, values)
    return MetricStage(name, have, need, have >= size, looks, estimate)


def _resized(estimate: Estimate, target: float) -> int | None:
    """Return how many values the last width requires, from n + 1 to 2 n; None where no number is
    enough."""
    if math.isnan(estimate.half_width):
        return 2 * estimate.n
    if not estimate.value:
        return None
    ratio = estimate.half_width / abs(estimate.value) / target
    if ratio > math.sqrt(_MOST_VALUES / estimate.n / RESIZE_SAFETY):
        return None
    wanted = math.ceil(RESIZE_SAFETY * estimate.n * ratio * ratio)
    return min(max(estimate.n + 1, wanted), 2 * estimate.n)


def _expected(estimate: Estimate, target: float) -> int | None:
    """Return roughly how many values a metric needs in all; it decides nothing."""
    if not math.isfinite(estimate.half_width):
        is_mean = estimate.method in (SEQUENTIAL_METHOD, SEQUENCE_MEAN_METHOD)
        # A mean of two values or more has no ends where all are equal.
        are_equal = is_mean and estimate.n > 1 and math.isnan(estimate.half_width)
        return ENOUGH_EQUAL if are_equal else 2 * estimate.n
    if not estimate.value:
        return None
    ratio = estimate.half_width / abs(estimate.value) / target
    if ratio > math.sqrt(_MOST_VALUES / estimate.n):
        return None
    return max(estimate.n + 1, math.ceil(estimate.n * ratio * ratio))


def _sequence_interval(values: Sequence[float], confidence: float) -> Estimate:
    plain = t_mixture_interval(values, confidence)
    wider = max(inflation(values) * plain.half_width, rounding_error(values))
    return msgspec.structs.replace(plain, low=plain.value - wider, high=plain.value + wider)


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


# -- the decision: run more, or stop with the interval reached -------------------------
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
    left, limit = _to_next_look(rule, history), _limit(rule, history)
    # A limit is a look too: it does not depend on the values.
    if (not left or limit) and all(stage.satisfied for stage in metrics):
        precise = _Ending("precise", _plan_text(rule, history, metrics))
        return _stop(rule, metrics, precise, answered=True)
    ending = _hopeless(rule, history, metrics) or limit
    if ending is None and not _to_regular_look(rule, history):
        ending = _out_of_reach(rule, history, metrics)
    if ending is not None:
        return _stop(rule, metrics, ending, answered=False)
    return RunMore(_batch(rule, history, metrics, left))


def _stop(
    rule: UntilPrecise, metrics: Sequence[MetricStage], ending: _Ending, *, answered: bool
) -> StopDecision:
    return StopDecision(
        ending.reason,
        ending.text + _reached_text(rule, metrics),
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
    if is_planned(rule):
        return max(pilot_size(rule, history) - history.epochs, 0)
    return _to_regular_look(rule, history)


def _to_regular_look(rule: UntilPrecise, history: History) -> int:
    """Return the number of epochs until the next look of any rule, at which it may give up."""
    return next_look(pilot_size(rule, history), history.epochs) - history.epochs


def _batch(rule: UntilPrecise, history: History, metrics: Sequence[MetricStage], left: int) -> int:
    """Return how many epochs to run, at most up to the next look."""
    if left and rule.long_minimum is not None and history.epochs < rule.minimum:
        # The mean duration, which sets the pilot's size, is learnt from few trials first.
        wanted = min(left, max(1, history.epochs))
    elif left:
        wanted = left
    elif not is_planned(rule):
        first = pilot_size(rule, history)
        wanted = next_look(first, history.epochs + 1) - history.epochs
    else:
        wanted = max(
            rule.maximum if stage.need is None else stage.need - stage.have for stage in metrics
        )
        if rule.give_up_ns is not None:
            first = pilot_size(rule, history)
            wanted = min(wanted, next_look(first, history.epochs + 1) - history.epochs)
    most = rule.maximum - history.epochs
    return max(1, min(wanted, most, _affordable(rule, history)))


def _hopeless(
    rule: UntilPrecise, history: History, metrics: Sequence[MetricStage]
) -> _Ending | None:
    """Return why more trials would not help, once the pilot is complete; None if they may."""
    if history.epochs < pilot_size(rule, history):
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


# -- a target that is out of reach -----------------------------------------------------
#
# A test gives up if it is known that its limits do not suffice, once the rule's time is spent.
# Known means that even the fewest trials which the values so far allow are too many: the value is
# taken at the far end of its interval, and the variance is taken four standard errors of its
# estimate too large. The standard error follows from the kurtosis, and from the dependence between
# neighbours. Without its farthest value a series must show the same, because one slow trial is no
# wide distribution. An interval of order statistics has about 2 z sqrt(n p (1 - p)) gaps, whose sum
# varies accordingly. It is examined at looks only. By simulation
# (tests/calibration/test_giving_up.py) fewer than 1 % of the tests give up that would have reached
# their precision, even if their true need is all of the limit and the pilot of 10 or 30 trials
# alone decides.

_ERRORS = 4.0
"""Standard errors by which the variance is taken to be overestimated."""


def _out_of_reach(
    rule: UntilPrecise, history: History, metrics: Sequence[MetricStage]
) -> _Ending | None:
    """Return the ending of a test that gives up; None if it goes on."""
    if rule.give_up_ns is None or history.duration_ns < rule.give_up_ns:
        return None
    each_ns = history.duration_ns / history.epochs
    most: float = rule.maximum
    if rule.max_time_ns is not None:
        most = min(most, rule.max_time_ns / each_ns)
    beyond = [
        stage
        for stage in metrics
        if stage.pilot_complete
        and fewest_needed(rule, stage.estimate, history.series[stage.name]) > most
    ]
    if not beyond:
        return None
    wanted = max(_expected(stage.estimate, rule.target) or math.inf for stage in beyond)
    spent = duration_ns_text(history.duration_ns)
    need = _need_text(rule, wanted, each_ns)
    return _Ending("out-of-reach", f"out of reach after {spent}: {need}")


def fewest_needed(rule: UntilPrecise, estimate: Estimate, values: Sequence[float]) -> float:
    """Return the fewest values that the rule's target can need, for all that these values show."""
    n = estimate.n
    if rule.share is not None:
        half = _of_one_mode(estimate).half_width
        gaps = 2 * _NORMAL_95 * math.sqrt(n * rule.share * (1 - rule.share))
        return _fewest(rule, estimate, half, 2 / math.sqrt(max(gaps, 1)))
    # Neighbours depend on each other by one standard error less than it seems. What Student's
    # quantile and the looks add to the interval vanishes with the number of trials.
    factor = ar1_inflation(values, _CHANCE, -1.0)
    normal = factor * t_quantile(rule.confidence, _MOST_VALUES) / math.sqrt(n)
    if rule.mode == "watch":
        normal *= _SEQUENCE
    far = max(values, key=lambda value: abs(value - estimate.value))
    others = list(values)
    others.remove(far)
    found = []
    for those in (values, others):
        error = factor * math.sqrt((max(kurtosis(those), 3) - 1) / n)
        half = normal * moments(those).sdev
        found.append(_fewest(rule, estimate, half, error))
    return min(found)


def _of_one_mode(estimate: Estimate) -> Estimate:
    """Return a quantile with twice the nearer end of its interval: the end that reaches into another
    mode shows little of the density."""
    half = min(estimate.value - estimate.low, estimate.high - estimate.value)
    return msgspec.structs.replace(estimate, low=estimate.value - half, high=estimate.value + half)


def _fewest(rule: UntilPrecise, estimate: Estimate, half: float, error: float) -> float:
    """Return how many values the target needs, if the interval has this half width and the relative
    standard error of its square is `error`."""
    if not math.isfinite(half) or not half:
        return 0
    ratio = half / (abs(estimate.value) + half) / rule.target
    return estimate.n * ratio * ratio / (1 + _ERRORS * error)


_NORMAL_95 = 1.96
_SEQUENCE = 1.4
"""How much wider than the normal interval a confidence sequence is at least."""


def _need_text(rule: UntilPrecise, wanted: float, each_ns: float) -> str:
    """Return `±5 % needs about 4,400 trials (1 h 30 min); the limit is 1,000 trials`; with a time
    limit, if that is reached first, the time before the trials."""
    target = f"±{percent_text(rule.target)}"
    if math.isinf(wanted):
        return f"{target} needs more than {_MOST_VALUES:,} trials"
    # Two digits: it is a projection.
    time = duration_ns_text(float(f"{wanted * each_ns:.2g}"))
    count = plural(int(float(f"{wanted:.2g}")), "trial")
    if rule.max_time_ns is not None and rule.max_time_ns < rule.maximum * each_ns:
        limit = duration_ns_text(rule.max_time_ns)
        return f"{target} needs about {time} ({count}); the limit is {limit}"
    limit = plural(rule.maximum, "trial")
    return f"{target} needs about {count} ({time}); the limit is {limit}"


def alternatives(
    rule: UntilPrecise, series: Mapping[str, Sequence[float]], specs: Sequence[MetricSpec] = ()
) -> tuple[Alternative, ...]:
    """Return the questions that the rule's limits can answer, by the values of its trials: user
    time in place of elapsed time, and the median in place of the mean."""
    asked = []
    if "elapsed" in rule.metrics and "user" not in rule.metrics:
        other = msgspec.structs.replace(rule, metrics=("user",))
        asked.append(("--metric user", 'metrics = ["user"]', "user", other))
    if rule.share is None:
        other = msgspec.structs.replace(rule, share=0.5, long_minimum=None)
        name = next(iter(rule.metrics))
        asked.append(("--of median", 'of = "median"', name, other))
    found = []
    for option, key, name, other in asked:
        values = series.get(name, ())
        if len(values) < FEWEST_VALUES:
            continue
        estimate = estimate_of(other, values)
        # A value of 0 is no answer: user time has a resolution.
        if not estimate.value or not math.isfinite(estimate.half_width):
            continue
        unit = MetricRules(specs).row(name).unit
        estimate = msgspec.structs.replace(estimate, unit=unit)
        label = name if other.share is None else f"{other.statistic} {name}"
        if precise_enough(estimate, rule.target):
            found.append(Alternative(option, key, label, estimate))
            continue
        needed = _expected(estimate, rule.target)
        if needed is not None and needed <= rule.maximum:
            digits = int(float(f"{needed:.2g}"))
            found.append(Alternative(option, key, label, estimate, digits))
    return tuple(found)


# -- the same before it is known: only reported, never used for a decision -------------

FAR = 2.0
"""A projection that exceeds a limit by this factor is reported; nearer ones may still change."""
_FEWEST = 3
"""Trials from which on their mean duration is used."""
FEWEST_VALUES = 10
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
    wanted = needed_trials(rule, history.series, pilot_size(rule, history))
    beyond = rule.max_time_ns is not None and wanted * each_ns > FAR * rule.max_time_ns
    if not beyond and wanted <= FAR * rule.maximum:
        return ""
    ending = "the test will probably end undecided"
    if rule.give_up_ns is not None:
        ending += f", after {duration_ns_text(rule.give_up_ns)} if this is certain then"
    return f"{_need_text(rule, wanted, each_ns)}: {ending}"


def needed_trials(
    rule: UntilPrecise, series: Mapping[str, Sequence[float]], pilot: int | None = None
) -> float:
    """Return how many trials the rule's target needs by the values of its metrics so far; infinite
    if no number is enough. `pilot` is the size of the pilot; None: the rule's."""
    size = min(rule.minimum, rule.maximum) if pilot is None else pilot
    return max(
        (_projected(rule, name, series.get(name, ()), size) for name in rule.metrics), default=0
    )


def _projected(rule: UntilPrecise, name: str, values: Sequence[float], size: int) -> float:
    """Return how many trials a metric needs by what is known; infinite if no number is enough."""
    stage = _metric_stage(rule, name, values, size)
    is_known = len(values) >= FEWEST_VALUES and (stage.pilot_complete or rule.share is None)
    if stage.satisfied or not is_known:
        return math.inf if stage.need is None else stage.need
    estimate = stage.estimate if rule.share is None else _of_one_mode(stage.estimate)
    expected = _expected(estimate, rule.target)
    return math.inf if expected is None else max(size, expected)


def _plan_text(rule: UntilPrecise, history: History, metrics: Sequence[MetricStage]) -> str:
    looks = max(stage.looks for stage in metrics)
    times = "one look" if looks == 1 else f"{looks} looks"
    if rule.mode == "watch":
        return f"{history.trials} trials, {times} of a confidence sequence"
    if not is_planned(rule):
        return f"{history.trials} trials, {times}"
    size = pilot_size(rule, history)
    more = history.trials - size
    plan = f" and {more} more trials" if more > 0 else " was enough"
    return f"pilot of {size}{plan}, {times}"


def _reached_text(rule: UntilPrecise, metrics: Sequence[MetricStage]) -> str:
    """Return `; elapsed 6.06 ± 1.07 % (target 5 %)` for every metric."""
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
    return f"; {', '.join(parts)} (target {target}, {level})"


def half_width_text(estimate: Estimate) -> str:
    """Return the half width in percent of the value, or in units for a value of 0."""
    if estimate.value:
        return percent_text(estimate.half_width / abs(estimate.value))
    return f"{estimate.half_width:.3g}"
