"""Options that features add to commands of the core: a port."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from benchwright.feature import features
from benchwright.suite.options import add_options

if TYPE_CHECKING:
    from benchwright.run.preparation import PreparedProgram

    WithOptions = Callable[[PreparedProgram, Namespace, str | None], PreparedProgram]


class AddedOptions(msgspec.Struct, frozen=True):
    """Options of one feature for one command."""

    declared: type[msgspec.Struct]
    """The request that declares them."""
    apply: WithOptions
    """Returns a program with what they say stored in its session. Its last argument is the path of
    the suite, None for commands. Raises InputError."""
    group: str = ""
    """The heading in `--help`."""
    helps: Mapping[str, str] = {}
    """Help texts that replace those declared, by field."""


def added_to(command: str) -> Iterator[AddedOptions]:
    """Yield what the installed features add to a command."""
    for one in features():
        yield from one.options(command)


def add_features_options(parser: ArgumentParser, command: str) -> None:
    """Add the options of features to the parser of a command."""
    for one in added_to(command):
        add_options(parser, one.declared, one.group, helps=one.helps)


def with_features_options(
    prepared: PreparedProgram, arguments: Namespace, command: str, suite: str | None = None
) -> PreparedProgram:
    """Return a program with what the options of features say. Raises InputError."""
    for one in added_to(command):
        prepared = one.apply(prepared, arguments, suite)
    return prepared
