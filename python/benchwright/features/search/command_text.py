"""Commands of a spec: with slots for the values of a trial, and read from its TOML."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from benchwright.core.plan import Command
from benchwright.features.load.tables import refuse_unknown_names, template_of
from benchwright.inputs.template import (
    NAME_IN_BRACES,
    OffsetLocator,
    Template,
    brace_template,
    fill_placeholders,
    split_words,
)
from benchwright.inputs.toml_table import TomlTable


class CommandText(msgspec.Struct, frozen=True):
    """A command whose words may have slots."""

    words: tuple[Template, ...]
    shell: bool = False
    """Whether the user wrote a shell command; its text is then the only word."""

    def filled(self, values: Mapping[str, str]) -> Command:
        """Return the command with its slots filled."""
        if not self.shell:
            return Command(tuple(fill_placeholders(word, values) for word in self.words))
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return Command(("/bin/sh", "-c", fill_placeholders(self.words[0], quoted)))


def read_command(table: TomlTable, key: str) -> CommandText | None:
    """Return one command: a text, or an array of words."""
    table = table.as_written
    if not table.has(key, str, list):
        return None
    return _command(table, table.values[key], key)


def read_commands(table: TomlTable, key: str) -> tuple[CommandText, ...]:
    """Return commands: one text, or an array of texts and of arrays of words."""
    table = table.as_written
    if not table.has(key, str, list):
        return ()
    value = table.values[key]
    if isinstance(value, str):
        found = [_command(table, value, key)]
    else:
        found = [_command(table, one, key, at) for at, one in enumerate(value)]
    return tuple(one for one in found if one is not None)


def _command(table: TomlTable, value: Any, *keys: str | int) -> CommandText | None:
    where = table.at(*keys)
    if not isinstance(value, (str, list)):
        table.mistyped(where, f"a command of {keys[0]}", value, (str, list))
        return None
    empty = not value or not (value if isinstance(value, str) else value[0])
    if empty or (isinstance(value, str) and not value.strip()):
        table.wrong(where, "spec-no-command", f"a command of {keys[0]} is empty")
        return None
    if isinstance(value, str):
        return _text_command(table, value, *keys)
    return _word_command(table, value, *keys)


def _word_command(table: TomlTable, value: list[Any], *keys: str | int) -> CommandText | None:
    found = []
    for index, word in enumerate(value):
        if not isinstance(word, str):
            where = table.at(*keys, index)
            table.mistyped(where, f"a word of {keys[0]}", word, (str,))
            return None
        found.append(template_of(table, word, *keys, index))
    return CommandText(tuple(found))


def _text_command(table: TomlTable, text: str, *keys: str | int) -> CommandText:
    """Return the command of a text: split into words, or for a shell if it is a shell command."""
    place = table.inside(text, *keys)
    # Braces around a name are ours; the rest decides, as everywhere in a suite.
    shell = Command.from_text(NAME_IN_BRACES.sub("x", text)).argv[:2] == ("/bin/sh", "-c")
    refuse_unknown_names(table, text, place, shell=shell)
    if shell:
        return CommandText((brace_template(text, place, tuple(table.known)),), shell=True)
    found, _ = split_words(text)
    return CommandText(
        tuple(
            brace_template(one.text, _shifted(place, one.offset), tuple(table.known))
            for one in found
        )
    )


def _shifted(place: OffsetLocator, by: int) -> OffsetLocator:
    return lambda offset: place(by + offset)
