"""How other hosts are reached: [remote] of a spec, and the hosts of a load."""

from __future__ import annotations

import re

import msgspec

HOST = re.compile(r"(?!-)[A-Za-z0-9@._:/%+\[\]-]+", re.ASCII)
"""What the hook `remote` accepts too, and IPv6 addresses."""
PATH = re.compile(r"/[A-Za-z0-9_./-]*", re.ASCII)
"""A path that needs no quoting in any login shell."""


class HostsSettings(msgspec.Struct, frozen=True):
    """The hosts that issue one load together."""

    names: tuple[str, ...]
    """Each as the host of `RemoteSettings`."""
    ssh_config: str = ""
    """A file for `ssh -F`; empty: the user's."""

    def each(self) -> tuple[RemoteSettings, ...]:
        """Return how each host is reached."""
        return tuple(
            RemoteSettings(host=name, ssh_config=self.ssh_config) for name in self.names
        )


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How another host is reached."""

    host: str
    """[user@]host of ssh, or ssh://[user@]host[:port]."""
    ssh_config: str = ""
    """A file for `ssh -F`, relative to the session's initial directory; empty: the user's."""
    timeout_s: int = 20
    """Time limit of the connection, and of each question."""
    directory: str = ""
    """Where the private directory is made there; empty: its TMPDIR, or /tmp."""
    programs: str = ""
    """Directory of bw-launcher and bw-sampler there; empty: they are copied."""
