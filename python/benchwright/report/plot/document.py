"""A chart as plain objects and as CSV: what is drawn, without reading pixels.

Purpose: `--json` (schema benchwright/plot/1) and `--datafile`. Decision: the data file
has one row per point, or in the modes that draw single values one per value; Graphit's
data file was for gnuplot, ours for any program. Absent figures are null, empty cells.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from benchwright.model.finding import Finding
from benchwright.report.json import finding_object
from benchwright.report.plot.chart import Chart, Point, Series, Tick

SCHEMA = "benchwright/plot/1"
_POINTS = (
    "series",
    "component",
    "unit",
    "test",
    "x",
    "n",
    "value",
    "low",
    "high",
    "method",
)
_VALUES = (
    "series",
    "component",
    "unit",
    "test",
    "x",
    "epoch",
    "value",
    "warmup",
    "segment",
)


def plot_object(
    chart: Chart, files: Sequence[dict[str, Any]], findings: Iterable[Finding]
) -> dict[str, Any]:
    """Return the chart as plain objects, with the files it was written to."""
    return {
        "schema": SCHEMA,
        "mode": chart.mode.value,
        "xlabel": chart.xlabel,
        "ylabel": chart.ylabel,
        "factor": chart.factor or None,
        "baseline": chart.baseline or None,
        "confidence": chart.confidence,
        "errorbars": chart.errorbars,
        "ticks": [_tick(tick) for tick in chart.ticks],
        "blocks": [_tick(block) for block in chart.blocks],
        "series": [_series(chart, series) for series in chart.series],
        "files": list(files),
        "findings": [finding_object(finding) for finding in findings],
    }


def _series(chart: Chart, series: Series) -> dict[str, Any]:
    return {
        "name": series.name,
        "component": series.component,
        "unit": series.unit,
        "legend": series.legend,
        "points": [_point(chart, point) for point in series.points],
    }


def _tick(tick: Tick) -> dict[str, Any]:
    return {"x": tick.x, "label": tick.label}


def _point(chart: Chart, point: Point) -> dict[str, Any]:
    found: dict[str, Any] = {
        "test": point.test,
        "x": _place(chart, point),
        "n": point.n,
        "value": point.value,
        "low": point.low,
        "high": point.high,
        "method": point.method or None,
        "gap": point.gap or None,
    }
    if point.width:
        left = point.x - point.width / 2
        found |= {"left": left, "width": point.width, "base": point.base}
    if point.values is not None:
        found |= {
            "epochs": list(point.values.epochs),
            "values": list(point.values.values),
            "removed": point.values.removed,
            "changes": list(point.values.changes),
        }
    return found


def _place(chart: Chart, point: Point) -> float | str:
    if chart.numeric and point.values is None:
        return point.x
    return point.label


def data_text(chart: Chart) -> str:
    """Return the chart's numbers as CSV with a header line."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    single = any(point.values for series in chart.series for point in series.points)
    writer.writerow(_VALUES if single else _POINTS)
    for series in chart.series:
        head = (series.name, series.component, series.unit)
        for point in series.points:
            place = _place(chart, point)
            if single:
                writer.writerows(_value_rows((*head, point.test, place), point))
            else:
                figures = (point.n, point.value, point.low, point.high, point.method)
                writer.writerow((*head, point.test, place, *figures))
    return text.getvalue()


def _value_rows(head: tuple[object, ...], point: Point) -> list[tuple[object, ...]]:
    if point.values is None:
        return []
    found = point.values
    return [
        (
            *head,
            epoch,
            value,
            int(at < found.removed),
            sum(c <= at for c in found.changes) + 1,
        )
        for at, (epoch, value) in enumerate(
            zip(found.epochs, found.values, strict=True)
        )
    ]
