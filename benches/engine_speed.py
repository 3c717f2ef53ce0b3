"""How fast the engine is: random 4 KiB reads beside fio on the same target, and to `null`.

Aims: on a device at least fio's rate at the same depth (1.1 times it wished for), one
thread each on the same processor, in turn; to `null` at least 10 million operations a
second and core. fio is run twice: as it is, keeping latencies as ours does, and with
`gtod_reduce`, which keeps none. Rates are medians over the rounds, ratios medians of
the rounds' ratios.

Usage: engine_speed.py [--rounds N] [--seconds S] [--cpu N]   (root, for loop devices)
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
from functools import partial

from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import machine
from parts.engine import ask
from parts.fio_jobs import fio, version
from parts.stand import (
    Document,
    file_on_disk,
    file_target,
    in_turn,
    load_request,
    median_ratio,
    storage,
)

DEPTHS = (1, 8, 32, 128)
AIM_NULL_PER_S = 10_000_000


def as_fast_as_possible(target: Document, depth: int, cpus: list[int], s: float) -> float:
    """Return the operations a second of a closed loop, `depth` in flight on each processor."""
    users = {"type": "closed", "users": depth * len(cpus)}
    think = {"type": "constant", "value": 0}
    how = {"workers": len(cpus), "cpus": cpus, "depth": depth}
    request = load_request(target, {**users, "think": think}, duration_ns=round(s * 1e9), **how)
    return float(ask(request)["achieved_rate_per_s"])


def reads_per_s(path: str, cpu: int, seconds: float, depth: int, *words: str) -> float:
    """Return fio's rate at the same depth."""
    return float(fio(path, cpu, seconds, f"--iodepth={depth}", *words)["iops"])


def null(arguments: argparse.Namespace) -> None:
    """Print the rates to the null target, on one processor and on two."""
    one = [arguments.cpu]
    two = [arguments.cpu, (arguments.cpu + 1) % (os.cpu_count() or 1)]
    print(f"\nto null, million operations/s (aim {AIM_NULL_PER_S / 1e6:.0f} a core)")
    print("| depth | one worker | two workers | ratio |\n|---|---|---|---|")
    for depth in DEPTHS:
        rounds = in_turn(
            arguments.rounds,
            partial(as_fast_as_possible, {"kind": "null"}, depth, one, 1),
            partial(as_fast_as_possible, {"kind": "null"}, depth, two, 1),
        )
        single, double = (list(side) for side in zip(*rounds, strict=True))
        print(
            f"| {depth} | {statistics.median(single) / 1e6:.2f} "
            f"| {statistics.median(double) / 1e6:.2f} "
            f"| {median_ratio(double, single):.2f} |"
        )


def beside_fio(name: str, path: str, arguments: argparse.Namespace) -> None:
    """Print the rates on a target, ours and fio's."""
    print(f"\n{name}, thousand 4 KiB reads/s, median of {arguments.rounds} rounds")
    print("| depth | bw | fio | bw/fio | fio, no clocks | bw/that |")
    print("|---|---|---|---|---|---|")
    cpu, seconds = arguments.cpu, arguments.seconds
    for depth in DEPTHS:
        rounds = in_turn(
            arguments.rounds,
            partial(as_fast_as_possible, file_target(path), depth, [cpu], seconds),
            partial(reads_per_s, path, cpu, seconds, depth),
            partial(reads_per_s, path, cpu, seconds, depth, "--gtod_reduce=1"),
        )
        ours, theirs, bare = (list(side) for side in zip(*rounds, strict=True))
        kilo = [statistics.median(side) / 1e3 for side in (ours, theirs, bare)]
        print(
            f"| {depth} | {kilo[0]:.1f} | {kilo[1]:.1f} | {median_ratio(ours, theirs):.2f} "
            f"| {kilo[2]:.1f} | {median_ratio(ours, bare):.2f} |",
            flush=True,
        )


def main() -> int:
    """Print the tables; what cannot be measured here is told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cpu", type=int, default=(os.cpu_count() or 1) - 1)
    parser.add_argument("--only", choices=["null", "device"])
    add_busy_option(parser)
    arguments = parser.parse_args()
    # Ended from outside, the devices are taken away too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    refuse_busy(arguments.busy)
    print(machine())
    if arguments.only != "device":
        null(arguments)
    if arguments.only == "null":
        return 0
    if shutil.which("fio") is None:
        print("not measured: reads beside fio: fio is not installed")
        return 0
    print(version())
    try:
        with storage() as targets:
            for name, (path, _) in targets.items():
                beside_fio(name, path, arguments)
        with file_on_disk() as path:
            beside_fio("file on the disk of /var/tmp", path, arguments)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not measured: reads beside fio: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
