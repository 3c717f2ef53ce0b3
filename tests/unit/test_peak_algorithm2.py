"""Algorithm 2, its honest form and the strawman, on trials whose values are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies.policy import Policy
from benchwright.features.search.peak.policies.published import (
    PAPER_RUN_LENGTH_S,
    STRAWMAN_RUN_LENGTH_S,
    STRAWMAN_TRIALS,
    LoadResponse,
    LoadVerdict,
    PaperTargets,
    judge_as_published,
    judge_in_region,
    load_response,
)
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from hand_written import mean_response_ms

R_SAT = Criterion("response_ms_mean", 40.0)
P_SAT = Criterion("within_2000ms_share", 0.9, unit="", better="higher", statistic="share")
GOAL = PeakGoal(criteria=(R_SAT,))


def trial(rate: float, length_s: float = 180.0, /, **values: float) -> LoadTrial:
    return LoadTrial(
        rate=rate,
        duration_s=length_s,
        lasted_s=length_s,
        cost_s=length_s,
        values=values or {"response_ms_mean": 20.0},
    )


def at(*values: float, rate: float = 100.0) -> LoadResponse:
    return load_response(GOAL, [trial(rate, response_ms_mean=value) for value in values])


def played(
    policy: Policy,
    goal: PeakGoal,
    value: Callable[[int, float], float] = lambda _n, rate: mean_response_ms(rate),
) -> tuple[list[LoadTrial], ClaimResult]:
    """Return a search; `value` gives a trial's mean response by its number and rate."""
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(policy, goal, history), Probe):
        mean = value(len(history), step.rate)
        history.append(trial(step.rate, step.duration_s, response_ms_mean=mean))
    return history, step


def wobbling(number: int, rate: float) -> float:
    return mean_response_ms(rate) * (1.05 if number % 2 else 0.95)


def test_one_trial_is_never_enough() -> None:
    assert judge_as_published(PaperTargets(), at(20.0)) is LoadVerdict.MORE


def test_no_overlap_moves_on() -> None:
    assert judge_as_published(PaperTargets(), at(20.0, 20.5)) is LoadVerdict.MOVE_ON
    assert judge_as_published(PaperTargets(), at(80.0, 81.0)) is LoadVerdict.MOVE_ON


def test_overlap_without_accuracy_asks_for_more() -> None:
    # t at 1 degree is 12.7: 40 +- 12.7.
    assert judge_as_published(PaperTargets(), at(39.0, 41.0)) is LoadVerdict.MORE


def test_overlap_with_accuracy_is_the_peak_even_outside_of_the_region() -> None:
    """The published rule's weakness: [43.6, 47.2] overlaps [36, 44]."""
    found = at(42.4, 48.4, 43.0, 47.8, 45.4, 44.0, 46.8, 42.9, 47.9)
    assert found.mean > 44
    assert found.accuracy(0.95) >= 0.9
    assert judge_as_published(PaperTargets(), found) is LoadVerdict.PEAK
    assert judge_in_region(PaperTargets(), found) is LoadVerdict.MOVE_ON


def test_of_a_share_the_requests_that_are_too_slow_count() -> None:
    """P_sat is the share of requests above L_sat: none of them is far from its limit of 10 %, not
    at 0.9 of it, so the mean response at 0.6 of its limit binds."""
    goal = PeakGoal(criteria=(R_SAT, P_SAT))
    below = [trial(100.0, response_ms_mean=mean, within_2000ms_share=1.0) for mean in (24.0, 24.2)]
    found = load_response(goal, below)
    assert (found.criterion, found.saturated) == (R_SAT, False)
    assert judge_as_published(PaperTargets(), found) is LoadVerdict.MOVE_ON
    slow = [
        trial(100.0, response_ms_mean=30.0, within_2000ms_share=share)
        for share in (0.898, 0.902, 0.9)
    ]
    found = load_response(goal, slow)
    assert found.criterion == P_SAT
    assert judge_as_published(PaperTargets(), found) is LoadVerdict.PEAK
    assert found.accuracy(0.95) == pytest.approx(1 - 4.303 * 0.02 / 3**0.5, abs=2e-4)


def test_honest_wants_the_interval_within_the_region() -> None:
    assert judge_in_region(PaperTargets(), at(40.0, 41.0, 39.0)) is LoadVerdict.MORE
    assert judge_in_region(PaperTargets(), at(40.0, 40.5, 39.5, 40.2)) is LoadVerdict.PEAK
    assert judge_in_region(PaperTargets(), at(37.0, 37.1, 36.9, 37.0)) is LoadVerdict.MOVE_ON


