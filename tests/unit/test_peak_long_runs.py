"""Runs that are too short for a server are left out once they contradict each other."""

from __future__ import annotations

import msgspec
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.reading import LongRuns, long_runs
from benchwright.features.search.types import Claim, PeakGoal
from hand_written import MEAN_RESPONSE, overloaded_run, run_of

GOAL = PeakGoal(criteria=(Criterion(MEAN_RESPONSE, 40.0),), claim=Claim(), start_rate=50.0)


def steady(rate: float, response_ms: float, lasts: int) -> LoadTrial:
    """Return a run with the same response in each second."""
    return run_of(rate, [response_ms] * lasts)


WITHOUT_STALL = steady(400, 13.0, 10)
WITH_STALL = steady(330, 80.0, 20)
OVERLOADED = overloaded_run(800, 500.0, 20)


def test_neither_of_two_short_runs_is_believed() -> None:
    long = steady(300, 36.0, 120)
    seen = long_runs(GOAL, [WITHOUT_STALL, WITH_STALL, OVERLOADED, long])
    assert seen.trials == (OVERLOADED, long)
    assert seen.too_short_s == 20
    assert seen.least_s == tuning.CONTRARY_LONGER * 20
    assert "at 330/s" in seen.evidence
    assert "at 400/s" in seen.evidence


def test_a_run_many_times_as_long_is_believed() -> None:
    long = steady(395, 80.0, 140)
    short = steady(400, 13.0, 8)
    other = steady(200, 9.0, 12)
    assert long_runs(GOAL, [short, other, long]).trials == (other, long)


@pytest.mark.parametrize(
    "history",
    [
        (steady(300, 13.0, 5), steady(330, 80.0, 20)),
        (steady(400, 25.0, 5), steady(330, 80.0, 20)),
        (steady(400, 13.0, 5), steady(330, 50.0, 20)),
        (steady(400, 13.0, 90), steady(330, 80.0, 90)),
        (steady(300, 13.0, 5), OVERLOADED),
    ],
)
def test_runs_that_agree_or_are_long_are_all_kept(history: tuple[LoadTrial, ...]) -> None:
    assert long_runs(GOAL, history) == LongRuns(history)


def test_a_length_that_the_user_sets_and_errors_leave_nothing_out() -> None:
    history = (WITHOUT_STALL, WITH_STALL)
    set_by_user = msgspec.structs.replace(GOAL, run_length_s=20.0)
    assert long_runs(set_by_user, history).trials == history
    errors = Criterion("error_ratio", 0.001, unit="", statistic="ratio")
    of_errors = msgspec.structs.replace(GOAL, criteria=(errors,))
    assert long_runs(of_errors, history).trials == history


def test_the_next_run_is_longer_and_is_not_left_early() -> None:
    policy = Monotone()
    history = [WITHOUT_STALL, WITH_STALL, OVERLOADED]
    probe = policy.next(GOAL, history)
    assert isinstance(probe, Probe)
    assert probe.duration_s >= 60
    probe = msgspec.structs.replace(probe, purpose="bisect")
    # Far below the limit, and far beyond it: both would end a probe otherwise.
    for so_far in (steady(probe.rate, 9.0, 40), overloaded_run(probe.rate, 10.0, 40)):
        before = history[:1]
        assert policy.leaves(GOAL, before, probe, so_far)
        assert not policy.leaves(GOAL, history, probe, so_far)


def test_a_search_says_what_it_left_out() -> None:
    history = [WITHOUT_STALL, WITH_STALL, OVERLOADED, steady(300, 36.0, 120)]
    result = Monotone().best(GOAL, history)
    found = [f for f in result.findings if f.code == "short-runs-contradict"]
    assert len(found) == 1
    assert "trials of up to 20 s were left out" in found[0].evidence


@pytest.mark.parametrize(
    ("rate", "response_ms"), [(400, 13.0), (330, 13.0), (330, 80.0), (400, 80.0)]
)
@pytest.mark.parametrize("lasts", [5, 20])
def test_a_run_as_long_as_the_next_ones_settles_a_contradiction(
    rate: float, response_ms: float, lasts: int
) -> None:
    """Whichever of the contradictory runs it agrees with, and whether or not the generator ends it
    a little early."""
    short = [steady(400, 13.0, lasts), steady(330, 80.0, lasts)]
    seen = long_runs(GOAL, short)
    assert (seen.trials, seen.too_short_s) == ((), lasts)
    long = steady(rate, response_ms, round(seen.least_s))
    for settles in (long, msgspec.structs.replace(long, lasted_s=0.99 * long.lasted_s)):
        again = long_runs(GOAL, [*short, settles])
        assert again.trials == (settles,)
        assert again.too_short_s == lasts


def test_one_bad_trial_at_the_begin_does_not_make_all_the_others_long() -> None:
    history: list[LoadTrial] = []
    policy = Monotone()
    while isinstance(step := policy.next(GOAL, history), Probe):
        slow = 80.0 if not history else 10.0 / max(1 - step.rate / 300, 0.002)
        if step.rate < 150:
            assert step.duration_s <= tuning.CONTRARY_LONGER * 20
        history.append(steady(step.rate, slow, round(step.duration_s)))
        assert len(history) < 60
    assert step.peak_rate == pytest.approx(225, rel=0.05)
