"""`--notify`: the targets of the notice when a session or a load ends."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import argument_error
from benchwright.core.notice import (
    ALL_EVENTS,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    NoticeEvent,
    NoticeSettings,
    NoticeTarget,
    Secret,
    WebhookTarget,
    parse_events,
)
from benchwright.run.findings import NOTIFY_OPTION

if TYPE_CHECKING:
    from argparse import Namespace

    from benchwright.study.journal import SessionInfo


# -- Reading --notify and --notify-on --------------------------------------------------
#
# A target is `mail:ADDRESS[,ADDRESS]` (through this machine's mail server), `https://...`,
# `env:NAME` (a variable with the URL of a webhook or of apprise), `command:PROGRAM WORDS`, or
# FILE.toml with a table [notify]. Decision: the session's options contain the settings, so that
# `bw resume` notifies the same targets. The settings cannot contain secrets.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "mail:ADDRESS, https://..., env:NAME, command:PROGRAM, or FILE.toml"


def read_notify(words: Sequence[str], on: str | None) -> tuple[NoticeSettings, ...]:
    """Return the settings of --notify and --notify-on. Raises InputError."""
    events = ALL_EVENTS if on is None else _events(on)
    if on is not None and not words:
        raise argument_error("--notify-on", on, "there is no --notify", _HINT)
    files = tuple(_of_file(word) for word in words if word.endswith(".toml"))
    if on is not None:
        files = tuple(msgspec.structs.replace(file, on=events) for file in files)
    targets = tuple(_target(word) for word in words if not word.endswith(".toml"))
    return (*files, *((NoticeSettings(targets, events),) if targets else ()))


def with_notify(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return a session's info with the settings of --notify added. Raises InputError."""
    notify = read_notify(arguments.notify, arguments.notify_on)
    if not notify:
        return info
    options = {**info.options, NOTIFY_OPTION: msgspec.json.encode(notify).decode()}
    return msgspec.structs.replace(info, options=options)


def _events(text: str) -> tuple[NoticeEvent, ...]:
    try:
        return parse_events(text)
    except ValueError as error:
        hint = "one of " + ", ".join(ALL_EVENTS)
        raise argument_error("--notify-on", text, str(error), hint) from None


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
    raise argument_error("--notify", word, f"{word!r} is not a notification target", _HINT)


def _with_apprise(word: str, target: NoticeTarget) -> NoticeTarget:
    """Return the target. Raises InputError if it needs apprise, which is not installed."""
    from benchwright.core.extras import require

    if isinstance(target, MailTarget | AppriseTarget):
        require("apprise", "--notify", "this target", word)
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
    from benchwright.notice.text import url_fault

    fault = url_fault(word, with_token=False)
    if fault:
        raise argument_error("--notify", word, fault)
    return WebhookTarget(word)


def _variable(word: str, name: str) -> NoticeTarget:
    """Return the target of an environment variable: a webhook for https://, else apprise."""
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
    from benchwright.inputs.mistakes import Unreadable, read_regular, read_text
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
