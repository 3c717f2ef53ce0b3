"""Quantities as users write them: `5%`, `30s`, `4KiB`, `10k`; and lists of CPUs: `0-2,5`.

Times become integer nanoseconds, sizes integer bytes, shares floats in [0, 1].
Every function raises ValueError with a message that says what was expected.
Source of the lists: cpuset(7), the list format; NR_CPUS in the Kconfig files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from benchwright.core.results import SlowRuns

MAX_CPU = 8191
_PART = re.compile(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", re.ASCII)


def parse_cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list, in its order; none of an empty one. Raises ValueError."""
    found: list[int] = []
    for part in text.split(",") if text.strip() else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not a list of CPUs such as 0,2 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        if last > MAX_CPU:
            raise ValueError(f"{part.strip()!r}: CPUs are numbers from 0 to {MAX_CPU}")
        found.extend(range(first, last + 1))
    return found


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as a list, in order."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*+([A-Za-z%µ]*)\s*\Z")
_TIME_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SIZE = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def _split(text: str, what: str) -> tuple[Fraction, str]:
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not {what}")
    return Fraction(match[1]), match[2]


MOST_CHANGE = 1000.0
"""The largest change that a limit allows, as a share: 100,000 %."""


def parse_share(text: str, most: float = 1.0, *, zero: bool = False) -> float:
    """Return a share such as `5%` or `0.05` as a float in (0, most], or also 0.

    Shares above 1 are given in per cent: `1.5` is probably 1.5 %.
    """
    number, unit = _split(text, "a share such as 5% or 0.05")
    if unit not in ("", "%"):
        raise ValueError(f"{text!r} is not a share such as 5% or 0.05")
    share = float(number / 100 if unit == "%" else number)
    if share > 1 and not unit:
        bare = text.strip()
        raise ValueError(f"{bare!r} would be {share * 100:g} %: did you mean {bare}%?")
    if not (0 < share <= most or (zero and share == 0)):
        raise ValueError(f"{text!r} is outside 0% .. {100 * most:g}%")
    return share


def parse_change(text: str) -> float:
    """Return a change, which may be more than all: `150%` is 1.5."""
    return parse_share(text, MOST_CHANGE)


def share_within(least: float, most: float, what: str = "") -> Callable[[str], float]:
    """Return the parser of a share from `least` to less than `most`, of 0 only where `least` is
    below it; `what` is its name in the message."""

    def parse(text: str) -> float:
        share = parse_share(text, max(most, 1.0), zero=least < 0)
        if not least <= share < most:
            limits = f"{what}from {100 * least:g}% to below {100 * most:g}%"
            raise ValueError(f"{text.strip()!r} is not {limits}")
        return share

    return parse


parse_confidence = share_within(0.5, 1.0, "a confidence ")
"""Return the probability that an interval or a claim holds, from 0.5 to below 1: `95%`."""


def parse_statistic(text: str) -> float | None:
    """Return what `mean`, `median`, `p90` or `p99.9` estimates: None for the mean, else
    the share of the quantile in (0, 1)."""
    if text == "mean":
        return None
    if text == "median":
        return 0.5
    match = re.fullmatch(r"p([0-9]{1,2}(?:\.[0-9]{1,6})?)", text, re.ASCII)
    if match is None or not float(match[1]):
        raise ValueError(
            f"{text!r} is not supported: must be one of mean, median, p90, p99.9 and so on"
        )
    return float(Fraction(match[1]) / 100)


_MOST_TRIALS = 10**6
"""Of a test that must not miss slow runs."""


def parse_slow_runs(text: str) -> SlowRuns:
    """Return slow runs such as `1%:2x`: their share, and how many times as long they take; `1%`
    means twice."""
    share, colon, size = text.partition(":")
    runs = SlowRuns(parse_share(share, 0.5))
    if runs.trials > _MOST_TRIALS:
        raise ValueError(f"{share.strip()!r} takes {runs.trials:,} trials: give a larger share")
    if not colon:
        return runs
    number, unit = _split(size, "a size such as 2x")
    if unit != "x" or not 1 < number <= MOST_CHANGE:
        raise ValueError(f"{size.strip()!r} is not a size above 1 such as 2x")
    return SlowRuns(runs.share, float(number))


def parse_duration_ns(text: str) -> int:
    """Return a duration such as `30s`, `1.5ms` or `2h` in whole nanoseconds [ns]."""
    number, unit = _split(text, "a duration such as 30s, 250ms or 2h")
    if unit not in _TIME_NS:
        raise ValueError(f"{text!r} has no unit of time: use ns, us, ms, s, m or h")
    return int(number * _TIME_NS[unit])


def parse_size_bytes(text: str) -> int:
    """Return a size such as `4k`, `4KiB` or `1.5G` in bytes; suffixes are powers of 1024."""
    number, unit = _split(text, "a size such as 4k or 1.5GiB")
    key = unit.lower().removesuffix("b").removesuffix("i") if unit else ""
    if key not in _SIZE:
        raise ValueError(f"{text!r} has no unit of size: use k, M, G or T")
    return int(number * _SIZE[key])


def exponential(value: float) -> float:
    """Return e to this power: a ratio from its logarithm; infinite where it has no number."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def finite(value: float) -> float | None:
    """Return a finite number, or None: what is unknown is absent."""
    return value if math.isfinite(value) else None
