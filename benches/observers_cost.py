"""What `--profile` and `--characterize` cost: the same work with and without each.

In each round a worker (a shell that lives on) does each piece of work once without and once
with the observer, in turn which comes first. The figures are medians of the rounds' ratios, with
the smallest and the largest: of processor time, which others' load hardly moves, and of
elapsed time. Beginning and ending an observer is
outside of trials and told by itself.
Usage: python3 benches/observers_cost.py [--rounds 7] [profile] [characterize]  (root)
Run it on an idle machine. Nothing here is an assertion.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from parts.busy_machine import add_busy_option, refuse_busy

from benchwright.features.profile.observer import Characterizer
from benchwright.features.profile.profiler import Profiler
from benchwright.trial.programs import find_engine
from benchwright.watch.observer import Observer, Watch

SPIN = "i = 0\nwhile i < 8_000_000: i += 1"
WORK = {
    "one busy thread": f"{sys.executable} -c '{SPIN}'",
    "300 processes": "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done",
    "1 B calls": "dd if=/dev/zero of=a bs=1 count=300000 2>/dev/null",
    "4 KiB calls": "dd if=/dev/zero of=a bs=4k count=60000 conv=notrunc 2>/dev/null",
    "64 KiB direct": "dd if=/dev/zero of=a bs=64k count=500 oflag=direct 2>/dev/null",
}


class Worker:
    """A shell that runs what it is told, and says when it has."""

    def __init__(self, place: Path) -> None:
        self.process = subprocess.Popen(
            ["sh"], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def spent_s(self, work: str) -> tuple[float, float]:
        """Run a piece of work; return its processor time and how long it took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        begin, used = time.perf_counter(), self._used_s()
        self.process.stdin.write(f"{work}\necho done\n")
        self.process.stdout.readline()
        return self._used_s() - used, time.perf_counter() - begin

    def _used_s(self) -> float:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        ticks = stat.rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def one_pass(worker: Worker) -> dict[str, tuple[float, float]]:
    """Return what each piece of work takes: processor time, elapsed time [s]."""
    return {name: worker.spent_s(work) for name, work in WORK.items()}


def watched_pass(
    observer: Observer, watch: Watch, worker: Worker
) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Return the same while an observer looks on, and how long that takes to begin and end."""
    begin = time.perf_counter()
    observer.begin(watch)
    ready = time.perf_counter()
    found = one_pass(worker)
    ending = time.perf_counter()
    observer.end()
    return found, ready - begin, time.perf_counter() - ending


def measure(name: str, observer: Observer, rounds: int) -> None:
    """Print an observer's table."""
    ratios: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        worker = Worker(place)
        one_pass(worker)
        for number in range(rounds):
            directory = place / "watched" / f"s{number}"
            directory.mkdir(parents=True)
            watch = Watch(directory, "x", worker.process.pid)
            without = one_pass(worker) if number % 2 else None
            seen, begun, ended = watched_pass(observer, watch, worker)
            without = without or one_pass(worker)
            for key, (used, elapsed) in seen.items():
                ratios[f"{key}, processor"].append(used / without[key][0])
                ratios[f"{key}, elapsed"].append(elapsed / without[key][1])
            ratios["(to begin, s)"].append(begun)
            ratios["(to end, s)"].append(ended)
            shutil.rmtree(directory)
        worker.process.kill()
        worker.process.communicate()
    print(f"{name}: with / without, median (smallest .. largest) of {rounds}")
    for key, values in ratios.items():
        low, high = min(values), max(values)
        print(f"  {key:28} {statistics.median(values):7.3f} ({low:.3f} .. {high:.3f})")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("what", nargs="*", default=["profile", "characterize"])
    add_busy_option(parser)
    asked = parser.parse_args()
    refuse_busy(asked.busy)
    observers: dict[str, Observer] = {
        "profile": Profiler(),
        "characterize": Characterizer(find_engine()),
    }
    for name in asked.what:
        measure(name, observers[name], asked.rounds)


if __name__ == "__main__":
    main()
