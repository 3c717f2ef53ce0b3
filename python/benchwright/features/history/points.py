"""From a stored session to the points of its series: the estimates that every report shows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from benchwright.core.machine import revision_of
from benchwright.core.plan import TestPlan, name_with_threads, usual_direction
from benchwright.core.results import Estimate, Finding, Severity
from benchwright.feature import session_kind
from benchwright.features.history.findings import environment_of, machine_fingerprint, machine_text
from benchwright.features.history.types import HistoryPoint, NoValue, Run, SeriesKey
from benchwright.findings.result import TestResult
from benchwright.machine.redact import without_secrets
from benchwright.page.session_kind import SessionOutcome
from benchwright.report.answer import answer_of, estimate_of
from benchwright.results.stored import results_of_tests
from benchwright.study.contents import first_machine
from benchwright.study.journal import StoredSession, Study


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
    kind = session_kind(session.info.kind)
    if kind is None:
        found = list(_points_of_tests(study, session, common))
    else:
        found = list(_points_of_outcome(kind.outcome(study, session), common))
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
    tests = list(results_of_tests(study, session))
    is_failed = session.status == "failed"
    is_comparison = any(test.arm is not None for test in tests)
    is_whole = session.status in _ENDED or (tests and is_failed)
    if not is_whole and not is_comparison:
        why = session.detail or session.status
        yield _no_value(common, why, failed=is_failed)
    for test in tests:
        if test.arm is None:
            yield from _points_of_test(test, session, common)


def _points_of_test(test: TestResult, session: StoredSession, common: HistoryPoint) -> _Found:
    """Yield a point for each quantity of a test, or what has no value."""
    plan, rules = test.plan, test.rules
    assert plan is not None, "a session has it"
    name = name_with_threads(plan)
    (answer,) = answer_of([test], status=session.status, detail=session.detail).tests
    is_failed = answer.state == "failed"
    if is_failed or answer.estimate is None:
        yield _no_value(common, answer.reason, test=name, failed=is_failed)
        return
    better = {spec.name: spec.better for spec in plan.metrics}
    wanted = {answer.metric, *(other.metric for other in answer.others)}
    asked = set(wanted)
    codes = _serious(test.findings or ())
    for metric in test.columns:
        estimate = estimate_of(test, metric)
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
    serious = (finding for finding in findings if finding.severity is Severity.SERIOUS)
    return tuple(sorted({one.code for one in serious}))


def _command(plan: TestPlan) -> str:
    """Return what a trial runs, as a person would type it."""
    phases = plan.phases
    return "; ".join(one.text for one in (*phases.setup, *phases.exec))


# -- A session of another kind ---------------------------------------------------------


def _points_of_outcome(outcome: SessionOutcome, common: HistoryPoint) -> _Found:
    """Yield the point of each sample of a session without tests, or that it has none; `common` has
    what all of them share."""
    if outcome.status == "interrupted":
        yield _no_value(common, outcome.detail or outcome.status, failed=False)
    for answer in outcome.answers:
        test = ":".join(
            (outcome.subject, *(f"{factor}={level}" for factor, level in answer.sample))
        )
        if answer.estimate is None:
            failed = answer.is_failed
            yield _no_value(common, answer.what, test=test, metric=answer.metric, failed=failed)
            continue
        yield _NamedPoint(
            test,
            answer.metric,
            msgspec.structs.replace(
                _with_estimate(common, answer.estimate),
                unit=answer.unit,
                better=answer.better,
                command=answer.what,
                codes=_serious(answer.findings),
                state="answered" if answer.is_answered else "undecided",
            ),
        )
