"""Processors in a window: who used them, who waited, how fast they ran, how hot.

Source: docs/watch-format.md for the columns; /proc/stat counts in ticks (10 ms mostly),
so shares of a window of a few ticks are coarse.
"""

from __future__ import annotations

import numpy as np

from benchwright.model.watched import ClockUse, CpuUse
from benchwright.probe.series import Column, Values
from benchwright.probe.use_window import Window, mean, names_of

_BUSY = ("user", "nice", "system", "irq", "softirq")
_BUSY_SHARE = 0.5
"""From here on a processor's frequency counts: an idle one's says nothing of the trial."""


def cpu_use(window: Window, of_kernel: float | None = None) -> CpuUse | None:
    """Return the use of the processors; None where /proc/stat was not told.

    `of_kernel` is what the kernel's own threads used [cores].
    """
    numbers = tuple(
        number
        for number in names_of(window.series, "cpu", "user")
        if window.growth(f"cpu/{number}/user") is not None
    )
    if not numbers:
        return None
    each = tuple(_cores(window, numbers[i : i + 1], _BUSY) for i in range(len(numbers)))
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


def pressure(window: Window, resource: str, of: str = "some") -> float | None:
    """Return the share of the window in which `some` task waited, or all (`full`)."""
    rate = window.rate(f"pressure/{resource}/{of}")
    return None if rate is None else min(rate / 1e6, 1.0)


def clock_use(window: Window) -> ClockUse | None:
    """Return frequencies, temperature and throttling; None where nothing is told."""
    series = window.series
    each = _frequencies(window)
    changed = min(each, key=lambda one: float(one.min()) / one.max(), default=None)
    hottest = [
        window.most(name) for name in series.columns if name.startswith("thermal/")
    ]
    throttles = [name for name in series.columns if name.startswith("throttle/")]
    use = ClockUse(
        frequency_min=None if changed is None else float(changed.min()),
        frequency_max=None if changed is None else float(changed.max()),
        frequency_mean=float(np.concatenate(each).mean()) if each else None,
        temperature_max=max(
            (one / 1000 for one in hottest if one is not None), default=None
        ),
        thermal_throttles=window.count(*throttles) if throttles else None,
    )
    return None if use == ClockUse() else use


def _cores(window: Window, numbers: tuple[str, ...], kinds: tuple[str, ...]) -> float:
    names = [f"cpu/{number}/{kind}" for number in numbers for kind in kinds]
    return (window.rate(*names) or 0.0) / window.series.header.ticks_per_s


def _seconds(window: Window, *names: str) -> float | None:
    rate = window.rate(*names)
    return None if rate is None else rate / 1e9


def _tree(window: Window, of: str) -> float | None:
    return _seconds(window, f"{of}/user_ns", f"{of}/system_ns")


def _others(
    tasks: float, own: float | None, target: float | None, watcher: float | None
) -> float | None:
    if own is None:
        return None
    return max(tasks - own - (target or 0.0) - (watcher or 0.0), 0.0)


def _runnable(window: Window) -> float | None:
    # The sampler runs while it reads the number.
    found = mean(window.gauge("kernel/running"))
    return None if found is None else max(found - 1, 0.0)


def _frequencies(window: Window) -> list[Values]:
    """Return each processor's frequencies [Hz] at samples before which it was busy.

    One that never was busy is not among them.
    """
    found = [
        _while_busy(window, name.removeprefix("frequency/"), column) * 1000.0
        for name, column in window.series.columns.items()
        if name.startswith("frequency/")
    ]
    return [values for values in found if len(values)]


def _while_busy(window: Window, number: str, column: Column) -> Values:
    inside = (
        (column.times >= window.begin_ns)
        & (column.times <= window.end_ns)
        & (column.values > 0)  # 0 is no frequency, and NaN is not above it.
    )
    times = column.times[inside]
    interval_ns = window.series.header.interval_ns
    ticks = np.zeros(len(times))
    for kind in _BUSY:
        total = window.total(f"cpu/{number}/{kind}")
        if total is not None:
            ticks += total.at(times) - total.at(times - interval_ns)
    share = ticks / window.series.header.ticks_per_s / (interval_ns / 1e9)
    values: Values = column.values[inside][share >= _BUSY_SHARE]
    return values
