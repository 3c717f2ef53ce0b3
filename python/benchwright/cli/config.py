"""`bw config`: the values of options before a command line is typed, and where each is from."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import CommandParser, add_command
from benchwright.cli.terminal import report_width, write_answer
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.suite.common_options import Json

if TYPE_CHECKING:
    from benchwright.core.errors import Diagnostic
    from benchwright.views.installation import ConfigDocument

_EXAMPLES = """\
examples:
  bw config                what the configuration files set
  bw config run            every option of bw run that a file can set
  $EDITOR "$(bw config --path)"

files (each stronger than the one before):
  ~/.config/benchwright/config.toml     yours
  pyproject.toml, [tool.benchwright]    that of the project

A file has a table for each command, such as [run] with precision = "2%".
docs/configuration.md describes them.
"""


class ConfigOptions(msgspec.Struct, frozen=True):
    """The options of `bw config`."""

    words: Annotated[
        tuple[str, ...],
        Option("show every option of this command", "COMMAND", positional=True, names="command"),
    ] = ()
    path: Annotated[bool, Option("print the path of your configuration file")] = False
    json: Json = False


def add_parser(commands: Any) -> None:
    """Add `bw config` to the commands."""
    parser = add_command(commands, "config", epilog=_EXAMPLES)
    add_options(parser, ConfigOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw config`; return the exit code. Raises InputError with all mistakes of the files."""
    from benchwright.cli.config_files import config_places
    from benchwright.views.installation import NO_FILE, config_text

    request = request_from(ConfigOptions, arguments)
    if request.path:
        paths = [file.path for file in config_places() if file.kind != "project"]
        if not paths:
            print(NO_FILE, file=sys.stderr)
            return 1
        print(*paths, sep="\n")
        return 0
    write_answer(
        json=request.json,
        document=lambda: config_document(request.words, arguments.parser_of_bw()),
        text=lambda: config_text(
            config_document(request.words, arguments.parser_of_bw()),
            every=bool(request.words),
            home=os.path.expanduser("~"),
            width=report_width(),
        ),
    )
    return 0


def config_document(words: tuple[str, ...], root: CommandParser) -> ConfigDocument:
    """Return the values of all options of `bw` that files can set; `words`: of this command only."""
    from benchwright.cli.about import command_named
    from benchwright.cli.config_files import WITHOUT, config_places
    from benchwright.cli.defaults import keys_of_command, read_defaults, refusal
    from benchwright.core.errors import InputError
    from benchwright.views.installation import ConfigDocument, ConfigFileEntry, ConfigValueEntry

    if words:
        command_named("bw config", root, words)
    places = config_places()
    files = [file for file in places if file.exists]
    entries: list[ConfigValueEntry] = []
    wrong: list[Diagnostic] = []
    for named in root.commands():
        keys = keys_of_command(root.of(named))
        if not named or named[0] in WITHOUT or not keys or named[: len(words)] != words:
            continue
        try:
            defaults = read_defaults(root, named, files)
        except InputError as error:
            wrong += error.diagnostics
            continue
        for key, option in keys.items():
            if not refusal(option):
                default = defaults.get(option.name)
                entries.append(
                    ConfigValueEntry(
                        " ".join(named),
                        key,
                        default.shown if default else None,
                        "false" if option.kind == "flag" else option.default,
                        default.where.file if default else None,
                        default.where.line if default else None,
                    )
                )
    if wrong:
        # Commands report the same key, with other hints.
        once = {
            (mistake.file, mistake.line, mistake.column): mistake for mistake in reversed(wrong)
        }
        raise InputError([once[place] for place in sorted(once)])
    return ConfigDocument(
        files=tuple(ConfigFileEntry(*file) for file in places), options=tuple(entries)
    )
