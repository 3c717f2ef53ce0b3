"""What a run of /bin/true costs: the launcher's batch beside hyperfine, in alternation.

Prints for each pair the time per run of both [us], then the median ratio. Below 1 the
launcher is cheaper. The bare spin loop of the same minute is the machine's noise floor.
Usage: python3 benches/launcher_overhead.py [--pairs 7] [--runs 1000] [--command /bin/true]
Run it on an idle machine; the ratio is the figure to quote, not the microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = os.environ.get("BW_LAUNCHER", str(ROOT / "target/release/bw-launcher"))


class Launcher:
    """A `bw-launcher serve` for the whole benchmark."""

    def __init__(self, logs: str) -> None:
        self._process = subprocess.Popen(
            [LAUNCHER, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._logs = logs
        self._read()

    def seconds(self, runs: int, command: str) -> float:
        """Return how long a batch of `runs` epochs takes, request to `done`."""
        request = {
            "type": "run", "id": 1, "first_epoch": 1, "epochs": runs, "threads": 1,
            "commands": [{"mode": "EXEC", "argv": [command]}], "environment": [],
            "directory": "/", "logs": self._logs,
        }  # fmt: skip
        pipe = self._process.stdin
        assert pipe is not None
        begun = time.perf_counter()
        pipe.write(json.dumps(request).encode() + b"\n")
        pipe.flush()
        while self._read()["type"] == "epoch":
            pass
        return time.perf_counter() - begun

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> dict[str, object]:
        assert self._process.stdout is not None
        reply: dict[str, object] = json.loads(self._process.stdout.readline())
        assert reply["type"] != "error", reply
        return reply


def hyperfine_seconds(runs: int, command: str) -> float:
    """Return how long `hyperfine -N` takes for all its runs, start-up included."""
    words = ["hyperfine", "-N", "--style", "none", "--runs", str(runs), command]
    begun = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def spin_noise_us() -> float:
    """Return the longest gap that a bare loop sees in 50 ms [us]."""
    end = time.perf_counter() + 0.05
    longest, last = 0.0, time.perf_counter()
    while last < end:
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1e6


def main() -> int:
    """Run the pairs, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--command", default="/bin/true")
    arguments = parser.parse_args()
    if shutil.which("hyperfine") is None:
        print("skipped: hyperfine is not installed")
        return 0
    ratios = []
    with tempfile.TemporaryDirectory() as logs:
        launcher = Launcher(logs)
        launcher.seconds(100, arguments.command)
        print("pair  launcher_us  hyperfine_us  ratio  spin_gap_us")
        for pair in range(arguments.pairs):
            takes = [
                lambda: launcher.seconds(arguments.runs, arguments.command),
                lambda: hyperfine_seconds(arguments.runs, arguments.command),
            ]
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            taken = {which: takes[which]() / arguments.runs * 1e6 for which in order}
            ratios.append(taken[0] / taken[1])
            print(f"{pair + 1:4}  {taken[0]:11.1f}  {taken[1]:12.1f}  {ratios[-1]:5.3f}"
                  f"  {spin_noise_us():11.1f}")  # fmt: skip
        launcher.close()
    print(f"median ratio {statistics.median(ratios):.3f} (launcher / hyperfine)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
