"""`bw`: dispatches to the commands, maps errors to exit codes, and restores settings after a killed
`bw`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from benchwright import __version__
from benchwright.cli import terminal
from benchwright.cli.config_files import NO_CONFIG, WITHOUT, ConfigFile, config_files
from benchwright.cli.parser import (
    SUMMARIES,
    CommandParser,
    is_installed,
    not_installed,
    unknown_command,
)
from benchwright.core import SESSION_TOKEN
from benchwright.core.untrusted import visible_lines
from benchwright.feature import feature_of, features, owner_of
from benchwright.inputs.options import Option, add_option

# The commands, and the mapping of errors to exit codes.
#
# Exit codes (a contract): 0 done; 1 a benchmark failed or a threshold was missed; 2 bad
# input; 3 undecided; 130 interrupted, resumable.


_VERSION = Option(
    "print the version and exit", flag="--version", short="-V", prints=f"bw {__version__}"
)
_NO_CONFIG = Option(
    "ignore configuration files (docs/configuration.md)",
    flag=NO_CONFIG,
    name="no_config",
    kind="flag",
)
"""Removed from the words before they are parsed, so that it can stand anywhere before `--`."""


def main(
    argv: Sequence[str] | None = None, on_error: Callable[[Exception], None] | None = None
) -> int:
    """Run `bw` with these arguments and return its exit code.

    `on_error` receives an operating error, which is printed too.
    """
    words, files = _configured(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), "")
    if not words:
        terminal.prepare()
        print(parser(()).format_help(), end="", file=sys.stderr)
        return 2
    if words[0] == command and command not in SUMMARIES:
        terminal.prepare()
        print(visible_lines(unknown_command(command)), file=sys.stderr)
        return 2
    if words[0] == command and not is_installed(command):
        terminal.prepare()
        print(not_installed(command), file=sys.stderr)
        return 2
    named = (command,) if command in SUMMARIES else ()
    # The list of commands is necessary only for the help of `bw` itself.
    alone = bool(named) and words[0] == command
    return _guarded(lambda: parser(named, listed=not alone), words, files, on_error)


def _configured(argv: Sequence[str]) -> tuple[list[str], list[ConfigFile]]:
    """Return the words without --no-config, and the configuration files to read.

    There are none inside a session: what a trial runs does not depend on them.
    """
    words = list(argv)
    before = words[: words.index("--")] if "--" in words else words
    if NO_CONFIG in before:
        words.remove(NO_CONFIG)
        return words, []
    # Help is printed even if a file has mistakes.
    is_without = {"-h", "--help"} & set(before) or not words or words[0] in WITHOUT
    return words, [] if is_without or SESSION_TOKEN in os.environ else config_files()


def getstats(argv: Sequence[str] | None = None) -> int:
    """Run the program `getstats`."""
    return _program("getstats", argv)


def graphit(argv: Sequence[str] | None = None) -> int:
    """Run the program `graphit`."""
    return _program("graphit", argv)


def _program(name: str, argv: Sequence[str] | None) -> int:
    """Run a program beside `bw`, which packaging/data/scripts starts, with these arguments."""
    owner = owner_of(name)
    if owner is None:
        terminal.prepare()
        print(not_installed(name), file=sys.stderr)
        return 2
    return _guarded(lambda: owner.program(name), sys.argv[1:] if argv is None else argv)


def parser(named: Sequence[str] = tuple(SUMMARIES), *, listed: bool = True) -> CommandParser:
    """Return the parser of `bw` with the options of the named commands.

    With `listed`, the other commands are listed, without importing their modules.
    """
    command_parser = CommandParser(prog="bw")
    add_option(command_parser, _VERSION)
    add_option(command_parser, _NO_CONFIG)
    commands = command_parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in SUMMARIES.items():
        if name in named and is_installed(name):
            _parser_of(name)(commands)
        elif listed:
            commands.add_parser(name, help=summary)
    return command_parser


def _parser_of(name: str) -> Callable[[Any], None]:
    """Return the function that adds a command's parser; imports only that command's module."""
    if feature_of(name):
        owner = owner_of(name)
        assert owner is not None
        return owner.add_parser(name)
    # Literal imports, so that mypy and grep find them.
    match name:
        case "run":
            from benchwright.cli.run import add_parser
        case "compare":
            from benchwright.cli.compare import add_parser
        case "resume":
            from benchwright.cli.resume import add_parser
        case "ls":
            from benchwright.cli.ls import add_parser
        case "show":
            from benchwright.cli.show import add_parser
        case "tag":
            from benchwright.cli.tag import add_parser
        case "stats":
            from benchwright.cli.stats import add_parser
        case "plot":
            from benchwright.cli.plot import add_parser
        case "report":
            from benchwright.cli.report import add_parser
        case "live":
            from benchwright.cli.live import add_parser
        case "why":
            from benchwright.cli.why import add_parser
        case "env":
            from benchwright.cli.env import add_parser
        case "help":
            from benchwright.cli.about import add_help as add_parser
        case "version":
            from benchwright.cli.about import add_version as add_parser
        case "config":
            from benchwright.cli.config import add_parser
        case "completion":
            from benchwright.cli.completion import add_parser
        case "schema":
            from benchwright.cli.schema import add_parser
    return add_parser


def _guarded(
    make: Callable[[], CommandParser],
    argv: Sequence[str],
    files: Sequence[ConfigFile] = (),
    on_error: Callable[[Exception], None] | None = None,
) -> int:
    terminal.prepare()
    try:
        with _interruptible():
            return _status_of(make(), argv, files, on_error)
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the body.

    Before and after it, the default action of SIGINT applies: there is nothing to clean up, and
    Python would print a traceback.
    """
    at_start = signal.getsignal(signal.SIGINT)
    if at_start is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, at_start)


