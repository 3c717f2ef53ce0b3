"""Finds the processes of the servers that the user named.

Decision: read only /proc, without systemd or ss, so that it works in containers too.
A program is found by the name of the process or of its executable, a unit by the cgroups
of its processes, a port by its listening sockets, a process also by a file with its id, which
servers write where they start. Sources: proc_pid_stat(5),
proc_net_tcp(5), cgroups(7).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.hosts import NamedServer
from benchwright.core.processes import PROC, Process, all_processes, ancestors_of, read_process

_LISTENS = "0A"
"""State of a listening TCP socket."""
_UNCONNECTED = "07"
"""State of a UDP socket that accepts datagrams from any sender."""
_COMM = 15
"""Length to which the kernel cuts a process's name [characters]."""
_REMEDY = "start the server first, or name it differently"


class ServerProcesses(msgspec.Struct, frozen=True):
    """The processes of a named server, or the reason why there are none."""

    pids: tuple[int, ...]
    why: str = ""
    """Why there are none."""
    remedy: str = ""


def find_server(one: NamedServer, ours: Collection[int] = (), proc: Path = PROC) -> ServerProcesses:
    """Return the processes of a named server.

    `ours` are bw's own processes: they and their ancestors are never a server.
    """
    if one.by == "port":
        return _of_port(int(one.value), proc)
    if one.by == "pid":
        try:
            number = pid_of(one.value)
        except ValueError as error:
            return ServerProcesses((), str(error), _REMEDY)
        process = read_process(number, proc)
        pids = [process.pid] if process is not None and process.is_alive else []
    elif one.by == "unit":
        pids = [pid for pid in _pids(proc) if _is_of_unit(proc / str(pid), one.value)]
    else:
        ancestors = {pid for each in ours for pid in ancestors_of(each, proc)}
        pids = [
            process.pid
            for process in all_processes(proc)
            if process.is_alive
            and process.pid not in ancestors
            and _is_program(process, one.value, proc)
        ]
    if pids:
        return ServerProcesses(tuple(pids))
    of_file = f" ({one.value})" if one.value.startswith("/") else ""
    missing = {
        "pid": f"there is no process {number}{of_file}" if one.by == "pid" else "",
        "unit": f"no process runs in a cgroup of the unit {one.value}",
    }
    why = missing.get(one.by, f"no process named {one.value} runs")
    return ServerProcesses((), why, _REMEDY)


def pid_of(text: str) -> int:
    """Return the process id that a text is, or that the file with this path contains.

    Raises ValueError with the reason why there is none.
    """
    if not text.startswith("/"):
        return int(text)
    try:
        words = Path(text).read_text(errors="replace").split()
    except OSError as error:
        raise ValueError(f"{text}: {error.strerror}") from None
    # A server may write more than its id: PostgreSQL's file has its directory and port too.
    if not words or not words[0].isascii() or not words[0].isdecimal():
        raise ValueError(f"{text} contains no process id")
    return int(words[0])


def server_pids(
    named: Sequence[NamedServer], ours: Collection[int] = (), proc: Path = PROC
) -> tuple[tuple[int, ...], tuple[tuple[NamedServer, ServerProcesses], ...]]:
    """Return the processes of all named servers, and the servers without processes."""
    found = [(server, find_server(server, ours, proc)) for server in named]
    pids = dict.fromkeys(pid for _, each in found for pid in each.pids)
    missing = [(server, each) for server, each in found if not each.pids and not server.implied]
    return tuple(pids), tuple(missing)


# -- processes -------------------------------------------------------------------------


def _pids(proc: Path) -> list[int]:
    """Return the ids of live processes, in order."""
    return [process.pid for process in all_processes(proc) if process.is_alive]


def _is_program(process: Process, name: str, proc: Path) -> bool:
    if process.name == name[:_COMM]:
        return True
    try:
        executable = os.readlink(proc / str(process.pid) / "exe")
    except OSError:
        return False
    # The kernel appends " (deleted)" if the file was replaced while the program runs.
    return Path(executable.removesuffix(" (deleted)")).name == name


def _is_of_unit(process: Path, unit: str) -> bool:
    names = (unit, f"{unit}.service")
    try:
        text = (process / "cgroup").read_text(errors="replace")
    except OSError:
        return False
    paths = (line.split(":", 2)[-1] for line in text.splitlines())
    return any(part in names for path in paths for part in path.split("/"))


# -- ports -----------------------------------------------------------------------------


def _of_port(port: int, proc: Path) -> ServerProcesses:
    sockets = dict(_listening(port, proc))
    if not sockets:
        return ServerProcesses((), f"no process listens on port {port}", _REMEDY)
    wanted = {f"socket:[{inode}]" for inode in sockets}
    holders = [pid for pid in _pids(proc) if _holds(proc / str(pid), wanted)]
    if holders:
        return ServerProcesses(tuple(holders))
    users = ", ".join(sorted({str(user) for user in sockets.values()}))
    return ServerProcesses(
        (),
        f"user {users} listens on port {port}; only root and that user may see which processes "
        "hold the socket",
        "run bw as root, or name it by --target-unit, --target-name or --target-pid",
    )


def _listening(port: int, proc: Path) -> Iterator[tuple[str, int]]:
    """Yield the sockets that accept connections or datagrams at a port: (inode, user)."""
    for name, state in (
        *(("tcp", _LISTENS), ("tcp6", _LISTENS)),
        *(("udp", _UNCONNECTED), ("udp6", _UNCONNECTED)),
    ):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == state and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9], int(fields[7])


def _holds(process: Path, sockets: Collection[str]) -> bool:
    try:
        files = list((process / "fd").iterdir())
    except OSError:
        return False
    return any(_link(file) in sockets for file in files)


def _link(file: Path) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
