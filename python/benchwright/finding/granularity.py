"""Work that is too short for the clock: starting it is much of it, or the clock's grain is.

Purpose: PostMark counts whole seconds, so a run of three of them is known to 17 % and its
rates are N/3 or N/4; /bin/true measures the start of a process.
Decision: a grain is told from the values themselves: so few different ones, so far apart,
that a finer clock would not have given them. Only times and rates have a clock.
Source: Systems Performance, 12.3.8; PostMark 1.51.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from benchwright.finding import thresholds as t
from benchwright.finding.machine_words import seconds_text, share_text
from benchwright.model.observation import Trial

_TIMES = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}


def start_text(trials: Sequence[Trial], elapsed: Sequence[float]) -> str:
    """Return that starting the command is much of its time; empty where it is not.

    `elapsed` are seconds of the trials that count; of trials that no launcher started
    nothing is said.
    """
    if not elapsed or not any(trial.processes for trial in trials):
        return ""
    middle = sorted(elapsed)[len(elapsed) // 2]
    share = t.START_S / max(middle, t.START_S)
    if share <= t.START_SHARE:
        return ""
    return (
        f"elapsed {seconds_text(middle)}: to start a process takes about "
        f"{seconds_text(t.START_S)}, {share_text(share)} of it"
    )


def grain_text(name: str, unit: str, values: Sequence[float]) -> str:
    """Return that a time or a rate comes in steps that are large beside it; else empty."""
    kind = kind_of(name, unit)
    if not kind or len(values) < t.GRAIN_FEWEST or min(values) <= 0:
        return ""
    distinct = sorted(set(values))
    if 2 * len(distinct) > len(values):
        return ""
    step = _step(distinct) if kind == "time" else _rate_step(distinct)
    if step is None or step < t.GRAIN:
        return ""
    return (
        f"{name} has {len(distinct)} different value{'s' if len(distinct) > 1 else ''} in "
        f"{len(values)} trials, in steps of {share_text(step)}: the grain of a clock"
    )


def kind_of(name: str, unit: str) -> str:
    """Return `time`, `rate` or nothing."""
    if unit in _TIMES:
        return "time"
    ends = ("_per_s", "/s", "_per_second", "tps", "iops")
    if unit.endswith(("/s", "/sec")) or (not unit and name.endswith(ends)):
        return "rate"
    return ""


def _step(distinct: Sequence[float]) -> float | None:
    """Return the grain of times as a share of the smallest: that of whole units where
    all are whole, else the least distance. One value alone may be a length that was asked
    for, unless it is the clock's first step or two."""
    if len(distinct) == 1 and distinct[0] > 2:
        return None
    if all(value == int(value) for value in distinct):
        return 1 / distinct[0]
    if len(distinct) < 2:
        return None
    return _least_distance(distinct)


def _least_distance(distinct: Sequence[float]) -> float:
    return min(high / low - 1 for low, high in pairwise(distinct))


def _rate_step(distinct: Sequence[float]) -> float | None:
    """Return the grain of rates, a count over whole units of time; None where they are not.

    With times of k, k+1, ... units the rates stand to each other as 1/k, 1/(k+1), ...
    """
    if len(distinct) < 2:
        return None
    highest = distinct[-1]
    for units in range(1, math.floor(1 / t.GRAIN) + 1):
        ratios = [units * highest / value for value in distinct]
        if all(abs(ratio - round(ratio)) <= 0.01 for ratio in ratios):
            return 1 / units
    return None
