"""Prints the outcome of a session of tests: the table and the findings, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from benchwright.core.observation import Trial
from benchwright.core.results import Finding
from benchwright.core.untrusted import visible_lines
from benchwright.report.comparison import comparison_entry, render_comparison
from benchwright.report.observed import (
    failure_entry,
    observed_entry,
    observed_lines,
    output_entry,
)
from benchwright.report.parts import condensed_lines, failure_text, stop_line
from benchwright.report.stats_document import StatsInput, StatsReport, compose_report
from benchwright.report.stats_table import render_table
from benchwright.stats.aggregate import summarise_trials

if TYPE_CHECKING:
    from benchwright.run.runner import SessionResult
    from benchwright.run.session import Session
    from benchwright.run.test import RunningTest


T = TypeVar("T")


def document_of(tests: list[RunningTest], findings: Sequence[Finding]) -> StatsReport:
    """Return the report of a session's tests; overheads are relative to the first test."""
    entries: list[StatsInput] = []
    for test in tests:
        specs = test.plan.metrics if test.plan else ()
        entries.append(
            StatsInput(
                test.name,
                summarise_trials(test.trials, specs, observed=test.observed),
                stop=test.stop,
                sample=test.plan.sample if test.plan else (),
                threads=test.plan.threads if test.plan else None,
            )
        )
    return compose_report(entries, findings)


def print_outcome(ended: SessionResult, session: Session, *, json: bool) -> None:
    """Print the outcome of a suite: one JSON document, or the findings and the table."""
    assert ended.findings is not None
    verdict, study, tests = ended.verdict, ended.ledger.study, session.tests
    document = document_of(tests, ended.findings.all)
    comparisons = [one.result for one in session.comparisons if one.result is not None]
    if json:
        from benchwright.report.documents import FindingEntry, encode, entries
        from benchwright.report.run import RunDocument
        from benchwright.report.stats_json import input_entry

        answer = RunDocument(
            study=str(study.path),
            session=ended.ledger.session,
            status=verdict.status,
            detail=verdict.detail,
            exit_status=verdict.exit_status,
            tests=tuple(map(input_entry, document.sections)),
            comparisons=tuple(map(comparison_entry, comparisons)) or UNSET,
            **observed_members(tests),
            findings=entries(FindingEntry, document.findings),
        )
        sys.stdout.write(encode(answer))
        return
    sys.stdout.write(condensed_lines(document.findings) + "\n")
    if any(section.lines for section in document.sections):
        sys.stdout.write(render_table(document, findings=False) + "\n")
    for section in document.sections:
        if section.stop is not None:
            print(stop_line(section.name, section.stop))
    for comparison in comparisons:
        sys.stdout.write("\n" + render_comparison(comparison))
    print_observed(tests)
    sys.stdout.flush()
    said = f"bw: {verdict.status}: {verdict.detail}; stored in {study.path}"
    print(visible_lines(said), file=sys.stderr)


def print_observed(tests: Sequence[RunningTest]) -> None:
    """Print profiles, characterizations, and the error output of failed commands."""
    for test in tests:
        if (failed := _failed(test)) is not None:
            sys.stdout.write(failure_text(test.name, failed))
        for line in observed_lines(test.name, test.trials, test.characterized):
            print(line)


def observed_members(tests: Sequence[RunningTest]) -> dict[str, Any]:
    """Return the JSON members with observations, each by test's name; empty ones are left out."""
    failed = {test.name: _failed(test) for test in tests}
    output = {
        test.name: output_entry(test.plan.output.mode, test.trials)
        for test in tests
        if test.plan is not None
    }
    observed = {t.name: observed_entry(t.trials, t.characterized) for t in tests}
    members: dict[str, dict[str, Any]] = {
        "observed": _present(observed),
        "stderr_tail": {n: failure_entry(t) for n, t in _present(failed).items()},
        "output": _present(output),
    }
    return {name: by_test for name, by_test in members.items() if by_test}


def _present(by_test: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in by_test.items() if value is not None}


def _failed(test: RunningTest) -> Trial | None:
    """Return the first trial of a test whose failed command wrote an error, or None."""
    trials = test.trials if test.cut is None else (*test.trials, test.cut)
    return next((trial for trial in trials if trial.error_text is not None), None)
