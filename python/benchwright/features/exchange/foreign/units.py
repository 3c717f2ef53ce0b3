"""What files of other tools state: quantities by their usual names, their own estimates, and the
machine with its software, as facts like those of a capture.

Purpose: two files that were written on different machines are compared with the finding
`environments-differ`, and a history begins a segment where they change. Decision: a fact that `bw
env` captures too has its name, so that a file can be compared with a study; others have the tool's
name. What a file does not state is unknown, and no difference.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping

from benchwright.core.machine import Fact, FactWeight, MachineCapture
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
