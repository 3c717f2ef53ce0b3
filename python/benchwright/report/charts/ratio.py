"""Ratios to a baseline, paired by block if the tests ran in blocks."""

from __future__ import annotations

import math
from statistics import fmean

import msgspec

from benchwright.core.quantity import exponential, finite
from benchwright.core.results import Estimate
from benchwright.findings.result import TestResult
from benchwright.report.charts.plan import (
    PlotPlan,
    category_axis,
    category_positions,
    each_once,
    legend_of,
    panel_curve,
    plot_error,
    plot_series,
    shown_legends,
    value_axis,
)
from benchwright.report.charts.plot_data import ABSENT, PlotData, PlotPoint, PlotSeries
from benchwright.report.charts.sheet import AxisTick, CurveForm, LevelLine, Panel
from benchwright.report.charts.source import (
    AxisPosition,
    PlotComponent,
    PlotGroup,
    number_of,
    title_of,
)
from benchwright.report.charts.style import ChartStyle
from benchwright.stats.aggregate import MetricColumn
from benchwright.stats.intervals import t_mixture_interval
from benchwright.stats.two_sample import ratio_of_means

# --------------------------------------------------------------------------------------
# The ratio of two tests: paired by block if they ran in blocks, else unpaired.
#
# Decision: arms of one comparison use the method of `bw compare`: the mean of the blocks' log
# ratios, with a confidence sequence, which is valid for any number of looks. So the picture
# agrees with the stored verdict. Other tests use Welch's interval on logarithms.
# Sources: `stats.intervals`, `stats.two_sample`.


def ratio_of_tests(
    baseline: TestResult, test: TestResult, name: str, confidence: float
) -> Estimate:
    """Return test / baseline of a quantity that both have; NaN if a value is not positive, a
    NaN interval if there are too few values."""
    column, other = baseline.columns[name], test.columns[name]
    if not _paired(baseline, test):
        return ratio_of_means(column.values, other.values, confidence)
    if min(*column.values, *other.values) <= 0:
        return Estimate(math.nan, math.nan, math.nan, confidence, "paired", 0, "ratio")
    assert test.arm is not None
    mixture_interval = t_mixture_interval(
        _log_ratios(column, other, test.arm.trials_per_block), confidence
    )
    method = f"{mixture_interval.method}, paired"
    value, low, high = map(
        exponential, (mixture_interval.value, mixture_interval.low, mixture_interval.high)
    )
    return Estimate(value, low, high, confidence, method, mixture_interval.n, "ratio")


def _paired(baseline: TestResult, test: TestResult) -> bool:
    """Return whether both are arms of one comparison in blocks."""
    arm, other = baseline.arm, test.arm
    if arm is None or other is None:
        return False
    same = arm.comparison == other.comparison and arm.place != other.place
    return same and arm.paired and other.paired


def _log_ratios(baseline: MetricColumn, test: MetricColumn, per_block: int) -> list[float]:
    """Return the log ratio of every block in which both tests have all their trials."""
    one, other = _by_block(baseline, per_block), _by_block(test, per_block)
    return [
        fmean(other[block]) - fmean(one[block])
        for block in sorted(one.keys() & other.keys())
        if len(one[block]) == len(other[block]) == per_block
    ]


