"""What `bw compare`, and a resume of it, say when the session has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchwright.cli.outcome import (
    doubts_of_observed,
    observed_objects,
    print_observed,
)
from benchwright.cli.profile import difference_lines
from benchwright.model.comparison import Comparison
from benchwright.model.decision import Stop
from benchwright.model.finding import Finding
from benchwright.model.visible import visible, visible_lines
from benchwright.report.comparison import SCHEMA, comparison_object, render_comparison
from benchwright.report.findings import condensed_lines
from benchwright.report.json import encode, finding_object
from benchwright.session.doubts import comparison_doubts
from benchwright.study.doubts import doubts_of_session

if TYPE_CHECKING:
    from benchwright.session.comparison import OpenComparison
    from benchwright.session.run import Verdict
    from benchwright.study.journal import Study


def tell_comparison(
    opened: OpenComparison,
    verdict: Verdict,
    kept: tuple[Study, int],
    *,
    json: bool,
    junit: str | None,
) -> None:
    """Print the outcome: one JSON document on stdout, or the table and the verdicts.

    `kept` are the study and the session's number; `junit` is where that goes.
    """
    study, session = kept
    comparison = answer_of(opened, verdict)
    findings = (
        *doubts_of_session(*kept),
        *doubts_of_observed(opened.tests),
        *comparison_doubts(opened, comparison, kept),
    )
    if junit is not None:
        write_junit(junit, comparison, findings)
    differences = list(difference_lines(opened.tests, study.path, session))
    head = {
        "study": str(study.path),
        "session": session,
        "status": verdict.status,
        "detail": verdict.detail,
        "exit_status": verdict.exit_status,
        **observed_objects(opened.tests),
        **({"profile_differences": differences} if differences else {}),
    }
    print_comparison(comparison, findings, head, json=json)
    if not json:
        print_observed(opened.tests)
        for line in differences:
            print(visible(line))
        sys.stdout.flush()
        told = f"bw: {verdict.status}: {verdict.detail}; kept in {study.path}"
        print(visible_lines(told), file=sys.stderr)


def answer_of(opened: OpenComparison, verdict: Verdict) -> Comparison:
    """Return the comparison's answer; of one that was cut short, what is known so far."""
    if opened.result is not None:
        return opened.result
    return opened.so_far(Stop(verdict.status, verdict.detail, answered=False))


def print_comparison(
    comparison: Comparison,
    findings: Sequence[Finding],
    head: dict[str, Any],
    *,
    json: bool,
) -> None:
    """Print a comparison, wherever its trials came from."""
    if json:
        document = {
            "schema": SCHEMA,
            **head,
            **comparison_object(comparison),
            "findings": [finding_object(finding) for finding in findings],
        }
        sys.stdout.write(encode(document))
        return
    sys.stdout.write(render_comparison(comparison))
    sys.stdout.write(condensed_lines(findings))


def write_junit(path: str, comparison: Comparison, findings: Sequence[Finding]) -> None:
    """Write the comparison and its findings as JUnit XML. Raises InputError or OSError where it cannot be
    written."""
    from benchwright.cli.outputs import write_output
    from benchwright.report.junit import render_junit

    write_output(Path(path), render_junit([comparison], findings).encode())
