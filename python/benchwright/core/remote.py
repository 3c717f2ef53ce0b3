"""How other hosts are reached: [remote] of a spec, the hosts of a load, and the clients of a gang."""

from __future__ import annotations

import re

import msgspec

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
