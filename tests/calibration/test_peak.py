"""How often the default search is right, and what it costs, by simulation.

Small here: coverage is judged over all servers together, since few searches of one tell little.
`BW_CALIBRATION=full` plays a thousand searches a server. Seconds are at most a fifth of what an
honest binary search costs on the same server (5,656 s on A, 8,560 on B, 10,000 on C, 9,576 on
`per-trial`).
"""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, ClaimKind, PeakStatus
from held_out import BY_NAME
from servers import NOISES, WALLS, A, B, C, D, SimServer
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 1000 if FULL else 30
WANTED = 0.95 if FULL else 0.91
"""Of 120 searches right in 97 of 100 cases, fewer than 110 are with probability 0.1 %; of a
search that is right in 85 cases, 110 are with 2 %."""
PER_TRIAL = NOISES[-1]
MOST_S = {"A-mm4": 1130.0, "B-mg1": 1710.0, "C-mg4-cold-slow": 2000.0, "per-trial": 1500.0}
REGION = (A, B, C, PER_TRIAL)
HARD = tuple(
    BY_NAME[name]
    for name in (
        *("mg4-heavy", "mh3", "sharing", "mm1-p95", "mm8-cold-per-trial", "flat"),
        *("kink", "stalls", "stalls-rare"),
    )
)
"""On which the claim was kept in 86 to 95 of 100 searches once, or took much load
(docs/peak-method.md)."""
RATE = (A, B, D)
FIRST_SEED = 41_000


@lru_cache
def _played(server: SimServer, kind: ClaimKind, searches: int = SEARCHES) -> tuple[int, int, float]:
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
    assert seconds <= 400 * searches


def _name(server: SimServer) -> str:
    return server.name


def test_the_region_holds_as_often_as_claimed() -> None:
    played = {one.name: _played(one, ClaimKind.REGION) for one in REGION}
    if FULL:
        assert min(kept / ended for kept, ended, _ in played.values()) >= WANTED, played
    _holds_among_those_that_ended(played)


def test_the_region_holds_on_hard_servers_too() -> None:
    """180 searches in the small form, of which heavy tails hold least (docs/peak-method.md)."""
    searches = SEARCHES if FULL else 20
    played = {one.name: _played(one, ClaimKind.REGION, searches) for one in HARD}
    _holds_among_those_that_ended(played)
    assert sum(ended for _, ended, _ in played.values()) >= 0.7 * searches * len(HARD)
    assert played["flat"][2] < 1300
    # Without whole periods of the pauses 800 and 4,100 s.
    assert played["stalls"][2] < 1200
    assert played["stalls-rare"][2] < 4000


def _holds_among_those_that_ended(played: dict[str, tuple[int, int, float]]) -> None:
    kept, ended = (sum(one[i] for one in played.values()) for i in (0, 1))
    assert kept / ended >= WANTED, played


@pytest.mark.parametrize("server", REGION, ids=_name)
def test_the_region_costs_at_most_a_fifth_of_an_honest_search(server: SimServer) -> None:
    _, ended, seconds = _played(server, ClaimKind.REGION)
    assert seconds <= MOST_S[server.name]
    # One that starts cold may be undecided.
    assert ended >= (0.6 if server is C else 0.95) * SEARCHES


@pytest.mark.parametrize("server", RATE, ids=_name)
def test_a_claim_of_the_rate_is_cheap_and_kept(server: SimServer) -> None:
    kept, ended, seconds = _played(server, ClaimKind.RATE)
    assert ended >= 0.95 * SEARCHES
    assert kept / ended >= WANTED
    assert seconds <= 700
