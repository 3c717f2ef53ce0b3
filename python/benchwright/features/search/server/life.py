"""The life of a server under load: configured, started, probed until ready, watched, and
stopped with all its processes."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from benchwright.core.errors import BenchError, Interrupted
from benchwright.core.processes import Process, ProcessIdentity
from benchwright.features.search.server.host import (
    TAIL_BYTES,
    Groups,
    Launcher,
    ServerCommand,
    ServerCommands,
    ServerEnvironment,
    ServerFailure,
    ServerHost,
    ThisMachine,
    log_tail,
)
from benchwright.features.search.spec import (
    CommandReady,
    CommandText,
    HttpReady,
    ServerPlan,
    TcpReady,
)
from benchwright.features.search.spec_toml import parse_address

# -- Checks whether a server is ready, by TCP or HTTP ----------------------------------
#
# Decision: the probes run in Python, each with its own short limit; a server that hangs
# is not ready. Any HTTP status below 500 counts: a server that replies 404 is serving.
# The launcher runs a `ready` command, like all commands of the user (class `Server`): a child
# of Python would outlive a `bw` that is killed. Non-goal: TLS (use `tcp`).

PROBE_S = 1.0
"""Time limit of one probe [s]."""


def why_not_ready(ready: TcpReady | HttpReady, values: Mapping[str, str]) -> str:
    """Return why the server is not ready yet; empty if it is."""
    shown = ready.shown(values)
    return _tcp(shown) if isinstance(ready, TcpReady) else _http(shown)


def _tcp(address: str) -> str:
    try:
        with socket.create_connection(parse_address(address), PROBE_S):
            return ""
    except (OSError, ValueError) as error:
        return f"{address}: {_reason(error)}"


def _http(url: str) -> str:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(parts.netloc, timeout=PROBE_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{url}: {_reason(error)}"
    finally:
        connection.close()
    return "" if status < 500 else f"{url}: HTTP status {status}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# --------------------------------------------------------------------------------------
# The life of a server under load: configured, started, probed, watched, stopped.
#
# Purpose: one server at a time; its processes are children of the launcher, so none outlives
# a `bw` that is killed. Decision: every server is treated as a daemon: start_on_cpus.py leaves
# a foreground command in the background, and both kinds become orphans of the launcher.
# A server that the spec names by pid, port, unit or program runs already: it is found and watched,
# and never started or stopped. Its processes of one moment show whether it ended or was restarted
# later: a server that replaces its workers keeps the process that has no parent among them.
# A fault of a server is a `ServerFailure`, which a trial reports, and not an error: the
# search decides. Non-goal: containers; `configure` and `stop` can control them.

LOOK_S = 0.02
"""Interval between checks of a server that starts or ends [s]."""
LEAST_STOP_NS = 10**9
"""Minimum time limit of a stop command, even if the grace period is 0."""
KILL_PATIENCE_S = 5.0
"""Maximum wait for killed processes: one may hang in the kernel [s]."""
SERVER_NOT_FOUND, RESTARTED = "server-not-found", "server-restarted"
"""Marks of a trial of a named server that has ended, or runs as another process."""


class ServerClock(Protocol):
    """A source of time for waiting."""

    def now(self) -> float:
        """Return the seconds since a fixed moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait for this time."""


class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Return CLOCK_MONOTONIC [s]."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class _RunningServer(msgspec.Struct, frozen=True):
    """A server that was started."""

    values: Mapping[str, str]
    roots: tuple[ProcessIdentity, ...]
    """The server has ended when all of these have ended."""
    before: frozenset[ProcessIdentity] = frozenset()
    """Children of the launcher that existed before the start."""


class ServerDeath(msgspec.Struct, frozen=True):
    """How a server ended without being stopped."""

    text: str
    """What happened, with the end of its log."""
    mark: str = ""
    """The mark of the trial that it spoils; empty: the trial's failure is all."""

    @property
    def between_trials(self) -> ServerFailure:
        """The failure of the trial that finds the server in this state."""
        return ServerFailure(f"between two trials {self.text}", self.mark)


