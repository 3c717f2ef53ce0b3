"""The life of a server under load: configured, started, waited for, watched, stopped.

Purpose: one server at a time, its processes children of the launcher, so that none outlives a
`bw` that is killed. Decision: whatever the user starts is a daemon to us: a foreground
command is left in the background by begin.py, and both kinds are then the launcher's orphans.
What goes wrong with a server is a `ServerFailure`, which a trial tells, and not an error: the
search decides. Non-goal: containers and remote hosts; `configure` and `stop` can drive them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.bench.port import Bench
from benchwright.model.errors import BenchError, Interrupted
from benchwright.model.observation import Ending, ProcessRecord
from benchwright.model.plan import Mode, Pairs
from benchwright.trial.record import Hello, RunRequest, WireCommand
from benchwright.trial.request import merged
from benchwright.workbench.cpus import Cpus, leaving, pinning
from benchwright.workbench.descendants import (
    Process,
    Stat,
    children_of,
    descendants_of,
    is_alive,
    signal_all,
    stat_of,
)
from benchwright.workbench.ready import why_not_ready
from benchwright.workbench.spec import CommandText, ServerPlan, filled

LOOK_S = 0.02
"""Between two looks at a server that starts or ends [s]."""
KILL_PATIENCE_S = 5.0
"""A process that hangs in the kernel is not waited for longer [s]."""
TAIL_BYTES = 2000


class Launcher(Bench, Protocol):
    """A bench whose commands' orphans become its children."""

    @property
    def hello(self) -> Hello:
        """Who it is."""


class Clock(Protocol):
    """Time, as waiting needs it."""

    def now(self) -> float:
        """Return seconds since some moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""


class MonotonicClock:
    """The machine's own."""

    def now(self) -> float:
        """Return CLOCK_MONOTONIC [s]."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class ServerFailure(Exception):
    """A server that does not do what it should; the text says what and shows its log."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What every command of a server gets."""

    directory: str
    environment: Pairs
    logs: Path
    """Exists: the commands' and the server's output."""
    cpus: Cpus = ()


class _Running(msgspec.Struct, frozen=True):
    """A server that was started."""

    values: Mapping[str, str]
    roots: tuple[Process, ...]
    """It has ended when these all have."""


