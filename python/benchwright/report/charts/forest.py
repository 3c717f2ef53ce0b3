"""Chart of a comparison: the ratio of each candidate to the baseline, with the null run.

Purpose: one row for each candidate and metric, with the interval of its verdict, so that a reader
sees at once which differences are larger than the noise. Decision: the ratio is always candidate /
baseline, as in the verdicts; the dashed lines are 1 and the limits of equivalence; the interval of
a null run (the command against itself), where one was stored, is below the row. A ratio that spans
a factor of 4 gets a logarithmic axis. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from benchwright.core.comparison import ComparisonResult, MetricVerdict, Verdict
from benchwright.core.quantity import finite
from benchwright.core.text import percent_text
from benchwright.report.charts.sheet import (
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    named_ticks,
)
from benchwright.report.comparison import verdict_word

_BELOW = 0.3
_WIDE = 4.0
_LOOKS: dict[Verdict | None, tuple[int, int]] = {
    Verdict.FASTER: (4, 4),
    Verdict.SLOWER: (3, 2),
    Verdict.EQUIVALENT: (0, 0),
    Verdict.UNDECIDED: (1, 1),
    None: (7, 3),
}
"""Colour and marker of each verdict; the markers of better and worse point down and up."""


def forest_sheet(comparison: ComparisonResult, metric_name: Callable[[str], str] = str) -> Sheet:
    """Return the ratios of all candidates, those of one metric together; `metric_name` returns
    the text for a metric."""
    verdicts = [
        verdict for verdict in comparison.verdicts if finite(verdict.ratio.value) is not None
    ]
    rows = {id(one): float(at) for at, one in enumerate(verdicts)}
    curves = []
    for verdict, (colour, shape) in _LOOKS.items():
        labelled: dict[str, list[MetricVerdict]] = {}
        for metric_verdict in verdicts:
            if metric_verdict.verdict is verdict:
                label = verdict_word(metric_verdict, comparison) if verdict else "not judged"
                labelled.setdefault(label, []).append(metric_verdict)
        for label, here in labelled.items():
            curves.append(
                PanelCurve(
                    label,
                    tuple(rows[id(one)] for one in here),
                    tuple(one.ratio.value for one in here),
                    CurveForm.POINTS,
                    colour=colour,
                    shape=shape,
                    low=tuple(finite(one.ratio.low) for one in here),
                    high=tuple(finite(one.ratio.high) for one in here),
                    names=tuple(_row_name(one, comparison, metric_name) for one in here),
                )
            )
    null = _null_curve(comparison, verdicts)
    margin = comparison.rule.margin
    marks = [LevelLine("", 1.0)]
    if null is not None:
        curves.append(null)
    if any(verdict.verdict is Verdict.EQUIVALENT for verdict in verdicts):
        marks += [LevelLine("", 1 / (1 + margin)), LevelLine("", 1 + margin)]
    ends = [
        end
        for curve in curves
        for row in (curve.y, curve.low, curve.high)
        for end in row
        if end is not None and end > 0
    ]
    wide = bool(ends) and max(ends) > _WIDE * min(ends)
    names = (_row_name(verdict, comparison, metric_name) for verdict in verdicts)
    panel = Panel(
        "",
        PanelAxis("", ticks=named_ticks(names)),
        PanelAxis(f"ratio to {comparison.arms[0]}", log=wide),
        tuple(curves),
        marks=tuple(marks),
        missing="" if curves else "no ratio is known",
        sideways=True,
    )
    return Sheet("", (panel,), columns=1, note=_note(comparison, marks))


def _row_name(
    verdict: MetricVerdict, comparison: ComparisonResult, metric_name: Callable[[str], str]
) -> str:
    """Return the candidate, the metric, or both, whichever differ."""
    candidates = len(comparison.arms) > 2
    metrics = len({verdict.metric for verdict in comparison.verdicts}) > 1
    if metrics and not candidates:
        return metric_name(verdict.metric)
    if not metrics:
        return verdict.candidate
    return f"{verdict.candidate} {metric_name(verdict.metric)}"


def _null_curve(comparison: ComparisonResult, verdicts: list[MetricVerdict]) -> PanelCurve | None:
    """Return the interval of the command against itself, below the rows of its metric."""
    if comparison.null is None:
        return None
    widths = {floor.metric: floor.half_width for floor in comparison.null.floors}
    here = [
        (row, width, verdict.metric)
        for row, verdict in enumerate(verdicts)
        if (width := widths.get(verdict.metric)) is not None and math.isfinite(width)
    ]
    if not here:
        return None
    return PanelCurve(
        "null run",
        tuple(row + _BELOW for row, _, _ in here),
        (1.0,) * len(here),
        CurveForm.LEVELS,
        colour=7,
        low=tuple(1 / (1 + width) for _, width, _ in here),
        high=tuple(1 + width for _, width, _ in here),
        names=tuple(f"null run, {metric}" for _, _, metric in here),
    )


def _note(comparison: ComparisonResult, marks: list[LevelLine]) -> str:
    if len(marks) == 1:
        return ""
    margin = percent_text(comparison.rule.margin)
    return f"dashed lines: no difference, and the limits of equivalence (±{margin})"
