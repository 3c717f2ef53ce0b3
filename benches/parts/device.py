"""A scratch loop device in memory or on a disk, and what the machine is.

Decision: a loop device on a file in /dev/shm: the block layer's own stamps are the outside
observer, and nothing is slower than it must be. Where responses matter, a file on a disk that the
device reads and writes past the page cache: operations wait there for something else than this
machine's CPUs. No merging and no splitting, so that an
operation is one request: `nomerges` is 2, the scheduler `none`, and the largest operation
of the traces (488 KiB) is below `max_sectors_kb`. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_CHUNK = bytes(1 << 20)


@contextlib.contextmanager
def loop_device(size_bytes: int, disk: Path | None = None) -> Iterator[str]:
    """Make a loop device whose every page exists, and take it away afterwards.

    It is in memory, or with `disk` in that folder, and then without the page cache.
    Raises OSError or CalledProcessError where that may not be done.
    """
    folder, past_cache = (_memory(), "off") if disk is None else (disk, "on")
    with tempfile.NamedTemporaryFile(dir=folder, prefix="bw-bench-") as image:
        for _ in range(size_bytes // len(_CHUNK)):
            image.write(_CHUNK)
        image.flush()
        os.fsync(image.fileno())
        direct = f"--direct-io={past_cache}"
        made = _run("losetup", "--find", "--show", direct, image.name)
        device = made.strip()
        try:
            queue = Path("/sys/block") / Path(device).name / "queue"
            (queue / "scheduler").write_text("none")
            (queue / "nomerges").write_text("2")
            yield device
        finally:
            _run("losetup", "--detach", device)


def depth_of(device: str) -> int:
    """Return how many requests the device takes at once."""
    queue = Path("/sys/block") / Path(device).name / "queue"
    return int((queue / "nr_requests").read_text())


@contextlib.contextmanager
def going_first() -> Iterator[None]:
    """Run before everything else on a machine that is shared. Raises OSError without root."""
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    with session_first():
        yield


@contextlib.contextmanager
def session_first() -> Iterator[None]:
    """Give this session the highest priority among sessions; put its own back afterwards.

    Where the scheduler groups by session (autogroup, sched(7)), nice counts within a
    session only; the session has a priority of its own. Raises OSError without root.
    """
    group = Path("/proc/self/autogroup")
    before = group.read_text().split()[-1] if group.exists() else None
    if before is not None:
        group.write_text("-20")
    try:
        yield
    finally:
        if before is not None:
            group.write_text(before)


def machine() -> str:
    """Return the machine in one line: processor, kernel, what else runs."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    source = clock.read_text().strip() if clock.exists() else "unknown"
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{len(models)} x {models[0] if models else platform.machine()}, "
        f"Linux {platform.release()}, clock source {source}; load average {load}, "
        f"nice {os.nice(0)}"
    )


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
