"""The data of `bw plot`: series of points with intervals, also for JSON and as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.results import Finding
from benchwright.core.text_table import csv_of_rows
from benchwright.report.charts.sheet import AxisTick
from benchwright.report.charts.trials import ShownTrial
from benchwright.report.documents import FileEntry, FindingEntry, entries
from benchwright.stats.probability_plot import ProbabilityPlot

# -- Series of points with their intervals, on named axes -------------------------------
#
# Purpose: one description for every mode, so that the picture, `--json` and `--datafile`
# cannot disagree. Decision: a point has its position on the axis and its bar's base and width,
# so that layout is computed and tested here. Rejected: to query matplotlib for the layout after
# drawing. Absent is not zero: a value of None is a gap. Non-goal: colours and fonts (`style.py`).


class PlotMode(StrEnum):
    """Kind of plot."""

    LINE = "line"
    BAR = "bar"
    ECDF = "ecdf"
    VIOLIN = "violin"
    STRIP = "strip"
    POINTS = "points"
    EPOCHS = "epochs"
    NORMAL = "normal"
    RATIO = "ratio"


ABSENT = "no counted trial has a value"
"""The most common reason for a gap."""


class SingleValues(msgspec.Struct, frozen=True):
    """The single values of a test: one per trial that counts."""

    epochs: tuple[int, ...]
    values: tuple[float, ...]
    removed: int = 0
    """Number of warm-up values at the start."""
    changes: tuple[int, ...] = ()
    """Indices, from 0, at which a new segment starts."""
    left_out: tuple[ShownTrial, ...] = ()
    """The test's trials that do not count, in the modes that mark them."""


class PlotPoint(msgspec.Struct, frozen=True):
    """One test in a series."""

    test: str
    """The input's name."""
    label: str
    """Its label on the axis: a factor's level, or a name."""
    x: float
    """Its position on the axis: the number, or the position of its category."""
    n: int = 0
    """Number of trials."""
    value: float | None = None
    """Value in the series' unit; None is a gap."""
    gap: str = ""
    """Why there is no value."""
    low: float | None = None
    """Lower end of the error bar; None if there is none."""
    high: float | None = None
    method: str = ""
    """Method of the error bar."""
    confidence: float = 0.0
    """Of an interval that another tool's file states, NaN if the file does not state it; 0 for
    other points, which have the plot's."""
    short: tuple[tuple[str, str], ...] = ()
    """Tests with too few trials for an error bar, each with its number of trials; empty: this
    test."""
    base: float = 0.0
    """Lower end of a stacked bar, in the series' unit."""
    width: float = 0.0
    """Width of a bar, in the unit of `x`."""
    values: SingleValues | None = None
    normal: ProbabilityPlot | None = None
    """The values beside a normal distribution, in that mode."""


class PlotSeries(msgspec.Struct, frozen=True):
    """One quantity of the tests under one name."""

    name: str
    """NAME as on the command line."""
    component: str
    """Label of the quantity, such as `Elapsed`."""
    unit: str
    legend: str
    """Text in the legend; series with the same text look the same."""
    points: tuple[PlotPoint, ...]


class PlotData(msgspec.Struct, frozen=True):
    """Everything that one picture shows."""

    mode: PlotMode
    series: tuple[PlotSeries, ...]
    xlabel: str = ""
    ylabel: str = ""
    ticks: tuple[AxisTick, ...] = ()
    """Labels of the horizontal axis; empty if it shows numbers."""
    blocks: tuple[AxisTick, ...] = ()
    """A second row of labels, under groups of ticks."""
    factor: str = ""
    """What varies along the horizontal axis; empty if unknown."""
    numeric: bool = False
    """Whether the horizontal axis is numeric."""
    baseline: str = ""
    """The name of the baseline of ratios."""
    confidence: float = 0.95
    errorbars: str = "t"

    def legends(self) -> tuple[str, ...]:
        """Return the legend's texts, each once, in order."""
        return tuple(dict.fromkeys(series.legend for series in self.series))

    def components(self) -> tuple[str, ...]:
        """Return the labels of the quantities, each once, in order."""
        return tuple(dict.fromkeys(series.component for series in self.series))


def label_with_unit(label: str, unit: str) -> str:
    """Return a quantity's label with its unit: `Elapsed (s)`, `CPU%`."""
    return f"{label} ({unit})" if unit and not label.endswith("%") else label


# -- The plot's data as a document and as CSV --------------------------------------------
#
# Purpose: `--json` (schema benchwright/plot/1) and `--datafile`. Decision: the data file has
# one row per point, or one per value in the modes that draw single values. Graphit's data file
# was for gnuplot, ours is for any program. Absent figures are null in JSON and empty in CSV.

_POINTS = ("series", "component", "unit", "test", "x", "n", "value", "low", "high", "method")
_VALUES = ("series", "component", "unit", "test", "x", "epoch", "value", "warmup", "segment")
_NORMAL = ("score", "expected", "band_low", "band_high")
"""Further columns of a normal probability plot."""


class PointEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One test in a series, with the positions of its bars or its single values."""

    test: str
    x: float | str
    """A number, or the label of a category."""
    n: int
    value: float | None
    low: float | None
    high: float | None
    method: str | None
    """Method of the error bar."""
    gap: str | None
    """Why there is no value."""
    left: float | UnsetType = UNSET
    width: float | UnsetType = UNSET
    base: float | UnsetType = UNSET
    epochs: tuple[int, ...] | UnsetType = UNSET
    values: tuple[float, ...] | UnsetType = UNSET
    removed: int | UnsetType = UNSET
    """Number of warm-up values at the start."""
    changes: tuple[int, ...] | UnsetType = UNSET
    """Indices, from 0, at which a new segment starts."""
    left_out: tuple[ShownTrial, ...] | UnsetType = UNSET
    """Trials that do not count, each with its state."""
    scores: tuple[float, ...] | UnsetType = UNSET
    """Normal score of each value."""
    expected: tuple[float, ...] | UnsetType = UNSET
    """The value of a normal distribution at each score."""
    band_low: tuple[float, ...] | UnsetType = UNSET
    """Ends of the band at each score, that holds all values of a normal sample together with the
    plot's confidence; empty without a band."""
    band_high: tuple[float, ...] | UnsetType = UNSET
    p: float | UnsetType | None = UNSET
    """P value of the Anderson-Darling test of normality; null for fewer than 8 values."""


class SeriesEntry(msgspec.Struct, frozen=True):
    """One quantity of the tests under one name."""

    name: str
    component: str
    unit: str
    legend: str
    points: tuple[PointEntry, ...]


class PlotDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/plot/1"
):
    """The numbers that `bw plot` draws, and the files that it wrote."""

    mode: PlotMode
    xlabel: str
    ylabel: str
    factor: str | None
    """What varies along the horizontal axis."""
    baseline: str | None
    confidence: float
    errorbars: str
    ticks: tuple[AxisTick, ...]
    blocks: tuple[AxisTick, ...]
    """A second row of labels, under groups of ticks."""
    series: tuple[SeriesEntry, ...]
    files: tuple[FileEntry, ...]
    findings: tuple[FindingEntry, ...]


def plot_document(
    plot: PlotData, files: Sequence[FileEntry], findings: Iterable[Finding]
) -> PlotDocument:
    """Return the plot's numbers with the files that were written, for JSON."""
    return PlotDocument(
        mode=plot.mode,
        xlabel=plot.xlabel,
        ylabel=plot.ylabel,
        factor=plot.factor or None,
        baseline=plot.baseline or None,
        confidence=plot.confidence,
        errorbars=plot.errorbars,
        ticks=plot.ticks,
        blocks=plot.blocks,
        series=tuple(
            SeriesEntry(
                series.name,
                series.component,
                series.unit,
                series.legend,
                tuple(_point_entry(plot, point) for point in series.points),
            )
            for series in plot.series
        ),
        files=tuple(files),
        findings=entries(FindingEntry, tuple(findings)),
    )


def _point_entry(plot: PlotData, point: PlotPoint) -> PointEntry:
    more: dict[str, Any] = {}
    if point.width:
        left = point.x - point.width / 2
        more |= {"left": left, "width": point.width, "base": point.base}
    if point.values is not None:
        more |= msgspec.structs.asdict(point.values)
    if point.normal is not None:
        plotted = msgspec.structs.asdict(point.normal)
        more |= {_NORMAL_MEMBERS.get(name, name): of for name, of in plotted.items()}
    return PointEntry(
        test=point.test,
        x=_axis_value(plot, point),
        n=point.n,
        value=point.value,
        low=point.low,
        high=point.high,
        method=point.method or None,
        gap=point.gap or None,
        **more,
    )


_NORMAL_MEMBERS = {"low": "band_low", "high": "band_high"}


def _axis_value(plot: PlotData, point: PlotPoint) -> float | str:
    if plot.numeric and point.values is None:
        return point.x
    return point.label


def data_text(plot: PlotData) -> str:
    """Return the plot's numbers as CSV with a header line."""
    single = any(point.values for series in plot.series for point in series.points)
    normal = plot.mode is PlotMode.NORMAL
    rows: list[tuple[object, ...]] = [
        (*_VALUES, *(_NORMAL if normal else ())) if single else tuple(_POINTS)
    ]
    for series in plot.series:
        head = (series.name, series.component, series.unit)
        for point in series.points:
            place = _axis_value(plot, point)
            if single:
                rows += _value_rows((*head, point.test, place), point)
            else:
                figures = (point.n, point.value, point.low, point.high, point.method)
                rows.append((*head, point.test, place, *figures))
    return csv_of_rows(rows)


def _value_rows(head: tuple[object, ...], point: PlotPoint) -> list[tuple[object, ...]]:
    if point.values is None:
        return []
    values = point.values
    return [
        (
            *head,
            epoch,
            value,
            int(at < values.removed),
            sum(c <= at for c in values.changes) + 1,
            *_normal_cells(point.normal, at),
        )
        for at, (epoch, value) in enumerate(zip(values.epochs, values.values, strict=True))
    ]


def _normal_cells(normal: ProbabilityPlot | None, at: int) -> tuple[object, ...]:
    """Return a value's cells in the columns `_NORMAL`; none in other modes."""
    if normal is None:
        return ()
    band = (normal.low[at], normal.high[at]) if normal.low else ("", "")
    return (normal.scores[at], normal.expected[at], *band)
