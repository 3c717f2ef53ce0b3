"""What is drawn of a response surface: contours and a relief of two factors, or profiles.

Purpose: plain numbers, composed and tested without drawing. With two or more numeric
factors, the two with the most levels span a map, one for each combination of the
categorical ones; further numeric factors stand at a middle level, which the title says.
With one numeric factor, or none, profiles with the model's band. Decision: axes are in
the model's transformed scale with the levels as ticks, so that powers of two are evenly
spaced. Pure; the drawing is in draw_surface.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.surface import (
    Factor,
    Prediction,
    Sample,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
)
from benchwright.decide.surface.result import predict_samples

STEPS = 33
"""Of a map, along each factor."""
MOST_MAPS = 4


class LevelAxis(msgspec.Struct, frozen=True):
    """An axis with a factor's levels as ticks."""

    label: str
    ticks: tuple[float, ...]
    names: tuple[str, ...]


class MeasuredPeak(msgspec.Struct, frozen=True):
    """A measured peak [1/s]; low and high are None where there is no interval."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class SurfaceMap(msgspec.Struct, frozen=True):
    """The model over two numeric factors."""

    title: str
    x: LevelAxis
    y: LevelAxis
    x_at: tuple[float, ...]
    y_at: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]
    """A row for each of `y_at`, a column for each of `x_at` [1/s]."""
    points: tuple[tuple[float, float, float], ...] = ()
    """x, y and rate of what was measured there."""


class SurfaceProfile(msgspec.Struct, frozen=True):
    """The model along one factor, all others fixed."""

    label: str
    x: tuple[float, ...]
    rates: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    points: tuple[MeasuredPeak, ...] = ()


class SurfaceProfiles(msgspec.Struct, frozen=True):
    """Profiles on one pair of axes."""

    title: str
    x: LevelAxis
    curves: tuple[SurfaceProfile, ...]
    steps: bool = False
    """Whether levels are words: nothing lies between them."""


class SurfaceChart(msgspec.Struct, frozen=True):
    """Everything that one page shows."""

    title: str
    maps: tuple[SurfaceMap, ...] = ()
    profiles: SurfaceProfiles | None = None
    missing: str = ""
    """Why there is nothing to draw."""
    note: str = ""
    """What is not drawn."""


def surface_chart(goal: SurfaceGoal, result: SurfaceResult) -> SurfaceChart:
    """Return what is drawn of a surface."""
    title = "Peak rate [1/s]"
    if result.fit is None:
        return SurfaceChart(title, missing="too few samples have a peak for a model")
    numeric = _most_levels(
        [one for one in goal.factors if one.numeric and len(one.levels) > 1]
    )
    if len(numeric) >= 2:
        return _mapped(goal, result, (numeric[0], numeric[1]), title)
    axis = numeric[0] if numeric else _most_levels(goal.factors)[0]
    return SurfaceChart(title, profiles=_profiles(goal, result, axis))


def _most_levels(factors: Sequence[Factor]) -> list[Factor]:
    return sorted(factors, key=lambda one: -len(one.levels))


# -- maps ------------------------------------------------------------------------------


def _mapped(
    goal: SurfaceGoal, result: SurfaceResult, axes: tuple[Factor, Factor], title: str
) -> SurfaceChart:
    others = list(_fixed(goal.factors, axes))
    maps = tuple(_map(goal, result, axes, one) for one in others[:MOST_MAPS])
    left = len(others) - len(maps)
    note = f"{left} more combinations of levels are not drawn" if left else ""
    return SurfaceChart(title, maps, note=note)


def _fixed(
    factors: Sequence[Factor], axes: Sequence[Factor]
) -> Iterator[dict[str, str]]:
    """Yield the levels of the other factors: each of words, a middle one of numbers."""
    others = [one for one in factors if one not in axes]
    choices = [_middle(one) if one.numeric else one.levels for one in others]
    for chosen in itertools.product(*choices):
        yield {one.name: level for one, level in zip(others, chosen, strict=True)}


def _middle(factor: Factor) -> tuple[str, ...]:
    ordered = sorted(factor.levels, key=factor.place)
    return (ordered[len(ordered) // 2],)


def _map(
    goal: SurfaceGoal,
    result: SurfaceResult,
    axes: tuple[Factor, Factor],
    fixed: dict[str, str],
) -> SurfaceMap:
    across, up = axes
    x_at, y_at = _steps(), _steps()
    samples = [
        _sample(
            goal.factors,
            {
                **fixed,
                across.name: level_between(across, x),
                up.name: level_between(up, y),
            },
        )
        for y in y_at
        for x in x_at
    ]
    rates = [one.value for one in predict_samples(goal, result.results, samples)]
    rows = tuple(tuple(rates[at : at + STEPS]) for at in range(0, len(rates), STEPS))
    points = tuple(
        (across.place(levels[across.name]), up.place(levels[up.name]), rate)
        for levels, rate in _measured(result.results, fixed)
    )
    return SurfaceMap(_title(fixed), _axis(across), _axis(up), x_at, y_at, rows, points)


def _measured(
    results: Sequence[SampleResult], fixed: dict[str, str]
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield levels and peak of what was measured at the fixed levels."""
    for one in results:
        levels = dict(one.sample)
        here = all(levels[name] == level for name, level in fixed.items())
        if here and one.peak_rate is not None:
            yield levels, one.peak_rate


