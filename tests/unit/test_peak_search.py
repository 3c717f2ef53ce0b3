"""What all policies share: failures, bounds, generators that are behind, budgets."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.policy import highest_rate, lowest_rate
from benchwright.features.search.peak.policies.published import (
    PAPER_RUN_LENGTH_S,
    STRAWMAN_RUN_LENGTH_S,
)
from benchwright.features.search.peak.policies.registry import POLICY_NAMES, policy_named
from benchwright.features.search.peak.policies.search import may_leave, next_peak_step
from benchwright.features.search.types import ClaimResult, CurvePoint, PeakGoal, PeakStatus
from hand_written import mean_response_ms

R_SAT = Criterion("response_ms_mean", 40.0)
RESTART_S = 7.0
BINSEARCH = policy_named("binsearch")

Bench = Callable[[Probe, int], LoadTrial]
"""(probe, number of the trial) -> the trial."""


def goal_of(**changes: object) -> PeakGoal:
    return PeakGoal(criteria=(R_SAT,), **changes)  # type: ignore[arg-type]


def ran(probe: Probe, mean: float, offered: int | None = None) -> LoadTrial:
    return LoadTrial(
        rate=probe.rate,
        duration_s=probe.duration_s,
        lasted_s=probe.duration_s,
        cost_s=probe.duration_s + RESTART_S,
        values={"response_ms_mean": mean},
        offered=offered,
        completed=offered,
    )


def failed(probe: Probe) -> LoadTrial:
    return LoadTrial(
        rate=probe.rate,
        duration_s=probe.duration_s,
        lasted_s=3.0,
        cost_s=3.0 + RESTART_S,
        ending=LoadEnding.FAILED,
        failure="the server died: signal 11",
    )


def healthy(probe: Probe, _number: int) -> LoadTrial:
    return ran(probe, mean_response_ms(probe.rate))


def played(
    goal: PeakGoal, bench: Bench, policy: str = "binsearch"
) -> tuple[list[LoadTrial], ClaimResult]:
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(policy_named(policy), goal, history), Probe):
        assert len(history) < 500, "the search has no end"
        history.append(bench(step, len(history)))
    return history, step


def codes(found: ClaimResult) -> list[str]:
    return [finding.code for finding in found.findings]


# Failures ---------------------------------------------------------------------


def test_a_probe_that_fails_once_is_run_again_and_told() -> None:
    def bench(probe: Probe, number: int) -> LoadTrial:
        return failed(probe) if number == 2 else healthy(probe, number)

    history, found = played(goal_of(), bench)
    assert history[3].rate == history[2].rate
    assert found.status is PeakStatus.FOUND
    assert codes(found) == ["probe-failed"]
    assert found.trials == len(history)
    assert found.cost_s == sum(t.cost_s for t in history)
    assert found.load_s == sum(t.lasted_s for t in history)


def test_the_first_load_failing_twice_ends_the_search() -> None:
    history, found = played(goal_of(), lambda probe, _n: failed(probe))
    assert len(history) == 2
    assert found.status is PeakStatus.FAILED
    assert "signal 11" in found.detail
    assert found.peak_rate is None


def test_a_server_that_dies_under_load_is_overloaded_there() -> None:
    def bench(probe: Probe, number: int) -> LoadTrial:
        return failed(probe) if probe.rate > 300 else healthy(probe, number)

    history, found = played(goal_of(), bench)
    assert found.status is PeakStatus.FOUND
    assert found.peak_rate is not None
    assert 36 <= mean_response_ms(found.peak_rate) <= 44
    assert codes(found) == ["failure-counted-as-overload"]
    assert [t.rate for t in history].count(400.0) == 2


def test_a_trial_without_the_criterions_value_failed() -> None:
    def bench(probe: Probe, _number: int) -> LoadTrial:
        return LoadTrial(rate=probe.rate, duration_s=9, lasted_s=9, cost_s=9)

    _, found = played(goal_of(), bench)
    assert found.status is PeakStatus.FAILED
    assert "response_ms_mean" in found.detail


def test_a_trial_with_an_infinite_value_is_an_answer() -> None:
    """A percentile longer than any response that was waited for."""

    def bench(probe: Probe, number: int) -> LoadTrial:
        return ran(probe, float("inf")) if probe.rate > 250 else healthy(probe, number)

    _, found = played(goal_of(), bench)
    assert found.status is PeakStatus.FOUND
    assert codes(found) == []


# Bounds -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["binsearch", "linear", "model", "strawman"])
def test_a_criterion_that_never_fails_ends_at_the_highest_rate(policy: str) -> None:
    goal = goal_of(highest_rate=90.0)
    _, found = played(goal, lambda probe, _n: ran(probe, 5.0), policy)
    assert found.status is PeakStatus.NEVER_FAILS
    assert found.peak_rate == 90
    assert "90/s" in found.detail


@pytest.mark.parametrize("policy", ["binsearch", "linear", "model", "strawman"])
def test_a_criterion_that_always_fails_ends_at_the_lowest_rate(policy: str) -> None:
    goal = goal_of(lowest_rate=35.0)
    _, found = played(goal, lambda probe, _n: ran(probe, 500.0), policy)
    assert found.status is PeakStatus.FAILS_AT_LOWEST
    assert found.peak_rate == 35
    assert found.binding == "response_ms_mean"
    assert "500" in found.detail


def test_reaching_the_lowest_rate_is_cheap() -> None:
    """1,024 times lower in five loads of two trials, not in eleven."""
    history, found = played(goal_of(), lambda probe, _n: ran(probe, 500.0))
    assert found.status is PeakStatus.FAILS_AT_LOWEST
    assert len(history) <= 10


@pytest.mark.parametrize(
    ("fields", "lowest"),
    [
        ({}, tuning.FEWEST_OPERATIONS / tuning.MONOTONE_CLIMB_S),
        ({"lowest_rate": 0.02}, 0.02),
        ({"run_length_s": 100.0}, tuning.FEWEST_OPERATIONS / 100),
        # A fifth of the arrivals where a limit allows 2.5 s for each.
        ({"criteria": (Criterion("response_ms_mean", 2500.0),)}, 0.1),
        # A first rate that is low already is descended from, too.
        ({"start_rate": 0.8}, 0.8 * tuning.DESCENT_SHARE),
        ({"start_rate": 1e6}, 976.56),
        ({"rate_step": 1.0, "lowest_rate": 2.5}, 3.0),
    ],
)
def test_the_lowest_rate_is_one_at_which_a_run_sees_arrivals(
    fields: dict[str, object], lowest: float
) -> None:
    assert lowest_rate(msgspec.structs.replace(goal_of(), **fields)) == lowest


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_server_that_is_slow_without_load_is_soon_told_so(policy: str) -> None:
    history, found = played(goal_of(), lambda probe, _n: ran(probe, 500.0), policy)
    assert found.status is PeakStatus.FAILS_AT_LOWEST
    assert found.peak_rate == 0.5
    assert "mean response 500 ms, limit 40 ms" in found.detail
    assert "--lowest" in found.detail, "nobody has set it: say how"
    # None is longer than a run of the policy's own; at 0.049/s it took 205 s.
    usual_s = {"monotone": tuning.MONOTONE_CLIMB_S, "strawman": STRAWMAN_RUN_LENGTH_S}
    longest_s = max(trial.lasted_s for trial in history)
    assert longest_s <= usual_s.get(policy, PAPER_RUN_LENGTH_S)


def test_a_bound_that_was_set_is_not_asked_for_again() -> None:
    goal = goal_of(lowest_rate=35.0, highest_rate=90.0)
    for mean in (5.0, 500.0):
        _, found = played(goal, lambda probe, _n, mean=mean: ran(probe, mean))
        assert "est rate" in found.detail
        assert "--" not in found.detail


@pytest.mark.parametrize("policy", ["monotone", "binsearch", "binsearch-honest"])
def test_a_server_that_answers_always_alike_has_a_highest_rate(policy: str) -> None:
    history, found = played(goal_of(), lambda probe, _n: ran(probe, 5.0), policy)
    assert found.status is PeakStatus.NEVER_FAILS
    assert found.peak_rate == tuning.HIGHEST_RATE
    assert "--highest" in found.detail
    assert len(history) <= 64


def test_a_first_rate_beyond_a_million_can_be_raised() -> None:
    assert highest_rate(goal_of(start_rate=2e6)) == 2e6 / tuning.LOWEST_SHARE


def test_a_slow_server_is_given_time_for_ten_operations() -> None:
    goal = goal_of(start_rate=0.02, lowest_rate=0.01)
    step = next_peak_step(BINSEARCH, goal, [])
    assert isinstance(step, Probe)
    assert step.duration_s == tuning.FEWEST_OPERATIONS / 0.02


def test_a_peak_between_the_bounds_is_not_a_bound() -> None:
    _, found = played(goal_of(lowest_rate=10.0, highest_rate=240.0), healthy)
    assert found.status is PeakStatus.FOUND


@pytest.mark.parametrize("policy", ["monotone", "binsearch"])
@pytest.mark.parametrize("bounds", [(40.0, 60.0), (40.0, 150.0), (70.0, 90.0)])
def test_an_answer_lies_within_the_bounds_that_were_set(
    policy: str, bounds: tuple[float, float]
) -> None:
    least, most = bounds
    for budget_s in (20.0, 60.0, 300.0):
        for mean in (1.0, 20.0, 300.0):
            goal = goal_of(lowest_rate=least, highest_rate=most, budget_s=budget_s)
            bench = lambda probe, n, mean=mean: ran(probe, mean * (1 + n % 3 / 50))  # noqa: E731
            _, found = played(goal, bench, policy)
            if found.peak_rate is not None:
                assert least <= found.peak_rate <= most
            if found.interval is not None:
                ends = found.interval.low, found.interval.high
                assert least <= ends[0] < ends[1] <= most
                assert ends[0] <= found.interval.value <= ends[1]


# The generator ----------------------------------------------------------------


def test_a_generator_that_cannot_keep_up_is_the_limit() -> None:
    def bench(probe: Probe, _number: int) -> LoadTrial:
        offered = min(probe.rate, 170.0) * probe.duration_s
        return ran(probe, 20.0, round(offered))

    _, found = played(goal_of(), bench)
    assert found.status is PeakStatus.NEVER_FAILS
    assert found.peak_rate == pytest.approx(170)
    assert "generator" in found.detail
    assert codes(found) == ["generator-behind"]


def counting_ends(probe: Probe, mean: float, ended: float) -> LoadTrial:
    """Return a trial whose generator counts what ended, and not what arrived."""
    completed = round(ended * probe.duration_s)
    return msgspec.structs.replace(ran(probe, mean), completed=completed)


def test_a_generator_that_counts_only_ends_is_the_limit_where_they_stay_behind() -> None:
    def bench(probe: Probe, _number: int) -> LoadTrial:
        return counting_ends(probe, 20.0, min(probe.rate, 170.0))

    history, found = played(goal_of(), bench)
    assert found.status is PeakStatus.NEVER_FAILS
    assert found.peak_rate == pytest.approx(170)
    assert "generator" in found.detail
    assert max(trial.rate for trial in history) < 1000


def test_what_is_in_flight_at_the_end_is_no_limit_of_the_generator() -> None:
    """A tenth of each short run has not ended when its time is up."""

    def bench(probe: Probe, _number: int) -> LoadTrial:
        return counting_ends(probe, 20.0, 0.9 * probe.rate)

    _, found = played(goal_of(highest_rate=5000.0), bench)
    assert (found.status, found.peak_rate) == (PeakStatus.NEVER_FAILS, 5000)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_generator_is_asked_only_for_rates_that_it_can_be_told(policy: str) -> None:
    goal = goal_of(rate_step=1.0, lowest_rate=0.4, highest_rate=900.5, max_trials=40)
    history, found = played(goal, healthy, policy)
    assert all(trial.rate == int(trial.rate) >= 1 for trial in history)
    assert found.status is not PeakStatus.FAILED
    if policy in ("monotone", "binsearch", "binsearch-honest"):
        assert found.peak_rate == pytest.approx(236, rel=0.05)


def test_a_search_between_two_rates_that_can_be_told_ends() -> None:
    """The peak is at 3.5/s: at 3 the limit holds, at 4 it does not."""

    def bench(probe: Probe, _number: int) -> LoadTrial:
        return ran(probe, 30.0 if probe.rate < 3.5 else 60.0)

    goal = goal_of(start_rate=2.0, rate_step=1.0)
    history, found = played(goal, bench, "monotone")
    assert found.status is PeakStatus.UNDECIDED
    assert "cannot produce a rate between 3 and 4/s" in found.detail
    assert len(history) < 40


def test_a_trial_behind_its_rate_counts_at_what_was_offered() -> None:
    """The server saturates at what the generator can just about offer."""

    def bench(probe: Probe, _number: int) -> LoadTrial:
        rate = min(probe.rate, 245.0)
        return ran(probe, mean_response_ms(rate), round(rate * probe.duration_s))

    _, found = played(goal_of(), bench)
    assert found.status is PeakStatus.FOUND
    assert found.peak_rate is not None
    assert 36 <= mean_response_ms(found.peak_rate) <= 44


def test_poisson_noise_is_no_generator_behind() -> None:
    def bench(probe: Probe, number: int) -> LoadTrial:
        wanted = probe.rate * probe.duration_s
        return ran(
            probe,
            mean_response_ms(probe.rate),
            round(wanted - (-1) ** number * (tuning.CERTAIN_Z - 1) * wanted**0.5),
        )

    _, found = played(goal_of(run_length_s=2.0), bench)
    assert codes(found) == []


def test_marks_of_a_generator_are_told() -> None:
    def bench(probe: Probe, number: int) -> LoadTrial:
        trial = healthy(probe, number)
        return msgspec.structs.replace(trial, marks=("closed-loop", "not-in-the-table"))

    _, found = played(goal_of(), bench)
    assert codes(found) == ["closed-loop", "not-in-the-table"]


# Budget and trials ------------------------------------------------------------


@settings(max_examples=40)
@given(budget_s=st.floats(1, 4000), restart_s=st.floats(0, 30))
def test_a_budget_is_never_overrun(budget_s: float, restart_s: float) -> None:
    goal = goal_of(budget_s=budget_s, restart_s=RESTART_S)
    history, found = played(goal, healthy)
    assert sum(t.cost_s for t in history) <= budget_s + 1e-9
    assert found.status in (PeakStatus.BUDGET, PeakStatus.FOUND)
    assert (found.peak_rate is None) == (not history)


def test_what_is_left_of_a_budget_is_used_by_a_shorter_probe() -> None:
    # Two of 187 s fit; 126 s are left: a probe of 119 s and its restart.
    goal = goal_of(budget_s=500.0)
    history, found = played(goal, healthy)
    assert [t.duration_s for t in history] == [PAPER_RUN_LENGTH_S, PAPER_RUN_LENGTH_S, 119]
    assert found.status is PeakStatus.BUDGET
    assert "500 s" in found.detail


def test_a_rest_too_short_to_tell_anything_is_left() -> None:
    history, found = played(goal_of(budget_s=2 * 187.0 + 30.0), healthy)
    assert len(history) == 2
    assert found.status is PeakStatus.BUDGET


def test_the_cap_on_trials_is_kept() -> None:
    history, found = played(goal_of(max_trials=5), healthy)
    assert len(history) == 5
    assert found.status is PeakStatus.UNDECIDED
    assert found.peak_rate is not None


# The rest ---------------------------------------------------------------------


def test_rates_can_be_written_down() -> None:
    history, _ = played(goal_of(start_rate=51.23456789), healthy)
    assert all(t.rate == float(f"{t.rate:.5g}") for t in history)


def test_an_unwatched_probe_is_never_left() -> None:
    probe = Probe(50.0, 10.0)
    assert not may_leave(BINSEARCH, goal_of(watched=False), [], probe, ran(probe, 1.0))
    assert not may_leave(BINSEARCH, goal_of(), [], probe, ran(probe, 1.0))


def test_the_registry_names_its_policies() -> None:
    for name in POLICY_NAMES:
        assert policy_named(name).name == name
    with pytest.raises(KeyError):
        policy_named("simulated-annealing")


# The end ----------------------------------------------------------------------


class Staying:
    """A policy that wants the same rate for ever."""

    name = "staying"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe:
        return Probe(100.0, 10.0, "hold")

    def leaves(self, *_: object) -> bool:
        return False

    def read(self, _goal: PeakGoal, history: Sequence[LoadTrial]) -> list[LoadTrial]:
        return list(history)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        return ClaimResult(
            status=PeakStatus.UNDECIDED,
            detail="best",
            claim=goal.claim,
            policy=self.name,
            peak_rate=100.0,
        )


def test_a_rate_that_decides_nothing_ends_the_search_with_the_reason() -> None:
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(Staying(), goal_of(), history), Probe):
        history.append(ran(step, 36.0 + len(history) % 6))
    assert len(history) == tuning.MOST_AT_ONE_RATE
    assert step.status is PeakStatus.UNDECIDED
    assert codes(step) == ["rate-not-decided"]
    evidence = step.findings[0].evidence
    assert f"{tuning.MOST_AT_ONE_RATE} trials at 100/s do not decide" in evidence
    assert "mean response 36 ms to 41 ms, limit 40 ms" in evidence


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("step", [None, 10.0])
def test_every_policy_ends_where_the_limit_is_inside_the_noise(
    policy: str, step: float | None
) -> None:
    """A response of 36 to 44 ms at any rate from 100/s on says nothing of a peak."""
    noise = random.Random(5)

    def bench(probe: Probe, _number: int) -> LoadTrial:
        return ran(probe, noise.uniform(36, 44) if probe.rate > 100 else 10.0)

    history, found = played(goal_of(rate_step=step, watched=False), bench, policy)
    assert len(history) <= 200
    assert found.status in (PeakStatus.FOUND, PeakStatus.UNDECIDED)


def test_an_answer_that_the_curve_contradicts_says_so() -> None:
    class Contradicted(Staying):
        def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
            points = (CurvePoint(80.0, 40.0, 60.0, 80.0),)
            return msgspec.structs.replace(
                super().best(goal, history), binding=R_SAT.key, curve=points
            )

    goal = goal_of(budget_s=5.0)
    found = next_peak_step(Contradicted(), goal, [ran(Probe(100.0, 10.0), 30.0)])
    assert isinstance(found, ClaimResult)
    assert found.detail.startswith("5 s budget used up")
    (finding,) = (f for f in found.findings if f.code == "answer-against-curve")
    assert "mean response is 60 ms at 80/s, below the answer" in finding.evidence
