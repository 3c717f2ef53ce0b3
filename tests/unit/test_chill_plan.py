"""How much memory chill takes next, and when it stops, from made-up readings."""

from __future__ import annotations

import pytest

from benchwright.features.quiet.chill_squeeze import LARGEST_STEP, PATIENCE, Memory, next_step
from benchwright.features.quiet.chill_types import ChillStop

MIB = 1 << 20
MOST = 1 << 40
RESERVE = 256 * MIB


def reading(available: int, cached: int, swapped: int = 0) -> Memory:
    return Memory(4096 * MIB, available * MIB, cached * MIB, swapped)


def test_far_from_the_reserve_a_step_is_large() -> None:
    assert next_step([reading(3000, 900)], [], RESERVE, MOST) == LARGEST_STEP


def test_the_reserve_is_approached_and_never_overrun() -> None:
    """A machine that loses exactly what is taken, and caches more than the reserve."""
    available, readings, taken = 3000 * MIB, [], []
    while True:
        readings.append(Memory(4096 * MIB, available, available, 0))
        step = next_step(readings, taken, RESERVE, MOST)
        if isinstance(step, ChillStop):
            break
        taken.append(step)
        available -= step
        assert available >= RESERVE
    assert step is ChillStop.RESERVE
    assert available - RESERVE < 8 * MIB


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (reading(3000, 900, swapped=1), ChillStop.SWAP),
        (reading(3000, 2), ChillStop.EMPTY),
        (reading(257, 900), ChillStop.RESERVE),
    ],
)
def test_it_stops_for_a_reason(now: Memory, reason: ChillStop) -> None:
    assert next_step([reading(3000, 900), now], [LARGEST_STEP], RESERVE, MOST) is reason


def test_a_cache_that_shrank_and_no_longer_does_is_steady() -> None:
    falling = [reading(3000 - 64 * n, 900 - 64 * n) for n in range(10)]
    assert next_step(falling, [LARGEST_STEP] * 9, RESERVE, MOST) == LARGEST_STEP
    level = falling + [reading(2400 - 64 * n, 324) for n in range(PATIENCE + 1)]
    taken = [LARGEST_STEP] * (len(level) - 1)
    assert next_step(level, taken, RESERVE, MOST) is ChillStop.STEADY


def test_while_free_memory_is_taken_a_level_cache_is_no_reason() -> None:
    level = [reading(3000 - 64 * n, 900) for n in range(20)]
    assert next_step(level, [LARGEST_STEP] * 19, RESERVE, MOST) == LARGEST_STEP


def test_no_more_than_the_user_allows_is_taken() -> None:
    readings, taken, most = [reading(30000, 9000)], [], 100 * 2**20
    while isinstance(step := next_step(readings, taken, RESERVE, most), int):
        taken.append(step)
        readings.append(reading(30000 - sum(taken) // 2**20, 9000))
    assert step is ChillStop.MOST
    assert most - 2**20 < sum(taken) <= most
