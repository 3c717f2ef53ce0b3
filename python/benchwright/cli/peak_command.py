"""`--command 'GEN {rate} {duration}'` as a spec: the user's own server, a program as load."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from benchwright.model.errors import Diagnostic, InputError, argument_error
from benchwright.model.peak import LoadTrial, Probe
from benchwright.model.plan import Pairs
from benchwright.session.search_peak_request import PeakRequest
from benchwright.workbench.generators.adapter import Asked
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
_UNREADABLE = "command: no "
"""Begin of the failure of a trial whose output lacks what was sought (adapter.py)."""


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


class FirstOutput:
    """A workbench whose first trial, if its output cannot be read, is a mistake of the
    command line and no failure of the server."""

    def __init__(self, workbench: Workbench, request: PeakRequest) -> None:
        self._workbench = workbench
        self._request = request
        self._read = False

    @property
    def watched(self) -> bool:
        """As the workbench's."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial. Raises InputError for the first one without a value."""
        trial = self._workbench.run(probe, sample, leaves)
        if not self._read and trial.failure.startswith(_UNREADABLE):
            raise self._mistake(trial.failure.removeprefix("command: "))
        self._read = True
        return trial

    def _mistake(self, message: str) -> InputError:
        series = self._request.series
        if series is not None and message.startswith("no series"):
            return argument_error("--series", series, message)
        text = self._request.response or ""
        hint = "GEN prints JSON, in which this pointer leads to the mean response in ms"
        return argument_error("--response", text, message, hint)

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop everything that was started."""
        self._workbench.close()


def check_program(spec: Spec) -> None:
    """Raise InputError for a command's program that is not there.

    One inside a shell's command is told by its first trial.
    """
    settings = spec.load.settings
    assert isinstance(settings, CommandGenerator)
    asked = Asked(duration_s=1.0, rate=1.0, users=1, directory=os.getcwd())
    argv = settings.invocation(asked).commands[0].argv
    if argv[:2] == ("/bin/sh", "-c") or shutil.which(argv[0]) is not None:
        return
    message = f"there is no program {argv[0]!r} that can be run"
    hint = "give its path, or check PATH"
    raise argument_error("--command", settings.command, message, hint)
