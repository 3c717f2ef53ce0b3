"""Servers that are slow at the begin of each run: cold runs are not believed, and warm servers are
not taken for cold."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.reading import LongRuns, long_runs, longest_run_s
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from hand_written import MEAN_RESPONSE, run_of

GOAL = PeakGoal(criteria=(Criterion(MEAN_RESPONSE, 40.0),), claim=Claim(ClaimKind.RATE, 0.05))


def run(rate: float, level_ms: float, lasts: int, cold_s: float = 0.0, seed: int = 0) -> LoadTrial:
    """Return a run at a level that is 1.6 times as slow at its begin, for about `cold_s`; 0: it is
    not."""
    random = np.random.default_rng([seed, lasts, round(10 * rate)])
    slower = np.zeros(lasts)
    if cold_s:
        slower = 0.6 * np.exp(-(np.arange(lasts) + 0.5) / cold_s)
    noise = 1 + 0.05 * random.standard_normal(lasts)
    return run_of(rate, (level_ms * (1 + slower) * noise).tolist())


def runs(number: int, lasts: int, cold_s: float, first: int = 0) -> list[LoadTrial]:
    """Return runs below the limit at different rates."""
    return [
        run(200.0 + n, 30.0 + n / 4, lasts, cold_s, seed=first)
        for n in range(first, first + number)
    ]


def seen(*history: LoadTrial, **goal: object) -> LongRuns:
    return long_runs(msgspec.structs.replace(GOAL, **goal), history)


# What is believed ----------------------------------------------------------------------------


def test_runs_of_a_warm_server_are_all_believed() -> None:
    warm = runs(12, 60, 0.0)
    assert seen(*warm) == LongRuns(tuple(warm))


def test_more_is_left_out_of_runs_that_get_warm_within_half_of_them() -> None:
    found = seen(*runs(12, 60, 15.0))
    assert found.left_out == tuning.COLD_LEFT_OUT
    assert len(found.trials) == 12
    assert found.too_short_s == 0
    assert "12 trials of up to 60 s" in found.cold
    assert not found.stays_cold


def test_runs_that_are_cold_in_their_last_half_too_are_followed_by_longer_ones() -> None:
    found = seen(*runs(12, 20, 15.0))
    assert found.too_short_s == 20
    assert found.least_s == tuning.CONTRARY_LONGER * 20
    assert "12 trials of up to 20 s" in found.cold
    assert not found.stays_cold
    assert found.trials == (), "a cold start may have made each of them fail"


def test_what_a_cold_start_cannot_have_caused_is_believed() -> None:
    """A response far below the limit holds when it is warm too, and far above what held is
    overload."""
    cold = runs(12, 20, 15.0)
    idle = run(50, 10.0, 20)
    beyond = run(700, 500.0, 20)
    slow = run(260, 70.0, 20, 15.0)
    found = seen(*cold, idle, beyond, slow)
    assert idle in found.trials
    assert beyond in found.trials
    assert slow not in found.trials


def test_longer_runs_show_whether_the_server_is_warm_by_then() -> None:
    short, warm = runs(12, 20, 15.0), runs(12, 90, 15.0, first=20)
    found = seen(*short, *warm)
    assert found.left_out == tuning.COLD_LEFT_OUT
    assert set(map(id, warm)) <= set(map(id, found.trials))
    assert not found.stays_cold


@pytest.mark.parametrize("lasts", [90, 180])
def test_one_longer_run_does_not_make_cold_ones_right(lasts: int) -> None:
    short, long = runs(12, 20, 15.0), run(300, 40.0, lasts, 15.0)
    found = seen(*short, long)
    assert found.trials == (long,)
    assert found.too_short_s == 20


def test_runs_that_are_cold_at_the_longest_length_are_reported() -> None:
    found = seen(*runs(12, 180, 150.0))
    assert "higher in the first half of what counts than in the second" in found.cold
    assert "12 trials of up to 180 s" in found.cold
    assert found.stays_cold
    assert len(found.trials) == 12, "they are all there is"
    small = seen(*runs(12, 20, 15.0), budget_s=60.0)
    assert small.stays_cold, "and so are the longest that a budget permits"


def test_a_length_that_the_user_sets_is_believed() -> None:
    cold = runs(12, 20, 15.0)
    assert seen(*cold, run_length_s=20.0) == LongRuns(tuple(cold))


@pytest.mark.parametrize("lasts", [20, 60])
def test_a_warm_server_is_almost_never_cold(lasts: int) -> None:
    """500 histories of twelve runs each, of which the noise is correlated as that of a queue near
    its limit. More may be left out of a few, which costs time; hardly any is taken for one that is
    still cold then."""
    doubted = cold = 0
    for seed in range(500):
        random = np.random.default_rng([7, seed, lasts])
        history = []
        for n in range(12):
            wander = np.zeros(lasts)
            for i in range(1, lasts):
                wander[i] = 0.8 * wander[i - 1] + 0.15 * random.standard_normal()
            history.append(run_of(200.0 + n, (32 * np.exp(wander)).tolist()))
        found = seen(*history)
        doubted += found.left_out != tuning.WARM_UP_SHARE
        cold += found.too_short_s > 0
    assert doubted <= 25
    assert cold <= 5


# Whole searches -----------------------------------------------------------------------------


def searched(
    slower: Callable[[float], float], budget_s: float | None = None
) -> tuple[list[LoadTrial], ClaimResult]:
    """Return a search of a server with its limit at 300/s, slower by this share at each age of a
    run [s]."""
    history: list[LoadTrial] = []
    goal = msgspec.structs.replace(GOAL, budget_s=budget_s)
    while isinstance(step := next_peak_step(Monotone(), goal, history), Probe):
        lasts = math.ceil(step.duration_s)
        random = np.random.default_rng([3, len(history)])
        ages = np.arange(lasts) + 0.5
        cold = 1 + np.array([slower(age) for age in ages])
        level = 40 * min((step.rate / 300) ** 6, 30.0) + 1
        noise = 1 + 0.1 * random.standard_normal(lasts)
        history.append(run_of(step.rate, (level * cold * noise).tolist()))
    return history, step


def test_an_answer_is_that_of_the_warm_server() -> None:
    """Twice as slow for about ten seconds: with all of each run the peak would be 4 % lower."""
    _, result = searched(lambda age: math.exp(-age / 10))
    assert result.status is PeakStatus.FOUND
    assert result.peak_rate == pytest.approx(300, rel=0.02)
    assert "warm-up-not-over" not in {one.code for one in result.findings}


def test_a_server_that_is_still_cold_in_the_longest_runs_has_no_claim() -> None:
    history, result = searched(lambda age: 1.5 * math.exp(-age / 40))
    assert result.status is PeakStatus.UNDECIDED
    assert result.claim_probability is None
    (finding,) = (f for f in result.findings if f.code == "warm-up-not-over")
    assert result.detail == finding.evidence
    assert max(one.lasted_s for one in history) >= 150


@pytest.mark.parametrize("budget_s", [600.0, None])
def test_an_answer_of_runs_that_begin_cold_is_checked_with_longer_ones(
    budget_s: float | None,
) -> None:
    """A start of half a minute: in short runs both halves of what counts are slow, and the answer
    is a tenth too low."""
    history, result = searched(lambda age: 0.5 * math.exp(-age / 25), budget_s)
    assert result.peak_rate is not None
    if result.status is PeakStatus.FOUND:
        assert result.peak_rate == pytest.approx(300, rel=0.03)
    else:
        assert "warm-up-not-over" in {one.code for one in result.findings}
    goal = msgspec.structs.replace(GOAL, budget_s=budget_s)
    assert long_runs(goal, history).cold_s > 0
    checks = 0
    # The last one may have what the budget leaves.
    for number, one in enumerate(history[:-1]):
        before = history[:number]
        step = next_peak_step(Monotone(), goal, before)
        assert isinstance(step, Probe)
        cold_s = long_runs(goal, before).cold_s
        if step.purpose == "check" and cold_s > 0:
            longest_s = longest_run_s(goal)
            assert one.lasted_s >= 0.9 * min(tuning.CONTRARY_LONGER * cold_s, longest_s)
            checks += 1
    assert checks >= 2


def test_the_longest_cold_runs_count_whatever_is_left_out() -> None:
    """Halves of runs of 60 s are warm once half of each is left out; those of 20 s are not."""
    found = seen(*runs(12, 60, 15.0), *runs(12, 20, 15.0, first=30))
    assert found.cold_s == 60


def test_a_rate_that_fails_is_above_an_answer_however_short_its_trials_are() -> None:
    """The runs begin cold, so that the check counts only long ones."""

    def served(probe: Probe, number: int) -> LoadTrial:
        if probe.rate > 240:
            failed = run_of(probe.rate, [5000.0])
            fields = {"ending": LoadEnding.FAILED, "failure": "the server ended"}
            return msgspec.structs.replace(failed, lasted_s=0.5, cost_s=1.0, **fields)
        level = 30.0 * (probe.rate / 240) ** 4
        return run(probe.rate, level, math.ceil(probe.duration_s), 10.0, seed=number)

    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(Monotone(), GOAL, history), Probe):
        history.append(served(step, len(history)))
    assert len(history) < 60
