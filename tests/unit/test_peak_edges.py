"""A search ends with a sensible result whatever its criteria, bounds and generator are: no
exception, no loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies.monotone import _MonotoneState
from benchwright.features.search.peak.policies.reading import read_runs
from benchwright.features.search.peak.policies.registry import POLICY_NAMES, policy_named
from benchwright.features.search.peak.policies.search import generator_limit, next_peak_step
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakGoal, PeakStatus
from hand_written import run_of

MEAN = Criterion("response_ms_mean", 40.0)
WITHIN = Criterion("within_40ms_share", 0.99, "", "higher", "share")
RATE = Claim(ClaimKind.RATE, 0.05)
Server = Callable[[Probe], LoadTrial]


def trial(probe: Probe, **fields: object) -> LoadTrial:
    """Return a whole trial of a probe."""
    known = {"lasted_s": probe.duration_s, "cost_s": probe.duration_s}
    return LoadTrial(rate=probe.rate, duration_s=probe.duration_s, **{**known, **fields})


def played(goal: PeakGoal, server: Server) -> tuple[list[LoadTrial], ClaimResult]:
    """Return a search's trials and its result; it must not take all of its trials."""
    history: list[LoadTrial] = []
    while True:
        step = next_peak_step(policy_named("monotone"), goal, history)
        if isinstance(step, ClaimResult):
            assert len(history) < 60, step.detail
            return history, step
        history.append(server(step))


def queue(probe: Probe) -> float:
    """Return the mean response of a queue of 300/s [ms]."""
    left = 1 - probe.rate / 300
    return 10 / left if left > 0 else 5000.0


def failing(probe: Probe, offered: int | None) -> LoadTrial:
    """Return the trial of a server that dies above 150/s, after so many operations."""
    if probe.rate <= 150:
        return trial(probe, values={MEAN.key: 10.0})
    return trial(probe, offered=offered, ending=LoadEnding.FAILED, failure="it died", lasted_s=20)


@pytest.mark.parametrize("offered", [None, 0, 60])
def test_what_a_failed_trial_offered_is_no_rate_of_it(offered: int | None) -> None:
    goal = PeakGoal(criteria=(MEAN,), claim=RATE)
    _, result = played(goal, lambda probe: failing(probe, offered))
    assert result.peak_rate is not None
    assert 120 <= result.peak_rate <= 160


def test_a_rate_that_failed_is_not_forgotten_where_short_runs_contradict() -> None:
    def serve(probe: Probe) -> LoadTrial:
        if probe.rate > 1000:
            return trial(probe, ending=LoadEnding.FAILED, failure="it died", lasted_s=0.0)
        slow = probe.rate == 50 and probe.duration_s <= 20
        return trial(probe, values={MEAN.key: 80.0 if slow else 10.0})

    history, _ = played(PeakGoal(criteria=(MEAN,), claim=RATE), serve)
    assert sum(one.ending is LoadEnding.FAILED for one in history) <= 20


@pytest.mark.parametrize("alone", [True, False])
def test_a_limit_of_no_errors_at_all_holds_without_errors(alone: bool) -> None:
    none = Criterion("error_ratio", 0.0, "", "lower", "ratio")
    goal = PeakGoal(criteria=(none,) if alone else (MEAN, none), claim=RATE)

    def serve(probe: Probe) -> LoadTrial:
        errors = 0.2 if probe.rate > 250 else 0.0
        return trial(probe, values={MEAN.key: queue(probe), none.key: errors})

    _, result = played(goal, serve)
    assert result.peak_rate is not None
    assert 190 <= result.peak_rate <= 260


@pytest.mark.parametrize("kind", list(ClaimKind))
def test_a_share_that_falls_at_once_ends_every_claim(kind: ClaimKind) -> None:
    goal = PeakGoal(criteria=(WITHIN,), claim=Claim(kind, 0.05))
    _, result = played(
        goal, lambda probe: trial(probe, values={WITHIN.key: 1.0 if probe.rate <= 1000 else 0.6})
    )
    assert result.peak_rate is not None
    assert 850 <= result.peak_rate <= 1100


def test_an_overload_is_no_lateness_where_a_share_is_limited() -> None:
    def serve(probe: Probe) -> LoadTrial:
        values = {WITHIN.key: 1.0 if probe.rate <= 1000 else 0.2}
        return trial(probe, values=values, target_values=values, late_p99_ms=15.0)

    _, result = played(PeakGoal(criteria=(WITHIN,), claim=RATE), serve)
    assert result.bound_kind is None
    assert result.peak_rate is not None
    assert 850 <= result.peak_rate <= 1100


