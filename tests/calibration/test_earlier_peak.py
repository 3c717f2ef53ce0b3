"""What `bw peak --from` saves, and that its claims hold where the server has changed.

Each search begins at the answer of an earlier one, which was made on the same server, or on one whose
peak was another one. `BW_CALIBRATION=full` plays 40 pairs of each and prints the table of
docs/peak-method.md.
"""

from __future__ import annotations

import os
import statistics

import msgspec
import pytest

from benchwright.features.search.peak.earlier import earlier_of
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.types import Claim, ClaimKind, PeakStatus
from servers import A, B, D, SimServer
from world import Search, play, search_of, unit_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 40 if FULL else 4
FIRST_SEED = 71_000
BUDGET_S = 600.0
RATE = Claim(ClaimKind.RATE, 0.05)
POLICY = policy_named("monotone")
DIFFERS = "earlier-peak-differs"


def pair(server: SimServer, seed: int, change: float) -> tuple[Search, Search]:
    """Return an earlier search of a server, and one that begins at its answer times `change`."""
    before = search_of(POLICY, server, seed, RATE, BUDGET_S)
    found = before.result
    assert found is not None
    assert found.peak_rate is not None
    assert found.interval is not None
    moved = msgspec.structs.replace(
        found,
        peak_rate=found.peak_rate * change,
        interval=msgspec.structs.replace(
            found.interval, low=found.interval.low * change, high=found.interval.high * change
        ),
    )
    earlier = earlier_of(moved, "old", ())
    goal = server.goal(RATE, unit_of(seed))
    goal = msgspec.structs.replace(
        goal, budget_s=BUDGET_S, start_rate=float(f"{earlier.low:.5g}"), earlier=earlier
    )
    return before, play(POLICY, goal, server, seed + 500_000)


CASES = [*((A, change) for change in (1.0, 1.05, 1.2, 1.5, 0.8, 0.5)), (B, 1.0), (D, 1.0), (D, 1.5)]


@pytest.mark.parametrize(("server", "change"), CASES if FULL else [CASES[0], CASES[3]])
def test_an_earlier_peak_saves_time_and_no_claim(server: SimServer, change: float) -> None:
    pairs = [pair(server, seed, change) for seed in range(FIRST_SEED, FIRST_SEED + SEARCHES)]
    found, right, said = [], [], []
    for which in (0, 1):
        results = [both[which].result for both in pairs]
        found.append(sum(one is not None and one.status is PeakStatus.FOUND for one in results))
        right.append(
            sum(
                one is not None
                and one.peak_rate is not None
                and abs(one.peak_rate / server.peak_rate - 1) <= RATE.tolerance
                for one in results
                if one is not None and one.status is PeakStatus.FOUND
            )
        )
        said.append(
            sum(
                DIFFERS in {finding.code for finding in one.findings}
                for one in results
                if one is not None
            )
        )
    seconds = [statistics.median(both[which].cost_s for both in pairs) for which in (0, 1)]
    trials = [statistics.median(len(both[which].history) for both in pairs) for which in (0, 1)]
    print(
        f"| {server.name} | {change:g} | {seconds[0]:.0f} | {seconds[1]:.0f} | {trials[0]:g} | "
        f"{trials[1]:g} | {right[0]} of {found[0]} | {right[1]} of {found[1]} | {said[1]} |"
    )
    assert right[1] >= 0.93 * found[1]
    assert found[1] >= 0.8 * found[0]
    if change == 1:
        assert said[1] <= 0.05 * SEARCHES
    if change in (1.5, 0.5):
        assert said[1] >= 0.8 * SEARCHES
