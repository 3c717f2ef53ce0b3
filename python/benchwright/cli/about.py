"""`bw help` and `bw version`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import SUMMARIES, CommandParser, add_command
from benchwright.cli.terminal import write_answer
from benchwright.inputs.options import Option, add_options, request_from
from benchwright.suite.common_options import Json

if TYPE_CHECKING:
    from pathlib import Path

    from benchwright.views.installation import VersionDocument


class HelpOptions(msgspec.Struct, frozen=True):
    """The command that help is requested for."""

    words: Annotated[
        tuple[str, ...],
        Option("command, such as run or trace stat", "COMMAND", positional=True, names="command"),
    ] = ()


def add_help(commands: Any) -> None:
    """Add `bw help` to the commands."""
    parser = add_command(
        commands, "help", more="It describes every option, also those that `--help` only names."
    )
    add_options(parser, HelpOptions)
    parser.set_defaults(handler=print_help)


def print_help(arguments: argparse.Namespace) -> int:
    """Print the help of a command, or of `bw`; return the exit code. Raises InputError."""
    words = request_from(HelpOptions, arguments).words
    command = command_named("bw help", arguments.parser_of_bw(words[:1]), words)
    sys.stdout.write(command.complete_help())
    return 0


def command_named(where: str, root: CommandParser, words: tuple[str, ...]) -> CommandParser:
    """Return the parser of a command by its words. Raises InputError with what may be meant."""
    if words in root.commands():
        return root.of(words)
    from benchwright.core.errors import argument_error
    from benchwright.inputs.toml_table import one_of_words

    known, word = list(SUMMARIES), words[0]
    if word in SUMMARIES:
        known = [command[0] for command in root.of(words[:1]).commands() if command]
        word = words[1]
    message = f"there is no command {' '.join(words)!r}"
    hint = one_of_words(word, known) if known else ""
    raise argument_error(where, "", message, hint)


class VersionOptions(msgspec.Struct, frozen=True):
    """The options of `bw version`."""

    verbose: Annotated[
        bool, Option("print also the programs, libraries, Python and kernel", short="-v")
    ] = False
    json: Json = False


def add_version(commands: Any) -> None:
    """Add `bw version` to the commands."""
    parser = add_command(commands, "version")
    add_options(parser, VersionOptions)
    parser.set_defaults(handler=print_version)


def print_version(arguments: argparse.Namespace) -> int:
    """Print the version, with an option also those of what bw consists of; return 0."""
    from benchwright import __version__

    request = request_from(VersionOptions, arguments)
    if not (request.verbose or request.json):
        print(f"bw {__version__}")
        return 0
    from benchwright.views.installation import version_text

    write_answer(json=request.json, document=installed, text=lambda: version_text(installed()))
    return 0


def installed() -> VersionDocument:
    """Return the versions and places of bw, its programs and its libraries."""
    import importlib.metadata
    import platform
    from importlib.util import find_spec
    from pathlib import Path

    import benchwright
    from benchwright.core.extras import EXTRAS
    from benchwright.trial import programs
    from benchwright.views.installation import ProgramVersion, VersionDocument

    finders = (programs.find_launcher, programs.find_engine, programs.find_sampler)
    return VersionDocument(
        version=benchwright.__version__,
        directory=str(Path(benchwright.__file__).parent),
        programs=tuple(ProgramVersion(*_version_of(find)) for find in finders),
        python=platform.python_version(),
        interpreter=sys.executable,
        libraries={
            name: importlib.metadata.version(name) if find_spec(name) else None
            for name in ("msgspec", "numpy", *EXTRAS)
        },
        kernel=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
    )


def _version_of(find: Callable[[], Path]) -> tuple[str, str | None]:
    """Return a native program's path and its version, None if it does not report one; without
    the program, why it is unavailable."""
    import subprocess

    from benchwright.core.errors import BenchError

    try:
        path = find()
        printed = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except BenchError as error:
        return error.message, None
    except (OSError, subprocess.SubprocessError):
        return str(path), None
    return str(path), printed.split()[-1]
