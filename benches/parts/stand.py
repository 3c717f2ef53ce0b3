"""What the benches of timing and speed stand on: a device and a file on it, requests, pairs.

Decision: a raw loop device in memory, and a file of an ext4 on such a device: both are seen by
the block layer's own stamps, and neither is as slow as a disk, which would hide what
the generators cost. Whoever else is busy on the machine meets both sides of a pair alike.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parts.device import loop_device

Document = dict[str, Any]
BLOCK_BYTES = 4096
DEVICE_BYTES = 512 << 20
FILE_BYTES = 256 << 20
PATIENCE_S = 10


def access() -> Document:
    """Return random reads of 4 KiB."""
    return {
        "kinds": [["read", 1]],
        "size": {"type": "constant", "value": BLOCK_BYTES},
        "location": {"type": "uniform"},
        "region": {"offset_bytes": 0, "length_bytes": None},
        "align_bytes": BLOCK_BYTES,
    }


def load_request(target: Document, filament: Document, **how: Any) -> Document:
    """Return a request for a load of random 4 KiB reads; `how` replaces what is usual."""
    usual = {
        "type": "load",
        "target": target,
        "workload": {"seed": 1, "filaments": [{"access": access(), **filament}]},
        "interval_ns": 10**9,
    }
    return {**usual, **how}


def file_target(path: str) -> Document:
    """Return the target that a path is, past the page cache."""
    return {"kind": "file", "path": path, "direct": True}


@contextlib.contextmanager
def storage() -> Iterator[dict[str, tuple[str, str]]]:
    """Make the targets: name -> (path, the loop device below). Needs root.

    Raises OSError or CalledProcessError where that may not be done.
    """
    with (
        loop_device(DEVICE_BYTES) as raw,
        loop_device(DEVICE_BYTES) as below,
        mounted(below) as directory,
    ):
        file = directory / "file"
        _write(file)
        yield {"loop device": (raw, raw), "ext4 file": (str(file), below)}


@contextlib.contextmanager
def file_on_disk() -> Iterator[str]:
    """Make a file on the disk that has /var/tmp. Raises OSError if that is no disk, or does not do
    O_DIRECT."""
    with tempfile.TemporaryDirectory(prefix="bw-stand-", dir="/var/tmp") as name:
        file = Path(name) / "file"
        _write(file)
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        if os.major(file.stat().st_dev) == 0:
            raise OSError("/var/tmp is not on a disk")
        yield str(file)


def _write(file: Path) -> None:
    """Write the file, not only allocate it: an extent without data is read without the device."""
    with file.open("wb") as data:
        for _ in range(FILE_BYTES >> 20):
            data.write(b"\x5a" * (1 << 20))
    subprocess.run(["sync", "-f", str(file.parent)], check=True)


@contextlib.contextmanager
def mounted(device: str) -> Iterator[Path]:
    """Make an ext4 on a device and mount it; unmount it afterwards."""
    subprocess.run(["mkfs.ext4", "-q", device], check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="bw-stand-") as name:
        subprocess.run(["mount", "-o", "noatime", device, name], check=True)
        try:
            yield Path(name)
        finally:
            _unmount(name)


def _unmount(directory: str) -> None:
    """Unmount; a ring that was closed lets go of its file only a little later."""
    until = time.monotonic() + PATIENCE_S
    while subprocess.run(["umount", directory], capture_output=True).returncode:
        if time.monotonic() > until:
            raise OSError(f"{directory} cannot be unmounted")
        time.sleep(0.05)


def in_turn(rounds: int, *sides: Callable[[], Any]) -> list[tuple[Any, ...]]:
    """Return what the sides returned, round by round; each round begins with another one."""
    found = []
    for number in range(rounds):
        places = [(number + step) % len(sides) for step in range(len(sides))]
        told = {place: sides[place]() for place in places}
        found.append(tuple(told[place] for place in range(len(sides))))
    return found


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
