"""Lines and bars: one value per test, along an axis or in groups and stacks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.findings.result import TestResult
from benchwright.report.charts.plan import (
    PlotPlan,
    category_axis,
    category_positions,
    category_ticks,
    each_once,
    legend_of,
    panel_curve,
    plot_error,
    plot_point,
    plot_series,
    positions_of_tests,
    series_looks,
    shown_legends,
    value_axis,
    zero_or_none,
)
from benchwright.report.charts.plot_data import PlotData, PlotPoint, PlotSeries
from benchwright.report.charts.sheet import AxisTick, CurveForm, Panel, PanelAxis, PanelCurve
from benchwright.report.charts.source import PlotComponent, PlotGroup, choose_components, title_of
from benchwright.report.charts.style import ChartStyle

# -- Lines: each series over what varies, points in the order of the axis --------------
#
# Decision: the axis is numeric if every test has a number; else it has categories in
# natural order, shared by all series. Source: Auto-pilot paper, section 3.4, Figure 4.

_FEW_LABELS = 16


def line_chart(plan: PlotPlan) -> PlotData:
    """Return the line chart. Raises InputError if two points of a series coincide."""
    order = category_positions(plan)
    series = []
    for component in plan.components:
        for group, places in zip(plan.groups, plan.places.groups, strict=True):
            points = [
                plot_point(plan, source, component, place)
                for source, place in zip(group.sources, places, strict=True)
            ]
            placed = sorted(on_axis(plan, points, order), key=lambda point: point.x)
            _check_distinct(group.name, placed)
            legend = legend_of(plan, group, component)
            series.append(plot_series(group, component, legend, placed))
    return PlotData(
        mode=plan.request.mode,
        series=tuple(series),
        ticks=_ticks(plan, order),
        factor=plan.places.factor,
        numeric=plan.places.numeric,
    )


def on_axis(plan: PlotPlan, points: list[PlotPoint], order: dict[str, int]) -> list[PlotPoint]:
    """Return the points with their x: the test's number, or its category's position."""
    if plan.places.numeric:
        return points
    return [msgspec.structs.replace(p, x=float(order[p.label])) for p in points]


def _ticks(plan: PlotPlan, order: dict[str, int]) -> tuple[AxisTick, ...]:
    if not plan.places.numeric:
        return tuple(AxisTick(float(at), label) for label, at in order.items())
    numbers = {p.label: p.number or 0.0 for g in plan.places.groups for p in g}
    return tuple(AxisTick(numbers[label], label) for label in order)


def _check_distinct(name: str, points: list[PlotPoint]) -> None:
    for one, other in itertools.pairwise(points):
        if one.x == other.x:
            message = f"series {name!r}: {one.test} and {other.test} are both at {one.label}"
            hint = "name what varies by -x FACTOR, or give each its own NAME"
            raise plot_error(message, hint, "GLOB")


def line_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each series as a line with markers; a gap breaks it. Between names there is no
    line, because there is nothing between them."""
    form = CurveForm.MARKED if plot.numeric else CurveForm.POINTS
    curves = [
        panel_curve(series.points, form, series.legend, look)
        for look, series in zip(series_looks(plot), plot.series, strict=True)
    ]
    x = category_axis(plot, 0.3)
    if plot.numeric:
        places = [tick.x for tick in plot.ticks]
        gaps = [right - left for left, right in itertools.pairwise(places)]
        apart = bool(gaps) and min(gaps) >= (places[-1] - places[0]) / 12
        few = 0 < len(places) <= _FEW_LABELS
        ticks = plot.ticks if few and (style.logx or apart) else ()
        x = PanelAxis(plot.xlabel, log=style.logx, ticks=ticks)
    return Panel("", x, value_axis(plot, style, zero_or_none(plot)), tuple(curves))


# -- Bars: groups, positions and stacks -------------------------------------------------
#
# Purpose: the artificial axis that Graphit made for gnuplot. There is a group of bars for
# each test, with its components side by side and User stacked over System; or, for one
# component of several NAMEs with several tests each, a group for each position, with the
# NAMEs side by side. Decision: a stack with a missing segment has no segments above it,
# because their height would mean nothing. Non-goal: horizontal bars.
# Source: Auto-pilot paper, section 3.4, Figure 5.

