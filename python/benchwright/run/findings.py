"""What follows when the outcome of a session is known: its findings, then its notices.

Purpose: one place gathers their inputs, so that the finding that makes a gate undecided is
also the one that is reported and stored (study/contents.py).

Decision: a notice comes after the result is printed and durable, raises nothing, and does not
change the exit status: a mail server's behaviour says nothing about the benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.comparison import ComparisonResult
from benchwright.core.notice import (
    NOTIFY_OPTION,
    Notice,
    NoticeEvent,
    NoticeFinding,
    NoticeResult,
    NoticeSettings,
)
from benchwright.core.results import Finding
from benchwright.feature import session_kind
from benchwright.findings.examine import Questions, compute_findings
from benchwright.study.contents import SessionFindings, first_machine, session_findings
from benchwright.study.journal import SessionInfo

if TYPE_CHECKING:
    from benchwright.core.notice import NoticeDelivery
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.ledger import Ledger
    from benchwright.run.session import Session, SessionVerdict
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import Study


class NoticeContents(msgspec.Struct, frozen=True):
    """What a notice says about an outcome."""

    summary: str = ""
    """The report as text."""
    findings: tuple[Finding, ...] = ()
    results: tuple[NoticeResult, ...] = ()
    tests: tuple[str, ...] = ()
    """The tests that failed or are undecided."""


class SessionEnd(msgspec.Struct, frozen=True):
    """The end of a session or a load, as a notice reports it."""

    study: Path | None
    """The study; None for a load that no study stores."""
    session: int
    verdict: SessionVerdict
    contents: NoticeContents = NoticeContents()
    broken: bool = False
    """Whether an operating error ended it, not a benchmark."""


def notices_of(
    info: SessionInfo, suite: NoticeSettings | None = None
) -> tuple[NoticeSettings, ...]:
    """Return the settings of the suite and those of --notify."""
    stored = info.options.get(NOTIFY_OPTION, "[]")
    options = msgspec.json.decode(stored, type=tuple[NoticeSettings, ...])
    return (*(() if suite is None else (suite,)), *options)


def subject_of(info: SessionInfo) -> str:
    """Return what a session ran: the path of its suite, or what its kind says."""
    kind = session_kind(info.kind)
    return info.program_main if kind is None else kind.subject(info)


def is_wanted(targets: Sequence[NoticeSettings], end: SessionEnd) -> bool:
    """Return whether a target wants a notice of this end."""
    event = event_of(end)
    return any(target.wants(event) for target in targets)


def send_end(
    subject: str, targets: Sequence[NoticeSettings], end: SessionEnd, warn: Callable[[str], None]
) -> None:
    """Send a notice of the end of a suite, a search or a load to the targets that want it."""
    if is_wanted(targets, end):
        send_notice(targets, notice_of(subject, end), end.study, warn)


def send_notice(
    targets: Sequence[NoticeSettings],
    notice: Notice,
    study: Path | None,
    warn: Callable[[str], None],
) -> tuple[NoticeDelivery, ...]:
    """Deliver a notice and record the deliveries in the study; `warn` reports failures."""
    from benchwright.notice.deliver import deliver, record_notice

    deliveries = deliver(targets, notice)
    for delivery in deliveries:
        if delivery.error:
            attempts = f" ({delivery.tries} attempts)" if delivery.tries > 1 else ""
            warn(f"bw: notice not delivered: {delivery.target}: {delivery.error}{attempts}")
    error = record_notice(study, notice, deliveries) if study is not None else ""
    if error:
        warn(f"bw: the notice was not recorded: {error}")
    return deliveries


def event_of(end: SessionEnd) -> NoticeEvent:
    """Return the event of an end."""
    verdict = end.verdict
    if verdict.exit_status == 130:
        return NoticeEvent.INTERRUPTED
    if verdict.status == "failed" and not end.broken:
        return NoticeEvent.FAIL_FAST
    if verdict.exit_status == 3:
        return NoticeEvent.UNDECIDED
    return NoticeEvent.FAILURE if verdict.exit_status else NoticeEvent.DONE


def notice_of(subject: str, end: SessionEnd) -> Notice:
    """Return the notice of an end, with the current time and host name, without secrets.

    Reasons and test names quote commands, and this text leaves the machine.
    """
    import platform

    from benchwright import __version__

    contents = end.contents
    return Notice(
        event=event_of(end),
        study="" if end.study is None else str(end.study.absolute()),
        session=end.session,
        host=platform.node() or "unknown",
        suite=subject,
        status=end.verdict.status,
        exit_status=end.verdict.exit_status,
        reason=_redacted(end.verdict.detail),
        tests=tuple(map(_redacted, contents.tests)),
        results=tuple(
            msgspec.structs.replace(result, test=_redacted(result.test))
            for result in contents.results
        ),
        findings=tuple(
            NoticeFinding(finding.code, finding.severity.value, _redacted(finding.subject))
            for finding in contents.findings
        ),
        summary=_redacted(contents.summary),
        at_ns=time.time_ns(),
        version=__version__,
    )


def _redacted(text: str) -> str:
    """Return a text in which each line is redacted: without what looks like a secret
    (docs/env.md)."""
    from benchwright.machine.redact import redacted_text

    return "\n".join(map(redacted_text, text.split("\n")))


def findings_of_session(
    session: Session, verdict: SessionVerdict, ledger: Ledger, recorded: Sequence[Finding] = ()
) -> SessionFindings:
    """Return the findings of a session that has ended; `recorded` are those recorded while
    it ran. Raises StudyError."""
    kept = (ledger.study, ledger.session)
    tests = {test.key: findings_of_test(test) for test in session.tests}
    for comparison in session.comparisons:
        if comparison.rule.paired:
            # Most sessions compare nothing.
            from benchwright.findings.comparison import beside_a_ratio

            tests |= {test.key: beside_a_ratio(tests[test.key]) for test in comparison.tests}
    return SessionFindings(
        session=tuple(dict.fromkeys((*session_findings(*kept), *recorded))),
        tests=tests,
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
    from benchwright.findings.drawn import drawn_ratio_findings
    from benchwright.findings.environment import separate_findings

    stored = result.rule.stored
    times = {}
    if not result.rule.paired:
        ran = zip(reversed(result.arms), reversed(opened.tests), strict=False)
        times = {arm: arm_times(test.result()) for arm, test in ran}
    if stored is not None:
        times[stored.name] = times_of_series(stored.series)
    found = [*comparison_findings(result, times), *stored_baseline_findings(result)]
    found += drawn_ratio_findings(result, {test.name: test.result() for test in opened.tests})
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
