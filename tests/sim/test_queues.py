"""The compiled loops against plain Python and against each other."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queues
from queues import Times

gaps = st.lists(st.floats(0, 3), min_size=1, max_size=40)
works = st.lists(st.floats(0.001, 5), min_size=40, max_size=40)


def arrived(between: list[float], needed: list[float]) -> tuple[Times, Times]:
    """Return arrivals and works of equal length."""
    return np.cumsum(between), np.array(needed[: len(between)])


def plain_fcfs(arrivals: Times, work: Times, servers: int) -> list[float]:
    """First come, first served, as one would write it by hand."""
    free = [0.0] * servers
    ends = []
    for at, needs in zip(arrivals.tolist(), work.tolist(), strict=True):
        ends.append(max(heapq.heappop(free), at) + needs)
        heapq.heappush(free, ends[-1])
    return ends


def plain_sharing(arrivals: Times, work: Times, servers: int) -> list[float]:
    """Processor sharing by small steps from event to event, without a heap."""
    left: dict[int, float] = {}
    ends = [0.0] * arrivals.size
    now, i = 0.0, 0
    while i < arrivals.size or left:
        speed = min(1.0, servers / max(1, len(left)))
        done = min(left, key=lambda k: left[k]) if left else -1
        end = now + left[done] / speed if left else float("inf")
        arrives = i < arrivals.size and arrivals[i] <= end
        until = float(arrivals[i]) if arrives else end
        left = {k: v - (until - now) * speed for k, v in left.items()}
        now = until
        if arrives:
            left[i] = float(work[i])
            i += 1
        else:
            del left[done]
            ends[done] = now
    return ends


@given(gaps, works, st.integers(1, 4))
@settings(max_examples=60)
def test_first_come_first_served_as_by_hand(
    between: list[float], needed: list[float], servers: int
) -> None:
    at, work = arrived(between, needed)
    assert queues.fcfs(at, work, servers) == pytest.approx(plain_fcfs(at, work, servers))


@given(gaps, works, st.integers(1, 3))
@settings(max_examples=60)
def test_sharing_as_by_hand(between: list[float], needed: list[float], servers: int) -> None:
    at, work = arrived(between, needed)
    ends = queues.sharing(at, work, servers)
    assert ends == pytest.approx(plain_sharing(at, work, servers), abs=1e-6)


@given(gaps, works)
@settings(max_examples=40)
def test_one_server_is_done_at_the_same_moment_in_any_order(
    between: list[float], needed: list[float]
) -> None:
    at, work = arrived(between, needed)
    shared, queued = queues.sharing(at, work, 1), queues.fcfs(at, work, 1)
    assert shared.max() == pytest.approx(queued.max())


@given(gaps, works, st.integers(1, 3))
@settings(max_examples=40)
def test_special_cases_are_the_plain_queue(
    between: list[float], needed: list[float], servers: int
) -> None:
    at, work = arrived(between, needed)
    plain = queues.fcfs(at, work, servers)
    roomy = queues.fcfs_refusing(at, work, servers, 1000)
    calm = queues.fcfs_thrashing(at, work, servers, (1, 1.0))
    single = queues.batching(at, work, (1, 0.0, 0.0))
    assert roomy == pytest.approx(plain)
    assert calm == pytest.approx(plain)
    assert single == pytest.approx(queues.fcfs(at, work, 1))


@given(gaps, works, st.integers(1, 3), st.integers(0, 3))
@settings(max_examples=60)
def test_never_more_wait_than_there_is_room_for(
    between: list[float], needed: list[float], servers: int, longest: int
) -> None:
    at, work = arrived(between, needed)
    ends = queues.fcfs_refusing(at, work, servers, longest)
    for i in range(at.size):
        inside = np.nansum((at[: i + 1] <= at[i]) & (ends[: i + 1] > at[i]))
        assert inside <= servers + longest
        if np.isnan(ends[i]):
            assert inside == servers + longest


def test_a_batch_waits_for_others_but_not_for_ever() -> None:
    at = np.array([0.0, 1.0, 10.0])
    ends = queues.batching(at, np.full(3, 0.5), (2, 3.0, 0.25))
    # The first two fill a batch at 1.0; the third waits 3.0 for nobody.
    assert ends.tolist() == [2.25, 2.25, 13.75]


def test_steps_of_streams_grow_with_the_batch_and_those_beyond_it_wait() -> None:
    at = np.array([0.0, 0.1, 0.2, 9.0])
    first, ends = queues.streaming(at, np.array([2.0, 2.0, 2.0, 1.0]), (1.0, 0.1, 0.5, 2))
    # Alone: 1 + 0.1 + 0.5. With the second, which joins: 1 + 0.2 + 0.5. The third for the first.
    assert first == pytest.approx([1.6, 3.3, 5.0, 10.6])
    assert ends == pytest.approx([3.3, 5.0, 6.1, 10.6])


def test_thrash_begins_where_many_wait() -> None:
    at = np.zeros(6)
    ends = queues.fcfs_thrashing(at, np.ones(6), 1, (2, 3.0))
    # Waiting, with the one that begins: 6, 5, 4 -> thrice the work; 3 -> twice; 2, 1.
    assert ends.tolist() == [3.0, 6.0, 9.0, 11.0, 12.0, 13.0]
