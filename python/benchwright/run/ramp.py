"""A ramp as the driver of searches runs it."""

from __future__ import annotations

from functools import partial

from benchwright.core.ramp import RampResult, RampStatus
from benchwright.decide.ramp.policy import next_ramp_step
from benchwright.run.search import Search
from benchwright.run.search_requests import RampPlan
from benchwright.run.session import SessionVerdict
from benchwright.study.keys import search_key


def ramp_search(plan: RampPlan, key: str = search_key()) -> Search[RampResult]:
    """Return the search of a plan; no running trial is left early: each level is held."""
    return Search(
        kind=RampResult,
        step=partial(next_ramp_step, plan.goal),
        gives_up=_gives_up,
        key=key,
        sample=plan.sample,
    )


def ramp_verdict(result: RampResult) -> SessionVerdict:
    """Return how a session ends whose ramp came to this, by the ramp's own word."""
    return SessionVerdict(result.status.value, result.detail, _exit_status(result))


def _exit_status(result: RampResult) -> int:
    if result.status is RampStatus.BUDGET:
        return 3
    useless = result.status is RampStatus.ERRORS and len(result.points) == 1
    return 1 if useless or result.status is RampStatus.FAILED else 0


def _gives_up(result: RampResult) -> bool:
    return result.status is RampStatus.FAILED
