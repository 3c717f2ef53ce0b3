"""CPUs in a window: use by owner, waiting tasks, frequency, temperature, throttling."""

from __future__ import annotations

from collections import deque

from benchwright.core.numeric import np
from benchwright.core.resource_use import ClockUse, CpuUse
from benchwright.watch.use.columns import (
    Columns,
    CounterSums,
    Flags,
    FloatValues,
    Ints,
    SeriesSample,
    fitted,
)
from benchwright.watch.use.series_file import Header
from benchwright.watch.use.window import SeriesWindow, names_of

# -- CPUs in a window: use by owner, and waiting tasks ---------------------------------
#
# Source: docs/watch-format.md for the columns. /proc/stat counts in ticks (usually 10 ms), so
# shares of a window of a few ticks are coarse.

BUSY = ("user", "nice", "system", "irq", "softirq")


def cpu_use(window: SeriesWindow, of_kernel: float | None = None) -> CpuUse | None:
    """Return the use of the CPUs; None if /proc/stat was not reported.

    `of_kernel` is the use by the kernel's own threads [cores].
    """
    numbers = tuple(
        number
        for number in names_of(window, "cpu", "user")
        if window.growth(f"cpu/{number}/user") is not None
    )
    if not numbers:
        return None
    each = tuple(_cores(window, numbers[i : i + 1], BUSY) for i in range(len(numbers)))
    busy = sum(each)
    interrupts = _cores(window, numbers, ("irq", "softirq"))
    own, target, watcher = (_tree(window, of) for of in ("own", "target", "watcher"))
    return CpuUse(
        count=len(numbers),
        busy=busy,
        user=_cores(window, numbers, ("user", "nice")),
        system=_cores(window, numbers, ("system",)),
        interrupts=interrupts,
        iowait=_cores(window, numbers, ("iowait",)),
        steal=_cores(window, numbers, ("steal",)),
        each=tuple(min(one, 1.0) for one in each),
        runnable=_runnable(window),
        pressure=pressure(window, "cpu"),
        own=own,
        target=target,
        watcher=watcher,
        others=_others(busy - interrupts, own, target, watcher),
        own_user=_seconds(window, "own/user_ns"),
        kernel=of_kernel,
    )


def pressure(window: SeriesWindow, resource: str, of: str = "some") -> float | None:
    """Return the share of the window in which `some` task waited, or all did (`full`)."""
    rate = window.rate(f"pressure/{resource}/{of}")
    return None if rate is None else min(rate / 1e6, 1.0)


def _cores(window: SeriesWindow, numbers: tuple[str, ...], kinds: tuple[str, ...]) -> float:
    names = [f"cpu/{number}/{kind}" for number in numbers for kind in kinds]
    return (window.rate(*names) or 0.0) / window.header.ticks_per_s


def _seconds(window: SeriesWindow, *names: str) -> float | None:
    rate = window.rate(*names)
    return None if rate is None else rate / 1e9


def _tree(window: SeriesWindow, of: str) -> float | None:
    return _seconds(window, f"{of}/user_ns", f"{of}/system_ns")


def _others(
    tasks: float, own: float | None, target: float | None, watcher: float | None
) -> float | None:
    if own is None:
        return None
    return max(tasks - own - (target or 0.0) - (watcher or 0.0), 0.0)


def _runnable(window: SeriesWindow) -> float | None:
    # The number includes the sampler, which runs while it reads it.
    mean = window.mean("kernel/running")
    return None if mean is None else max(mean - 1, 0.0)


# --------------------------------------------------------------------------------------
# Frequency, temperature and throttling of CPUs in a window.
#
# Decision: the frequency of an idle CPU is unrelated to the trial, so a sample counts only if
# the CPU was busy for most of the interval before it. Source: docs/watch-format.md for the
# columns. /proc/stat counts in ticks (usually 10 ms), so a share of one interval is coarse.

_BUSY_SHARE = 0.5
"""The least busy share of an interval at which a CPU's frequency counts."""
_HZ = 1000.0
"""Converts the reported kHz to Hz."""


def clock_use(window: SeriesWindow, clocks: WindowClocks) -> ClockUse | None:
    """Return frequencies, temperature and throttling; None if nothing is reported."""
    each = clocks.each()
    changed = min(each, key=lambda one: one[0] / one[1], default=None)
    hottest = [window.most(name) for name in window.names if name.startswith("thermal/")]
    throttles = [name for name in window.names if name.startswith("throttle/")]
    use = ClockUse(
        frequency_min=None if changed is None else changed[0] * _HZ,
        frequency_max=None if changed is None else changed[1] * _HZ,
        frequency_mean=_mean(each),
        temperature_max=max((one / 1000 for one in hottest if one is not None), default=None),
        thermal_throttles=window.count(*throttles) if throttles else None,
    )
    return None if use == ClockUse() else use


