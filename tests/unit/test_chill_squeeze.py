"""The squeeze over a made-up machine: nothing but a few holes is really read."""

from __future__ import annotations

from pathlib import Path

from benchwright.features.quiet.chill_squeeze import MemorySource, Squeezer
from benchwright.features.quiet.chill_types import ChillStop

MIB = 1 << 20


def machine(place: Path, *, used: int, cached: int, swapped: int = 0) -> MemorySource:
    """Make a machine of 4 GiB, and us in a cgroup of 20 MiB, of which 16 are reserved."""
    proc, group = place / "proc", place / "cgroup/memory/g"
    (proc / "self").mkdir(parents=True)
    group.mkdir(parents=True)
    lines = ("MemTotal: 4194304", "MemAvailable: 2097152", "Buffers: 0", "Cached: 9")
    (proc / "meminfo").write_text("".join(f"{line} kB\n" for line in lines))
    (proc / "vmstat").write_text(f"pswpout {swapped}\n")
    (proc / "self/cgroup").write_text("4:memory:/g\n")
    (group / "memory.limit_in_bytes").write_text(str(20 * MIB))
    (group / "memory.usage_in_bytes").write_text(str(used * MIB))
    stat = f"total_inactive_file {cached * MIB}\ntotal_active_file 0\n"
    (group / "memory.stat").write_text(stat)
    return MemorySource(proc, place / "cgroup")


def test_what_is_free_is_filled_before_anything_is_displaced(tmp_path: Path) -> None:
    """17 MiB can be had, 5 of them cached: a file of 10 MiB would only fill the rest."""
    source = machine(tmp_path, used=8, cached=5)
    squeezed = Squeezer(source, lambda: True, 1 << 40).run(tmp_path)
    assert (squeezed.stopped, squeezed.taken_bytes) == (ChillStop.RESERVE, 0)
    assert (squeezed.limit_bytes, squeezed.reserve_bytes) == (20 * MIB, 16 * MIB)
    # Twice what can be had, each piece twice, gone through twice.
    assert squeezed.read_bytes == 2 * 17 * MIB * 2 * 2
    assert not [p for p in tmp_path.iterdir() if p.is_file()], "the holes are gone"


def test_next_to_nothing_cached_is_left_alone(tmp_path: Path) -> None:
    squeezed = Squeezer(machine(tmp_path, used=2, cached=1), lambda: True, 1 << 40).run(tmp_path)
    assert (squeezed.stopped, squeezed.read_bytes) == (ChillStop.EMPTY, 0)


def test_without_a_place_for_holes_memory_alone_has_to_do(tmp_path: Path) -> None:
    source = machine(tmp_path, used=8, cached=5)
    assert Squeezer(source, lambda: True, 1 << 40).run(tmp_path / "none").read_bytes == 0
