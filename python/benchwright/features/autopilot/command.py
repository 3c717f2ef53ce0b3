"""`bw measure` and `bw barrier`, for use inside benchmark scripts.

Both replace this process by the launcher (exec). Otherwise Python's memory would be the minimum
of the measured resident size, and a released process would start its command late.
"""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from benchwright.cli.parser import add_command
from benchwright.inputs.options import Option, add_option

_HOOKS = Option(
    "directory of measurement hooks",
    "DIR",
    flag="--hooks",
    name="hooks",
    kind="list",
    names="directory",
)
"""Declared without a request, which would import msgspec inside every trial."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw measure`."""
    measure = add_command(
        commands,
        "measure",
        description="Run CMD and append a [measurement] block to $APLOG (to stdout when "
        "APLOG is not set): Auto-pilot's ap_measure. Exit status is CMD's.",
        usage="bw measure [--hooks DIR]... -- CMD...",
    )
    add_option(measure, _HOOKS)
    measure.set_defaults(handler=_measure)


def add_barrier(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bw barrier`."""
    barrier = add_command(
        commands,
        "barrier",
        description="Wait until all N processes of the trial have arrived, then exit, or "
        "execute CMD in place. Exit status 71: a process ended without arriving.",
        usage="bw barrier [-- CMD...]",
    )
    barrier.set_defaults(handler=_barrier)


def _measure(arguments: argparse.Namespace) -> NoReturn:
    hooks = [word for directory in arguments.hooks for word in ("--hooks", directory)]
    _become(["measure", *hooks, "--", *_command(arguments, required=True)])


def _barrier(arguments: argparse.Namespace) -> NoReturn:
    command = _command(arguments, required=False)
    if command[:2] == ["bw", "measure"]:
        # No Python interpreter may start between the release and the measured command.
        from benchwright.trial.programs import find_launcher

        command = [str(find_launcher()), *command[1:]]
    _become(["barrier", *(["--", *command] if command else [])])


def _command(arguments: argparse.Namespace, *, required: bool) -> list[str]:
    command: list[str] = arguments.command_argv or []
    if required and not command:
        from benchwright.core.errors import argument_error

        raise argument_error(
            "bw measure", "", "there is no command to measure", "bw measure -- CMD..."
        )
    return command


def _become(words: list[str]) -> NoReturn:
    from benchwright.trial.programs import find_launcher

    launcher = str(find_launcher())
    os.execv(launcher, [launcher, *words])