def test_a_server_that_completes_nothing_ends_the_search() -> None:
    metric = Criterion("queue", 5.0, "", "lower", "metric")

    def serve(probe: Probe) -> LoadTrial:
        count = round(probe.rate * probe.duration_s)
        values = {metric.key: probe.rate / 50}
        return trial(probe, values=values, offered=count, completed=0)

    _, result = played(PeakGoal(criteria=(metric,), claim=RATE), serve)
    assert result.peak_rate is not None


@pytest.mark.parametrize("start", [500.0, 1600.0])
def test_a_generator_that_is_behind_ends_the_search(start: float) -> None:
    """It offers 45/s at most at a lowest rate of 500/s; 800/s at most of a server of 1,000/s."""
    most = 45 if start == 500 else 800

    def serve(probe: Probe) -> LoadTrial:
        rate = min(probe.rate, most) if probe.rate > 700 or most == 45 else probe.rate
        mean = 600.0 if most == 45 else (900.0 if probe.rate > 1000 else 10.0)
        offered = round(rate * probe.duration_s)
        return trial(probe, values={MEAN.key: mean}, offered=offered)

    lowest = 500.0 if most == 45 else None
    goal = PeakGoal(criteria=(MEAN,), claim=RATE, start_rate=start, lowest_rate=lowest)
    played(goal, serve)


def test_a_generator_with_steps_that_is_late_ends_the_search() -> None:
    def serve(probe: Probe) -> LoadTrial:
        late = 90.0 if probe.rate >= 300 else 0.0
        return trial(
            probe, values={MEAN.key: 10.0 + late}, target_values={MEAN.key: 10.0}, late_p99_ms=late
        )

    goal = PeakGoal(criteria=(MEAN,), claim=RATE, start_rate=100.0, rate_step=100.0)
    _, result = played(goal, serve)
    assert result.bound_kind == "lower"
    assert result.peak_rate == 200


def test_a_queue_without_noise_is_found_from_beside_its_peak() -> None:
    for start in (222.9, 223.07, 224.2, 40.0):
        goal = PeakGoal(criteria=(MEAN,), claim=Claim(ClaimKind.RATE, 0.1), start_rate=start)
        _, result = played(goal, lambda probe: trial(probe, values={MEAN.key: queue(probe)}))
        assert result.status is PeakStatus.FOUND
        assert result.peak_rate is not None
        assert math.isclose(result.peak_rate, 225, rel_tol=0.03)


@pytest.mark.parametrize("limits", [{"max_trials": 1}, {"max_trials": 2}, {"budget_s": 1.5}])
def test_a_very_small_search_has_no_guess(limits: dict[str, float]) -> None:
    goal = PeakGoal(criteria=(MEAN,), claim=RATE, guess_users=8, **limits)  # type: ignore[arg-type]
    history, result = played(
        goal, lambda probe: trial(probe, values={MEAN.key: 10.0}, users=probe.users)
    )
    assert all(one.users is None for one in history)
    assert result.bound_kind == "lower"


def with_series(probe: Probe, number: int, slower: Callable[[float], float]) -> LoadTrial:
    """Return a trial whose response, 38 ms on average of a rate of 200/s, is so many times as long
    at each share of it."""
    seconds = round(probe.duration_s)
    shares = (np.arange(seconds) + 0.5) / seconds
    noise = 1 + 0.02 * np.random.default_rng(number).standard_normal(seconds)
    level = 38 * (probe.rate / 200) ** 6
    return run_of(probe.rate, (level * noise * [slower(x) for x in shares]).tolist())


