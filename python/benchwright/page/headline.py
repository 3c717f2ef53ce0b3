"""The answer of a stored session in one line: `sort: 834 ms ± 1.8 %`.

Purpose: a row of `bw ls`, of thousands of sessions. Decision: it is made of the same answers and
headlines as every report, without findings, charts and explanations, which take most of the time
that a report takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.core.comparison import ComparisonResult
from benchwright.core.errors import StudyError
from benchwright.core.observation import TrialEnding
from benchwright.core.text import plural
from benchwright.feature import session_kind
from benchwright.page.kinds import trial_document
from benchwright.report.answer import (
    TestAnswer,
    answer_headline,
    answer_of,
    estimate_text,
    failures_text,
)
from benchwright.study.contents import TestContents, stored_baseline
from benchwright.study.journal import StoredSession, Study
from benchwright.study.parsers.study import parsed_test


def headline(study: Study, session: StoredSession, tests: Sequence[TestContents]) -> str:
    """Return the answer of a session in one line; empty where it has none yet. `tests`: those of
    the session. Of a kind that is not installed, the line says so.

    Raises StudyError for a record that cannot be read.
    """
    try:
        kind = session_kind(session.info.kind)
    except StudyError as error:
        return error.message
    if kind is not None:
        return kind.headline(study, session)
    failed = sum(trial.ending is not TrialEnding.OK for test in tests for trial in test.trials)
    if any(test.plan.arm is not None for test in tests):
        from benchwright.results.stored import recorded_comparisons

        comparison_results = recorded_comparisons(study, session.number)
        if comparison_results and (text := _of_comparison(comparison_results[0])):
            more = f", and {plural(len(comparison_results) - 1, 'comparison')}"
            return text + (more if len(comparison_results) > 1 else "") + failures_text(failed)
    if text := _of_document(study, session, tests):
        return text
    answer = answer_of(
        [parsed_test(test, study.path) for test in tests],
        status=session.status,
        detail=session.detail,
        baseline=stored_baseline(session.info),
    )
    rows = answer.tests
    return answer_headline(rows[0]) if len(rows) == 1 else _of_tests(rows) + failures_text(failed)


def _of_comparison(comparison: ComparisonResult) -> str:
    """Return the noise of a null comparison, or the first verdict and what the gates decided."""
    from benchwright.report.comparison import gates_headline, null_headline, verdict_headline

    if comparison.rule.exactly is not None and comparison.null is not None:
        return null_headline(comparison.null)
    judged = [verdict for verdict in comparison.verdicts if verdict.judged]
    parts = [verdict_headline(metric_verdict, comparison) for metric_verdict in judged[:1]]
    if comparison.gates:
        parts.append(gates_headline(comparison.gates))
    return "; ".join(parts)


def _of_tests(rows: Sequence[TestAnswer]) -> str:
    """Return between which results those of several tests lie."""
    known = [(row, row.estimate) for row in rows if row.estimate is not None]
    if not known:
        return f"{plural(len(rows), 'test')}, no result" if rows else ""
    known.sort(key=lambda pair: pair[1].value)
    if len(known) == 1 or len({row.metric for row in rows}) > 1:
        row, estimate = known[0]
        more = f", and {plural(len(rows) - 1, 'test')}"
        return f"{row.name}: {_labelled(row)}{estimate_text(estimate)}{more}"
    (low, least), (high, most) = known[0], known[-1]
    return (
        f"{plural(len(rows), 'test')}: {_labelled(low)}{estimate_text(least)} ({low.name}) to "
        f"{estimate_text(most)} ({high.name})"
    )


def _labelled(row: TestAnswer) -> str:
    return "" if row.label == "elapsed" else f"{row.label} "


def _of_document(study: Study, session: StoredSession, tests: Sequence[TestContents]) -> str:
    """Return the answer of a session that is one document; empty for another one."""
    if len(tests) != 1 or len(tests[0].trials) != 1:
        return ""
    (test,) = tests
    found = trial_document(study.path, session.number, test.plan.name, test.trials[0])
    return "" if found is None else found.document.headline
