"""What the panels of several modes of `bw plot` have in common: axes, curves, looks, legends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.report.charts.plot_data import PlotData, PlotPoint, label_with_unit
from benchwright.report.charts.sheet import CurveForm, Panel, PanelAxis, PanelCurve, Sheet
from benchwright.report.charts.style import ChartStyle

BLACK = 6
"""Index in the colours of `style.py`."""


def stacked_sheet(panels: Sequence[Panel], style: ChartStyle, columns: int = 1) -> Sheet:
    """Return a page with these panels."""
    drawn = list(panels)
    if columns == 1 and not drawn[0].sideways:
        # Only the lowest panel has the names of groups and the axis' label.
        upper = msgspec.structs.replace
        drawn[:-1] = [upper(one, x=upper(one.x, label="", groups=())) for one in drawn[:-1]]
    return Sheet(style.title, tuple(drawn), columns, whole_page=True)


def by_component(plot: PlotData) -> Iterator[PlotData]:
    """Yield the part of each component."""
    for component in plot.components():
        series = tuple(one for one in plot.series if one.component == component)
        yield msgspec.structs.replace(plot, series=series)


def component_label(plot: PlotData) -> str:
    """Return the label of the first component, with its unit."""
    first = plot.series[0]
    return label_with_unit(first.component, first.unit)


def by_components(
    panel: Callable[[PlotData, ChartStyle], Panel],
) -> Callable[[PlotData, ChartStyle], Sheet]:
    """Return the function that draws a panel for each component, one below the other, each with the
    component's label if there are several."""

    def sheet(plot: PlotData, style: ChartStyle) -> Sheet:
        parts = list(by_component(plot))
        if len(parts) > 1:
            parts = [msgspec.structs.replace(p, ylabel=component_label(p)) for p in parts]
        return stacked_sheet([panel(part, style) for part in parts], style)

    return sheet


def category_axis(plot: PlotData, beside: float = 0.6) -> PanelAxis:
    """Return an axis of categories, with room at both ends."""
    at = [tick.x for tick in plot.ticks]
    low, high = (min(at) - beside, max(at) + beside) if at else (None, None)
    return PanelAxis(plot.xlabel, low=low, high=high, ticks=plot.ticks, groups=plot.blocks)


def value_axis(plot: PlotData, style: ChartStyle, low: float | None = None) -> PanelAxis:
    """Return the vertical axis; it starts at `low` unless the style sets another value."""
    low = style.ymin if style.ymin is not None else None if style.logy else low
    return PanelAxis(plot.ylabel, log=style.logy, low=low, high=style.ymax)


def zero_or_none(plot: PlotData) -> float | None:
    """Return 0 if no value is negative, else None. The axis then starts at 0 even if an
    error bar extends below it."""
    values = [p.value for s in plot.series for p in s.points if p.value is not None]
    return 0.0 if values and min(values) >= 0 else None


def panel_curve(
    points: Sequence[PlotPoint],
    form: CurveForm,
    label: str,
    look: tuple[int, int, int],
    *,
    bars: bool = True,
) -> PanelCurve:
    """Return points as a curve; `look` is the indices of its colour, dash and shape."""
    known = bars and any(point.low is not None for point in points)
    colour, dash, shape = look
    return PanelCurve(
        label,
        tuple(point.x for point in points),
        tuple(point.value for point in points),
        form,
        colour=colour,
        dash=dash,
        shape=shape,
        low=tuple(point.low for point in points) if known else (),
        high=tuple(point.high for point in points) if known else (),
    )


def series_looks(plot: PlotData) -> list[tuple[int, int, int]]:
    """Return the indices of each series' colour, dash and shape.

    With several NAMEs and several components, the colour shows the component and the dash
    the NAME; with several NAMEs and several tests of a NAME, the colour shows the NAME.
    """
    names = list(dict.fromkeys(series.name for series in plot.series))
    components = plot.components()
    within: dict[tuple[str, str], int] = {}
    found = []
    for place, series in enumerate(plot.series):
        name, component = names.index(series.name), components.index(series.component)
        key = (series.name, series.component)
        within[key] = within.get(key, -1) + 1
        if len(names) > 1 and len(components) > 1:
            found.append((component, name, place))
        elif 1 < len(names) < len(plot.series):
            found.append((name, within[key], place))
        else:
            found.append((place, place, place))
    return found


def shown_legends(plot: PlotData, style: ChartStyle) -> list[str]:
    """Return each series' text in the legend; empty if all series have the same text."""
    alone = len(plot.legends()) == 1 and style.key.region == "auto"
    return ["" if alone else series.legend for series in plot.series]


def each_once(labels: Sequence[str]) -> Iterator[str]:
    """Yield each label at its first occurrence, and an empty text at later ones."""
    for place, label in enumerate(labels):
        yield "" if label in labels[:place] else label