DEFAULT_STACK = ("system", "user")


class BarLayout(msgspec.Struct, frozen=True):
    """Positions of a chart's bars, in units of a bar's width."""

    slots: int
    bar: float
    gap: float
    group: float

    @property
    def pitch(self) -> float:
        """Distance between the middles of neighbouring groups."""
        return self.slots * self.bar + (self.slots - 1) * self.gap + self.group

    def centre(self, group: float, slot: int) -> float:
        """Return the middle of a bar; group 0 has its middle at 0."""
        return group * self.pitch + (slot - (self.slots - 1) / 2) * (self.bar + self.gap)


def bar_chart(plan: PlotPlan) -> PlotData:
    """Return the bar chart. Raises InputError for stacks that cannot be drawn."""
    plan = _ordered(plan)
    if _side_by_side(plan):
        return _by_name(plan)
    return _by_component(plan)


def _ordered(plan: PlotPlan) -> PlotPlan:
    """Return the plan with each group's tests in the order of the axis."""
    order = category_positions(plan)
    groups, places = [], []
    for group, at in zip(plan.groups, plan.places.groups, strict=True):
        pairs = sorted(zip(group.sources, at, strict=True), key=lambda pair: order[pair[1].label])
        groups.append(msgspec.structs.replace(group, sources=tuple(source for source, _ in pairs)))
        places.append(tuple(place for _, place in pairs))
    positions = msgspec.structs.replace(plan.places, groups=tuple(places))
    return msgspec.structs.replace(plan, groups=tuple(groups), places=positions)


def _side_by_side(plan: PlotPlan) -> bool:
    """Return whether a group's bars are NAMEs at a shared position, rather than components."""
    several = sum(len(group.sources) > 1 for group in plan.groups) > 1
    distinct = all(len({p.label for p in at}) == len(at) for at in plan.places.groups)
    return len(plan.components) == 1 and several and distinct


def _by_name(plan: PlotPlan) -> PlotData:
    order, spacing = category_positions(plan), plan.request.spacing
    layout = BarLayout(len(plan.groups), spacing.bar, spacing.gap, spacing.group)
    (component,) = plan.components
    series = []
    for slot, (group, places) in enumerate(zip(plan.groups, plan.places.groups, strict=True)):
        points = [
            msgspec.structs.replace(
                plot_point(plan, source, component, place),
                x=layout.centre(order[place.label], slot),
                width=layout.bar,
            )
            for source, place in zip(group.sources, places, strict=True)
        ]
        series.append(plot_series(group, component, group.name, points))
    ticks = tuple(
        AxisTick(layout.centre(at, 0) + _middle(layout), label) for label, at in order.items()
    )
    return PlotData(plan.request.mode, tuple(series), ticks=ticks, factor=plan.places.factor)


def _middle(layout: BarLayout) -> float:
    return (layout.slots - 1) / 2 * (layout.bar + layout.gap)


def _by_component(plan: PlotPlan) -> PlotData:
    stacks = _stacks(plan)
    spacing = plan.request.spacing
    layout = BarLayout(len(stacks), spacing.bar, spacing.gap, spacing.group)
    points = _placed(plan, stacks, layout)
    series: list[PlotSeries] = []
    for component in plan.components:
        for group in plan.groups:
            own = [points[id(source), component.name] for source in group.sources]
            series.append(plot_series(group, component, component.label, own))
    ticks, blocks = category_ticks(plan, layout.pitch)
    factor = plan.places.factor if blocks or len(plan.groups) == 1 else ""
    return PlotData(plan.request.mode, tuple(series), ticks=ticks, blocks=blocks, factor=factor)


def _placed(
    plan: PlotPlan, stacks: list[tuple[PlotComponent, ...]], layout: BarLayout
) -> dict[tuple[int, str], PlotPoint]:
    """Return the points by test and component, stacked and positioned."""
    found: dict[tuple[int, str], PlotPoint] = {}
    for at, (group, source, place) in zip(positions_of_tests(plan), plan.tests(), strict=True):
        for slot, stack in enumerate(stacks):
            base: float | None = 0.0
            for component in stack:
                point = plot_point(plan, source, component, place)
                if len(stack) > 1 and (point.value or 0.0) < 0:
                    raise _negative(group, source, component)
                point = _on(point, base)
                base = None if base is None or point.value is None else base + point.value
                found[id(source), component.name] = msgspec.structs.replace(
                    point, x=layout.centre(at, slot), width=layout.bar
                )
    return found


