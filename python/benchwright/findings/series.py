"""Findings about the values of a test: warm-up, outliers, modes, drift, leaks, dependence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean

import msgspec

from benchwright.core.plan import ReplicatePath, StoppingRule, UntilPrecise
from benchwright.core.results import Figure, Finding, Severity, SlowRuns, Value, change, states
from benchwright.core.text import exact_text, p_text, percent_text
from benchwright.findings import thresholds as t
from benchwright.findings.codes import in_trials, make_finding
from benchwright.stats.aggregate import MetricColumn, MetricRules
from benchwright.stats.dependence import dependence, inflation
from benchwright.stats.drift import (
    Slope,
    Truncation,
    chance_of_order,
    mann_kendall,
    mser_truncation,
    theil_sen,
)
from benchwright.stats.intervals import ENOUGH_EQUAL, t_interval
from benchwright.stats.sample import (
    Modes,
    Outlier,
    dot,
    median,
    moments,
    outlier_threshold,
    outliers,
    standardized,
    two_modes,
)

# -- How the probability of a false finding is divided among metrics and questions -----
#
# Decision: on clean data all findings about the values of a test together occur in at
# most 5 % of studies (tests/calibration/test_findings.py). Each kind of finding has its level in
# thresholds.py; metrics that are examined for the same kinds share each level equally
# (Bonferroni).


class ExaminedSeries(msgspec.Struct, frozen=True):
    """One metric of one test, and how it is examined."""

    test: str
    column: MetricColumn
    unit: str
    share: float
    """This metric's share of each level."""
    least_change: float
    """The smallest change over the test that is a drift, as a share of the median; 0 if none was
    stated."""
    is_mean: bool = True
    """Whether the test is about its mean, which outliers move."""

    def after(self, cut: int) -> ExaminedSeries:
        """Return the series without its first `cut` values."""
        name, epochs = self.column.name, self.column.epochs[cut:]
        column = MetricColumn(name, epochs, self.column.values[cut:])
        return msgspec.structs.replace(self, column=column)


# -- Outliers and modes: values far from the others, in any order --------------------
#
# Purpose: two or more values close together, far from all others, are a mode; single values far
# from the others are outliers, which are named and classified, but not removed.
# Source: stats/sample.py.


def outlier_finding(one: ExaminedSeries, apart: Sequence[Outlier]) -> Finding:
    """Return the finding about a series' outliers, at least one."""
    values, places = one.column.values, [o.place for o in apart]
    apart_at = set(places)
    rest = moments([v for at, v in enumerate(values) if at not in apart_at]).mean
    mean = t_interval(values)
    shift = abs(mean.value - rest)
    is_moved = one.is_mean and shift > t.MOVED_MEAN * mean.half_width
    worst = max(apart, key=lambda o: abs(o.score))
    is_first = places == list(range(len(places))) and one.column.epochs[0] == 1
    shown = states(
        "first" if is_first else "",
        metric=one.column.name,
        kind="extreme" if any(o.extreme for o in apart) else "mild",
        **in_trials([one.column.epochs[p] for p in places], len(values)),
        worst=Figure(worst.value, one.unit),
        score=Figure(abs(worst.score), "scaled MADs"),
        side="above" if worst.score > 0 else "below",
        threshold=outlier_threshold(len(values), t.LEVEL_OUTLIERS * one.share),
        mean=Figure(mean.value, one.unit),
        without=Figure(rest, one.unit),
        median=Figure(median(values), one.unit),
    )
    severity = Severity.WARNING if is_moved else None
    return make_finding("outliers", one.test, shown, severity)


def modes_finding(one: ExaminedSeries, residuals: Sequence[float]) -> Finding | None:
    """Return the finding about two modes, if there are two.

    The modes must show in the `residuals` of a drift too, shape `(n,)`: a ramp that is flat at
    both ends has two groups of values, but one cause.
    """
    values = one.column.values
    modes = two_modes(values, t.LEVEL_MODES * one.share)
    if modes is None or two_modes(residuals, t.LEVEL_MODES * one.share) is None:
        return None
    shown = states(
        metric=one.column.name,
        n_low=modes.n_low,
        low=Figure(modes.low, one.unit),
        n_high=modes.n_high,
        high=Figure(modes.high, one.unit),
        gap=modes.gap,
        **_what_the_mean_is(one, modes),
    )
    return make_finding("multimodal", one.test, shown)


def _what_the_mean_is(one: ExaminedSeries, modes: Modes) -> dict[str, Value]:
    """Return what two modes say about the mean: that it is between them, or how rare one of them
    is."""
    mean = t_interval(one.column.values)
    lower, upper = modes.empty
    if lower < mean.low and mean.high < upper:
        return {"interval": Figure(mean.low, one.unit, mean.high)}
    rarer, name = min((modes.n_high, "higher"), (modes.n_low, "lower"))
    return {"rarer": name, "share": Figure(rarer / (modes.n_low + modes.n_high), "%")}


