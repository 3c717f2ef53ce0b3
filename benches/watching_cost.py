"""What being watched does to a benchmark: its time with and without the sampler.

Usage: python benches/watching_cost.py [--blocks 150]

A block is four trials of the same work by the launcher, two of them watched as `bw run` has it
watched, in the order W N N W or N W W N: a drift of the machine's speed falls out of it, and
neighbours of a shared machine meet both. Printed is the pseudo-median (Hodges and Lehmann,
signed ranks) of the blocks' ratios of elapsed times with its 95 % interval; it is equivalent
to 1 within 1 % where the 90 % interval lies in 0.99 to 1.01 (two one-sided tests at 5 %). The
mean stands beside it: where others take the processors for seconds, a few blocks decide it.
The floor is the ratio of the two trials of a block that nobody watched.
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

import numpy as np
from parts.busy_machine import add_busy_option, refuse_busy
from scipy.special import ndtri

from benchwright.core.plan import Command, CommandMode
from benchwright.trial.bench import LocalBench
from benchwright.trial.programs import find_sampler
from benchwright.trial.protocol import ExecEnvironment, command_request
from benchwright.watch.observer import Watch
from benchwright.watch.sampler import SamplerObserver

MARGIN = 0.01


def works(place: Path) -> dict[str, tuple[str, ...]]:
    """Return the work by name; each takes a third of a second or so."""
    config = place / "postmark.cfg"
    config.write_text(
        f"set location {place}\nset number 500\nset transactions 20000\n"
        "set size 500 10000\nrun\nquit\n"
    )
    data = place / "data"
    data.write_bytes(random.Random(1).randbytes(1 << 20))
    return {
        "gzip": ("/bin/sh", "-c", f"exec gzip -9 -c {8 * f'{data} '} >/dev/null"),
        "PostMark": ("postmark", str(config)),
        "300 processes": ("/bin/sh", "-c", "for n in $(seq 300); do /bin/true; done"),
    }


class Bench:
    """Runs one trial, watched or not."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._bench = LocalBench()
        self._observer = SamplerObserver(find_sampler())
        self._around = ExecEnvironment(str(place), tuple(os.environ.items()))

    def elapsed_s(self, argv: tuple[str, ...], *, watched: bool) -> float:
        """Return how long the command took [s]."""
        processes = self._bench.processes
        request = command_request(
            CommandMode.EXEC, (Command(argv),), self._around, str(self._place), ()
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


def blocks_of(bench: Bench, argv: tuple[str, ...], blocks: int) -> tuple[list[float], list[float]]:
    """Return log(watched / not) of each block, and log(not / not) of its two."""
    rng = random.Random(1)
    ratios, floor = [], []
    bench.elapsed_s(argv, watched=False)
    for _ in range(blocks):
        first = rng.random() < 0.5
        times: dict[bool, list[float]] = {True: [], False: []}
        for watched in (first, not first, not first, first):
            times[watched].append(math.log(bench.elapsed_s(argv, watched=watched)))
        ratios.append(statistics.mean(times[True]) - statistics.mean(times[False]))
        floor.append(times[False][0] - times[False][1])
    return ratios, floor


def walsh(logs: list[float], share: float) -> tuple[float, float, float]:
    """Return the pseudo-median of a sample and its interval, by signed ranks.

    The means of all pairs, and of them the order statistics whose rank Wilcoxon's test
    gives; by its normal approximation, which is good from some twenty values on.
    """
    values, n = np.array(logs), len(logs)
    above = np.triu_indices(n)
    means = np.sort((values[above[0]] + values[above[1]]) / 2)
    spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    out = max(int(n * (n + 1) / 4 - ndtri(0.5 + share / 2) * spread), 0)
    return float(np.median(means)), float(means[out]), float(means[-1 - out])


def line(name: str, logs: list[float]) -> str:
    """Return a row: the ratio, its interval, the mean, and whether it is equivalent to 1."""
    middle, low, high = map(math.exp, walsh(logs, 0.95))
    within = max(map(abs, walsh(logs, 0.90)[1:])) <= math.log1p(MARGIN)
    return (
        f"| {name} | {middle:.4f} | {low:.4f} to {high:.4f} | "
        f"{math.exp(statistics.mean(logs)):.4f} | "
        f"{'within 1 %' if within else 'not shown'} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=150)
    add_busy_option(parser)
    asked = parser.parse_args()
    refuse_busy(asked.busy)
    blocks = asked.blocks
    place = Path(tempfile.mkdtemp(prefix="bw-watching-", dir="/dev/shm"))
    try:
        with contextlib.closing(Bench(place)) as bench:
            print(f"{blocks} blocks")
            print("| work | watched / not | 95 % interval | mean | 1 % |")
            print("|---|---|---|---|---|")
            found: list[tuple[list[float], list[float]]] = []
            for name, argv in works(place).items():
                found.append(blocks_of(bench, argv, blocks))
                print(line(name, found[-1][0]))
                print(line(f"{name}, floor", found[-1][1]), flush=True)
            print(line("all blocks", [x for ratios, _ in found for x in ratios]))
            print(line("all blocks, floor", [x for _, floor in found for x in floor]))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
