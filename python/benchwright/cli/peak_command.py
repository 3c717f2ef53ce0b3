"""`--command 'GEN {rate} {duration}'` as a spec: the user's own server, a program as load."""

from __future__ import annotations

import os
from collections.abc import Callable

from benchwright.cli.first_output import UNREADABLE, FirstOutput
from benchwright.model.errors import Diagnostic, InputError, argument_error
from benchwright.model.peak import LoadTrial
from benchwright.session.search_peak_request import PeakRequest
from benchwright.trial.program_file import fault_of
from benchwright.workbench.generators.command import (
    CommandGenerator,
    command_generator,
)
from benchwright.workbench.port import Workbench
from benchwright.workbench.spec import LoadPlan, Spec

FILE = "--command"
"""What stands for a spec's file."""
_ANY = "/value"
_FULL = "GEN {rate} {duration}"


def command_spec(request: PeakRequest) -> Spec:
    """Return the spec of a command line. Raises InputError with every mistake."""
    command, response, series = request.command, request.response, request.series
    assert command is not None
    assert response is not None
    wrong: list[Diagnostic] = []
    _try("--command", command, lambda: _loaded(command), wrong)
    _try("--response", response, lambda: command_generator(_FULL, response), wrong)
    if series is not None:
        _try("--series", series, lambda: command_generator(_FULL, _ANY, series), wrong)
    if wrong:
        raise InputError(wrong)
    settings = command_generator(command, response, series)
    load = LoadPlan(generator="command", settings=settings)
    return Spec(file=FILE, directory=os.getcwd(), load=load)


def _loaded(command: str) -> None:
    """Raise ValueError for a command that cannot be asked for a rate."""
    if "rate" not in command_generator(command, _ANY).traits.axes:
        raise ValueError(f"`{command}` has no {{rate}}: a peak rate is searched for")


def _try(
    option: str, text: str, make: Callable[[], object], wrong: list[Diagnostic]
) -> None:
    try:
        make()
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))


def first_output(workbench: Workbench, request: PeakRequest) -> FirstOutput:
    """Return a workbench whose first output must be readable."""

    def judge(trial: LoadTrial) -> None:
        if trial.failure.startswith(UNREADABLE):
            raise _mistake(request, trial.failure.removeprefix("command: "))

    return FirstOutput(workbench, judge)


def _mistake(request: PeakRequest, message: str) -> InputError:
    series = request.series
    if series is not None and message.startswith("no series"):
        return argument_error("--series", series, message)
    text = request.response or ""
    hint = "GEN prints JSON, in which this pointer leads to the mean response in ms"
    return argument_error("--response", text, message, hint)


def check_program(spec: Spec) -> None:
    """Raise InputError for a command's program that is not there, before there is a study."""
    settings = spec.load.settings
    assert isinstance(settings, CommandGenerator)
    for name in settings.programs:
        why = fault_of(name, os.environ.get("PATH"), os.getcwd())
        if why:
            hint = "give its path, or check PATH"
            raise argument_error("--command", settings.command, why, hint)
