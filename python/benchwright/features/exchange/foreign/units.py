"""What files of other tools state: units, converted to base units (seconds, bytes, 1/s, B/s), and
the machine with its software, as facts like those of a capture.

Purpose: two files that were written on different machines are compared with the finding
`environments-differ`, and a history begins a segment where they change. Decision: a fact that `bw
env` captures too has its name, so that a file can be compared with a study; others have the tool's
name. What a file does not state is unknown, and no difference.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Mapping

import msgspec

from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.core.plan import MetricSpec, usual_direction
from benchwright.core.results import Summary
from benchwright.features.exchange.foreign.json_file import Node

CPU = "cpu.model"
CPUS = "cpu.threads"
_MACHINE = (CPU, CPUS, "goos", "goarch", "machine", "arch")
"""Facts of the machine itself; others are of its software."""


def stated_machine(facts: Mapping[str, str]) -> MachineCapture | None:
    """Return the facts that are stated; None if none is."""
    found = tuple(
        Fact(name, value, weight=_weight(name)) for name, value in sorted(facts.items()) if value
    )
    return MachineCapture(0, found) if found else None


def _weight(name: str) -> FactWeight:
    return FactWeight.FATAL if name in _MACHINE else FactWeight.SUSPICIOUS


def facts_of(described: Node, *names: str) -> dict[str, str]:
    """Return the members of an object with these names that are texts or numbers."""
    return {
        name: described[name].text()
        for name in names
        if isinstance(described[name].value, str | int | float)
    }


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
ELAPSED = "elapsed"
THROUGHPUT = "throughput"


def free_name(taken: Collection[str], *names: str) -> str:
    """Return the first of the names that is not empty and that no other quantity of a test has. A
    quantity that the file names keeps its name, so one that has our usual name gets the tool's
    where both are the same.
    """
    known = [name for name in names if name]
    others = (f"{known[-1]}_{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain(known, others) if one not in taken)


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


def stated(
    name: str,
    unit: str,
    *,
    count: int = 0,
    mean: float | None = None,
    median: float | None = None,
    ends: tuple[float | None, float | None] = (None, None),
    confidence: float = math.nan,
    extremes: tuple[float | None, float | None] = (None, None),
    sdev: float | None = None,
) -> Summary:
    """Return what a file states about a quantity of which it has no values, in base units. What it
    does not state is NaN; `ends` are those of its own interval, `count` is 0 if it is unknown."""

    def known(value: float | None) -> float:
        return math.nan if value is None or not math.isfinite(value) else value

    low, high = map(known, ends)
    bounded = low <= high  # not if either is NaN
    return Summary(
        name=name,
        label=name,
        unit=unit,
        count=count,
        mean=known(mean),
        median=known(median),
        low=low if bounded else math.nan,
        high=high if bounded else math.nan,
        minimum=known(extremes[0]),
        maximum=known(extremes[1]),
        sdev=known(sdev),
        half_width=(high - low) / 2 if bounded else math.nan,
        slope=math.nan,
        sum=math.nan,
        confidence=confidence if bounded else math.nan,
        method="stated",
    )
