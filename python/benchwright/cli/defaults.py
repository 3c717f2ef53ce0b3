"""Defaults of options from configuration files: reads and checks them, and sets them in parsed
arguments.

A default behaves as if it were typed, with three exceptions. Commands that refuse an option in some
combination ignore a default of it (`given` in inputs/options.py). `Option.needs` and
`Option.yields_to` name options on which it depends. A workload or a spec (`Option.decides`)
contains the answers itself, so that a default does not change what a shared file measures.

Decision: options that run a program or send data may be set by the user's own file only
(`Option.only_user`), and a project's paths are in its own directory: who runs `bw` in a repository
of others must neither run their programs nor write elsewhere.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from benchwright.cli.config_files import PROJECT, WITHOUT, ConfigFile
from benchwright.cli.parser import SUMMARIES, CommandParser
from benchwright.core.errors import Diagnostic, InputError, argument_error, similar, suggestion
from benchwright.inputs.mistakes import Unreadable, Where, at_key, in_toml, read_regular, read_text
from benchwright.inputs.options import Option, declared_in
from benchwright.inputs.template import one_of
from benchwright.inputs.toml_table import TomlTable, read_toml

SHARED = (*("study", "confidence", "quiet", "notify", "notify-on", "no-watch", "profile"),)
"""Keys that may stand outside of a command's table; they apply to all commands that have them."""


class Default(msgspec.Struct, frozen=True):
    """The default of an option, and where a file sets it."""

    key: str
    option: Option
    texts: tuple[str, ...]
    """The texts as the user would type them; none for a flag."""
    value: Any
    """The value in the parsed arguments."""
    where: Where

    @property
    def shown(self) -> str:
        """The value as text."""
        if self.option.kind == "flag":
            return "true" if self.value else "false"
        return ", ".join(self.texts)

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.where.file}:{self.where.line}"


# -- What a command can be set to ------------------------------------------------------


def keys_of_command(command: CommandParser) -> dict[str, Option]:
    """Return the options of a command by the keys of configuration files, also refused ones."""
    found: dict[str, Option] = {}
    for option in declared_in(command):
        key = option.default_key if option.positional else option.flag.removeprefix("--")
        if key and not key.startswith("-") and not option.prints:
            # An argument comes first: `bw why [STUDY]` has --study too.
            found.setdefault(key, option)
    return found


def refusal(option: Option) -> str:
    """Return why a file cannot set an option; empty if it can."""
    if option.no_default:
        return option.no_default
    if option.kind not in ("text", "flag", "list") or option.required:
        return "it describes one command line"
    return ""


def settable(options: Mapping[str, Option], file: ConfigFile) -> list[str]:
    """Return the keys that a file may set."""
    is_project = file.kind == "project"
    return [
        key
        for key, option in options.items()
        if not refusal(option) and not (is_project and option.only_user)
    ]


# -- Reading ---------------------------------------------------------------------------


def read_defaults(
    root: CommandParser, words: Sequence[str], files: Sequence[ConfigFile]
) -> dict[str, Default]:
    """Return the defaults of a command by the names of its options.

    Raises InputError with all mistakes of a file; tables of other commands are not read.
    """
    found: dict[str, Default] = {}
    for file in files:
        reader = partial(_defaults_in, root=root, words=words, file=file)
        for default in read_toml(_text_of(file), file.path, "config", reader):
            found[default.option.name] = default
    return found


def _text_of(file: ConfigFile) -> str:
    try:
        text = read_text(file.path, read_regular)
    except Unreadable as error:
        raise argument_error("configuration", "", error.message) from None
    if text is None:
        message = f"there is no file {file.path}"
        raise argument_error("BW_CONFIG", file.path, message, "/dev/null for no file")
    return text


