"""Tells of a session's end: composes the notice, has it delivered, says what was not.

Purpose: the one call for `bw run`, `compare` and `resume` (a session), searches and loads.
Decision: it comes after the result is printed and durable, raises nothing, and has no part
in the exit status: what a mail server does is no property of what was measured.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.cli.notify_option import notices_of
from benchwright.model.errors import OperatingError
from benchwright.model.notice import Doubt, Event, Notice, Result
from benchwright.model.visible import one_line
from benchwright.study.contents import SEARCHES

if TYPE_CHECKING:
    from benchwright.model.finding import Finding
    from benchwright.model.notice import Delivery, Notify
    from benchwright.report.document import Document
    from benchwright.session.run import Session, Verdict
    from benchwright.session.start import Prepared
    from benchwright.session.test import OpenTest
    from benchwright.study.journal import SessionInfo

_COMMONLY_LEFT_OUT = frozenset({"user", "system", "wait", "cpu_percent", "rss_bytes"})


class Ended(msgspec.Struct, frozen=True):
    """What a caller knows of a session's end."""

    study: Path | None
    """None: of a load that is kept in none."""
    session: int
    verdict: Verdict
    tests: tuple[str, ...] = ()
    """Those that it is about."""
    document: Document | None = None
    summary: str = ""
    """As it was printed."""
    findings: tuple[Finding, ...] = ()
    """Where there is no document that has them."""
    broken: bool = False
    """An operating error ended it, not a benchmark."""
    paused: bool = False
    """It ends at a checkpoint, as before a reboot, and goes on by itself: no end to tell."""


def tell_of_session(prepared: Prepared, session: Session, end: Ended) -> None:
    """Tell everybody whom the suite and --notify name of a session's end."""
    notify = notices_of(prepared.info, prepared.program.notify)
    if not end.paused and any(one.wants(event_of(end)) for one in notify):
        tell_of_end(suite_of(prepared.info), notify, _described(session, end))


@contextlib.contextmanager
def telling_of_errors(
    info: SessionInfo, suite: Notify | None, kept: tuple[Path, int]
) -> Iterator[None]:
    """Tell of an operating error that ends a session, and let it pass."""
    try:
        yield
    except OperatingError as error:
        from benchwright.session.run import Verdict

        verdict = Verdict("failed", str(error), error.exit_status)
        end = Ended(*kept, verdict, broken=True)
        tell_of_end(suite_of(info), notices_of(info, suite), end)
        raise


def tell_of_end(suite: str, notify: Sequence[Notify], end: Ended) -> None:
    """Tell those who want to hear of this end of a suite, of a search or of a load."""
    event = event_of(end)
    if any(one.wants(event) for one in notify):
        tell(notify, notice_of(suite, event, end), end.study)


def suite_of(info: SessionInfo) -> str:
    """Return what a session ran, for a notice: the path of its suite or spec, `<peak>` where a
    search has none."""
    if info.kind not in SEARCHES:
        return info.program_main
    from benchwright.session.search_start import stored_spec

    spec = stored_spec(info)
    return f"<{info.kind}>" if spec is None else spec.path


def _described(session: Session, end: Ended) -> Ended:
    """Return an end with the figures and the text of a session's tests."""
    from benchwright.cli.outcome import document_of
    from benchwright.report.comparison import render_comparison
    from benchwright.report.stop import stop_line
    from benchwright.report.table import render_table

    document = document_of(session.tests)
    stops = [stop_line(s.name, s.stop) for s in document.sections if s.stop is not None]
    compared = [c.result for c in session.comparisons if c.result is not None]
    parts = [render_table(document, findings=False), *stops]
    parts += [render_comparison(one) for one in compared]
    return msgspec.structs.replace(
        end,
        tests=tuple(t.name for t in session.tests if _is_meant(t)),
        document=document,
        summary="\n".join(parts),
    )


def _is_meant(test: OpenTest) -> bool:
    """Return whether a test failed, or came to no answer."""
    unanswered = test.stop is None or not test.stop.answered
    return bool(test.failed) or (unanswered and not test.is_arm)


def tell(
    notify: Sequence[Notify], notice: Notice, study: Path | None
) -> tuple[Delivery, ...]:
    """Deliver a notice, keep what became of it in the study, and say what did not arrive."""
    from benchwright.notice.deliver import deliver
    from benchwright.notice.keep import keep

    deliveries = deliver(notify, notice)
    for one in deliveries:
        if one.error:
            tries = f" ({one.tries} tries)" if one.tries > 1 else ""
            _note(f"bw: notice not delivered: {one.target}: {one.error}{tries}")
    unkept = keep(study, notice, deliveries) if study is not None else ""
    if unkept:
        _note(f"bw: the notice was not kept: {unkept}")
    return deliveries


def _note(line: str) -> None:
    """Say it on stderr, if anybody listens there."""
    with contextlib.suppress(OSError):
        print(one_line(line), file=sys.stderr, flush=True)


def event_of(end: Ended) -> Event:
    """Return which event an end is."""
    verdict = end.verdict
    if verdict.exit_status == 130:
        return Event.INTERRUPTED
    if verdict.status == "failed" and not end.broken:
        return Event.FAIL_FAST
    if verdict.exit_status == 3:
        return Event.UNDECIDED
    return Event.FAILURE if verdict.exit_status else Event.DONE


def notice_of(suite: str, event: Event, end: Ended) -> Notice:
    """Return the notice of an end, dated now, from this host, without what may be secret.

    A reason quotes commands, and tests are named after them: here text leaves the machine.
    """
    import platform

    from benchwright import __version__

    document = end.document
    return Notice(
        event=event,
        study="" if end.study is None else str(end.study.absolute()),
        session=end.session,
        host=platform.node() or "unknown",
        suite=suite,
        status=end.verdict.status,
        exit_status=end.verdict.exit_status,
        reason=_shown(end.verdict.detail),
        tests=tuple(map(_shown, end.tests)),
        results=() if document is None else results_of(document),
        findings=doubts_of(end.findings if document is None else document.findings),
        summary=_shown(end.summary),
        at_ns=time.time_ns(),
        version=__version__,
    )


def results_of(document: Document) -> tuple[Result, ...]:
    """Return the figures of a document: elapsed and what the suite declared."""
    from benchwright.report.json import known

    return tuple(
        Result(
            _shown(section.name),
            line.summary.name,
            line.summary.unit,
            line.summary.count,
            known(line.summary.mean),
            known(line.summary.half_width),
            line.summary.confidence,
        )
        for section in document.sections
        for line in section.lines
        if line.summary.name not in _COMMONLY_LEFT_OUT
    )


def doubts_of(findings: Sequence[Finding]) -> tuple[Doubt, ...]:
    """Return findings without their evidence."""
    return tuple(Doubt(f.code, f.severity.value, _shown(f.subject)) for f in findings)


def _shown(text: str) -> str:
    """Return a text without what captures leave out too (docs/env.md), line by line."""
    from benchwright.machine.redact import redacted_text

    return "\n".join(map(redacted_text, text.split("\n")))
