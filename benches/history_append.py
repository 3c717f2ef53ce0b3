"""What it takes to add one more run to a history file of 10,000 series of 500 points, and to judge
it.

    python benches/history_append.py [--series 10000] [--points 500] [--appends 5] [--keep FILE]
    [--anew] [--whole]

Makes the file, and results of `go test -bench` with the next runs. Then it prints the time of
commands, from the start of the process to its end: `bw history add FILE`, which stores, `bw history
add FILE --gate 5%`, which also judges the newest run of every series. The first of these computes
all levels anew, because the made file stores none. `--anew` does so again at the end, and reports
whether both answers are the same bytes; `--whole` also runs `bw history --gate 5%`, which analyses
every series again (many minutes). `--keep` uses a file that was made before, or keeps the made one.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from benchwright.features.history.inputs import read_runs
from benchwright.features.history.store import HistoryFile

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
    write_result(result, series, 0)
    (first,) = read_runs([result]).runs
    rng = random.Random(0)
    with HistoryFile.open_to_write(path) as file:
        for number in range(points):
            file.add(
                [
                    msgspec.structs.replace(
                        first,
                        points=tuple(
                            (
                                key,
                                msgspec.structs.replace(
                                    point,
                                    run=f"{number:016x}",
                                    started_ns=(START_S + number * HOUR_S) * 10**9,
                                    estimate=point.estimate * rng.lognormvariate(0, 0.02),
                                ),
                            )
                            for key, point in first.points
                        ),
                    )
                ]
            )
    os.sync()


def timed(what: str, words: Sequence[str]) -> str:
    """Run a command, print its times, and return its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stderr)
    user = after.ru_utime - before.ru_utime
    kernel = after.ru_stime - before.ru_stime
    print(f"{what}: {wall:.2f} s, CPU {user:.2f} + {kernel:.2f} s", flush=True)
    return done.stdout


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
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    bw = shutil.which("bw")
    if bw is None:
        raise SystemExit("bw must be installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, result = folder / "history.db", folder / "bench.txt"
        if asked.keep is not None and asked.keep.exists():
            shutil.copy(asked.keep, path)
        else:
            make(path, folder, asked.series, asked.points)
            if asked.keep is not None:
                shutil.copy(path, asked.keep)
        print(f"file: {path.stat().st_size / 1e6:.0f} MB")
        add = [bw, "history", "add", str(result), "--file", str(path)]
        judge = [*add, "--gate", "5%"]
        for number in range(asked.points, asked.points + asked.appends + 1):
            write_result(result, asked.series, number)
            os.sync()
            stored = shutil.copy(path, folder / "copy.db")
            timed("add", [*add[:-1], str(stored)])
            judged = timed("add --gate", judge)
        again = timed("the same run again", judge)
        print(f"file: {path.stat().st_size / 1e6:.0f} MB")
        if asked.anew:
            forget(path)
            anew = timed("without what is stored", judge)
            same = again == anew and judged.partition("\n")[2] == anew.partition("\n")[2]
            print("the answers are the same bytes" if same else "THE ANSWERS DIFFER")
        if asked.whole:
            timed("bw history", [bw, "history", str(path), "--gate", "5%"])


if __name__ == "__main__":
    main()
