"""Options that `bw ramp`, `bw peak` and `bw surface` share, and the spec that they read."""

from __future__ import annotations

import secrets
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.plot_file import check_plot
from benchwright.cli.shared_options import (
    RESULT,
    WATCHING,
    NotifyOptions,
    StudyOptions,
    WatchOptions,
    with_session_options,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.extras import require
from benchwright.study.directory import JOURNAL
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import Option, Text, add_options, given, request_from
from benchwright.suite.program import SourceFile
from benchwright.suite.source import Unreadable, read_regular, read_text

# -- Reading a SPEC.toml that the command line names -----------------------------------


def spec_source(path: str, command: str) -> SourceFile:
    """Return a spec's text, by the path as the user wrote it. Raises InputError.

    `command` is the command that wants it, for the advice.
    """
    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        hint = "a spec is a TOML file (docs/workbench.md)"
        raise argument_error(path, "", error.message, hint) from None
    if text is None:
        hint = f"{command} needs a SPEC.toml (docs/workbench.md)"
        raise argument_error(path, "", f"there is no file {path}", hint)
    return SourceFile(path, text)


# --------------------------------------------------------------------------------------
# What `bw ramp`, `bw peak` and `bw surface` share of their command lines: options,
# and the first step from them to a new search or a stored one.

NEW_SESSION = (WatchOptions, NotifyOptions)
"""Options that mean nothing where a stored search is printed again."""


def add_session(parser: ArgumentParser) -> None:
    """Add what watches the trials, where the result is stored, who is notified."""
    add_options(parser, StudyOptions, RESULT)
    add_options(parser, NotifyOptions, RESULT)
    add_options(parser, WatchOptions, WATCHING)


class SpecArgument(msgspec.Struct, frozen=True):
    """The spec that a search reads; each command states what it needs of one."""

    spec: Annotated[
        Text, Option("server, load and criteria", "SPEC.toml", positional=True)
    ] = None


def _no_mistakes(_arguments: Namespace) -> list[Diagnostic]:
    return []


class CommandSearch(msgspec.Struct, frozen=True):
    """A search that a spec or a generator's --command describes: what `bw peak` and
    `bw ramp` differ in."""

    kind: str
    """As a session names it; also the name of the command."""
    request: type[msgspec.Struct]
    verb: str
    """What the command does: `there is nothing to ...`."""
    noun: str
    """What a study stores: `for a stored ...`."""
    level: str
    """What the generator takes, in words: `a rate`."""
    command: str
    """An example of the generator's command line."""
    for_command: tuple[str, ...]
    """The options that go with --command only."""
    spec: str
    """What SPEC.toml is, for `--help`."""
    usage: str
    examples: str
    check: Callable[[Namespace], list[Diagnostic]] = _no_mistakes
    """Returns further mistakes of the command line."""

    def add_parser(self, commands: _SubParsersAction[ArgumentParser]) -> None:
        """Add the command."""
        parser = add_command(
            commands, self.kind, epilog=self.examples, usage=self.usage
        )
        add_options(parser, SpecArgument, helps={"spec": self.spec})
        add_options(parser, self.request)
        add_session(parser)
        parser.set_defaults(handler=self.run)

    def _mistakes(self, arguments: Namespace) -> list[Diagnostic]:
        """Return what does not go together, or that there is nothing to search."""
        spec, command = arguments.spec, arguments.command
        if arguments.command_argv is not None:
            message = f"a command after -- cannot take {self.level}"
            hint = f"give it in one word: --command '{self.command}'"
            return [option_mistake("--", message, hint)]
        if spec is None and command is None and not self._is_stored(arguments):
            message = f"there is nothing to {self.verb}"
            hint = (
                f"bw {self.kind} SPEC.toml, or --command '{self.command}'; or for a "
                f"stored {self.noun} bw {self.kind} --study DIR --plot FILE, without "
                "options of a new one"
            )
            return [option_mistake(f"bw {self.kind}", message, hint)]
        if spec is not None and command is not None:
            message, hint = f"there is a spec too, {spec}", "leave one of them out"
            return [option_mistake("--command", message, hint, command)]
        return [
            option_mistake(
                option.flag,
                f"{option.flag} is for --command",
                "write it into [load] of the spec",
                getattr(arguments, option.name),
            )
            for option in given(arguments, self.request)
            if spec is not None and option.name in self.for_command
        ]

    def _is_stored(self, arguments: Namespace) -> bool:
        """Return whether a stored search is meant: there is a study, and of the options of
        a new search at most --plot is given."""
        new = given(arguments, self.request, *NEW_SESSION)
        journal = Path(arguments.study) / JOURNAL
        return all(one.name == "plot" for one in new) and journal.is_file()

    def run(self, arguments: Namespace) -> int:
        """Begin the search, or print the stored one where there is nothing to search;
        return the exit code. Raises InputError with every mistake."""
        wrong = [*self._mistakes(arguments), *self.check(arguments)]
        if wrong:
            raise InputError(wrong)
        if arguments.spec is None and arguments.command is None:
            print_stored_search(self.kind, arguments)
            return 0
        drawn = secrets.randbelow(2**32)
        request = request_from(self.request, arguments, drawn_seed=drawn)
        return begin_search(self.kind, arguments, request)


def print_stored_search(
    kind: str, arguments: Namespace, predict: Sequence[str] = ()
) -> None:
    """Print the study's last search of a kind again. Raises StudyError, InputError."""
    from benchwright.cli.search_output import print_last_search

    place, plot = Path(arguments.study), arguments.plot
    print_last_search(kind, place, plot, json=arguments.json, predict=predict)


def require_search_extra(kind: str) -> None:
    """Raise OperatingError where a search of a kind needs what is not installed."""
    if kind != "ramp":
        require("scipy", f"bw {kind}", "a search")


def begin_search(kind: str, arguments: Namespace, request: msgspec.Struct) -> int:
    """Run a search of a kind as a new session of a study; return the exit code.

    Raises InputError with every mistake, before there is a study.
    """
    spec = None
    if arguments.spec is not None:
        spec = spec_source(arguments.spec, f"bw {kind}")
    check_plot(arguments.plot, [] if spec is None else [spec.path])
    require_search_extra(kind)
    from benchwright.cli.search_output import search_output
    from benchwright.run.runner import run_session
    from benchwright.run.search import search_experiment, search_info

    info = search_info(kind, request, spec, sys.argv[1:])
    experiment = search_experiment(info)
    experiment.info = with_session_options(info, arguments)
    experiment.check()
    output = search_output(
        experiment, arguments.plot, json=arguments.json, quiet=arguments.quiet
    )
    return run_session(
        experiment, Path(arguments.study), output, undone=arguments.undone
    )
