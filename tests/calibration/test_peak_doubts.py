"""How often the right thing is doubted of a server, and how often a wrong one: fixed seeds.

Each search is `qgs` on a simulated server, as a user runs it. BW_CALIBRATION=full plays 200
searches each; the small form a few, with bounds that only a broken test would miss.
"""

from __future__ import annotations

import math
import os

import pytest

from benchwright.control.peak.registry import policy_named
from benchwright.model.peak import PeakStatus
from outcomes import in_region
from servers import SERVERS
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 200 if FULL else 6
FIRST = 5_000
"""Seed of the first search: the thresholds were chosen on others."""
BY_NAME = {server.name: server for server in SERVERS}
TOLD = ("kink", "stalls", "batching", "drift", "thrash")
CLEAN = (
    "A-mm4",
    "B-mg1",
    "C-mg4-cold-slow",
    "D-mm2-elastic",
    "mg1-heavy",
    "mg4-heavy",
    "mg1-light",
    "sharing",
    "mm1-p95",
    "cold",
    "slow-noise",
    "per-trial",
    "flat",
    "fast",
)
SMALL_TOLD = {"kink": 5, "stalls": 5, "batching": 4}
SMALL_CLEAN = ("A-mm4", "B-mg1", "per-trial", "slow-noise")
EXPECTED = {"thrash": {"retrograde-under-overload"}}


def codes_of(name: str) -> list[set[str]]:
    """Return the codes that each search of a server told."""
    server = BY_NAME[name]
    told = []
    for seed in range(FIRST, FIRST + SEARCHES):
        result = search_of(policy_named("qgs"), server, seed).result
        assert result is not None
        told.append({found.code for found in result.findings})
    return told


@pytest.mark.parametrize("name", TOLD if FULL else SMALL_TOLD)
def test_the_right_thing_is_told(name: str) -> None:
    finding = BY_NAME[name].finding
    wanted = EXPECTED.get(name) or set((finding or "").split("|"))
    right = sum(bool(codes & wanted) for codes in codes_of(name))
    print(f"{name}: {right} of {SEARCHES} searches told {' or '.join(sorted(wanted))}")
    assert right >= (0.95 * SEARCHES if FULL else SMALL_TOLD[name])


@pytest.mark.parametrize("name", CLEAN if FULL else SMALL_CLEAN)
def test_nothing_wrong_is_told_of_a_steady_queue(name: str) -> None:
    told = codes_of(name)
    wrong = sum(bool(codes) for codes in told)
    print(f"{name}: {wrong} of {SEARCHES} searches told {set().union(*told)}")
    assert wrong <= max(0.02 * SEARCHES, 1)


@pytest.mark.parametrize("name", ("kink", "stalls") if FULL else ("kink",))
def test_the_fallback_is_right_as_often_as_it_says(name: str) -> None:
    server, right = BY_NAME[name], 0
    for seed in range(FIRST, FIRST + SEARCHES):
        search = search_of(policy_named("qgs"), server, seed)
        assert search.result is not None
        assert search.result.status is PeakStatus.FOUND
        answer = search.result.peak_rate
        assert answer is not None
        right += in_region(server, answer, search.goal.claim)
    print(f"{name}: {right} of {SEARCHES} answers in the region")
    # Three standard errors of a share of 95 %.
    least = 0.95 * SEARCHES - 3 * math.sqrt(0.95 * 0.05 * SEARCHES)
    assert right >= least