@pytest.mark.parametrize("bound", ["highest_rate", "lowest_rate"])
@pytest.mark.parametrize("start", [100.0, 200.0, 400.0])
@pytest.mark.parametrize(
    "slower",
    [lambda at: 1.3 if at < 0.25 else 1.0, lambda at: 0.5 if at < 0.25 else 1.08, lambda _: 1.0],
)
def test_a_bound_is_judged_by_the_part_of_a_trial_that_counts(
    bound: str, start: float, slower: Callable[[float], float]
) -> None:
    """The whole trial at 200/s is on one side of the limit, and what counts of it on the other."""
    goal = PeakGoal(
        criteria=(MEAN,),
        claim=RATE,
        start_rate=start,
        **{bound: 200.0},  # type: ignore[arg-type]
    )
    numbers = iter(range(1000))
    _, result = played(goal, lambda probe: with_series(probe, next(numbers), slower))
    holds = slower(0.9) == 1
    assert result.peak_rate is not None
    differs = slower(0.0) != slower(0.9) and result.status is not PeakStatus.FOUND
    assert ("its beginning is left out" in result.detail) == differs
    if bound == "highest_rate" and holds:
        assert result.status is PeakStatus.NEVER_FAILS
    elif bound == "lowest_rate" and not holds:
        assert result.status is PeakStatus.FAILS_AT_LOWEST
    else:
        assert result.status is PeakStatus.FOUND


def noisy(probe: Probe, number: int, value: float) -> LoadTrial:
    """Return a trial of a server whose response scatters by 10 %."""
    scatter = 1 + 0.1 * math.sin(12.9898 * number)
    return trial(probe, values={MEAN.key: value * scatter})


@pytest.mark.parametrize("kind", list(ClaimKind))
@pytest.mark.parametrize("peak", [310.0, 350.0, 390.0])
@pytest.mark.parametrize("steepness", [3.0, 12.0, 60.0])
def test_an_answer_is_a_rate_that_the_generator_offers_and_both_beside_it_are_tried(
    kind: ClaimKind, peak: float, steepness: float
) -> None:
    goal = PeakGoal(criteria=(MEAN,), claim=Claim(kind, 0.05), rate_step=100.0)
    numbers = iter(range(1000))

    def serve(probe: Probe) -> LoadTrial:
        response = min(40 * (probe.rate / peak) ** steepness, 4000)
        return noisy(probe, next(numbers), response)

    history, result = played(goal, serve)
    assert result.peak_rate in (300, 400)
    assert result.status is PeakStatus.FOUND or result.peak_rate == 300
    rates = [one.rate for one in history[-24:]]
    if result.status is not PeakStatus.FOUND:
        assert abs(rates.count(300) - rates.count(400)) <= 4, rates


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_every_policy_answers_with_a_rate_that_the_generator_offers(policy: str) -> None:
    goal = PeakGoal(criteria=(MEAN,), claim=RATE, rate_step=30.0, max_trials=60)
    numbers = iter(range(1000))
    history: list[LoadTrial] = []
    while isinstance(step := next_peak_step(policy_named(policy), goal, history), Probe):
        history.append(noisy(step, next(numbers), queue(step)))
    assert step.peak_rate is not None
    assert step.peak_rate % 30 == 0


def test_a_percentile_that_is_never_reached_is_no_response() -> None:
    """Operations failed in half of the seconds; the other half is quick."""
    column = [5.0, math.inf] * 30
    seconds = msgspec.structs.replace(run_of(100, [5.0] * 60).series, values={"p99": tuple(column)})
    p99 = Criterion("p99", 40.0, "ms", "lower", "percentile", 0.99)
    one = msgspec.structs.replace(run_of(100, [5.0] * 60), series=seconds, values={"p99": math.inf})
    assert not read_runs(p99, [one])[0].steady


def test_a_trial_that_failed_does_not_hide_the_generators_limit() -> None:
    goal = PeakGoal(criteria=(MEAN,), claim=RATE)
    behind = [
        trial(Probe(rate, 10.0, "double"), values={MEAN.key: 5.0}, offered=1500)
        for rate in (300.0, 600.0)
    ]
    died = trial(Probe(900.0, 10.0, "double"), offered=0, ending=LoadEnding.FAILED, lasted_s=0.5)
    assert generator_limit(goal, [*behind, died]) == 150.0


@pytest.mark.parametrize(("estimate", "answer"), [(212.0, 200.0), (208.0, 200.0)])
def test_an_answer_in_steps_is_below_one_that_most_trials_exceeded(
    monkeypatch: pytest.MonkeyPatch, estimate: float, answer: float
) -> None:
    state = object.__new__(_MonotoneState)
    state.goal = PeakGoal(criteria=(MEAN,), claim=RATE, rate_step=10.0)
    state.claim = RATE
    monkeypatch.setattr(_MonotoneState, "_estimate", lambda _: estimate)
    held = [(210.0, False), (210.0, False), (210.0, True)]
    monkeypatch.setattr(_MonotoneState, "_held", lambda _: held)
    assert state.rate() == answer
