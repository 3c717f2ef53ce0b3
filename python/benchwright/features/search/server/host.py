"""The machine of a server: which CPUs the server and its load generator get, how the user's
commands run there, and the resources that the server is given before it starts and that are
taken back after it.

Decision: a server and a generator on the same CPU disturb each other's measurement, so they get
separate CPUs if there are at least two. The generator gets a quarter; our engine needs one CPU for
each worker, whatever remains for the server. The user's choice has priority. Decision: the launcher
runs the commands in mode SYSTEM, so that none outlives a `bw` that is killed. A timer interrupts a
command at its limit, because the launcher's own timeout applies to EXEC. A command that fails is a
`ServerFailure`, which a trial reports: the search decides.

The changes of the machine for the server's resources, and their undoing after a crash, are those of
features/quiet. `ServerResourcesHeld` keeps the transaction of the current sample. What the machine
cannot limit is known before the first trial (`refusals`).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from benchwright.core.errors import BenchError, Diagnostic, InputError, Interrupted
from benchwright.core.hosts import NamedServer
from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import CommandMode, Pairs
from benchwright.core.processes import (
    Process,
    ProcessIdentity,
    children_of,
    descendants_of,
    is_alive,
    read_process,
    signal_all,
)
from benchwright.core.results import Finding
from benchwright.features.quiet.hold import Quieted, QuietRequest, discard
from benchwright.features.quiet.host import Host, SettingRefused
from benchwright.features.quiet.log_path import server_directory
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.quiet.report import restore_findings
from benchwright.features.quiet.server_resources import (
    GROUP_PREFIX,
    MOUNTS_PREFIX,
    LiftableLimit,
    io_limits,
    lift,
    put_back,
    server_groups,
    server_wishes,
    set_sync,
    write_back,
)
from benchwright.features.quiet.transaction import plans
from benchwright.features.quiet.types import (
    ServerDisks,
    ServerResources,
    ServerSetup,
    names_of_disks,
)
from benchwright.features.search.spec import ServerPlan, Spec
from benchwright.features.search.spec_toml import EngineSettings
from benchwright.findings.codes import make_finding
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.inputs.template import fill_placeholders
from benchwright.trial.bench import Bench
from benchwright.trial.protocol import LauncherHello, RunRequest, WireCommand, merge_pairs
from benchwright.watch.named_servers import ServerProcesses, find_server

_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
"""In memory.events of cgroup v2 and memory.oom_control of v1."""


def _new_name() -> str:
    """Return a name that nobody can foresee: files are made in a directory that all may write."""
    return f"{os.getpid()}_{secrets.token_hex(8)}"


class ServerResourcesHeld:
    """The resources of one server at a time."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or Host()
        self._quieted: Quieted | None = None
        self._given: ServerResources | None = None
        self._name = _new_name()
        self.groups: tuple[str, ...] = ()
        """Directories of the cgroups in which the server runs."""
        self._io_limits: tuple[LiftableLimit, ...] = ()
        self._memory_kills = 0
        self.findings: tuple[Finding, ...] = ()
        """What could not be taken back."""

    def refusals(self, resources: ServerResources) -> tuple[str, ...]:
        """Return what is missing on this machine to give these resources."""
        wishes = server_wishes(self._setup(resources))
        found = [plan.lacking for _, plan in plans(self._host, wishes)]
        return tuple(dict.fromkeys(why for lacking in found for why in lacking))

    def names(self, resources: ServerResources | None) -> dict[str, str]:
        """Return the values of names in braces."""
        disks = None if resources is None else resources.disks
        return names_of_disks(disks, self._mounts(disks))

    @property
    def _log(self) -> Path:
        """The directory of the transaction. Each has its own: one that could not be undone
        waits there for the next `bw`."""
        return Path(server_directory(self._name))

    def _mounts(self, disks: ServerDisks | None) -> str:
        """Return the directory of the disks, which the first one makes."""
        place = disks.directory if disks is not None else None
        # /proc/mounts has paths without links.
        place = os.path.realpath(place or tempfile.gettempdir())
        return os.path.join(place, f"{MOUNTS_PREFIX}{self._name}")

    def give(self, resources: ServerResources | None) -> None:
        """Give a server its resources, unless it has them. Raises BenchError."""
        if resources == self._given:
            return
        self.take_back()
        if resources is None:
            return
        self._name = _new_name()
        wishes = server_wishes(self._setup(resources))
        request = QuietRequest(wishes, host=self._host, directory=self._log)
        quieted = Quieted(request)
        quieted.__enter__()
        self._quieted, self._given = quieted, resources
        if quieted.quiet.lacking:
            why = "; ".join(setting.why for setting in quieted.quiet.lacking)
            self.take_back()
            message = f"the server cannot have its resources: {why}"
            raise BenchError("resources-unavailable", message)
        changes = [change.change for change in quieted.quiet.done]
        self.groups, self._io_limits = server_groups(changes), io_limits(changes)
        with _io_refused("made synchronous"):
            set_sync(self._host, self._setup(resources), on=True)

    def take_back(self) -> None:
        """Remove all limits and disks; the server has ended."""
        quieted, self._quieted, self._given = self._quieted, None, None
        self.groups, self._io_limits, self._memory_kills = (), (), 0
        if quieted is None:
            return
        quieted.__exit__(None, None, None)
        if quieted.restored is not None:
            self.findings += restore_findings(quieted.restored, late=False)
            if not quieted.restored.failed:
                discard(self._log)

    def new_memory_kills(self) -> int:
        """Return how many of the server's processes the kernel killed at their memory limit since
        the last call."""
        files = (
            Path(group, name)
            for group in self.groups
            for name in ("memory.events", "memory.oom_control")
        )
        texts = (self._host.read(file) or "" for file in files)
        known = self._memory_kills
        self._memory_kills = sum(
            int(number) for text in texts for number in _OOM_KILLS.findall(text)
        )
        return self._memory_kills - known

    @property
    def limits_io(self) -> bool:
        """Whether I/O of the server is limited, or waits for its disks."""
        disks = None if self._given is None else self._given.disks
        return bool(self._io_limits) or (disks is not None and disks.sync)

    @contextlib.contextmanager
    def io_unlimited(self) -> Iterator[None]:
        """Lift the limits of the server's I/O; what was written meanwhile is on the disks when
        they hold again. Raises BenchError."""
        assert self._given is not None, "a server without resources has no limits"
        setup = self._setup(self._given)
        try:
            with _io_refused("lifted"):
                lift(self._host, self._io_limits)
                set_sync(self._host, setup, on=False)
            yield
            with _io_refused("set again"):
                write_back(self._host, setup)
        finally:
            with _io_refused("set again"):
                put_back(self._host, self._io_limits)
                set_sync(self._host, setup, on=True)

    def _setup(self, resources: ServerResources) -> ServerSetup:
        group = f"{GROUP_PREFIX}{self._name}"
        mounts = self._mounts(resources.disks)
        return ServerSetup(resources=resources, group=group, mounts=mounts)