def _status_of(
    root: CommandParser,
    argv: Sequence[str],
    files: Sequence[ConfigFile],
    on_error: Callable[[Exception], None] | None,
) -> int:
    # Inside a session it would be measured.
    is_outside = SESSION_TOKEN not in os.environ
    undone = (
        [finding for feature in features() for finding in feature.before_command(argv)]
        if is_outside
        else []
    )
    words, command = _split_command(list(argv))
    arguments = argparse.Namespace()
    try:
        if files:
            from benchwright.cli.defaults import parse_with_defaults

            arguments, unknown = parse_with_defaults(root, words, files)
        else:
            arguments, unknown = root.parse_known_args(words)
        if unknown:
            _refuse_unknown(root, words, unknown)
        arguments.command_argv = command
        arguments.parser_of_bw = parser
        arguments.undone = undone
        _check_text(argv)
        status: int = arguments.handler(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has left (`bw stats | head`): not an error.
        terminal.silence_stdout()
        return 0
    except Exception as error:
        if on_error is not None:
            on_error(error)
        return _reported(error, arguments)
    return status


def _refuse_unknown(
    parser: CommandParser, words: Sequence[str], unknown: Sequence[str]
) -> NoReturn:
    """Exit with status 2 for unknown options, with hints for similar and foreign names."""
    import shutil

    from benchwright.cli.other_tools import hints_of

    command = parser.of(words)
    message = f"unrecognized arguments: {' '.join(unknown)}"
    hints = hints_of(words[0] if words else "", unknown)
    # What another tool's option does here is known; a similar name is a guess.
    meant = [] if hints else filter(None, map(command.meant, unknown))
    if words[:1] == ["run"] and len(words) > 2 and shutil.which(words[1]):
        hints = [f"for a command with its options: bw run -- {' '.join(words[1:])}"]
    command.error("\n  = ".join((message, *meant, *hints)))


def _reported(error: Exception, arguments: argparse.Namespace) -> int:
    """Print an operating error and return its exit code; raise any other error again."""
    from benchwright.core.errors import InputError, OperatingError

    if isinstance(error, OSError):
        print(visible_lines(_system_text(error)), file=sys.stderr)
        terminal.silence_stdout()
        return 1
    if not isinstance(error, OperatingError):
        raise error
    if isinstance(error, InputError) and getattr(arguments, "defaults", None):
        from benchwright.cli.defaults import relocated

        error = relocated(error, arguments)
    text = visible_lines(str(error))
    print(f"bw: {text}" if "\n" not in text else text, file=sys.stderr)
    return error.exit_status


def _system_text(error: OSError) -> str:
    """Return what an error of the system is about, and what to do if that is known."""
    place, hint = error.filename, ""
    if place == terminal.STANDARD_OUTPUT:
        hint = "what was printed is not complete: make space, or write it to another place"
    elif not place:
        try:
            os.getcwd()
        except OSError:
            place = "the working directory"
            hint = "it was deleted or may not be read: change to another directory"
    where = f"{place}: " if place else ""
    advice = f"\n  = {hint}" if hint else ""
    return f"bw: {where}{error.strerror or error} [system]{advice}"


def _check_text(argv: Sequence[str]) -> None:
    """Raise InputError for a word that is not UTF-8, because the journal stores text, and for
    `--OPTION=--`, which argparse reads as no value."""
    for word in argv[: argv.index("--")] if "--" in argv else argv:
        if word.startswith("--") and word.endswith("=--"):
            from benchwright.core.errors import argument_error

            raise argument_error(word.removesuffix("=--"), word, "'--' is not a value of an option")
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from benchwright.core.errors import argument_error

            shown = word.encode(errors="backslashreplace").decode()
            raise argument_error(
                "bw",
                shown,
                f"argument {shown!r} is not UTF-8 text (character {error.start + 1})",
                "write such a name into a script, and run the script",
            ) from None


def _split_command(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Return the words before `--`, and the command after it (None without `--`)."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
