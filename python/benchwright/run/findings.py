"""What there is to doubt about a session's tests and comparisons, from its outcomes alone.

Purpose: one place that computes them, so that what holds a gate up is what is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.core.comparison import ComparisonResult
from benchwright.core.observation import Trial
from benchwright.core.results import Finding
from benchwright.findings.comparison import (
    comparison_findings,
    stored_baseline_findings,
)
from benchwright.findings.environment import separate_findings
from benchwright.findings.examine import examine
from benchwright.findings.sanity import Claims, with_sample
from benchwright.study.contents import first_machine

if TYPE_CHECKING:
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import Study


def findings_of_test(
    test: RunningTest, trials: Sequence[Trial], also: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings about a session's test, of these trials of it; `also` are
    metrics that it is about beside its own."""
    return examine(
        test.name,
        trials,
        test.plan.metrics if test.plan else (),
        rule=test.rule,
        stop=test.stop,
        observed=test.observed,
        claims=with_sample(Claims(), test.plan.sample if test.plan else ()),
        also=also,
    )


def findings_of_comparison(
    opened: RunningComparison, comparison: ComparisonResult, kept: tuple[Study, int]
) -> tuple[Finding, ...]:
    """Return the findings about a comparison, its stored baseline and its arms; `kept`
    are the study and the session's number. Raises StudyError."""
    found = [*comparison_findings(comparison), *stored_baseline_findings(comparison)]
    stored = comparison.rule.stored
    if stored is not None:
        here = (opened.tests[0].name, first_machine(*kept))
        found += separate_findings([(stored.name, stored.machine), here])
    judged = comparison.rule.judged
    for test in opened.tests:
        found += findings_of_test(test, test.trials, judged)
    return tuple(found)