@contextlib.contextmanager
def _io_refused(done: str) -> Iterator[None]:
    try:
        yield
    except SettingRefused as refused:
        message = f"the limits of the server's disks cannot be {done}: {refused}"
        raise BenchError("resources-unavailable", message) from None


SHARED = "server-and-generator-share-cores"
CpuList = tuple[int, ...]
Groups = tuple[str, ...]
"""Directories of cgroups."""


class CpuAssignment(msgspec.Struct, frozen=True):
    """The CPUs of server and generator; empty: not bound."""

    server: CpuList
    load: CpuList
    ours: bool = True
    """Whether `bw` starts the server; the CPUs of another one are unknown."""

    @property
    def shared(self) -> bool:
        """Whether both are known to run on a common CPU."""
        return self.ours and bool(set(self.server) & set(self.load))

    @property
    def text(self) -> str:
        """Return a text for messages: `server on CPU 0, generator on CPU 1`."""
        server = _cpu_list_text(self.server) if self.ours else "wherever it runs"
        return f"server on {server}, generator on {_cpu_list_text(self.load)}"

    def findings(self, subject: str) -> tuple[Finding, ...]:
        """Return the findings about this split."""
        return (make_finding(SHARED, subject, self.text),) if self.shared else ()


def cpu_assignment(spec: Spec, available: CpuList, *, of_gang: bool = False) -> CpuAssignment:
    """Return how the available CPUs are divided; `of_gang`: the load is issued by clients. Raises
    InputError."""
    server = spec.server.cpus if spec.server is not None else None
    load = spec.load.cpus
    by_hosts = of_gang or spec.load.hosts is not None
    if spec.remote is not None or by_hosts:
        # The CPUs of another host are unknown here, and the two share none.
        seen = {"load.cpus": load} if spec.server_host else {"server.cpus": server}
        if by_hosts:
            seen.pop("load.cpus", None)
        _check(spec, seen, available)
        return CpuAssignment(server or (), load or (), ours=False)
    _check(spec, {"server.cpus": server, "load.cpus": load}, available)
    if spec.server is None or spec.server.start is None:
        return CpuAssignment((), load or (), ours=False)
    if server is None and load is None:
        few = max(len(available) // 4, _workers(spec))
        if len(available) <= few:
            return CpuAssignment(available, available)
        return CpuAssignment(available[:-few], available[-few:])
    if load is None:
        return CpuAssignment(server or (), _rest(available, server or ()))
    return CpuAssignment(_rest(available, load) if server is None else server, load)


def available_cpus() -> CpuList:
    """Return the CPUs that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def on_cpus(cpus: CpuList, groups: Groups = ()) -> tuple[str, ...]:
    """Return the words that, put before a command, bind it to CPUs and let it join cgroups;
    empty if it needs neither."""
    return (*_starter("pin", cpus, groups), "--") if cpus or groups else ()


def in_background(cpus: CpuList, groups: Groups, pid_file: Path, log: Path) -> tuple[str, ...]:
    """Return the words that, put before a command, start it in the background."""
    return (*_starter("leave", cpus, groups), str(pid_file), str(log), "--")


def _starter(what: str, cpus: CpuList, groups: Groups) -> tuple[str, ...]:
    script = str(Path(__file__).with_name("start_on_cpus.py"))
    named = ",".join(map(str, cpus)) or "-"
    joined = ":".join(groups) or "-"
    return (sys.executable, "-I", "-S", script, what, named, joined)


def _rest(available: CpuList, cpu_list: CpuList) -> CpuList:
    """Return the CPUs that remain, or all if none remains."""
    return tuple(cpu for cpu in available if cpu not in cpu_list) or available


def _workers(spec: Spec) -> int:
    """Return how many CPUs the generator needs: our engine needs one for each worker."""
    settings = spec.load.settings
    return settings.run.get("workers", 1) if isinstance(settings, EngineSettings) else 1


def _too_few_cpus(spec: Spec) -> list[Diagnostic]:
    """Return the error for fewer CPUs than workers, as workers would then not be bound."""
    cpus, workers = spec.load.cpus, _workers(spec)
    if cpus is None or len(cpus) >= workers:
        return []
    message = f"{_cpu_list_text(cpus)} is too few for {workers} workers"
    where = spec.places.get("load.cpus", Where(spec.file))
    return [diagnostic(where, "spec-value", message, "name one for each worker")]


def _check(spec: Spec, chosen: dict[str, CpuList | None], available: CpuList) -> None:
    mistakes = _too_few_cpus(spec)
    for place, cpus in chosen.items():
        absent = [cpu for cpu in cpus or () if cpu not in available]
        if absent:
            message = f"{_cpu_list_text(tuple(absent))} not available"
            hint = f"available: {', '.join(map(str, available))}"
            where = spec.places.get(place, Where(spec.file))
            mistakes.append(diagnostic(where, "spec-value", message, hint))
    if mistakes:
        raise InputError(mistakes)


def _cpu_list_text(cpus: CpuList) -> str:
    if not cpus:
        return "any CPU"
    return f"CPU{'s' * (len(cpus) > 1)} {', '.join(map(str, cpus))}"


class ServerHost(Protocol):
    """This machine, or another one (`trial.remote.RemoteBench`).

    Every function but `on_cpus` and `is_open` raises BenchError `remote-lost` if it cannot be
    asked.
    """

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""

    def process(self, pid: int) -> Process | None:
        """Return a process as it is now; None when there is none."""

    def is_alive(self, identity: ProcessIdentity) -> bool:
        """Return whether that process still runs."""

    def children(self, pid: int) -> list[Process]:
        """Return the living children of a process."""

    def descendants(self, pid: int) -> list[Process]:
        """Return the living descendants of a process."""

    def signal(self, processes: Iterable[Process], number: int) -> None:
        """Send a signal to those processes that are still alive."""

    def find(self, named: NamedServer) -> ServerProcesses:
        """Return the processes of a named server."""

    def on_cpus(self, cpus: Sequence[int], groups: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the words that bind a command to CPUs and let it join cgroups."""

    def in_background(
        self, cpus: Sequence[int], groups: Sequence[str], pid_file: Path, log: Path
    ) -> tuple[str, ...]:
        """Return the words that start a command in the background."""

    def refresh(self, logs: Path) -> None:
        """Bring the files of a directory of logs up to date."""


class ThisMachine:
    """The machine on which `bw` runs."""

    is_open = True

    def process(self, pid: int) -> Process | None:
        """Return a process as it is now; None when there is none."""
        return read_process(pid)

    def is_alive(self, identity: ProcessIdentity) -> bool:
        """Return whether that process still runs."""
        return is_alive(identity)

    def children(self, pid: int) -> list[Process]:
        """Return the living children of a process."""
        return children_of(pid)

    def descendants(self, pid: int) -> list[Process]:
        """Return the living descendants of a process."""
        return descendants_of(pid)

    def signal(self, processes: Iterable[Process], number: int) -> None:
        """Send a signal to those processes that are still alive."""
        signal_all(processes, number)

    def find(self, named: NamedServer) -> ServerProcesses:
        """Return the processes of a named server."""
        return find_server(named)

    def on_cpus(self, cpus: Sequence[int], groups: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the words that bind a command to CPUs and let it join cgroups."""
        return on_cpus(tuple(cpus), tuple(groups))

    def in_background(
        self, cpus: Sequence[int], groups: Sequence[str], pid_file: Path, log: Path
    ) -> tuple[str, ...]:
        """Return the words that start a command in the background."""
        return in_background(tuple(cpus), tuple(groups), pid_file, log)

    def refresh(self, _logs: Path) -> None:
        """Do nothing: they are here."""


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
            text = record.error or self._tail(record)
            status = f"ended with status {record.status}"
            raise ServerFailure(f"{command_run.what} {status}: {text}")

    def _tail(self, record: ProcessRecord) -> str:
        """Return the end of a command's output."""
        for stream, (begin, length) in (("err", record.err), ("out", record.out)):
            path = self._environment.logs / f"{CommandMode.SYSTEM.value.lower()}-0.{stream}"
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(begin)
                if text := log_tail(file.read(length)):
                    return text
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