def _defaults_in(
    table: TomlTable, root: CommandParser, words: Sequence[str], file: ConfigFile
) -> list[Default]:
    """Return the defaults of a command in a file's top-level table."""
    top: TomlTable | None = table
    if os.path.basename(file.path) == PROJECT:
        tool = table.table("tool") if "tool" in table else None
        top = tool.table("benchwright") if tool and "benchwright" in tool else None
    if top is None:
        return []
    options = keys_of_command(root.of(words))
    _check_keys(top, words, settable(options, file))
    shared = {key: options[key] for key in SHARED if key in options}
    usable = {
        key: one
        for key, one in shared.items()
        # `quiet` is an option of many commands, `[quiet]` the table of a command.
        if not one.no_default and not isinstance(top.values.get(key), dict)
    }
    found = list(_values(top, usable, file))
    own = _table_of(top, words, root)
    if own is not None:
        own.only(settable(options, file), unlisted=options)
        found += _values(own, options, file)
    return found


def _table_of(top: TomlTable, words: Sequence[str], root: CommandParser) -> TomlTable | None:
    """Return the table of a command, such as [run] or [trace.stat]; None if there is none."""
    if not isinstance(top.values.get(words[0]), dict) and words[0] in SHARED:
        return None
    table = top
    for depth, word in enumerate(words):
        if depth:
            table.only([command[0] for command in root.of(words[:depth]).commands() if command])
        below = table.table(word) if word in table else None
        if below is None:
            return None
        table = below
    return table


def _check_keys(top: TomlTable, words: Sequence[str], options: Sequence[str]) -> None:
    """Report keys outside of a command's table that are neither shared nor commands."""
    known = (*SHARED, *(name for name in SUMMARIES if name not in WITHOUT))
    elsewhere = {}
    for key in top.values:
        if similar(key, options) and not similar(key, known):
            meant = "" if key in options else suggestion(key, options)
            elsewhere[key] = f"{meant} write it into [{'.'.join(words)}]".lstrip()
    top.only(known, elsewhere)


def _values(table: TomlTable, options: Mapping[str, Option], file: ConfigFile) -> Iterator[Default]:
    """Yield the defaults that a table sets; report wrong and refused ones."""
    for key, option in options.items():
        if key not in table:
            continue
        if reason := refusal(option):
            message = f"{key} cannot have a default: {reason}"
            table.wrong(table.at(key), "config-refused", message)
        elif option.only_user and file.kind == "project":
            message = f"{key} cannot be set by a project: it runs a program or sends data"
            hint = "write it into your own file: `bw config --path` prints its path"
            table.wrong(table.at(key), "config-refused", message, hint)
        elif option.kind == "flag":
            if table.has(key, bool):
                value = table.values[key]
                yield Default(key, option, (), value, table.at(key))
        else:
            yield from _texts(table, key, option, file)


def _texts(table: TomlTable, key: str, option: Option, file: ConfigFile) -> Iterator[Default]:
    """Yield the default of an option with a text or a list of texts, if it is valid."""
    value = table.values[key]
    if option.kind == "list":
        texts = tuple(table.texts(key))
    elif option.bare and isinstance(value, bool):
        texts = (option.bare,) if value else ()
    elif isinstance(value, bool) or (text := table.scalar(value)) is None:
        table.mistyped(table.at(key), key, value, (str, int, float))
        return
    else:
        texts = (text,)
    for text in texts:
        try:
            if option.choices:
                one_of(text, option.choices, key)
            elif option.parse is not None:
                option.parse(text)
        except ValueError as error:
            table.refuse(table.at(key), f"{key}: {error}", in_toml(option.hint, key))
            return
    if option.names in ("file", "directory") or "*" in option.names:
        texts = tuple(_path(text, file) for text in texts)
        if file.kind == "project" and not all(_is_inside(one, file) for one in texts):
            message = f"{key}: a project's file names paths in its own directory only"
            hint = "write it into your own file: `bw config --path` prints its path"
            table.wrong(table.at(key), "config-refused", message, hint)
            return
    single = texts[0] if texts else option.initial
    is_list = option.kind == "list"
    yield Default(key, option, texts, texts if is_list else single, table.at(key))


def _path(text: str, file: ConfigFile) -> str:
    """Return a path: of a project's file relative to that, of the user's as it is."""
    path = os.path.expanduser(text)
    if file.kind != "project" or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(os.path.dirname(file.path), path))


