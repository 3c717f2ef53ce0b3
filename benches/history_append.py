"""What it takes to add one more run to a history file of 10,000 series of 500 points, and to judge it.

    python benches/history_append.py [--series 10000] [--points 500] [--appends 5] [--keep FILE]

Makes the file, as `bw history add --gate` leaves it after every run, and files of `go test -bench` with the
next runs. Then it prints the time of each command that adds one of them, from the start of the process to
its end: `bw history add FILE`, which stores, and `bw history add FILE --gate 5%`, which also judges the newest
run of every series; that of the same command without what the file stores of the levels; and whether
both answers are the same bytes. CPU time is that of the process and of the kernel for it. `--keep` uses a file that
was made before, or keeps it.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchwright.cli.history_inputs import read_runs
from benchwright.report.history_levels import newest_runs
from benchwright.study.history import HistoryFile

START_S = 1_790_000_000
HOUR_S = 3600


def write_result(path: Path, series: int, number: int) -> None:
    """Write a result of `go test -bench` with a value for each series, as old as its run."""
    rng = random.Random(number)
    lines = [
        f"BenchmarkOf{place} 1000 {(100 + place % 50) * rng.lognormvariate(0, 0.02):.4f} ns/op"
        for place in range(series)
    ]
    text = "goos: linux\ngoarch: amd64\npkg: example.com/p\ncpu: a CPU\n"
    path.write_text(text + "\n".join(lines) + "\nPASS\n")
    moment = START_S + number * HOUR_S
    os.utime(path, (moment, moment))


def make(path: Path, folder: Path, series: int, points: int) -> None:
    """Make the history file."""
    result = folder / "bench.txt"
    for number in range(points):
        write_result(result, series, number)
        runs = read_runs([result]).runs
        with HistoryFile.open_to_write(path) as file:
            file.add(runs)
            # Each run is judged, as by CI.
            newest_runs(file, store=True)
        if number % 50 == 0:
            print(f"made {number} of {points} runs", file=sys.stderr)
    os.sync()


def timed(words: Sequence[str]) -> tuple[float, float, str]:
    """Run a command; return its wall time, its CPU time [s] and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def forget(path: Path) -> None:
    """Remove what the file stores of the levels."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM level_cache")
        database.execute("DELETE FROM tail_cache")


def main() -> None:
    """Make the file, append, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--appends", type=int, default=5)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--anew", action="store_true", help="also compute all anew")
    asked = parser.parse_args()
    bw = shutil.which("bw")
    if bw is None:
        raise SystemExit("bw must be installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "history.db"
        if asked.keep is not None and asked.keep.exists():
            shutil.copy(asked.keep, path)
        else:
            make(path, folder, asked.series, asked.points)
            if asked.keep is not None:
                shutil.copy(path, asked.keep)
        print(f"file: {path.stat().st_size / 1e6:.0f} MB")
        result = folder / "bench.txt"
        add = [bw, "history", "add", str(result), "--file", str(path)]
        for number in range(asked.points, asked.points + asked.appends):
            write_result(result, asked.series, number)
            copy = folder / "copy.db"
            shutil.copy(path, copy)
            os.sync()
            wall, cpu, _ = timed([*add[:-1], str(copy)])
            print(f"add: {wall:.2f} s, {cpu:.2f} s CPU")
            wall, cpu, judged = timed([*add, "--gate", "5%"])
            print(f"add --gate: {wall:.2f} s, {cpu:.2f} s CPU")
        wall, cpu, again = timed([*add, "--gate", "5%"])
        print(f"the same again: {wall:.2f} s, {cpu:.2f} s CPU")
        print(judged)
        if asked.anew:
            forget(path)
            wall, cpu, anew = timed([*add, "--gate", "5%"])
            print(f"without what is stored: {wall:.1f} s, {cpu:.1f} s CPU")
            print("the same bytes" if anew == again else "ANOTHER ANSWER")


if __name__ == "__main__":
    main()
