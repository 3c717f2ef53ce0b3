"""How much memory chill takes next, or why it stops: a pure function of its readings.

Decision: steps shrink towards the reserve, so it is approached and never overrun; the
paper's program took what it could get, and left it to luck what was killed. Non-goal:
taking the memory (chill_squeeze.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.machine.chill_memory import Memory
from benchwright.model.chill import Stopped

_MIB = 1 << 20
LARGEST_STEP = 64 * _MIB
SMALLEST_STEP = _MIB
EMPTY = 4 * _MIB
"""A cache of this size is as good as none [bytes]: what runs is always cached."""
PATIENCE = 8
"""Steps without a smaller cache, after it had begun to shrink, before it is called steady."""
_NOTICEABLE = 8
"""A cache is smaller when it lost one part in so many of what was taken."""


def next_step(
    readings: Sequence[Memory], taken: Sequence[int], reserve_bytes: int
) -> int | Stopped:
    """Return the bytes to take next, or the reason to stop.

    `readings` has one more entry than `taken`: the one before the first step.
    """
    now, start = readings[-1], readings[0]
    room = now.available_bytes - reserve_bytes
    if now.swapped_out > start.swapped_out:
        return Stopped.SWAP
    if now.cached_bytes <= EMPTY:
        return Stopped.EMPTY
    if room < 4 * SMALLEST_STEP:
        return Stopped.RESERVE
    if _steady(readings, taken):
        return Stopped.STEADY
    return max(SMALLEST_STEP, min(LARGEST_STEP, room // 4))


def _steady(readings: Sequence[Memory], taken: Sequence[int]) -> bool:
    """Tell whether the cache shrank before, and no longer does."""
    if len(taken) < PATIENCE:
        return False
    lost = readings[-PATIENCE - 1].cached_bytes - readings[-1].cached_bytes
    lost_ever = readings[0].cached_bytes - readings[-1].cached_bytes
    recent = sum(taken[-PATIENCE:])
    return lost_ever > LARGEST_STEP and lost * _NOTICEABLE < recent
