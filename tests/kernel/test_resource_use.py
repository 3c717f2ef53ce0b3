"""Resource use of real programs, from the real sampler, against what the kernel counted.

What is compared is never a clock: processor time is held against wait4's, requests
against /proc/diskstats read around and inside the same stretch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import BenchError
from benchwright.core.resource_use import ResourceUse
from benchwright.trial.programs import find_sampler
from benchwright.watch.observer import Watch
from benchwright.watch.sampler import SamplerObserver
from use_of_series import use_between
from whole_series import read_whole

try:
    SAMPLER: Path | None = find_sampler()
except BenchError:
    SAMPLER = None

pytestmark = pytest.mark.skipif(SAMPLER is None, reason="bw-sampler is not built")

WORKER = """
import json, resource, subprocess, sys
for line in sys.stdin:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(json.loads(line), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps([user, system]), flush=True)
"""
"""Stands for the launcher's worker: runs commands, tells what processor time they used."""


class Worker:
    """A process whose children are watched."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.run("true")

    def run(self, *command: str) -> tuple[float, float]:
        """Run a command; return its user and system time [s]."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(command) + b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.process.stdout.readline(), type=tuple)

    def close(self) -> None:
        """End it."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


@pytest.fixture
def observer() -> Iterator[SamplerObserver]:
    assert SAMPLER is not None
    made = SamplerObserver(SAMPLER, timeout_s=60)
    yield made
    made.close()


def use_of_all(observer: SamplerObserver) -> ResourceUse:
    """Return the use of the whole of what was watched last."""
    last = observer.last
    assert last is not None
    assert last.error == ""
    series = read_whole(last.file)
    assert series.end is not None
    assert (last.samples, last.begin_ns, last.end_ns) == (
        len(series.times),
        series.times[0],
        series.times[-1],
    )
    return use_between(last.file, last.begin_ns, last.end_ns)


def watched(
    observer: SamplerObserver, worker: Worker, path: Path, *command: str
) -> tuple[ResourceUse, float]:
    """Return what a command used, and its processor time as wait4 has it [s]."""
    watchers = (os.getpid(),)
    observer.begin(Watch(path, "x", worker.process.pid, watchers))
    used = worker.run(*command)
    observer.end()
    return use_of_all(observer), sum(used)


def test_one_thread_that_only_computes(
    observer: SamplerObserver, worker: Worker, tmp_path: Path
) -> None:
    count = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
    use, cpu_s = watched(observer, worker, tmp_path, "sh", "-c", count)
    assert use.cpu is not None
    assert use.cpu.own is not None
    # The worker's own work around the command is in the tree too.
    assert use.cpu.own * use.seconds == pytest.approx(cpu_s, rel=0.1, abs=0.05)
    task = use.tasks[0]
    assert (task.name, task.of) == ("sh", "own")
    assert task.pid == task.tid
    # What it used between its last sample and its end is not in a thread's figure.
    interval_s = 0.1
    assert cpu_s - 2 * interval_s < task.share * use.seconds <= cpu_s * 1.05 + 0.05
    # It never sleeps: it runs or wants to.
    assert task.busiest_share is not None
    assert task.busiest_share + (task.waiting or 0.0) * use.seconds / (
        task.seen_s or 1
    ) == pytest.approx(1.0, abs=0.25)


def test_a_sleeper_uses_nothing(observer: SamplerObserver, worker: Worker, tmp_path: Path) -> None:
    use, cpu_s = watched(observer, worker, tmp_path, "sleep", "0.7")
    assert use.cpu is not None
    assert use.cpu.own is not None
    assert use.cpu.own * use.seconds <= cpu_s + 0.05
    assert all(task.share < 0.1 for task in use.tasks)
    assert use.samples >= 3


def disk_writes() -> dict[str, tuple[int, int]]:
    """Return each disk's completed writes and written sectors."""
    words = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return {word[2]: (int(word[7]), int(word[9])) for word in words}


def test_direct_writes_are_those_of_the_kernels_own_counters(
    observer: SamplerObserver, worker: Worker, tmp_path: Path
) -> None:
    file, size, count = tmp_path / "data", 65536, 64
    direct = f"of={file}", f"bs={size}", f"count={count}", "oflag=direct"
    probe = ["dd", "if=/dev/zero", f"of={file}", "bs=4096", "count=1", "oflag=direct"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("the temporary directory takes no direct I/O")
    outer = disk_writes()
    observer.begin(Watch(tmp_path, "x", worker.process.pid, (os.getpid(),)))
    inner = disk_writes()
    worker.run("dd", "if=/dev/zero", *direct, "status=none")
    inner_after = disk_writes()
    observer.end()
    outer_after = disk_writes()
    use = use_of_all(observer)
    disks = {disk.name: disk for disk in use.disks}
    assert disks, "something was written"
    for name, disk in disks.items():
        found = (
            round(disk.writes_per_s * use.seconds),
            round(disk.write_bytes_per_s * use.seconds / 512),
        )
        for i in (0, 1):
            least = inner_after[name][i] - inner[name][i]
            most = outer_after[name][i] - outer[name][i]
            assert least <= found[i] <= most, name
    written = max(disk.write_bytes_per_s for disk in disks.values()) * use.seconds
    assert round(written) >= size * count
    assert use.own_io is not None
    # Blocks that the file system keeps of its own are among them.
    assert size * count <= use.own_io.write_bytes <= size * count + 2**20
    assert use.own_io.written_chars >= size * count


def test_the_machine_is_seen(observer: SamplerObserver, worker: Worker, tmp_path: Path) -> None:
    use, _ = watched(observer, worker, tmp_path, "sleep", "0.3")
    assert use.cpu is not None
    assert use.cpu.count == os.cpu_count()
    assert use.memory is not None
    assert 0 < use.memory.available_min < use.memory.total
    assert use.files is not None
    assert use.files.limit is None or use.files.open <= use.files.limit
    assert use.sampler_cost is not None
    assert 0 < use.sampler_cost < 1
