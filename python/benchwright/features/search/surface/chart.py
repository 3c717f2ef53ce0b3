"""Charts of a response surface: contours and a relief of two factors, or profiles.

Purpose: plain numbers, composed and tested without drawing. With two or more numeric
factors, the two with the most levels are the axes of a map; there is a map for each
combination of the categorical factors. Other numeric factors are at a middle level, which the
title shows. With one numeric factor or none, there are profiles with the model's band.
Decision: axes use the model's transformed scale with the levels as ticks, so that powers of
two are evenly spaced. Pure; `draw.py` draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.text import number_text, plural, some_text
from benchwright.features.search.surface.result import predict_samples
from benchwright.features.search.surface.types import (
    Factor,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.features.search.text import open_answer_text, sample_text
from benchwright.report.charts.sheet import (
    OPEN_NAME,
    AxisTick,
    CurveForm,
    HeightGrid,
    OpenPoint,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    empty_panel,
)

STEPS = 33
"""Number of points of a map along each factor."""
MOST_MAPS = 4
_BOUND_DRAWN = 2.0
"""An answer that is not measured is drawn up to this multiple of the highest prediction: a bound
may be far above."""
_MOST_NAMED = 4
"""Maximum of samples named in a note."""
_OPEN_SHAPE = 6
"""Marker of a sample that is not measured: a cross."""
_BESIDE = 0.08
"""Sideways offset between curves at the same categorical level."""


def surface_sheet(goal: SurfaceGoal, result: SurfaceResult) -> Sheet:
    """Return the page of a surface."""
    title = "Peak rate [1/s]"
    if result.fit is None:
        why = "too few samples have a peak that a model can use"
        panel = empty_panel(why)
        return Sheet(title, (panel,), columns=1)
    numeric = _most_levels(
        [factor for factor in goal.factors if factor.numeric and len(factor.levels) > 1]
    )
    if len(numeric) >= 2:
        return _mapped(goal, result, (numeric[0], numeric[1]), title)
    axis = numeric[0] if numeric else _most_levels(goal.factors)[0]
    most = _BOUND_DRAWN * max(prediction.value for prediction in result.predictions)
    panel = _profile_panel(goal, result, axis, most)
    return Sheet(title, (panel,), columns=1, note="; ".join(_notes(result, most)))


def _most_levels(factors: Sequence[Factor]) -> list[Factor]:
    return sorted(factors, key=lambda one: -len(one.levels))


# -- maps ------------------------------------------------------------------------------


def _mapped(
    goal: SurfaceGoal, result: SurfaceResult, axes: tuple[Factor, Factor], title: str
) -> Sheet:
    """Return contours and a relief for each combination of the other factors' levels, all
    with the same colour scale."""
    others = list(_fixed(goal.factors, axes))
    shown = others[:MOST_MAPS]
    grids = [_grid(goal, result, axes, fixed) for fixed in shown]
    heights = [height for grid in grids for row in grid.heights for height in row]
    low, high = min(heights), max(heights)
    scale = (low, high) if high > low else (low - 0.5, high + 0.5)
    across, up = (_axis(axis) for axis in axes)
    panels = []
    for fixed, grid in zip(shown, grids, strict=True):
        flat = msgspec.structs.replace(grid, scale=scale)
        relief = msgspec.structs.replace(flat, relief=True)
        panels.append(Panel(_title(fixed), across, up, grid=flat))
        panels.append(Panel("", across, up, grid=relief))
    left = len(others) - len(shown)
    notes = [f"{left} more combinations of levels are not drawn"] if left else []
    notes += _notes(result)
    return Sheet(title, tuple(panels), note="; ".join(notes))


def _notes(result: SurfaceResult, most: float = math.inf) -> list[str]:
    """Return texts about what the picture does not show: that the model counts rough samples, and
    the samples whose search has no rate to draw, or none up to `most` [1/s]."""
    fit = result.fit
    notes = []
    if fit is not None and fit.rough:
        notes.append(
            f"the model is of {plural(fit.n, 'sample')}, {fit.rough} of them rough: their claim did not hold"
        )
    texts = [
        f"{sample_text(one.sample)}: {open_answer_text(one.found)}"
        for one in result.by_sample.values()
        if not one.claim_held and not _is_drawn(one, most)
    ]
    if texts:
        notes.append(f"not drawn: {some_text(texts, _MOST_NAMED, '; ')}")
    return notes


def _is_drawn(result: SampleResult, most: float) -> bool:
    rate = result.found.peak_rate
    return rate is not None and (result.claim_held or rate <= most)


def _fixed(factors: Sequence[Factor], axes: Sequence[Factor]) -> Iterator[dict[str, str]]:
    """Yield the combinations of the other factors' levels: all levels of categorical factors,
    a middle one of numeric factors."""
    others = [factor for factor in factors if factor not in axes]
    choices = [_middle(other) if other.numeric else other.levels for other in others]
    for chosen in itertools.product(*choices):
        yield {one.name: level for one, level in zip(others, chosen, strict=True)}


def _middle(factor: Factor) -> tuple[str, ...]:
    ordered = sorted(factor.levels, key=factor.place)
    return (ordered[len(ordered) // 2],)


def _grid(
    goal: SurfaceGoal, result: SurfaceResult, axes: tuple[Factor, Factor], fixed: dict[str, str]
) -> HeightGrid:
    across, up = axes
    x_at, y_at = _steps(), _steps()
    samples = [
        _sample(
            goal.factors,
            {**fixed, across.name: level_between(across, x), up.name: level_between(up, y)},
        )
        for y in y_at
        for x in x_at
    ]
    rates = [prediction.value for prediction in predict_samples(goal, result.results, samples)]
    rows = tuple(tuple(rates[at : at + STEPS]) for at in range(0, len(rates), STEPS))
    points: list[tuple[float, float, float]] = []
    open_points: list[OpenPoint] = []
    for one, rate in _answered(result.by_sample.values(), fixed):
        levels = dict(one.sample)
        x, y = across.place(levels[across.name]), up.place(levels[up.name])
        if one.claim_held:
            points.append((x, y, rate))
        else:
            open_points.append(OpenPoint(x, y, rate, _open_text(one)))
    return HeightGrid(x_at, y_at, rows, (0.0, 1.0), tuple(points), open_points=tuple(open_points))


def _answered(
    results: Iterable[SampleResult], fixed: dict[str, str]
) -> Iterator[tuple[SampleResult, float]]:
    """Yield the samples with the fixed levels whose search has an answer, measured or not, with its
    rate."""
    for result in results:
        levels, rate = dict(result.sample), result.found.peak_rate
        here = all(levels[name] == level for name, level in fixed.items())
        if here and rate is not None:
            yield result, rate


def _open_text(result: SampleResult) -> str:
    """Return the answer of a search without its claim in a few letters."""
    rate, kind = result.found.peak_rate or 0.0, result.found.bound_kind
    sign = "~" if kind is None else "≥ " if kind == "lower" else "≤ "
    return f"{sign}{number_text(float(f'{rate:.3g}'))}"


def _finite_ends(result: SampleResult) -> tuple[float | None, float | None]:
    """Return the ends of a search's interval; None for each that is not known."""
    interval = result.found.interval
    if interval is None:
        return None, None
    low = interval.low if 0 < interval.low < math.inf else None
    return low, interval.high if math.isfinite(interval.high) else None


