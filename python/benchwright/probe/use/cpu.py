"""Processors in a window: who used them, and who waited.

Source: docs/watch-format.md for the columns; /proc/stat counts in ticks (10 ms mostly),
so shares of a window of a few ticks are coarse.
"""

from __future__ import annotations

from benchwright.model.watched import CpuUse
from benchwright.probe.use.window import Window, names_of

BUSY = ("user", "nice", "system", "irq", "softirq")


def cpu_use(window: Window, of_kernel: float | None = None) -> CpuUse | None:
    """Return the use of the processors; None where /proc/stat was not told.

    `of_kernel` is what the kernel's own threads used [cores].
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


def pressure(window: Window, resource: str, of: str = "some") -> float | None:
    """Return the share of the window in which `some` task waited, or all (`full`)."""
    rate = window.rate(f"pressure/{resource}/{of}")
    return None if rate is None else min(rate / 1e6, 1.0)


def _cores(window: Window, numbers: tuple[str, ...], kinds: tuple[str, ...]) -> float:
    names = [f"cpu/{number}/{kind}" for number in numbers for kind in kinds]
    return (window.rate(*names) or 0.0) / window.header.ticks_per_s


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
    found = window.mean("kernel/running")
    return None if found is None else max(found - 1, 0.0)
