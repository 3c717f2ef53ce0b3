"""A scratch loop device in memory, and what the machine is.

Decision: a loop device on a file in /dev/shm: the block layer's own stamps are the outside
observer, and nothing is slower than it must be. No merging and no splitting, so that an
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
def loop_device(size_bytes: int) -> Iterator[str]:
    """Make a loop device whose every page exists, and take it away afterwards.

    Raises OSError or CalledProcessError where that may not be done.
    """
    with tempfile.NamedTemporaryFile(dir=_memory(), prefix="bw-bench-") as image:
        for _ in range(size_bytes // len(_CHUNK)):
            image.write(_CHUNK)
        image.flush()
        made = _run("losetup", "--find", "--show", image.name)
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
    """Run before everything else on a machine that is shared. Raises OSError without root.

    Where the scheduler groups by session (autogroup, sched(7)), nice counts within a
    session only; the session has a priority of its own, which is put back afterwards.
    """
    os.setpriority(os.PRIO_PROCESS, 0, -20)
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