def test_accuracy_is_that_of_equation_2() -> None:
    # The paper's example: 20 < R < 27 is 85.1 %.
    found = at(23.5 - 0.2755, 23.5 + 0.2755)
    assert found.interval(0.95).low == pytest.approx(20.0, abs=0.1)
    assert found.accuracy(0.95) == pytest.approx(0.851, abs=0.005)


@given(st.lists(st.floats(1, 100), min_size=2, max_size=8))
def test_the_verdict_does_not_depend_on_the_order_of_trials(values: list[float]) -> None:
    assert judge_as_published(PaperTargets(), at(*values)) is judge_as_published(
        PaperTargets(), at(*reversed(values))
    )


@pytest.mark.parametrize("name", ["binsearch", "linear", "binsearch-honest"])
def test_each_policy_finds_the_peak_of_a_steady_server(name: str) -> None:
    history, found = played(policy_named(name), GOAL, wobbling)
    assert found.status is PeakStatus.FOUND
    assert found.peak_rate == pytest.approx(236, rel=0.02)
    assert found.policy == name
    assert found.claim_probability is None
    assert (found.trials, found.load_s) == (len(history), PAPER_RUN_LENGTH_S * len(history))


def test_binsearch_asks_for_two_trials_far_from_the_peak_and_more_near_it() -> None:
    history, found = played(policy_named("binsearch"), GOAL, wobbling)
    counts = {rate: [t.rate for t in history].count(rate) for rate in (50, 100, 400)}
    assert counts == {50: 2, 100: 2, 400: 2}
    assert sum(t.rate == found.peak_rate for t in history) > 2
    assert {t.duration_s for t in history} == {PAPER_RUN_LENGTH_S}


def test_the_model_finds_the_peak_of_its_own_curve_at_once() -> None:
    """R = 60 - 4000 / load is 40 ms at 200/s."""
    history, found = played(
        policy_named("model"), GOAL, lambda _n, rate: max(60 - 4000 / rate, 1.0)
    )
    assert found.peak_rate == pytest.approx(200, rel=0.05)
    assert len({t.rate for t in history}) <= 4


def test_the_model_may_never_converge() -> None:
    """As the paper says: a convex curve with a pole lets it crawl on both sides."""
    history, found = played(policy_named("model"), GOAL, wobbling)
    assert found.status is PeakStatus.UNDECIDED
    assert len(history) == GOAL.max_trials
    assert found.peak_rate is not None


def test_a_seed_spares_the_climb() -> None:
    slow, _ = played(policy_named("linear"), GOAL)
    quick, found = played(policy_named("linear"), PeakGoal(criteria=(R_SAT,), start_rate=225.0))
    assert len(quick) < len(slow) / 2
    assert found.status is PeakStatus.FOUND


def test_the_strawman_runs_ten_trials_of_five_minutes_at_every_load() -> None:
    goal = PeakGoal(criteria=(R_SAT,), start_rate=200.0)
    history, found = played(policy_named("strawman"), goal)
    assert [t.rate for t in history] == [
        rate for rate in (200, 210, 220, 230, 240) for _ in range(STRAWMAN_TRIALS)
    ]
    assert {t.duration_s for t in history} == {STRAWMAN_RUN_LENGTH_S}
    assert found.peak_rate == 230
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (220, 240)


def test_the_strawman_goes_down_from_a_seed_above_the_peak() -> None:
    goal = PeakGoal(criteria=(R_SAT,), start_rate=255.0)
    _, found = played(policy_named("strawman"), goal)
    assert found.peak_rate == 235


def test_the_goal_sets_the_strawmans_step_and_trials() -> None:
    goal = PeakGoal(criteria=(R_SAT,), start_rate=200.0, increment=25.0, trials_each=3)
    history, found = played(policy_named("strawman"), goal)
    assert [t.rate for t in history] == [r for r in (200, 225, 250) for _ in range(3)]
    assert found.peak_rate == 225


def test_the_goal_sets_the_step_of_linear() -> None:
    goal = PeakGoal(criteria=(R_SAT,), start_rate=150.0, increment=40.0)
    history, _ = played(policy_named("linear"), goal)
    loads = list(dict.fromkeys(t.rate for t in history))
    assert loads[:4] == [150, 190, 230, 270][: len(loads)]


