"""From a session of `bw ramp`, `bw peak` or `bw surface` to its report and view, as it ends or as it
is stored.

One source for the command that has just ended, `bw stats`, `bw resume` and the report page.
Decision: each function imports its own kind, because each kind imports its policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.results import Finding
from benchwright.features.search.experiments import search_experiment
from benchwright.features.search.explained import explained_loads
from benchwright.features.search.keys import search_key
from benchwright.features.search.profiles import search_profile_findings
from benchwright.features.search.report import disturbed_loads
from benchwright.features.search.session import SearchExperiment, recorded_trials
from benchwright.features.search.stored import search_trials_of
from benchwright.features.search.types import ClaimResult, SearchTrial
from benchwright.findings.explanation import Explanation
from benchwright.run.ledger import Ledger
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import StoredSession, Study

if TYPE_CHECKING:
    from benchwright.features.search.peak.experiment import PeakExperiment
    from benchwright.features.search.peak.report import PeakReport
    from benchwright.features.search.ramp.experiment import RampExperiment
    from benchwright.features.search.ramp.report import RampReport
    from benchwright.features.search.surface.experiment import SurfaceExperiment
    from benchwright.features.search.surface.report import SurfaceReport
    from benchwright.features.search.view import SearchView


_ENDED_SURFACES = ("complete", "undecided", "fails-at-lowest", "deadline")
"""Statuses of surfaces whose searches are all over."""


def stored_verdict(
    experiment: SearchExperiment[Any, Any], stored: StoredSession, ledger: Ledger
) -> SessionVerdict:
    """Return how a stored search ended; also set the experiment's recorded result."""
    experiment.result = experiment.recorded(ledger)
    # A surface has a result before it has ended, and its failed searches may be recorded by a gang
    # only.
    ended = stored.info.kind != "surface" or stored.status in _ENDED_SURFACES
    if experiment.result is not None and ended:
        return experiment.verdict(experiment.result)
    detail = stored.detail or "it has not ended"
    return SessionVerdict(stored.status, detail, 0)


class OpenedSearch(NamedTuple):
    """A stored search, which may be incomplete, ready for its report."""

    experiment: Any
    ledger: Ledger
    verdict: SessionVerdict


def open_search(study: Study, session: StoredSession) -> OpenedSearch:
    """Return a session of a search as its report reads it."""
    ledger = Ledger(study, session.number)
    experiment: Any = search_experiment(session.info)
    return OpenedSearch(experiment, ledger, stored_verdict(experiment, session, ledger))


def search_view(
    opened: OpenedSearch,
    about_session: Sequence[Finding],
    loads: Sequence[Explanation] | None = None,
    predict: Sequence[Pairs] | None = None,
    *,
    part: str = "",
    verbose: bool = False,
) -> SearchView[Any]:
    """Return the view of a search, which may be incomplete.

    `loads`: what `explained_loads` returns for the session, if the caller has it; `predict`: the
    samples of a surface to predict, None: those of the request; `part`, `verbose`: of the view.
    """
    match opened.experiment.info.kind:
        case "peak":
            from benchwright.features.search.peak.view import PeakView

            return PeakView(peak_report(opened, about_session, loads), part, verbose=verbose)
        case "ramp":
            from benchwright.features.search.ramp.view import RampView

            return RampView(ramp_report(opened, about_session, loads), part, verbose=verbose)
    from benchwright.features.search.surface.view import SurfaceView

    return SurfaceView(surface_report(opened, about_session, predict), part, verbose=verbose)


def _shared(
    opened: OpenedSearch, about_session: Sequence[Finding], loads: Sequence[Explanation] | None
) -> dict[str, Any]:
    """Return the members that the reports of a peak search and of a ramp have in common."""
    trials, _ = recorded_trials(search_key(), opened.ledger)
    if loads is None:
        loads = explained_loads(opened.ledger, opened.experiment.info)
    return {
        "detail": opened.verdict.detail,
        "trials": tuple(trials),
        "sample": opened.experiment.plan.sample,
        "target": opened.experiment.target,
        "disturbed": disturbed_loads(loads),
        "bench_findings": _with_profiles(about_session, trials),
    }


def peak_report(
    opened: OpenedSearch, about_session: Sequence[Finding], loads: Sequence[Explanation] | None
) -> PeakReport:
    """Return the answer of a peak search, or the best so far of an interrupted one."""
    from benchwright.features.search.peak.report import PeakReport

    experiment: PeakExperiment = opened.experiment
    plan, answer = experiment.plan, experiment.result
    shared = _shared(opened, about_session, loads)
    results: tuple[ClaimResult | None, ...]
    if answer is None:
        best = experiment.best_so_far(shared["trials"])
        results = (best, *(None for _ in plan.claims[1:]))
    else:
        results = answer.claims
    return PeakReport(
        status=opened.verdict.status if answer is None else answer.deciding.status.value,
        criteria=plan.goal.criteria,
        claims=plan.claims,
        results=results,
        # Of a stored answer the policy that gave it, which may be one that is gone.
        policy=plan.policy if results[0] is None else results[0].policy,
        seed=plan.goal.seed,
        budget_s=plan.goal.budget_s,
        **shared,
    )


def ramp_report(
    opened: OpenedSearch, about_session: Sequence[Finding], loads: Sequence[Explanation] | None
) -> RampReport:
    """Return the result of a ramp, or the levels so far of an interrupted one."""
    from benchwright.features.search.ramp.policy import best_so_far
    from benchwright.features.search.ramp.report import RampReport

    experiment: RampExperiment = opened.experiment
    plan, result = experiment.plan, experiment.result
    shared = _shared(opened, about_session, loads)
    status = opened.verdict.status if result is None else result.status.value
    if result is None and shared["trials"]:
        result = best_so_far(plan.goal, [trial.trial for trial in shared["trials"]])
    return RampReport(status=status, goal=plan.goal, result=result, seed=plan.goal.seed, **shared)


def surface_report(
    opened: OpenedSearch, about_session: Sequence[Finding], predict: Sequence[Pairs] | None
) -> SurfaceReport:
    """Return a surface, or the samples so far of an interrupted one."""
    from benchwright.features.search.surface.report import SurfaceReport
    from benchwright.features.search.surface.result import predict_samples

    experiment: SurfaceExperiment = opened.experiment
    plan, ledger = experiment.plan, opened.ledger
    trials = tuple(search_trials_of(ledger.study, ledger.session))
    result = experiment.result
    if result is None:
        # Includes the cost of the trials at the interrupted sample.
        result = msgspec.structs.replace(
            experiment.recorded(ledger),
            trials=len(trials),
            load_s=sum(trial.trial.lasted_s for trial in trials),
            cost_s=sum(trial.trial.cost_s for trial in trials),
        )
    wanted = plan.predict if predict is None else predict
    return SurfaceReport(
        status=opened.verdict.status,
        detail=opened.verdict.detail,
        trials=trials,
        goal=plan.goal,
        claims=plan.claims,
        policy=next((one.found.policy for one in result.results), plan.policy),
        result=result,
        asked=predict_samples(plan.goal, result.results, wanted),
        bench_findings=_with_profiles(about_session, trials),
    )


def _with_profiles(
    about_session: Sequence[Finding], trials: Sequence[SearchTrial]
) -> tuple[Finding, ...]:
    return (*about_session, *search_profile_findings("search", trials))
