"""What there is to doubt about a session's tests and comparisons, from its outcomes alone.

Purpose: one place that computes them, so that what holds a gate up is what is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.finding.compared import doubts_of, stored_doubts
from benchwright.finding.environment import apart_findings
from benchwright.finding.examine import examine
from benchwright.finding.sanity import Claims, with_sample
from benchwright.model.comparison import Comparison
from benchwright.model.finding import Finding
from benchwright.model.observation import Trial
from benchwright.study.environment import first_environment

if TYPE_CHECKING:
    from benchwright.session.comparison import OpenComparison
    from benchwright.session.test import OpenTest
    from benchwright.study.journal import Study


def examined(
    test: OpenTest, trials: Sequence[Trial], also: Sequence[str] = ()
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


def comparison_doubts(
    opened: OpenComparison, comparison: Comparison, kept: tuple[Study, int]
) -> tuple[Finding, ...]:
    """Return the findings about a comparison, its stored baseline and its arms; `kept`
    are the study and the session's number. Raises StudyError."""
    found = [*doubts_of(comparison), *stored_doubts(comparison)]
    stored = comparison.rule.stored
    if stored is not None:
        here = (opened.tests[0].name, first_environment(*kept))
        found += apart_findings([(stored.name, stored.machine), here])
    judged = comparison.rule.judged
    for test in opened.tests:
        found += examined(test, test.trials, judged)
    return tuple(found)
