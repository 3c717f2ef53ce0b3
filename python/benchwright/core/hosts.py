"""Hosts and servers, as a user names them.

A host: how it is reached, by [remote] of a spec, the hosts of a load, and the clients of a gang.
A running server: by process, port, unit or program, with one declaration for the options --target-pid, --target-port, --target-unit and
--target-name, for `target = {...}` of suites and specs, and for what a session stores.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

ServerKey = Literal["pid", "port", "unit", "name"]
SERVER_KEYS: tuple[ServerKey, ...] = get_args(ServerKey)
_MAX_PORT = 65535
_MAX_PID = 1 << 22
"""The largest that the kernel accepts (PID_MAX_LIMIT)."""


class NamedServer(msgspec.Struct, frozen=True):
    """The processes of a benchmark's server, with all their descendants."""

    by: ServerKey
    value: str
    """A number; a name; of `pid` also the absolute path of a file with the number."""
    implied: bool = False
    """Taken from the load's address: if no process is found there, nothing is reported."""

    @property
    def text(self) -> str:
        """The name as text: `port 5432`."""
        return f"{'program' if self.by == 'name' else self.by} {self.value}"

    @property
    def option(self) -> str:
        """The option that names it."""
        return f"--target-{self.by}"


def parse_named_server(by: ServerKey, text: str) -> NamedServer:
    """Return the server that `text` names by the key `by`. Raises ValueError."""
    value = text.strip()
    if by == "pid" and value.startswith("/"):
        if not value.isprintable():
            raise ValueError(f"{text!r} is not the path of a file with a process id")
        return NamedServer(by, value)
    if by in ("pid", "port"):
        most = _MAX_PID if by == "pid" else _MAX_PORT
        if not value.isascii() or not value.isdecimal() or not 0 < int(value) <= most:
            what = "a process id" if by == "pid" else "a port"
            like = ", or the absolute path of a file with one" if by == "pid" else ""
            raise ValueError(f"{text!r} is not {what}: a number from 1 to {most}{like}")
        return NamedServer(by, str(int(value)))
    what = "a systemd unit" if by == "unit" else "a program"
    if not value or "/" in value or "\0" in value:
        like = "postgresql.service" if by == "unit" else "postgres"
        raise ValueError(f"{text!r} is not the name of {what}, such as {like}")
    return NamedServer(by, value)


HOST = re.compile(r"(?!-)[A-Za-z0-9@._:/%+\[\]-]+", re.ASCII)
"""What the hook `remote` accepts too, and IPv6 addresses."""
PATH = re.compile(r"/[A-Za-z0-9_./-]*", re.ASCII)
"""A path that needs no quoting in any login shell."""


class SlurmSteps(msgspec.Struct, frozen=True, tag="slurm"):
    """The host is a node of a job of Slurm, in which commands run as steps."""

    job: str


class LocalProcesses(msgspec.Struct, frozen=True, tag="local"):
    """The host is this machine: commands are processes of it."""


class HostsSettings(msgspec.Struct, frozen=True):
    """The hosts that issue one load together."""

    names: tuple[str, ...]
    """Each as the host of `RemoteSettings`."""
    ssh_config: str = ""
    """A file for `ssh -F`; empty: the user's."""

    def each(self) -> tuple[RemoteSettings, ...]:
        """Return how each host is reached."""
        return tuple(RemoteSettings(host=name, ssh_config=self.ssh_config) for name in self.names)


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How another host is reached."""

    host: str
    """[user@]host of ssh, or ssh://[user@]host[:port]; the name of a gang's host."""
    ssh_config: str = ""
    """A file for `ssh -F`, relative to the session's initial directory; empty: the user's."""
    timeout_s: int = 20
    """Time limit of the connection, and of each question."""
    directory: str = ""
    """Where the private directory is made there; empty: its TMPDIR, or /tmp."""
    programs: str = ""
    """Directory of bw-launcher and bw-sampler there; empty: they are copied."""
    through: SlurmSteps | LocalProcesses | None = None
    """How commands are started there, on a host of a gang; None: by ssh."""
    address: str = ""
    """The host's address, as this machine reaches it; empty: that of the connection of ssh."""


class GangClients(msgspec.Struct, frozen=True, kw_only=True):
    """The client hosts of a gang, which issue the load on its server host together."""

    server_address: str
    """The address of the server host, as the clients reach it."""
    hosts: tuple[RemoteSettings, ...]
