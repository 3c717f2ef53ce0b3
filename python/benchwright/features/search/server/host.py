"""The machine on which a server runs, as the life of a server needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from benchwright.core.named_server import NamedServer
from benchwright.core.processes import (
    Process,
    ProcessIdentity,
    children_of,
    descendants_of,
    is_alive,
    read_process,
    signal_all,
)
from benchwright.features.search.server.cpus import in_background, on_cpus
from benchwright.watch.named_servers import ServerProcesses, find_server


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
