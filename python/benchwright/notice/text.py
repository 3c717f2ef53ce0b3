"""A notice as text (subject, body, JSON document, environment variables), the names of its targets
for messages, and the request to the sending program. Pure.

Decision: plain text of at most a few hundred lines; the study has the rest.
"""

from __future__ import annotations

import datetime
import urllib.parse

import msgspec

from benchwright.core import untrusted
from benchwright.core.notice import (
    NOTICE_SCHEMA,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeEvent,
    NoticeFinding,
    NoticeResult,
    NoticeTarget,
    WebhookTarget,
)
from benchwright.core.text import plural

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine itself: data sent there crosses no network."""


class SendRequest(msgspec.Struct, frozen=True):
    """What `deliver` requests from the program `send`."""

    target: MailTarget | WebhookTarget | AppriseTarget
    notice: Notice
    answer_s: float
    """Limit for one response of a server [s]."""
    pauses_s: tuple[float, ...]
    """Pauses between attempts [s]: one attempt more than pauses."""


def url_fault(url: str, *, with_token: bool) -> str:
    """Return what is wrong with a webhook's URL, without quoting it; empty if nothing is."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the URL cannot be read: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "the URL does not begin with https://HOST"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "the URL contains a space or a character that is not ASCII"
    if "@" in parts.netloc:
        return "the URL contains a user or password: give a token instead"
    if with_token and parts.scheme == "http" and host not in LOOPBACK:
        return "the token would cross the network unencrypted: use https://"
    return ""


def target_name(target: NoticeTarget) -> str:
    """Return the name of a target for messages, without parts that may be secret."""
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


MOST_LINES = 200
"""Maximum number of summary lines in a message."""

_SUBJECT_VERBS = {
    NoticeEvent.FAIL_FAST: "stopped at its first failure",
    NoticeEvent.FAILURE: "failed",
    NoticeEvent.DONE: "done",
    NoticeEvent.UNDECIDED: "ended undecided",
    NoticeEvent.INTERRUPTED: "interrupted",
}


def subject(notice: Notice) -> str:
    """Return one line: what happened to which suite, on which host."""
    text = f"bw: {notice.suite} {_SUBJECT_VERBS[notice.event]} on {notice.host}"
    return one_line(text, 200)


def one_line(text: str, most: int) -> str:
    """Return a text as one line, unprintable characters escaped, cut to at most `most`."""
    shown = untrusted.one_line(text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def body(notice: Notice) -> str:
    """Return the text of a message; it ends with a newline and has no terminal escapes."""
    lines = [f"{subject(notice)}.", "", notice.reason.rstrip()]
    if notice.tests:
        lines.append("tests: " + ", ".join(notice.tests))
    codes = [f"{d.code} ({d.severity}): {d.subject}" for d in notice.findings]
    if codes:
        lines += ["", "findings:", *(f"  {code}" for code in codes)]
    lines += ["", *_summary(notice), "", *_origin(notice)]
    return untrusted.visible_lines("\n".join(lines)) + "\n"


def _summary(notice: Notice) -> list[str]:
    lines = notice.summary.rstrip("\n").split("\n") if notice.summary else []
    if len(lines) > MOST_LINES:
        more = plural(len(lines) - MOST_LINES, "more line")
        where = f": bw stats {notice.study}" if notice.study else ""
        return [*lines[:MOST_LINES], f"... {more}{where}"]
    return lines or [result_line(result) for result in notice.results]


def _origin(notice: Notice) -> list[str]:
    study = f"study: {notice.study} on {notice.host}, session {notice.session}"
    return [
        study if notice.study else f"not stored in a study; ran on {notice.host}",
        f"status: {notice.status}, exit status {notice.exit_status}",
        f"at: {written_time(notice.at_ns)}, bw {notice.version}",
    ]


def result_line(result: NoticeResult) -> str:
    """Return a result as a line: `sort elapsed: 0.51 +- 0.02 s (n 30)`."""
    mean = "absent" if result.mean is None else f"{result.mean:.6g}"
    width = "" if result.half_width is None else f" +- {result.half_width:.3g}"
    unit = f" {result.unit}" if result.unit else ""
    return f"{result.test} {result.quantity}: {mean}{width}{unit} (n {result.count})"


def written_time(at_ns: int) -> str:
    """Return a wall-clock time in UTC (RFC 3339), to the second."""
    at = datetime.datetime.fromtimestamp(at_ns // 10**9, tz=datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class NoticeDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=NOTICE_SCHEMA
):
    """A notice: what happened to which suite, on which host."""

    at: str
    """UTC (RFC 3339)."""
    subject: str
    event: NoticeEvent
    study: str
    session: int
    host: str
    suite: str
    status: str
    exit_status: int
    reason: str
    tests: tuple[str, ...]
    results: tuple[NoticeResult, ...]
    findings: tuple[NoticeFinding, ...]
    summary: str
    at_ns: int
    version: str


def document(notice: Notice) -> bytes:
    """Return the notice as JSON."""
    fields = msgspec.structs.asdict(notice)
    del fields["schema"]
    at = written_time(notice.at_ns)
    encoded = msgspec.json.encode(NoticeDocument(at=at, subject=subject(notice), **fields))
    return untrusted.visible_json(encoded.decode()).encode()


def variables(notice: Notice) -> dict[str, str]:
    """Return the variables for a command; only reason and tests may have several lines."""
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
    shown = {name: untrusted.visible(value) for name, value in values.items()}
    shown |= {
        "REASON": untrusted.visible_lines(notice.reason),
        "TESTS": "\n".join(map(untrusted.visible, notice.tests)),
    }
    return {f"BW_NOTICE_{name}": value for name, value in shown.items()}
