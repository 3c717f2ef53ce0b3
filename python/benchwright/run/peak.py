"""A peak search as the driver runs it: one policy, one or several claims.

Several claims are searched for one after the other over the same trials: as long as one of
them lacks something, its probe is the next. Nothing is measured twice, and the answer holds
all. A running probe is left only when it has told enough for every claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from benchwright.core.search import (
    LoadTrial,
    PeakAnswer,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
)
from benchwright.decide.peak.policy import Policy, policy_named
from benchwright.decide.peak.search import may_leave, next_peak_step
from benchwright.run.search import Search
from benchwright.run.search_requests import PeakPlan
from benchwright.run.session import SessionVerdict
from benchwright.study.keys import search_key

_EXIT_STATUS = {
    PeakStatus.FOUND: 0,
    PeakStatus.BUDGET: 3,
    PeakStatus.UNDECIDED: 3,
    PeakStatus.NEVER_FAILS: 3,
    PeakStatus.FAILS_AT_LOWEST: 1,
    PeakStatus.FAILED: 1,
}
"""Exit status by how the search ended: 3 is no answer, 1 a server that cannot do it."""


def peak_search(
    plan: PeakPlan, *, watched: bool, key: str = search_key()
) -> Search[PeakAnswer]:
    """Return the search of a plan, on a workbench whose trials can be watched or not."""
    policy, goals = policy_named(plan.policy), _goals(plan, watched=watched)
    return Search(
        kind=PeakAnswer,
        step=partial(_step, policy, goals),
        leaves=partial(_leaves, policy, goals),
        gives_up=_gives_up,
        key=key,
        sample=plan.sample,
    )


def best_so_far(plan: PeakPlan, history: Sequence[LoadTrial]) -> PeakResult | None:
    """Return what is known of the first claim after these trials; None before any."""
    if not history:
        return None
    goal = msgspec.structs.replace(
        _goals(plan, watched=False)[0], max_trials=len(history)
    )
    found = next_peak_step(policy_named(plan.policy), goal, history)
    assert isinstance(found, PeakResult), "there is no trial left to ask for"
    return found


def peak_verdict(answer: PeakAnswer) -> SessionVerdict:
    """Return how a session ends whose search came to this: by the search's own word, which
    the report, the journal, the export and `bw resume` all say."""
    found = answer.deciding
    return SessionVerdict(found.status.value, found.detail, _EXIT_STATUS[found.status])


def _goals(plan: PeakPlan, *, watched: bool) -> tuple[PeakGoal, ...]:
    return tuple(
        msgspec.structs.replace(plan.goal, claim=claim, watched=watched)
        for claim in plan.claims
    )


def _step(
    policy: Policy, goals: Sequence[PeakGoal], history: Sequence[LoadTrial]
) -> Probe | PeakAnswer:
    results: list[PeakResult] = []
    for goal in goals:
        answer = next_peak_step(policy, goal, history)
        if isinstance(answer, Probe):
            return answer
        results.append(answer)
    return PeakAnswer(tuple(results))


def _leaves(
    policy: Policy,
    goals: Sequence[PeakGoal],
    history: Sequence[LoadTrial],
    probe: Probe,
    so_far: LoadTrial,
) -> bool:
    return all(may_leave(policy, goal, history, probe, so_far) for goal in goals)


def _gives_up(answer: PeakAnswer) -> bool:
    return answer.deciding.status is PeakStatus.FAILED
