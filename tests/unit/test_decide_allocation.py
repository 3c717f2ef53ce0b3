"""How many replicates of each level run where a precision decides it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchwright.core.plan import (
    LevelKind,
    Replicated,
    ReplicateLevel,
    ReplicatePath,
    Replication,
    RunMore,
    StopDecision,
    UntilPrecise,
)
from benchwright.decide.allocation import pooled_numbers
from benchwright.decide.history import History, ReplicateOutcome
from benchwright.decide.replicated import decide_replicated

MS = 1_000_000
ENV, DIRECTORY = ReplicateLevel(LevelKind.ENV), ReplicateLevel(LevelKind.DIRECTORY)
Value = Callable[[ReplicatePath, int], float | None]


def history_of(outcomes: list[ReplicateOutcome]) -> History:
    failed = sum(one.values is None for one in outcomes)
    values = [one.values["elapsed"] for one in outcomes if one.values]
    return History(
        len(outcomes) - failed,
        failed,
        {"elapsed": tuple(values)} if values else {},
        outcomes=tuple(outcomes),
    )


def played(
    rule: Replicated, value: Value, made_ns: tuple[int, ...] = (40 * MS,), trial_ns: int = 10 * MS
) -> tuple[StopDecision, list[ReplicateOutcome]]:
    """Return how a test ends whose trials have these values and costs, and its outcomes."""
    outcomes: list[ReplicateOutcome] = []
    before: ReplicatePath = ()
    while True:
        step = decide_replicated(rule, history_of(outcomes))
        if isinstance(step, StopDecision):
            return step, outcomes
        for _ in range(step.epochs):
            new = [step.path[: at + 1] != before[: at + 1] for at in range(len(step.path))]
            made = tuple(cost * is_new for cost, is_new in zip(made_ns, new, strict=True))
            found = value(step.path, len(outcomes))
            values = None if found is None else {"elapsed": found}
            outcomes.append(ReplicateOutcome(step.path, values, trial_ns, made))
            before = step.path


def rule_of(*levels: ReplicateLevel, target: float = 0.05, **more: Any) -> Replicated:
    return Replicated(Replication(levels, 1), precise=UntilPrecise(target, **more))


def noise(sdev: float, trial_sdev: float) -> Value:
    """Return values around 100 in which outermost replicates and trials vary."""
    rng = np.random.default_rng(3)
    effects: dict[int, float] = {}

    def value(path: ReplicatePath, place: int) -> float:
        own = effects.setdefault(path[0], sdev * float(rng.standard_normal()))
        return 100 + own + trial_sdev * float(rng.standard_normal())

    return value


def trials_of(outcomes: list[ReplicateOutcome]) -> list[int]:
    """Return the number of trials of each outermost replicate."""
    return [
        sum(one.path[0] == number for one in outcomes)
        for number in range(1, outcomes[-1].path[0] + 1)
    ]


def test_numbers_are_the_optimum_of_kalibera_and_jones() -> None:
    # n = sqrt(cost outside / cost inside * variance inside / variance outside)
    assert pooled_numbers([1.0, 4.0], [100.0, 1.0]) == pytest.approx([20])
    assert pooled_numbers([1.0, 4.0, 1.0], [100.0, 25.0, 1.0]) == pytest.approx([4, 2.5])


def test_a_level_that_would_have_fewer_than_its_outer_one_is_joined_with_it() -> None:
    assert pooled_numbers([9.0, 1.0], [1.0, 1.0]) == [1]
    joined = pooled_numbers([9.0, 0.0, 1.0], [1.0, 1.0, 0.1])
    assert joined == pytest.approx([1, math.sqrt((1 / 0.1) / (9 / 2))])
    assert pooled_numbers([0.0, 1.0], [1.0, 1.0])[0] > 1e9


def test_few_trials_run_where_replicates_differ_most() -> None:
    stop, outcomes = played(rule_of(ENV), noise(3, 0.1))
    assert stop.reason == "precise"
    assert stop.answered
    assert trials_of(outcomes)[:3] == [2, 2, 2]
    assert set(trials_of(outcomes)[3:]) == {1}


def test_many_trials_run_where_trials_differ_most() -> None:
    stop, outcomes = played(rule_of(ENV, target=0.01), noise(0.01, 5), (400 * MS,))
    assert stop.reason == "precise"
    found = trials_of(outcomes)
    assert found[:3] == [6, 6, 6]
    assert max(found) > 20
    assert all(after <= 4 * before for before, after in pairwise(found))
    estimate = stop.reached[0].estimate
    assert estimate is not None
    assert estimate.half_width <= 0.01 * estimate.value


def test_inner_levels_have_two_in_the_pilot_and_given_numbers_stay() -> None:
    counted = ReplicateLevel(LevelKind.DIRECTORY, 3)
    _, outcomes = played(rule_of(ENV, counted), noise(3, 0.1), (MS, MS))
    for number in range(1, outcomes[-1].path[0] + 1):
        inner = {one.path[1] for one in outcomes if one.path[0] == number}
        assert inner == {1, 2, 3}
    _, outcomes = played(rule_of(ENV, DIRECTORY), noise(3, 0.1), (MS, MS))
    assert {one.path[1] for one in outcomes if one.path[0] == 1} == {1, 2}


def test_a_replayed_history_gives_the_same_decisions() -> None:
    rule = rule_of(ENV, DIRECTORY, target=0.02)
    _, outcomes = played(rule, noise(3, 1), (40 * MS, 9 * MS))
    at = 0
    while at < len(outcomes):
        step = decide_replicated(rule, history_of(outcomes[:at]))
        assert isinstance(step, RunMore)
        for _ in range(step.epochs):
            assert outcomes[at].path == step.path
            # In the middle of a batch, as after a crash, the rest of it is next.
            rest = decide_replicated(rule, history_of(outcomes[:at]))
            assert isinstance(rest, RunMore)
            assert rest.path == step.path
            at += 1


def test_limits_end_it_without_an_answer() -> None:
    stop, outcomes = played(rule_of(ENV, target=1e-6, maximum=25), noise(3, 1))
    assert (stop.reason, stop.answered, len(outcomes)) == ("max-runs", False, 25)
    limited = rule_of(ENV, target=1e-6, max_time_ns=1000 * MS)
    stop, outcomes = played(limited, noise(3, 1))
    assert stop.reason == "max-time"
    assert sum(one.spent_ns + sum(one.made_ns) for one in outcomes) <= 1000 * MS
    counted = ReplicateLevel(LevelKind.ENV, 5)
    stop, outcomes = played(rule_of(counted, DIRECTORY, target=1e-6), noise(3, 1), (MS, MS))
    assert (stop.reason, outcomes[-1].path[0]) == ("max-runs", 5)


def test_a_target_out_of_reach_is_given_up_once_time_is_spent() -> None:
    rule = rule_of(ENV, target=1e-4, give_up_ns=500 * MS)
    stop, outcomes = played(rule, noise(3, 1))
    assert stop.reason == "out-of-reach"
    assert "environments" in stop.detail
    assert len(outcomes) < 100


def test_failed_trials_and_a_missing_metric_end_it() -> None:
    stop, outcomes = played(rule_of(ENV), lambda path, place: None)
    assert (stop.reason, len(outcomes)) == ("failed", 6)
    named = Replicated(Replication((ENV,), 1), ("size",), UntilPrecise(0.05, ("size",)))
    stop, _ = played(named, noise(3, 1))
    assert stop.reason == "missing"


def test_trials_that_fail_now_and_then_count_as_attempts() -> None:
    plain = noise(3, 1)

    def value(path: ReplicatePath, place: int) -> float | None:
        return None if place % 5 == 4 else plain(path, place)

    stop, outcomes = played(rule_of(ENV), value)
    assert stop.reason == "precise"
    assert any(one.values is None for one in outcomes)
