"""A neighbour on the machine: CPU and disk, or one CPU, by turns that a seed draws, or CPU that
slowly grows.

`random`: on for 1.5 s and off for 3 s in the mean, both exponential; while on, one process for each
CPU computes and one writes 1 MiB at a time to a file and waits for the disk. `rising`: one process
for each CPU computes during a share of each 10 ms, from 5 % at the start to 75 % after --seconds,
then without change. `one`: a single process computes, on and off for
0.5 to 1.5 times --turn each. It runs until SIGTERM, and ends with its parent.

Usage: neighbour.py random|rising|one --log FILE [--seed N] [--seconds S] [--turn S] [--file PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ON_S, OFF_S = 1.5, 3.0
CYCLE_S = 0.01
FROM, TO = 0.05, 0.75
FILE_BYTES = 64 << 20
LONGEST_S = 7200.0
"""It ends after this time in any case."""


def phases(seed: int) -> Iterator[tuple[float, float]]:
    """Yield when it is on: from, to [s] since its start."""
    rng, at = random.Random(seed), 0.0
    while at < LONGEST_S:
        begin = at + rng.expovariate(1 / OFF_S)
        at = begin + rng.expovariate(1 / ON_S)
        yield begin, at


def turns(seed: int, mean_s: float) -> Iterator[tuple[float, float]]:
    """Yield when `one` is on, for and after `mean_s` in the mean: from, to [s] since its start."""
    rng, at = random.Random(seed), 0.0
    while at < LONGEST_S:
        begin = at + mean_s * rng.uniform(0.5, 1.5)
        at = begin + mean_s * rng.uniform(0.5, 1.5)
        yield begin, at


def compute(until: float) -> None:
    """Use one CPU until a time of the monotonic clock [s]."""
    value = 1.0
    while time.monotonic() < until:
        for _ in range(2000):
            value = value * 1.0000001 + 1e-9


def write(file: Path, until: float) -> None:
    """Write to a disk, and wait for it, until a time of the monotonic clock [s]."""
    block = os.urandom(1 << 20)
    with file.open("wb") as out:
        while time.monotonic() < until:
            out.write(block)
            out.flush()
            os.fdatasync(out.fileno())
            if out.tell() >= FILE_BYTES:
                out.seek(0)


def by_turns(began: float, on_s: Sequence[tuple[float, float]], file: Path | None) -> None:
    """Be on in each phase; with a file it writes, without it computes."""
    for begin, end in on_s:
        wait_until(began + begin)
        if file is None:
            compute(began + end)
        else:
            write(file, began + end)


def rise(began: float, seconds: float) -> None:
    """Compute during a share of each cycle that grows."""
    while (now := time.monotonic()) < began + LONGEST_S:
        share = FROM + (TO - FROM) * min((now - began) / seconds, 1.0)
        compute(now + share * CYCLE_S)
        wait_until(now + CYCLE_S)


def wait_until(at: float) -> None:
    """Sleep until a time of the monotonic clock [s]; exit if the parent has ended."""
    while (left := at - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
        if os.getppid() != PARENT:
            os._exit(0)


PARENT = os.getpid()
"""Of each process that computes or writes."""


def main() -> int:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=["random", "rising", "one"])
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--turn", type=float, default=20.0)
    parser.add_argument("--file", type=Path, help="that `random` writes")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    began, parent = time.monotonic(), os.getppid()
    if asked.kind == "random" and asked.file is None:
        parser.error("random needs --file")
    on = [(0.0, asked.seconds)]
    if asked.kind == "random":
        on = list(phases(asked.seed))
    elif asked.kind == "one":
        on = list(turns(asked.seed, asked.turn))
    asked.log.write_text(json.dumps({"began_ns": int(began * 1e9), "on_s": on}))
    cpus = 1 if asked.kind == "one" else len(os.sched_getaffinity(0))
    files: list[Path | None] = [None] * cpus
    if asked.kind == "random":
        files.append(asked.file)
    children = []
    for file in files:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if asked.kind == "rising":
                rise(began, asked.seconds)
            else:
                by_turns(began, on, file)
            os._exit(0)
        children.append(child)
    try:
        while os.getppid() == parent and time.monotonic() < began + LONGEST_S:
            time.sleep(0.2)
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
        if asked.file is not None:
            asked.file.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
