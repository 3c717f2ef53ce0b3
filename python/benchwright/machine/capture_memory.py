"""Memory and swap: sizes, huge pages, what swap lies on. Source: proc(5), meminfo."""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.machine.tree import NOT_IN_FILE, Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, FATAL, MEMORY, SUSPICIOUS
from benchwright.model.machine import Fact

_MEMINFO = "/proc/meminfo"
_SWAPS = "/proc/swaps"
_SIZES = (
    ("memory.total_kib", "MemTotal", FATAL),
    ("memory.available_kib", "MemAvailable", EXPECTED),
    ("memory.cached_kib", "Cached", EXPECTED),
    ("memory.dirty_kib", "Dirty", EXPECTED),
    ("memory.swap_total_kib", "SwapTotal", SUSPICIOUS),
    ("memory.swap_free_kib", "SwapFree", EXPECTED),
    ("memory.hugepages_total", "HugePages_Total", SUSPICIOUS),
    ("memory.hugepages_free", "HugePages_Free", EXPECTED),
    ("memory.hugepage_kib", "Hugepagesize", SUSPICIOUS),
)


def memory_facts(tree: Tree) -> Iterator[Fact]:
    """Yield what is known of memory and swap; sizes in KiB, as the kernel counts."""
    text, absent = tree.read(_MEMINFO)
    sizes = {}
    for line in (text or "").splitlines():
        key, _, value = line.partition(":")
        sizes[key] = value.removesuffix("kB").strip()
    for name, key, weight in _SIZES:
        if key in sizes:
            yield known(name, sizes[key], _MEMINFO, weight)
        else:
            yield missing(name, _MEMINFO, absent or NOT_IN_FILE, weight)
    yield from tree.facts(MEMORY)
    yield _swaps(tree)


def _swaps(tree: Tree) -> Fact:
    """Return the swap devices and files: `/dev/sda2 (partition, 8388604 KiB)`."""
    text, absent = tree.read(_SWAPS)
    if text is None:
        return missing("memory.swaps", _SWAPS, absent, SUSPICIOUS)
    rows = [line.split() for line in text.splitlines()[1:]]
    each = (f"{r[0]} ({r[1]}, {r[2]} KiB)" for r in rows if len(r) >= 3)
    return known("memory.swaps", ", ".join(each), _SWAPS, SUSPICIOUS)
