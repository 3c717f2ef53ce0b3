"""What a trial used, from a whole series and by plain loops: the oracle of the reading in passing.

Every sample is there, every counter is mended over its whole length, and every figure is looked up
where docs/watch-format.md and core/resource_use.py say. Slow, and in memory that grows with time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from benchwright.core.resource_use import KernelMessage
from whole_series import Column, Series

Samples = list[tuple[int, float]]
LOG_AHEAD_NS = 5_000_000
"""How far the clock of the kernel's log may run ahead."""
_BUSY = ("user", "nice", "system", "irq", "softirq")


def mended(samples: Samples, *, restarts: bool, wraps: bool = False) -> Samples:
    """Return a counter's totals over time."""
    values = [value for _, value in samples]
    for i in range(1, len(values) - 1):
        before, after = samples[i - 1][1], samples[i + 1][1]
        if samples[i][1] < before <= after:
            values[i] = before
    total, totals = 0.0, [0.0]
    for last, value in pairwise(values):
        step = value - last
        if wraps and last < 2**32 and step < -(2**31):
            step += 2**32
        if step < 0:
            step = value if restarts else 0.0
        total += step
        totals.append(total)
    return [(when, one) for (when, _), one in zip(samples, totals, strict=True)]


def at(totals: Samples, when_ns: int) -> float:
    """Return a total at a moment; before the first and after the last it stands."""
    if when_ns <= totals[0][0]:
        return totals[0][1]
    for (begin, low), (end, high) in pairwise(totals):
        if begin < when_ns <= end:
            return low + (high - low) * (when_ns - begin) / (end - begin)
    return totals[-1][1]


def around(tables: list[Any], begin_ns: int, end_ns: int) -> list[Any]:
    """Return the tables in a window, and one more on each side."""
    first = max([i for i, one in enumerate(tables) if one.t <= begin_ns], default=0)
    after = [i for i, one in enumerate(tables) if one.t >= end_ns]
    return tables[first : min(after, default=len(tables)) + 1]


class Plain:
    """A series from one moment to another, both between its samples."""

    def __init__(self, series: Series, begin_ns: int, end_ns: int) -> None:
        self.series, self.columns = series, series.columns
        self.begin_ns = max(begin_ns, series.times[0])
        self.end_ns = min(end_ns, series.times[-1])
        self.seconds = (self.end_ns - self.begin_ns) / 1e9

    def totals(self, name: str) -> Samples:
        """Return a counter's totals; empty where it is not reported."""
        samples = self.columns[name].told if name in self.columns else []
        is_device = name.startswith(("disk/", "net/"))
        if is_device and samples and samples[0][0] > self.series.times[0]:
            row = self.series.times.index(samples[0][0])
            samples = [(self.series.times[row - 1], 0.0), *samples]
        wraps = name.endswith("_ms")
        return mended(samples, restarts=is_device, wraps=wraps) if samples else []

    def growth(self, *names: str) -> float | None:
        """Return how far counters grew, added up."""
        totals = [found for name in names if (found := self.totals(name))]
        grown = [at(one, self.end_ns) - at(one, self.begin_ns) for one in totals]
        return sum(grown) if grown else None

    def rate(self, *names: str) -> float:
        """Return the growth for each second; 0 where there is none."""
        return (self.growth(*names) or 0.0) / self.seconds

    def gauge(self, name: str) -> list[float]:
        """Return a gauge's samples in the window, else those beside it."""
        told = self.columns[name].told if name in self.columns else []
        inside = [v for when, v in told if self.begin_ns <= when <= self.end_ns]
        before = [v for when, v in told if when < self.begin_ns]
        after = [v for when, v in told if when > self.end_ns]
        return inside or before[-1:] + after[:1]

    def named(self, begin: str, end: str) -> list[str]:
        """Return what stands between in the names of columns."""
        return [
            name.removeprefix(begin).removesuffix(end)
            for name in self.columns
            if name.startswith(begin) and name.endswith(end)
        ]


def disk(plain: Plain, name: str) -> dict[str, Any] | None:
    """Return what a disk did, step by step; None where it had no request."""
    completions = [f"disk/{name}/{k}" for k in ("reads", "writes", "discards", "flushes")]
    in_flight = plain.gauge(f"disk/{name}/in_flight")
    if not plain.rate(*completions) and not any(in_flight):
        return None
    column = plain.columns.get(f"disk/{name}/in_flight", Column("gauge"))
    done = [found for one in completions if (found := plain.totals(one))]
    samples = list(zip(column.times, column.values, strict=True))
    longest = stalled = used = lengths = 0.0
    for (begin, before), (end, after) in pairwise(samples):
        length = (min(end, plain.end_ns) - max(begin, plain.begin_ns)) / 1e9
        if end <= plain.begin_ns or begin >= plain.end_ns:
            continue
        completed = sum(at(one, end) - at(one, begin) for one in done)
        stalled = stalled + length if before and after and not completed else 0.0
        longest = max(longest, stalled)
        lengths += length
        used += length if before or after or completed else 0.0
    return {
        "name": name,
        "busy": min(plain.rate(f"disk/{name}/busy_ms") / 1e3, 1.0),
        "reads_per_s": plain.rate(f"disk/{name}/reads"),
        "writes_per_s": plain.rate(f"disk/{name}/writes"),
        "in_flight_min": min(in_flight, default=0),
        "longest_stall_s": longest,
        "active": used / plain.seconds if lengths else None,
    }


