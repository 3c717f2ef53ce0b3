"""Reads the sections of suites and specs other than tests: target, remote, notify.

Tables of suites that features add: a port.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

from benchwright.core.hosts import SERVER_KEYS, NamedServer, parse_named_server
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
)
from benchwright.feature import TABLE, feature, features
from benchwright.inputs.form import Form, form_of, optional, read_form, whole
from benchwright.inputs.options import Option, Reader
from benchwright.inputs.template import Template, brace_template, fixed
from benchwright.inputs.toml_table import TomlTable, read_toml
from benchwright.notice.text import LOOPBACK, url_fault
from benchwright.suite import program as step
from benchwright.suite.program import Step


def _accept_any(_stated: Any) -> None:
    pass


class SuiteTable(msgspec.Struct, frozen=True):
    """A key at the top of a suite in TOML, and what it states, which the core does not look into
    (`Program.tables`)."""

    read: Callable[[TomlTable], Any]
    """Returns what the key states, from the top of the suite; None after it reported mistakes."""
    check: Callable[[Any], None] = _accept_any
    """Raises InputError for what this machine does not support, before anything runs."""
    in_specs: bool = False
    """Whether a spec of a search may have it too."""
    changes_machine: bool = False
    """Whether the session changes the machine by it, which gangs on one machine cannot each do."""


def suite_tables() -> dict[str, SuiteTable]:
    """Return the tables that the installed features add, by key."""
    return {key: table for one in features() for key, table in one.suite_tables().items()}


def missing_tables() -> dict[str, str]:
    """Return the keys of features that are not installed, each with a hint that says so."""
    return {
        key: f"the feature {row.name} is not installed"
        for row in TABLE
        if feature(row.name) is None
        for key in row.tables
    }


# -- `target = {...}` of a suite or a SPEC.toml: a server that is already running ------
#
# Forms: a table with one of `pid`, `port`, `unit` and `name`, or an array of such tables if the
# server consists of several programs. The session checks at its start that the server runs.


def servers_of(top: TomlTable) -> tuple[NamedServer, ...]:
    """Return the servers that a file names; report mistakes in the table."""
    if not top.has("target", dict, list):
        return ()
    if isinstance(top.values["target"], list):
        tables = top.tables("target")
    else:
        table = top.table("target")
        tables = [] if table is None else [table]
    servers = (_server_of(table) for table in tables)
    return tuple(server for server in servers if server is not None)


def _server_of(table: TomlTable) -> NamedServer | None:
    table.only(SERVER_KEYS)
    server_keys = [way for way in SERVER_KEYS if way in table]
    code = f"{table.kind}-target"
    if len(server_keys) != 1:
        message = "a target is one of pid, port, unit and name"
        table.wrong(table.where, code, message, "target = { port = 5432 }")
        return None
    way = server_keys[0]
    is_file = way == "pid" and str(table.values[way]).startswith("/")
    is_number = way in ("pid", "port") and not is_file
    if not table.has(way, int if is_number else str):
        return None
    try:
        return parse_named_server(way, str(table.values[way]))
    except ValueError as error:
        table.wrong(table.at(way), code, str(error))
        return None


# --------------------------------------------------------------------------------------
# `[remote]` of a suite: the server on which the hook `remote` runs commands.
#
# Decision: the table is a typed form of the hook's environment variables, checked before the
# suite runs; no other code depends on it. docs/remote.md describes the table and the hook.

HOOK = "remote"
SENT = ("disk-io", "free-memory", "network", "other-cpu")
"""The shipped hooks that can be run on a server."""

_PROCESS = re.compile(r"pid:/[^\s]+|[^\s:]\S*")


def steps_of(table: TomlTable) -> list[Step]:
    """Return the assignments of the hook's variables."""
    if not table.values.get("host"):
        hint = 'add host = "server" (a name of ~/.ssh/config, user@host, ssh://host:port)'
        table.wrong(table.where, "suite-remote", "[remote] has no host", hint)
    values = read_form(table, REMOTE) or {}
    # Sets every variable: values in the caller's environment may be for another suite.
    return [
        step.Assign(
            f"BW_REMOTE_{key.upper()}",
            values.get(key) or fixed("", table.where),
            True,
            False,
            table.at(key) if key in table else table.where,
        )
        for key in REMOTE.names
    ]


