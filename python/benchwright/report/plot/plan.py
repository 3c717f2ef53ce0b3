"""What a mode is given to make a chart of: the request, and what it means here."""

from __future__ import annotations

import msgspec

from benchwright.model.errors import Diagnostic, InputError
from benchwright.report.plot.chart import ABSENT, Mode, Point, Series
from benchwright.report.plot.intervals import error_bar, known, reached
from benchwright.report.plot.places import Place, Places
from benchwright.report.plot.source import Component, Group, Source
from benchwright.report.plot.style import Spacing


class Request(msgspec.Struct, frozen=True):
    """What the user asked to see; how it looks is a `Style`."""

    mode: Mode = Mode.LINE
    components: tuple[str, ...] = ()
    factor: str | None = None
    errorbars: str = "t"
    confidence: float = 0.95
    stacks: tuple[tuple[str, ...], ...] | None = None
    """Each from the bottom up; None: User over System where both are drawn."""
    spacing: Spacing = Spacing()
    baseline: str | None = None
    xlabel: str | None = None
    ylabel: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """The request with its tests, quantities and places found."""

    groups: tuple[Group, ...]
    components: tuple[Component, ...]
    places: Places
    request: Request

    def tests(self) -> list[tuple[Group, Source, Place]]:
        """Return every test with its group and place, in the order given."""
        return [
            (group, source, place)
            for group, places in zip(self.groups, self.places.groups, strict=True)
            for source, place in zip(group.sources, places, strict=True)
        ]


def point_of(plan: Plan, source: Source, component: Component, place: Place) -> Point:
    """Return a test's point: its mean and error bar, or a gap. Its x is yet to be set."""
    column = source.columns.get(component.name)
    x = place.number if place.number is not None else 0.0
    if column is None:
        return Point(source.test, place.label, x, gap=ABSENT)
    request = plan.request
    own = reached(source.stop, component.name)
    bar = error_bar(column.values, request.errorbars, request.confidence, own)
    return Point(
        test=source.test,
        label=place.label,
        x=x,
        n=int(column.values.size),
        value=known(bar.value),
        low=known(bar.low),
        high=known(bar.high),
        method=bar.method if known(bar.low) is not None else "",
    )


def legend_of(plan: Plan, group: Group, component: Component) -> str:
    """Return what tells a series from the others: its name, its component, or both."""
    if len(plan.components) == 1:
        return group.name
    return f"{group.name} {component.label}"


def series_of(
    group: Group, component: Component, legend: str, points: list[Point]
) -> Series:
    """Return a series of these points."""
    return Series(group.name, component.label, component.unit, legend, tuple(points))


def refuse(message: str, hint: str, where: str) -> InputError:
    """Return the InputError for what a mode cannot draw."""
    return InputError([Diagnostic("bad-plot", message, hint, where)])
