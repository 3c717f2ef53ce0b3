"""What `bw-sampler reduce` computes from a series, for tests."""

from __future__ import annotations

from pathlib import Path

from benchwright.core.resource_use import ResourceUse
from benchwright.trial.programs import find_sampler
from benchwright.watch.observer import Windows
from benchwright.watch.sampler import SeriesReducer


def uses_of(file: Path, path: str, windows: Windows) -> list[ResourceUse | None]:
    """Return the use of each trial; None: included in an earlier one."""
    return SeriesReducer(find_sampler()).uses(file, path, windows)


def uses_of_slices(
    file: Path, path: str, begin_ns: int, end_ns: int, most: int
) -> list[ResourceUse]:
    """Return the use of equal slices of a time."""
    return SeriesReducer(find_sampler()).slices(file, path, begin_ns, end_ns, most)


def use_between(
    file: Path, begin_ns: int, end_ns: int, epochs: tuple[int, int] = (1, 1)
) -> ResourceUse:
    """Return what was used from one moment to another [CLOCK_MONOTONIC ns], as one group of
    trials of which the first and the last have these epochs."""
    windows = [(epoch, begin_ns, end_ns) for epoch in sorted(set(epochs))]
    use = uses_of(file, "", windows)[0]
    assert use is not None
    return use