def _line(table: TomlTable, key: str) -> Template | None:
    text = table.text(key)
    if text is None:
        return None
    if "\n" in text.strip("\n"):
        message = f"{key} is more than one line"
        table.wrong(table.at(key), "suite-remote", message, "join them by ; or &&")
    return brace_template(text.strip("\n"), table.inside(text, key), tuple(table.known))


def _words(fault: Callable[[str], str]) -> Reader:
    """Return the reader of words; `fault` returns the mistake in a word, or nothing."""

    def read(table: TomlTable, key: str) -> Template:
        words = table.texts(key)
        for index, word in enumerate(words):
            message = fault(word)
            if message:
                single = isinstance(table.values[key], str)
                where = table.at(key) if single else table.at(key, index)
                table.wrong(where, "suite-remote", message)
        return fixed(" ".join(words), table.at(key))

    return read


def _process_fault(word: str) -> str:
    good = _PROCESS.fullmatch(word) is not None
    return "" if good else f"{word!r} is not a process: give a name, or pid:/run/FILE.pid"


def _hook_fault(word: str) -> str:
    known = ", ".join(SENT)
    return (
        "" if word in SENT else f"{word!r} is not a hook that can be sent: must be one of {known}"
    )


def _prefix(table: TomlTable, key: str) -> Template | None:
    text = table.text(key)
    if text is None:
        return None
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text, re.ASCII):
        message = f"{text!r} cannot begin the names of values"
        hint = "small letters, digits and _, beginning with a letter"
        table.wrong(table.at(key), "suite-remote", message, hint)
    return fixed(text, table.at(key))


def _timeout(table: TomlTable, key: str) -> Template | None:
    limit_s = table.whole(key, 1, 86400)
    return None if limit_s is None else fixed(str(limit_s), table.at(key))


REMOTE = Form(
    (
        optional("host", read=_line),
        optional("before", read=_line),
        optional("after", read=_line),
        optional("processes", read=_words(_process_fault)),
        optional("hooks", read=_words(_hook_fault)),
        optional("prefix", read=_prefix),
        optional("ssh_config", read=_line),
        optional("timeout_s", read=_timeout),
    ),
    dict,
)
"""The keys of `[remote]`; each sets the variable of the hook with that name in capitals."""


# --------------------------------------------------------------------------------------
# `[notify]` of a suite, a SPEC.toml, or a file given to --notify: targets of the notice at a
# session's end.
#
# Decision: the table cannot contain secrets. A password, a token or a secret URL is in an
# environment variable or a private file, which the table names. docs/notices.md describes it.