# -- Drift, leak and dependence: what the order of the trials shows --------------------
#
# Purpose: a slow rise or fall over the epochs, and correlation between neighbouring trials.
# Where residuals of a trend are correlated, the trend's test and interval are widened.
# Sources: Auto-pilot paper, section 3.3 (leaks); stats/drift.py, stats/dependence.py.

FALLING, RISING = ("free_memory_bytes", "available_memory_bytes"), ("rss_bytes",)
"""Metrics whose fall (first tuple) or rise (second tuple) over the epochs is a leak."""


class Trend(msgspec.Struct, frozen=True):
    """A significant slope."""

    slope: Slope
    p: float
    residuals: Sequence[float]
    """The values without the trend, shape `(n,)`."""


def trend(one: ExaminedSeries, level: float) -> Trend | None:
    """Return the trend of a series that is significant at this level, if there is one."""
    values, epochs = one.column.values, one.column.epochs
    test = mann_kendall(values)
    if len(values) < t.FEWEST_TRIALS or not test.p <= level:
        return None
    slope = theil_sen(values, epochs)
    centre = math.fsum(epochs) / len(epochs)
    residuals = [
        value - slope.value * (epoch - centre) for value, epoch in zip(values, epochs, strict=True)
    ]
    if dependence(residuals).p <= t.SUSPECTED_DEPENDENCE:
        wider = inflation(residuals)
        slope = theil_sen(values, epochs, inflation=wider)
        test = mann_kendall(values, wider)
    return Trend(slope, test.p, residuals) if test.p <= level else None


def drift_finding(one: ExaminedSeries, found: Trend) -> Finding | None:
    """Return the finding about a trend.

    None if it is smaller than a drift (a leak counts at any size), or if its interval contains 0,
    as can happen for ticks and pages that are mostly equal.
    """
    name, epochs, slope = one.column.name, one.column.epochs, found.slope
    middle, span = median(one.column.values), epochs[-1] - epochs[0]
    if not slope.value or slope.low <= 0 <= slope.high:
        return None
    leak = name in FALLING if slope.value < 0 else name in RISING
    least = one.least_change or (0.0 if leak else t.RELEVANT_CHANGE)
    if abs(slope.value * span) < least * abs(middle):
        return None
    bounds: dict[str, Value] = {}
    if math.isfinite(slope.low):
        bounds = {
            "confidence": percent_text(slope.confidence, 10),
            "low": change(slope.low, middle),
            "high": change(slope.high, middle),
        }
    shown = states(
        metric=name,
        way="rises" if slope.value > 0 else "falls",
        each=change(slope.value, middle),
        **bounds,
        whole=change(slope.value * span, middle),
        first=str(epochs[0]),
        last=str(epochs[-1]),
        p=p_text(found.p),
    )
    return make_finding("memory-leak" if leak else "drift", one.test, shown)


def dependence_finding(one: ExaminedSeries, residuals: Sequence[float]) -> Finding | None:
    """Return the finding about dependence in the residuals of a drift, shape `(n,)`, if any."""
    found = dependence(residuals)
    if not found.p <= t.LEVEL_DEPENDENT * one.share:
        return None
    # If a few outliers make up most of the variance, the values hardly correlate.
    narrow = math.sqrt(found.n / found.effective)
    shown = states(
        "narrow" if narrow >= t.TOO_NARROW else "",
        metric=one.column.name,
        correlation=found.rank_lag_1,
        p=p_text(found.p),
        trials=found.n,
        effective=found.effective,
        narrow=narrow,
    )
    severity = Severity.SERIOUS if found.rank_lag_1 >= t.STRONG_DEPENDENCE else None
    return make_finding("dependent-trials", one.test, shown, severity)


# -- Warm-up: the first trials differ from the rest ------------------------------------
#
# Purpose: distinguishes a warm-up from similar effects: a drift, a slow wave of
# correlated trials, a second mode that returns, outliers that happen to be first.
# Non-goals: removal; the table keeps every trial.
# Source: stats/drift.py.


