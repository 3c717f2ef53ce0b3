"""`[remote]` of a suite: the server that the hook `remote` asks, as the hook's variables.

Decision: the table is the hook's environment written with types and checked before anything
runs; nothing else knows of it. docs/remote.md describes the table and the hook.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from benchwright.suite import program as step
from benchwright.suite.program import Step, Template
from benchwright.suite.template import brace_template, fixed
from benchwright.suite.toml_table import Table

HOOK = "remote"
SENT = ("disk-io", "free-memory", "network", "other-cpu")
"""The shipped hooks that can be run on a server."""

_KEYS = (
    "host",
    "processes",
    "hooks",
    "before",
    "after",
    "prefix",
    "ssh_config",
    "timeout_s",
)
_PROCESS = re.compile(r"pid:/[^\s]+|[^\s:]\S*")


def steps_of(table: Table, known: Collection[str]) -> list[Step]:
    """Return the assignments of the hook's variables; `known` names have a value."""
    table.only(_KEYS)
    if not table.values.get("host"):
        hint = (
            'add host = "server" (a name of ~/.ssh/config, user@host, ssh://host:port)'
        )
        table.wrong(table.where, "suite-remote", "[remote] has no host", hint)
    values = {
        **{key: _template(table, key, known) for key in ("host", "before", "after")},
        "processes": _list(table, "processes", _process_fault),
        "hooks": _list(table, "hooks", _hook_fault),
        "prefix": _prefix(table),
        "ssh_config": _template(table, "ssh_config", known),
        "timeout_s": _timeout(table),
    }
    # Every one is set: what the caller's own environment has is for another suite.
    return [
        step.Assign(
            f"BW_REMOTE_{key.upper()}",
            value or fixed("", table.where),
            True,
            False,
            table.at(key) if key in table else table.where,
        )
        for key, value in values.items()
    ]


def _template(table: Table, key: str, known: Collection[str]) -> Template | None:
    text = table.text(key)
    if text is None:
        return None
    if "\n" in text.strip("\n"):
        message = f"{key} is more than one line"
        table.wrong(table.at(key), "suite-remote", message, "join them by ; or &&")
    return brace_template(text.strip("\n"), table.inside(text, key), known)


def _list(table: Table, key: str, fault: Callable[[str], str]) -> Template | None:
    if key not in table:
        return None
    words = table.texts(key)
    for index, word in enumerate(words):
        message = fault(word)
        if message:
            single = isinstance(table.values[key], str)
            where = table.at(key) if single else table.at(key, index)
            table.wrong(where, "suite-remote", message)
    return fixed(" ".join(words), table.at(key))


def _process_fault(word: str) -> str:
    good = _PROCESS.fullmatch(word) is not None
    return "" if good else f"{word!r} is no process: a name, or pid:/run/FILE.pid"


def _hook_fault(word: str) -> str:
    known = ", ".join(SENT)
    return "" if word in SENT else f"{word!r} is no hook to be sent: one of {known}"


def _prefix(table: Table) -> Template | None:
    text = table.text("prefix")
    if text is None:
        return None
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text, re.ASCII):
        message = f"{text!r} cannot begin the names of values"
        hint = "small letters, digits and _, beginning with a letter"
        table.wrong(table.at("prefix"), "suite-remote", message, hint)
    return fixed(text, table.at("prefix"))


def _timeout(table: Table) -> Template | None:
    limit_s = table.whole("timeout_s", 1, 86400)
    return None if limit_s is None else fixed(str(limit_s), table.at("timeout_s"))
