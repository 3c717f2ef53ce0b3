"""Units of measured values as people and tools write them, converted to base units (seconds, bytes,
1/s, B/s), and the direction that a unit and a name imply.

Purpose: every file that states a unit is read alike, a table with a column of units as the export of
a tool. Decision: an unknown unit remains as it is, and its values are not changed.
"""

from __future__ import annotations

import functools
import math

import msgspec

from benchwright.core.plan import MetricSpec, usual_direction

_TIMES = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "usec", "microsecond"), 1e-6),
    "microseconds": 1e-6,
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_SIZES = {
    **dict.fromkeys(("B", "byte", "bytes", "Bytes"), 1.0),
    **dict.fromkeys(("kB", "KB"), 1e3),
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
"""In upper and lower case as written: `Mb` are bits."""
_OPERATIONS = ("op", "ops", "iter", "iteration", "iterations", "item", "items")


class BaseUnit(msgspec.Struct, frozen=True):
    """What a tool's unit is in base units."""

    factor: float
    unit: str
    """`s`, `B`, `1/s`, `B/s`, `%`, or the tool's own."""
    better: str = ""
    """`higher` for a rate, `lower` for a time or an amount for each operation; empty if the unit
    does not say it."""


@functools.lru_cache(maxsize=256)
def base_unit(text: str) -> BaseUnit:
    """Return the base unit of a tool's unit: `ns/op`, `MB/sec`, `ops/us`. An unknown unit remains."""
    unit = text.strip()
    if unit in _TIMES:
        return BaseUnit(_TIMES[unit], "s", "lower")
    if unit in _SIZES:
        return BaseUnit(_SIZES[unit], "B")
    over, slash, under = unit.partition("/")
    if not slash:
        return BaseUnit(1.0, unit)
    if under in _OPERATIONS:
        inner = base_unit(over)
        return BaseUnit(inner.factor, inner.unit, "lower")
    if under in _TIMES:
        per = _TIMES[under]
        if over in _SIZES:
            return BaseUnit(_SIZES[over] / per, "B/s", "higher")
        if over in _OPERATIONS:
            return BaseUnit(1.0 / per, "1/s", "higher")
    return BaseUnit(1.0, unit)


def scaled(value: float | None, factor: float) -> float | None:
    """Return a value in base units; None if it is absent or too large for a float."""
    if value is None:
        return None
    product = value * factor
    return product if math.isfinite(product) else None


def spec_of(name: str, unit: str, better: str) -> MetricSpec:
    """Return the declaration of a quantity; where the tool does not say which values are better,
    those that usually are."""
    if better not in ("lower", "higher"):
        better = usual_direction(name, unit)
    return MetricSpec(name, unit=unit, better="higher" if better == "higher" else "lower")
