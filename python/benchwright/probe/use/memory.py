"""Memory and open files in a window: what was left, who had to look for free pages."""

from __future__ import annotations

from benchwright.model.watched import FilesOpen, MemoryUse
from benchwright.probe.use.columns import SWAP_USED
from benchwright.probe.use.cpu import pressure
from benchwright.probe.use.lines import FilesOpenTable, FilesRow
from benchwright.probe.use.window import Around, Window

_KIB = 1024


def memory_use(window: Window) -> MemoryUse | None:
    """Return the use of memory; None where /proc/meminfo was not told."""
    total = window.most("memory/total")
    available = window.least("memory/available")
    if total is None or available is None:
        return None
    page = window.header.page_size
    return MemoryUse(
        total=round(total) * _KIB,
        available_min=round(available) * _KIB,
        dirty_max=round(window.most("memory/dirty") or 0) * _KIB,
        swap_total=round(window.most("memory/swap_total") or 0) * _KIB,
        swap_used_max=round(window.most(SWAP_USED) or 0) * _KIB,
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


class FilesSeen:
    """The process nearest to its limit of open files, from one moment to another.

    Of the tables in between, else of those on both sides.
    """

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._around: Around[FilesOpenTable] = Around(begin_ns, end_ns)
        self._inside: FilesRow | None = None
        self._beside: FilesRow | None = None
        self._any_inside = False

    def take(self, table: FilesOpenTable) -> None:
        """Take in a table."""
        for one in self._around.taken(table.t, table):
            self._look_at(one)

    def nearest(self) -> FilesOpen | None:
        """Return the process, after the last table; None where none is told."""
        for one in self._around.rest():
            self._look_at(one)
        row = self._inside if self._any_inside else self._beside
        if row is None:
            return None
        return FilesOpen(row.pid, row.name, row.open, row.limit)

    def _look_at(self, table: FilesOpenTable) -> None:
        if self._begin_ns <= table.t <= self._end_ns:
            self._any_inside = True
            self._inside = _nearest(self._inside, table)
        else:
            self._beside = _nearest(self._beside, table)


def _nearest(known: FilesRow | None, table: FilesOpenTable) -> FilesRow | None:
    rows = table.rows if known is None else (known, *table.rows)
    return max(rows, key=_nearness, default=None)


def _nearness(row: FilesRow) -> tuple[float, int]:
    return (row.open / row.limit if row.limit else 0.0, row.open)
