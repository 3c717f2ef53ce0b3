"""Prints the outcome of a comparison, writes it as JUnit XML, and draws difference flame graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from benchwright.cli.outcome import (
    Outcome,
    failure_lines,
    observed_members,
    outcome_blocks,
    print_blocks,
    print_end,
)
from benchwright.cli.terminal import table_width
from benchwright.core.comparison import ComparisonResult
from benchwright.core.observation import profiles_of
from benchwright.core.results import Finding
from benchwright.core.untrusted import visible
from benchwright.features.profile.profiler import stored_stacks
from benchwright.report.answer import FindingGroup
from benchwright.report.comparison import comparison_entry
from benchwright.study.logs import file_name
from benchwright.views.comparison import measured_commands, render_comparison

if TYPE_CHECKING:
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.runner import SessionResult
    from benchwright.run.test import RunningTest
    from benchwright.suite.comparison import ComparisonRequest


# -- Difference flame graphs of a comparison whose trials were profiled ----------------
#
# Decision: they are drawn once, at the end, from the stacks stored with the trials: each
# candidate against the baseline, the first arm. A file that cannot be read or written is
# reported; it is not an error.


def difference_lines(tests: Sequence[RunningTest], study: Path, session: int) -> Iterator[str]:
    """Write `watched/sN/difference-ARM.svg` of each candidate, and yield the lines to print.

    `tests`: the arms, the baseline first. No output unless the baseline and a candidate were
    profiled.
    """
    if len(tests) < 2:
        return
    baseline, *candidates = tests
    for candidate in candidates:
        try:
            yield from _difference((baseline, candidate), study, session)
        except (OSError, ValueError) as why:
            yield f"profile: no difference of {candidate.name}: {why}"


def _difference(arms: tuple[RunningTest, RunningTest], study: Path, session: int) -> Iterator[str]:
    from benchwright.features.profile.flame_graph import (
        change_lines,
        difference_svg,
        share_changes,
    )

    before, after = (stored_stacks(profiles_of(arm.trials), study) for arm in arms)
    if not before.counts or not after.counts:
        return
    names = arms[0].name, arms[1].name
    file = Path("watched", f"s{session}", f"difference-{file_name(names[1])}.svg")
    (study / file).write_text(difference_svg(before, after, names))
    found = list(change_lines(share_changes(before, after)))
    for line in found or ["no function's share differs beyond the noise"]:
        yield f"{names[1]} against {names[0]}: {line}"
    yield f"{names[1]} against {names[0]}: difference flame graph {file}"


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
    differences = list(difference_lines(opened.tests, study.path, session))
    if json:
        head = {
            "study": str(study.path),
            "session": session,
            "status": verdict.status,
            "detail": verdict.detail,
            "exit_status": verdict.exit_status,
            **observed_members(opened.tests),
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
                measured_commands((one.name, one.trials) for one in opened.tests),
            ),
            "\n".join(failure_lines(outcome, opened.tests)),
            *outcome_blocks(outcome, opened.tests),
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
    found = entries(FindingEntry, findings)
    document = CompareDocument(**(answer | head), findings=found, finding_groups=groups)
    sys.stdout.write(encode(document))


def write_junit(path: str, comparison: ComparisonResult, findings: Sequence[Finding]) -> None:
    """Write the comparison and its findings as JUnit XML.

    Raises InputError or OSError if the file cannot be written.
    """
    from benchwright.cli.output_file import write_output
    from benchwright.report.junit import render_junit

    write_output(Path(path), render_junit([comparison], findings).encode())
