"""What the asked-for axes cannot show: told before anything is drawn.

Decision: a value that is not positive on a logarithmic axis is a mistake of the request,
not a point to be left out in silence; so is a stack there, whose segments' lengths
would mean nothing.
"""

from __future__ import annotations

import math

from benchwright.model.errors import Diagnostic, InputError
from benchwright.report.plot.chart import Chart, Mode, Point, Series
from benchwright.report.plot.style import Style

_TOLD = 5
_LARGEST = 1e306
_DECADES = 306


def check(chart: Chart, style: Style) -> None:
    """Raise InputError with everything that the axes cannot show."""
    wrong: list[Diagnostic] = []
    points = [(series, point) for series in chart.series for point in series.points]
    if style.logy:
        if any(point.base for _, point in points):
            message = "stacked bars have no meaning on a logarithmic axis"
            wrong.append(_mistake("--logy", message, "add --no-stack"))
        vertical = chart.mode is not Mode.ECDF
        wrong += _not_positive(
            "--logy", [p for p in points if vertical and _least(p[1]) <= 0]
        )
        wrong += _too_far_apart([_ends(point) for _, point in points])
    elif any(abs(end) > _LARGEST for _, point in points for end in _ends(point)):
        wrong.append(
            _mistake("GLOB", f"a value beyond {_LARGEST:g} cannot be drawn", "")
        )
    if style.logx:
        along = [p for p in points if _along(chart, p[1]) <= 0]
        wrong += _not_positive("--logx", along)
        if chart.mode is Mode.LINE and not chart.numeric:
            message = "the tests are at no numbers along the axis"
            wrong.append(_mistake("--logx", message, "name what varies by -x FACTOR"))
    if wrong:
        raise InputError(wrong)


def _ends(point: Point) -> list[float]:
    """Return every figure of a point that the vertical axis has to reach."""
    values = point.values.values if point.values is not None else ()
    ends = (point.value, point.low, point.high)
    return [*values, *(point.base + end for end in ends if end is not None)]


def _too_far_apart(ends: list[list[float]]) -> list[Diagnostic]:
    """Tell of values whose logarithms, with the room around them, leave the floats."""
    logs = [math.log10(end) for one in ends for end in one if end > 0]
    if not logs:
        return []
    room = 0.1 * (max(logs) - min(logs))
    if min(logs) - room > -_DECADES and max(logs) + room < _DECADES:
        return []
    message = (
        f"values from 1e{min(logs):.0f} to 1e{max(logs):.0f} do not fit on one axis"
    )
    return [_mistake("--logy", message, "draw them in charts of their own")]


def _least(point: Point) -> float:
    """Return the least value that is drawn of a point; 1 of a gap."""
    values = point.values.values if point.values is not None else ()
    return min(values, default=1.0 if point.value is None else point.value)


def _along(chart: Chart, point: Point) -> float:
    return _least(point) if chart.mode is Mode.ECDF else point.x if chart.numeric else 1


def _not_positive(option: str, points: list[tuple[Series, Point]]) -> list[Diagnostic]:
    found = [
        _mistake(
            option,
            f"{series.name} {point.test}: {series.component} is not above 0 on a "
            "logarithmic axis",
            "choose other --components, or a linear axis",
        )
        for series, point in points[:_TOLD]
    ]
    if len(points) > _TOLD:
        found.append(_mistake(option, f"and {len(points) - _TOLD} more", ""))
    return found


def _mistake(option: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-plot", message, hint, option)
