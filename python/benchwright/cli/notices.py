"""`--notify`: who is notified when a session or a load ends, and of what."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import OperatingError, argument_error
from benchwright.core.notice import (
    ALL_EVENTS,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeEvent,
    NoticeFinding,
    NoticeResult,
    NoticeSettings,
    NoticeTarget,
    Secret,
    WebhookTarget,
)
from benchwright.core.untrusted import one_line
from benchwright.study.contents import SEARCH_KINDS

if TYPE_CHECKING:
    from argparse import Namespace

    from benchwright.core.notice import NoticeDelivery
    from benchwright.core.results import Finding
    from benchwright.report.stats_document import StatsReport
    from benchwright.run.preparation import PreparedProgram
    from benchwright.run.session import Session, SessionVerdict
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import SessionInfo


# -- `--notify`: the targets that are named on the command line ------------------------
#
# A target is `mail:ADDRESS[,ADDRESS]` (by this machine's mail server), `https://...`, `env:NAME`
# (a variable with the URL of a webhook or of apprise), `command:PROGRAM WORDS`, or FILE.toml
# with a table [notify]. Decision: the settings are stored with the session's options, so that
# `bw resume` notifies the same targets; no secret can be part of them.

KEY = "notify"
"""Key of the session's options: the settings of --notify as JSON."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "mail:ADDRESS, https://..., env:NAME, command:PROGRAM, or FILE.toml"


def read_notify(words: Sequence[str], on: str | None) -> tuple[NoticeSettings, ...]:
    """Return the settings of --notify and --notify-on. Raises InputError."""
    events = ALL_EVENTS if on is None else _events(on)
    if on is not None and not words:
        raise argument_error("--notify-on", on, "there is no --notify", _HINT)
    files = tuple(_of_file(word) for word in words if word.endswith(".toml"))
    if on is not None:
        files = tuple(msgspec.structs.replace(one, on=events) for one in files)
    targets = tuple(_target(word) for word in words if not word.endswith(".toml"))
    return (*files, *((NoticeSettings(targets, events),) if targets else ()))


