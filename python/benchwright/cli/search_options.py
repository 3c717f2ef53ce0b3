"""Options that `bw ramp`, `bw peak` and `bw surface` share, and the spec that they read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchwright.cli.plot_file import check_plot
from benchwright.cli.shared_options import (
    RESULT,
    WATCHING,
    NotifyOptions,
    StudyOptions,
    WatchOptions,
    with_session_options,
)
from benchwright.core.errors import Diagnostic, argument_error
from benchwright.core.extras import require
from benchwright.study.directory import JOURNAL
from benchwright.suite.mistakes import option_mistake
from benchwright.suite.options import add_options, given
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


def two_sources(spec: str, command: str) -> Diagnostic:
    """Return the mistake of a spec beside a --command."""
    message = f"there is a spec too, {spec}"
    return option_mistake("--command", message, "leave one of them out", command)


def for_command_only(
    arguments: Namespace, request: type[msgspec.Struct], names: Sequence[str]
) -> list[Diagnostic]:
    """Return the mistakes of options that go with --command only, beside a spec."""
    return [
        option_mistake(
            option.flag,
            f"{option.flag} is for --command",
            "write it into [load] of the spec",
            getattr(arguments, option.name),
        )
        for option in given(arguments, request)
        if option.name in names
    ]


def is_stored_search(
    arguments: Namespace, requests: Sequence[type[msgspec.Struct]]
) -> bool:
    """Return whether a stored search is meant: there is a study, and of the options of
    these requests, which are those of a new search, at most --plot is given."""
    new = [option for option in given(arguments, *requests) if option.name != "plot"]
    return not new and (Path(arguments.study) / JOURNAL).is_file()


def search_or_print(
    kind: str, arguments: Namespace, request_of: Callable[[Namespace], msgspec.Struct]
) -> int:
    """Begin a search of a kind, `peak` or `ramp`, or print a stored one where there is
    nothing to search; return the exit code."""
    if arguments.spec is None and arguments.command is None:
        print_stored_search(kind, arguments)
        return 0
    return begin_search(kind, arguments, request_of)


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


def begin_search(
    kind: str, arguments: Namespace, request_of: Callable[[Namespace], msgspec.Struct]
) -> int:
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

    info = search_info(kind, request_of(arguments), spec, sys.argv[1:])
    experiment = search_experiment(info)
    experiment.info = with_session_options(info, arguments)
    experiment.check()
    output = search_output(
        experiment, arguments.plot, json=arguments.json, quiet=arguments.quiet
    )
    return run_session(
        experiment, Path(arguments.study), output, undone=arguments.undone
    )
