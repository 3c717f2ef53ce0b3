"""Which search continues a history, why it changes, and that a cache changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from benchwright.core.results import Severity
from benchwright.core.search import (
    Claim,
    ClaimKind,
    ClaimResult,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.default import DefaultPeakPolicy, search_mode
from benchwright.decide.peak.monotone import MONOTONE_PURPOSES
from benchwright.decide.peak.queue_guided import QueueGuided
from benchwright.decide.peak.search import next_peak_step
from hand_written import overloaded_run
from servers import ERRORS, R_SAT, SERVERS
from world import Search, search_of

BY_NAME = {server.name: server for server in SERVERS}
NEAR = Claim(ClaimKind.RATE, 0.05)


def codes(search: Search) -> set[str]:
    """Return the codes of a result's findings."""
    assert search.result is not None
    return {found.code for found in search.result.findings}


def test_a_queue_is_searched_by_its_curve() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1, NEAR)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert search.result.policy == "qgs"
    assert codes(search) == set()
    assert not {probe.purpose for probe in search.probes} & set(MONOTONE_PURPOSES)


WHY_BY_ORDER = {
    "curve-fits-no-queue",
    "throughput-drops-under-overload",
    "server-stalls",
}
"""A search that does not use a queue's curve reports one of these."""


@pytest.mark.parametrize(
    ("name", "code"),
    [("kink", "throughput-drops-under-overload"), ("stalls", "server-stalls")],
)
def test_what_is_no_queue_is_searched_by_order(name: str, code: str) -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME[name], 3)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert code in codes(search)
    assert "assuming only" in search.result.detail
    mine = [probe.purpose in MONOTONE_PURPOSES for probe in search.probes]
    # Once it is the fallback's search it stays so.
    assert mine == sorted(mine)
    assert not mine[0]
    assert mine[-1]


def test_what_is_remembered_changes_nothing() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["kink"], 3, NEAR)
    policy = DefaultPeakPolicy()
    for n in range(len(search.history) + 1):
        history = search.history[:n]
        # Copies: nothing is remembered of them.
        fresh = [msgspec.structs.replace(trial) for trial in history]
        assert policy.next(search.goal, history) == policy.next(search.goal, fresh)


class Endless(QueueGuided):
    """A guided search that never converges."""

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the same probe for ever."""
        return Probe(100.0, 10.0, "focus")


def test_a_search_that_does_not_converge_falls_back() -> None:
    policy = DefaultPeakPolicy(guided=Endless())
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1, NEAR)
    history = (search.history * tuning.MOST_GUIDED_TRIALS)[: tuning.MOST_GUIDED_TRIALS]
    short = policy.next(search.goal, history[:-1])
    assert isinstance(short, Probe)
    assert short.purpose == "focus"
    mode = search_mode(search.goal, history)
    assert mode.criterion is None
    assert [finding.code for finding in mode.findings] == ["curve-fits-no-queue"]
    assert f"{tuning.MOST_GUIDED_TRIALS} trials" in mode.findings[0].evidence


def test_rates_that_failed_twice_are_told_as_the_reason() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1, NEAR)
    failed = [
        msgspec.structs.replace(
            search.history[-1],
            rate=rate,
            ending=LoadEnding.FAILED,
            failure="connection refused",
        )
        for rate in (600.0, 500.0)
    ]
    mode = search_mode(search.goal, [*search.history, *failed])
    assert mode.criterion is None
    assert [finding.code for finding in mode.findings] == ["curve-fits-no-queue"]
    assert "from 500/s" in mode.findings[0].evidence


def test_a_criterion_without_a_curve_is_told_as_the_reason() -> None:
    quality = Criterion(key="quality", limit=10.0, unit="", statistic="metric")
    mode = search_mode(goal_of(quality), [])
    assert mode.criterion is None
    assert [(f.code, f.severity) for f in mode.findings] == [
        ("curve-fits-no-queue", Severity.NOTE)
    ]
    assert "quality" in mode.findings[0].evidence


class Found(QueueGuided):
    """A guided search that has found something whatever it is told."""

    def __init__(self, result: ClaimResult) -> None:
        self.result = result

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return what was found."""
        return self.result


def test_a_curve_that_its_runs_contradict_is_not_the_answer() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1)
    assert search.result is not None
    policy = DefaultPeakPolicy(guided=Found(search.result))
    assert policy.next(search.goal, search.history) == search.result
    # The same curve at higher rates: every run near the answer is off.
    points = tuple(
        msgspec.structs.replace(point, rate=1.15 * point.rate)
        for point in search.result.curve
    )
    moved = msgspec.structs.replace(search.result, curve=points)
    step = DefaultPeakPolicy(guided=Found(moved)).next(search.goal, search.history)
    if isinstance(step, Probe):
        assert step.purpose in MONOTONE_PURPOSES
    else:
        assert WHY_BY_ORDER & {finding.code for finding in step.findings}


def test_a_drift_takes_the_answer_away() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1, NEAR)
    assert search.result is not None
    first, last = overloaded_run(400.0, 300.0), overloaded_run(400.0, 270.0)
    late = msgspec.structs.replace(search.history[-1], cost_s=600.0)
    policy = DefaultPeakPolicy(guided=Found(search.result))
    steady = policy.next(search.goal, [*search.history, first, late, first])
    assert isinstance(steady, ClaimResult)
    assert steady.status is PeakStatus.FOUND
    found = policy.next(search.goal, [*search.history, first, late, last])
    assert isinstance(found, ClaimResult)
    assert found.status is PeakStatus.UNDECIDED
    assert found.peak_rate == search.result.peak_rate
    assert found.interval == search.result.interval
    assert found.claim_probability is None
    assert "a minute" in found.detail
    assert "drift" in {finding.code for finding in found.findings}


def goal_of(*criteria: Criterion) -> PeakGoal:
    """Return a goal with these criteria."""
    return PeakGoal(criteria=criteria)


def test_the_criterion_that_fails_first_is_followed() -> None:
    search = search_of(DefaultPeakPolicy(), BY_NAME["A-mm4"], 1, NEAR)
    clean = [
        msgspec.structs.replace(t, values={**t.values, "error_ratio": 0.0})
        for t in search.history
    ]
    assert search_mode(goal_of(ERRORS, R_SAT), clean).criterion == R_SAT
    assert search_mode(goal_of(ERRORS), clean).criterion is None
    assert search_mode(goal_of(R_SAT), []).criterion == R_SAT


def test_shedding_is_told_and_found() -> None:
    server = BY_NAME["shedding"]
    search = search_of(DefaultPeakPolicy(), server, 1, Claim(ClaimKind.RATE, 0.05))
    assert search.result is not None
    assert search.result.peak_rate == pytest.approx(server.peak_rate, rel=0.05)
    assert "sheds-load" in codes(search)
    assert search.result.binding == "error_ratio"


def test_a_search_without_trials_begins() -> None:
    step = next_peak_step(DefaultPeakPolicy(), goal_of(R_SAT), [])
    assert isinstance(step, Probe)
    assert step.rate == 50.0
    assert DefaultPeakPolicy().best(goal_of(R_SAT), []).peak_rate is None
