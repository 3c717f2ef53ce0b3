"""Whose search it is, why it changes, and that a memory changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from benchwright.control.peak.guided import MOST_TRIALS, Guided
from benchwright.control.peak.monotone import PURPOSES
from benchwright.control.peak.qgs import QGS
from benchwright.control.peak.search import next_step
from benchwright.model.peak import (
    Claim,
    ClaimKind,
    Criterion,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
)
from servers import ERRORS, R_SAT, SERVERS
from world import Search, search_of

BY_NAME = {server.name: server for server in SERVERS}
NEAR = Claim(ClaimKind.RATE, 0.05)


def codes(search: Search) -> set[str]:
    """Return what a search's result doubts."""
    assert search.result is not None
    return {found.code for found in search.result.findings}


def test_a_queue_is_searched_by_its_curve() -> None:
    search = search_of(Guided(), BY_NAME["A-mm4"], 1, NEAR)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert search.result.policy == "qgs"
    assert codes(search) == set()
    assert not {probe.purpose for probe in search.probes} & set(PURPOSES)


@pytest.mark.parametrize(
    ("name", "code"), [("kink", "curve-fits-no-queue"), ("stalls", "server-stalls")]
)
def test_what_is_no_queue_is_searched_by_order(name: str, code: str) -> None:
    search = search_of(Guided(), BY_NAME[name], 2)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert code in codes(search)
    assert "assuming only" in search.result.detail
    mine = [probe.purpose in PURPOSES for probe in search.probes]
    # Once it is the fallback's search it stays so.
    assert mine == sorted(mine)
    assert not mine[0]
    assert mine[-1]


def test_its_memory_changes_nothing() -> None:
    search = search_of(Guided(), BY_NAME["kink"], 3, NEAR)
    remembering = Guided()
    for n in range(len(search.history) + 1):
        history = search.history[:n]
        assert remembering.next(search.goal, history) == Guided().next(
            search.goal, history
        )
    # Of another search it remembers nothing.
    other = search_of(Guided(), BY_NAME["A-mm4"], 3, NEAR)
    assert remembering.next(other.goal, other.history) == other.result or isinstance(
        remembering.next(other.goal, other.history), PeakResult
    )


class Endless(QGS):
    """A guided search that never converges."""

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the same probe for ever."""
        return Probe(100.0, 10.0, "focus")


def test_a_search_that_does_not_converge_falls_back() -> None:
    policy = Guided(guided=Endless())
    search = search_of(Guided(), BY_NAME["A-mm4"], 1, NEAR)
    history = (search.history * MOST_TRIALS)[:MOST_TRIALS]
    short = policy.next(search.goal, history[:-1])
    assert isinstance(short, Probe)
    assert short.purpose == "focus"
    assert policy.course(search.goal, history).criterion is None


def goal_of(*criteria: Criterion) -> PeakGoal:
    """Return a goal with these criteria."""
    return PeakGoal(criteria=criteria)


def test_the_criterion_that_fails_first_is_followed() -> None:
    search = search_of(Guided(), BY_NAME["A-mm4"], 1, NEAR)
    clean = [
        msgspec.structs.replace(t, values={**t.values, "error_ratio": 0.0})
        for t in search.history
    ]
    policy = Guided()
    assert policy.course(goal_of(ERRORS, R_SAT), clean).criterion == R_SAT
    assert policy.course(goal_of(ERRORS), clean).criterion is None
    assert policy.course(goal_of(R_SAT), []).criterion == R_SAT


def test_shedding_is_told_and_found() -> None:
    server = BY_NAME["shedding"]
    search = search_of(Guided(), server, 1, Claim(ClaimKind.RATE, 0.05))
    assert search.result is not None
    assert search.result.peak_rate == pytest.approx(server.peak_rate, rel=0.05)
    assert "sheds-load" in codes(search)
    assert search.result.binding == "error_ratio"


def test_a_search_without_trials_begins() -> None:
    step = next_step(Guided(), goal_of(R_SAT), [])
    assert isinstance(step, Probe)
    assert step.rate == 50.0
    assert Guided().best(goal_of(R_SAT), []).peak_rate is None
