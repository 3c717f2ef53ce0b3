"""The pictures of trials: of any number, as drawings and as series with zoom and cursor.

Decision: up to `MOST_DRAWN` trials each is a point. Beyond, the drawing has the range of the values
in equal groups of trials, the distribution has values at evenly spaced ranks, and the page has all
values once more as a series.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.text import plural
from benchwright.core.untrusted import visible
from benchwright.findings.result import TestResult
from benchwright.report.answer import TestAnswer
from benchwright.report.charts.compose import compose_plot, plot_sheet
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.sheet import AxisUnit, LevelLine, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.source import PlotGroup, axis_positions, split_by_factors
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.trials import (
    ShownTest,
    course_sheet,
    distribution_sheet,
    metric_axis,
    shown_test,
)
from benchwright.views.blocks import LongSeries, Picture

_BRIEF = "A slope, a step or a wave means that something changed during the test."
MOST_DRAWN = 500
_GROUPS = 150
_RANKS = 250
_MOST_IN_SERIES = 100_000
MOST_OF_PAGE = 9
"""Maximum of loads that a page shows."""


def normal_sheet(group: PlotGroup) -> Sheet:
    """Return the normal probability plots of a page."""
    shown = group.sources[:MOST_OF_PAGE]
    shown = tuple(test.labelled(name=visible(test.name)) for test in shown)
    group = msgspec.structs.replace(group, sources=shown)
    plot, _ = compose_plot([group], ChartRequest(mode=PlotMode.NORMAL))
    return plot_sheet(plot, ChartStyle())


def shown(test: TestResult, row: TestAnswer) -> ShownTest:
    """Return a test's trials with the values of the metric that it is about."""
    return shown_test(test, visible(row.name), row.metric, row.estimate)


def axis_of(test: TestResult, row: TestAnswer) -> PanelAxis:
    """Return the axis of the metric that a test is about."""
    rule = test.rules.row(row.metric)
    return metric_axis(visible(rule.label.lower()), rule.unit)


def distribution(identifier: str, tests: Sequence[ShownTest], axis: PanelAxis) -> Picture:
    """Return every value of each test, with the estimates."""
    several = len(tests) > 1
    rarer = [_at_ranks(test) for test in tests]
    thinned = "" if rarer == list(tests) else " Of many trials, values at even ranks."
    return Picture(
        id=identifier,
        title="Distribution" if not several else "Distribution of each test",
        sheet=distribution_sheet(rarer, axis),
        reading="Each pale point is a trial, and the dark point is the estimate with its "
        "interval. Two clusters, or points far from the others, mean that one number does not "
        f"describe the trials.{thinned}",
    )


def over_factor(identifier: str, tests: Sequence[TestResult], metric: str) -> Picture | None:
    """Return the estimates along the factor that is a number, with a line for each level of the
    others; None if no factor is a number."""
    # Also the arms of a comparison, which a chart of their own has by name.
    groups = [PlotGroup("", tuple(test.labelled(arm=None) for test in tests))]
    split, factor = split_by_factors(groups, None)
    places = axis_positions(split, factor, [])
    if not places.numeric or not all(len(group) > 1 for group in places.groups):
        return None
    request = ChartRequest(components=(metric,), errorbars="interval")
    try:
        plot, _ = compose_plot(groups, request)
    except InputError:
        return None  # Two tests of one level, for example, have no line.
    return Picture(
        id=identifier,
        title=f"Along {visible(places.factor or 'the number in the name')}",
        sheet=plot_sheet(plot, ChartStyle()),
        reading="The points are the estimates with their intervals. The lines only connect them: "
        "between two levels nothing was measured.",
    )


def course(identifier: str, test: ShownTest, axis: PanelAxis, *, brief: bool = False) -> Picture:
    """Return the trials in the order of time; `brief`: as one of many charts."""
    reading = (
        "Each point is a trial, in the order of time; the band is the interval of the estimate. A "
        "slope, a step or a wave means that the machine or the program changed during the test. "
        "Void and failed trials have markers of their own and do not count."
    )
    plain = msgspec.structs.replace(test, name="")
    if len(test.trials) <= MOST_DRAWN:
        sheet = course_sheet([plain], axis)
        return Picture(
            id=identifier,
            title="Course of the trials",
            sheet=sheet,
            reading=_BRIEF if brief else reading,
            brief=brief,
        )
    sheet = _grouped(plain, axis)
    return Picture(
        id=identifier,
        title="Course of the trials",
        sheet=sheet,
        reading=f"The line is the median of {_GROUPS} groups of trials in the order of time, and "
        "the band is from their smallest to their largest value. With scripts, all values "
        "can be zoomed: drag to select a range, double-click to return.",
        long=_series(test, axis),
    )


def _at_ranks(test: ShownTest) -> ShownTest:
    counted = test.counted()
    if len(counted) <= MOST_DRAWN:
        return test
    ordered = sorted(counted, key=lambda trial: trial.value or 0.0)
    last = len(ordered) - 1
    kept = tuple(ordered[round(at * last / (_RANKS - 1))] for at in range(_RANKS))
    return msgspec.structs.replace(test, trials=kept)


def _grouped(test: ShownTest, axis: PanelAxis) -> Sheet:
    scale = 1e9 if axis.unit is AxisUnit.TIME else 1.0
    values = [trial.value for trial in test.trials]
    size = -(-len(values) // _GROUPS)
    x, middle, low, high = [], [], [], []
    for begin in range(0, len(values), size):
        group = [value * scale for value in values[begin : begin + size] if value is not None]
        if group:
            x.append(begin + (size + 1) / 2)
            middle.append(median(group))
            low.append(min(group))
            high.append(max(group))
    curve = PanelCurve(
        "median, with the range", tuple(x), tuple(middle), low=tuple(low), high=tuple(high)
    )
    marks: tuple[LevelLine, ...] = ()
    if test.estimate is not None:
        marks = (LevelLine("estimate", test.estimate.value * scale),)
    along = PanelAxis("trial, in the order of time", AxisUnit.COUNT)
    return Sheet("", (Panel("", along, axis, (curve,), marks=marks),), columns=1)


def _series(test: ShownTest, axis: PanelAxis) -> LongSeries:
    values = [
        None if trial.value is None else float(f"{trial.value:.5g}") for trial in test.trials
    ][:_MOST_IN_SERIES]
    label = axis.label if axis.unit is not AxisUnit.TIME else f"{axis.label} [s]"
    return LongSeries(
        start=1,
        step=1,
        x_label="trial",
        y_label=label,
        labels=(f"{plural(len(values), 'trial')}",),
        series=(tuple(values),),
    )


def normal_pictures(key: str, group: PlotGroup | None) -> Iterator[Picture]:
    """Yield the normal probability plot of responses; nothing for None."""
    if group is None:
        return
    left = len(group.sources) - MOST_OF_PAGE
    more = f" bw plot --mode normal draws {left} more." if left > 0 else ""
    yield Picture(
        id=key,
        title="Normal probability plot of the responses",
        sheet=normal_sheet(group),
        reading="Responses of repeated trials over the scores of a normal distribution: they are "
        "near the line if they are normal, as Student's intervals assume. All points of a normal "
        f"sample are in the band with a probability of 95 %.{more}",
    )
