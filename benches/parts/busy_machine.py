"""How busy the machine was while something ran: stolen and idle time, and who waited."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

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
