"""Charts of a ramp: the scalability profile with the fitted law, and the response times.

Purpose: one page that shows where throughput stops growing and how response times grow.
Decision: two panels with the same axis of levels. Rejected: one panel with two scales, where
the crossing of the curves would mean nothing. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchwright.core.numeric import np
from benchwright.core.text import number_text, percent_text, rate_text
from benchwright.features.search.ramp.report import RampReport, level_text
from benchwright.features.search.ramp.scalability import law_throughput
from benchwright.features.search.ramp.types import (
    BandPoint,
    RampAxis,
    RampPoint,
    RampResult,
    ScalabilityModel,
    UslFit,
)
from benchwright.features.search.text import sample_text
from benchwright.report.charts.sheet import (
    CurveForm,
    Panel,
    PanelAxis,
    PanelCurve,
    ShadedRange,
    Sheet,
)

_LOG_FROM = 30.0
"""Levels, or responses, that differ by this factor are drawn on a logarithmic axis."""
_RESPONSES = (("mean", "response_ms_mean"), ("p50", "response_ms_p50"), ("p99", "response_ms_p99"))


def ramp_sheet(report: RampReport, band: Sequence[BandPoint]) -> Sheet:
    """Return the page of a ramp; `band` is the whole law's curve, empty if there is none."""
    points = () if report.result is None else report.result.points
    along = _along(report, points)
    panels = (_throughput_panel(report.result, points, band, along), _response_panel(points, along))
    return Sheet(title=_title(report), panels=panels, note=_note(report, points))


def _title(report: RampReport) -> str:
    result = report.result
    parts = ["Scalability profile"]
    if result is not None and result.saturation is not None:
        point = result.saturation
        level = level_text(point.level, result.axis)
        parts.append(f"saturates at {level} with {rate_text(point.throughput.value)}")
    if report.sample:
        parts.append(f"at {sample_text(report.sample)}")
    return ", ".join(parts)


def _along(report: RampReport, points: Sequence[RampPoint]) -> PanelAxis:
    label = "users" if report.goal.axis is RampAxis.USERS else "intended rate [1/s]"
    return PanelAxis(label, log=_is_wide([point.level for point in points]))


def _is_wide(values: Sequence[float]) -> bool:
    known = [value for value in values if value > 0]
    return bool(known) and max(known) > _LOG_FROM * min(known)


def _throughput_panel(
    result: RampResult | None,
    points: Sequence[RampPoint],
    band: Sequence[BandPoint],
    along: PanelAxis,
) -> Panel:
    fit = None if result is None else result.usl
    curves = [*_laws(fit, band), *_linear(points), *_measured(points)]
    return Panel(
        title="Throughput",
        x=along,
        y=PanelAxis("operations per second", low=0.0, high=_top(points, band)),
        curves=tuple(curves),
        spans=_spans(result),
        missing="" if points else "no level was measured",
    )


def _top(points: Sequence[RampPoint], band: Sequence[BandPoint]) -> float | None:
    """Return the upper end of the axis, so that the straight line does not flatten the profile."""
    measured = [point.throughput for point in points]
    ends = [one.high if math.isfinite(one.high) else one.value for one in measured]
    most = max([*ends, *(point.middle for point in band)], default=0.0)
    return 1.15 * most if most else None


def _measured(points: Sequence[RampPoint]) -> list[PanelCurve]:
    if not points:
        return []
    estimates = [point.throughput for point in points]
    known = any(math.isfinite(estimate.low) for estimate in estimates)
    return [
        PanelCurve(
            "measured",
            tuple(point.level for point in points),
            tuple(estimate.value for estimate in estimates),
            CurveForm.POINTS,
            low=tuple(_known(estimate.low) for estimate in estimates) if known else (),
            high=tuple(_known(estimate.high) for estimate in estimates) if known else (),
        )
    ]


def _known(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _linear(points: Sequence[RampPoint]) -> list[PanelCurve]:
    """Return the line of linear scaling from the first level."""
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    each = first.throughput.value / first.level
    # Enough points to draw the line on a logarithmic axis too.
    step = (last.level / first.level) ** (1 / 40)
    levels = tuple(first.level * step**place for place in range(41))
    return [
        PanelCurve(
            "as good as the first level", levels, tuple(each * x for x in levels), colour=7, dash=1
        )
    ]


_STATED = {
    ScalabilityModel.LINEAR: "linear law",
    ScalabilityModel.AMDAHL: "Amdahl's law",
    ScalabilityModel.SATURATING: "saturating law",
}


def _laws(fit: UslFit | None, band: Sequence[BandPoint]) -> list[PanelCurve]:
    """Return the law that the text states, and the whole one with its band, which may be another."""
    if fit is None or not band:
        return []
    users = tuple(point.users for point in band)
    # A result of an earlier version has the whole law alone.
    other = None if fit.law is None else _STATED.get(fit.preferred)
    whole = PanelCurve(
        "whole law, with its band" if other else "Universal Scalability Law, with its band",
        users,
        tuple(point.middle for point in band),
        colour=3 if other else 2,
        dash=2 if other else 0,
        low=tuple(point.low for point in band),
        high=tuple(point.high for point in band),
    )
    if fit.law is None or not other:
        return [whole]
    stated = law_throughput(fit.law, np.asarray(users))
    return [PanelCurve(other, users, tuple(stated.tolist()), colour=2), whole]


def _spans(result: RampResult | None) -> tuple[ShadedRange, ...]:
    if result is None or result.saturation is None:
        return ()
    level = result.saturation.level
    return (ShadedRange("saturation", level, level, level),)


def _response_panel(points: Sequence[RampPoint], along: PanelAxis) -> Panel:
    curves: list[PanelCurve] = []
    seen: list[float] = []
    for place, (label, name) in enumerate(_RESPONSES):
        known = [
            (point.level, value)
            for point in points
            if (value := getattr(point, name)) is not None and math.isfinite(value)
        ]
        if known:
            x, y = zip(*known, strict=True)
            curves.append(PanelCurve(label, x, y, CurveForm.MARKED, colour=place, dash=place))
            seen += y
    return Panel(
        title="Response",
        x=along,
        y=PanelAxis("response [ms]", log=_is_wide(seen), low=None if _is_wide(seen) else 0),
        curves=tuple(curves),
        missing="" if curves else "the generator reports no response times",
    )


def _note(report: RampReport, points: Sequence[RampPoint]) -> str:
    notes = []
    result = report.result
    if result is not None and result.usl is not None:
        fit = result.usl
        notes.append(
            f"preferred law: {fit.preferred}; points within ±"
            f"{percent_text(fit.residual)} of the whole law's curve"
        )
    bare = [p.level for p in points if not math.isfinite(p.throughput.low)]
    if bare:
        levels = ", ".join(map(number_text, bare)) if len(bare) < len(points) else ""
        at = f"no interval at {levels}" if levels else "no intervals"
        notes.append(f"{at}: the noise is not known")
    never = [p.level for p in points if p.response_ms_p99 == math.inf]
    if never:
        levels = ", ".join(number_text(level) for level in never)
        notes.append(f"p99 longer than any response that was waited for at {levels}")
    return "; ".join(notes)
