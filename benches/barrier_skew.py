"""How far apart N processes are let go: `bw barrier`, the start gate, and the floor.

For N = 2 ... 64 it prints p50, p99 and maximum of the release skew (last release stamp minus
first, CLOCK_MONOTONIC) over many epochs, for the barrier inside a script and for the start
of EXEC itself. Below stands the machine's floor in the same minute: how long one waiter
takes to run after a futex wake, and the longest gap that a bare spin loop sees.
Usage: python3 benches/barrier_skew.py [--epochs 200] [--threads 2,4,8,16,32,64]
Run it on an idle machine. Nothing here is an assertion.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts.busy_machine import add_busy_option, refuse_busy

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = os.environ.get("BW_LAUNCHER", str(ROOT / "target/release/bw-launcher"))
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
WAIT, WAKE = 0, 1


class Launcher:
    """A `bw-launcher serve` for the whole benchmark."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [LAUNCHER, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._folder = folder
        self.stamps = folder / "stamps"
        self._read()

    def skews_us(self, threads: int, epochs: int) -> tuple[list[float], list[float]]:
        """Return the skews of the barrier and of the start gate [us]."""
        barrier, gate = [], []
        for epoch in range(epochs):
            self.stamps.write_text("")
            record = self._epoch(threads, epoch + 1)
            gate.append(record["release_skew_ns"] / 1e3)
            stamps = [int(line.split()[1]) for line in self.stamps.read_text().splitlines()]
            assert len(stamps) == threads, record
            assert record["ending"] == "ok", record
            barrier.append((max(stamps) - min(stamps)) / 1e3)
        return barrier, gate

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _epoch(self, threads: int, epoch: int) -> dict[str, object]:
        request = {
            "type": "run", "id": 1, "first_epoch": epoch, "epochs": 1, "threads": threads,
            "commands": [{"mode": "EXEC", "argv": [LAUNCHER, "barrier", "--", "/bin/true"]}],
            "environment": [["BW_BARRIER_STAMPS", str(self.stamps)]],
            "directory": "/", "logs": str(self._folder),
        }  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        record = self._read()
        assert self._read()["type"] == "done"
        return record

    def _read(self) -> dict[str, object]:
        assert self._process.stdout is not None
        reply: dict[str, object] = json.loads(self._process.stdout.readline())
        assert reply["type"] != "error", reply
        return reply


def futex_floor_us(rounds: int) -> list[float] | None:
    """Return how long one sleeping process takes to run after a futex wake [us]."""
    if FUTEX is None:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    word = ctypes.c_uint32.from_buffer(memory)
    woken = ctypes.c_uint64.from_buffer(memory, 64)
    child = os.fork()
    if child == 0:
        for turn in range(rounds):
            while word.value == turn:
                libc.syscall(FUTEX, ctypes.byref(word), WAIT, turn, None)
            woken.value = time.monotonic_ns()
        os._exit(0)
    delays = []
    for turn in range(rounds):
        time.sleep(0.002)
        woken.value = 0
        begun = time.monotonic_ns()
        word.value = turn + 1
        libc.syscall(FUTEX, ctypes.byref(word), WAKE, 1)
        time.sleep(0.002)
        delays.append((woken.value - begun) / 1e3)
    os.waitpid(child, 0)
    return delays


def spin_gap_us(seconds: float = 0.5) -> float:
    """Return the longest gap that a bare loop sees [us]."""
    end = time.perf_counter() + seconds
    longest, last = 0.0, time.perf_counter()
    while last < end:
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1e6


def percentiles(values: list[float]) -> str:
    """Return p50, p99 and the maximum in columns."""
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return f"{statistics.median(ordered):9.1f} {p99:9.1f} {ordered[-1]:9.1f}"


def main() -> int:
    """Run all N, print the table and the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--threads", default="2,4,8,16,32,64")
    add_busy_option(parser)
    arguments = parser.parse_args()
    refuse_busy(arguments.busy)
    print(f"{os.cpu_count()} processors, {arguments.epochs} epochs; release skew [us]")
    print("   N  barrier: p50      p99       max   start gate: p50   p99       max")
    with tempfile.TemporaryDirectory() as folder:
        launcher = Launcher(Path(folder))
        for threads in map(int, arguments.threads.split(",")):
            barrier, gate = launcher.skews_us(threads, arguments.epochs)
            print(f"{threads:4} {percentiles(barrier)}   {percentiles(gate)}", flush=True)
        launcher.close()
    floor = futex_floor_us(arguments.epochs)
    if floor is None:
        print(f"floor: skipped, no futex number for {platform.machine()}")
    else:
        print(f"floor, one futex wake: {percentiles(floor)}")
    print(f"floor, longest gap of a bare spin loop in 0.5 s: {spin_gap_us():.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
