"""The ends of an axis, and the positions of its ticks: 1, 2, 5 times a power of ten.

Decision: both drawers have them from here, so that a file and a page show the same axis. Positions
are multiples of round steps inside the axis; the text is that of `sheet.tick_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from benchwright.report.charts.sheet import (
    LARGEST,
    SMALLEST,
    AxisUnit,
    CurveForm,
    Panel,
    PanelAxis,
    binary_step,
    tick_text,
)

_STEPS = (1.0, 2.0, 5.0, 10.0)
_MULTIPLES = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Multiples of powers of ten on a logarithmic axis; the first that are few enough are taken."""
_FEWEST = 3
"""A logarithmic axis with fewer such multiples is nearly linear and has linear ticks."""
_EPS = 1e-9
_ROUNDING = 1e-13
"""Relative distance of values that differ by the rounding of their computation only."""


def axis_ends(panel: Panel, along: bool) -> tuple[float, float]:
    """Return the ends of an axis: the given ones, else those of the data with a margin."""
    axis = panel.x if along else panel.y
    values = [*_values(panel, along), *(tick.x for tick in axis.ticks)]
    if axis.log:
        values = [value for value in values if value > 0]
    low, high = min(values, default=0.0), max(values, default=1.0)
    joined = along and any(c.form in (CurveForm.LINE, CurveForm.MARKED) for c in panel.curves)
    if panel.grid is not None:
        margin = 0.5 if panel.grid.cells and not along else 0.0
        low, high = low - margin, high + margin
    elif axis.ticks and not joined:
        low, high = low - 0.5, high + 0.5
    elif axis.log:
        low, high = (low, high) if values else (1.0, 10.0)
        room = (high / low) ** 0.05 if high > low else 1.2
        low, high = low / room, high * room
    else:
        # Values that differ by a rounding error are one value.
        extent = high - low if high - low > _ROUNDING * abs(high) else 0.0
        room = extent * (0.03 if along else 0.06) or abs(high) * 0.05 or 0.5
        bars = not along and any(c.form is CurveForm.BARS for c in panel.curves)
        low = 0.0 if bars and low == 0 else low - room
        high = 0.0 if bars and high == 0 else high + room
    low = low if axis.low is None or (axis.log and axis.low <= 0) else axis.low
    high = high if axis.high is None else axis.high
    return (low, high) if high > low else (low, low + 1.0)


def _values(panel: Panel, along: bool) -> Iterator[float]:
    """Yield every number that an axis must include."""
    if panel.grid is not None:
        yield from panel.grid.x_at if along else panel.grid.y_at
        return
    for curve in panel.curves:
        if along:
            half = curve.width / 2 if curve.form is CurveForm.BARS else 0.0
            for x in curve.x:
                yield from (x - half, x + half)
            continue
        rows: tuple[Sequence[float | None], ...] = (curve.y, curve.low, curve.high)
        if curve.form is CurveForm.INTERVALS:
            rows = rows[1:]
        bases = curve.base or (0.0,) * len(curve.x)
        bars = curve.form is CurveForm.BARS
        for row in rows:
            for base, value in zip(bases, row, strict=False):
                if value is not None:
                    yield base + value if bars and row is curve.y else value
        if bars:
            yield from bases
    if along:
        for span in panel.spans:
            yield from (span.low, span.high)
    else:
        yield from (mark.y for mark in panel.marks)


def tick_positions(low: float, high: float, axis: PanelAxis, most: int) -> tuple[float, ...]:
    """Return at most `most` round positions from `low` to `high`, ascending.

    On a logarithmic axis (both ends above 0) they are multiples of powers of ten, or powers
    of four for bytes. The result can be empty if no round number is inside, or if a float cannot
    express the distances of the axis.
    """
    if max(abs(low), abs(high)) > LARGEST or 0 < high - low < SMALLEST:
        return ()
    if axis.log:
        found = _log_positions(low, high, axis.unit, most)
        if len(found) >= _FEWEST or high > 10 * low:
            return tuple(found[:: max(1, -(-len(found) // most))])
    whole = axis.unit is AxisUnit.COUNT
    if axis.unit is AxisUnit.BYTES:
        step = binary_step(high - low)
    else:
        step = round_step(max((high - low) / most, 1.0 if whole else 0.0))
    while True:
        # A tick may be outside by a rounding error: a billionth of the step, or of the axis, which
        # can be much shorter than a step of 1.
        slack = _EPS * min(1.0, (high - low) / step)
        first = math.ceil(low / step - slack)
        last = math.floor(high / step + slack)
        if last - first < most:
            # Positions of an axis as short as the distance of two floats can be equal.
            return tuple(dict.fromkeys(at * step for at in range(first, last + 1)))
        step = 2 * step if axis.unit is AxisUnit.BYTES else round_step(1.01 * step)


def fitting_ticks(
    low: float, high: float, axis: PanelAxis, fits: Callable[[Sequence[float], Sequence[str]], bool]
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return as many positions, with their texts, as stand side by side: 8 at most, 2 if no number
    of them fits."""
    for most in range(8, 1, -1):
        at = tick_positions(low, high, axis, most)
        labels = tick_labels(at, axis)
        if fits(at, labels):
            break
    return at, labels


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    if not least > 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in _STEPS if s * power >= least * (1 - _EPS))


def tick_labels(positions: tuple[float, ...], axis: PanelAxis) -> tuple[str, ...]:
    """Return the positions' texts; plain numbers have the same number of decimals."""
    plain = axis.unit in (AxisUnit.NUMBER, AxisUnit.COUNT) and not axis.log
    if not plain or any(abs(at) >= 1e5 for at in positions) or len(positions) < 2:
        return tuple(tick_text(at, axis) for at in positions)
    step = positions[1] - positions[0]
    decimals = max(0, -math.floor(math.log10(step) + _EPS))
    if decimals > 6:
        return tuple(tick_text(at, axis) for at in positions)
    return tuple(f"{at + 0.0:,.{decimals}f}" for at in positions)


def _log_positions(low: float, high: float, unit: AxisUnit, most: int) -> list[float]:
    if unit is AxisUnit.BYTES:
        first, last = (math.log(end, 4) for end in (low, high))
        whole = range(math.ceil(first - _EPS), math.floor(last + _EPS) + 1)
        return [4.0**at for at in whole]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for multiples in _MULTIPLES:
        all_of_them = (m * 10.0**power for power in powers for m in multiples)
        found = [at for at in all_of_them if low * (1 - _EPS) <= at <= high * (1 + _EPS)]
        if len(found) <= most:
            break
    return found
