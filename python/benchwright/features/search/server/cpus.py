"""Selects the CPUs of the server and of its load generator.

Decision: a server and a generator on the same CPU disturb each other's measurement, so they
get separate CPUs if there are at least two. The generator gets a quarter; our engine needs
one CPU for each worker, whatever remains for the server. The user's choice has priority.

The machine on which a server runs, as the life of a server needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.hosts import NamedServer
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
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import EngineSettings
from benchwright.findings.codes import make_finding
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.watch.named_servers import ServerProcesses, find_server

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
    found = _too_few_cpus(spec)
    for place, cpus in chosen.items():
        absent = [cpu for cpu in cpus or () if cpu not in available]
        if absent:
            message = f"{_cpu_list_text(tuple(absent))} not available"
            hint = f"available: {', '.join(map(str, available))}"
            where = spec.places.get(place, Where(spec.file))
            found.append(diagnostic(where, "spec-value", message, hint))
    if found:
        raise InputError(found)


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
