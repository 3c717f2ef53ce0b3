"""`--notify`: who is told of a session's end, from words of the command line.

A word is `mail:ADDRESS[,ADDRESS]` (by this machine's mail server), `https://...`, `env:NAME`
(a variable that holds a webhook's URL, or apprise's), `command:PROGRAM WORDS`, or FILE.toml
with a table [notify]. Decision: what was asked is kept among the session's options, so that
`bw resume` tells the same people; no secret can be part of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.model.errors import argument_error
from benchwright.model.notice import (
    ALL_EVENTS,
    ByApprise,
    ByCommand,
    ByMail,
    ByWebhook,
    Event,
    Notify,
    Secret,
    Target,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from benchwright.study.journal import SessionInfo

KEY = "notify"
"""Of the session's options: the JSON of what --notify asked for."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "mail:ADDRESS, https://..., env:NAME, command:PROGRAM, or FILE.toml"


def read_notify(words: Sequence[str], on: str | None) -> tuple[Notify, ...]:
    """Return what --notify and --notify-on ask for. Raises InputError."""
    events = ALL_EVENTS if on is None else _events(on)
    if on is not None and not words:
        raise argument_error("--notify-on", on, "there is no --notify", _HINT)
    files = tuple(_of_file(word) for word in words if word.endswith(".toml"))
    if on is not None:
        files = tuple(msgspec.structs.replace(one, on=events) for one in files)
    targets = tuple(_target(word) for word in words if not word.endswith(".toml"))
    return (*files, *((Notify(targets, events),) if targets else ()))


def notifying(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return what a session is begun with, and what --notify asked. Raises InputError."""
    asked = read_notify(arguments.notify, arguments.notify_on)
    if not asked:
        return info
    options = {**info.options, KEY: msgspec.json.encode(asked).decode()}
    return msgspec.structs.replace(info, options=options)


def notices_of(info: SessionInfo, suite: Notify | None = None) -> tuple[Notify, ...]:
    """Return who is to be told: those of the suite and those of --notify."""
    kept = info.options.get(KEY)
    asked = msgspec.json.decode(kept, type=tuple[Notify, ...]) if kept else ()
    return (*(() if suite is None else (suite,)), *asked)


def _events(text: str) -> tuple[Event, ...]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in ALL_EVENTS:
            hint = "one of " + ", ".join(ALL_EVENTS)
            raise argument_error(
                "--notify-on", text, f"there is no event {word!r}", hint
            )
    return tuple(dict.fromkeys(Event(word) for word in words))


def _target(word: str) -> Target:
    kind, _, rest = word.partition(":")
    match kind:
        case "mail":
            return _mail(word, rest)
        case "http" | "https":
            return _webhook(word)
        case "env":
            return _variable(word, rest)
        case "command":
            return _command(word, rest)
    raise argument_error("--notify", word, f"{word!r} tells nobody", _HINT)


def _mail(word: str, rest: str) -> ByMail:
    from benchwright.suite.toml_notify import ADDRESS

    to = tuple(address.strip() for address in rest.split(","))
    for address in to:
        if not ADDRESS.fullmatch(address):
            message = f"{address!r} is no mail address"
            raise argument_error("--notify", word, message, "mail:NAME@HOST")
    return ByMail(to)


def _webhook(word: str) -> ByWebhook:
    from benchwright.notice.url import url_fault

    fault = url_fault(word, with_token=False)
    if fault:
        raise argument_error("--notify", word, fault)
    return ByWebhook(word)


def _variable(word: str, name: str) -> Target:
    """Return the target of a variable: a webhook for https://, apprise for the rest."""
    import os

    if not _NAME.fullmatch(name):
        message = f"{name!r} is no name of a variable"
        raise argument_error("--notify", word, message, "env:NAME")
    value = os.environ.get(name, "").strip()
    if not value:
        raise argument_error("--notify", word, f"the variable {name} is not set")
    secret = Secret("variable", name)
    if value.startswith(("https://", "http://")):
        return ByWebhook(url_from=secret)
    return ByApprise(secret)


def _command(word: str, rest: str) -> ByCommand:
    try:
        argv = shlex.split(rest)
    except ValueError as error:
        raise argument_error("--notify", word, f"{error}") from None
    if not argv or not argv[0]:
        raise argument_error("--notify", word, "there is no command", "command:PROGRAM")
    return ByCommand(tuple(argv))


def _of_file(path: str) -> Notify:
    from benchwright.suite.include import Unreadable, read_regular, read_text
    from benchwright.suite.toml_notify import notify_file

    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        raise argument_error("--notify", path, error.message) from None
    if text is None:
        raise argument_error("--notify", path, "there is no such file")
    return notify_file(path, text)
