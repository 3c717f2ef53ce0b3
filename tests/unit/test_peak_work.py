"""What a decision of a peak search computes: what is new, and nothing beside a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.peak.policies import monotone_posterior, reading
from benchwright.features.search.peak.policies import trials as lateness
from benchwright.features.search.peak.policies.registry import policy_named
from benchwright.features.search.peak.policies.search import may_leave, next_peak_step
from benchwright.features.search.types import PeakGoal
from held_out import BY_NAME
from world import SimWorkbench, search_of

SERVER = BY_NAME["mm8-cold-per-trial"]
COUNTED = (
    (lateness, "_computed_on_time"),
    (reading, "_computed"),
    (reading, "_computed_high_bins"),
    (monotone_posterior, "_computed_noise"),
    (monotone_posterior, "_computed_posterior"),
    (reading, "_halves"),
    (reading, "_read_run"),
    (reading, "_without_contrary"),
)
"""Functions that cost time: the estimates of a trial, the distribution, what the trials show
together."""


@pytest.fixture(scope="module")
def history() -> list[LoadTrial]:
    """Return a search that went on for long: 99 runs, most of them at one rate."""
    search = search_of(policy_named("monotone"), SERVER, 5)
    found = search.history[:20]
    bench = SimWorkbench(SERVER, SERVER.criteria, 5, trials=len(found))
    while len(found) < 99:
        found.append(bench.run(Probe(363.0, 60.0, "hold"), (), lambda _: False))
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often each was called since."""
    counts: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., Any], *arguments: Any) -> Any:
        counts[name] += 1
        return real(*arguments)

    for module, name in COUNTED:
        monkeypatch.setattr(module, name, partial(counted, name, getattr(module, name)))
    return counts


def goal() -> PeakGoal:
    return msgspec.structs.replace(SERVER.goal(), max_trials=500)


def again(trials: Sequence[LoadTrial]) -> list[LoadTrial]:
    """Return copies, of which nothing is remembered."""
    return [msgspec.structs.replace(trial) for trial in trials]


@pytest.mark.parametrize("trials", [25, 50, 99])
def test_a_decision_looks_at_the_new_trial_only(
    history: list[LoadTrial], calls: Counter[str], trials: int
) -> None:
    known = again(history[:trials])
    next_peak_step(policy_named("monotone"), goal(), known[:-1])
    calls.clear()
    next_peak_step(policy_named("monotone"), goal(), known)
    assert calls["_computed_posterior"] == 1
    # The noise of a run is computed when its load is first looked at, which may be later.
    most = {"_computed_noise": 10}
    for name, count in calls.items():
        assert count <= most.get(name, 2), (name, count)


def test_the_best_answer_after_a_decision_costs_nothing(
    history: list[LoadTrial], calls: Counter[str]
) -> None:
    known = again(history[:30])
    next_peak_step(policy_named("monotone"), goal(), known)
    calls.clear()
    # As a report asks for it: another policy object, and as if time were up.
    ended = msgspec.structs.replace(goal(), max_trials=30, watched=False)
    next_peak_step(policy_named("monotone"), ended, known)
    assert set(calls) <= {"_computed_noise"}


def test_nothing_is_decided_while_a_trial_runs(
    history: list[LoadTrial], calls: Counter[str]
) -> None:
    probe = Probe(363.0, 60.0, "hold")
    known = again(history)
    next_peak_step(policy_named("monotone"), goal(), known)
    calls.clear()
    for trial in again(history[-3:]):
        may_leave(policy_named("monotone"), goal(), known, probe, trial)
    # The noise of the running trial itself.
    assert set(calls) <= {"_computed_noise"}
    assert calls["_computed_noise"] <= 3
