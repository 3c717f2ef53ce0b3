"""Runs trials under load: the port to a workbench, and a workbench on this machine with a
server, its generator and their CPUs."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.errors import BenchError, Diagnostic, InputError, Interrupted
from benchwright.core.hosts import GangClients, RemoteSettings
from benchwright.core.plan import Pairs
from benchwright.core.results import Finding
from benchwright.core.text import plural
from benchwright.features.generators.adapter import Generator
from benchwright.features.generators.run import (
    GeneratorPlace,
    LeaveEarly,
    generator_request,
    run_generator,
)
from benchwright.features.load.engine import ShowMaking, unseen
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.search.engine_generator import EngineGenerator, LoadRun, failed_trial
from benchwright.features.search.server.host import (
    SHARED,
    CpuAssignment,
    Launcher,
    ServerFailure,
    ServerResourcesHeld,
    available_cpus,
    cpu_assignment,
    on_cpus,
)
from benchwright.features.search.server.host import ServerEnvironment as ServerSurroundings
from benchwright.features.search.server.life import (
    SERVER_NOT_FOUND,
    MonotonicClock,
    Server,
    ServerClock,
    ServerDeath,
)
from benchwright.features.search.spec import SERVER_ADDRESS, RemotePlan, ServerPlan, Spec
from benchwright.features.search.spec_toml import ENGINE, at_levels, engine_positions
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.trial.programs import program_problem
from benchwright.trial.protocol import ExecEnvironment, merge_pairs
from benchwright.trial.remote import RemoteBench

if TYPE_CHECKING:
    from benchwright.features.load.hosts import LoadHosts

# -- The port to a workbench -----------------------------------------------------------

AroundLoad = Callable[[Sequence[int], RemoteBench | None], AbstractContextManager[None]]
"""Takes the processes of a ready server, and the host that they are on unless it is this
machine; returns the context in which the load runs."""


def unwatched(_server: Sequence[int], _host: RemoteBench | None) -> AbstractContextManager[None]:
    """Return a context that does nothing."""
    return nullcontext()


class Workbench(Protocol):
    """A server, its load generator, and the machine that both run on."""

    @property
    def watched(self) -> bool:
        """Whether a running trial can be checked and ended early."""

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        """Run one trial at a sample (factor levels) and return it.

        A server that does not become ready or ends, or a generator that fails, gives a trial
        with ending FAILED, not an error: the search decides. Raises BenchError if the
        workbench cannot continue at all, and Interrupted after `interrupt`.
        """

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""

    def close(self) -> None:
        """Stop the server and everything else that was started."""


# --------------------------------------------------------------------------------------
# A workbench on this machine: a server, its generator, and the CPUs they run on.
#
# Purpose: implements `Workbench` with the launcher of a session. Decision: a trial is one
# call, and everything it starts is stopped by the next call, by `close`, or by the launcher's
# supervisor when `bw` is killed. The whole time of a trial is measured here, because a search
# pays for restarts too. A fault that prevents every trial (a program that is not installed, a
# criterion for which the generator has no value) is reported before the first trial.

STATE = "bw-state-"
NOT_RECOVERED = "server-did-not-recover"
END_PATIENCE_S = 1.0
"""How long the end of a server is awaited after a load that failed [s]: connections break before
the last of its processes has ended."""
PORTS = range(15_000, 32_000)
"""Below the ports that the kernel assigns to clients: a generator cannot take the server's
port while the server restarts."""


class WorkbenchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a workbench."""

    spec: Spec
    criteria: tuple[Criterion, ...]
    around: ExecEnvironment
    logs: Path
    """The session's log directory; created if missing."""
    seed: int = 1
    recorded: int = 0
    """Number of the session's recorded trials."""
    samples: tuple[Pairs, ...] = ()
    """Samples that are checked before the first trial, beside that of the spec."""
    clients: GangClients | None = None
    """The hosts of a gang that issue the load; None: this machine, or what the spec says."""


class _Arrangement(msgspec.Struct, frozen=True):
    """A server and its generator, as the spec describes them at a sample."""

    spec: Spec
    seats: CpuAssignment
    driver: EngineGenerator | _ProgramDriver
    server: Server | None
    values: Mapping[str, str]
    """What the names in braces stand for, except factors and values of trials, on the
    machine of the server."""
    here_of_load: str
    """`{here}` on the machine of the generator."""
    server_host: RemoteBench | None = None
    """The other host on which the server runs."""


