"""Options that features add to commands of others: a port."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.feature import features
from benchwright.inputs.options import add_options

if TYPE_CHECKING:
    from benchwright.run.preparation import PreparedProgram
    from benchwright.study.journal import SessionInfo


class BegunSession(msgspec.Struct, frozen=True):
    """A session that a command is about to start."""

    info: SessionInfo
    tables: Mapping[str, Any] = {}
    """What the tables of features in its suite or spec state."""
    program: PreparedProgram | None = None
    """Of a session of tests."""
    suite: str | None = None
    """Path of the suite, if there is one."""


class AddedOptions(msgspec.Struct, frozen=True):
    """Options of one feature for one command."""

    declared: type[msgspec.Struct]
    """The request that declares them."""
    apply: Callable[[BegunSession, Namespace], SessionInfo]
    """Returns the info of a session with what they say. Raises InputError."""
    group: str = ""
    """The heading in `--help`."""
    helps: Mapping[str, str] = {}
    """Help texts that replace those declared, by field."""


def added_to(command: str) -> Iterator[AddedOptions]:
    """Yield what the installed features add to a command."""
    for feature in features():
        yield from feature.options(command)


def add_features_options(parser: ArgumentParser, command: str) -> None:
    """Add the options of features to the parser of a command."""
    for one in added_to(command):
        add_options(parser, one.declared, one.group, helps=one.helps)


def with_features_options(begun: BegunSession, arguments: Namespace, command: str) -> SessionInfo:
    """Return the info of a session with what the options of features say. Raises InputError."""
    for one in added_to(command):
        info = one.apply(begun, arguments)
        begun = msgspec.structs.replace(begun, info=info)
    return begun.info
