"""How often the default search is right, and what it costs, by simulation.

Small here: coverage is judged over all servers together, since few searches of one tell little.
`BW_CALIBRATION=full` plays a thousand searches a server, as docs/peak-method.md tells. Seconds
are an eighth of what an honest binary search costs on the same server (peak.md of the notes; `per-trial`: 9,576 s
of policy `binsearch-honest`, ten searches).
"""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from benchwright.core.search import Claim, ClaimKind, PeakStatus
from benchwright.decide.peak.policy import policy_named
from held_out import BY_NAME
from servers import NOISES, WALLS, A, B, C, D, SimServer
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 1000 if FULL else 30
WANTED = 0.95 if FULL else 0.91
"""Of 120 searches right in 97 of 100 cases, fewer than 110 are with probability 0.1 %; of a
search that is right in 85 cases, 110 are with 2 %."""
PER_TRIAL = NOISES[-1]
MOST_S = {
    "A-mm4": 707.0,
    "B-mg1": 1070.0,
    "C-mg4-cold-slow": 1250.0,
    "per-trial": 1197.0,
}
REGION = (A, B, C, PER_TRIAL)
HARD = tuple(
    BY_NAME[name]
    for name in (
        *("mg4-heavy", "mh3", "sharing", "mm1-p95", "mm8-cold-per-trial", "flat"),
        *("kink", "stalls", "stalls-rare"),
    )
)
"""On which the claim was kept in 86 to 95 of 100 searches once, or took much load (docs/peak-method.md)."""
RATE = (A, B, D)
FIRST_SEED = 41_000


@lru_cache
def _played(
    server: SimServer, kind: ClaimKind, searches: int = SEARCHES
) -> tuple[int, int, float]:
    """Return how many searches kept their claim, how many ended, and the mean seconds."""
    kept, ended, seconds = 0, 0, 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + searches):
        search = search_of(policy_named("monotone"), server, seed, Claim(kind))
        assert search.result is not None
        rate = search.result.peak_rate
        assert rate is not None
        found = search.result.status is PeakStatus.FOUND
        ended += found
        kept += found and _keeps(server, rate, kind)
        seconds += search.load_s
    return kept, ended, seconds / searches


def _keeps(server: SimServer, rate: float, kind: ClaimKind) -> bool:
    if kind is ClaimKind.RATE:
        return abs(rate / server.peak_rate - 1) <= 0.10
    return abs(server.response(rate) / server.binding.limit - 1) <= 0.10


@pytest.mark.parametrize("server", WALLS, ids=lambda server: server.name)
def test_a_wall_is_found_within_the_usual_budget(server: SimServer) -> None:
    """Of 60 searches each, all ended by their claim and kept it, in 141 and 118 s on average. Before
    walls were recognised 47 and 14 of 60 ended by it, in 423 and 538 s."""
    searches = SEARCHES if FULL else 10
    found, kept, seconds = 0, 0, 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + searches):
        claim = Claim(ClaimKind.RATE, 0.05)
        search = search_of(policy_named("monotone"), server, seed, claim, 600.0)
        assert search.result is not None
        assert search.result.peak_rate is not None
        found += search.result.status is PeakStatus.FOUND
        kept += abs(search.result.peak_rate / server.peak_rate - 1) <= 0.05
        seconds += search.cost_s
    assert found >= 0.9 * searches
    assert kept >= WANTED * searches - 1
    assert seconds <= 250 * searches


def _name(server: SimServer) -> str:
    return server.name


def test_the_region_holds_as_often_as_claimed() -> None:
    kept = {one.name: _played(one, ClaimKind.REGION)[0] for one in REGION}
    if FULL:
        assert min(kept.values()) / SEARCHES >= WANTED, kept
    assert sum(kept.values()) / (SEARCHES * len(REGION)) >= WANTED, kept


def test_the_region_holds_on_hard_servers_too() -> None:
    """180 searches in the small form. Right in 97 of 100 cases, fewer than 164 are with probability 0.004 %; in 87
    cases, 164 or more are with 6 %."""
    searches = SEARCHES if FULL else 20
    played = {one.name: _played(one, ClaimKind.REGION, searches) for one in HARD}
    kept = {name: found[0] for name, found in played.items()}
    assert sum(kept.values()) / (searches * len(HARD)) >= WANTED, kept
    # 1,300 s, and 4,000 s in some searches, before the likeliest curve was a beginning.
    assert played["flat"][2] < 600
    # 838 and 4,084 s before runs were whole periods of the pauses.
    assert played["stalls"][2] < 700
    assert played["stalls-rare"][2] < 2200


@pytest.mark.parametrize("server", REGION, ids=_name)
def test_the_region_costs_at_most_a_seventh_of_an_honest_search(
    server: SimServer,
) -> None:
    _, ended, seconds = _played(server, ClaimKind.REGION)
    assert seconds <= MOST_S[server.name]
    assert ended >= 0.995 * SEARCHES


@pytest.mark.parametrize("server", RATE, ids=_name)
def test_a_claim_of_the_rate_is_cheap_and_kept(server: SimServer) -> None:
    kept, _, seconds = _played(server, ClaimKind.RATE)
    assert kept / SEARCHES >= WANTED
    assert seconds <= 250