def _on(point: PlotPoint, base: float | None) -> PlotPoint:
    """Return the point on its base; a gap if the base is None."""
    if base is None:
        why = point.gap or "the component below it is missing"
        return PlotPoint(point.test, point.label, point.x, gap=why)
    return msgspec.structs.replace(point, base=base)


def _negative(group: PlotGroup, source: TestResult, component: PlotComponent) -> InputError:
    message = f"{group.name} {title_of(source)}: {component.label} is negative, and stacked"
    return plot_error(message, "draw it beside the others: --no-stack", "--stack")


def _stacks(plan: PlotPlan) -> list[tuple[PlotComponent, ...]]:
    """Return the components in each slot of a group, from the bottom up.

    A stack has the slot of its first component.
    """
    by_name = {component.name: component for component in plan.components}
    asked = plan.request.stacks
    if asked is None:
        whole = all(name in by_name for name in DEFAULT_STACK)
        stacks = [tuple(by_name[name] for name in DEFAULT_STACK)] if whole else []
    else:
        stacks = _requested_stacks(plan, asked)
    stack_of = {component.name: stack for stack in stacks for component in stack}
    slots = [stack_of.get(name, (by_name[name],)) for name in by_name]
    return list(dict.fromkeys(slots))


def _requested_stacks(
    plan: PlotPlan, asked: tuple[tuple[str, ...], ...]
) -> list[tuple[PlotComponent, ...]]:
    wrong: list[Diagnostic] = []
    stacks = [choose_components(words, plan.components, wrong) for words in asked]
    for mistake in wrong:
        hint = mistake.hint.replace("there are", "--components has")
        raise plot_error(mistake.message, hint, "--stack")
    units = [{component.unit for component in stack} for stack in stacks]
    names = [component.name for stack in stacks for component in stack]
    if len(names) != len(set(names)):
        raise plot_error(
            "a component is in two stacks", "name each component in one --stack only", "--stack"
        )
    if any(len(unit) > 1 for unit in units):
        raise plot_error(
            "the stacked components have different units", "stack components of one unit", "--stack"
        )
    return stacks


def bar_panel(plot: PlotData, style: ChartStyle) -> Panel:
    """Return each component as bars, with the error bars on top of them."""
    kinds = plot.legends()
    labels = each_once(shown_legends(plot, style))
    curves = []
    for series, label in zip(plot.series, labels, strict=True):
        at = kinds.index(series.legend)
        points = [point for point in series.points if point.value is not None]
        bars = panel_curve(points, CurveForm.BARS, label, (at, at, at), bars=False)
        base = tuple(point.base for point in points)
        width = points[0].width if points else 1.0
        curves.append(msgspec.structs.replace(bars, base=base, width=width))
    all_points = [point for series in plot.series for point in series.points]
    known = [point for point in all_points if point.low is not None]
    if known:
        curves.append(_whiskers(known, all_points))
    width = max((point.width for point in all_points), default=1.0)
    x = category_axis(plot)
    if all_points:
        ends = [point.x for point in all_points]
        x = msgspec.structs.replace(x, low=min(ends) - width, high=max(ends) + width)
    return Panel("", x, value_axis(plot, style, zero_or_none(plot)), tuple(curves))


def _whiskers(points: Sequence[PlotPoint], all_points: Sequence[PlotPoint]) -> PanelCurve:
    """Return error bars on bars; those of a stack are side by side."""
    x, y, low, high = [], [], [], []
    for point in points:
        assert point.value is not None
        assert point.low is not None
        stack = [p for p in all_points if p.x == point.x and p.value is not None]
        stack.sort(key=lambda other: other.base)
        place = (stack.index(point) + 0.5) / len(stack) - 0.5
        x.append(point.x + 0.5 * place * point.width * (len(stack) > 1))
        y.append(point.base + point.value)
        low.append(point.base + point.low)
        high.append(None if point.high is None else point.base + point.high)
    return PanelCurve("", tuple(x), tuple(y), CurveForm.INTERVALS, low=tuple(low), high=tuple(high))
