"""Reads the stored results that `bw why` explains, each with its main quantity."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError, argument_error
from benchwright.core.plan import SUCCESS
from benchwright.core.results import Finding, Summary
from benchwright.decide.stopping import main_metric, statistic_label
from benchwright.feature import session_kind
from benchwright.findings.examine import Questions, findings_about
from benchwright.findings.explanation import Explanation, explain_test, is_cause
from benchwright.findings.result import TestResult
from benchwright.findings.rules import NamedRule
from benchwright.findings.sanity import Claims
from benchwright.report.answer import estimate_of
from benchwright.results.inputs import (
    check_ok_status,
    is_directory_of_results,
    other_inputs_text,
    read_inputs,
)
from benchwright.stats.aggregate import summarise_columns
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study
from benchwright.study.selection import StudyPart, split_selector
from benchwright.suite.values import statuses

# -- From a study to its explained results: tests, or those of another kind -------------


class WhyRequest(msgspec.Struct, frozen=True):
    """A checked request."""

    path: str
    tests: tuple[str, ...]
    claims: Claims
    rules: tuple[NamedRule, ...]
    ok_status: str | None = None
    """What --ok-status has, checked."""


class ExplainedResult(msgspec.Struct, frozen=True):
    """The explained results of a study or file."""

    study: str
    session: int | None
    """Its number; None for tests."""
    results: tuple[Explanation, ...]
    findings: tuple[Finding, ...] = ()
    """About the session or the file, and no single result."""


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
        without_tests = _without_tests(part)
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
    chosen = [one for one in inputs if not request.tests or _asked_for(one, request)]
    unknown = set(request.tests) - {name for one in inputs for name in _names(one)}
    if unknown:
        there = ", ".join(one.name for one in inputs)
        name = min(unknown)
        raise argument_error("--test", name, f"there is no test {name!r}", f"there are: {there}")
    about = dict.fromkeys(f for one in inputs for f in one.session_findings)
    # A changed machine, or an error of its kernel, explains the figures of every test that it does
    # not name another of.
    causes = [finding for finding in about if is_cause(finding)]
    return ExplainedResult(
        request.path,
        None,
        tuple(_explained(one, request, _concerning(causes, one, inputs)) for one in chosen),
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
    found = (*causes, *findings_about(test, questions))
    return explain_test(test, test.name, found, _figure(test))


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


def _without_tests(part: StudyPart) -> ExplainedResult | None:
    """Return the explained results of a session of a kind without tests; None for tests."""
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        session = part.among(study.sessions())
        kind = None if session is None else session_kind(session.info.kind)
        if session is None or kind is None:
            return None
        results = kind.explained(study, session)
    return ExplainedResult(str(part.place), session.number, results)