@pytest.mark.parametrize("name", ["binsearch", "linear", "model", "model-polynomial"])
def test_the_goal_sets_the_accuracy(name: str) -> None:
    def trials(accuracy: float | None) -> int:
        goal = PeakGoal(criteria=(R_SAT,), start_rate=225.0, accuracy=accuracy)
        _, found = played(policy_named(name), goal, wobbling)
        assert found.status is PeakStatus.FOUND
        return found.trials

    assert trials(0.7) < trials(None) < trials(0.97)
    assert trials(None) == trials(0.9)


def test_the_honest_rule_has_an_accuracy_of_its_own() -> None:
    policy = policy_named("binsearch-honest")
    coarse = PeakGoal(criteria=(R_SAT,), start_rate=225.0, accuracy=0.5)
    fine = PeakGoal(criteria=(R_SAT,), start_rate=225.0)
    assert played(policy, coarse, wobbling) == played(policy, fine, wobbling)


def test_a_share_of_requests_has_a_region_too() -> None:
    """P_sat of the paper: 90 % within 2 s, region [81, 99] %."""

    def share_at(rate: float) -> float:
        return min(1.0, max(0.0, 1.0 - (rate / 1000) ** 2))

    goal = PeakGoal(criteria=(R_SAT, P_SAT))
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(policy_named("binsearch"), goal, history), Probe):
        values = {"response_ms_mean": 1.0, P_SAT.key: share_at(step.rate)}
        history.append(trial(step.rate, step.duration_s, **values))
    assert step.status is PeakStatus.FOUND
    assert step.binding == P_SAT.key
    assert step.peak_rate is not None
    assert 0.81 <= share_at(step.peak_rate) <= 0.99


def test_a_failed_trial_is_overload_without_an_interval() -> None:
    lost = LoadTrial(rate=9.0, duration_s=1, lasted_s=1, cost_s=1, ending=LoadEnding.FAILED)
    found = load_response(GOAL, [trial(9.0), lost])
    assert (found.saturated, found.mean) == (True, math.inf)
    assert judge_as_published(PaperTargets(), found) is LoadVerdict.MOVE_ON
    assert judge_in_region(PaperTargets(), found) is LoadVerdict.MOVE_ON


@pytest.mark.parametrize("name", ["binsearch", "linear", "model", "model-polynomial", "strawman"])
def test_a_search_that_was_cut_goes_on_as_if_nothing_had_happened(name: str) -> None:
    policy = policy_named(name)
    goal = PeakGoal(criteria=(R_SAT,), start_rate=210.0)
    history, found = played(policy, goal, wobbling)
    for cut in range(len(history)):
        step = next_peak_step(policy, goal, history[:cut])
        assert isinstance(step, Probe)
        assert step.rate == history[cut].rate
    assert next_peak_step(policy, goal, history) == found


def test_trials_at_other_loads_are_left_aside() -> None:
    """Another claim's trials, or another policy's, do not mislead a search."""
    policy = policy_named("binsearch")
    history, found = played(policy, GOAL, wobbling)
    strange: Sequence[LoadTrial] = [trial(77.0), trial(999.0), *history, trial(5.0)]
    step = next_peak_step(policy, GOAL, strange)
    assert isinstance(step, ClaimResult)
    assert (step.peak_rate, step.status) == (found.peak_rate, found.status)


def test_the_goal_sets_width_confidence_and_run_length() -> None:
    goal = PeakGoal(criteria=(R_SAT,), claim=Claim(tolerance=0.02), run_length_s=30.0)
    history, found = played(policy_named("binsearch"), goal)
    assert {t.duration_s for t in history} == {30.0}
    assert found.peak_rate is not None
    assert 39.2 <= mean_response_ms(found.peak_rate) <= 40.8


def test_a_claim_that_the_paper_does_not_know_is_told() -> None:
    goal = PeakGoal(criteria=(R_SAT,), claim=Claim(ClaimKind.RATE, 0.05))
    _, found = played(policy_named("binsearch"), goal)
    assert found.status is PeakStatus.FOUND
    assert "regions only" in found.detail


def test_noise_that_closes_the_bracket_is_undecided_not_endless() -> None:
    """A response that jumps over the region leaves nothing to bisect."""
    goal = PeakGoal(criteria=(R_SAT,))
    history, found = played(
        policy_named("binsearch"), goal, lambda _n, rate: 10.0 if rate < 200 else 99.0
    )
    assert found.status is PeakStatus.UNDECIDED
    assert "no rate is left" in found.detail
    assert len(history) < 60
