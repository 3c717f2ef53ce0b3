"""The stored results that `bw why` explains, each with its main quantity, and its document."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchwright.core.errors import StudyError, argument_error
from benchwright.core.plan import SUCCESS
from benchwright.core.resource_use import ProgramUse, ResourceUse, TaskUse
from benchwright.core.results import Finding, Summary
from benchwright.core.text import duration_text
from benchwright.decide.stopping import main_metric, statistic_label
from benchwright.feature import recorded_by, session_kind
from benchwright.findings.codes import make_finding
from benchwright.findings.examine import Questions, findings_about
from benchwright.findings.explanation import Explanation, explain_running, explain_test, is_cause
from benchwright.findings.result import ObservedFiles, TestResult
from benchwright.findings.rules import NamedRule
from benchwright.findings.sanity import Claims
from benchwright.findings.use_table import UseRow
from benchwright.report.answer import FindingGroup, estimate_of, finding_groups
from benchwright.report.documents import FindingEntry, entries, entry
from benchwright.report.observed import ObservedEntry, observed_entry
from benchwright.results.inputs import (
    check_ok_status,
    is_directory_of_results,
    other_inputs_text,
    read_inputs,
)
from benchwright.run.running_server import WatchedServer
from benchwright.stats.aggregate import summarise_columns
from benchwright.study.catalogue import StudyPart, split_selector
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study
from benchwright.suite.values import statuses
from benchwright.watch.process_use import ProcessUse


def groups_of(
    results: Iterable[Explanation],
    findings: Callable[[Explanation], Sequence[Finding]],
    about: Sequence[Finding] = (),
) -> tuple[FindingGroup, ...]:
    """Return the groups of some findings of each result, and of those `about` no single one."""
    named = [(result.name, finding) for result in results for finding in findings(result)]
    return finding_groups([*(("", finding) for finding in about), *named])


class FigureEntry(msgspec.Struct, frozen=True):
    """The quantity that a result is about."""

    name: str
    label: str
    unit: str
    count: int
    mean: float | None
    low: float | None
    high: float | None
    confidence: float


class LimitEntry(msgspec.Struct, frozen=True):
    """The criterion of a search's load, and its limit."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]


class AbsentEntry(msgspec.Struct, frozen=True):
    """Something that was not measured, and the reason."""

    what: str
    why: str


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the USE table covers."""

    epochs: tuple[int, int]
    seconds: float
    samples: int
    series: str | None
    """The file of the sampler's series, relative to the study."""
    sampler_cores: float | None
    tasks: tuple[TaskUse, ...]
    others: tuple[TaskUse, ...]
    programs: tuple[ProgramUse, ...]
    absent: tuple[AbsentEntry, ...]


class ExplanationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One result explained."""

    name: str
    sample: dict[str, str]
    threads: int | None
    figure: FigureEntry | None
    limit: LimitEntry | None
    first: str | None
    """The code of the first cause."""
    limited_by: str | None
    """The code of the first limit."""
    sentence: str | None
    """Text for a result without a limit; null if there is one."""
    causes: tuple[FindingEntry, ...]
    trials: int
    trials_watched: int
    watched_s: float
    window: WindowEntry | None
    use: tuple[UseRow, ...]
    findings: tuple[FindingEntry, ...]
    files: ObservedFiles
    running: bool = False
    """Whether it still ran when it was explained: it has no figure."""
    processes: tuple[ProcessUse, ...] = ()
    """Of a running server: its processes, the busiest first."""
    observed: ObservedEntry | None = None
    """Of a running server: what `--characterize` recorded."""


class WhyDocument(msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/why/1"):
    """Limiters of each result."""

    study: str
    session: int | None
    results: tuple[ExplanationEntry, ...]
    groups: tuple[FindingGroup, ...]
    """The causes of all results together, the most severe first."""
    findings: tuple[FindingEntry, ...]
    """About the session or the file, and no single result."""
    running: ExplanationEntry | None = None
    """The trial that a session of the study runs now, from its begin until now; null: none."""


def why_document(
    results: Iterable[Explanation],
    study: str,
    session: int | None,
    about: Sequence[Finding] = (),
    running: Explanation | None = None,
) -> WhyDocument:
    """Return the document of all results, and of a trial that still runs."""
    explained = tuple(results)
    groups = groups_of(explained, lambda explanation: explanation.causes)
    return WhyDocument(
        study,
        session,
        tuple(map(_explanation_entry, explained)),
        groups,
        entries(FindingEntry, about),
        None if running is None else _explanation_entry(running),
    )


def _explanation_entry(explanation: Explanation) -> ExplanationEntry:
    limit = explanation.criterion
    server = explanation if isinstance(explanation, ExplainedServer) else None
    return ExplanationEntry(
        name=explanation.name,
        sample=dict(explanation.sample),
        threads=explanation.threads,
        figure=None if explanation.figure is None else entry(FigureEntry, explanation.figure),
        limit=None
        if limit is None
        else entry(LimitEntry, limit, name=limit.key, value=limit.limit),
        first=explanation.first or None,
        limited_by=explanation.limited_by or None,
        sentence=explanation.sentence or None,
        causes=entries(FindingEntry, explanation.causes),
        trials=explanation.trials,
        trials_watched=explanation.watched,
        watched_s=explanation.watched_s,
        window=None if explanation.window is None else _window_entry(explanation.window),
        use=explanation.table,
        findings=entries(FindingEntry, explanation.findings),
        files=explanation.files or ObservedFiles(),
        running=explanation.running,
        processes=server.processes if server else (),
        observed=observed_entry((), server.recorded) if server else None,
    )


def _window_entry(use: ResourceUse) -> WindowEntry:
    return entry(
        WindowEntry,
        use,
        series=use.series or None,
        sampler_cores=use.sampler_cost,
        absent=tuple(AbsentEntry(what, why) for what, why in use.absent),
    )


# -- From a study to its explained results: tests, or those of another kind -------------


class WhyRequest(msgspec.Struct, frozen=True):
    """A checked request."""

    path: str
    tests: tuple[str, ...]
    claims: Claims
    rules: tuple[NamedRule, ...]
    ok_status: str | None = None
    """What --ok-status has, checked."""


class ExplainedServer(Explanation, frozen=True, kw_only=True):
    """The explanation of a running server, with its processes."""

    processes: tuple[ProcessUse, ...]
    recorded: Mapping[str, Any]
    """What observers recorded of it (`recorded_by`)."""


class ExplainedResult(msgspec.Struct, frozen=True):
    """The explained results of a study or file."""

    study: str
    session: int | None
    """Its number; None for tests."""
    results: tuple[Explanation, ...]
    findings: tuple[Finding, ...] = ()
    """About the session or the file, and no single result."""


def explained_servers(servers: Sequence[WatchedServer], request: WhyRequest) -> ExplainedResult:
    """Return the explanations of servers that were watched while they ran."""
    return ExplainedResult("", None, tuple(_explained_server(one, request) for one in servers))


def _explained_server(server: WatchedServer, request: WhyRequest) -> ExplainedServer:
    name = f"{server.name} ({server.pid})"
    found = explain_running(name, server.use, request.claims.capacities)
    doubts = [make_finding(code, name, why) for code, why in server.failures]
    if server.ended_after_s is not None:
        why = f"it ended {duration_text(server.ended_after_s)} after the watch began"
        doubts.append(make_finding("server-not-found", name, why))
    recorded = dict(server.recorded)
    for kind, record in recorded_by(recorded):
        doubts += kind.findings(name, record, request.claims.operation_bytes)
    fields = msgspec.structs.asdict(found) | {"findings": (*found.findings, *doubts)}
    return ExplainedServer(**fields, processes=server.processes, recorded=recorded)


def results_of(request: WhyRequest) -> ExplainedResult:
    """Return the explanations of all requested results.

    Raises StudyError if there is no study or it cannot be read, InputError for an unknown test.
    """
    try:
        return _results(request)
    except PermissionError as error:
        message = f"cannot read {error.filename}: {error.strerror}"
        raise StudyError("study-unusable", message) from None


def _results(request: WhyRequest) -> ExplainedResult:
    place = Path(request.path)
    if not place.exists() and not any(mark in request.path for mark in "@:"):
        raise StudyError(
            "not-a-study",
            f"{request.path}: there is no such study",
            "give one: bw why DIR; bw run stores its own in ./bw-study",
        )
    is_study = not place.is_dir() or (place / JOURNAL).is_file()
    if not (is_study or is_directory_of_results(place)):
        raise StudyError(
            "not-a-study",
            f"{request.path} is not a study: it has no {JOURNAL}",
            "bw why explains what a study has; bw run stores its own in ./bw-study",
        )
    part = split_selector(place)
    if part.test is None and (part.place / JOURNAL).is_file():
        without_tests = _without_tests(part, request.claims)
        if without_tests is not None:
            check_ok_status(request.ok_status, ())
            return without_tests
    accepted = SUCCESS if request.ok_status is None else statuses(request.ok_status)
    advice = (
        "bw why explains a study, which bw run stores in ./bw-study, or a file of results: .res, "
        f"{other_inputs_text()}"
    )
    inputs = read_inputs([request.path], advice, accepted)
    check_ok_status(request.ok_status, inputs)
    chosen = [test for test in inputs if not request.tests or _asked_for(test, request)]
    unknown = set(request.tests) - {name for one in inputs for name in _names(one)}
    if unknown:
        there = ", ".join(test.name for test in inputs)
        name = min(unknown)
        raise argument_error("--test", name, f"there is no test {name!r}", f"there are: {there}")
    about = dict.fromkeys(f for test in inputs for f in test.session_findings)
    # A changed machine, or an error of its kernel, explains the figures of every test that it does
    # not name another of.
    causes = [finding for finding in about if is_cause(finding)]
    return ExplainedResult(
        request.path,
        None,
        tuple(_explained(test, request, _concerning(causes, test, inputs)) for test in chosen),
        tuple(finding for finding in about if not is_cause(finding)),
    )


def _concerning(
    causes: Sequence[Finding], one: TestResult, inputs: Sequence[TestResult]
) -> list[Finding]:
    """Return the causes of the whole session that are about a test: those that name no other test."""
    others = {name for other in inputs if other is not one for name in _names(other)}
    return [cause for cause in causes if cause.subject not in others]


def _names(parsed_input: TestResult) -> tuple[str, str]:
    return parsed_input.name, parsed_input.test or parsed_input.name


def _asked_for(parsed_input: TestResult, request: WhyRequest) -> bool:
    return any(name in request.tests for name in _names(parsed_input))


def _explained(test: TestResult, request: WhyRequest, causes: Sequence[Finding]) -> Explanation:
    questions = Questions(claims=request.claims, rules=request.rules)
    findings = (*causes, *findings_about(test, questions))
    return explain_test(test, test.name, findings, _figure(test), request.claims.capacities)


def _figure(test: TestResult) -> Summary | None:
    """Return a test's main quantity, with the interval that all reports show for it."""
    name = main_metric(test.rule, test.rules.declared, test.columns)
    if name is None:
        return None
    (summary,) = summarise_columns(test.columns, [name], test.rules)
    shown = estimate_of(test, name)
    label = statistic_label(test.rule, name)
    return msgspec.structs.replace(
        summary,
        label=summary.label if label == name else label,
        mean=shown.value,
        low=shown.low,
        high=shown.high,
        half_width=shown.half_width,
        confidence=shown.confidence,
    )


def _without_tests(part: StudyPart, claims: Claims) -> ExplainedResult | None:
    """Return the explained results of a session of a kind without tests; None for tests."""
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.among(study.sessions())
        kind = None if session is None else session_kind(session.info.kind)
        if session is None or kind is None:
            return None
        results = kind.explained(study, session, claims)
    return ExplainedResult(str(part.place), session.number, results)
