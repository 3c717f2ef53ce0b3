"""Findings about a server, on histories written by hand: one reason each, and none."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchwright.core.results import Estimate, Severity
from benchwright.core.search import (
    Claim,
    ClaimKind,
    ClaimResult,
    Criterion,
    CurvePoint,
    LoadSeries,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    VarianceComponents,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.default import DefaultPeakPolicy
from benchwright.decide.peak.diagnostics import (
    contradiction,
    misfit,
    region_at_wall,
    server_findings,
    shape_findings,
    wall,
)
from benchwright.decide.peak.final_checks import check_for_drift, check_for_order
from hand_written import MEAN_RESPONSE, overloaded_run, run_of

R_SAT = Criterion(key=MEAN_RESPONSE, limit=40.0)
ERRORS = Criterion(key="error_ratio", limit=0.001, unit="", statistic="ratio")
GOAL = PeakGoal(criteria=(R_SAT,))


def trial(rate: float, values: list[float], seed: int = 1) -> LoadTrial:
    """Return a run with these bins [ms], each a little off."""
    random = np.random.default_rng(seed)
    return run_of(
        rate, [value * (1 + 0.03 * random.standard_normal()) for value in values]
    )


def codes(history: list[LoadTrial], goal: PeakGoal = GOAL) -> set[str]:
    """Return the codes of the findings."""
    return {finding.code for finding in server_findings(goal, history)}


QUEUE = [
    trial(50, [15.0] * 20),
    trial(100, [16.0] * 20),
    trial(200, [22.0] * 60),
    trial(230, [36.0] * 90),
    overloaded_run(320, 267),
]


RATE_GOAL = PeakGoal(criteria=(R_SAT,), claim=Claim(ClaimKind.RATE, 0.05))
WALL = [
    trial(800, [2.4] * 5),
    overloaded_run(1800, 1500, lasts=12),
    trial(1300, [4.0] * 5),
]
"""A limit of 1,500 operations per second."""


def test_no_waiting_just_below_a_capacity_is_a_wall() -> None:
    assert wall(RATE_GOAL, WALL[:2]) == ""
    evidence = wall(RATE_GOAL, WALL)
    assert "1300/s" in evidence
    assert "1500/s is too much" in evidence
    found = shape_findings(RATE_GOAL, WALL)
    assert [(f.code, f.severity) for f in found] == [
        ("curve-fits-no-queue", Severity.NOTE)
    ]


def test_a_run_far_beyond_the_limit_is_the_end_of_a_wall() -> None:
    """Without an overload long enough for a capacity."""
    history = [WALL[0], trial(1590, [210.0] * 20), trial(1340, [3.0] * 5)]
    assert "1590/s is too much" in wall(RATE_GOAL, history)
    assert wall(RATE_GOAL, [WALL[0], trial(1590, [50.0] * 20), history[2]]) == ""


def test_errors_that_begin_at_a_rate_are_no_wall() -> None:
    few = [msgspec.structs.replace(run, values={"error_ratio": 0.0}) for run in WALL]
    most = msgspec.structs.replace(few[1], values={"error_ratio": 0.2})
    goal = msgspec.structs.replace(RATE_GOAL, criteria=(ERRORS, R_SAT))
    assert wall(goal, [few[0], most, few[2]]) == ""


def test_a_wall_is_nothing_to_a_claim_of_the_region() -> None:
    assert wall(GOAL, WALL) == ""
    assert shape_findings(GOAL, WALL) == ()


def test_a_claim_of_the_region_that_meets_a_wall_says_so_unless_it_holds() -> None:
    result = DefaultPeakPolicy().best(GOAL, WALL)
    assert result.status is not PeakStatus.FOUND
    told = {f.code: f for f in result.findings}["region-at-wall"]
    assert told.severity is Severity.NOTE
    assert "1300/s, and 1500/s is too much" in told.evidence
    assert "rate:5%" in told.remedy
    found = msgspec.structs.replace(result, status=PeakStatus.FOUND)
    assert region_at_wall(GOAL, WALL, found) == ()
    by_rate = DefaultPeakPolicy().best(RATE_GOAL, WALL)
    assert "region-at-wall" not in {f.code for f in by_rate.findings}
    queue = DefaultPeakPolicy().best(GOAL, QUEUE)
    assert "region-at-wall" not in {f.code for f in queue.findings}


def test_a_steep_queue_is_no_wall() -> None:
    """Two servers of 3 ms: 16 ms at 0.9 of the capacity, 9 ms at 0.8."""
    queue = [trial(530, [8.7] * 20), trial(600, [16.0] * 20), overloaded_run(900, 667)]
    assert wall(RATE_GOAL, queue) == ""


def test_nothing_is_said_of_a_queue() -> None:
    assert codes(QUEUE) == set()
    assert codes(QUEUE, RATE_GOAL) == set()
    assert shape_findings(GOAL, QUEUE) == ()


def test_nothing_is_said_of_nothing() -> None:
    assert codes([]) == set()
    assert codes([msgspec.structs.replace(QUEUE[0], series=LoadSeries())]) == set()


def test_less_under_overload_than_was_served_is_no_queue() -> None:
    found = server_findings(GOAL, [*QUEUE[:4], overloaded_run(320, 180)])
    assert {f.code for f in found} == {
        "throughput-drops-under-overload",
    }
    assert "320/s" in found[0].evidence
    assert "180" in found[0].evidence


def test_a_quicker_response_at_a_higher_load_is_not_monotonic() -> None:
    history = [trial(50, [27.0] * 6), trial(100, [22.0] * 6), trial(200, [18.0] * 6)]
    found = server_findings(GOAL, history)
    assert [f.code for f in found] == ["response-not-monotonic"]
    assert "50/s" in found[0].evidence
    assert codes(list(reversed(history))) == {"response-not-monotonic"}


def test_what_is_far_below_the_limit_may_fall() -> None:
    idle = [trial(50, [5.5] * 6), trial(100, [4.5] * 6), trial(200, [3.7] * 6)]
    assert codes(idle) == set()


def test_a_perhaps_quicker_load_is_compared_once_more() -> None:
    """Four bins each that are far apart themselves; then longer runs, which tell."""
    slow, quick = [27.0, 21.0, 29.0, 22.0, 28.0], [18.0, 21.0, 16.0, 22.0, 15.0]
    history = [trial(50, slow), trial(100, quick)]
    assert codes(history) == set()
    check = check_for_order(GOAL, history)
    assert check is not None
    assert (check.rate, check.duration_s) == (50, tuning.ORDER_CHECK_S)
    history.append(trial(50, 4 * slow))
    check = check_for_order(GOAL, history)
    assert check is not None
    assert check.rate == 100
    alike = [*history, trial(100, 4 * slow)]
    assert codes(alike) == set()
    assert codes([*history, trial(100, 4 * quick)]) == {"response-not-monotonic"}
    assert check_for_order(GOAL, [*history, trial(100, 4 * quick)]) is None
    budget = msgspec.structs.replace(GOAL, budget_s=600.0)
    assert check_for_order(budget, history) is None
    assert check_for_order(GOAL, QUEUE) is None


def test_a_cold_start_is_no_disorder() -> None:
    cold = [15 * (1 + 0.5 * np.exp(-i / 5)) for i in range(90)]
    assert codes([trial(50, cold[:6]), trial(100, cold)]) == set()


@pytest.mark.parametrize(("period", "told"), [(10, True), (17, True), (3, False)])
def test_pauses_at_even_distances_are_stalls(period: int, told: bool) -> None:
    bins = [90.0 if i % period == 2 else 16.0 for i in range(150)]
    found = server_findings(GOAL, [trial(100, bins), *QUEUE])
    assert ("server-stalls" in {f.code for f in found}) == told
    if told:
        stalls = next(f for f in found if f.code == "server-stalls")
        assert f"every {period} s" in stalls.evidence


def test_pauses_between_high_moments_of_a_queue_are_stalls() -> None:
    """High bins of its own break many gaps in two; the comb still meets them all."""
    random = np.random.default_rng(7)

    def near_the_peak(first: int) -> LoadTrial:
        bins = [
            90.0 if i % 10 == first or random.random() < 0.06 else 25.0
            for i in range(90)
        ]
        return trial(200, bins, first)

    found = server_findings(GOAL, [near_the_peak(first) for first in (2, 5, 9, 4)])
    stalls = [f for f in found if f.code == "server-stalls"]
    assert len(stalls) == 1
    period_s = float(stalls[0].evidence.split()[1])
    assert period_s == pytest.approx(10, abs=0.3)


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
    refusing = msgspec.structs.replace(
        trial(8000, [7.7] * 6), completed=24_000, errors=24_000
    )
    assert "sheds-load" in codes([*QUEUE[:2], refusing], goal)
    slow = msgspec.structs.replace(
        trial(8000, [77.0] * 6), completed=24_000, errors=24_000
    )
    assert "sheds-load" not in codes([*QUEUE[:2], slow], goal)


def test_a_capacity_that_falls_with_time_is_drift() -> None:
    between = trial(230, [36.0] * 300)
    found = server_findings(
        GOAL, [overloaded_run(320, 267), between, between, overloaded_run(320, 250)]
    )
    assert [f.code for f in found] == ["drift"]
    assert "a minute" in found[0].evidence
    same = [overloaded_run(320, 267), between, between, overloaded_run(320, 266)]
    assert codes(same) == set()


RATES = np.linspace(50, 250, 40)


def curve_of_a_queue(rate: float) -> float:
    """Return the response of one server with a pole at 260/s [ms]."""
    return 10 + 1.2 * rate / (260 - rate) * 30 / (1.2 * 230 / 30)


def answered() -> ClaimResult:
    """Return a result whose curve is that of a queue, with its peak at 230/s."""
    points = tuple(
        CurvePoint(float(rate), 0.97 * level, level, 1.03 * level)
        for rate, level in ((rate, curve_of_a_queue(float(rate))) for rate in RATES)
    )
    return ClaimResult(
        status=PeakStatus.FOUND,
        detail="",
        claim=GOAL.claim,
        policy="qgs",
        peak_rate=230.0,
        components=VarianceComponents(2.0, 0.05),
        curve=points,
    )


def on_the_curve(rate: float, times: float = 1.0) -> LoadTrial:
    """Return a run whose response is so many times that of the curve."""
    return trial(rate, [times * curve_of_a_queue(rate)] * 90)


def test_runs_on_the_curve_contradict_nothing() -> None:
    runs = [on_the_curve(rate) for rate in (100.0, 200.0, 215.0, 228.0, 232.0)]
    assert misfit(GOAL, runs, answered()) == ""
    noisy = [on_the_curve(230.0, times) for times in (0.75, 0.85, 1.2, 1.35)]
    assert misfit(GOAL, [*runs, *noisy], answered()) == ""


def test_runs_far_from_the_curve_contradict_it() -> None:
    wrong = [on_the_curve(229.0, 0.3), on_the_curve(228.5, 0.3)]
    told = misfit(GOAL, [on_the_curve(232.0), *wrong], answered())
    assert told.startswith("2 runs contradict the curve: at 22")
    assert misfit(GOAL, [on_the_curve(232.0), *wrong[:1]], answered()) == "", "one may"
    far = [on_the_curve(100.0, 2.5), on_the_curve(101.0, 2.5)]
    assert misfit(GOAL, far, answered()) == "", "far from the answer"


def test_without_a_curve_nothing_contradicts_it() -> None:
    wrong = [on_the_curve(229.0, 0.3), on_the_curve(228.5, 0.3)]
    bare = msgspec.structs.replace(answered(), curve=())
    assert misfit(GOAL, wrong, bare) == ""
    mute = VarianceComponents(None, None)
    silent = msgspec.structs.replace(answered(), components=mute)
    assert misfit(GOAL, wrong, silent) == ""


def test_a_search_ends_with_a_late_overload() -> None:
    early = [overloaded_run(320, 267), trial(230, [36.0] * 300)]
    check = check_for_drift(GOAL, early)
    assert check is not None
    assert check.rate == 320
    assert check_for_drift(GOAL, [*early, overloaded_run(320, 267)]) is None
    suspicious = [*early, overloaded_run(320, 260)]
    assert check_for_drift(GOAL, suspicious) is not None
    budget = msgspec.structs.replace(GOAL, budget_s=600.0)
    assert check_for_drift(budget, early) is None
    assert check_for_drift(GOAL, [trial(100, [16.0] * 20)]) is None


def test_an_interval_above_a_rate_that_failed_is_contradicted() -> None:
    """A server limited in operations per second: flat up to 1,500/s, then a wall. A queue's curve
    through the flat runs has its pole far above."""
    history = [
        trial(1083, [1.3] * 60),
        trial(1294, [3.4] * 60),
        trial(1505, [20.0 + 4 * second for second in range(60)]),
    ]

    def answer(low: float, high: float) -> ClaimResult:
        interval = Estimate((low + high) / 2, low, high, 0.95, "by hand", 3, "1/s")
        return ClaimResult(
            status=PeakStatus.FOUND,
            detail="",
            claim=Claim(),
            policy="qgs",
            peak_rate=interval.value,
            interval=interval,
            cost_s=180.0,
            load_s=180.0,
            trials=3,
        )

    assert "failed at 1505/s" in contradiction(GOAL, history, answer(1700, 4300))
    assert "held at 1294/s" in contradiction(GOAL, history, answer(1100, 1200))
    assert contradiction(GOAL, history, answer(1380, 1480)) == ""
    assert contradiction(GOAL, history, answer(1480, 1600)) == "", (
        "within 3 % of an end"
    )
