"""From a stored session to the points of its series: the estimates that every report shows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.history import HistoryPoint, Run, SeriesKey
from benchwright.core.machine import revision_of
from benchwright.core.plan import TestPlan
from benchwright.core.results import Finding, Severity
from benchwright.findings.history import (
    environment_of,
    machine_fingerprint,
    machine_text,
)
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


def run_identity(session: StoredSession) -> str:
    """Return what identifies a session in every copy of its study: 16 hexadecimal digits."""
    info = session.info
    words = (session.number, info.started_ns, info.boot_id, info.arguments)
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def read_run(study: Study, session: StoredSession) -> Run:
    """Return the points of a session; none of a search, of the arms of a comparison, and of tests
    that failed or have no value. Raises StudyError for a record that cannot be read."""
    machine = first_machine(study, session.number)
    environment = environment_of(machine)
    revision = None if machine is None else revision_of(machine)
    points: list[tuple[SeriesKey, HistoryPoint]] = []
    if session.info.kind not in SEARCH_KINDS:
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
        stored = stored_findings(study, session.number)
        fingerprint = machine_fingerprint(machine)
        for test in tests_of(study, session.number):
            if test.plan.arm is not None:
                continue
            found = None if stored is None else stored.tests.get(test.key)
            if found is None:
                found = input_findings(parsed_test(test, study.path))
            points += (
                (SeriesKey(test_name(test.plan), metric, fingerprint), point)
                for metric, point in _points_of_test(test, found, session, common)
            )
    return Run(
        points=tuple(points), environment=environment, machine=machine_text(machine)
    )


def _points_of_test(
    test: TestContents,
    findings: Sequence[Finding],
    session: StoredSession,
    common: HistoryPoint,
) -> Iterator[tuple[str, HistoryPoint]]:
    """Yield a point for each quantity of a test; `common` has what all points of the session
    share."""
    (answer,) = answer_of(
        [input_of_contents(test, findings)],
        status=session.status,
        detail=session.detail,
    ).tests
    if answer.state == "failed" or answer.estimate is None:
        return
    plan = test.plan
    rules = MetricRules(plan.metrics)
    better = {spec.name: spec.better for spec in plan.metrics}
    asked = {answer.metric, *(one.metric for one in answer.others)}
    serious = (one for one in findings if one.severity is Severity.SERIOUS)
    codes = tuple(sorted({one.code for one in serious}))
    columns = metric_columns(observe_trials(test.trials, rules), rules)
    for name, column in columns.items():
        estimate = estimate_of(plan.stopping, test.stop, column, rules)
        if rules.row(name).computed or not math.isfinite(estimate.value):
            continue
        bounded = math.isfinite(estimate.low) and math.isfinite(estimate.high)
        yield (
            name,
            msgspec.structs.replace(
                common,
                estimate=estimate.value,
                low=estimate.low if bounded else None,
                high=estimate.high if bounded else None,
                confidence=estimate.confidence if bounded else None,
                trials=estimate.n,
                unit=estimate.unit,
                better=better.get(name, "lower"),
                command=_command(plan),
                codes=codes,
                state=answer.state,
                asked=name in asked,
            ),
        )


def test_name(plan: TestPlan) -> str:
    """Return the name of a test with its number of threads, if it has several."""
    if plan.threads == 1 or any(name.lower() == "threads" for name, _ in plan.sample):
        return plan.name
    return f"{plan.name}:threads={plan.threads}"


def _command(plan: TestPlan) -> str:
    """Return what a trial runs, as a person would type it."""
    phases = plan.phases
    return "; ".join(one.text for one in (*phases.setup, *phases.exec))
