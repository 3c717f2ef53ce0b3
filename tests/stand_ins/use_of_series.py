"""What was used over one stretch of a series, for tests that want a single figure."""

from __future__ import annotations

from pathlib import Path

from benchwright.core.resource_use import ResourceUse
from benchwright.watch.use.resource_use import uses_of


def use_between(
    file: Path, begin_ns: int, end_ns: int, epochs: tuple[int, int] = (1, 1)
) -> ResourceUse:
    """Return what was used from one moment to another [CLOCK_MONOTONIC ns], as one group of
    trials of which the first and the last have these epochs."""
    windows = [(epoch, begin_ns, end_ns) for epoch in sorted(set(epochs))]
    use = uses_of(file, "", windows)[0]
    assert use is not None
    return use
