"""Findings about a server, on histories written by hand: one reason each, and none."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.core.results import Finding
from benchwright.features.load.plan import LoadSeries, LoadTrial
from benchwright.features.search.peak.policies.diagnostics import server_findings
from benchwright.features.search.peak.policies.reading import LongRuns
from benchwright.features.search.types import PeakGoal
from hand_written import MEAN_RESPONSE, overloaded_run, run_of

R_SAT = Criterion(key=MEAN_RESPONSE, limit=40.0)
ERRORS = Criterion(key="error_ratio", limit=0.001, unit="", statistic="ratio")
GOAL = PeakGoal(criteria=(R_SAT,))


def trial(rate: float, values: list[float], seed: int = 1) -> LoadTrial:
    """Return a run with these bins [ms], each a little off."""
    random = np.random.default_rng(seed)
    return run_of(rate, [value * (1 + 0.03 * random.standard_normal()) for value in values])


def found_in(history: list[LoadTrial], goal: PeakGoal = GOAL) -> tuple[Finding, ...]:
    """Return the findings of a history."""
    return server_findings(goal, history, LongRuns(tuple(history)))


def codes(history: list[LoadTrial], goal: PeakGoal = GOAL) -> set[str]:
    """Return the codes of the findings."""
    return {finding.code for finding in found_in(history, goal)}


QUEUE = [
    trial(50, [15.0] * 20),
    trial(100, [16.0] * 20),
    trial(200, [22.0] * 60),
    trial(230, [36.0] * 90),
    overloaded_run(320, 267),
]


def test_nothing_is_said_of_a_queue() -> None:
    assert codes(QUEUE) == set()


def test_runs_that_were_left_out_are_reported() -> None:
    seen = LongRuns(tuple(QUEUE), too_short_s=20.0, evidence="they contradict")
    (found,) = server_findings(GOAL, QUEUE, seen)
    assert found.code == "short-runs-contradict"
    assert "they contradict: trials of up to 20 s were left out" in found.evidence
    assert "at least 60 s" in found.evidence


def test_nothing_is_said_of_nothing() -> None:
    assert codes([]) == set()
    assert codes([msgspec.structs.replace(QUEUE[0], series=LoadSeries())]) == set()


def test_less_under_overload_than_was_served_is_a_drop() -> None:
    low = [overloaded_run(320, 180), overloaded_run(300, 185)]
    found = found_in([*QUEUE[:4], *low])
    assert [f.code for f in found] == ["throughput-drops-under-overload"]
    assert "320/s" in found[0].evidence
    assert "180/s" in found[0].evidence
    assert codes([*QUEUE[:4], low[0]]) == set(), "a single pair of trials may be chance"
    little = [overloaded_run(320, 215), overloaded_run(300, 215)]
    assert codes([*QUEUE[:4], *little]) == set(), "7 % less"


SLOW, QUICK = [60.0] * 20, [20.0] * 20


def test_a_rate_that_fails_below_one_that_holds_is_not_monotonic() -> None:
    """As a server that works in batches: a wait for the batch at low rates, and none at high ones."""
    history = [trial(100, SLOW, 1), trial(200, QUICK, 2)] * 2
    found = found_in(history)
    assert [f.code for f in found] == ["response-not-monotonic"]
    assert "in 2 of 2 trials at 100/s, and held in 2 of 2 at 200/s" in found[0].evidence
    assert codes(list(reversed(history))) == {"response-not-monotonic"}


@pytest.mark.parametrize(
    "history",
    [
        # Each only once: one of both was an accident.
        [trial(100, SLOW), trial(200, QUICK), trial(200, QUICK, 2)],
        [trial(100, SLOW), trial(100, SLOW, 2), trial(200, QUICK)],
        # The failures are one more than what held.
        [trial(100, SLOW), trial(100, SLOW, 2), trial(100, QUICK), *QUEUE[2:4] * 2],
        # As close as runs near a peak are.
        [trial(230, SLOW), trial(230, SLOW, 2), trial(240, QUICK), trial(240, QUICK, 2)],
        # In the usual order.
        [trial(100, QUICK), trial(100, QUICK, 2), trial(200, SLOW), trial(200, SLOW, 2)],
    ],
)
def test_runs_that_are_few_or_close_are_in_no_wrong_order(history: list[LoadTrial]) -> None:
    assert codes(history) == set()


@pytest.mark.parametrize(("period", "told"), [(10, True), (17, True), (3, False)])
def test_pauses_at_even_distances_are_stalls(period: int, told: bool) -> None:
    bins = [90.0 if i % period == 2 else 16.0 for i in range(150)]
    found = found_in([trial(100, bins), *QUEUE])
    assert ("server-stalls" in {f.code for f in found}) == told
    if told:
        stalls = next(f for f in found if f.code == "server-stalls")
        assert f"every {period} s" in stalls.evidence


def test_pauses_at_any_distance_are_a_heavy_tail() -> None:
    random = np.random.default_rng(5)
    bins = [90.0 if random.random() < 0.1 else 16.0 for _ in range(150)]
    assert codes([trial(100, bins)]) == set()
    many = [
        trial(100, [90.0 if random.random() < 0.2 else 16.0 for _ in range(90)], seed)
        for seed in range(6)
    ]
    assert codes(many) == set()


def test_errors_with_a_quick_response_are_shedding() -> None:
    goal = PeakGoal(criteria=(R_SAT, ERRORS))
    refusing = msgspec.structs.replace(trial(8000, [7.7] * 6), completed=24_000, errors=24_000)
    assert "sheds-load" in codes([*QUEUE[:2], refusing], goal)
    slow = msgspec.structs.replace(trial(8000, [77.0] * 6), completed=24_000, errors=24_000)
    assert "sheds-load" not in codes([*QUEUE[:2], slow], goal)
