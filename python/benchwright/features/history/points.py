"""From a stored session to the points of its series: the estimates that every report shows."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchwright.core.criterion import criterion_text
from benchwright.core.machine import revision_of
from benchwright.core.plan import Pairs, TestPlan, usual_direction
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.features.history.findings import (
    environment_of,
    machine_fingerprint,
    machine_text,
)
from benchwright.features.history.types import HistoryPoint, NoValue, Run, SeriesKey
from benchwright.features.search.ramp.types import RampStatus
from benchwright.features.search.surface.types import ESTIMATED_STATUSES
from benchwright.features.search.text import sample_text
from benchwright.features.search.types import PeakStatus
from benchwright.machine.redact import without_secrets
from benchwright.report.answer import answer_of, estimate_of, input_of_contents
from benchwright.stats.aggregate import metric_columns, observe_trials
from benchwright.stats.metric_rules import MetricRules
from benchwright.study.contents import (
    SEARCH_KINDS,
    TestContents,
    first_machine,
    tests_of,
)
from benchwright.study.findings import input_findings, stored_findings
from benchwright.study.journal import StoredSession, Study
from benchwright.study.parsers.study import parsed_test
from benchwright.suite.program import SourceFile
from benchwright.suite.template import command_name

if TYPE_CHECKING:
    from benchwright.features.search.peak.report import PeakReport
    from benchwright.features.search.ramp.report import RampReport
    from benchwright.features.search.surface.report import SurfaceReport


def run_identity(session: StoredSession) -> str:
    """Return what identifies a session in every copy of its study: 16 hexadecimal digits."""
    info = session.info
    words = (session.number, info.started_ns, info.boot_id, info.arguments)
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def read_run(study: Study, session: StoredSession) -> Run:
    """Return the points of a session, and what has no value: tests that failed, metrics that no
    trial has, searches that found no more than a bound. Arms of a comparison are neither.

    Raises StudyError for a record that cannot be read.
    """
    machine = first_machine(study, session.number)
    environment = environment_of(machine)
    revision = None if machine is None else revision_of(machine)
    common = HistoryPoint(
        run=run_identity(session),
        study=str(study.path),
        session=session.number,
        started_ns=session.info.started_ns,
        estimate=0.0,
        trials=0,
        commit=None if revision is None else revision.commit,
        commit_time_ns=None
        if revision is None or revision.committed_s is None
        else revision.committed_s * 10**9,
        dirty=revision is not None and bool(revision.dirty),
        tags=session.about.tags,
        environment="" if environment is None else environment.id,
    )
    is_search = session.info.kind in SEARCH_KINDS
    found = list((_points_of_search if is_search else _points_of_tests)(study, session, common))
    fingerprint = machine_fingerprint(machine)
    whole = Run(
        points=tuple(
            (SeriesKey(one.test, one.metric, fingerprint), one.point)
            for one in found
            if isinstance(one, _NamedPoint)
        ),
        environment=environment,
        machine=machine_text(machine),
        without=tuple(one for one in found if isinstance(one, NoValue)),
    )
    shown: Run = without_secrets(whole, session.info.commands)
    return shown


def _no_value(
    common: HistoryPoint, why: str, *, test: str = "", metric: str = "", failed: bool
) -> NoValue:
    return NoValue(
        run=common.run,
        study=common.study,
        session=common.session,
        started_ns=common.started_ns,
        test=test,
        metric=metric,
        failed=failed,
        why=why,
    )


# -- A session of tests ----------------------------------------------------------------


class _NamedPoint(NamedTuple):
    """A point with the names of its test and its metric."""

    test: str
    metric: str
    point: HistoryPoint


_Found = Iterator[_NamedPoint | NoValue]

_ENDED = ("complete", "undecided")
"""How a session ended that has run all of its tests."""


def _points_of_tests(study: Study, session: StoredSession, common: HistoryPoint) -> _Found:
    """Yield the points of a session; `common` has what all of them share."""
    stored = stored_findings(study, session.number)
    tests = tests_of(study, session.number)
    is_failed = session.status == "failed"
    is_comparison = any(test.plan.arm is not None for test in tests)
    is_whole = session.status in _ENDED or (tests and is_failed)
    if not is_whole and not is_comparison:
        why = session.detail or session.status
        yield _no_value(common, why, failed=is_failed)
    for test in tests:
        if test.plan.arm is not None:
            continue
        found = None if stored is None else stored.tests.get(test.key)
        if found is None:
            found = input_findings(parsed_test(test, study.path))
        yield from _points_of_test(test, found, session, common)


def _points_of_test(
    test: TestContents,
    findings: Sequence[Finding],
    session: StoredSession,
    common: HistoryPoint,
) -> _Found:
    """Yield a point for each quantity of a test, or what has no value."""
    name = test_name(test.plan)
    (answer,) = answer_of(
        [input_of_contents(test, findings)],
        status=session.status,
        detail=session.detail,
    ).tests
    is_failed = answer.state == "failed"
    if is_failed or answer.estimate is None:
        yield _no_value(common, answer.reason, test=name, failed=is_failed)
        return
    plan = test.plan
    rules = MetricRules(plan.metrics)
    better = {spec.name: spec.better for spec in plan.metrics}
    wanted = {answer.metric, *(one.metric for one in answer.others)}
    asked = set(wanted)
    codes = _serious(findings)
    columns = metric_columns(observe_trials(test.trials, rules), rules)
    for metric, column in columns.items():
        estimate = estimate_of(plan.stopping, test.stop, column, rules)
        if rules.row(metric).computed or not math.isfinite(estimate.value):
            continue
        asked.discard(metric)
        yield _NamedPoint(
            name,
            metric,
            msgspec.structs.replace(
                _with_estimate(common, estimate),
                better=better.get(metric) or usual_direction(metric),
                command=_command(plan),
                codes=codes,
                state=answer.state,
                asked=metric in wanted,
            ),
        )
    for metric in sorted(asked):
        if not rules.row(metric).computed:
            why = "no trial has this metric"
            yield _no_value(common, why, test=name, metric=metric, failed=False)


def _with_estimate(point: HistoryPoint, estimate: Estimate) -> HistoryPoint:
    """Return a point with this value, and with its interval where both ends are known."""
    bounded = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    return msgspec.structs.replace(
        point,
        estimate=estimate.value,
        low=estimate.low if bounded else None,
        high=estimate.high if bounded else None,
        confidence=estimate.confidence if bounded else None,
        trials=estimate.n,
        unit=estimate.unit,
    )


def _serious(findings: Iterable[Finding]) -> tuple[str, ...]:
    serious = (one for one in findings if one.severity is Severity.SERIOUS)
    return tuple(sorted({one.code for one in serious}))


def test_name(plan: TestPlan) -> str:
    """Return the name of a test with its number of threads, if it has several."""
    if plan.threads == 1 or any(name.lower() == "threads" for name, _ in plan.sample):
        return plan.name
    return f"{plan.name}:threads={plan.threads}"


def _command(plan: TestPlan) -> str:
    """Return what a trial runs, as a person would type it."""
    phases = plan.phases
    return "; ".join(one.text for one in (*phases.setup, *phases.exec))


# -- A session of a search -------------------------------------------------------------
#
# The answer of a peak search, and of each sample of a surface, is its peak rate; that of a ramp is
# the throughput at which it saturates. Decision: a bound is no estimate, and an interrupted search
# has only a guess, so they have no point. A search that ended before its claim held has a point
# with a serious finding, so that no gate decides by it.

_SEARCH_TABLES = ("peak", "ramp", "surface", "factors")
"""Tables of a spec about the search itself; the others are about what it measures."""


class _SearchPoint(NamedTuple):
    """The answer of a search at one sample."""

    sample: Pairs
    metric: str
    estimate: Estimate | None
    """None where it has none, or only a bound."""
    what: str
    """What the value is in words, or why there is none."""
    is_answered: bool
    is_failed: bool
    findings: Sequence[Finding]


def _points_of_search(study: Study, session: StoredSession, common: HistoryPoint) -> _Found:
    """Yield the point of each sample of a search, or that it has none; `common` has what all of
    them share."""
    # Each kind of search imports its policies, which no session of tests needs.
    from benchwright.features.search.reports import stored_report
    from benchwright.features.search.session import stored_spec

    spec = stored_spec(session.info)
    request = msgspec.json.decode(session.info.sources[0][1])
    name = search_name(spec, request)
    measured = measured_digest(spec, request)
    report = stored_report(study, session)
    if report.status == "interrupted":
        yield _no_value(common, report.detail or report.status, failed=False)
    for one in _answers_of(report):
        test = ":".join((name, *(f"{factor}={level}" for factor, level in one.sample)))
        if one.estimate is None:
            failed = one.is_failed
            yield _no_value(common, one.what, test=test, metric=one.metric, failed=failed)
            continue
        codes = set(_serious(one.findings))
        if not one.is_answered:
            codes.add("search-undecided")
        yield _NamedPoint(
            test,
            one.metric,
            msgspec.structs.replace(
                _with_estimate(common, one.estimate),
                unit="/s",
                better="higher",
                command=f"{one.what}, load and server {measured}",
                codes=tuple(sorted(codes)),
                state="answered" if one.is_answered else "undecided",
            ),
        )


def _answers_of(
    report: PeakReport | RampReport | SurfaceReport,
) -> Iterator[_SearchPoint]:
    from benchwright.features.search.peak.report import PeakReport
    from benchwright.features.search.ramp.report import RampReport
    from benchwright.features.search.surface.report import SurfaceReport, named_findings

    if report.status == "interrupted" and not isinstance(report, SurfaceReport):
        return
    if isinstance(report, RampReport):
        found = report.result
        at = None
        what = report.detail
        if found is not None and found.saturation is not None:
            what = f"throughput at saturation, over {report.goal.axis}"
            at = found.saturation.throughput
        yield _SearchPoint(
            sample=report.sample,
            metric="throughput",
            estimate=at,
            what=what,
            is_answered=report.status == RampStatus.SATURATED,
            is_failed=report.status == RampStatus.FAILED,
            findings=report.findings,
        )
        return
    if isinstance(report, PeakReport):
        criteria, peaks = report.criteria, [(report.sample, report.result)]
        named = [("", one) for one in report.findings]
    else:
        criteria = report.goal.peak.criteria
        peaks = [(at, one.found) for at, one in report.result.by_sample.items()]
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
        yield _SearchPoint(
            sample=sample,
            metric="peak_rate",
            estimate=rate,
            what=what,
            is_answered=peak is not None and peak.status is PeakStatus.FOUND,
            is_failed=peak is not None and peak.status is PeakStatus.FAILED,
            findings=[one for subject, one in named if subject in own],
        )


def search_name(spec: SourceFile | None, request: Mapping[str, Any]) -> str:
    """Return what a search is about: the name of its spec or workload, its target, or the program
    that applies its load."""
    from benchwright.features.search.target_spec import TARGET_FILE

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
