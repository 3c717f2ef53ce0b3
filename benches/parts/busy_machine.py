"""How busy the machine is before something runs, and was while it ran.

Decision: a bench whose figures need an idle machine refuses to run on another (`refuse_busy`), since
its tables look the same. The load average of a minute is judged because it still knows of what
ended just before, such as a build; a higher one gets the time in which it falls on an idle machine,
because the bench before this one raised it too.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

IDLE_LOAD = 0.5
"""The highest load average of an idle machine: half of one program that computes. One, on the
engine's CPU, takes the 98th percentile of its issue error from 2 us to 4 ms
(docs/engine-measured.md, "On a shared CPU")."""
_AVERAGED_S = 60.0
"""The load average falls by a factor of e in this time with nothing to run."""
_LOOK_S = 5.0

_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)


class Moment(NamedTuple):
    """The counters at a time."""

    at_s: float
    ticks: tuple[int, ...]
    """Of all processors, as in /proc/stat: user nice system idle iowait irq softirq steal."""


class Busy(NamedTuple):
    """What they came to between two moments."""

    began_s: float
    """Since the epoch [s]."""
    lasted_s: float
    steal_share: float
    """Of all processors' time, taken by the hypervisor."""
    idle_share: float
    load_average: float
    """Of the last minute, at the end."""


def now() -> Moment:
    """Return the counters now."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()
    return Moment(time.time(), tuple(int(word) for word in first[1 : _STEAL + 2]))


def since(begin: Moment) -> Busy:
    """Return what the counters came to since a moment."""
    end = now()
    spent = [b - a for a, b in zip(begin.ticks, end.ticks, strict=True)]
    whole = max(sum(spent), 1)
    return Busy(
        began_s=begin.at_s,
        lasted_s=end.at_s - begin.at_s,
        steal_share=spent[_STEAL] / whole,
        idle_share=(spent[_IDLE] + spent[_IOWAIT]) / whole,
        load_average=os.getloadavg()[0],
    )


def add_busy_option(parser: argparse.ArgumentParser) -> None:
    """Add `--busy`, the argument of `refuse_busy`."""
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine too")


def refuse_busy(
    allowed: bool,
    load_average: Callable[[], float] = lambda: os.getloadavg()[0],
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Print and return the load average of the last minute, once it is that of an idle machine.

    It is waited for as long as it would take to fall with nothing to run. Raises SystemExit where
    something still runs then, unless that is `allowed`.
    """
    load = load_average()
    if load > IDLE_LOAD and not allowed:
        looks = math.ceil(_AVERAGED_S * math.log(load / IDLE_LOAD) / _LOOK_S) + 1
        print(f"load average {load:.2f}: waiting up to {looks * _LOOK_S:.0f} s", file=sys.stderr)
        for _ in range(looks):
            sleep(_LOOK_S)
            load = load_average()
            if load <= IDLE_LOAD:
                break
        else:
            sys.exit(
                f"load average {load:.2f}: above {IDLE_LOAD:g} other programs change the figures. "
                "Stop them, or measure beside them with --busy (make: BUSY=--busy)"
            )
    print(f"load average before: {load:.2f}", flush=True)
    return load
