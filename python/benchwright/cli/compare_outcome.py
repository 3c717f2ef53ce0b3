"""Prints the outcome of a comparison, writes it as JUnit XML, and the differences that observers find."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from benchwright.cli.outcome import (
    Outcome,
    failed_trials,
    failure_lines,
    outcome_blocks,
    print_blocks,
    print_end,
)
from benchwright.cli.terminal import table_width
from benchwright.core.comparison import ComparisonResult
from benchwright.core.observation import profiles_of
from benchwright.core.results import Finding
from benchwright.core.untrusted import visible
from benchwright.feature import observers
from benchwright.report.answer import FindingGroup
from benchwright.report.comparison import comparison_entry
from benchwright.report.observed import observed_members
from benchwright.views.comparison import measured_commands, render_comparison

if TYPE_CHECKING:
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.runner import SessionResult
    from benchwright.suite.comparison import ComparisonRequest


def _difference_lines(opened: RunningComparison, study: Path, session: int) -> Iterator[str]:
    """Yield what observers say of the differences of the arms, if their trials were observed."""
    arms = [(arm.name, arm.trials) for arm in opened.tests]
    if any(profiles_of(trials) for _, trials in arms):
        for kind in observers():
            yield from kind.differences(arms, study, session)


# -- The report of `bw compare`, or of its resume, at the end of the session -----------


def print_comparison_outcome(
    ended: SessionResult,
    opened: RunningComparison,
    outcome: Outcome,
    request: ComparisonRequest,
    *,
    json: bool,
) -> None:
    """Print the outcome: one JSON document on stdout, or the table, the verdicts and findings;
    and write the verdicts as JUnit XML if the request asks for it."""
    assert ended.findings is not None
    verdict, findings = ended.verdict, ended.findings.all
    study, session = ended.ledger.study, ended.ledger.session
    comparison = opened.answer(verdict.status, verdict.detail)
    if request.junit is not None:
        write_junit(request.junit, comparison, findings)
    commits = {
        arm: checkout.commit
        for arm, checkout in zip(comparison.arms, request.checkouts, strict=False)
    }
    differences = list(_difference_lines(opened, study.path, session))
    if json:
        head = {
            "study": str(study.path),
            "session": session,
            "status": verdict.status,
            "detail": verdict.detail,
            "exit_status": verdict.exit_status,
            **observed_members(outcome.results.tests, failed_trials(opened.tests)),
            "profile_differences": tuple(differences) or UNSET,
            "commits": commits or UNSET,
        }
        print_comparison_document(comparison, findings, outcome.answer.groups, head)
        return
    print_blocks(
        [
            "".join(f"{arm}: commit {commit}\n" for arm, commit in commits.items()),
            render_comparison(
                comparison,
                table_width(),
                measured_commands((test.name, test.trials) for test in opened.tests),
            ),
            "\n".join(failure_lines(outcome, opened.tests)),
            *outcome_blocks(outcome),
            "\n".join(map(visible, differences)),
        ]
    )
    print_end(outcome, verdict, opened.tests)


def print_comparison_document(
    comparison: ComparisonResult,
    findings: Sequence[Finding],
    groups: tuple[FindingGroup, ...],
    head: dict[str, Any],
) -> None:
    """Print a comparison of a session or of stored results as JSON."""
    from benchwright.report.documents import FindingEntry, encode, entries
    from benchwright.report.run import CompareDocument

    answer = msgspec.structs.asdict(comparison_entry(comparison))
    finding_entries = entries(FindingEntry, findings)
    document = CompareDocument(**(answer | head), findings=finding_entries, finding_groups=groups)
    sys.stdout.write(encode(document))


def write_junit(path: str, comparison: ComparisonResult, findings: Sequence[Finding]) -> None:
    """Write the comparison and its findings as JUnit XML.

    Raises InputError or OSError if the file cannot be written.
    """
    from benchwright.cli.output_file import write_output
    from benchwright.report.junit import render_junit

    write_output(Path(path), render_junit([comparison], findings).encode())
