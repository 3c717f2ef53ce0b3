"""The findings of a session, computed when its outcome is known.

Purpose: one place gathers their inputs, so that the finding that makes a gate undecided is
also the one that is reported and stored (study/findings.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.core.comparison import ComparisonResult
from benchwright.core.results import Finding
from benchwright.findings.examine import Questions, compute_findings
from benchwright.study.contents import first_machine
from benchwright.study.findings import SessionFindings, session_findings

if TYPE_CHECKING:
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.ledger import Ledger
    from benchwright.run.session import Session, SessionVerdict
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import Study


def findings_of_session(
    session: Session, verdict: SessionVerdict, ledger: Ledger, recorded: Sequence[Finding] = ()
) -> SessionFindings:
    """Return the findings of a session that has ended; `recorded` are those recorded while
    it ran. Raises StudyError."""
    kept = (ledger.study, ledger.session)
    return SessionFindings(
        session=tuple(dict.fromkeys((*session_findings(*kept), *recorded))),
        tests={test.key: findings_of_test(test) for test in session.tests},
        comparisons={
            comparison.key: findings_of_comparison(
                comparison, comparison.answer(verdict.status, verdict.detail), *kept
            )
            for comparison in session.comparisons
        },
    )


def findings_of_comparison(
    opened: RunningComparison, result: ComparisonResult, study: Study, number: int
) -> tuple[Finding, ...]:
    """Return the findings about a comparison as a whole and its stored baseline, without
    those about its arms. Raises StudyError."""
    # Most sessions compare nothing.
    from benchwright.findings.comparison import (
        arm_times,
        comparison_findings,
        stored_baseline_findings,
        times_of_series,
    )
    from benchwright.findings.environment import separate_findings

    stored = result.rule.stored
    times = {}
    if not result.rule.paired:
        ran = zip(reversed(result.arms), reversed(opened.tests), strict=False)
        times = {arm: arm_times(test.result()) for arm, test in ran}
    if stored is not None:
        times[stored.name] = times_of_series(stored.series)
    found = [*comparison_findings(result, times), *stored_baseline_findings(result)]
    if stored is not None:
        here = (opened.tests[0].name, first_machine(study, number))
        found += separate_findings([(stored.name, stored.machine), here])
    return tuple(found)


def findings_of_test(test: RunningTest) -> tuple[Finding, ...]:
    """Return the findings about a session's test; they are computed only once after the test
    has ended."""
    if test.findings is not None:
        return test.findings
    findings = compute_findings(test.result(), Questions(also=test.judged))
    if test.is_closed:
        test.findings = findings
    return findings
