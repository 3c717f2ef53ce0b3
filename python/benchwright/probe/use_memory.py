"""Memory in a window: what was left, what was swapped, who had to look for free pages."""

from __future__ import annotations

import numpy as np

from benchwright.model.watched import FilesOpen, MemoryUse
from benchwright.probe.series_lines import FilesOpenTable, FilesRow
from benchwright.probe.use_cpu import pressure
from benchwright.probe.use_window import Window

_KIB = 1024


def memory_use(window: Window) -> MemoryUse | None:
    """Return the use of memory; None where /proc/meminfo was not told."""
    total = window.most("memory/total")
    available = window.least("memory/available")
    if total is None or available is None:
        return None
    page = window.series.header.page_size
    return MemoryUse(
        total=round(total) * _KIB,
        available_min=round(available) * _KIB,
        dirty_max=round(window.most("memory/dirty") or 0) * _KIB,
        swap_total=round(window.most("memory/swap_total") or 0) * _KIB,
        swap_used_max=_swap_used(window),
        swapped_in=window.whole("vm/swap_in") * page,
        swapped_out=window.whole("vm/swap_out") * page,
        scanned_direct=window.whole("vm/scanned_direct"),
        scanned_kswapd=window.whole("vm/scanned_kswapd"),
        refaults=window.whole("vm/refault_file", "vm/refault_anon"),
        major_faults=window.whole("vm/major_faults"),
        oom_kills=window.count("vm/oom_kill"),
        pressure=pressure(window, "memory"),
        pressure_full=pressure(window, "memory", "full"),
    )


def files_of_machine(window: Window) -> tuple[int, int] | None:
    """Return the most open files of the whole machine and their limit."""
    most, limit = window.most("files/open"), window.most("files/limit")
    return None if most is None or limit is None else (round(most), round(limit))


def files_open(window: Window) -> FilesOpen | None:
    """Return the process nearest to its limit of open files; None where none is told."""
    rows = [row for table in _tables(window) for row in table.rows]
    if not rows:
        return None
    nearest = max(rows, key=_nearness)
    return FilesOpen(nearest.pid, nearest.name, nearest.open, nearest.limit)


def _nearness(row: FilesRow) -> tuple[float, int]:
    return (row.open / row.limit if row.limit else 0.0, row.open)


def _tables(window: Window) -> tuple[FilesOpenTable, ...]:
    """Return the tables in the window, else those on both sides of it."""
    tables = window.series.files_open
    inside = tuple(t for t in tables if window.begin_ns <= t.t <= window.end_ns)
    if inside:
        return inside
    return tables[window.around(np.array([t.t for t in tables], dtype=np.int64))]


def _swap_used(window: Window) -> int:
    total, free = window.gauge("memory/swap_total"), window.gauge("memory/swap_free")
    if not len(total) or len(total) != len(free):
        return 0
    return round(float((total - free).max())) * _KIB
