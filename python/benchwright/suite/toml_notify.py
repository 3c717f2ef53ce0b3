"""`[notify]` of a suite, a SPEC.toml, or a file given to --notify: who is told of an end.

Decision: no secret can be written here: a password, a token or an URL that is one is named
by a variable of the environment or by a private file. docs/notices.md describes the table.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal

from benchwright.model.errors import Diagnostic, InputError
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
from benchwright.notice.url import LOOPBACK, url_fault
from benchwright.suite.toml_table import Table
from benchwright.suite.toml_text import decoded

_TOP = ("on", "mail", "webhook", "command", "apprise")
_MAIL = (
    "to",
    "from",
    "host",
    "port",
    "security",
    "user",
    "password_variable",
    "password_file",
    "ca_file",
)
_WEBHOOK = (
    "url",
    "url_variable",
    "url_file",
    "token_variable",
    "token_file",
    "ca_file",
)
_APPRISE = ("urls_variable", "urls_file")
ADDRESS = re.compile(r"[^\s@,<>()\"]+@[^\s@,<>()\"]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def notify_of(table: Table) -> Notify | None:
    """Return what a `[notify]` table asks for, None when its mistakes are reported."""
    table.only(_TOP)
    targets = [
        *(_mail(one) for one in _each(table, "mail")),
        *(_webhook(one) for one in _each(table, "webhook")),
        *_commands(table),
        *(_apprise(one) for one in _each(table, "apprise")),
    ]
    if not any(key in table for key in _TOP[1:]):
        hint = (
            "add [notify.mail], [notify.webhook], [notify.apprise] or command = [...]"
        )
        table.wrong(table.where, "suite-notify", "nobody is told anything", hint)
    known = tuple(target for target in targets if target is not None)
    return Notify(known, _events(table)) if known else None


def notify_file(path: str, text: str) -> Notify:
    """Return what a file with a table [notify] asks for. Raises InputError."""
    values, locator = decoded(text, path, "suite-toml")
    found: list[Diagnostic] = []
    top = Table(values, (), locator, found)
    top.only(("notify",))
    table = top.table("notify")
    notify = None if table is None else notify_of(table)
    if notify is None and not found:
        top.wrong(top.where, "suite-notify", "there is no table [notify]")
    if found or notify is None:
        raise InputError(sorted(found, key=lambda d: (d.line, d.column)))
    return notify


def _each(table: Table, key: str) -> list[Table]:
    """Return the tables of a key that holds one, or an array of them."""
    if key not in table:
        return []
    if isinstance(table.values[key], list):
        return table.tables(key)
    one = table.table(key)
    return [] if one is None else [one]


def _events(table: Table) -> tuple[Event, ...]:
    events = []
    for index, word in enumerate(table.texts("on")):
        if word in ALL_EVENTS:
            events.append(Event(word))
        else:
            single = isinstance(table.values["on"], str)
            where = table.at("on") if single else table.at("on", index)
            hint = "one of " + ", ".join(ALL_EVENTS)
            table.wrong(where, "suite-notify", f"there is no event {word!r}", hint)
    if "on" in table and table.values["on"] == []:
        table.wrong(table.at("on"), "suite-notify", "no event is told")
    return tuple(dict.fromkeys(events)) or ALL_EVENTS


def _mail(table: Table) -> ByMail | None:
    table.only(_MAIL)
    to = table.texts("to")
    if not to:
        table.wrong(table.where, "suite-notify", "mail has no `to`", 'to = "me@host"')
    sender = table.text("from") or ""
    for key, addresses in (("to", to), ("from", [sender] if sender else [])):
        for address in addresses:
            if not ADDRESS.fullmatch(address):
                message = f"{address!r} is no mail address"
                table.wrong(table.at(key), "suite-notify", message, "NAME@HOST")
    password = _secret(table, "password")
    mail = ByMail(
        to=tuple(to),
        sender=sender,
        host=table.text("host") or "localhost",
        port=table.whole("port", 1, 65535),
        security=_security(table),
        user=table.text("user") or "",
        password=password,
        ca_file=table.text("ca_file") or "",
    )
    _check_password(table, mail)
    return mail if to else None


def _security(table: Table) -> Literal["none", "starttls", "tls"]:
    match table.text("security"):
        case None | "none":
            return "none"
        case "starttls":
            return "starttls"
        case "tls":
            return "tls"
        case word:
            message = f"there is no security {word!r}"
            hint = "one of none, starttls, tls"
            table.wrong(table.at("security"), "suite-notify", message, hint)
            return "none"


def _check_password(table: Table, mail: ByMail) -> None:
    if bool(mail.user) != (mail.password is not None):
        message = "a user and a password belong together"
        hint = "give `user`, and `password_variable` or `password_file`"
        table.wrong(table.where, "suite-notify", message, hint)
    clear = mail.security == "none" and mail.host not in LOOPBACK
    if mail.password is not None and clear:
        message = f"the password would go to {mail.host} in clear"
        hint = 'add security = "starttls", or "tls"'
        table.wrong(table.where, "suite-notify", message, hint)


def _webhook(table: Table) -> ByWebhook | None:
    table.only(_WEBHOOK)
    url, secret = table.text("url") or "", _secret(table, "url")
    token = _secret(table, "token")
    if bool(url) == (secret is not None):
        message = "a webhook has one of url, url_variable and url_file"
        table.wrong(table.where, "suite-notify", message)
        return None
    fault = url_fault(url, with_token=token is not None) if url else ""
    if fault:
        table.wrong(table.at("url"), "suite-notify", fault)
    return ByWebhook(url, secret, token, table.text("ca_file") or "")


def _commands(table: Table) -> list[Target]:
    """Return the commands: an array of words, or an array of such arrays."""
    if not table.has("command", list):
        return []
    value = table.values["command"]
    several = bool(value) and all(isinstance(one, list) for one in value)
    found: list[Target] = []
    for argv in value if several else [value]:
        if argv and all(isinstance(word, str) and word for word in argv):
            found.append(ByCommand(tuple(argv)))
        else:
            message = "a command is an array of words, none of them empty"
            hint = 'command = ["notify-send", "benchmark"]'
            table.wrong(table.at("command"), "suite-notify", message, hint)
    return found


def _apprise(table: Table) -> ByApprise | None:
    table.only(_APPRISE)
    secret = _secret(table, "urls")
    if secret is None:
        message = "apprise has one of urls_variable and urls_file"
        hint = "its URLs hold secrets, so they cannot stand here"
        table.wrong(table.where, "suite-notify", message, hint)
    return None if secret is None else ByApprise(secret)


def _secret(table: Table, what: str) -> Secret | None:
    """Return where a secret is: `WHAT_variable` or `WHAT_file`, not both."""
    variable, file = table.text(f"{what}_variable"), table.text(f"{what}_file")
    if variable is not None and file is not None:
        message = f"both {what}_variable and {what}_file"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message, "keep one")
    if variable is not None:
        if not _VARIABLE.fullmatch(variable):
            message = "this is no name of an environment variable"
            hint = "the name, not the secret itself"
            table.wrong(table.at(f"{what}_variable"), "suite-notify", message, hint)
        return Secret("variable", variable)
    if file is None:
        return None
    if not PurePath(file).is_absolute():
        message = f"{file!r} is no absolute path"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message)
    return Secret("file", file)