class LocalWorkbench:
    """Runs trials under load on this host."""

    def __init__(
        self,
        setting: WorkbenchConfig,
        launcher: Launcher,
        clock: ServerClock | None = None,
        *,
        around_load: AroundLoad = unwatched,
        making: ShowMaking = unseen,
    ) -> None:
        """Check the settings. Raises InputError for a fault that prevents every trial."""
        self._setting = setting
        self._around_load = around_load
        self._making = making
        self._launcher = launcher
        self._clock = clock or MonotonicClock()
        self._interrupted = False
        setting.logs.mkdir(parents=True, exist_ok=True)
        self._network = self._private_network()
        self._held = ServerResourcesHeld()
        self._remotes: dict[RemotePlan, RemoteBench] = {}
        self._load_hosts: dict[tuple[RemoteSettings, ...], LoadHosts] = {}
        self._state = _fresh_state(setting.logs)
        clients = setting.clients
        self._server_address = "127.0.0.1" if clients is None else clients.server_address
        self._port = str(_free_port())
        self._directories = _last_number(setting.logs)
        self._number = setting.recorded
        try:
            for spec in self._specs():
                self._check_named(self._arranged(spec))
                self._check_resources(spec)
            self._now = self._arranged(setting.spec)
        except BaseException:
            self._let_go()
            raise

    @property
    def values(self) -> Mapping[str, str]:
        """What the names in braces stand for, except factors and values of trials."""
        return self._now.values

    @property
    def seats(self) -> CpuAssignment:
        """The CPUs of the server and of the generator."""
        return self._now.seats

    @property
    def watched(self) -> bool:
        """Whether a running trial can be checked and ended early."""
        return self._now.driver.watched

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return findings about the workbench itself, whatever is measured on it."""
        return (*self.seats.findings(self._setting.spec.file), *self._held.findings)

    def _specs(self) -> Iterator[Spec]:
        """Yield the spec at each sample to check."""
        yield self._setting.spec
        yield from map(self._setting.spec.at, self._setting.samples)

    def _check_named(self, arranged: _Arrangement) -> None:
        """Report a running server that is not on the other host. Raises InputError."""
        spec, host = arranged.spec, arranged.server_host
        named = None if spec.server is None else spec.server.named
        if host is None or named is None or (spec.server and spec.server.configure):
            return
        processes = host.find(named)
        if not processes.pids:
            where = spec.places.get(f"server.{named.by}", Where(spec.file))
            raise InputError([diagnostic(where, SERVER_NOT_FOUND, processes.why, processes.remedy)])

    def _check_resources(self, spec: Spec) -> None:
        """Report resources that this machine cannot give. Raises InputError."""
        resources = spec.server.resources if spec.server is not None else None
        if resources is None:
            return
        where = spec.places.get("server.resources", Where(spec.file))
        with _levels_named(spec):
            if why := self._held.refusals(resources):
                raise InputError([diagnostic(where, "resources-unavailable", one) for one in why])

    def _private_network(self) -> PrivateNetwork | None:
        """Return the private network, if a sample needs one. Raises InputError."""
        spec = next(filter(_is_private, self._specs()), None)
        if spec is None:
            return None
        try:
            return PrivateNetwork()
        except OSError as error:
            where = spec.places.get("server.network", Where(spec.file))
            message = f"the server cannot have a private network: {error.strerror or error}"
            raise InputError(
                [diagnostic(where, "network-unavailable", message, "run as root")]
            ) from None

    def _arranged(self, spec: Spec) -> _Arrangement:
        """Return the server and the generator of a spec. Raises InputError."""
        setting = msgspec.structs.replace(self._setting, spec=spec)
        with _levels_named(spec):
            of_gang = setting.clients is not None
            seats = cpu_assignment(spec, available_cpus(), of_gang=of_gang)
            network = self._network if _is_private(spec) else None
            remote = self._remote(spec)
            of_load = remote if spec.remote and spec.remote.run == "load" else None
            of_server = remote if spec.server_host else None
            hosts = self._hosts_of(spec)
            driver = _driver(setting, self._launcher, seats, network, of_load, hosts)
        server = self._made_server(spec, seats, of_server)
        here = str(Path(self._setting.around.directory, spec.directory))
        return _Arrangement(
            spec=spec,
            seats=seats,
            driver=driver,
            server=server,
            values=self._values(here, of_server),
            here_of_load=here if of_load is None else of_load.here,
            server_host=of_server,
        )

    def _remote(self, spec: Spec) -> RemoteBench | None:
        """Return the other host of a spec; connect if needed. Raises InputError."""
        plan = spec.remote
        if plan is None:
            return None
        known = self._remotes.get(plan)
        if known is not None:
            return known
        beside = Path(self._setting.around.directory, spec.directory)
        settings = plan.settings
        if settings.ssh_config:
            config = str(beside / settings.ssh_config)
            settings = msgspec.structs.replace(settings, ssh_config=config)
        private = Path(self._state, f"ssh-{len(self._remotes)}")
        private.mkdir(mode=0o700)
        # Logs of an earlier connection stay beside those of this one.
        names = (f"remote-{number}" for number in itertools.count(1))
        logs = next(path for name in names if not (path := self._setting.logs / name).exists())
        logs.mkdir()
        try:
            files = [(beside / name, name) for name in plan.copy]
            made = RemoteBench(settings, files, private, logs)
        except BenchError as error:
            where = spec.places.get("remote.host", Where(spec.file))
            message = f"no connection to {error.message}"
            raise InputError([diagnostic(where, error.code, message, error.hint)]) from None
        except OSError as error:
            where = spec.places.get("remote.copy", Where(spec.file))
            message = f"{error.filename} cannot be copied: {error.strerror}"
            raise InputError([diagnostic(where, "remote-copy", message)]) from None
        self._remotes[plan] = made
        return made

    def _hosts_of(self, spec: Spec) -> LoadHosts | None:
        """Return the hosts of the load of a spec; connect if needed. Raises InputError."""
        each: tuple[RemoteSettings, ...] = ()
        if self._setting.clients is not None:
            each = self._setting.clients.hosts
        elif (settings := spec.load.hosts) is not None:
            beside = Path(self._setting.around.directory, spec.directory)
            config = settings.ssh_config and str(beside / settings.ssh_config)
            each = msgspec.structs.replace(settings, ssh_config=config).each()
        if not each:
            return None
        if (known := self._load_hosts.get(each)) is not None:
            return known
        # Imported here: most searches need no connections.
        from benchwright.features.load.hosts import LoadHosts

        where = spec.places.get("load.hosts", Where(spec.file))
        self._load_hosts[each] = made = LoadHosts(each, where)
        return made

    def _values(self, here: str, host: RemoteBench | None) -> dict[str, str]:
        """Return what the names in braces stand for on the machine of the server; `here` is the
        directory of the spec on this one."""
        if host is None:
            return {
                "here": here,
                "state": self._state,
                "port": self._port,
                SERVER_ADDRESS: self._server_address,
            }
        taken = host.ports_in_use()
        port = int(self._port)
        ports = (one for one in (port, *PORTS) if one not in taken)
        return {
            "here": host.here,
            "state": host.state,
            "port": str(next(ports, port)),
            SERVER_ADDRESS: self._server_address,
        }

    def run(self, probe: Probe, sample: Pairs, leaves: LeaveEarly) -> LoadTrial:
        """Run one trial at a sample. See `Workbench.run`."""
        begun = self._clock.now()
        try:
            self._arrange(sample)
            values = {**dict(sample), **dict(self._now.spec.sample), **self._now.values}
            trial = self._trial(probe, values, leaves)
        except ServerFailure as failure:
            trial = failed_trial(probe, str(failure), failure.marks)
        except BaseException:
            self._stop_server()
            raise
        if self._interrupted:
            self._stop_server()
            raise Interrupted
        cost_s = max(self._clock.now() - begun, trial.lasted_s)
        marks = (SHARED,) if self.seats.shared else ()
        marks = tuple(dict.fromkeys((*trial.marks, *marks)))
        return msgspec.structs.replace(trial, cost_s=cost_s, marks=marks)

    def _arrange(self, sample: Pairs) -> None:
        """Change to another sample; its server starts with the trial. Raises ServerFailure,
        and InputError for levels that are wrong together."""
        spec = self._now.spec.at(sample)
        if spec is self._now.spec:
            return
        arranged, before = self._arranged(spec), self._now.server
        death = None if before is None else before.died()
        self._stop_server()
        self._held.take_back()
        self._now = arranged
        if death is not None:
            raise death.between_trials

    def _trial(self, probe: Probe, values: Mapping[str, str], leaves: LeaveEarly) -> LoadTrial:
        server = self._now.server
        if server is not None:
            plan = self._now.spec.server
            resources = None if plan is None else plan.resources
            self._held.give(resources)
            values = {**values, **self._held.names(resources)}
            server.ensure(values, self._held.groups)
        if self._interrupted:
            raise Interrupted
        pids = () if server is None else server.pids()
        around = self._around_load(pids, self._now.server_host)
        try:
            with around, _levels_named(self._now.spec):
                # It takes a while until observers watch.
                if self._interrupted:
                    raise Interrupted
                trial = self._now.driver.run(self._load_run(probe, values, leaves))
        except (BenchError, InputError):
            # What the generator refuses may be the end of its server, such as of one that
            # ends while a file set is made on it.
            death = None if server is None else server.died(END_PATIENCE_S)
            if death is None:
                raise
            return self._trial_of_dead_server(failed_trial(probe, ""), death)
        if server is None:
            return trial
        failed = trial.ending is LoadEnding.FAILED
        death = server.died(END_PATIENCE_S if failed else 0)
        if death is not None:
            return self._trial_of_dead_server(trial, death)
        if self._restarts_each_time:
            server.stop()
        elif not server.settle():
            marks = (*trial.marks, NOT_RECOVERED)
            return msgspec.structs.replace(trial, marks=marks)
        return trial

    def _trial_of_dead_server(self, trial: LoadTrial, death: ServerDeath) -> LoadTrial:
        """Return the trial of a server that ended during it; its figures are not valid."""
        killed = self._held.new_memory_kills()
        why = f"the kernel killed {plural(killed, 'process')} of the server at its memory limit; "
        return msgspec.structs.replace(
            trial,
            ending=LoadEnding.FAILED,
            failure=f"{why if killed else ''}{death.text}",
            values={},
            marks=(*trial.marks, *((death.mark,) if death.mark else ())),
        )

    def _load_run(self, probe: Probe, values: Mapping[str, str], leaves: LeaveEarly) -> LoadRun:
        """Return the next load, with its own directory."""
        self._number += 1
        # An interrupted trial leaves its files, so its repetition needs another directory.
        self._directories += 1
        directory = (self._setting.logs / f"trial-{self._directories}").absolute()
        directory.mkdir(parents=True, exist_ok=True)
        values = {**values, "here": self._now.here_of_load}
        free = self._held.io_unlimited if self._held.limits_io else None
        return LoadRun(probe, values, self._number, directory, leaves, free, self._making)

    @property
    def _restarts_each_time(self) -> bool:
        plan = self._now.spec.server
        return plan is not None and plan.restart == "trial"

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._interrupted = True
        if self._now.server is not None:
            self._now.server.interrupt()
        self._now.driver.interrupt()
        for launcher in (self._launcher, *self._remotes.values()):
            launcher.interrupt(cleanup=True)

    def close(self) -> None:
        """Stop the server and everything else that was started."""
        try:
            self._stop_server()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """End the connections, and give back what the machine lent."""
        try:
            for hosts in self._load_hosts.values():
                hosts.close()
            for remote in self._remotes.values():
                remote.close()
        finally:
            self._held.take_back()
            if self._network is not None:
                self._network.close()
            shutil.rmtree(self._state, ignore_errors=True)

    def _stop_server(self) -> None:
        if self._now.server is not None:
            self._now.server.stop()

    def _made_server(
        self, spec: Spec, seats: CpuAssignment, host: RemoteBench | None
    ) -> Server | None:
        plan: ServerPlan | None = spec.server
        if plan is None:
            return None
        directory = str(Path(self._setting.around.directory, spec.directory))
        logs = self._setting.logs
        if host is not None:
            directory, logs = host.here, host.logs
        around = ServerSurroundings(
            directory=directory,
            environment=self._setting.around.environment,
            logs=logs,
            cpus=seats.server,
            network=self._network if _is_private(spec) else None,
            is_here=host is None,
        )
        return Server(plan, host or self._launcher, around, self._clock, host)


@contextlib.contextmanager
def _levels_named(spec: Spec) -> Iterator[None]:
    """Add the levels of a sample to mistakes of values that are wrong at it."""
    try:
        yield
    except InputError as error:
        named = [at_levels(d, spec.sample, spec.uses) for d in error.diagnostics]
        raise InputError(named) from None


def _is_private(spec: Spec) -> bool:
    """Return whether server and generator run in a network of their own."""
    return spec.server is not None and spec.server.network == "private"


# -- generators ------------------------------------------------------------------------


def _driver(
    setting: WorkbenchConfig,
    launcher: Launcher,
    assignment: CpuAssignment,
    network: PrivateNetwork | None,
    host: RemoteBench | None,
    hosts: LoadHosts | None,
) -> EngineGenerator | _ProgramDriver:
    load = setting.spec.load
    if load.generator == ENGINE:
        return EngineGenerator(
            load.settings,
            setting.criteria,
            assignment.load,
            setting.seed,
            places=engine_positions(setting.spec),
            network=network,
            hosts=hosts,
        )
    return _ProgramDriver(setting, launcher, assignment, network, host)


class _ProgramDriver:
    """A generator that is a separate program, run by the launcher."""

    def __init__(
        self,
        setting: WorkbenchConfig,
        launcher: Launcher,
        assignment: CpuAssignment,
        network: PrivateNetwork | None,
        host: RemoteBench | None,
    ) -> None:
        """`host`: the other host on which it runs; None: this machine."""
        self._setting = setting
        self._launcher: Launcher = launcher if host is None else host
        self._host = host
        self._assignment = assignment
        self._prefix = () if network is None else network.prefix
        self._generator: Generator = setting.spec.load.settings
        self._check()

    @property
    def watched(self) -> bool:
        """Whether its output has results before it ends; that of another host is here only then."""
        return self._generator.traits.watched and self._host is None

    def interrupt(self) -> None:
        """Do nothing: the launcher is interrupted instead."""

    def run(self, load: LoadRun) -> LoadTrial:
        """Run one load with the program. Raises Interrupted, BenchError."""
        host, cpus = self._host, self._assignment.load
        directory = str(Path(self._setting.around.directory, self._setting.spec.directory))
        pinned = on_cpus(cpus) if host is None else host.on_cpus(cpus)
        cores = len(available_cpus()) if host is None else host.connection.cores
        place = GeneratorPlace(
            directory=directory if host is None else host.here,
            scratch=str(load.directory),
            environment=merge_pairs(self._setting.around.environment, _levels(load.values)),
            prefix=(*self._prefix, *pinned),
            cores=len(cpus) or cores,
        )
        seed = (self._setting.seed + load.number) % 2**31
        asked = generator_request(
            load.probe, place, self._setting.criteria, tuple(load.values.items()), seed
        )
        if host is not None:
            asked = msgspec.structs.replace(asked, directory=host.there(load.directory))
        leaves = load.leaves if self.watched else None
        return run_generator(self._launcher, self._generator, asked, place, leaves)

    def _check(self) -> None:
        """Report faults that prevent every trial. Raises InputError."""
        spec, generator = self._setting.spec, self._generator
        missing = self._missing()
        for criterion in self._setting.criteria:
            refusal = generator.traits.refusal(criterion)
            if refusal:
                where = spec.places.get("peak.criteria", Where(spec.file))
                message = f"{generator.name} has no value for {criterion.key}: {refusal}"
                missing.append(diagnostic(where, "spec-value", message))
        if missing:
            raise InputError(missing)

    def _missing(self) -> list[Diagnostic]:
        """Return a Diagnostic for each program of the generator that cannot be started.

        A file that the server's own commands may create is not required.
        """
        spec, around = self._setting.spec, self._setting.around
        path = dict(around.environment).get("PATH") or os.environ.get("PATH")
        directory = str(Path(around.directory, spec.directory))
        where = spec.places.get("load.generator", Where(spec.file))
        return [
            diagnostic(where, "generator-missing", f"{why}: the generator cannot run")
            for name in self._generator.programs
            if self._host is None and ("/" not in name or spec.server is None)
            if (why := program_problem(name, path, directory))
        ]


def _levels(values: Mapping[str, str]) -> Pairs:
    return tuple((f"BW_FACTOR_{name}", value) for name, value in values.items())


# -- directories and ports -------------------------------------------------------------


def _fresh_state(logs: Path) -> str:
    """Return a new private directory; remove the directories of killed sessions.

    Others may enter it, because a server often runs as its own user. This session has locked
    the study, so no other session of the study is running.
    """
    note = logs / "state-directory"
    for earlier in logs.parent.glob(f"*/{note.name}"):
        with contextlib.suppress(OSError):
            left = earlier.read_text().strip()
            if Path(left).name.startswith(STATE):
                shutil.rmtree(left, ignore_errors=True)
    state = tempfile.mkdtemp(prefix=STATE)
    os.chmod(state, 0o755)
    note.write_text(f"{state}\n")
    return state


def _free_port() -> int:
    """Return an unused port of the loopback interface. Raises BenchError."""
    # Concurrent searches start at different ports.
    begin = os.getpid() * 7 % len(PORTS)
    ports: list[int] = [*PORTS[begin:], *PORTS[:begin]]
    for port in ports:
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise BenchError("no-port", f"no port from {PORTS.start} to {PORTS.stop} is free")


def _last_number(logs: Path) -> int:
    """Return the number of the last trial that left files; 0 if there is none."""
    numbers = (entry.name.removeprefix("trial-") for entry in logs.glob("trial-*"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
