"""Prints the outcome of a session of tests: the table, the sentences and the findings, or JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.cli.terminal import painter, report_width, table_width
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.results import Finding
from benchwright.core.untrusted import shell_text, visible_lines
from benchwright.report.answer import FindingGroup, Results, SessionAnswer
from benchwright.report.documents import failure_text
from benchwright.study.journal import StoredSession
from benchwright.views.terminal import finding_paragraphs, group_lines, wrapped
from benchwright.views.tests import answer_lines, groups_to_print, observed_lines

if TYPE_CHECKING:
    from benchwright.core.comparison import ComparisonResult
    from benchwright.run.runner import SessionResult
    from benchwright.run.session import Session, SessionVerdict
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import SessionInfo


class Outcome(msgspec.Struct, frozen=True):
    """What a session of tests found, and how it is shown."""

    results: Results
    answer: SessionAnswer
    here: Path
    """Where the user called bw: paths are shown relative to it."""
    verbose: bool

    @property
    def place(self) -> str:
        """The study, as it is shown."""
        return shown_path(self.results.path, self.here)


def outcome_of(
    ended: SessionResult, session: Session, info: SessionInfo, here: Path, *, verbose: bool
) -> Outcome:
    """Return the outcome of a session that has just ended."""
    assert ended.findings is not None
    findings, verdict = ended.findings, ended.verdict
    compared = (finding for group in findings.comparisons.values() for finding in group)
    results = Results(
        path=ended.ledger.study.path,
        session=StoredSession(ended.ledger.session, info, verdict.status, verdict.detail),
        started_ns=info.started_ns,
        tests=tuple(test.result(findings.tests.get(test.key, ())) for test in session.tests),
        about_session=(*findings.session, *compared),
        comparisons=tuple(
            comparison.result for comparison in session.comparisons if comparison.result is not None
        ),
    )
    return Outcome(results, results.answer(), here, verbose)


def print_outcome(ended: SessionResult, session: Session, outcome: Outcome, *, json: bool) -> None:
    """Print the outcome of a suite: one JSON document, or the table, sentences and findings."""
    assert ended.findings is not None
    verdict, results, tests = ended.verdict, outcome.results, session.tests
    assert results.session is not None
    if json:
        from benchwright.report.documents import encode
        from benchwright.report.observed import observed_members
        from benchwright.report.run import run_document

        observed = observed_members(results.tests, failed_trials(tests))
        document = run_document(results, outcome.answer, verdict.exit_status, observed)
        sys.stdout.write(encode(document))
        return
    paint = painter(sys.stdout)
    ran = [(test.name, test.trials) for test in results.tests]
    number = results.session.number
    text = document_text_of(results.path, number, ran, verbose=outcome.verbose)
    lines = text.splitlines() or answer_lines(outcome.answer, report_width(), paint)
    print_blocks(
        [
            "\n".join([*lines, *failure_lines(outcome, tests)]),
            *_comparison_blocks(results.comparisons),
            *outcome_blocks(outcome),
        ]
    )
    print_end(outcome, verdict, tests)


def document_text_of(
    study: Path, session: int, tests: Sequence[tuple[str, Sequence[Trial]]], *, verbose: bool
) -> str:
    """Return the report of a session that is one document (page/kinds.py), as its program
    prints it; empty for another session. `tests`: each with its name."""
    if len(tests) != 1 or len(tests[0][1]) != 1:
        return ""
    from benchwright.page.kinds import trial_document

    ((name, (trial,)),) = tests
    found = trial_document(study, session, name, trial)
    if found is None:
        return ""
    return found.document.text(
        report_width(), painter(sys.stdout), table_width=table_width(), verbose=verbose
    )


def _comparison_blocks(comparisons: Sequence[ComparisonResult]) -> Iterator[str]:
    if comparisons:
        # Most sessions have none.
        from benchwright.views.comparison import render_comparison

        yield from (render_comparison(comparison, table_width()) for comparison in comparisons)


def failure_lines(outcome: Outcome, tests: Sequence[RunningTest]) -> Iterator[str]:
    """Yield the last lines of stderr of the first failed trial of each test."""
    for answer, test in zip(outcome.answer.tests, tests, strict=True):
        if (failed := _failed(test)) is not None:
            yield failure_text(answer.name, failed, outcome.place).rstrip("\n")


def outcome_blocks(outcome: Outcome) -> Iterator[str]:
    """Yield what follows the answer: the findings and the observations."""
    place = shell_text([outcome.place])
    yield findings_text(
        groups_to_print(outcome.answer),
        outcome.results.named_findings(outcome.answer),
        len(outcome.answer.tests),
        more=f"evidence and remedies: bw stats -v {place}; what limited it: bw why {place}",
        verbose=outcome.verbose,
        noun="arm" if all(test.is_arm for test in outcome.answer.tests) else "test",
    )
    yield "\n".join(
        line
        for test in outcome.results.tests
        for line in observed_lines(test.name, test.trials, test.recorded)
    )


def findings_text(
    groups: Sequence[FindingGroup],
    named: Sequence[tuple[str, Finding]],
    total: int,
    *,
    more: str = "",
    verbose: bool,
    noun: str = "test",
) -> str:
    """Return a line for each code and how to see `more`, or each of the findings if `verbose`.

    `named`: the findings, each with the name of its test, of which there are `total`.
    """
    width, paint = report_width(), painter(sys.stdout)
    if verbose:
        return "\n".join(finding_paragraphs(named, width, paint))
    lines = group_lines(groups, total, width, paint, noun)
    if lines and more:
        lines += wrapped(more, width)
    return "\n".join(lines)


def print_blocks(blocks: Sequence[str]) -> None:
    """Print blocks of lines, with a blank line between those that are not empty."""
    shown = (block.rstrip("\n") for block in blocks if block)
    text = "\n\n".join(shown)
    if text:
        print(text)
    sys.stdout.flush()


def print_end(outcome: Outcome, verdict: SessionVerdict, tests: Sequence[RunningTest]) -> None:
    """Print on stderr how the session ended, and where it is stored.

    The command of the failed trial that ended it is left out, because the sentence of its test has
    it; on a terminal also how it failed.
    """
    place = outcome.place
    detail = verdict.detail
    cut = [(test.name, test.cut) for test in tests if test.cut is not None]
    if verdict.status == "failed" and cut:
        detail = f"a trial of {cut[0][0]}" if sys.stdout.isatty() else verdict.brief or detail
    text = f"bw: {verdict.status}: {with_study(detail, place)}; stored in {place}"
    print(visible_lines(text), file=sys.stderr)
    for test in tests:
        if verdict.status == "failed" and (accepted := _with_its_status(test)):
            advice = f"--ok-status {accepted} (ok_status in a suite)"
            print(f"  = if this status is expected: {advice}", file=sys.stderr)


def _with_its_status(test: RunningTest) -> str:
    """Return the statuses that a test accepts with that of the command which ended the session;
    empty if it did not exit by itself, or is a command such as `bw load`, which has no such option."""
    if test.cut is None or test.plan is None:
        return ""
    if test.cut.ending is not TrialEnding.FAILED:
        return ""
    from benchwright.feature import COMMAND_FAILED
    from benchwright.findings.examine import code_of_failure

    accepted = test.plan.ok_status
    own = (
        block.status
        for block in test.cut.blocks
        if block.status not in accepted and code_of_failure(block.command) == COMMAND_FAILED
    )
    status = next(own, 0)
    if not 0 < status < _CANNOT_START:
        return ""
    return ",".join(map(str, sorted({*accepted, status})))


_CANNOT_START = 126
"""From this status on, a shell could not start the command, or a signal ended it."""


def with_study(detail: str, place: str) -> str:
    """Return a text whose `bw resume` names the study, so that it can be pasted into a shell."""
    return detail.replace("`bw resume`", f"`bw resume {shell_text([place])}`")


def shown_path(path: Path, here: Path) -> str:
    """Return a path relative to a directory that contains it, else absolute."""
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def failed_trials(tests: Sequence[RunningTest]) -> dict[str, Trial]:
    """Return the first trial of each test whose failed command wrote an error, by the test's name."""
    failed = {test.name: _failed(test) for test in tests}
    return {name: trial for name, trial in failed.items() if trial is not None}


def _failed(test: RunningTest) -> Trial | None:
    """Return the first trial of a test whose failed command wrote an error, or None."""
    trials = test.trials if test.cut is None else (*test.trials, test.cut)
    return next((trial for trial in trials if trial.error_text is not None), None)