def _title(fixed: dict[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in fixed.items())


# -- profiles --------------------------------------------------------------------------


def _profiles(
    goal: SurfaceGoal, result: SurfaceResult, axis: Factor
) -> SurfaceProfiles:
    others = [one for one in goal.factors if one is not axis]
    curves = []
    for chosen in itertools.product(*(one.levels for one in others)):
        fixed = {one.name: level for one, level in zip(others, chosen, strict=True)}
        curves.append(_profile(goal, result, axis, fixed))
    return SurfaceProfiles("", _axis(axis), tuple(curves), steps=not axis.numeric)


def _profile(
    goal: SurfaceGoal, result: SurfaceResult, axis: Factor, fixed: dict[str, str]
) -> SurfaceProfile:
    if axis.numeric:
        x_at = _steps()
        levels = [level_between(axis, x) for x in x_at]
    else:
        x_at, levels = tuple(map(float, range(len(axis.levels)))), list(axis.levels)
    samples = [_sample(goal.factors, {**fixed, axis.name: one}) for one in levels]
    told = predict_samples(goal, result.results, samples)
    return SurfaceProfile(
        _title(fixed),
        x_at,
        *_columns(told),
        tuple(_points(result.results, axis, fixed)),
    )


def _columns(
    told: Sequence[Prediction],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    return (
        tuple(one.value for one in told),
        tuple(one.low for one in told),
        tuple(one.high for one in told),
    )


def _points(
    results: Sequence[SampleResult], axis: Factor, fixed: dict[str, str]
) -> Iterator[MeasuredPeak]:
    for one in results:
        levels = dict(one.sample)
        here = all(levels[name] == level for name, level in fixed.items())
        if here and one.peak_rate is not None:
            interval = one.found.interval
            ends = (None, None) if interval is None else (interval.low, interval.high)
            yield MeasuredPeak(_place(axis, levels[axis.name]), one.peak_rate, *ends)


# -- axes ------------------------------------------------------------------------------


def _axis(factor: Factor) -> LevelAxis:
    ordered = sorted(factor.levels, key=lambda level: _place(factor, level))
    ticks = tuple(_place(factor, level) for level in ordered)
    return LevelAxis(factor.name, ticks, tuple(ordered))


def _place(factor: Factor, level: str) -> float:
    if factor.numeric:
        return factor.place(level)
    return float(factor.levels.index(level))


def _steps() -> tuple[float, ...]:
    return tuple(-1 + 2 * at / (STEPS - 1) for at in range(STEPS))


def _sample(factors: Sequence[Factor], levels: dict[str, str]) -> Sample:
    return tuple((one.name, levels[one.name]) for one in factors)


def level_between(factor: Factor, place: float) -> str:
    """Return the level at a place from -1 to 1, as a text that the factor reads."""
    at = [factor.transform.of(factor.number(one)) for one in factor.levels]
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