def _by_block(column: MetricColumn, per_block: int) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for epoch, value in zip(column.epochs, column.values, strict=True):
        found.setdefault((epoch - 1) // per_block, []).append(math.log(value))
    return found


# -- The chart of ratios with their intervals --------------------------------------------
#
# Purpose: `--baseline NAME`. If NAME is one of several NAMEs, each test of another NAME is
# compared with the baseline's test at the same position (Ext3 with Ext2, both with 4 threads).
# If NAME is a test, all other tests are compared with it; if it is the only NAME, with its
# first test. Decision: ratios are means on logarithms; a value that is not positive makes a gap.
# Non-goal: verdicts; they are from `bw compare`.

RatioPair = tuple[TestResult, AxisPosition, TestResult]
"""A test, its position, and the test that it is compared with."""


def ratio_chart(plan: PlotPlan) -> PlotData:
    """Return the chart of ratios. Raises InputError if nothing can be compared."""
    word = plan.request.baseline or plan.groups[0].name
    group = next((g for g in plan.groups if g.name == word), None)
    if group is not None and len(plan.groups) > 1:
        return _against_group(plan, group)
    if plan.request.baseline is None or group is not None:
        return _against_test(plan, plan.groups[0].sources[0])
    return _against_test(plan, _test(plan, word))


def _test(plan: PlotPlan, word: str) -> TestResult:
    for _, source, _ in plan.tests():
        if word in (source.name, title_of(source)):
            return source
    names = [group.name for group in plan.groups if len(plan.groups) > 1]
    names += [title_of(source) for _, source, _ in plan.tests()]
    there = "there are: " + ", ".join(dict.fromkeys(names))
    raise plot_error(f"no NAME and no test is {word!r}", there, "--baseline")


def _against_group(plan: PlotPlan, baseline: PlotGroup) -> PlotData:
    """Return the ratios of the other NAMEs' tests to the baseline's test at the same position."""
    pairs_of = {}
    own = _places(plan, baseline)
    alone = len(baseline.sources) == 1
    for group, places in zip(plan.groups, plan.places.groups, strict=True):
        if group is baseline:
            continue
        pairs_of[group.name] = [
            (source, place, baseline.sources[0] if alone else own[place.label])
            for source, place in zip(group.sources, places, strict=True)
            if alone or place.label in own
        ]
        if not pairs_of[group.name]:
            what = f"{group.name!r} has no test at a place where {baseline.name!r} has one"
            raise plot_error(what, "name what varies by -x FACTOR", "--baseline")
    if all(len(pairs) == 1 for pairs in pairs_of.values()):
        return _of_names(plan, pairs_of, baseline.name)
    order = category_positions(plan)
    used = {place.label for pairs in pairs_of.values() for _, place, _ in pairs}
    labels = [label for label in order if label in used]
    return _chart(plan, pairs_of, labels, baseline.name)


def _places(plan: PlotPlan, group: PlotGroup) -> dict[str, TestResult]:
    at = plan.groups.index(group)
    labels = [place.label for place in plan.places.groups[at]]
    if len(set(labels)) < len(labels):
        message = f"the baseline {group.name!r} has several tests at one place"
        raise plot_error(message, "name what varies by -x FACTOR", "--baseline")
    return dict(zip(labels, group.sources, strict=True))


def _of_names(plan: PlotPlan, pairs_of: dict[str, list[RatioPair]], baseline: str) -> PlotData:
    """Return a chart in which each NAME is a category with one ratio."""
    renamed = {
        name: [(source, AxisPosition(name), over) for source, _, over in pairs]
        for name, pairs in pairs_of.items()
    }
    chart = _chart(plan, renamed, list(renamed), baseline)
    several = len(plan.components) > 1
    series = (
        msgspec.structs.replace(s, legend=s.component if several else baseline)
        for s in chart.series
    )
    return msgspec.structs.replace(chart, series=tuple(series), factor="")


def _against_test(plan: PlotPlan, baseline: TestResult) -> PlotData:
    """Return the ratios of all other tests to one of them, with a series for each NAME."""
    pairs_of = {
        group.name: [
            (source, place, baseline)
            for source, place in zip(group.sources, places, strict=True)
            if source is not baseline
        ]
        for group, places in zip(plan.groups, plan.places.groups, strict=True)
    }
    pairs_of = {name: pairs for name, pairs in pairs_of.items() if pairs}
    if not pairs_of:
        message = f"{title_of(baseline)} is the only test: there is nothing to compare it with"
        raise plot_error(message, "give another NAME GLOB", "GLOB")
    if len(plan.groups) > 1 and all(len(pairs) == 1 for pairs in pairs_of.values()):
        return _of_names(plan, pairs_of, title_of(baseline))
    used = {place.label for pairs in pairs_of.values() for _, place, _ in pairs}
    labels = [label for label in category_positions(plan) if label in used]
    return _chart(plan, pairs_of, labels, title_of(baseline))


def _chart(
    plan: PlotPlan, pairs_of: dict[str, list[RatioPair]], labels: list[str], baseline: str
) -> PlotData:
    groups = {group.name: group for group in plan.groups}
    series: list[PlotSeries] = []
    for component in plan.components:
        for name, pairs in pairs_of.items():
            points = [
                msgspec.structs.replace(
                    _ratio(plan, component, pair), x=float(labels.index(pair[1].label))
                )
                for pair in pairs
            ]
            points.sort(key=lambda point: point.x)
            legend = legend_of(plan, groups[name], component)
            one = plot_series(groups[name], component, legend, points)
            series.append(msgspec.structs.replace(one, unit="ratio"))
    return PlotData(
        mode=plan.request.mode,
        series=tuple(series),
        ylabel=_label(plan, baseline),
        ticks=tuple(AxisTick(float(at), label) for at, label in enumerate(labels)),
        factor=plan.places.factor,
        baseline=baseline,
    )


def _label(plan: PlotPlan, baseline: str) -> str:
    what = f"{plan.components[0].label} / " if len(plan.components) == 1 else "Ratio to "
    return f"{what}{baseline}"


def _ratio(plan: PlotPlan, component: PlotComponent, pair: RatioPair) -> PlotPoint:
    """Return a test's ratio to its baseline; a gap if it does not exist."""
    source, place, over = pair
    for side, why in ((source, ABSENT), (over, f"{title_of(over)} has none")):
        if component.name not in side.columns:
            return PlotPoint(source.name, place.label, 0.0, gap=why)
    ratio = ratio_of_tests(over, source, component.name, plan.request.confidence)
    if finite(ratio.value) is None:
        return PlotPoint(source.name, place.label, 0.0, gap=_why(source, over, component))
    bars = plan.request.errorbars != "none" and finite(ratio.high) is not None
    return PlotPoint(
        test=source.name,
        label=place.label,
        x=0.0,
        n=len(source.columns[component.name].values),
        value=ratio.value,
        low=finite(ratio.low) if bars else None,
        high=finite(ratio.high) if bars else None,
        method=ratio.method if bars else "",
        short=() if bars else _short(plan, (over, source), component),
    )


def _short(
    plan: PlotPlan, pair: tuple[TestResult, TestResult], component: PlotComponent
) -> tuple[tuple[str, str], ...]:
    """Return which of two tests have fewer than the two trials that an error bar needs."""
    return tuple(
        (f"{group.name} {source.name}", "1 trial")
        for test in pair
        for group, source, _ in plan.tests()
        if source is test and len(source.columns[component.name].values) < 2
    )


def _why(source: TestResult, over: TestResult, component: PlotComponent) -> str:
    both = (source.columns[component.name], over.columns[component.name])
    least = min(min(column.values) for column in both)
    return "a value is not above 0" if least <= 0 else "no block has both"


_BESIDE = 0.5
"""Share of a category's width over which the ratios of several series are spread."""
_WIDE = 4.0
"""Ratios that differ by this factor are drawn on a logarithmic axis."""


def ratio_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each ratio as a point with its interval, around the line of the baseline; in
    rows if there is one ratio, or if the axis has names, which are long."""
    legends = plot.legends()
    names = list(dict.fromkeys((one.name, one.component) for one in plot.series))
    shared = len(legends) < len(plot.series)
    total = len(legends) if shared else len(names)
    labels = each_once(shown_legends(plot, style))
    curves = []
    for place, (series, label) in enumerate(zip(plot.series, labels, strict=True)):
        at = legends.index(series.legend) if shared else place
        offset = _BESIDE * ((at + 0.5) / total - 0.5) if total > 1 else 0.0
        curve = panel_curve(series.points, CurveForm.POINTS, label, (at, at, at))
        moved = tuple(x + offset for x in curve.x)
        curves.append(msgspec.structs.replace(curve, x=moved))
    ends = [
        end
        for series in plot.series
        for point in series.points
        for end in (point.value, point.low, point.high)
        if end is not None
    ]
    wide = bool(ends) and min(ends) > 0 and max(ends) / min(ends) > _WIDE
    y = value_axis(plot, style)
    return Panel(
        "",
        category_axis(plot),
        msgspec.structs.replace(y, log=y.log or wide),
        tuple(curves),
        marks=(LevelLine("", 1.0),),
        sideways=len(plot.ticks) == 1 or all(number_of(tick.label) is None for tick in plot.ticks),
    )
