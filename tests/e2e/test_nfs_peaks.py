"""The workbench paper's measurement on a real server, in small: a peak of NFS-Ganesha, and a map.

The code is that of the full forms (`make surface-nfs`, `make run-lengths`), with Fstress's DB_TP on
disks of so few operations per second that they limit and not the CPU. Nothing here asserts a
time or a rate of the machine, only what such disks allow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchwright.features.quiet.types import IoLimits, ServerDisks, ServerResources
from benchwright.features.search.server.host import ServerResourcesHeld

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import surface_servers
from parts import bw_steps

# surface_servers adds tests/sim and benches/parts.
del sys.path[:3]

PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
PROGRAMS = ("ganesha.nfsd", "rpcbind", "rpcinfo", "mkfs.btrfs", "nsenter", "unshare")
IOPS = 60
"""Of each disk."""
MISSES = 0.61 * (1 - 128 / 512)
"""Share of DB_TP's operations that read from the disk at least: 61 % are reads at random places
of 512 MB, of which the server may have 128 MB in memory."""
QUICK = (
    *("--policy", "monotone", "--claim", "rate:30%", "--limit", "mean response < 200ms"),
    *("--start", "40", "--run-length", "6s", "--budget", "2m"),
)
"""The limit lies far above the response without load: a busy machine alone does not exceed it."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory for the results, where such a server can be run."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    limits = IoLimits(read_iops=IOPS)
    disks = ServerDisks(count=2, file_system="btrfs", striped=True, limits=limits)
    wanted = ServerResources(memory_bytes=1 << 28, disks=disks)
    refusals = ServerResourcesHeld().refusals(wanted)
    if os.geteuid() != 0 or refusals:
        pytest.skip(f"needs root; {'; '.join(refusals)}")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("BW_STATE", str(state))
    monkeypatch.setenv("PATH", PATH)
    return tmp_path


def nothing_is_left(place: Path) -> bool:
    """Return whether no disk of a server in this directory is left."""
    loops = subprocess.run(["losetup", "-n", "-O", "BACK-FILE"], capture_output=True, text=True)
    mounts = Path("/proc/mounts").read_text()
    return str(place) not in loops.stdout + mounts


def test_a_peak_on_one_slow_disk_is_found_and_not_searched_again(place: Path) -> None:
    step = bw_steps.Step(bw_steps.nfs("db_tp", iops=(IOPS,)), "search", QUICK)
    outcome = bw_steps.run(step, place)
    document = outcome.document
    assert document["status"] == "found", document["detail"]
    low, high = document["interval"]
    assert 0 < low <= document["peak_rate"] <= high
    # Without a limit of the disk the peak is in the thousands; the kernel reads ahead and groups
    # commits.
    assert document["peak_rate"] < 2 * IOPS / MISSES
    # What has run is not run again; the document is beside the study.
    assert bw_steps.run(step, place) == outcome
    kept = json.loads((place / "nfs-db_tp" / "search" / "result.json").read_text())
    assert kept == document
    assert nothing_is_left(place)


def test_a_map_over_disks_and_threads_shows_that_the_disks_limit(place: Path) -> None:
    words = ("--disks", "1,2,3", "--threads", "4,8", "--iops", str(IOPS))
    asked = surface_servers.arguments(
        [*words, "--samples", "4", "--truth", "none", "--out", str(place), *QUICK]
    )
    document = surface_servers.measure("db_tp", asked).surface
    # In so few seconds a claim may not hold; the answers are good enough for the map.
    assert document["status"] in ("complete", "undecided"), document
    searched = {
        (int(one["sample"]["disks"]), int(one["sample"]["threads"])): one["peak_rate"]
        for one in document["samples"]
    }
    assert len(searched) == 4
    assert all(searched.values())
    assert searched[min(searched)] < searched[max(searched)], "more disks, a higher peak"
    predicted = {
        (int(one["sample"]["disks"]), int(one["sample"]["threads"])): one["value"]
        for one in document["predictions"]
    }
    assert set(predicted) == {(disks, n) for disks in (1, 2, 3) for n in (4, 8)}
    one, two, three = (predicted[n, 4] + predicted[n, 8] for n in (1, 2, 3))
    assert one < two < three, "the map grows with the disks"
    for sample in set(predicted) - set(searched):
        assert 0.5 * min(searched.values()) < predicted[sample]
        assert predicted[sample] < 2 * max(searched.values())
    assert nothing_is_left(place)
