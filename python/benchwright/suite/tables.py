"""Tables of suites that features add: a port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from benchwright.feature import TABLE, feature, features
from benchwright.inputs.toml_table import TomlTable


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