def warm_up(one: ExaminedSeries, far: Sequence[Outlier]) -> Truncation | None:
    """Return the warm-up of a series, if it has one; `far` are its outliers."""
    values = one.column.values
    tame = _pulled_in(values, far, t.LEVEL_OUTLIERS * one.share)
    truncation = mser_truncation(tame)
    if not (truncation.removed and truncation.p <= t.LEVEL_WARM_UP * one.share):
        return None
    order_p = chance_of_order(tame)
    if order_p > t.LEVEL_WARM_UP_ORDER * one.share:
        return None
    cut, rest = truncation.removed, tame[truncation.removed :]
    if dependence(rest).p <= t.SUSPECTED_DEPENDENCE:
        again = mser_truncation(tame, inflation(rest))
        if not again.p <= t.LEVEL_WARM_UP * one.share:
            return None
    if _comes_back(values, cut, t.LEVEL_MODES * one.share):
        return None
    before, after = moments(values[:cut]).mean, moments(values[cut:]).mean
    if (before > after) != (truncation.mean_before > truncation.mean_after):
        return None  # A later outlier outweighs them: the means would not show it.
    return Truncation(cut, len(values), before, after, max(truncation.p, order_p))


def _pulled_in(values: Sequence[float], far: Sequence[Outlier], level: float) -> list[float]:
    """Return the values with outliers moved to the threshold, wherever they are: a single one is no
    warm-up, and a later one hides none."""
    tame = list(values)
    if not far:
        return tame
    middle, threshold = median(values), outlier_threshold(len(values), level)
    for outlier in far:
        # The score is linear in the values, so the spread is not needed here.
        limit = threshold / abs(outlier.score)
        tame[outlier.place] = middle * (1 - limit) + outlier.value * limit
    return tame


