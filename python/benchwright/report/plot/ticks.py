"""What stands at a tick of a panel's axis: `10 us`, `64 KiB`, `95 %`, `1e6`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchwright.report.plot.sheet import Axis, Unit

TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
BYTES = (
    *((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")),
    (1.0, "B"),
)


def tick_text(value: float, axis: Axis) -> str:
    """Return a value in its axis' unit."""
    if axis.unit is Unit.TIME:
        return scaled(value, TIMES)
    if axis.unit is Unit.BYTES:
        return scaled(value, BYTES)
    if axis.unit is Unit.SHARE:
        return f"{value * 100:.6g} %"
    if value and axis.log and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    if not axis.log and 1e6 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:,.6g}"


def binary_step(span: float) -> float:
    """Return the power of two of which 4 to 8 make up a span; 1 of nothing."""
    return 2.0 ** math.floor(math.log2(span / 4)) if span > 0 else 1.0


def scaled(value: float, scales: Sequence[tuple[float, str]]) -> str:
    """Return a value in the largest unit that it is whole enough in."""
    for scale, unit in scales:
        if abs(value) >= scale * 0.9995:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.3g}" if value else "0"
