"""Searches of real servers that were wrong on a busy machine, as simulations.

Rates, limits and budgets are those of the real searches; machines are as late as the real ones
were. A search may be undecided if it says so with a serious finding, and it may give a lower bound;
it must not give a wrong rate or an interval without the true peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchwright.core.results import Severity
from benchwright.features.search.peak.policies.registry import DEFAULT_POLICY, policy_named
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus
from held_out import BY_NAME
from machine import BY_MACHINE, CALM, Machine, Preemption
from machine_peaks import PeakRange, peak_range
from world import search_of

SEEDS = range(61_000, 61_008)
MOST_OFF = 1.25
"""By which factor an answer may be off."""
NEARLY = 1.05
"""An interval of 95 % misses the truth now and then, but by little."""
CLAIM = Claim(ClaimKind.RATE, tolerance=0.05)


@dataclass(frozen=True)
class Situation:
    """One search on one machine."""

    server: str
    machine: Machine
    budget_s: float


SITUATIONS = {
    "PostgreSQL, generator preempted": Situation(
        "like-postgres", Machine("late by 20 ms", generator=Preemption(0.04, (0.001, 0.06))), 40.0
    ),
    "nginx beside a neighbour": Situation("like-nginx", BY_MACHINE["neighbour-late"], 60.0),
    "nginx that compresses, generator very late": Situation(
        "like-nginx-gzip", Machine("late by 258 ms", generator=Preemption(0.10, (0.05, 0.3))), 20.0
    ),
    "PostgreSQL on a calm machine": Situation("like-postgres", CALM, 40.0),
}


def wrongs(result: ClaimResult, peaks: PeakRange) -> Iterator[str]:
    """Yield what is wrong with a result."""
    if any(finding.severity is Severity.SERIOUS for finding in result.findings):
        if result.status is not PeakStatus.FOUND:
            return
    elif result.interval is not None and not (
        result.interval.low <= NEARLY * peaks.high and peaks.low <= NEARLY * result.interval.high
    ):
        yield f"excluded by {result.interval.low:.5g} to {result.interval.high:.5g}"
    rate = result.peak_rate
    if rate is None:
        yield "neither a rate nor a serious finding"
    elif result.bound_kind == "lower":
        if rate > peaks.high:
            yield f"{rate:.5g} or more"
    elif result.bound_kind == "upper":
        if rate < peaks.low:
            yield f"below {rate:.5g}"
    elif peaks.factor(rate) > MOST_OFF:
        yield f"{rate:.5g}, off by {peaks.factor(rate):.3g}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_search_on_a_busy_machine_is_not_wrong(name: str) -> None:
    situation = SITUATIONS[name]
    server, policy = BY_NAME[situation.server], policy_named(DEFAULT_POLICY)
    found = {}
    for seed in SEEDS:
        search = search_of(policy, server, seed, CLAIM, situation.budget_s, situation.machine)
        assert search.result is not None
        peaks = peak_range(server, situation.machine, seed, search.cost_s)
        found[seed] = "; ".join(wrongs(search.result, peaks))
    wrong = {seed: text for seed, text in found.items() if text}
    assert not wrong, f"{len(wrong)} of {len(SEEDS)}, {server.peak_rate:.5g}/s: {wrong}"