def rather_a_step(values: Sequence[float]) -> bool:
    """Return whether a step within the first third of a series fits it better than a straight
    line, by the margin; the values, shape `(n,)`, must not all be equal."""
    scaled = standardized(values, moments(values))
    n = len(scaled)
    x = [place - (n - 1) / 2 for place in range(n)]
    line = dot(x, scaled) ** 2 / dot(x, x)
    # For values with mean 0, the sums before and after a cut differ only in sign.
    sums = enumerate(accumulate(scaled[: n // 3]), 1)
    step = max(total * total * n / (cut * (n - cut)) for cut, total in sums)
    noise = max(dot(scaled, scaled) - max(step, line), 0.0) / (n - 2)
    return step - line > t.STEP_MARGIN * noise


def _comes_back(values: Sequence[float], cut: int, level: float) -> bool:
    """Return whether the values have two modes, and the rarer one occurs after the cut more than a
    quarter as often as before it: then the test switches between modes and does not warm up."""
    modes = two_modes(values, level)
    if modes is None:
        return False
    between = modes.low / 2 + modes.high / 2
    high_is_rarer = modes.n_high <= modes.n_low
    rarer = [(value > between) == high_is_rarer for value in values]
    return 4 * sum(rarer[cut:]) > sum(rarer[:cut])


def warm_up_finding(one: ExaminedSeries, warm: Truncation) -> Finding | None:
    """Return the finding about a warm-up: its trials, and the mean with and without them; None if
    the means hardly differ."""
    epochs = one.column.epochs[: warm.removed]
    every = moments(one.column.values).mean
    if abs(every - warm.mean_after) < t.RELEVANT_CHANGE * abs(warm.mean_after):
        return None
    shown = states(
        metric=one.column.name,
        removed=warm.removed,
        n=warm.n,
        change=change(warm.mean_before - warm.mean_after, warm.mean_after),
        last=str(epochs[-1]),
        p=p_text(warm.p),
        mean=Figure(every, one.unit),
        without=Figure(warm.mean_after, one.unit),
    )
    return make_finding("warm-up", one.test, shown)


# --------------------------------------------------------------------------------------
# Findings about a series of trials: warm-up, outliers, modes, drift and leaks,
# dependence.
#
# Purpose: effects that a mean and its interval hide. One cause is reported once: a warm-up is
# removed before the rest is examined, values of a second mode are not outliers, and dependence is
# judged from the residuals of a drift.
# Decision: the main metrics of the test (its rule's, or elapsed and the declared ones) are
# examined for every kind of finding, all others only for drift; each has a share of the level.
# Jumps (stats/steps.py) are marked in plots and are not findings: a late jump is
# reported as drift, an early one as warm-up, and a separate code would need a share of the level.
# Non-goals: causes; removing values from figures.


def series_findings(
    test: str,
    columns: Mapping[str, MetricColumn],
    book: MetricRules,
    *,
    rule: StoppingRule | None = None,
    least_changes: Mapping[str, float] | None = None,
    also: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings about a test's series, metric by metric; `also` are further main
    metrics."""
    found = {
        name: _within_replicates(column)
        for name, column in columns.items()
        if len(column.values) >= t.FEWEST_TRIALS and not _only_replicates_differ(column)
    }
    least = least_changes or {}
    judged = dict.fromkeys((*_about(rule, book, found), *also))
    about = [name for name in judged if name in found]
    others = [name for name in _others(book, found) if name not in about]

    def series(name: str, among: int) -> ExaminedSeries:
        unit, change = book.row(name).unit, least.get(name, book.least_change(name))
        is_mean = not (isinstance(rule, UntilPrecise) and rule.share is not None)
        return ExaminedSeries(test, found[name], unit, 1 / among, change, is_mean)

    result: list[Finding] = []
    for name in about:
        result += examine_series(series(name, len(about)))
    for name in others:
        examined_series = series(name, len(others))
        result += _drift_of_other(examined_series)
    return tuple(result)


def _only_replicates_differ(column: MetricColumn) -> bool:
    """Return whether trials of one replicate are equal, or single, where those of others differ."""
    each = set(zip(column.paths, column.values, strict=True)) if column.paths else set()
    paths = len(set(column.paths))
    return (
        bool(each)
        and len(each) == paths
        and (paths == len(column.values) or len(set(column.values)) > 1)
    )


def _within_replicates(column: MetricColumn) -> MetricColumn:
    """Return the values as they vary within their replicates, around the mean of all: that replicates
    differ is what they are for, and no step, mode or drift."""
    if not column.paths:
        return column
    groups: dict[ReplicatePath, list[float]] = {}
    for path, value in zip(column.paths, column.values, strict=True):
        groups.setdefault(path, []).append(value)
    middle = fmean(column.values)
    shifts = {path: middle - fmean(values) for path, values in groups.items()}
    pairs = zip(column.paths, column.values, strict=True)
    return msgspec.structs.replace(
        column, values=tuple(value + shifts[path] for path, value in pairs)
    )


def _about(
    rule: StoppingRule | None, book: MetricRules, found: Mapping[str, MetricColumn]
) -> Sequence[str]:
    """Return the main metrics of the test."""
    if isinstance(rule, UntilPrecise):
        return rule.metrics
    if "elapsed" in found:
        return tuple(dict.fromkeys(("elapsed", *book.declared)))
    return book.judged((*found, *book.declared))


def _others(book: MetricRules, found: Mapping[str, MetricColumn]) -> list[str]:
    """Return the metrics that are examined only for a drift or a leak."""
    shown = [n for n in book.shown(found) if not book.row(n).computed]
    return list(dict.fromkeys((*shown, *(n for n in RISING if n in found))))


def examine_series(one: ExaminedSeries) -> list[Finding]:
    """Return every finding about one metric, in the order of causes."""
    if constant := _constant_finding(one):
        return [constant]
    far = outliers(one.column.values, t.LEVEL_OUTLIERS * one.share)
    warm = _warm_up(one, far, t.LEVEL_DRIFT * one.share)
    cut = 0 if warm is None else warm.removed
    rest = one.after(cut)
    slope = trend(rest, t.LEVEL_DRIFT * one.share)
    residuals = rest.column.values if slope is None else slope.residuals
    modes = modes_finding(rest, residuals)
    if warm is not None:
        far = outliers(rest.column.values, t.LEVEL_OUTLIERS * one.share)
    findings = (
        None if warm is None else warm_up_finding(one, warm),
        modes,
        outlier_finding(rest, far) if far and modes is None else None,
        None if slope is None else drift_finding(rest, slope),
        dependence_finding(rest, residuals),
    )
    return [
        msgspec.structs.replace(finding, metric=one.column.name)
        for finding in findings
        if finding is not None
    ]


def _constant_finding(one: ExaminedSeries) -> Finding | None:
    """Return the finding about equal values that are too few for an interval."""
    values = one.column.values
    if min(values) < max(values) or len(values) >= ENOUGH_EQUAL:
        return None
    shown = states(
        metric=one.column.name,
        value=exact_text(values[0], one.unit),
        trials=len(values),
        rarest=SlowRuns.unseen(len(values)).frequency,
    )
    finding = make_finding("constant", one.test, shown)
    return msgspec.structs.replace(finding, metric=one.column.name)


def _drift_of_other(examined_series: ExaminedSeries) -> list[Finding]:
    far = outliers(examined_series.column.values, t.LEVEL_OUTLIERS * examined_series.share)
    warm = _warm_up(examined_series, far, t.LEVEL_DRIFT_OF_OTHERS * examined_series.share)
    rest = examined_series if warm is None else examined_series.after(warm.removed)
    slope = trend(rest, t.LEVEL_DRIFT_OF_OTHERS * examined_series.share)
    finding = None if slope is None else drift_finding(rest, slope)
    return [] if finding is None else [finding]


def _warm_up(
    examined_series: ExaminedSeries, far: Sequence[Outlier], drift_level: float
) -> Truncation | None:
    """Return the warm-up; None if a drift of the whole series is more likely."""
    warm = warm_up(examined_series, far)
    if warm is None or rather_a_step(examined_series.column.values):
        return warm
    return warm if trend(examined_series, drift_level) is None else None
