"""What being watched does to a benchmark: its mean with and without the sampler.

Usage: python benches/watching_cost.py [--blocks 100]

A block is two trials of the same work by the launcher, one of them watched as `bw run` has it
watched, in random order: so a machine whose speed drifts does not decide. Printed is the
geometric mean of the ratios of elapsed times with its 95 % interval; it is equivalent to 1
within 1 % where the 90 % interval lies in 0.99 to 1.01 (two one-sided tests at 5 %). The floor is
the same with neither watched.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path

from scipy.special import stdtrit

from benchwright.bench.find import find_sampler
from benchwright.bench.local import LocalBench
from benchwright.model.plan import Command, Mode
from benchwright.probe.observer import Watch
from benchwright.probe.watcher import SamplerObserver
from benchwright.trial.request import Surroundings, command_request

MARGIN = 0.01


def works(place: Path) -> dict[str, tuple[str, ...]]:
    """Return the work by name; each takes a third of a second or so."""
    config = place / "postmark.cfg"
    config.write_text(
        f"set location {place}\nset number 500\nset transactions 20000\n"
        "set size 500 10000\nrun\nquit\n"
    )
    data = place / "data"
    with data.open("wb") as file:
        file.truncate(300 << 20)
    return {
        "sha256sum": ("sha256sum", str(data)),
        "PostMark": ("postmark", str(config)),
        "300 processes": (
            "/bin/sh",
            "-c",
            "for n in $(seq 300); do /bin/true; done",
        ),
    }


class Bench:
    """Runs one trial, watched or not."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._bench = LocalBench()
        self._observer = SamplerObserver(find_sampler())
        self._around = Surroundings(str(place), tuple(os.environ.items()))

    def elapsed_s(self, argv: tuple[str, ...], *, watched: bool) -> float:
        """Return how long the command took [s]."""
        processes = self._bench.processes
        request = command_request(
            Mode.EXEC, (Command(argv),), self._around, str(self._place), ()
        )
        if watched:
            root, own = processes.root, processes.own
            self._observer.begin(Watch(self._place, "series", root, own))
        result = self._bench.run(request)
        if watched:
            self._observer.end()
            assert self._observer.last is not None
            self._observer.last.file.unlink()
        (process,) = result.epochs[0].processes
        assert process.status == 0, argv
        return process.elapsed_ns / 1e9

    def close(self) -> None:
        """End the launcher and the sampler."""
        self._observer.close()
        self._bench.close()


def log_ratios(
    bench: Bench, argv: tuple[str, ...], blocks: int, *, watched: bool
) -> list[float]:
    """Return log(watched / not) of each block; with `watched` False of neither."""
    rng = random.Random(1)
    found = []
    bench.elapsed_s(argv, watched=False)
    for _ in range(blocks):
        order = [True, False] if rng.random() < 0.5 else [False, True]
        times = {arm: bench.elapsed_s(argv, watched=arm and watched) for arm in order}
        found.append(math.log(times[True] / times[False]))
    return found


def line(name: str, logs: list[float]) -> str:
    """Return a row: the ratio, its interval, and whether it is equivalent to 1."""
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    wide, narrow = (error * stdtrit(len(logs) - 1, p) for p in (0.975, 0.95))
    within = max(abs(mean - narrow), abs(mean + narrow)) <= math.log1p(MARGIN)
    return (
        f"| {name} | {math.exp(mean):.4f} | {math.exp(mean - wide):.4f} to "
        f"{math.exp(mean + wide):.4f} | {'within 1 %' if within else 'not shown'} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=100)
    blocks = parser.parse_args().blocks
    place = Path(tempfile.mkdtemp(prefix="bw-watching-", dir="/dev/shm"))
    try:
        with contextlib.closing(Bench(place)) as bench:
            print(f"{blocks} blocks")
            print("| work | watched / not | 95 % interval | 1 % |\n|---|---|---|---|")
            for name, argv in works(place).items():
                for what, watched in ((name, True), (f"{name}, floor", False)):
                    found = log_ratios(bench, argv, blocks, watched=watched)
                    print(line(what, found), flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
