"""The resources of a server by cgroups of version 2, in a machine of QEMU's that has no other.

In the guest a server's resources are given, a process runs with them, and they are taken back;
then a process that gave them is killed, and the next bw puts the machine back. The guest writes
what it saw to its disk; the figures are looked at here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import guest

SESSION = """#!/bin/sh
cd /work
mount -t cgroup2 none /sys/fs/cgroup
python3.11 limits.py >limits.log 2>&1
sync
poweroff
"""
LIMITS = '''
import json, mmap, os, signal, subprocess, sys, time
from pathlib import Path

sys.path.insert(0, "/work/python")
from benchwright.features.quiet.types import DeviceLimits, IoLimits, ServerResources
from benchwright.features.search.server.host import ServerResourcesHeld

TOP = Path("/sys/fs/cgroup")
WANTED = ServerResources(
    cpu_share=50,
    cpu_quota_us=20_000,
    memory_bytes=64 << 20,
    io=(DeviceLimits(device="/work", limits=IoLimits(read_iops=20, write_iops=20)),),
)


def controllers():
    """Return the controllers that are on, and the groups that there are."""
    return [
        (TOP / "cgroup.subtree_control").read_text().split(),
        sorted(one.name for one in TOP.glob("bw-server-*")),
    ]


def inside(groups, code):
    """Run Python code in groups; return how long it took [s]."""
    join = f"for group in {groups!r}: open(group + '/cgroup.procs', 'w').write('0')\\n"
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", join + code], check=True)
    return time.monotonic() - begin


READ = """
import mmap, os
fd = os.open("/dev/vdb", os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for n in range(40):
    os.preadv(fd, [page], 65536 * n)
"""
WRITE = """
import os
fd = os.open("/work/big", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(4 << 20), 0)
os.fsync(fd)
for n in range(40):
    os.pwrite(fd, b"x" * 4096, 65536 * n)
os.fsync(fd)
"""
BURN = """
import time
while time.process_time() < 0.3:
    pass
"""
found = {"before": controllers()}
held = ServerResourcesHeld()
found["refused"] = held.refusals(WANTED)
held.give(WANTED)
group = Path(held.groups[0])
names = ("cpu.weight", "cpu.max", "memory.max", "io.max")
found["groups"] = len(held.groups)
found["limits"] = {name: (group / name).read_text().strip() for name in names}
found["device"] = Path("/sys/class/block/vdb/dev").read_text().strip()
found["on"] = controllers()[0]
found["read_s"] = inside(held.groups, READ)
found["write_s"] = inside(held.groups, WRITE)
inside(held.groups, BURN)
stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
found["throttled"] = int(stat["nr_throttled"])
held.take_back()
found["findings"] = len(held.findings)
found["after"] = controllers()
child = os.fork()
if child == 0:
    ServerResourcesHeld().give(WANTED)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
found["killed"] = controllers()
bw = "from benchwright.cli.main import main; main()"
told = subprocess.run(
    [sys.executable, "-c", bw, "env"],
    capture_output=True,
    text=True,
    env={**os.environ, "PYTHONPATH": "/work/python"},
)
found["told"] = told.stderr
found["put_back"] = controllers()
Path("/work/found.json").write_text(json.dumps(found))
'''


def seen_in_guest(place: Path) -> dict[str, Any]:
    """Run the machine; return what it saw."""
    try:
        guest.image()
    except guest.Unavailable as reason:
        pytest.skip(f"no guest machine: {reason}")
    work = place / "work"
    work.mkdir()
    guest.bw_files(guest.programs(), work)
    (work / "state").mkdir()
    for name, text in {"session": SESSION, "limits.py": LIMITS}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    disk, out = place / "work.img", place / "out"
    guest.make_disk(work, disk, "64M")
    console = guest.boot([disk], timeout_s=300)
    guest.copy_out(disk, "/", out)
    file: Path = out / "found.json"
    assert file.exists(), (console, (out / "limits.log").read_text())
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])


@pytest.mark.timeout(600)
def test_limits_are_in_force_and_put_back_also_after_a_kill(tmp_path: Path) -> None:
    """One test: the machine takes longer to start than all of it."""
    found = seen_in_guest(tmp_path)
    assert found["refused"] == []
    assert found["groups"] == 1
    assert found["limits"] == {
        "cpu.weight": "50",
        "cpu.max": "20000 100000",
        "memory.max": str(64 << 20),
        "io.max": f"{found['device']} rbps=max wbps=max riops=20 wiops=20",
    }
    assert {"cpu", "memory", "io"} <= set(found["on"])
    # A limiter can only make a load longer: the bounds hold on any machine.
    assert found["read_s"] > 0.7 * 40 / 20
    # Written back by the kernel, and counted for the server.
    assert found["write_s"] > 0.7 * 40 / 20
    assert found["throttled"] > 0
    assert found["findings"] == 0
    assert found["after"] == found["before"]
    assert len(found["killed"][1]) == 1
    assert "were undone" in found["told"]
    assert found["put_back"] == found["before"]
