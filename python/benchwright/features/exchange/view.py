"""From a stored session to what `bw export` writes of it, of whatever kind the session is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.comparison import Better
from benchwright.core.errors import InputError, OperatingError, argument_error
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.plan import UntilPrecise, name_with_threads, usual_direction
from benchwright.core.results import Estimate, Finding
from benchwright.core.untrusted import decode_json, regular_bytes, shell_text
from benchwright.decide.stopping import statistic_label
from benchwright.feature import session_kind
from benchwright.features.exchange.export.view import (
    ExportLoad,
    ExportMetric,
    ExportTest,
    ExportTrial,
    ExportView,
    distinct,
    unit_of,
)
from benchwright.features.load.document import LoadDocument, TrialLoad
from benchwright.features.load.plan import too_many_errors
from benchwright.features.load.types import EngineResult
from benchwright.findings.result import TestResult
from benchwright.machine.redact import without_secrets
from benchwright.page.kinds import SessionOutcome, stored_documents
from benchwright.report.answer import (
    State,
    TestAnswer,
    estimate_of,
    failures,
    finding_groups,
    name_without_levels,
)
from benchwright.results.stored import read_results
from benchwright.stats.aggregate import TIMES
from benchwright.study.contents import NULL_KIND, first_machine
from benchwright.study.journal import StoredSession, Study

_ALWAYS = (*TIMES, "rss_bytes")
"""Metrics of every command, exported where they are not 0 in all trials."""
_OF_LOADS = ("response_ns_p50", "response_ns_p99", "errors")
"""Metrics of a load, exported too."""
_KINDS = {NULL_KIND: "compare --null"}
_NAN = math.nan


def read_view(
    study: Study,
    session: StoredSession,
    only: str | None = None,
    wanted: Sequence[str] = (),
    also: Sequence[str] = (),
) -> ExportView:
    """Return a session as an export reads it; with `only`, the test of this name.

    `wanted`: the metrics to export, each as `NAME` or `NAME:higher`; empty for the main one, those
    of the stopping rule, the declared ones, the times and peak memory where they are not 0.
    `also`: those that are exported where they are 0 too.
    Raises InputError for an unknown test or metric, StudyError for a record that cannot be read.
    """
    if (kind := session_kind(session.info.kind)) is not None:
        if only is not None:
            message = f"session {session.number} is a bw {session.info.kind}"
            hint = f"it has no tests: leave out :{only}"
            raise argument_error("STUDY", only, message, hint)
        view = _view_of_outcome(study, session, kind.outcome(study, session))
    else:
        asked = (*(text.partition(":")[0] for text in wanted), *also)
        view = _tests_view(study, session, only, asked)
    view = _with_metrics(view, wanted) if wanted else view
    shown: ExportView = without_secrets(view, session.info.commands)
    return shown


# -- A session of tests ----------------------------------------------------------------


def _tests_view(
    study: Study, session: StoredSession, only: str | None, asked: Sequence[str]
) -> ExportView:
    stored = read_results(study, session, only=only)
    answer = stored.answer()
    documents = stored_documents(stored, most=None)
    names = distinct(name_with_threads(test.plan) for test in stored.tests if test.plan is not None)
    named = {one.id: name for one, name in zip(stored.tests, names, strict=True)}
    tests = tuple(
        _test(one, row, name, asked)
        for one, row, name in zip(stored.tests, answer.tests, names, strict=True)
    )
    return ExportView(
        **_head(study, session),
        failure=stored.detail if stored.failed else "",
        duration_ns=sum(trial.duration_ns for test in tests for trial in test.trials),
        tests=tests,
        comparisons=stored.comparisons,
        about_session=stored.about_session,
        groups=answer.groups,
        answer=answer,
        sentences=tuple(f"{document.name}: {document.document.sentence}" for document in documents),
        loads=tuple(
            ExportLoad(
                test=named[document.test.id],
                trial=document.trial,
                result=document.document.result,
                warm_up_ns=document.document.report.warm_up_ns,
                limits=document.document.document.limits,
            )
            for document in documents
            if isinstance(document.document, TrialLoad)
        ),
    )


def read_load_file(path: Path, wanted: Sequence[str] = ()) -> ExportView:
    """Return what `bw load --json` printed as a session with one test, which has the name of the
    file.

    `wanted`: as in `read_view`. Raises InputError for another file.
    """
    try:
        document = decode_json(regular_bytes(path), LoadDocument)
        result = msgspec.convert(document.result, EngineResult)
    except (OSError, ValueError) as error:
        raise _no_source(path, error) from None
    findings = tuple(
        Finding(finding.code, finding.severity, finding.subject, finding.evidence, finding.remedy)
        for finding in document.findings
    )
    why = "; ".join(lost_host.lost for lost_host in result.lost_hosts)
    why = why or too_many_errors(result.counts, document.max_errors_micro)
    state: State = "failed" if why else "answered"
    if result.interrupted and not result.lost_hosts:
        state, why = "interrupted", "interrupted"
    test = ExportTest(
        name=path.stem,
        base=path.stem,
        keys=(),
        command="",
        metrics=tuple(
            _result(
                name,
                unit_of(name, ""),
                usual_direction(name),
                Estimate(value, _NAN, _NAN, 0.95, "value", 1),
            )
            for name, value in document.metrics.items()
        ),
        state=state,
        reason=why,
        findings=findings,
    )
    load = TrialLoad(document, result)
    view = ExportView(
        study=path.name,
        session=1,
        kind="load",
        status="complete" if state == "answered" else state,
        version="",
        started_ns=result.started_ns,
        duration_ns=result.elapsed_ns,
        tests=(test,),
        groups=finding_groups([(test.name, finding) for finding in findings]),
        sentences=(load.sentence,),
        loads=(
            ExportLoad(
                test=test.name,
                trial=1,
                result=result,
                warm_up_ns=load.report.warm_up_ns,
                limits=document.limits,
            ),
        ),
    )
    return _with_metrics(view, wanted) if wanted else view


def _no_source(path: Path, error: Exception) -> InputError:
    """Return the error for a file that is not what `bw load --json` printed."""
    # Only a file that cannot be exported needs the parsers.
    from benchwright.features.exchange.foreign import printed_by_bw
    from benchwright.results.inputs import read_inputs
    from benchwright.study.parsers.api import content_head

    printed = None
    with contextlib.suppress(OperatingError, OSError):
        printed = printed_by_bw(path, content_head(path, 4096))
    if printed is not None and printed[1]:
        message, study = printed
        hint = f"name the study: bw export {shell_text([study])}"
        return argument_error("STUDY", str(path), message, hint)
    try:
        inputs = read_inputs([str(path)])
    except (OperatingError, OSError):
        message = f"it is neither a study nor the output of bw load --json: {error}"
        hint = "name a study, or a file that bw load --json printed"
        return argument_error("STUDY", str(path), message, hint)
    origin = inputs[0].origin
    whose = f"results of {origin.tool}" if origin else "results that are no study's"
    message = f"it has {whose}, and bw export reads studies"
    hint = (
        f"bw stats {shell_text([str(path)])} --json (or --format csv) prints the results; bw report, bw compare and "
        "bw history read the file"
    )
    return argument_error("STUDY", str(path), message, hint)


def _head(study: Study, session: StoredSession) -> dict[str, Any]:
    machine = first_machine(study, session.number)
    facts = () if machine is None else machine.facts
    return {
        "study": study.path.resolve().name,
        "session": session.number,
        "kind": _KINDS.get(session.info.kind, session.info.kind),
        "status": session.status,
        "version": session.info.version,
        "started_ns": session.info.started_ns,
        "facts": {fact.name: fact.value for fact in facts if fact.value is not None},
    }


def _test(test: TestResult, row: TestAnswer, name: str, asked: Sequence[str]) -> ExportTest:
    plan = test.plan
    assert plan is not None, "a session has it"
    watched = test.rule.metrics if isinstance(test.rule, UntilPrecise) else ()
    measured = [name for name in _ALWAYS if any(_values(test, name))]
    if "achieved_rate_per_s" in test.columns or "rate_per_s" in test.columns:
        measured = [*_OF_LOADS, *measured]
    first = [row.metric] if row.metric else []
    metrics = dict.fromkeys((*first, *watched, *test.rules.declared, *measured, *asked))
    better = {spec.name: spec.better for spec in plan.metrics}
    threads = (("threads", str(plan.threads)),)
    keys = plan.sample if name_with_threads(plan) == plan.name else plan.sample + threads
    return ExportTest(
        name=name,
        base=name_without_levels(name, dict(keys)),
        keys=keys,
        command="; ".join(command.text for command in plan.phases.exec),
        threads=plan.threads,
        metrics=tuple(
            _metric(test, metric, better.get(metric) or usual_direction(metric))
            for metric in metrics
            if metric in test.columns
        ),
        trials=tuple(
            _trial(test, trial)
            for trial in test.all_trials
            if trial.ending is not TrialEnding.INTERRUPTED
        ),
        state=row.state,
        reason=row.reason,
        failed=failures(test),
        findings=test.findings or (),
    )


def _values(test: TestResult, name: str) -> tuple[float, ...]:
    return test.columns[name].values if name in test.columns else ()


def _metric(test: TestResult, name: str, better: Better) -> ExportMetric:
    return ExportMetric(
        name=name,
        label=statistic_label(test.rule, name),
        unit=unit_of(name, test.rules.row(name).unit),
        better=better,
        estimate=estimate_of(test, name),
        values=test.columns[name].values,
    )


def _trial(test: TestResult, trial: Trial) -> ExportTrial:
    return ExportTrial(
        epoch=trial.epoch,
        started_ns=trial.started_ns,
        duration_ns=trial.duration_ns,
        status=next((block.status for block in trial.blocks if block.status), 0),
        ok=trial.ending is TrialEnding.OK,
        warmup=trial.warmup,
        values=test.values_of(trial),
    )


def _with_metrics(view: ExportView, wanted: Sequence[str]) -> ExportView:
    """Return the view with these metrics alone, in this order, and the directions given with
    them."""
    directions: dict[str, Better] = {}
    names: list[str] = []
    there = list(dict.fromkeys(m.name for test in view.tests for m in test.metrics))
    for text in wanted:
        name, _, direction = text.partition(":")
        if direction not in ("", "lower", "higher"):
            message = f"{direction!r} must be one of: lower, higher"
            raise argument_error("--metric", text, message, f"write {name}:higher")
        if name not in there:
            message = f"no test of this session has {name!r}"
            hint = f"there are: {', '.join(there)}"
            raise argument_error("--metric", text, message, hint)
        names.append(name)
        if direction:
            directions[name] = "higher" if direction == "higher" else "lower"
    return msgspec.structs.replace(
        view,
        tests=tuple(
            msgspec.structs.replace(
                test,
                metrics=tuple(
                    msgspec.structs.replace(metric, better=directions.get(name, metric.better))
                    for name in names
                    if (metric := test.metric(name)) is not None
                ),
            )
            for test in view.tests
        ),
    )


# -- A session of another kind ---------------------------------------------------------
#
# Its result is a figure of no single trial. It has one test for each sample or load.


def _view_of_outcome(study: Study, session: StoredSession, outcome: SessionOutcome) -> ExportView:
    name = study.path.resolve().name
    tests = [
        ExportTest(
            name=f"{name}:{figure.name}" if figure.name else name,
            base=name,
            keys=figure.sample,
            command="",
            metrics=tuple(
                _result(metric.name, metric.unit, metric.better, metric.estimate)
                for metric in figure.metrics
            ),
            state=figure.state,
            reason=figure.reason,
        )
        for figure in outcome.figures
    ]
    head = _head(study, session)
    return ExportView(
        **{**head, "status": outcome.status},
        failure=outcome.detail if outcome.exit_status == 1 else "",
        duration_ns=round(outcome.spent_s * 1e9),
        tests=tuple(tests),
        about_session=tuple(finding for _, finding in outcome.findings),
        groups=finding_groups(outcome.findings),
        sentences=(outcome.sentence,),
    )


def _result(name: str, unit: str, better: Better, estimate: Estimate) -> ExportMetric:
    return ExportMetric(
        name=name, label=name, unit=unit, better=better, estimate=estimate, values=()
    )
