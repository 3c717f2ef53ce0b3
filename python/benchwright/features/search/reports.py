"""From a session of `bw ramp`, `bw peak` or `bw surface`, as it ends or as it is stored, to its
report, its view, and what it found at each sample: the points of a history and the figures of an
export.

One source for the command that has just ended, `bw stats`, `bw resume` and the report page.
Decision: each function imports its own kind, because each kind imports its policies.

The answer of a peak search, and of each sample of a surface, is its peak rate; that of a ramp is the
throughput at which it saturates. Decision: a bound is no estimate, and an interrupted search has
only a guess, so they have none. A search that ended before its claim held has an answer with a
serious finding, so that no gate decides by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchwright.core.criterion import criterion_text
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.features.search.documents import search_profile_findings
from benchwright.features.search.experiments import search_experiment
from benchwright.features.search.explained import disturbed_loads, explained_loads
from benchwright.features.search.keys import search_key, search_trials_of
from benchwright.features.search.peak.report import PeakReport
from benchwright.features.search.ramp.report import RampReport
from benchwright.features.search.ramp.types import RampStatus
from benchwright.features.search.session import SearchExperiment, recorded_trials, stored_spec
from benchwright.features.search.surface.report import SurfaceReport, named_findings
from benchwright.features.search.surface.types import ESTIMATED_STATUSES, SurfaceQuestions
from benchwright.features.search.target_spec import TARGET_FILE
from benchwright.features.search.text import sample_text
from benchwright.features.search.types import ClaimResult, PeakStatus, SearchTrial
from benchwright.findings.codes import make_finding
from benchwright.findings.explanation import Explanation
from benchwright.inputs.mistakes import SourceFile
from benchwright.inputs.template import command_name
from benchwright.page.kinds import SampleAnswer, SampleFigures, SampleMetric, SessionOutcome
from benchwright.report.answer import State
from benchwright.run.ledger import Ledger
from benchwright.run.session import SessionVerdict
from benchwright.study.contents import findings_about_session
from benchwright.study.journal import StoredSession, Study

if TYPE_CHECKING:
    from benchwright.features.search.peak.experiment import PeakExperiment
    from benchwright.features.search.ramp.experiment import RampExperiment
    from benchwright.features.search.surface.experiment import SurfaceExperiment
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
    questions: SurfaceQuestions | None = None,
    *,
    part: str = "",
    verbose: bool = False,
) -> SearchView[Any]:
    """Return the view of a search, which may be incomplete.

    `loads`: what `explained_loads` returns for the session, if the caller has it; `questions`:
    those about a surface, None: the request's; `part`, `verbose`: of the view.
    """
    match opened.experiment.info.kind:
        case "peak":
            from benchwright.features.search.peak.view import PeakView

            return PeakView(peak_report(opened, about_session, loads), part, verbose=verbose)
        case "ramp":
            from benchwright.features.search.ramp.view import RampView

            return RampView(ramp_report(opened, about_session, loads), part, verbose=verbose)
    from benchwright.features.search.surface.view import SurfaceView

    return SurfaceView(surface_report(opened, about_session, questions), part, verbose=verbose)


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
    from benchwright.features.load.plan import LoadEnding
    from benchwright.features.search.ramp.policy import best_so_far
    from benchwright.features.search.ramp.queues import level_resources, queue_network
    from benchwright.features.search.ramp.report import RampReport

    experiment: RampExperiment = opened.experiment
    plan, result = experiment.plan, experiment.result
    shared = _shared(opened, about_session, loads)
    status = opened.verdict.status if result is None else result.status.value
    if result is None and shared["trials"]:
        result = best_so_far(plan.goal, [trial.trial for trial in shared["trials"]])
    good = [
        trial.trial for trial in shared["trials"] if trial.trial.ending is not LoadEnding.FAILED
    ]
    return RampReport(
        status=status,
        goal=plan.goal,
        result=result,
        seed=plan.goal.seed,
        resources=level_resources(good),
        network=queue_network(plan.goal, good),
        **shared,
    )


def surface_report(
    opened: OpenedSearch, about_session: Sequence[Finding], questions: SurfaceQuestions | None
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
    asked = plan.questions if questions is None else questions
    return SurfaceReport(
        status=opened.verdict.status,
        detail=opened.verdict.detail,
        trials=trials,
        goal=plan.goal,
        claims=plan.claims,
        policy=next((sample_result.found.policy for sample_result in result.results), plan.policy),
        result=result,
        asked=predict_samples(plan.goal, result.results, asked.predict),
        questions=asked,
        bench_findings=_with_profiles(about_session, trials),
    )


def _with_profiles(
    about_session: Sequence[Finding], trials: Sequence[SearchTrial]
) -> tuple[Finding, ...]:
    return (*about_session, *search_profile_findings("search", trials))


_SEARCH_TABLES = ("peak", "ramp", "surface", "factors")
"""Tables of a spec about the search itself; the others are about what it measures."""


def search_outcome(study: Study, session: StoredSession) -> SessionOutcome:
    """Return what a session of a search found, which may be incomplete.

    Raises StudyError for a record that cannot be read.
    """
    spec = stored_spec(session.info)
    request = msgspec.json.decode(session.info.sources[0][1])
    about = findings_about_session(study, session.number)
    opened = open_search(study, session)
    view = search_view(opened, about)
    report: PeakReport | RampReport | SurfaceReport = view.report
    if isinstance(report, PeakReport):
        figures = [_peak_figures(report.sample, report.result, report.status)]
    elif isinstance(report, RampReport):
        figures = list(_ramp_figures(report))
    else:
        results = report.result.by_sample.values()
        figures = [
            _peak_figures(result.sample, result.found, result.found.status) for result in results
        ]
    return SessionOutcome(
        status=report.status,
        detail=report.detail,
        exit_status=opened.verdict.exit_status,
        subject=search_name(spec, request),
        answers=tuple(
            _completed(answer, measured_digest(spec, request)) for answer in _answers_of(report)
        ),
        figures=tuple(figures),
        sentence=view.sentence(),
        spent_s=report.result.cost_s if isinstance(report, SurfaceReport) else report.cost_s,
        findings=view.named_findings(),
    )


# -- The answers -----------------------------------------------------------------------


def _answers_of(report: PeakReport | RampReport | SurfaceReport) -> Iterator[SampleAnswer]:
    if report.status == "interrupted" and not isinstance(report, SurfaceReport):
        return
    if isinstance(report, RampReport):
        ramp_result = report.result
        at = None
        what = report.detail
        if ramp_result is not None and ramp_result.saturation is not None:
            what = f"throughput at saturation, over {report.goal.axis}"
            at = ramp_result.saturation.throughput
        yield SampleAnswer(
            sample=report.sample,
            metric="throughput",
            unit="/s",
            better="higher",
            estimate=at,
            what=what,
            is_answered=report.status == RampStatus.SATURATED,
            is_failed=report.status == RampStatus.FAILED,
            findings=report.findings,
        )
        return
    if isinstance(report, PeakReport):
        criteria, peaks = report.criteria, [(report.sample, report.result)]
        named = [("", finding) for finding in report.findings]
    else:
        criteria = report.goal.peak.criteria
        peaks = [(at, sample_result.found) for at, sample_result in report.result.by_sample.items()]
        named = named_findings(report)
    for sample, peak in peaks:
        rate = None
        what = report.detail if peak is None else peak.detail
        estimated = peak is not None and peak.status in ESTIMATED_STATUSES
        if peak is not None and estimated and peak.bound_kind is None:
            rate = peak.rate_estimate()
        if peak is not None and rate is not None:
            rate = msgspec.structs.replace(rate, n=peak.trials)
            what = f"peak rate with {', '.join(map(criterion_text, criteria))}"
        own = ("", sample_text(sample))
        yield SampleAnswer(
            sample=sample,
            metric="peak_rate",
            unit="/s",
            better="higher",
            estimate=rate,
            what=what,
            is_answered=peak is not None and peak.status is PeakStatus.FOUND,
            is_failed=peak is not None and peak.status is PeakStatus.FAILED,
            findings=tuple(one for subject, one in named if subject in own),
        )


def _completed(one: SampleAnswer, measured: str) -> SampleAnswer:
    """Return an answer that names what was measured, with a finding if its claim does not hold."""
    if one.estimate is None:
        return one
    findings = one.findings
    if not one.is_answered:
        undecided = make_finding(
            "search-undecided", sample_text(one.sample), "its claim does not hold"
        )
        findings = (*findings, undecided)
    what = f"{one.what}, load and server {measured}"
    return msgspec.structs.replace(one, what=what, findings=findings)


# -- The figures -----------------------------------------------------------------------

_STATES: dict[str, State] = {
    "found": "answered",
    "complete": "answered",
    "saturated": "answered",
    "failed": "failed",
    "fails-at-lowest": "failed",
    "interrupted": "interrupted",
    "running": "running",
}


def _peak_figures(sample: Pairs, found: ClaimResult | None, status: str) -> SampleFigures:
    # A bound is no estimate.
    rate = None
    if found is not None and found.bound_kind is None:
        rate = found.rate_estimate()
    return SampleFigures(
        name=sample_text(sample),
        sample=sample,
        metrics=() if rate is None else (SampleMetric("peak_rate", "/s", "higher", rate),),
        state=_STATES.get(status, "undecided"),
        reason="" if found is None else found.detail,
    )


def _ramp_figures(report: RampReport) -> Iterator[SampleFigures]:
    result = report.result
    for point in () if result is None else result.points:
        level = (str(report.goal.axis), f"{point.level:.6g}")
        metrics = [SampleMetric("throughput", "/s", "higher", point.throughput)]
        for which in ("mean", "p50", "p99"):
            value = getattr(point, f"response_ms_{which}")
            if value is not None:
                estimate = Estimate(value, math.nan, math.nan, 0.95, "mean", point.trials)
                metrics.append(SampleMetric(f"response_ms_{which}", "ms", "lower", estimate))
        yield SampleFigures(
            name=f"{level[0]}={level[1]}",
            sample=(*report.sample, level),
            metrics=tuple(metrics),
            state=_STATES.get(report.status, "undecided"),
            reason=report.detail,
        )


# -- What was measured -----------------------------------------------------------------


def search_name(spec: SourceFile | None, request: Mapping[str, Any]) -> str:
    """Return what a search is about: the name of its spec or workload, its target, or the program
    that applies its load."""
    if spec is None:
        return command_name(request["command"].split()[0])
    if spec.path != TARGET_FILE:
        return PurePath(spec.path).stem
    load = tomllib.loads(spec.text)["load"]
    workload = PurePath(load.get("workload", ""))
    return str(workload.stem or load["target"])


def measured_digest(spec: SourceFile | None, request: Mapping[str, Any]) -> str:
    """Return a hash of the load and the server of a search: 8 hexadecimal digits."""
    if spec is None:
        names = ("command", "response", "throughput")
        said: object = [request.get(name) for name in names]
    else:
        tables = tomllib.loads(spec.text)
        for name in _SEARCH_TABLES:
            tables.pop(name, None)
        said = (tables, [text for _, text in spec.beside])
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
