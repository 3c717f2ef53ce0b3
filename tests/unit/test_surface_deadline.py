"""The deadline of a mapping: how its time is shared, and what a resume does."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.features.search.surface.design import initial_samples, missing_samples
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.spec import TimeLeft, least_search_s, time_share
from benchwright.features.search.surface.types import DesignKind, SampleResult, SurfaceGoal
from benchwright.features.search.types import PeakGoal
from surface_maps import next_sample
from surfaces import factors, searched

PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),), start_rate=20.0)
GOAL = SurfaceGoal(factors=factors(), peak=PEAK, samples=10, deadline_s=3600.0)


def results_of(goal: SurfaceGoal, count: int, cost_s: float) -> tuple[SampleResult, ...]:
    """Return the results of the first samples of a goal without a deadline."""
    results: tuple[SampleResult, ...] = ()
    for _ in range(count):
        wanted = next_sample(goal, results)
        assert wanted is not None
        one = searched(wanted.sample, 100.0, 0.03)
        found = msgspec.structs.replace(one.found, cost_s=cost_s, load_s=cost_s)
        results = (*results, msgspec.structs.replace(one, found=found))
    return results


def test_every_search_gets_an_equal_share_of_what_is_left() -> None:
    share = time_share(GOAL, (), TimeLeft(0.0, 3610.0, begins=True))
    assert (share.searches, share.budget_s) == (10, 360.0)
    results = results_of(GOAL, 4, 100.0)
    share = time_share(GOAL, results, TimeLeft(400.0, 3210.0))
    assert share.searches == 6
    assert share.budget_s == pytest.approx(3200 / 6, abs=0.1)


def test_time_beside_the_trials_is_left_out_of_the_share() -> None:
    results = results_of(GOAL, 4, 100.0)
    share = time_share(GOAL, results, TimeLeft(440.0, 3170.0))
    assert share.budget_s == pytest.approx(3160 / 6 - 10, abs=0.1)


def test_no_search_gets_less_than_finds_a_peak() -> None:
    assert least_search_s(GOAL, ()) == 60.0
    share = time_share(GOAL, (), TimeLeft(0.0, 310.0, begins=True))
    assert (share.searches, share.budget_s) == (5, 60.0)
    last = time_share(GOAL, results_of(GOAL, 4, 60.0), TimeLeft(240.0, 99.0))
    assert (last.searches, last.budget_s) == (1, 89.0)
    half = time_share(GOAL, results_of(GOAL, 4, 60.0), TimeLeft(240.0, 40.0))
    assert (half.searches, half.budget_s) == (1, 30.0)
    over = time_share(GOAL, results_of(GOAL, 4, 60.0), TimeLeft(240.0, 39.0))
    assert over.searches == 0


def test_the_least_budget_follows_run_length_restarts_and_limit() -> None:
    def least(**more: object) -> float:
        peak = msgspec.structs.replace(PEAK, **more)
        return least_search_s(msgspec.structs.replace(GOAL, peak=peak), ())

    assert least(run_length_s=3.0) == 12.0
    published = msgspec.structs.replace(GOAL, trial_s=180.0)
    assert least_search_s(published, ()) == 720.0
    assert least(run_length_s=3.0, restart_s=2.0) == 20.0
    assert least(criteria=(Criterion("response_ms_mean", 1.0),)) == 15.0
    slow = results_of(GOAL, 2, 100.0)
    restarting = [
        msgspec.structs.replace(
            one, found=msgspec.structs.replace(one.found, load_s=60.0, trials=8)
        )
        for one in slow
    ]
    assert least_search_s(GOAL, restarting) == 4 * (15 + 5)


def test_the_first_search_is_always_begun() -> None:
    share = time_share(GOAL, (), TimeLeft(0.0, 0.5, begins=True))
    assert (share.searches, share.budget_s) == (1, 1.0)
    again = time_share(GOAL, results_of(GOAL, 4, 60.0), TimeLeft(240.0, 5.0, True))
    assert again.searches == 1


@given(
    left=st.floats(0, 1e5),
    done=st.integers(0, 9),
    cost=st.floats(1, 1000),
    beside=st.floats(0, 100),
)
def test_shares_never_exceed_the_time(left: float, done: int, cost: float, beside: float) -> None:
    results = results_of(GOAL, done, cost)
    time = TimeLeft(done * (cost + beside), left, begins=not done)
    share = time_share(GOAL, results, time)
    assert share.searches <= 10 - done
    if left > 11.0:
        assert share.searches * share.budget_s <= left - 10 + 1e-6
    if share.searches > 1:
        assert share.budget_s >= 60.0 - 0.1
    if share.searches and not time.begins:
        assert share.budget_s >= 30.0 - 0.1


def test_a_search_keeps_its_own_budget_if_that_is_less() -> None:
    own = msgspec.structs.replace(PEAK, budget_s=100.0)
    goal = msgspec.structs.replace(GOAL, peak=own)
    wanted = next_sample(goal, (), TimeLeft(0.0, 3610.0, begins=True))
    assert wanted is not None
    assert wanted.goal.budget_s == 100.0
    wanted = next_sample(goal, (), TimeLeft(0.0, 710.0, begins=True))
    assert wanted is not None
    assert wanted.goal.budget_s == 70.0


def test_enough_time_searches_the_same_samples_as_none() -> None:
    results = results_of(GOAL, 3, 100.0)
    free = next_sample(GOAL, results)
    timed = next_sample(GOAL, results, TimeLeft(300.0, 3300.0))
    assert free is not None
    assert timed is not None
    assert timed.sample == free.sample


@pytest.mark.parametrize("design", [DesignKind.FULL, DesignKind.D_OPTIMAL])
def test_with_too_little_time_samples_are_far_apart(design: DesignKind) -> None:
    """A full factorial goes from neighbour to neighbour: cut after six, it is a corner."""
    samples = 32 if design is DesignKind.FULL else 10
    goal = msgspec.structs.replace(GOAL, design=design, samples=samples)

    def disks(left_s: float) -> set[str]:
        results: tuple[SampleResult, ...] = ()
        for at in range(6):
            time = TimeLeft(60.0 * at, left_s - 60.0 * at, begins=not at)
            wanted = next_sample(goal, results, time)
            assert wanted is not None
            one = searched(wanted.sample, 100.0, 0.03)
            found = msgspec.structs.replace(one.found, cost_s=60.0, load_s=60.0)
            results = (*results, msgspec.structs.replace(one, found=found))
        assert len({one.sample for one in results}) == 6
        return {dict(one.sample)["disks"] for one in results}

    if design is DesignKind.FULL:
        assert disks(1e5) == {"1"}
    assert {"1", "4"} <= disks(370.0)


def test_missing_samples_are_named_as_far_as_the_design_does() -> None:
    results = results_of(GOAL, 4, 100.0)
    surface = surface_of(GOAL, results, at_deadline=True)
    assert surface.left_out == 6
    assert surface.missing == missing_samples(GOAL, results)
    tried = {one.sample for one in results}
    assert set(surface.missing) == set(initial_samples(GOAL)) - tried
    (finding,) = (one for one in surface.findings if one.code == "surface-deadline")
    assert "6 of 10 samples were not searched within 1 h" in finding.evidence
    assert "mean absolute error of" in finding.evidence
    none = surface_of(GOAL, results[:1], at_deadline=True)
    assert "the error of the map is unknown" in none.findings[0].evidence
    assert math.isclose(none.left_out, 9)