def with_notify(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return a session's info with the settings of --notify. Raises InputError."""
    asked = read_notify(arguments.notify, arguments.notify_on)
    if not asked:
        return info
    options = {**info.options, KEY: msgspec.json.encode(asked).decode()}
    return msgspec.structs.replace(info, options=options)


def notices_of(
    info: SessionInfo, suite: NoticeSettings | None = None
) -> tuple[NoticeSettings, ...]:
    """Return the settings of the suite and those of --notify."""
    stored = info.options.get(KEY, "[]")
    options = msgspec.json.decode(stored, type=tuple[NoticeSettings, ...])
    return (*(() if suite is None else (suite,)), *options)


def _events(text: str) -> tuple[NoticeEvent, ...]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in ALL_EVENTS:
            hint = "one of " + ", ".join(ALL_EVENTS)
            raise argument_error(
                "--notify-on", text, f"there is no event {word!r}", hint
            )
    return tuple(dict.fromkeys(NoticeEvent(word) for word in words))


def _target(word: str) -> NoticeTarget:
    kind, _, rest = word.partition(":")
    match kind:
        case "mail":
            return _with_apprise(word, _mail(word, rest))
        case "http" | "https":
            return _webhook(word)
        case "env":
            return _with_apprise(word, _variable(word, rest))
        case "command":
            return _command(word, rest)
    raise argument_error(
        "--notify", word, f"{word!r} is not a notification target", _HINT
    )


def _with_apprise(word: str, target: NoticeTarget) -> NoticeTarget:
    """Return a target. Raises InputError where it needs apprise, which is not installed."""
    from importlib.util import find_spec

    needed = isinstance(target, MailTarget | AppriseTarget)
    if needed and find_spec("apprise") is None:
        from benchwright.notice.targets import NO_APPRISE

        raise argument_error("--notify", word, NO_APPRISE)
    return target


def _mail(word: str, rest: str) -> MailTarget:
    from benchwright.suite.toml_sections import ADDRESS

    to = tuple(address.strip() for address in rest.split(","))
    for address in to:
        if not ADDRESS.fullmatch(address):
            message = f"{address!r} is not a mail address"
            raise argument_error("--notify", word, message, "mail:NAME@HOST")
    return MailTarget(to)


def _webhook(word: str) -> WebhookTarget:
    from benchwright.notice.targets import url_fault

    fault = url_fault(word, with_token=False)
    if fault:
        raise argument_error("--notify", word, fault)
    return WebhookTarget(word)


def _variable(word: str, name: str) -> NoticeTarget:
    """Return the target of a variable: a webhook for https://, apprise for the rest."""
    import os

    if not _NAME.fullmatch(name):
        message = f"{name!r} is not the name of a variable"
        raise argument_error("--notify", word, message, "env:NAME")
    value = os.environ.get(name, "").strip()
    if not value:
        raise argument_error("--notify", word, f"the variable {name} is not set")
    secret = Secret("variable", name)
    if value.startswith(("https://", "http://")):
        return WebhookTarget(url_from=secret)
    return AppriseTarget(secret)


def _command(word: str, rest: str) -> CommandTarget:
    try:
        argv = shlex.split(rest)
    except ValueError as error:
        raise argument_error("--notify", word, f"{error}") from None
    if not argv or not argv[0]:
        raise argument_error("--notify", word, "there is no command", "command:PROGRAM")
    return CommandTarget(tuple(argv))


def _of_file(path: str) -> NoticeSettings:
    from benchwright.suite.source import Unreadable, read_regular, read_text
    from benchwright.suite.toml_sections import notify_file

    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        raise argument_error("--notify", path, error.message) from None
    if text is None:
        raise argument_error("--notify", path, "there is no such file")
    settings = notify_file(path, text)
    for target in settings.targets:
        _with_apprise(path, target)
    return settings


# --------------------------------------------------------------------------------------
# Notifies of a session's end: composes the notice, delivers it, reports what was not delivered.
#
# Purpose: the one call for `bw run`, `compare` and `resume` (a session), searches and loads.
# Decision: it comes after the result is printed and durable, raises nothing, and does not
# change the exit status: what a mail server does is no property of what was measured.

_COMMON_QUANTITIES = frozenset({"user", "system", "wait", "cpu_percent", "rss_bytes"})


class SessionEnd(msgspec.Struct, frozen=True):
    """How a session ended."""

    study: Path | None
    """None: a load that no study stores."""
    session: int
    verdict: SessionVerdict
    tests: tuple[str, ...] = ()
    """The tests that failed or are undecided."""
    document: StatsReport | None = None
    summary: str = ""
    """The report as it was printed."""
    findings: tuple[Finding, ...] = ()
    broken: bool = False
    """An operating error ended it, not a benchmark."""
    paused: bool = False
    """It stopped at a checkpoint, as before a reboot, and continues by itself: no notice."""


def notify_of_session(
    prepared: PreparedProgram, session: Session, end: SessionEnd
) -> None:
    """Send the notice of a session's end to the targets of the suite and of --notify."""
    notify = notices_of(prepared.info, prepared.program.notify)
    if not end.paused and any(one.wants(event_of(end)) for one in notify):
        notify_of_end(suite_of(prepared.info), notify, _described(session, end))


@contextlib.contextmanager
def notify_on_error(
    info: SessionInfo, suite: NoticeSettings | None, study_session: tuple[Path, int]
) -> Iterator[None]:
    """Send a notice of an operating error that ends a session, and let it pass."""
    try:
        yield
    except OperatingError as error:
        from benchwright.run.session import SessionVerdict

        verdict = SessionVerdict("failed", str(error), error.exit_status)
        end = SessionEnd(*study_session, verdict, broken=True)
        notify_of_end(suite_of(info), notices_of(info, suite), end)
        raise


def notify_of_end(
    suite: str, notify: Sequence[NoticeSettings], end: SessionEnd
) -> None:
    """Send a notice of the end of a suite, a search or a load, where a target wants it."""
    event = event_of(end)
    if any(one.wants(event) for one in notify):
        send_notice(notify, notice_of(suite, event, end), end.study)


def suite_of(info: SessionInfo) -> str:
    """Return what a session ran, for a notice: the path of its suite or spec, `<peak>` where a
    search has none."""
    if info.kind not in SEARCH_KINDS:
        return info.program_main
    from benchwright.run.search import stored_spec

    spec = stored_spec(info)
    return f"<{info.kind}>" if spec is None else spec.path


def _described(session: Session, end: SessionEnd) -> SessionEnd:
    """Return the end with the results and the report of a session's tests."""
    from benchwright.cli.outcome import document_of
    from benchwright.report.comparison import render_comparison
    from benchwright.report.parts import stop_line
    from benchwright.report.stats_table import render_table

    document = document_of(session.tests, end.findings)
    stops = [stop_line(s.name, s.stop) for s in document.sections if s.stop is not None]
    compared = [c.result for c in session.comparisons if c.result is not None]
    parts = [render_table(document, findings=False), *stops]
    parts += [render_comparison(one) for one in compared]
    return msgspec.structs.replace(
        end,
        tests=tuple(t.name for t in session.tests if _is_wanted(t)),
        document=document,
        summary="\n".join(parts),
    )


def _is_wanted(test: RunningTest) -> bool:
    """Return whether a test failed or is undecided."""
    unanswered = test.stop is None or not test.stop.answered
    return bool(test.failed) or (unanswered and not test.is_arm)


def send_notice(
    notify: Sequence[NoticeSettings], notice: Notice, study: Path | None
) -> tuple[NoticeDelivery, ...]:
    """Deliver a notice, record the result in the study, and report what was not delivered."""
    from benchwright.notice.deliver import deliver, record_notice

    deliveries = deliver(notify, notice)
    for one in deliveries:
        if one.error:
            tries = f" ({one.tries} attempts)" if one.tries > 1 else ""
            _note(f"bw: notice not delivered: {one.target}: {one.error}{tries}")
    error = record_notice(study, notice, deliveries) if study is not None else ""
    if error:
        _note(f"bw: the notice was not recorded: {error}")
    return deliveries


def _note(line: str) -> None:
    """Print a line on stderr, if stderr is open."""
    with contextlib.suppress(OSError):
        print(one_line(line), file=sys.stderr, flush=True)


def event_of(end: SessionEnd) -> NoticeEvent:
    """Return which event an end is."""
    verdict = end.verdict
    if verdict.exit_status == 130:
        return NoticeEvent.INTERRUPTED
    if verdict.status == "failed" and not end.broken:
        return NoticeEvent.FAIL_FAST
    if verdict.exit_status == 3:
        return NoticeEvent.UNDECIDED
    return NoticeEvent.FAILURE if verdict.exit_status else NoticeEvent.DONE


def notice_of(suite: str, event: NoticeEvent, end: SessionEnd) -> Notice:
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
        findings=notice_findings(end.findings),
        summary=_shown(end.summary),
        at_ns=time.time_ns(),
        version=__version__,
    )


def results_of(document: StatsReport) -> tuple[NoticeResult, ...]:
    """Return the results of a document: elapsed time and what the suite declared."""
    from benchwright.report.parts import known

    return tuple(
        NoticeResult(
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
        if line.summary.name not in _COMMON_QUANTITIES
    )


def notice_findings(findings: Sequence[Finding]) -> tuple[NoticeFinding, ...]:
    """Return findings without their evidence."""
    return tuple(
        NoticeFinding(f.code, f.severity.value, _shown(f.subject)) for f in findings
    )


def _shown(text: str) -> str:
    """Return a text without what looks like a secret (docs/env.md), line by line."""
    from benchwright.machine.redact import redacted_text

    return "\n".join(map(redacted_text, text.split("\n")))
