"""How often the right thing is doubted of a server, and how often a wrong one: fixed seeds.

Each search is the default policy on a simulated server, as a user runs it, played once for all
tests. BW_CALIBRATION=full plays 100 searches each and prints a row for each server; the small form
a few, with bounds that only a broken test would miss.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache

import msgspec
import pytest

from benchwright.core.results import Severity
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import PeakStatus
from outcomes import in_region
from servers import SERVERS
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 300)
SEARCHES = 100 if FULL else 6
FIRST = 6_000
"""Seed of the first search: the thresholds were chosen on others."""
BY_NAME = {server.name: server for server in SERVERS}
TOLD = {
    "kink": {"throughput-drops-under-overload"},
    "shedding": {"sheds-load"},
    "stalls": {"server-stalls"},
    "thrash": {"throughput-drops-under-overload"},
}
"""By server: what must be told, any of it."""
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
SMALL_TOLD = {"kink": 2, "stalls": 5}
SELDOM_TOLD = {"kink": 0.4}
"""Share of searches that make overloaded trials long enough to show it."""
WANDERS = {"slow-noise": {"drift"}}
"""Its speed wanders by 1 %, which is about the width of a claim of the region."""
SMALL_CLEAN = ("A-mm4", "B-mg1", "mg1-heavy", "per-trial", "slow-noise")
ANSWERED = ("kink", "stalls", "batching")
"""Servers whose answer can be right: those that drift have none."""


class Ended(msgspec.Struct, frozen=True):
    """How one search of a server ended."""

    codes: frozenset[str]
    warnings: int
    """Findings that say something against the server."""
    status: PeakStatus
    in_region: bool
    load_s: float


@lru_cache
def played(name: str) -> tuple[Ended, ...]:
    """Return how the searches of a server ended."""
    return tuple(searched(name, seed) for seed in range(FIRST, FIRST + SEARCHES))


def searched(name: str, seed: int) -> Ended:
    """Return how a search of a server ended."""
    server = BY_NAME[name]
    search = search_of(policy_named("monotone"), server, seed)
    result = search.result
    assert result is not None
    rate = result.peak_rate
    return Ended(
        frozenset(finding.code for finding in result.findings),
        sum(finding.severity is not Severity.NOTE for finding in result.findings),
        result.status,
        rate is not None and in_region(server, rate, search.goal.claim),
        search.load_s,
    )


def row(name: str) -> str:
    """Return how often a server ended with each finding, as a row of a table."""
    ended, wanted = played(name), TOLD.get(name, set())
    n = len(ended)
    wrong = sum(not wanted and bool(one.warnings) for one in ended)
    found = sum(one.status is PeakStatus.FOUND for one in ended)
    right = sum(one.in_region for one in ended)
    seconds = math.fsum(one.load_s for one in ended) / n
    told = sum(bool(one.codes & wanted) for one in ended)
    shares = [f"{100 * share / n:.0f}" for share in (*([told] if wanted else []), found, right)]
    first = "" if wanted else f"| {100 * wrong / n:.0f} "
    return f"| {name} | {n} {first}| {' | '.join(shares)} | {seconds:.0f} |"


@pytest.mark.parametrize("name", TOLD if FULL else SMALL_TOLD)
def test_the_right_thing_is_told(name: str) -> None:
    right = sum(bool(ended.codes & TOLD[name]) for ended in played(name))
    print(row(name))
    least = SELDOM_TOLD.get(name, 0.9) * SEARCHES
    assert right >= (least if FULL else SMALL_TOLD[name])


@pytest.mark.parametrize("name", CLEAN if FULL else SMALL_CLEAN)
def test_nothing_wrong_is_told_of_a_steady_queue(name: str) -> None:
    wrong = [ended.codes - WANDERS.get(name, set()) for ended in played(name) if ended.warnings]
    print(row(name), wrong)
    assert sum(bool(codes) for codes in wrong) <= max(0.02 * SEARCHES, 1)


@pytest.mark.parametrize("name", ANSWERED if FULL else ("kink",))
def test_the_answer_is_right_as_often_as_it_says(name: str) -> None:
    ended = played(name)
    found = [one for one in ended if one.status is PeakStatus.FOUND]
    print(row(name))
    assert len(found) >= 0.8 * len(ended)
    # Three standard errors of a share of 95 %.
    least = 0.95 * len(found) - 3 * math.sqrt(0.95 * 0.05 * len(found))
    assert sum(one.in_region for one in found) >= least


@pytest.mark.skipif(not FULL, reason="only where many searches of it are played")
def test_no_search_of_a_server_that_drifts_ends_as_if_it_did_not() -> None:
    found = [one for one in played("drift") if "drift" in one.codes]
    assert all(one.status is PeakStatus.UNDECIDED for one in found)
