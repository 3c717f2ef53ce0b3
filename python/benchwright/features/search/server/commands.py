"""Runs the user's commands for a server, each until it ends or reaches its time limit.

Decision: the launcher runs them in mode SYSTEM, so that none outlives a `bw` that is killed.
A timer interrupts a command at its limit, because the launcher's own timeout applies to EXEC.
A command that fails is a `ServerFailure`, which a trial reports: the search decides.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from benchwright.core.errors import BenchError, Interrupted
from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import CommandMode, Pairs
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.search.server.cpus import CpuList
from benchwright.features.search.spec import ServerPlan
from benchwright.inputs.template import fill_placeholders
from benchwright.trial.bench import Bench
from benchwright.trial.protocol import LauncherHello, RunRequest, WireCommand, merge_pairs

TAIL_BYTES = 2000
AGAIN_S = 0.05
"""Interval between interrupts of a command whose time is over [s]."""


class Launcher(Bench, Protocol):
    """A bench that becomes the parent of its commands' orphans."""

    @property
    def hello(self) -> LauncherHello:
        """The launcher's first message: protocol, process id, version."""


class ServerFailure(Exception):
    """A server that does not work as required; the text has the problem and the log."""

    def __init__(self, text: str, mark: str = "") -> None:
        """`mark`: the code of the finding for the trial; empty if the failure alone is reported."""
        super().__init__(text)
        self.marks = (mark,) if mark else ()


class ServerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What all commands of a server share."""

    directory: str
    environment: Pairs
    logs: Path
    """Existing directory for the output of the commands and of the server."""
    cpus: CpuList = ()
    network: PrivateNetwork | None = None
    """None: the machine's network."""
    is_here: bool = True
    """Whether the directory is on this machine."""


class ServerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command to run."""

    what: str
    """Name for messages: `configure (prepare.sh 1)`."""
    argv: tuple[str, ...]
    values: Mapping[str, str]
    limit_s: float
    """Time after which the command is ended [s]."""


class ServerCommands:
    """Runs a server's commands."""

    def __init__(self, plan: ServerPlan, launcher: Launcher, around: ServerEnvironment) -> None:
        self._plan = plan
        self._launcher = launcher
        self._environment = around

    def run(self, command_run: ServerCommand, abandoned: Callable[[], bool]) -> None:
        """Run a command to its end. Raises ServerFailure, Interrupted and BenchError."""
        network = self._environment.network
        argv = (*(() if network is None else network.prefix), *command_run.argv)
        request = RunRequest(
            id=0,
            first_epoch=1,
            epochs=1,
            threads=1,
            commands=(WireCommand(CommandMode.SYSTEM.value, argv),),
            environment=self.environment(command_run.values),
            directory=self._existing(command_run),
            logs=str(self._environment.logs),
        )
        with _TimeLimit(self._launcher, command_run.limit_s) as limit:
            try:
                result = self._launcher.run(request, abandoned=abandoned)
            except BenchError as error:
                if self._environment.is_here or error.code != "launcher-refused":
                    raise
                # The directory of another host is checked there.
                text = f"{command_run.what} cannot run: {error.message}"
                raise ServerFailure(text) from None
        if not result.epochs or result.epochs[0].ending is TrialEnding.INTERRUPTED:
            if limit.passed and not abandoned():
                text = f"{command_run.what} did not end within {command_run.limit_s:g} s"
                raise ServerFailure(text)
            raise Interrupted
        self._check(command_run, result.epochs[0].processes[0])

    def environment(self, values: Mapping[str, str]) -> Pairs:
        """Return the variables that the server's commands get in addition to the caller's."""
        own = tuple((k, fill_placeholders(v, values)) for k, v in self._plan.environment)
        return merge_pairs(self._environment.environment, own)

    def directory(self, values: Mapping[str, str]) -> str:
        """Return the working directory of the server's commands."""
        own = self._plan.directory
        inner = "" if own is None else fill_placeholders(own, values)
        return str(Path(self._environment.directory, inner))

    def _existing(self, command_run: ServerCommand) -> str:
        directory = self.directory(command_run.values)
        if self._environment.is_here and not Path(directory).is_dir():
            text = f"{command_run.what} cannot run: the directory {directory} does not exist"
            raise ServerFailure(f"{text}; [server] directory sets where commands run")
        return directory

    def _check(self, command_run: ServerCommand, record: ProcessRecord) -> None:
        """Raise ServerFailure for a command that failed."""
        if record.status or record.error:
            said = record.error or self._tail(record)
            status = f"ended with status {record.status}"
            raise ServerFailure(f"{command_run.what} {status}: {said}")

    def _tail(self, record: ProcessRecord) -> str:
        """Return the end of a command's output."""
        for stream, (begin, length) in (("err", record.err), ("out", record.out)):
            path = self._environment.logs / f"{CommandMode.SYSTEM.value.lower()}-0.{stream}"
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(begin)
                if said := log_tail(file.read(length)):
                    return said
        return "it printed nothing"


class _TimeLimit:
    """Ends the launcher's current command when its time is over."""

    def __init__(self, launcher: Launcher, limit_s: float) -> None:
        self.passed = False
        self._launcher = launcher
        self._limit_s = limit_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._end)

    def __enter__(self) -> _TimeLimit:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._done.set()
        # The timer must not end the next command.
        self._thread.join()

    def _end(self) -> None:
        if self._done.wait(self._limit_s):
            return
        self.passed = True
        # Repeat: the launcher may not have started the command when the first one arrives.
        while not self._done.wait(AGAIN_S):
            self._launcher.interrupt(cleanup=True)


def log_tail(data: bytes) -> str:
    """Return the last lines of an output as one line."""
    lines = data[-TAIL_BYTES:].decode(errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines if line.strip())[-400:]
