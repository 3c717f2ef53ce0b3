"""Replay of bursty traces, judged at the device: our replay beside fio's and blkreplay's.

The busiest seconds of two real traces (where they are not: a generated on/off trace) are
replayed at 1x, 4x and 60x to a loop device in memory. Who judges is outside of all three:
the block layer's stamps of what was issued to the device (block_rq_issue), by the
engine's capture. Printed: how many operations arrive in the millisecond in which the
trace has them (parts/agreement.py has the exact meaning), of all and of those that found
room in the device, and how far off they arrive. Runs are interleaved; figures are
medians. Nothing is asserted. Needs root; everything on the loop device is scratch.

Usage: python3 benches/replay_fidelity.py [--seconds 20] [--runs 3] [--speeds 1,4,60] [--first]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from parts import engine, peers, traces
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import depth_of, going_first, loop_device, machine
from parts.judged import Judgement, judged
from parts.traces import Stretch

DEVICE_BYTES = 1 << 30
SECTOR_BYTES = 512
FASTEST_FROM_S = 300
"""At 60x so much of the trace is replayed, around its busiest part [s]."""

Replayer = Callable[[Stretch, Path, str, int], None]


class Way(NamedTuple):
    """One replayer on one stretch."""

    trace: str
    speed: int
    replayer: str


class Ours:
    """Our replay, as a replayer like the others; keeps what it said of itself."""

    def __init__(self, scratch: Path, cpu: int) -> None:
        self._scratch = scratch
        self._cpu = cpu
        self.held: list[int] = []

    def __call__(self, _: Stretch, trace: Path, device: str, depth: int) -> None:
        """Replay to the device with O_DIRECT."""
        samples = self._scratch / "samples.bw"
        target = {"kind": "file", "path": device, "direct": True, "overwrite": True}
        how = {"depth": depth, "cpus": [self._cpu]}
        result = engine.replay(target, trace, samples, **how)
        self.held.append(int(result["counts"]["held"]))
        samples.unlink()


def stretches(arguments: argparse.Namespace, scratch: Path) -> list[tuple[int, Stretch]]:
    """Return every speed with its stretch, at that speed and fitted to the device."""
    found = []
    for name in ("windows-mssql", "linux-webserver-2"):
        for speed in arguments.speeds:
            seconds = FASTEST_FROM_S if speed >= 60 else arguments.seconds
            stretch = traces.real(name, seconds, scratch)
            if stretch is not None:
                found.append((speed, stretch))
    if not found:
        print(f"{traces.FOLDER} is not there: a generated trace instead")
        bursty = traces.on_off(1000, arguments.seconds)
        found = [(speed, bursty) for speed in arguments.speeds]
    faster = ((speed, traces.faster(stretch, speed)) for speed, stretch in found)
    return [
        (speed, traces.fitted(stretch, DEVICE_BYTES, SECTOR_BYTES)) for speed, stretch in faster
    ]


def measure(
    arguments: argparse.Namespace, scratch: Path, device: str
) -> dict[Way, list[Judgement]]:
    """Replay everything by everybody, in turn."""
    ours = Ours(scratch, arguments.cpu)
    everybody: dict[str, Replayer] = {"bw": ours}
    everybody |= {name: peers.REPLAYERS[name] for name in peers.installed()}
    found: dict[Way, list[Judgement]] = {}
    for speed, stretch in stretches(arguments, scratch):
        print(f"{speed}x of {stretch.about()}", flush=True)
        trace = traces.write_bw(stretch, scratch / "trace.bw")
        ours.held.clear()
        for _ in range(arguments.runs):
            for name, replayer in everybody.items():
                replay = partial(replayer, stretch, trace, device, depth_of(device))
                run = judged(replay, stretch, trace, device)
                way = Way(stretch.name, speed, name)
                found.setdefault(way, []).append(run)
                complain(way, run.observer)
        print(f"   held by bw for want of room: {ours.held} operations")
    return found


def complain(way: Way, account: engine.Document) -> None:
    """Tell what the observer could not see."""
    if account["lost_events"] or account["unread_lines"]:
        print(f"{way}: the observer lost {account['lost_events']} events")


def print_table(found: dict[Way, list[Judgement]]) -> None:
    """Print the medians over the runs."""
    print(
        "\n| trace | speed | replayer | in their ms, all | found room | "
        "in their ms, of these | off by p50 | p98 | missing |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for way, runs in found.items():
        told = [run.agreement for run in runs]
        kept_up = [one.kept_up for one in told if one.kept_up is not None]
        print(
            f"| {way.trace} | {way.speed}x | {way.replayer} "
            f"| {np.median([run.in_their_ms for run in runs]):.2%} "
            f"| {np.median([one.judged for one in told]):.1%} "
            f"| {f'{np.median(kept_up):.2%}' if kept_up else 'none'} "
            f"| {np.median([one.error_ns(50) for one in told]) / 1e3:,.0f} us "
            f"| {np.median([one.error_ns(98) for one in told]) / 1e3:,.0f} us "
            f"| {max(one.missing for one in told)} |"
        )


def speeds(text: str) -> list[int]:
    """Return the speeds in a list such as 1,4,60."""
    return [int(word) for word in text.split(",")]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20, help="of each trace")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--speeds", type=speeds, default=[1, 4, 60])
    parser.add_argument("--cpu", type=int, default=1, help="where the engine is pinned")
    parser.add_argument("--first", action="store_true", help="at the highest priority (root)")
    add_busy_option(parser)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: a loop device and the kernel's events take root")
        return 0
    refuse_busy(arguments.busy)
    print(f"{machine()}; peers: {', '.join(peers.installed()) or 'none installed'}")
    with (
        going_first() if arguments.first else contextlib.nullcontext(),
        tempfile.TemporaryDirectory(prefix="bw-fidelity-") as folder,
        loop_device(DEVICE_BYTES) as device,
    ):
        print_table(measure(arguments, Path(folder), device))
    return 0


if __name__ == "__main__":
    sys.exit(main())