class Server:
    """The server of one workbench."""

    def __init__(
        self,
        plan: ServerPlan,
        launcher: Launcher,
        around: ServerEnvironment,
        clock: ServerClock,
        host: ServerHost | None = None,
    ) -> None:
        """`host`: where the launcher runs; None: this machine."""
        self._plan = plan
        self._launcher = launcher
        self._host = host or ThisMachine()
        self._own_launcher = self._host.process(launcher.hello.pid)
        self._commands = ServerCommands(plan, launcher, around)
        self._environment = around
        self._clock = clock
        self._running: _RunningServer | None = None
        self._begun = False
        """Whether a process may be left running since the last stop."""
        self._interrupted = False
        self._groups: Groups = ()

    @property
    def log(self) -> Path:
        """Path of a foreground server's log, without the suffixes `.out` and `.err`."""
        return self._environment.logs / "server"

    def interrupt(self) -> None:
        """Stop waiting; safe to call in a signal handler."""
        self._interrupted = True

    # -- start -----------------------------------------------------------------------

    def ensure(self, values: Mapping[str, str], groups: Groups = ()) -> None:
        """Make a server ready with these levels; reuse the running one if its levels are equal.

        `groups`: the cgroups of a server that is started. Raises ServerFailure and Interrupted.
        """
        death = self.died()
        running = self._running
        if running is not None and running.values == values:
            self._wait_or_stop(running)
            return
        self.stop()
        if death is not None:
            raise death.between_trials
        self._groups = groups
        try:
            self._start(values)
        except ServerFailure:
            self.stop()
            raise

    def _start(self, values: Mapping[str, str]) -> None:
        plan = self._plan
        mark = _size(self.log.with_suffix(".err")), _size(self.log.with_suffix(".out"))
        # Processes that a `configure` command leaves running are ended with the server.
        self._begun = plan.start is not None
        for command in plan.configure:
            self._run(command, values, "configure", plan.configure_timeout_ns)
        before = frozenset(child.identity for child in self._children())
        if plan.start is not None:
            self._check_place(values)
            self._run(plan.start, values, "start", plan.ready_timeout_ns)
        running = _RunningServer(values, self._roots(before), before)
        self._running = running
        self._wait(running, mark)
        if plan.named is not None:
            # Found once it is ready: a `configure` command may have restarted it.
            self._running = _RunningServer(values, self._named_roots())

    def _check_place(self, values: Mapping[str, str]) -> None:
        """Raise ServerFailure if another program answers at the server's address."""
        ready = self._plan.ready
        if ready is None or isinstance(ready, CommandReady):
            return
        if not self._probe(ready, values):
            text = "another program already answers at the address of the server"
            raise ServerFailure(f"{text} ({ready.shown(values)}): end it, or use {{port}}")

    def _run(self, text: CommandText, values: Mapping[str, str], what: str, limit_ns: int) -> None:
        """Run a user's command to its end."""
        command = text.filled(values)
        cpus = self._environment.cpus
        # What asks the server a question or stops it does not use its resources.
        groups = self._groups if what in ("configure", "start") else ()
        argv = (*self._host.on_cpus(cpus, groups), *command.argv)
        if what == "start" and not self._plan.daemon:
            self._pid_file.unlink(missing_ok=True)
            words = self._host.in_background(cpus, groups, self._pid_file, self.log)
            argv = (*words, *command.argv)
        told = f"{what} ({command.text})"
        command_run = ServerCommand(what=told, argv=argv, values=values, limit_s=limit_ns / 1e9)
        self._commands.run(command_run, lambda: self._interrupted)

    # -- watching --------------------------------------------------------------------

    def pids(self) -> tuple[int, ...]:
        """Return the processes of the server, including those that `configure` left running.
        Between two loads the launcher has no other descendants."""
        pids: list[int] = []
        if self._launcher_lives:
            started = self._host.descendants(self._launcher.hello.pid)
            pids = [process.pid for process in started]
        if self._plan.named is not None:
            pids += self._host.find(self._plan.named).pids
        return tuple(dict.fromkeys(pids))

    def _named_roots(self) -> tuple[ProcessIdentity, ...]:
        """Return the processes of a named server that are children of none of them."""
        assert self._plan.named is not None
        found = map(self._host.process, self._host.find(self._plan.named).pids)
        every = [process for process in found if process is not None]
        inside = {process.pid for process in every}
        return tuple(process.identity for process in every if process.parent not in inside)

    @property
    def _pid_file(self) -> Path:
        return self._environment.logs / "server.pid"

    def _roots(self, before: frozenset[ProcessIdentity]) -> tuple[ProcessIdentity, ...]:
        """Return the root processes that the start command left to the launcher."""
        if self._plan.start is None:
            return ()
        if self._plan.daemon:
            return self._left_since(before)
        process = self._host.process(int(self._pid_file.read_text()))
        return () if process is None else (process.identity,)

    def _left_since(self, before: frozenset[ProcessIdentity]) -> tuple[ProcessIdentity, ...]:
        identities = [child.identity for child in self._children()]
        return tuple(identity for identity in identities if identity not in before)

    @property
    def _launcher_lives(self) -> bool:
        """Whether the launcher's process id is still its own; it may have been reused."""
        own = self._own_launcher
        return own is not None and self._host.is_open and self._host.is_alive(own.identity)

    def _children(self) -> list[Process]:
        return self._host.children(self._launcher.hello.pid) if self._launcher_lives else []

    def _alive(self, running: _RunningServer) -> bool:
        """Return whether the server runs; true for a server that `bw` did not start and that
        has no name, or is not found yet."""
        if self._plan.start is None and not running.roots:
            return True
        if any(map(self._host.is_alive, running.roots)):
            return True
        # A daemon may detach from its parent after its start command has returned.
        return self._plan.daemon and bool(self._left_since(running.before))

    def died(self, patience_s: float = 0.0) -> ServerDeath | None:
        """Return how the server ended since it was last found running; None if it runs.

        `patience_s`: how long its end is awaited [s].
        """
        running = self._running
        if running is None:
            return None
        deadline = self._clock.now() + patience_s
        while self._alive(running):
            if self._clock.now() >= deadline:
                return None
            self._clock.sleep(LOOK_S)
        self._running = None
        named = self._plan.named
        if named is None:
            return ServerDeath(f"the server has ended; {self._log_tail((0, 0))}")
        if self._named_roots():
            text = f"the server ({named.text}) was restarted: its process is another one"
            return ServerDeath(text, RESTARTED)
        return ServerDeath(f"the server ({named.text}) has ended", SERVER_NOT_FOUND)

    def _wait(self, running: _RunningServer, mark: tuple[int, int] = (0, 0)) -> None:
        """Wait until the server is ready. Raises ServerFailure if it ends or the wait times out."""
        if self._plan.ready is None and self._plan.named is None:
            return
        limit_s = self._plan.ready_timeout_ns / 1e9
        deadline = self._clock.now() + limit_s
        while True:
            why = self._why_not_ready(running.values)
            if not why:
                break
            if self._interrupted:
                raise Interrupted
            if not self._alive(running):
                text = "the server ended before it was ready"
                raise ServerFailure(f"{text}; {self._log_tail(mark)}")
            if self._clock.now() >= deadline:
                text = f"the server was not ready within {limit_s:g} s ({why})"
                if self._plan.named is not None:
                    raise ServerFailure(text)
                raise ServerFailure(f"{text}; {self._log_tail(mark)}")
            self._clock.sleep(LOOK_S)
        # Another program may hold the port and answer, so that this server could not start.
        if not self._alive(running):
            text = "the server ended, and another program answers at its address"
            raise ServerFailure(f"{text}; {self._log_tail(mark)}")

    def _why_not_ready(self, values: Mapping[str, str]) -> str:
        ready = self._plan.ready
        if self._plan.named is not None:
            processes = self._host.find(self._plan.named)
            if not processes.pids:
                return processes.why
        if ready is None:
            return ""
        if not isinstance(ready, CommandReady):
            return self._probe(ready, values)
        try:
            self._run(ready.command, values, "ready", round(PROBE_S * 1e9))
        except ServerFailure as failure:
            return str(failure)
        return ""

    def _probe(self, ready: TcpReady | HttpReady, values: Mapping[str, str]) -> str:
        """Return why the server is not ready, as seen in its own network; empty if it is."""
        network = self._environment.network
        if network is None:
            return why_not_ready(ready, values)
        return network.run(lambda: why_not_ready(ready, values))

    def _wait_or_stop(self, running: _RunningServer) -> None:
        """Wait until the server is ready; if it fails, stop it, so that the next trial
        starts a new one. Raises ServerFailure."""
        try:
            self._wait(running)
        except ServerFailure:
            self.stop()
            raise

    def settle(self) -> bool:
        """Wait until a loaded server answers again, so that no backlog is left.

        Returns whether it did; if not, the server is stopped and the next trial starts a
        new one.
        """
        running = self._running
        if running is None:
            return True
        try:
            self._wait_or_stop(running)
        except ServerFailure:
            return False
        return True

    # -- stop ------------------------------------------------------------------------

    def stop(self) -> None:
        """End the server and all processes that it started; do nothing if there is none."""
        running, self._running = self._running, None
        if not self._begun:
            return
        if not self._host.is_open:
            # The launcher there ends everything when its connection ends.
            self._begun = False
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

    def _ask_to_stop(self, running: _RunningServer) -> None:
        """Run the user's stop command, and wait at most the grace period for the server's end."""
        if self._plan.stop is None or not self._alive(running):
            return
        # Without a launcher no command can run: its supervisor has ended all processes then.
        with contextlib.suppress(ServerFailure, Interrupted, BenchError):
            limit_ns = max(self._plan.grace_ns, LEAST_STOP_NS)
            self._run(self._plan.stop, running.values, "stop", limit_ns)
            self._until_gone(self._plan.grace_ns / 1e9)

    def _end(self, number: int, patience_s: float) -> None:
        """Signal the remaining children of the launcher; KILL goes to all descendants."""
        every = number == signal.SIGKILL
        if not self._launcher_lives:
            return
        pid = self._launcher.hello.pid
        host = self._host
        host.signal(host.descendants(pid) if every else host.children(pid), number)
        self._until_gone(patience_s)

    def _until_gone(self, patience_s: float) -> None:
        deadline = self._clock.now() + patience_s
        while self._children() and self._clock.now() < deadline:
            self._clock.sleep(LOOK_S)

    # -- logs ------------------------------------------------------------------------

    def _log_tail(self, mark: tuple[int, int]) -> str:
        """Return the end of the server's output that follows these log lengths."""
        self._host.refresh(self._environment.logs)
        for end, begin in zip((".err", ".out"), mark, strict=True):
            path = self.log.with_suffix(end)
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(max(begin, _size(path) - TAIL_BYTES))
                if text := log_tail(file.read()):
                    return f"its log ends: {text}"
        return "its log is empty"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
