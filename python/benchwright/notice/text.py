"""A notice as text: a subject, a body, a JSON document, variables for a program. Pure.

Decision: plain text of at most some hundred lines; what is longer is in the study.
"""

from __future__ import annotations

import datetime

import msgspec

from benchwright.core import untrusted as visible
from benchwright.core.notice import (
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeEvent,
    NoticeResult,
    NoticeTarget,
    WebhookTarget,
)
from benchwright.findings.text import counted

MOST_LINES = 200
"""Of the summary in a message for a person."""

_WORDS = {
    NoticeEvent.FAIL_FAST: "failed, and ended there",
    NoticeEvent.FAILURE: "failed",
    NoticeEvent.DONE: "done",
    NoticeEvent.UNDECIDED: "ended without an answer",
    NoticeEvent.INTERRUPTED: "interrupted",
}


def subject(notice: Notice) -> str:
    """Return one line: what happened to which suite, on which host."""
    text = f"bw: {notice.suite} {_WORDS[notice.event]} on {notice.host}"
    return one_line(text, 200)


def one_line(text: str, most: int) -> str:
    """Return a text as one line, what is not printable escaped, cut to a length."""
    shown = visible.one_line(text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def body(notice: Notice) -> str:
    """Return the text for a person, its last line ended; nothing in it is a command to a
    terminal."""
    lines = [f"{subject(notice)}.", "", notice.reason.rstrip()]
    if notice.tests:
        lines.append("tests: " + ", ".join(notice.tests))
    codes = [f"{d.code} ({d.severity}): {d.subject}" for d in notice.findings]
    if codes:
        lines += ["", "findings:", *(f"  {one}" for one in codes)]
    lines += ["", *_summary(notice), "", *_places(notice)]
    return visible.visible_lines("\n".join(lines)) + "\n"


def _summary(notice: Notice) -> list[str]:
    lines = notice.summary.rstrip("\n").split("\n") if notice.summary else []
    if len(lines) > MOST_LINES:
        more = counted(len(lines) - MOST_LINES, "more line")
        where = f": bw stats {notice.study}" if notice.study else ""
        return [*lines[:MOST_LINES], f"... {more}{where}"]
    return lines or [result_line(result) for result in notice.results]


def _places(notice: Notice) -> list[str]:
    kept = f"study: {notice.study} on {notice.host}, session {notice.session}"
    return [
        kept if notice.study else f"kept in no study, on {notice.host}",
        f"status: {notice.status}, exit status {notice.exit_status}",
        f"at: {written_time(notice.at_ns)}, bw {notice.version}",
    ]


def result_line(result: NoticeResult) -> str:
    """Return a figure as a line: `sort elapsed: 0.51 +- 0.02 s (n 30)`."""
    mean = "absent" if result.mean is None else f"{result.mean:.6g}"
    width = "" if result.half_width is None else f" +- {result.half_width:.3g}"
    unit = f" {result.unit}" if result.unit else ""
    return f"{result.test} {result.quantity}: {mean}{width}{unit} (n {result.count})"


def written_time(at_ns: int) -> str:
    """Return a wall-clock time in UTC (RFC 3339), by the second."""
    at = datetime.datetime.fromtimestamp(at_ns // 10**9, tz=datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def document(notice: Notice) -> bytes:
    """Return the notice as JSON: `schema` first, `at` as a text beside `at_ns`."""
    fields = msgspec.to_builtins(notice)
    order = {"schema": fields.pop("schema"), "at": written_time(notice.at_ns)}
    encoded = msgspec.json.encode({**order, "subject": subject(notice), **fields})
    return visible.visible_json(encoded.decode()).encode()


def variables(notice: Notice) -> dict[str, str]:
    """Return what a program finds in its environment; only of reason and tests several lines."""
    values = {
        "EVENT": notice.event.value,
        "SUBJECT": subject(notice),
        "STUDY": notice.study,
        "SESSION": str(notice.session),
        "HOST": notice.host,
        "SUITE": notice.suite,
        "STATUS": notice.status,
        "EXIT_STATUS": str(notice.exit_status),
        "FINDINGS": " ".join(dict.fromkeys(d.code for d in notice.findings)),
        "AT": written_time(notice.at_ns),
    }
    shown = {name: visible.visible(value) for name, value in values.items()}
    shown |= {
        "REASON": visible.visible_lines(notice.reason),
        "TESTS": "\n".join(map(visible.visible, notice.tests)),
    }
    return {f"BW_NOTICE_{name}": value for name, value in shown.items()}


def described(target: NoticeTarget) -> str:
    """Return a target in words, without what may be secret."""
    match target:
        case MailTarget(to=to, host=host):
            return f"mail to {', '.join(to)} by {host}"
        case WebhookTarget(url="", url_from=secret):
            assert secret is not None, "a webhook has an URL or a place to find it"
            return f"webhook of {secret.kind} {secret.name}"
        case WebhookTarget(url=url):
            return f"webhook {url.partition('?')[0]}"
        case CommandTarget(argv=argv):
            return f"command {argv[0]}"
        case AppriseTarget(urls_from=secret):
            return f"apprise by {secret.kind} {secret.name}"
