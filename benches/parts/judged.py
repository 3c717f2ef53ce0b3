"""A replay judged by an observer outside of it: the block layer's stamps of the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchwright.features.load.samples import read_samples
from parts import engine
from parts.agreement import Agreement, agreement
from parts.device import depth_of
from parts.traces import Rows, Stretch


class Judgement(NamedTuple):
    """One replay as it arrived at the device."""

    agreement: Agreement
    compared: engine.Document
    """The trace (`a`) and what arrived (`b`), by `trace-compare`: responses, queue, dispersion."""
    bytes: int
    """Of all operations that arrived."""
    observer: engine.Document
    """What the observer says of itself: events that it lost."""

    @property
    def in_their_ms(self) -> float:
        """Share of all operations that arrive in their millisecond."""
        return float(self.compared["counts"]["overlap_share"])


def judged(replay: Callable[[], object], stretch: Stretch, trace: Path, device: str) -> Judgement:
    """Replay once under observation; `trace` is the file of the stretch."""
    seen = trace.with_suffix(".seen")
    seen.unlink(missing_ok=True)
    with engine.capturing(device, seen) as account:
        replay()
    rows = read_samples(seen)
    found = agreement(stretch.rows, rows, depth_of(device))
    compared = engine.compared(trace, seen, found.shift_ns)
    seen.unlink()
    return Judgement(found, compared, bytes_of(rows), account)


def bytes_of(rows: Rows) -> int:
    """Return the bytes of all operations."""
    return int(rows["size"].sum(dtype=np.uint64))