def _is_inside(path: str, file: ConfigFile) -> bool:
    """Return whether a path is in the directory of a project's file, also through links."""
    directory = os.path.dirname(os.path.realpath(file.path))
    return os.path.commonpath((directory, os.path.realpath(path))) == directory


# -- Setting them ----------------------------------------------------------------------


def parse_with_defaults(
    root: CommandParser, words: Sequence[str], files: Sequence[ConfigFile]
) -> tuple[Namespace, list[str]]:
    """Return the parsed arguments with the defaults of the files, and the unknown words.

    `defaults` of the arguments: those that apply. Raises InputError for mistakes in a file.
    """
    command = root.of(words)
    named = command.prog.split()[1:]
    if not named:
        return root.parse_known_args(words)
    defaults = read_defaults(root, named, files)
    # argparse stores this if the option is not typed, or None where it adds to a list.
    absent = object()
    for name, default in defaults.items():
        unset = None if default.option.kind == "list" else absent
        command.set_defaults(**{name: unset})
    arguments, unknown = root.parse_known_args(words)
    options = {option.name: option for option in declared_in(command)}
    typed = set()
    for name, option in options.items():
        initial = [] if option.kind == "list" else option.initial
        value = getattr(arguments, name, initial)
        if name in defaults and value in (absent, None, []):
            setattr(arguments, name, initial)
        elif name in defaults or value not in (option.initial, []):
            typed.add(name)
    arguments.defaults = _apply(arguments, options, defaults, typed)
    return arguments, unknown


def _apply(
    arguments: Namespace,
    options: Mapping[str, Option],
    defaults: Mapping[str, Default],
    typed: set[str],
) -> tuple[Default, ...]:
    """Set the defaults that apply beside the typed options; return them."""
    taken = {options[name].excludes for name in typed} - {""}
    decided = any(options[name].decides for name in typed)
    applied: list[Default] = []
    for default in sorted(defaults.values(), key=lambda one: bool(one.option.needs)):
        option = default.option
        needs = option.needs
        if (
            option.name in typed
            or option.excludes in taken
            or not typed.isdisjoint(option.yields_to.split())
            or (decided and (option.key or default.key not in SHARED))
            or (needs in options and getattr(arguments, needs) in (None, False, []))
            or default.value == option.initial
        ):
            continue
        value = list(default.value) if option.kind == "list" else default.value
        setattr(arguments, option.name, value)
        applied.append(default)
    return tuple(applied)


# -- Showing where they are from -------------------------------------------------------


def applied(arguments: Namespace) -> tuple[Default, ...]:
    """Return the defaults from configuration files that apply to a command."""
    defaults: tuple[Default, ...] = getattr(arguments, "defaults", ())
    return defaults


def typed_words(arguments: Namespace) -> list[str]:
    """Return the defaults from configuration files as words of a command line."""
    words: list[str] = []
    for default in applied(arguments):
        if default.option.kind == "flag":
            words.append(default.option.flag)
        else:
            words += [f"{default.option.flag}={text}" for text in default.texts]
    return words


def defaults_lines(arguments: Namespace) -> list[str]:
    """Return a line for each configuration file with the defaults that apply from it."""
    by_file: dict[str, list[str]] = {}
    for default in applied(arguments):
        by_file.setdefault(default.where.file, []).append(f"{default.key} = {default.shown}")
    return [f"bw: {file} sets {', '.join(each)}" for file, each in by_file.items()]


def relocated(error: InputError, arguments: Namespace) -> InputError:
    """Return an error whose mistakes in defaults are at their places in the files."""
    places = {default.option.flag: default for default in applied(arguments)}
    return InputError(
        [_at_file(diagnostic, places.get(diagnostic.file)) for diagnostic in error.diagnostics]
    )


def _at_file(mistake: Diagnostic, default: Default | None) -> Diagnostic:
    if default is None:
        return mistake
    where = default.where
    inside = mistake.column if mistake.column > 1 and mistake.text in default.texts else 0
    where = msgspec.structs.replace(where, column=where.column + inside)
    return at_key(mistake, default.key, where, "config-value")