def _title(fixed: dict[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in fixed.items())


# -- profiles --------------------------------------------------------------------------


def _profile_panel(goal: SurfaceGoal, result: SurfaceResult, axis: Factor, most: float) -> Panel:
    """Return the model along one factor, with a curve for each combination of the others; `most`:
    the highest rate of a sample that is not measured [1/s]."""
    others = [factor for factor in goal.factors if factor is not axis]
    curves: list[PanelCurve] = []
    for place, chosen in enumerate(itertools.product(*(other.levels for other in others))):
        fixed = {one.name: level for one, level in zip(others, chosen, strict=True)}
        curves += _profile_curves(goal, result, axis, fixed, place, most)
    y = PanelAxis("peak rate [1/s]", low=0.0)
    return Panel("", _axis(axis), y, tuple(curves))


def _profile_curves(
    goal: SurfaceGoal,
    result: SurfaceResult,
    axis: Factor,
    fixed: dict[str, str],
    place: int,
    most: float,
) -> Iterator[PanelCurve]:
    """Yield the model with its band, the measured samples, and with another marker those whose
    claim did not hold, up to the rate `most` [1/s]. A categorical factor has no values between
    levels, so the model is a level with a bar, beside those of other curves."""
    beside = 0.0 if axis.numeric else _BESIDE * place
    if axis.numeric:
        x_at = _steps()
        levels = [level_between(axis, x) for x in x_at]
    else:
        x_at, levels = tuple(map(float, range(len(axis.levels)))), list(axis.levels)
    samples = [_sample(goal.factors, {**fixed, axis.name: level}) for level in levels]
    found = predict_samples(goal, result.results, samples)
    banded = all(math.isfinite(one.low + one.high) for one in found)
    yield PanelCurve(
        _title(fixed),
        tuple(x + beside for x in x_at),
        tuple(one.value for one in found),
        CurveForm.LINE if axis.numeric else CurveForm.LEVELS,
        colour=place,
        dash=place,
        low=tuple(one.low for one in found) if banded else (),
        high=tuple(one.high for one in found) if banded else (),
    )
    answered = [
        pair for pair in _answered(result.by_sample.values(), fixed) if _is_drawn(pair[0], most)
    ]
    title = _title(fixed)
    for label, claim_held, shape in (
        ("", True, None),
        (f"{title}, {OPEN_NAME}" if title else OPEN_NAME, False, _OPEN_SHAPE),
    ):
        points = [pair for pair in answered if pair[0].claim_held is claim_held]
        ends = [_finite_ends(one) for one, _ in points]
        known = any(None not in pair for pair in ends)
        if points:
            yield PanelCurve(
                label,
                tuple(_place(axis, dict(one.sample)[axis.name]) + beside for one, _ in points),
                tuple(rate for _, rate in points),
                CurveForm.POINTS,
                colour=place,
                shape=shape,
                low=tuple(low for low, _ in ends) if known else (),
                high=tuple(high for _, high in ends) if known else (),
                names=() if claim_held else tuple(open_answer_text(one.found) for one, _ in points),
            )


# -- axes ------------------------------------------------------------------------------


def _axis(factor: Factor) -> PanelAxis:
    ordered = sorted(factor.levels, key=lambda level: _place(factor, level))
    ticks = tuple(AxisTick(_place(factor, level), level) for level in ordered)
    return PanelAxis(factor.name, ticks=ticks)


def _place(factor: Factor, level: str) -> float:
    if factor.numeric:
        return factor.place(level)
    return float(factor.levels.index(level))


def _steps() -> tuple[float, ...]:
    return tuple(-1 + 2 * at / (STEPS - 1) for at in range(STEPS))


def _sample(factors: Sequence[Factor], levels: dict[str, str]) -> Sample:
    return tuple((factor.name, levels[factor.name]) for factor in factors)


def level_between(factor: Factor, place: float) -> str:
    """Return the level at a position from -1 to 1, as text that the factor can parse."""
    at = [factor.transform.of(factor.number(level)) for level in factor.levels]
    inner = min(at) + (place + 1) / 2 * (max(at) - min(at))
    number = min(
        max(factor.transform.back(inner), min(map(factor.number, factor.levels))),
        max(map(factor.number, factor.levels)),
    )
    if factor.measure == "size":
        return f"{round(number)}"
    if factor.measure == "duration":
        return f"{number * 1e9:.0f}ns"
    if factor.measure == "share":
        return f"{100 * number:.10f}%"
    return repr(number)
