"""What memory there is, read from made-up trees of both versions of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.quiet.chill_squeeze import (
    Memory,
    MemorySource,
    cached,
    cgroup_memory,
    limiting_cgroup,
    machine_memory,
)

MIB = 1 << 20
MEMINFO = """\
MemTotal:        4194304 kB
MemFree:          100000 kB
MemAvailable:    2097152 kB
Buffers:            1024 kB
Cached:           524288 kB
Shmem:             10240 kB
SReclaimable:      20480 kB
HugePages_Total:       0
"""


def source(place: Path, cgroup: str) -> MemorySource:
    """Make the files of a machine of 4 GiB whose process is in these cgroups."""
    proc = place / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "vmstat").write_text("pgpgin 5\npswpin 1\npswpout 7\n")
    (proc / "self/cgroup").write_text(cgroup)
    return MemorySource(proc, place / "cgroup")


def directory(path: Path, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_shared_memory_is_no_cache(tmp_path: Path) -> None:
    here = source(tmp_path, "0::/\n")
    held = cached(here)
    assert held.page_bytes == (524288 + 1024 - 10240) * 1024
    assert held.slab_bytes == 20480 * 1024
    total, available = 4096 * MIB, 2048 * MIB
    assert machine_memory(here) == Memory(total, available, held.page_bytes, 7)


def test_the_reserve_is_5_percent_and_more_on_small_machines() -> None:
    assert Memory(100 << 30, 0, 0, 0).reserve_bytes(limited=False) == 5 << 30
    assert Memory(1 << 30, 0, 0, 0).reserve_bytes(limited=False) == 256 * MIB
    assert Memory(100 * MIB, 0, 0, 0).reserve_bytes(limited=True) == 16 * MIB


def test_the_narrowest_limit_up_the_tree_counts_in_version_2(tmp_path: Path) -> None:
    here = source(tmp_path, "0::/outer/inner\n")
    outer = directory(here.cgroup / "outer", memory__max=f"{512 * MIB}\n")
    directory(here.cgroup / "outer/inner", memory__max="max\n")
    assert limiting_cgroup(here) == outer
    stat = f"anon 9\ninactive_file {30 * MIB}\nactive_file {10 * MIB}\n"
    directory(outer, memory__current=f"{112 * MIB}\n", memory__stat=stat)
    read = cgroup_memory(outer, here)
    assert read == Memory(512 * MIB, 440 * MIB, 40 * MIB, 7)


def test_version_1_without_a_limit_says_a_huge_number(tmp_path: Path) -> None:
    here = source(tmp_path, "4:memory:/a/b\n3:cpu:/\n0::/\n")
    place = here.cgroup / "memory/a"
    directory(place / "b", memory__limit_in_bytes="9223372036854771712\n")
    assert limiting_cgroup(here) is None
    directory(place, memory__limit_in_bytes=f"{300 * MIB}\n")
    assert limiting_cgroup(here) == place
    stat = f"inactive_file 1\ntotal_inactive_file {MIB}\ntotal_active_file 0\n"
    directory(place, memory__usage_in_bytes=f"{200 * MIB}", memory__stat=stat)
    assert cgroup_memory(place, here).available_bytes == 101 * MIB


def test_a_cgroup_that_went_away_is_said(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as caught:
        cgroup_memory(tmp_path / "gone", source(tmp_path, "0::/\n"))
    assert caught.value.code == "chill-unreadable"
