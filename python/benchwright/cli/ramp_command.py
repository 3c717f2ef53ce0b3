"""`bw ramp --command 'GEN {users} {duration}'` as a spec: a program as load."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchwright.cli.first_output import FirstOutput
from benchwright.model.errors import Diagnostic, InputError, argument_error
from benchwright.model.peak import LoadEnding, LoadTrial
from benchwright.session.search_ramp_request import RampRequest
from benchwright.workbench.generators.command import (
    CommandGenerator,
    command_generator,
)
from benchwright.workbench.generators.source import Source, parse_source
from benchwright.workbench.port import Workbench
from benchwright.workbench.ramp_spec import THROUGHPUT
from benchwright.workbench.spec import LoadPlan, Spec

FILE = "--command"
"""What stands for a spec's file."""
VALUES = (
    ("throughput", THROUGHPUT),
    ("response", "response_ms_mean"),
    ("p99", "response_ms_p99"),
    ("errors", "error_ratio"),
)
"""Options that say where a value is, and the value's key."""
_BARE = "GEN {users} {duration}"
_ANY = "/value"


def command_spec(request: RampRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command = request.command
    assert command is not None
    wrong: list[Diagnostic] = []
    made = _tried("--command", command, lambda: command_generator(command, _ANY), wrong)
    values = []
    for name, key in VALUES:
        source = _source(f"--{name}", getattr(request, name), wrong)
        if source is not None:
            values.append((key, source))
    series = request.series
    told = _tried("--series", series, lambda: _with_series(series), wrong)
    if wrong:
        raise InputError(wrong)
    assert made is not None
    settings = CommandGenerator(
        command=command,
        values=tuple(values),
        series=None if told is None else told.series,
        open_loop="{rate}" in command,
    )
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=FILE, directory=os.getcwd(), load=load)


def _with_series(series: str | None) -> CommandGenerator:
    return command_generator(_BARE, _ANY, series)


def _source(option: str, text: str | None, wrong: list[Diagnostic]) -> Source | None:
    if text is None:
        return None
    try:
        return parse_source(text)
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return None


def _tried(
    option: str,
    text: str | None,
    make: Callable[[], CommandGenerator],
    wrong: list[Diagnostic],
) -> CommandGenerator | None:
    if text is None:
        return None
    try:
        return make()
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return None


def first_output(workbench: Workbench, request: RampRequest) -> FirstOutput:
    """Return a workbench whose first output must hold what was pointed at."""

    def judge(trial: LoadTrial) -> None:
        failure = trial.failure.removeprefix("command: ")
        for name, key in (*VALUES, ("series", "series")):
            text = getattr(request, name)
            if text is None:
                continue
            if failure.startswith(f"no {key} "):
                raise argument_error(f"--{name}", text, failure, _HINT)
            missing = key != "series" and key not in trial.values
            if missing and trial.ending is not LoadEnding.FAILED:
                message = f"no {key} in the output of GEN"
                raise argument_error(f"--{name}", text, message, _HINT)

    return FirstOutput(workbench, judge)


_HINT = "GEN prints JSON, in which this pointer leads to a number"
