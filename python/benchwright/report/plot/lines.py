"""Lines: each series over what varies, points in the order of the axis.

Decision: the axis is one of numbers when every test has one, else of categories in
natural order, shared by all series. Source: Auto-pilot paper, section 3.4, Figure 4.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from benchwright.report.plot.categories import categories
from benchwright.report.plot.chart import Chart, Point, Tick
from benchwright.report.plot.plan import Plan, legend_of, point_of, refuse, series_of


def compose(plan: Plan) -> Chart:
    """Return the line chart. Raises InputError where two points of a series coincide."""
    order = categories(plan)
    series = []
    for component in plan.components:
        for group, places in zip(plan.groups, plan.places.groups, strict=True):
            points = [
                point_of(plan, source, component, place)
                for source, place in zip(group.sources, places, strict=True)
            ]
            placed = sorted(on_axis(plan, points, order), key=lambda point: point.x)
            _check(group.name, placed)
            legend = legend_of(plan, group, component)
            series.append(series_of(group, component, legend, placed))
    return Chart(
        mode=plan.request.mode,
        series=tuple(series),
        ticks=_ticks(plan, order),
        factor=plan.places.factor,
        numeric=plan.places.numeric,
    )


def on_axis(plan: Plan, points: list[Point], order: dict[str, int]) -> list[Point]:
    """Return the points with their place on the axis: a number, or their category's."""
    if plan.places.numeric:
        return points
    return [msgspec.structs.replace(p, x=float(order[p.label])) for p in points]


def _ticks(plan: Plan, order: dict[str, int]) -> tuple[Tick, ...]:
    if not plan.places.numeric:
        return tuple(Tick(float(at), label) for label, at in order.items())
    numbers = {p.label: p.number or 0.0 for g in plan.places.groups for p in g}
    return tuple(Tick(numbers[label], label) for label in order)


def _check(name: str, points: list[Point]) -> None:
    for one, other in pairwise(points):
        if one.x == other.x:
            message = (
                f"series {name!r}: {one.test} and {other.test} are both at {one.label}"
            )
            hint = "name what varies by -x FACTOR, or give each its own NAME"
            raise refuse(message, hint, "GLOB")