def frequencies(plain: Plain) -> dict[str, list[float]]:
    """Return the frequencies [kHz] of each processor where it was busy."""
    header, found = plain.series.header, {}
    for number in plain.named("frequency/", ""):
        totals = [t for k in _BUSY if (t := plain.totals(f"cpu/{number}/{k}"))]
        busy = []
        for when, value in plain.columns[f"frequency/{number}"].told:
            since = when - header.interval_ns
            ticks = sum(at(one, when) - at(one, since) for one in totals)
            whole = header.ticks_per_s * header.interval_ns / 1e9
            if plain.begin_ns <= when <= plain.end_ns and ticks >= whole / 2:
                busy.append(value)
        if busy:
            found[number] = busy
    return found


def threads(plain: Plain, of: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the share and the waiting of each thread of a tree."""
    times = plain.series.times
    tables = around(getattr(plain.series, of), plain.begin_ns, plain.end_ns)
    samples: dict[tuple[int, int], tuple[Samples, Samples]] = {}
    last, complete = -1, True
    for table in tables:
        row = times.index(table.t)
        for one in table.rows:
            key = one.pid, one.tid
            if key not in samples:
                knows = row > 0 and (complete or last < row - 1)
                begun = [(times[row - 1], 0.0)] if knows else []
                samples[key] = (begun, list(begun))
            samples[key][0].append((table.t, one.run_ns))
            samples[key][1].append((table.t, one.wait_ns))
        last, complete = row, table.more == 0
    return {
        key: {"share": _grown(plain, run), "waiting": _grown(plain, wait)}
        for key, (run, wait) in samples.items()
    }


def others(plain: Plain) -> dict[tuple[int, int], float]:
    """Return the share of each process that is nobody's, by number and start."""
    series = plain.series
    roots = {row.pid for table in series.target for row in table.rows}
    roots |= {series.header.root_pid}
    ours = roots | {row.pid for table in series.own + series.watcher for row in table.rows}
    samples: dict[tuple[int, int], Samples] = {}
    before: Samples = []
    for table in around(series.processes, plain.begin_ns, plain.end_ns):
        parents = {row.pid: row.ppid for row in table.rows}
        ours |= {pid for pid in parents if _descends(pid, parents, roots)}
        for row in table.rows:
            key = row.pid, row.start_ticks
            samples.setdefault(key, list(before)).append((table.t, row.run_ticks))
        before = [(table.t, 0.0)]
    second = series.header.ticks_per_s / 1e9
    return {key: _grown(plain, run) / second for key, run in samples.items() if key[0] not in ours}


def _descends(pid: int, parents: dict[int, int], roots: set[int]) -> bool:
    seen: set[int] = set()
    while (pid := parents.get(pid, 0)) and pid not in seen:
        if pid in roots:
            return True
        seen.add(pid)
    return False


def _grown(plain: Plain, samples: Samples) -> float:
    totals = mended(samples, restarts=True)
    return (at(totals, plain.end_ns) - at(totals, plain.begin_ns)) / 1e9 / plain.seconds


def nearest_files(plain: Plain) -> tuple[int, int] | None:
    """Return the process nearest to its limit of open files, and how many it has."""
    tables = around(plain.series.files_open, plain.begin_ns, plain.end_ns)
    inside = [one for one in tables if plain.begin_ns <= one.t <= plain.end_ns]
    rows = [row for table in inside or tables for row in table.rows]
    most = max(rows, key=lambda row: (row.open / row.limit, row.open), default=None)
    return most and (most.pid, most.open)


def messages(plain: Plain) -> list[KernelMessage]:
    """Return the kernel's messages, worst first."""
    end_ns = plain.end_ns + LOG_AHEAD_NS
    inside = [m for m in plain.series.kernel if plain.begin_ns <= m.t <= end_ns]
    inside.sort(key=lambda line: (line.level > 4, line.t))
    return [
        KernelMessage((line.t - plain.begin_ns) / 1e9, line.level, line.text)
        for line in inside[:20]
    ]


def extreme(pick: Callable[[Iterable[float]], float], values: list[float]) -> float | None:
    """Return the lowest or highest value; None of none."""
    return pick(values) if values and not any(map(math.isnan, values)) else None
