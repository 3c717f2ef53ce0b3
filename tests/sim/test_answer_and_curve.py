"""The answer of a search and the curve that is printed below it agree, whenever the search ends.

Each simulated search is cut after each of its trials, as a budget cuts it. Of 1,731 such reports on
all servers none contradicts itself; while the search printed the means of its loads, each by its
worst criterion, 213 did.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import pytest

from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal
from held_out import BY_NAME
from world import search_of, unit_of

SEEDS = range(95_000, 95_010 if os.environ.get("BW_CALIBRATION") == "full" else 95_001)
CLAIMS = (Claim(), Claim(ClaimKind.RATE, 0.05), Claim(ClaimKind.SLO, 0.1, 0.95))
SERVERS = ("A-mm4", "cold", "mg4-heavy", "thrash", "kink", "shedding", "mm8-cold-per-trial")
AGAINST = "answer-against-curve"


def results_of(server: str, claim: Claim, seed: int) -> Iterator[tuple[int, PeakGoal, ClaimResult]]:
    """Yield what a search reports at its end, and had it been cut after each trial."""
    goal = BY_NAME[server].goal(claim, unit_of(seed))
    search = search_of(Monotone(), BY_NAME[server], seed, claim)
    assert search.result is not None
    yield len(search.history), goal, search.result
    for trials in range(1, len(search.history)):
        cut = msgspec.structs.replace(goal, max_trials=trials)
        found = next_peak_step(Monotone(), cut, search.history[:trials])
        if isinstance(found, ClaimResult):
            yield trials, goal, found


def contradiction(goal: PeakGoal, found: ClaimResult) -> tuple[float, float] | None:
    """Return a rate of the curve, and its response as a share of the limit, that the answer
    excludes: beyond the limit below the interval, or below the answer beyond what the claim
    allows."""
    limits = {one.key: one.limit for one in goal.criteria if one.better == "lower"}
    if found.peak_rate is None or found.binding not in limits:
        return None
    low = found.peak_rate if found.interval is None else found.interval.low
    for point in found.curve:
        share = point.middle / limits[found.binding]
        most = 1.02 if point.rate < low else 1 + found.claim.tolerance
        if point.rate < found.peak_rate and share > most:
            return point.rate, share
    return None


@pytest.mark.parametrize("server", SERVERS)
def test_no_point_below_the_answer_is_beyond_the_limit(server: str) -> None:
    curves = 0
    for seed in SEEDS:
        for claim in CLAIMS:
            for trials, goal, found in results_of(server, claim, seed):
                curves += bool(found.curve)
                assert contradiction(goal, found) is None, (seed, claim.text, trials)
                assert AGAINST not in {one.code for one in found.findings}
    assert curves > 10, "a search without curves shows nothing"