_TOP = ("on", "mail", "webhook", "command", "apprise")
_WEBHOOK = ("url", "url_variable", "url_file", "token_variable", "token_file", "ca_file")
_APPRISE = ("urls_variable", "urls_file")
ADDRESS = re.compile(r"[^\s@,<>()\"]+@[^\s@,<>()\"]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def notify_of(table: TomlTable) -> NoticeSettings | None:
    """Return the settings of a `[notify]` table, None after it reported mistakes."""
    table.only(_TOP)
    targets = [
        *(_mail(one) for one in _each(table, "mail")),
        *(_webhook(one) for one in _each(table, "webhook")),
        *_commands(table),
        *(_apprise(one) for one in _each(table, "apprise")),
    ]
    if not any(key in table for key in _TOP[1:]):
        hint = "add [notify.mail], [notify.webhook], [notify.apprise] or command = [...]"
        table.wrong(table.where, "suite-notify", "there is no notification target", hint)
    known = tuple(target for target in targets if target is not None)
    return NoticeSettings(known, _events(table)) if known else None


def notify_file(path: str, text: str) -> NoticeSettings:
    """Return the settings of a file with a table [notify]. Raises InputError."""

    def read(top: TomlTable) -> NoticeSettings | None:
        top.only(("notify",))
        table = top.table("notify")
        notify = None if table is None else notify_of(table)
        if notify is None and top.is_sound:
            top.wrong(top.where, "suite-notify", "there is no table [notify]")
        return notify

    notify = read_toml(text, path, "suite", read)
    assert notify is not None, "a table without a mistake says who is notified"
    return notify


def _each(table: TomlTable, key: str) -> list[TomlTable]:
    """Return the tables of a key: one table, or an array of tables."""
    if key not in table:
        return []
    if isinstance(table.values[key], list):
        return table.tables(key)
    one = table.table(key)
    return [] if one is None else [one]


def _events(table: TomlTable) -> tuple[NoticeEvent, ...]:
    events = []
    for index, word in enumerate(table.texts("on")):
        if word in ALL_EVENTS:
            events.append(NoticeEvent(word))
        else:
            single = isinstance(table.values["on"], str)
            where = table.at("on") if single else table.at("on", index)
            hint = "one of " + ", ".join(ALL_EVENTS)
            table.wrong(where, "suite-notify", f"there is no event {word!r}", hint)
    if "on" in table and table.values["on"] == []:
        table.wrong(table.at("on"), "suite-notify", "the list of events is empty")
    return tuple(dict.fromkeys(events)) or ALL_EVENTS


def _addresses(table: TomlTable, key: str) -> tuple[str, ...] | None:
    addresses = tuple(table.texts(key))
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            message = f"{address!r} is not a mail address"
            table.wrong(table.at(key), "suite-notify", message, "NAME@HOST")
    if table.values[key] == []:
        table.wrong(table.at(key), "suite-notify", f"{key} has no address")
    return addresses


def _address(table: TomlTable, key: str) -> str | None:
    text = table.text(key)
    return "".join(_addresses(table, key) or ()) if text else text


def _host(table: TomlTable, key: str) -> str | None:
    text = table.text(key)
    return "localhost" if text == "" else text


_MAIL = {
    "to": Option(read=_addresses, hint='to = "me@host"'),
    "sender": Option(key="from", read=_address),
    "host": Option(read=_host),
    "port": Option(read=whole(1, 65535)),
}


def _mail(table: TomlTable) -> MailTarget | None:
    form = form_of(MailTarget, _MAIL, password=_secret(table, "password"))
    mail: MailTarget | None = read_form(table, form, ("password_variable", "password_file"))
    if mail is not None:
        _check_password(table, mail)
    return mail


def _check_password(table: TomlTable, mail: MailTarget) -> None:
    if bool(mail.user) != (mail.password is not None):
        message = "a user and a password belong together"
        hint = "give `user`, and `password_variable` or `password_file`"
        table.wrong(table.where, "suite-notify", message, hint)
    clear = mail.security == "none" and mail.host not in LOOPBACK
    if mail.password is not None and clear:
        message = f"the password would go to {mail.host} unencrypted"
        hint = 'add security = "starttls", or "tls"'
        table.wrong(table.where, "suite-notify", message, hint)


def _webhook(table: TomlTable) -> WebhookTarget | None:
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
    return WebhookTarget(url, secret, token, table.text("ca_file") or "")


def _commands(table: TomlTable) -> list[NoticeTarget]:
    """Return the targets of `command`: an array of words, or an array of such arrays."""
    if not table.has("command", list):
        return []
    value = table.values["command"]
    several = bool(value) and all(isinstance(one, list) for one in value)
    notice_targets: list[NoticeTarget] = []
    for argv in value if several else [value]:
        if argv and all(isinstance(word, str) and word for word in argv):
            notice_targets.append(CommandTarget(tuple(argv)))
        else:
            message = "a command is an array of words, none of them empty"
            hint = 'command = ["notify-send", "benchmark"]'
            table.wrong(table.at("command"), "suite-notify", message, hint)
    return notice_targets


def _apprise(table: TomlTable) -> AppriseTarget | None:
    table.only(_APPRISE)
    secret = _secret(table, "urls")
    if secret is None:
        message = "apprise has one of urls_variable and urls_file"
        hint = "its URLs contain secrets, so they cannot be written here"
        table.wrong(table.where, "suite-notify", message, hint)
    return None if secret is None else AppriseTarget(secret)


def _secret(table: TomlTable, what: str) -> Secret | None:
    """Return the secret's location, from the key `WHAT_variable` or `WHAT_file`; both are an error."""
    variable, file = table.text(f"{what}_variable"), table.text(f"{what}_file")
    if variable is not None and file is not None:
        message = f"both {what}_variable and {what}_file"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message, "keep one")
    if variable is not None:
        if not _VARIABLE.fullmatch(variable):
            message = "this is not the name of an environment variable"
            hint = "the name, not the secret itself"
            table.wrong(table.at(f"{what}_variable"), "suite-notify", message, hint)
        return Secret("variable", variable)
    if file is None:
        return None
    if not PurePath(file).is_absolute():
        message = f"{file!r} is not an absolute path"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message)
    return Secret("file", file)
