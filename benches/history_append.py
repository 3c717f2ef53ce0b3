"""What it takes to add a run to a history file of 10,000 series of 500 points.

    python benches/history_append.py [--series 10000] [--points 500]

Prints the size of the file, the time of an append of one run with a point in every series (in one
durable transaction), the time of the same append again, and the time to read one series.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchwright.core.history import HistoryPoint, Run, SeriesKey
from benchwright.study.history import HistoryFile


def run_of(number: int, series: int) -> Run:
    """Return a run with a point in each series."""
    common = HistoryPoint(
        run=f"{number:016x}",
        study="bw-study",
        session=number + 1,
        started_ns=number * 3600 * 10**9,
        estimate=1.0,
        low=0.9,
        high=1.1,
        confidence=0.95,
        trials=10,
        unit="s",
        command="make check",
        commit=f"{number:040x}",
    )
    points = (
        (SeriesKey(f"test-{place}", "elapsed", "0123abcd"), common)
        for place in range(series)
    )
    return Run(points=tuple(points), environment=None, machine="a machine")


def timed(path: Path, runs: Iterator[Run] | list[Run]) -> float:
    """Add runs; return how long it took [s]."""
    start = time.perf_counter()
    with HistoryFile.open_to_write(path) as file:
        file.add(runs)
    return time.perf_counter() - start


def main() -> None:
    """Make the file, append, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        timed(path, (run_of(number, asked.series) for number in range(asked.points)))
        os.sync()
        print(f"file: {path.stat().st_size / 1e6:.0f} MB")
        for number in range(asked.points, asked.points + 5):
            run = run_of(number, asked.series)
            print(f"append: {timed(path, [run]):.3f} s")
        print(f"the same again: {timed(path, [run]):.3f} s")
        start = time.perf_counter()
        with HistoryFile.open_to_read(path) as file:
            runs = file.runs(lambda key: key.test == "test-7")
        took = time.perf_counter() - start
        print(f"one series of {len(runs)} points: {took:.3f} s")


if __name__ == "__main__":
    main()
