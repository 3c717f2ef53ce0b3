"""Options that `bw ramp`, `bw peak` and `bw surface` share, and the spec that they read."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from argparse import _ActionsContainer as Container
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeVar

from benchwright.cli.shared_options import add_notify, add_study, add_watch_of_loads
from benchwright.suite.program import SourceFile

# -- Reading a SPEC.toml that the command line names -----------------------------------


def spec_source(path: str, command: str) -> SourceFile:
    """Return a spec's text, by the path as the user wrote it. Raises InputError.

    `command` is the command that wants it, for the advice.
    """
    from benchwright.core.errors import argument_error
    from benchwright.suite.source import Unreadable, read_regular, read_text

    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        hint = "a spec is a TOML file (docs/workbench.md)"
        raise argument_error(path, "", error.message, hint) from None
    if text is None:
        hint = f"{command} wants a SPEC.toml (docs/workbench.md)"
        raise argument_error(path, "", f"there is no file {path}", hint)
    return SourceFile(path, text)


# --------------------------------------------------------------------------------------
# What `bw ramp`, `bw peak` and `bw surface` share of their command lines: options,
# and the first step from them to a new search or a stored one.

Request = TypeVar("Request")
OptionMistake = tuple[str, str, str, str]
"""Option, its text, what is wrong, what to do."""
OF_A_NEW_SESSION = (
    *("no_watch", "profile", "notify", "notify_on"),
    *("target_pid", "target_port", "target_unit", "target_name"),
)
"""Options that mean nothing where a stored search is printed again."""


def add_sample(group: Container) -> None:
    """Add -P, the levels at which a server is searched."""
    group.add_argument(
        "-P",
        dest="factors",
        action="append",
        default=[],
        metavar="FACTOR=LEVEL",
        help="the sample (default: the first level of each factor)",
    )


def add_seed(group: Container) -> None:
    """Add --seed."""
    group.add_argument(
        "--seed",
        metavar="N",
        help="random seed (default: drawn, recorded)",
    )


def add_plot_option(group: Container) -> None:
    """Add --plot and --quiet."""
    group.add_argument(
        "--plot", metavar="FILE", help="draw it: .svg, .png, .pdf or .eps"
    )
    group.add_argument("--quiet", action="store_true", help="no progress")


def add_session(parser: ArgumentParser) -> Container:
    """Add what watches the trials, where the result is kept and how it is told; return the
    group of the latter."""
    add_watch_of_loads(parser.add_argument_group("what watches the trials"))
    group = parser.add_argument_group("result")
    add_study(group)
    add_notify(group)
    add_plot_option(group)
    return group


def refuse(misfits: Sequence[OptionMistake]) -> None:
    """Raise InputError with every misfit, if there are any."""
    from benchwright.core.errors import Diagnostic, InputError

    if misfits:
        raise InputError(
            [
                Diagnostic("bad-argument", message, hint, file=option, text=text)
                for option, text, message, hint in misfits
            ]
        )


def two_sources(spec: str, command: str) -> OptionMistake:
    """Return the misfit of a spec beside a --command."""
    return "--command", command, f"there is a spec too, {spec}", "leave one of them out"


def of_the_command(arguments: Namespace, names: Sequence[str]) -> list[OptionMistake]:
    """Return the misfits of options that go with --command only."""
    return [
        (f"--{name}", text, "it is for --command", "a spec says it in [load]")
        for name in names
        if (text := getattr(arguments, name)) is not None
    ]


def search_or_print(
    kind: str, arguments: Namespace, request: Callable[[Namespace], Request]
) -> int:
    """Begin a search of a kind, `peak` or `ramp`, or tell a stored one again where there is
    nothing to search; return the exit code."""
    if arguments.spec is None and arguments.command is None:
        from benchwright.cli.stored_search import print_stored_search

        return print_stored_search(kind, arguments)
    from benchwright.cli.plot_file import check_plot

    spec = None
    if arguments.spec is not None:
        spec = spec_source(arguments.spec, f"bw {kind}")
    check_plot(arguments.plot, [] if spec is None else [spec.path])
    runner = import_module(f"benchwright.cli.{kind}")
    status: int = runner.begin(request(arguments), spec, arguments, sys.argv[1:])
    return status