def _mean(each: list[tuple[float, float, float, int]]) -> float | None:
    samples = sum(count for *_, count in each)
    return sum(whole for _, _, whole, _ in each) * _HZ / samples if samples else None


class BusyClocks:
    """How busy each CPU with a reported frequency was in the interval before a sample.

    Arrays are of shape `(n_processors,)`.
    """

    def __init__(self, header: Header, columns: Columns) -> None:
        self._interval_ns = header.interval_ns
        self._ticks = header.ticks_per_s * header.interval_ns / 1e9
        """Ticks of one CPU in one interval."""
        self.gauges: Ints = np.zeros(0, np.int64)
        """Indices of the frequency gauges."""
        self._columns = columns
        self._sums = CounterSums((), {})
        self._known = (0, 0)
        self._past: deque[tuple[int, FloatValues]] = deque()
        """(time, ticks) of the samples needed to interpolate one interval before the last."""

    def take(self, sample: SeriesSample) -> None:
        """Add a sample."""
        self._fit()
        if not len(self.gauges):
            return
        self._past.append((sample.when_ns, self._sums.of(sample.totals)))
        oldest_ns = sample.when_ns - self._interval_ns
        while len(self._past) > 1 and self._past[1][0] <= oldest_ns:
            self._past.popleft()

    def share(self) -> FloatValues:
        """Return the busy share of each CPU in the interval before the last sample."""
        after_ns, now = self._past[-1]
        when_ns = after_ns - self._interval_ns
        after = now
        for before_ns, before in reversed(self._past):
            if before_ns <= when_ns:
                slopes = (after - before) / max(after_ns - before_ns, 1)
                return (now - (slopes * (when_ns - before_ns) + before)) / self._ticks
            after_ns, after = before_ns, before
        return (now - after) / self._ticks

    def _fit(self) -> None:
        """Add new CPUs."""
        counters, gauges = self._columns.counters.names, self._columns.gauges.names
        if self._known == (len(counters), len(gauges)):
            return
        self._known = (len(counters), len(gauges))
        names = [name for name in gauges if name.startswith("frequency/")]
        self.gauges = np.array([gauges[name] for name in names], dtype=np.int64)
        numbers = [name.removeprefix("frequency/") for name in names]
        self._sums = CounterSums(
            [[f"cpu/{number}/{kind}" for kind in BUSY] for number in numbers], counters
        )
        past = [(when, _longer(ticks, len(names))) for when, ticks in self._past]
        self._past = deque(past)


class WindowClocks:
    """The frequencies of busy CPUs from one moment to another [kHz]."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._least: FloatValues = np.zeros(0)
        self._most: FloatValues = np.zeros(0)
        self._sum: FloatValues = np.zeros(0)
        self._count: FloatValues = np.zeros(0)

    def take(self, sample: SeriesSample, busy: BusyClocks) -> None:
        """Add a sample, after `busy` has it; samples of idle CPUs are ignored."""
        if not len(busy.gauges):
            return
        if not self._begin_ns <= sample.when_ns <= self._end_ns:
            return
        share = busy.share()
        reported = sample.gauges[busy.gauges]
        # 0 means no frequency; comparisons with nan are false.
        counts = (reported > 0) & (share >= _BUSY_SHARE)
        self._add(np.where(counts, reported, np.nan), counts)

    def each(self) -> list[tuple[float, float, float, int]]:
        """Return each CPU's lowest, highest and summed frequency [kHz], and the number of
        samples; CPUs that were never busy are omitted."""
        found = zip(self._least, self._most, self._sum, self._count, strict=True)
        return [
            (float(least), float(most), float(whole), int(count))
            for least, most, whole, count in found
            if count
        ]

    def _add(self, reported: FloatValues, counts: Flags) -> None:
        size = len(reported)
        self._least = np.fmin(fitted(self._least, size), reported)
        self._most = np.fmax(fitted(self._most, size), reported)
        self._sum = _longer(self._sum, size) + np.where(counts, reported, 0.0)
        self._count = _longer(self._count, size) + counts


def _longer(values: FloatValues, size: int) -> FloatValues:
    return np.append(values, np.zeros(size - len(values)))
