"""The outcome of a session of tests, printed: the table and the findings, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchwright.core.observation import Trial
from benchwright.core.results import Finding
from benchwright.core.untrusted import visible_lines
from benchwright.report.comparison import comparison_object, render_comparison
from benchwright.report.observed import observed_lines, observed_object
from benchwright.report.parts import (
    condensed_lines,
    encode,
    failure_object,
    failure_text,
    finding_object,
    output_object,
    section_object,
    stop_line,
    writes,
)
from benchwright.report.stats_document import StatsInput, StatsReport, compose_report
from benchwright.report.stats_table import render_table
from benchwright.stats.aggregate import summarise_trials

if TYPE_CHECKING:
    from benchwright.run.runner import SessionResult
    from benchwright.run.session import Session
    from benchwright.run.test import RunningTest


RUN_SCHEMA = "benchwright/run/1"


def document_of(tests: list[RunningTest], findings: Sequence[Finding]) -> StatsReport:
    """Return the document of a session's tests: overheads against the first."""
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
        compared = [comparison_object(comparison) for comparison in comparisons]
        sys.stdout.write(
            encode(
                {
                    "schema": RUN_SCHEMA,
                    "study": str(study.path),
                    "session": ended.ledger.session,
                    "status": verdict.status,
                    "detail": verdict.detail,
                    "exit_status": verdict.exit_status,
                    "tests": [section_object(s) for s in document.sections],
                    **({"comparisons": compared} if compared else {}),
                    **observed_objects(tests),
                    "findings": [finding_object(f) for f in document.findings],
                }
            )
        )
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
    said = f"bw: {verdict.status}: {verdict.detail}; kept in {study.path}"
    print(visible_lines(said), file=sys.stderr)


def print_observed(tests: Sequence[RunningTest]) -> None:
    """Print what was profiled and characterized, and what failed commands said."""
    for test in tests:
        if (failed := _failed(test)) is not None:
            sys.stdout.write(failure_text(test.name, failed))
        for line in observed_lines(test.name, test.trials, test.characterized):
            print(line)


def observed_objects(tests: Sequence[RunningTest]) -> dict[str, Any]:
    """Return the same for JSON, by test; nothing where there is none."""
    failures = {
        test.name: failure_object(failed)
        for test in tests
        if (failed := _failed(test)) is not None
    }
    written = {
        test.name: output_object(test.plan.output.mode, test.trials)
        for test in tests
        if test.plan is not None and writes(test.trials)
    }
    found = {
        test.name: seen
        for test in tests
        if (seen := observed_object(test.trials, test.characterized))
    }
    return {
        **({"observed": found} if found else {}),
        **({"stderr_tail": failures} if failures else {}),
        **({"output": written} if written else {}),
    }


def _failed(test: RunningTest) -> Trial | None:
    """Return the first trial of a test whose failed command said something."""
    trials = test.trials if test.cut is None else (*test.trials, test.cut)
    return next((trial for trial in trials if trial.error_text is not None), None)
