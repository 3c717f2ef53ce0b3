"""Notices to a person who is not at the terminal, and their targets.

Purpose: frozen types that a suite, a study and the senders (notice/) share. Decision: these
types contain no secret, only the name of the variable or file that contains it, so settings can
be written in a suite and in the journal. Non-goals: output at the terminal (report/).
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

NOTICE_SCHEMA = "benchwright/notice/1"
NOTIFY_OPTION = "notify"
"""Key of a session's options: the settings of --notify as JSON."""


class NoticeEvent(enum.StrEnum):
    """Reason for a notice: one for each way in which a session ends."""

    FAIL_FAST = "fail-fast"
    """The first failure ended it (FASTFAIL, fail_fast)."""
    FAILURE = "failure"
    """It ended with exit status 1 or an error. Asked for, it stands for fail-fast too."""
    DONE = "done"
    UNDECIDED = "undecided"
    """Stopped without an answer: exit status 3."""
    INTERRUPTED = "interrupted"


ALL_EVENTS = tuple(NoticeEvent)


def parse_events(text: str) -> tuple[NoticeEvent, ...]:
    """Return the events of `done,failure`. Raises ValueError."""
    words = dict.fromkeys(word.strip() for word in text.split(","))
    for word in words:
        if word not in ALL_EVENTS:
            raise ValueError(f"there is no event {word!r}")
    return tuple(map(NoticeEvent, words))


class NoticeResult(msgspec.Struct, frozen=True):
    """One figure of one test; None where the data do not determine it."""

    test: str
    quantity: str
    unit: str
    count: int
    mean: float | None
    half_width: float | None
    """Of the mean's interval."""
    confidence: float


class NoticeFinding(msgspec.Struct, frozen=True):
    """A finding without its evidence, which may quote private data."""

    code: str
    severity: str
    subject: str


class Notice(msgspec.Struct, frozen=True):
    """What happened: the document `benchwright/notice/1`."""

    event: NoticeEvent
    study: str
    """Empty: a load that is not stored in a study."""
    session: int
    host: str
    suite: str
    """The path, as it was given, of the suite, the spec, the workload or the trace; without one
    `<command line>`, `<peak>`, `<load>` and so on."""
    status: str
    """Of the session: `complete`, `failed`, `undecided`, `interrupted`, `stopped`."""
    exit_status: int
    reason: str
    tests: tuple[str, ...] = ()
    """Those that it is about: failed, undecided or interrupted ones."""
    results: tuple[NoticeResult, ...] = ()
    findings: tuple[NoticeFinding, ...] = ()
    summary: str = ""
    """What was printed at the end, for a person."""
    at_ns: int = 0
    """CLOCK_REALTIME [ns since 1970]."""
    version: str = ""
    schema: str = NOTICE_SCHEMA


class Secret(msgspec.Struct, frozen=True):
    """The variable or file that contains a secret."""

    kind: Literal["variable", "file"]
    name: str


class MailTarget(msgspec.Struct, frozen=True, tag="mail"):
    """By SMTP (RFC 5321), plain, after STARTTLS (RFC 3207), or in TLS from the start."""

    to: tuple[str, ...]
    sender: str = ""
    """Empty: USER@HOST of this machine."""
    host: str = "localhost"
    port: int | None = None
    """None: 25, 587 or 465, as `security` has it."""
    security: Literal["none", "starttls", "tls"] = "none"
    user: str = ""
    password: Secret | None = None
    ca_file: str = ""
    """Certificates to trust instead of the system's."""


class WebhookTarget(msgspec.Struct, frozen=True, tag="webhook"):
    """By POST of the notice as JSON; one of `url` and `url_from` is set."""

    url: str = ""
    url_from: Secret | None = None
    token: Secret | None = None
    """Sent as `Authorization: Bearer`."""
    ca_file: str = ""


class CommandTarget(msgspec.Struct, frozen=True, tag="command"):
    """By a program: the notice on stdin and in BW_NOTICE_* variables."""

    argv: tuple[str, ...]


class AppriseTarget(msgspec.Struct, frozen=True, tag="apprise"):
    """By the library apprise; its URLs hold secrets, so they are named, not written."""

    urls_from: Secret


NoticeTarget = MailTarget | WebhookTarget | CommandTarget | AppriseTarget


class NoticeSettings(msgspec.Struct, frozen=True):
    """Which events are sent to which targets."""

    targets: tuple[NoticeTarget, ...]
    on: tuple[NoticeEvent, ...] = ALL_EVENTS

    def wants(self, event: NoticeEvent) -> bool:
        """Return whether an event is to be sent."""
        covered = event is NoticeEvent.FAIL_FAST and NoticeEvent.FAILURE in self.on
        return event in self.on or covered


class NoticeDelivery(msgspec.Struct, frozen=True):
    """The delivery of one notice to one target."""

    target: str
    """In words without secrets: `mail to me@example.org by localhost`."""
    tries: int
    error: str = ""
    """Why it did not arrive; empty when it did."""
