"""Whether claims hold on the simulated servers on which they are hardest to keep: a small form.

`make peak-table` plays 1,000 searches a server; here few are judged together.
"""

from __future__ import annotations

import pytest

from benchwright.features.search.types import Claim, ClaimKind, PeakStatus
from outcomes import Outcome, Task, play_task

HARD = ("mh3", "mg4-heavy", "sharing", "mg1-heavy", "flat", "per-trial")
SEARCHES = 8
FIRST_SEED = 45_000
FEWEST = 41
"""Of 48 searches. Of searches that are right in 95 of 100 cases, fewer are with probability 0.2 %;
of searches that are right in 80 cases (several of these servers once), as many with 23 %, in 75
cases with 6 %."""


def played(server: str, claim: Claim, searches: int) -> list[Outcome]:
    """Return the outcomes of searches of a server."""
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + searches))
    return play_task(Task(server, "monotone", claim, seeds))


@pytest.mark.timeout(600)
def test_the_region_holds_where_it_is_hardest() -> None:
    held = {name: sum(one.claim_held for one in played(name, Claim(), SEARCHES)) for name in HARD}
    assert sum(held.values()) >= FEWEST, held


@pytest.mark.timeout(600)
def test_streams_are_held_within_two_limits_at_once() -> None:
    """Of 200 such searches 195 were found, and all of their claims held; of six, fewer than five
    are with probability 1 %."""
    outcomes = played("held-out-streaming", Claim(), 6)
    assert sum(one.claim_held for one in outcomes) >= 5, outcomes


@pytest.mark.timeout(600)
def test_a_server_that_stalls_twice_a_minute_is_not_judged_by_short_runs() -> None:
    """A run that was left after 5 s saw no stall, and one of 20 s one or none: one search made 99
    runs at a rate 30 % too high. Of four searches that are right in 95 of 100 cases, fewer than
    three are with probability 1.4 %."""
    outcomes = played("stalls-rare", Claim(ClaimKind.RATE, 0.05), 4)
    right = [o.claim_held or o.status != PeakStatus.FOUND for o in outcomes]
    assert sum(right) >= 3, outcomes
