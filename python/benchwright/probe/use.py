"""From a series to what a trial used: `ResourceUse`, one window after the other.

Purpose: the evidence of findings, distilled once, right after a batch. Pure: a function of
the series and the windows. Decision: trials of less than three sampling intervals are seen
together, since most of such a window lies between two samples, and shares of a single one
would be shares of its neighbours. What lies between trials (SETUP, CLEANUP, rest) would be
told as theirs, so trials with much between them are not seen together. Source: docs/watch-format.md, model/watched.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from benchwright.model.watched import KernelMessage, ResourceUse, TreeIo
from benchwright.probe.series import Series
from benchwright.probe.use_cgroup import cgroups_use
from benchwright.probe.use_cpu import clock_use, cpu_use, pressure
from benchwright.probe.use_disk import disks_use, networks_use, sockets_use
from benchwright.probe.use_memory import files_of_machine, files_open, memory_use
from benchwright.probe.use_tasks import others_use, tasks_use
from benchwright.probe.use_window import Window

MOST_MESSAGES = 20
_WARNING = 4
"""The kernel's level of a warning; lower is worse."""
_FEWEST_INTERVALS = 3
"""Shorter trials are seen together."""
_MOST_BETWEEN = 0.1
"""Of their EXEC time: what may lie between trials that are seen together."""
_LATE_SHARE = 0.1
"""From here on samples that came late are told: shares of single samples are coarse."""

Trial = tuple[int, int, int]
"""Its epoch, and when its EXEC began and ended [CLOCK_MONOTONIC ns]."""


def uses_of(
    series: Series, path: str, windows: Sequence[Trial]
) -> list[ResourceUse | None]:
    """Return what each trial of a batch used, in order; None: it is in one before it.

    `path` is the file's, relative to the study. Trials shorter than three sampling
    intervals that follow each other closely are seen together, by the first of them.
    """
    uses: list[ResourceUse | None] = []
    for group in _groups(windows, _FEWEST_INTERVALS * series.header.interval_ns):
        epochs = (group[0][0], group[-1][0])
        use = resource_use(series, group[0][1], group[-1][2], epochs)
        uses.append(msgspec.structs.replace(use, series=path))
        uses += [None] * (len(group) - 1)
    return uses


def resource_use(
    series: Series, begin_ns: int, end_ns: int, epochs: tuple[int, int]
) -> ResourceUse:
    """Return what was used from one moment to another [CLOCK_MONOTONIC ns].

    Where the series covers a part of it only, figures are of that part, and `absent` says
    how much; where it covers nothing, there are none.
    """
    assert begin_ns <= end_ns, "a window ends after it begins"
    whole = Window(series, begin_ns, end_ns)
    bare = ResourceUse(
        seconds=whole.seconds,
        samples=_samples(whole),
        epochs=epochs,
        begin_ns=begin_ns,
        end_ns=end_ns,
        absent=series.absent + _unseen(whole),
        sampler_cost=_cost(series),
    )
    seen = _seen(whole)
    return bare if seen is None else _filled(bare, seen)


def _filled(bare: ResourceUse, window: Window) -> ResourceUse:
    others, of_kernel = others_use(window)
    return msgspec.structs.replace(
        bare,
        cpu=cpu_use(window, of_kernel),
        tasks=tasks_use(window),
        others=others,
        memory=memory_use(window),
        disks=disks_use(window),
        io_pressure=pressure(window, "io"),
        io_pressure_full=pressure(window, "io", "full"),
        networks=networks_use(window),
        sockets=sockets_use(window),
        cgroups=cgroups_use(window),
        own_io=_tree_io(window, "own"),
        target_io=_tree_io(window, "target"),
        files=files_open(window),
        files_of_machine=files_of_machine(window),
        kernel=_kernel(window),
        clock=clock_use(window),
    )


def _groups(windows: Sequence[Trial], shortest_ns: int) -> Iterator[list[Trial]]:
    """Yield the trials that are seen together, in order."""
    group: list[Trial] = []
    for window in windows:
        if group and not _belongs(group, window, shortest_ns):
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def _belongs(group: list[Trial], window: Trial, shortest_ns: int) -> bool:
    """Return whether a trial is seen with those before it: all short, little between."""
    if any(end - begin >= shortest_ns for _, begin, end in (group[-1], window)):
        return False
    exec_ns = sum(end - begin for _, begin, end in (*group, window))
    between_ns = window[2] - group[0][1] - exec_ns
    return between_ns <= _MOST_BETWEEN * exec_ns


def _seen(window: Window) -> Window | None:
    """Return the part of a window that the series covers."""
    times = window.series.times
    if len(times) < 2:
        return None
    begin_ns = max(window.begin_ns, int(times[0]))
    end_ns = min(window.end_ns, int(times[-1]))
    return Window(window.series, begin_ns, end_ns) if begin_ns < end_ns else None


def _samples(window: Window) -> int:
    times = window.series.times
    return int(((times >= window.begin_ns) & (times <= window.end_ns)).sum())


def _cost(series: Series) -> float | None:
    end = series.end
    if end is None or end.end_ns <= end.begin_ns:
        return None
    return end.cost_ns / (end.end_ns - end.begin_ns)


def _unseen(window: Window) -> tuple[tuple[str, str], ...]:
    """Return what of a window the samples do not tell, and why."""
    seen = _seen(window)
    if seen is None:
        return (("samples", "no two samples lie around the trial"),)
    interval_s = window.series.header.interval_ns / 1e9
    if window.seconds - seen.seconds > interval_s:
        return (
            (
                "samples",
                f"the sampler saw {seen.seconds:.1f} s of {window.seconds:.1f} s",
            ),
        )
    times = window.series.times[seen.around(window.series.times)]
    late_s = float((np.diff(times) / 1e9 - 2 * interval_s).clip(0).sum())
    if late_s > _LATE_SHARE * window.seconds:
        return (("samples", f"they came {late_s:.1f} s late in all"),)
    return ()


def _tree_io(window: Window, of: str) -> TreeIo | None:
    if window.growth(f"{of}/read_chars") is None:
        return None
    return TreeIo(
        read_chars=window.whole(f"{of}/read_chars"),
        written_chars=window.whole(f"{of}/written_chars"),
        read_bytes=window.whole(f"{of}/read_bytes"),
        write_bytes=window.whole(f"{of}/write_bytes"),
        read_calls=window.whole(f"{of}/read_calls"),
        write_calls=window.whole(f"{of}/write_calls"),
    )


def _kernel(window: Window) -> tuple[KernelMessage, ...]:
    """Return the kernel's messages in the window: warnings and worse, then the others."""
    inside = [
        line
        for line in window.series.kernel
        if window.begin_ns <= line.t <= window.end_ns
    ]
    inside.sort(key=lambda line: (line.level > _WARNING, line.t))
    return tuple(
        KernelMessage((line.t - window.begin_ns) / 1e9, line.level, line.text)
        for line in inside[:MOST_MESSAGES]
    )