class Server:
    """The server of one workbench."""

    def __init__(
        self,
        plan: ServerPlan,
        launcher: Launcher,
        around: Surroundings,
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._launcher = launcher
        self._around = around
        self._clock = clock
        self._running: _Running | None = None
        self._begun = False
        """Whether something may have been left running since the last stop."""
        self._interrupted = False

    @property
    def log(self) -> Path:
        """Of a foreground server, without `.out` and `.err`."""
        return self._around.logs / "server"

    def interrupt(self) -> None:
        """End waiting; safe to call in a signal handler."""
        self._interrupted = True

    # -- start -----------------------------------------------------------------------

    def ensure(self, values: Mapping[str, str]) -> None:
        """Have a server run and be ready with these levels: the same one, if it can be.

        Raises ServerFailure and Interrupted.
        """
        death = self.died()
        running = self._running
        if running is not None and running.values == values:
            self._wait(running)
            return
        self.stop()
        if death:
            raise ServerFailure(f"between two trials {death}")
        self._start(values)

    def _start(self, values: Mapping[str, str]) -> None:
        plan = self._plan
        mark = _size(self.log.with_suffix(".err")), _size(self.log.with_suffix(".out"))
        for command in plan.configure:
            self._run(command, values, "configure")
        before = {one.process for one in self._children()}
        if plan.start is not None:
            self._begun = True
            self._run(plan.start, values, "start")
        running = _Running(values, self._roots(before))
        self._running = running
        try:
            self._wait(running, mark)
        except ServerFailure:
            self.stop()
            raise

    def _run(self, text: CommandText, values: Mapping[str, str], what: str) -> None:
        """Run a command of the user's to its end."""
        command = text.filled(values)
        argv = (*pinning(self._around.cpus), *command.argv)
        if what == "start" and not self._plan.daemon:
            self._pid_file.unlink(missing_ok=True)
            words = leaving(self._around.cpus, self._pid_file, self.log)
            argv = (*words, *command.argv)
        record = self._command(argv, values)
        if record.status or record.error:
            said = record.error or self._tail(record)
            status = f"ended with status {record.status}"
            raise ServerFailure(f"{what} ({command.text}) {status}: {said}")

    def _command(
        self, argv: tuple[str, ...], values: Mapping[str, str]
    ) -> ProcessRecord:
        request = RunRequest(
            id=0,
            first_epoch=1,
            epochs=1,
            threads=1,
            commands=(WireCommand(Mode.SYSTEM.value, argv),),
            environment=self.environment(values),
            directory=self._directory(values),
            logs=str(self._around.logs),
        )
        result = self._launcher.run(request, abandoned=lambda: self._interrupted)
        if not result.epochs or result.epochs[0].ending is Ending.INTERRUPTED:
            raise Interrupted
        return result.epochs[0].processes[0]

    def environment(self, values: Mapping[str, str]) -> Pairs:
        """Return what the server's commands get beyond the caller's environment."""
        own = tuple((k, filled(v, values)) for k, v in self._plan.environment)
        return merged(self._around.environment, own)

    def _directory(self, values: Mapping[str, str]) -> str:
        own = self._plan.directory
        inner = "" if own is None else filled(own, values)
        return str(Path(self._around.directory, inner))

    # -- watching --------------------------------------------------------------------

    @property
    def _pid_file(self) -> Path:
        return self._around.logs / "server.pid"

    def _roots(self, before: set[Process]) -> tuple[Process, ...]:
        """Return the processes that the start left to the launcher."""
        if self._plan.start is None:
            return ()
        if self._plan.daemon:
            found = [one.process for one in self._children()]
            return tuple(one for one in found if one not in before)
        stat = stat_of(int(self._pid_file.read_text()))
        return () if stat is None else (stat.process,)

    def _children(self) -> list[Stat]:
        return children_of(self._launcher.hello.pid)

    def _alive(self, running: _Running) -> bool:
        """Tell whether it runs; of a server that is not ours nobody knows, so: yes."""
        return self._plan.start is None or any(is_alive(p) for p in running.roots)

    def died(self) -> str:
        """Return how the log of a server that has ended by itself ends; empty if it lives."""
        running = self._running
        if running is None or self._alive(running):
            return ""
        self._running = None
        return f"the server has ended; {self._log_tail((0, 0))}"

    def _wait(self, running: _Running, mark: tuple[int, int] = (0, 0)) -> None:
        """Wait until it is ready. Raises ServerFailure when it ends, or too much time has."""
        ready = self._plan.ready
        if ready is None:
            return
        limit_s = self._plan.ready_timeout_ns / 1e9
        deadline = self._clock.now() + limit_s
        environment = dict(os.environ) | dict(self.environment(running.values))
        directory = self._directory(running.values)
        while True:
            why = why_not_ready(ready, running.values, environment, directory)
            if not why:
                break
            if self._interrupted:
                raise Interrupted
            if not self._alive(running):
                text = "the server ended before it was ready"
                raise ServerFailure(f"{text}; {self._log_tail(mark)}")
            if self._clock.now() >= deadline:
                text = f"the server was not ready within {limit_s:g} s ({why})"
                raise ServerFailure(f"{text}; {self._log_tail(mark)}")
            self._clock.sleep(LOOK_S)
        # Somebody else may hold the port, and answer in place of a server that could not.
        if not self._alive(running):
            text = "the server ended, and something else answers in its place"
            raise ServerFailure(f"{text}; {self._log_tail(mark)}")

    def settle(self) -> bool:
        """Wait until a server that was loaded answers again, so that no backlog is left.

        Returns whether it did; one that does not is stopped, and the next trial begins
        with a new one.
        """
        running = self._running
        if running is None:
            return True
        try:
            self._wait(running)
        except ServerFailure:
            self.stop()
            return False
        return True

    # -- stop ------------------------------------------------------------------------

    def stop(self) -> None:
        """End the server and all that it started; nothing happens where there is none."""
        running, self._running = self._running, None
        if not self._begun:
            return
        stopping, self._interrupted = self._interrupted, False
        try:
            if running is not None:
                self._ask_to_stop(running)
            self._end(signal.SIGTERM, self._plan.grace_ns / 1e9)
            self._end(signal.SIGKILL, KILL_PATIENCE_S)
            self._begun = False
        finally:
            self._interrupted = stopping

    def _ask_to_stop(self, running: _Running) -> None:
        """Run the user's stop command, and give the server its grace to follow it."""
        if self._plan.stop is None or not self._alive(running):
            return
        # Without a launcher nothing can be asked: its guard has ended everything then.
        with contextlib.suppress(ServerFailure, Interrupted, BenchError):
            self._run(self._plan.stop, running.values, "stop")
            self._until_gone(self._plan.grace_ns / 1e9)

    def _end(self, number: int, patience_s: float) -> None:
        """Signal what is left: the launcher's own children first, all of them with KILL."""
        every = number == signal.SIGKILL
        pid = self._launcher.hello.pid
        signal_all(descendants_of(pid) if every else children_of(pid), number)
        self._until_gone(patience_s)

    def _until_gone(self, patience_s: float) -> None:
        deadline = self._clock.now() + patience_s
        while self._children() and self._clock.now() < deadline:
            self._clock.sleep(LOOK_S)

    # -- logs ------------------------------------------------------------------------

    def _tail(self, record: ProcessRecord) -> str:
        """Return the end of what a command said."""
        for stream, (begin, length) in (("err", record.err), ("out", record.out)):
            path = self._around.logs / f"{Mode.SYSTEM.value.lower()}-0.{stream}"
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(begin)
                if said := _shortened(file.read(length)):
                    return said
        return "it said nothing"

    def _log_tail(self, mark: tuple[int, int]) -> str:
        """Return the end of what the server said since its log had these lengths."""
        for end, begin in zip((".err", ".out"), mark, strict=True):
            path = self.log.with_suffix(end)
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(max(begin, _size(path) - TAIL_BYTES))
                if said := _shortened(file.read()):
                    return f"its log ends: {said}"
        return "its log is empty"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _shortened(data: bytes) -> str:
    """Return the last lines of an output on one line."""
    lines = data[-TAIL_BYTES:].decode(errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines if line.strip())[-400:]
