"""What --low-priority costs in issue error and gives to neighbours on the worker's CPU.

The paper's low priority spinners (Buttress, section 5.2) let threads with work go before the one
that spins. Here the worker issues too: it has the low priority all the time.

One worker issues Poisson operations to null; 0, 1 or 2 neighbours are bound to its CPU, in the
same session (between sessions the kernel shares by session where autogroup is on, and neither
nice nor SCHED_IDLE counts). Two kinds of neighbours:

- computing: loops all the time. Its figure: the share of the work that it does without the engine.
- waking: sleeps a millisecond, computes a tenth of one, and so on: like a server. Its figure: how
  late its sleeps end, beside the same without the engine.

Sides (own priority, nice 19, SCHED_IDLE) are in turn; medians of the rounds; nothing is asserted.

Usage: low_priority.py [--rounds 5] [--seconds 2] [--cpu 1] [--first]
       --first: this session before all others (root); its processes keep their nice value
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from parts import engine
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import machine, session_first
from parts.stand import in_turn, load_request

RATES = (1_000, 10_000)
SIDES = ("none", "own", "nice", "idle")
"""Without the engine, and its priorities."""
NEIGHBOURS = ((0, "computing"), (1, "computing"), (2, "computing"), (1, "waking"))
SETTLED_S = 0.3
"""How long neighbours run before the engine is started."""

COMPUTING = """
import sys, time
until, work = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    work += sum(range(2000)) > 0
print(work)
"""
WAKING = """
import sys, time
until, late = time.monotonic() + float(sys.argv[1]), []
while time.monotonic() < until:
    due = time.monotonic_ns() + 1_000_000
    time.sleep(0.001)
    late.append(time.monotonic_ns() - due)
    busy = time.monotonic_ns() + 100_000
    while time.monotonic_ns() < busy:
        pass
late.sort()
print(late[len(late) * 99 // 100])
"""


class Found(NamedTuple):
    """One run."""

    lateness_us: tuple[float, float, float]
    """Of the engine: p50, p98, p99.9; none without it."""
    neighbours: float
    """Of all: rounds of work, or the p99 of their lateness [ns]."""


@contextlib.contextmanager
def neighbours(
    number: int, kind: str, seconds: float, cpu: int
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start neighbours on a CPU; they end by themselves."""
    program = COMPUTING if kind == "computing" else WAKING
    words = ["taskset", "-c", str(cpu), sys.executable, "-c", program, f"{seconds}"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(number)]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.wait()


def once(side: str, rate: int, number: int, kind: str, arguments: argparse.Namespace) -> Found:
    """Run the engine beside neighbours, who run as long as it does."""
    # Its set-up is within the neighbours' time on all sides, and takes some tenths of a second.
    whole = arguments.seconds + 2 * SETTLED_S
    with neighbours(number, kind, whole, arguments.cpu) as running:
        time.sleep(SETTLED_S)
        lateness = (0.0, 0.0, 0.0)
        if side != "none":
            low = {} if side == "own" else {"low_priority": side}
            arrives = {"type": "open", "arrival": {"type": "poisson"}}
            request = load_request(
                {"kind": "null"},
                arrives | {"rate": {"micro_per_s": rate * 10**6}},
                duration_ns=round(arguments.seconds * 1e9),
                cpus=[arguments.cpu],
                **low,
            )
            result = engine.ask(request)
            late = result["lateness_ns"]
            lateness = tuple(late[name] / 1e3 for name in ("p50", "p98", "p99.9"))
        told = [float(one.communicate()[0]) for one in running]
    figure = 0.0
    if told:
        figure = sum(told) if kind == "computing" else statistics.mean(told)
    return Found(lateness, figure)


def compare(number: int, kind: str, rate: int, arguments: argparse.Namespace) -> None:
    """Print a row for each side."""
    turns = [partial(once, side, rate, number, kind, arguments) for side in SIDES]
    rounds: list[tuple[Found, ...]] = in_turn(arguments.rounds, *turns)
    for place, side in enumerate(SIDES):
        runs = [one[place] for one in rounds]
        late = " | ".join(
            "" if side == "none" else f"{np.median([run.lateness_us[at] for run in runs]):,.1f}"
            for at in range(3)
        )
        gives = ""
        if kind == "waking":
            gives = f"{statistics.median(run.neighbours for run in runs) / 1e3:,.0f} us late"
        elif number:
            shares = [one[place].neighbours / one[0].neighbours for one in rounds]
            gives = f"{statistics.median(shares):.1%} of its work"
        print(f"| {number} {kind} | {rate:,}/s | {side} | {late} | {gives} |", flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cpu", type=int, default=(os.cpu_count() or 1) - 1)
    parser.add_argument("--first", action="store_true")
    add_busy_option(parser)
    arguments = parser.parse_args()
    refuse_busy(arguments.busy)
    print(machine())
    print("| neighbours | rate | priority | late p50 | p98 | p99.9 [us] | neighbours |")
    print("|---|---|---|---|---|---|---|")
    with session_first() if arguments.first else contextlib.nullcontext():
        for number, kind in NEIGHBOURS:
            for rate in RATES:
                compare(number, kind, rate, arguments)
    print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
