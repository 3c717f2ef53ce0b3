"""Chart of the machine's resources over time: one row for each, coloured by its utilisation.

Purpose: which resource was busy when, at one glance. Decision: utilisation in the sense of the
USE method, a share of the capacity, so that all rows have one scale; a resource without a known
capacity (a virtual network, a cgroup without a limit) has no row. The row's name has the
highest share, so that the colour is not the only sign. The input is a `ResourceUse` for each
interval: of trials, or of slices of a stored series (`watch.sampler`). Pure.
Source: Systems Performance, 2.5.9 (the USE method) and 2.10.3 (heat maps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.resource_use import ResourceUse
from benchwright.core.text import percent_text
from benchwright.findings.utilization import utilizations
from benchwright.report.charts.sheet import (
    AxisUnit,
    HeightGrid,
    Panel,
    PanelAxis,
    Sheet,
    empty_panel,
    named_ticks,
)

_IDLE = 0.005
"""Resources that were never busier have no row."""
_MOST_ROWS = 14


class BusySlice(msgspec.Struct, frozen=True):
    """An interval with the utilisation of each resource, from 0 to 1."""

    begin_ns: int
    end_ns: int
    shares: dict[str, float]


def use_sheet(uses: Sequence[ResourceUse]) -> Sheet:
    """Return the chart of these intervals, which may be given in any order."""
    slices = sorted(map(busy_slice, uses), key=lambda one: one.begin_ns)
    slices = [one for one in slices if one.end_ns > one.begin_ns and one.shares]
    return Sheet("", (use_panel(slices),), columns=1)


def busy_slice(use: ResourceUse) -> BusySlice:
    """Return the utilisation of each resource with a known capacity."""
    return BusySlice(use.begin_ns, use.end_ns, dict(_shares(use)))


def use_panel(slices: Sequence[BusySlice]) -> Panel:
    """Return a row for each resource that was ever busy; time begins with the first slice."""
    most: dict[str, float] = {}
    for one in slices:
        for name, share in one.shares.items():
            most[name] = max(most.get(name, 0.0), share)
    names = [name for name, share in most.items() if share >= _IDLE]
    if len(names) > _MOST_ROWS:
        busiest = sorted(names, key=lambda name: -most[name])[:_MOST_ROWS]
        names = [name for name in names if name in busiest]
    if not names:
        why = "every resource was idle" if slices else "no series was recorded"
        return empty_panel(why)
    start_ns = slices[0].begin_ns
    edges: list[float] = []
    columns: list[BusySlice | None] = []
    for one in slices:
        begin = max((one.begin_ns - start_ns) / 1e9, edges[-1] if edges else 0.0)
        end = (one.end_ns - start_ns) / 1e9
        if end <= begin:
            continue
        if edges and begin > edges[-1]:
            columns.append(None)
            edges.append(begin)
        elif not edges:
            edges.append(begin)
        columns.append(one)
        edges.append(end)
    heights = tuple(
        tuple(
            math.nan if column is None else min(column.shares.get(name, math.nan), 1.0)
            for column in columns
        )
        for name in names
    )
    grid = HeightGrid(
        tuple(edges),
        tuple(map(float, range(len(names)))),
        heights,
        (0.0, 1.0),
        cells=True,
        unit=AxisUnit.SHARE,
    )
    labels = (f"{name} ≤ {percent_text(min(most[name], 1.0), 2)}" for name in names)
    return Panel("", PanelAxis("time [s]"), PanelAxis("", ticks=named_ticks(labels)), grid=grid)


def _shares(use: ResourceUse) -> Iterator[tuple[str, float]]:
    """Yield the utilisation of each resource, in the order of the USE table."""
    cpu = use.cpu
    known = list(utilizations(use))

    def of(kind: str) -> Iterator[tuple[str, float]]:
        return ((one.name, one.share) for one in known if one.kind == kind)

    yield from of("cpu")
    if cpu is not None and cpu.count:
        if cpu.each:
            yield "busiest CPU", max(cpu.each)
        yield "CPU steal", cpu.steal / cpu.count
        if cpu.pressure is not None:
            yield "CPU pressure", cpu.pressure
    if use.memory is not None and use.memory.total:
        yield "memory", 1 - use.memory.available_min / use.memory.total
        if use.memory.pressure is not None:
            yield "memory pressure", use.memory.pressure
    yield from of("disk")
    if use.io_pressure is not None:
        yield "I/O pressure", use.io_pressure
    yield from of("network")
    yield from of("quota")
