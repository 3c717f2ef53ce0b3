"""The chart of a series: each run with its interval, its levels, its steps and its segments."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.untrusted import visible
from benchwright.features.history.answer import SeriesAnswer
from benchwright.features.history.types import run_text
from benchwright.report.charts.sheet import (
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
)
from benchwright.report.charts.trials import metric_axis

MOST_RUNS = 500
"""Of a longer series, the newest ones are drawn."""
_RUN, _OUTLIER, _DOUBTFUL, _LEVEL = 0, 1, 3, 7
"""Colours (style.py)."""


def series_sheet(one: SeriesAnswer) -> Sheet:
    """Return the chart of a series."""
    return Sheet("", (series_panel(one),), columns=1)


def series_panel(one: SeriesAnswer) -> Panel:
    """Return the runs of a series in the order of time, each with its interval.

    Levels are lines with their intervals as bands; a step is shaded between the runs between which
    it happened; a line is where the environment changed.
    """
    points = one.series.points
    axis = metric_axis(visible(one.key.metric), points[-1].unit)
    first = max(len(points) - MOST_RUNS, 0)
    along = PanelAxis(
        "run, in the order of time", AxisUnit.COUNT, low=first + 0.4, high=len(points) + 0.6
    )
    scale = 1e9 if axis.unit is AxisUnit.TIME else 1.0
    curves = (*_level_curves(one, first, scale), *_run_curves(one, first, scale))
    return Panel("", along, axis, curves, spans=tuple(_spans(one, first)))


def _level_curves(one: SeriesAnswer, first: int, scale: float) -> Iterator[PanelCurve]:
    label = "level with its interval"
    for start, end, level in one.levels:
        if level is None or end < first:
            continue
        bounded = level.low == level.low
        ends = (max(start, first) + 0.6, end + 1.4)
        yield PanelCurve(
            label,
            ends,
            (level.value * scale,) * 2,
            colour=_LEVEL,
            low=(level.low * scale,) * 2 if bounded else (),
            high=(level.high * scale,) * 2 if bounded else (),
        )
        label = ""


def _run_curves(one: SeriesAnswer, first: int, scale: float) -> Iterator[PanelCurve]:
    points = one.series.points
    places = range(first, len(points))
    outliers = set(one.outliers)
    for label, colour, chosen in (
        ("run", _RUN, [p for p in places if p not in outliers and not points[p].codes]),
        (
            "run with a serious finding",
            _DOUBTFUL,
            [p for p in places if p not in outliers and points[p].codes],
        ),
        ("outlier run", _OUTLIER, [p for p in places if p in outliers]),
    ):
        if not chosen:
            continue
        runs = [points[p] for p in chosen]
        bounded = any(run.low is not None for run in runs)
        yield PanelCurve(
            label,
            tuple(p + 1.0 for p in chosen),
            tuple(run.estimate * scale for run in runs),
            CurveForm.POINTS,
            colour=colour,
            low=tuple(None if run.low is None else run.low * scale for run in runs)
            if bounded
            else (),
            high=tuple(None if run.high is None else run.high * scale for run in runs)
            if bounded
            else (),
            names=tuple(
                visible(" ".join((f"run {p + 1}", run_text(run), *run.tags)))
                for p, run in zip(chosen, runs, strict=True)
            ),
        )


def _spans(one: SeriesAnswer, first: int) -> Iterator[ShadedRange]:
    for step in one.steps:
        if step.index >= first:
            # From the last run that has the old level to the first that has the new one.
            low, high = float(step.first), step.last + 1.0
            label = "accepted step" if step.accepted else "step"
            yield ShadedRange(label, low, high, in_legend=True)
    for segment in one.segments[1:]:
        if segment.first >= first:
            at = segment.first + 0.5
            yield ShadedRange("environment changed", at, at, at=at, in_legend=True)
