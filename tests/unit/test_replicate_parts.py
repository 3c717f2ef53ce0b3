"""A design whose outermost replicates run in sessions of their own is the design that runs in one."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from benchwright.core.plan import LevelKind, ReplicateLevel, ReplicatePath, Replication
from benchwright.core.replication import cold_part, trials_before
from benchwright.decide.history import ReplicateOutcome
from benchwright.decide.replicated import next_in_order

HOST, ENV, BUILD = (
    ReplicateLevel(LevelKind.HOST, 3),
    ReplicateLevel(LevelKind.ENV, 2),
    ReplicateLevel(LevelKind.BUILD, 2, "make"),
)


def paths_of(replication: Replication, warmups: int) -> list[ReplicatePath]:
    """Return the path of each trial, those of warm-up trials included, as a session runs them."""
    outcomes: list[ReplicateOutcome] = []
    while (path := next_in_order(replication, outcomes)) is not None:
        cold = cold_part(replication, path)
        own = sum(cold_part(replication, one.path) == cold for one in outcomes)
        outcomes.append(ReplicateOutcome(path, {}, 0, (), counts=own >= warmups))
    return [one.path for one in outcomes]


@pytest.mark.parametrize("inner", [(), (ENV,), (ENV, BUILD), (BUILD, ENV)])
@pytest.mark.parametrize(("trials", "warmups"), [*itertools.product((1, 3), (0, 2))])
def test_the_parts_follow_each_other(
    inner: tuple[ReplicateLevel, ...], trials: int, warmups: int
) -> None:
    whole = Replication((HOST, *inner), 1, trials)
    assert trials_before(whole, warmups) == 0
    expected = paths_of(whole, warmups)
    found: list[ReplicatePath] = []
    for host in (1, 2, 3):
        part = msgspec.structs.replace(whole, only=host)
        assert trials_before(part, warmups) == len(found)
        found += paths_of(part, warmups)
    assert found == expected
    assert len(found) > 0
