"""What a controller needs from an engine of pools, and from the way to an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from benchwright.core.remote import GangClients, LocalProcesses, RemoteSettings, SlurmSteps
from benchwright.features.pool.types import Lease
from benchwright.trial.programs import common_directory


class Channel(Protocol):
    """A way to the agent of a lease: bytes in both directions, which a selector can wait for."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when the agent has sent something."""

    def send(self, data: bytes) -> None:
        """Send all of the data. Raises OSError if the agent is gone."""

    def receive(self) -> bytes:
        """Return what the agent has sent; wait if there is nothing; empty at the end of the
        channel.

        Raises OSError.
        """

    def close(self) -> None:
        """Close the channel; the agent and its task continue."""


class PoolEngine(Protocol):
    """Provides gangs: processes on this machine, jobs of Slurm."""

    def existing(self) -> Sequence[Lease]:
        """Return the leases of this session that still wait or run, opened by this controller or an
        earlier one.

        Raises BenchError if the engine does not answer.
        """

    def open(self, gang: str, number: int, excluded: Sequence[str]) -> Lease:
        """Ask for the gang's n-th lease, on other hosts than the excluded ones; do not wait for it.

        Raises BenchError if the engine refuses it.
        """

    def state(self, lease: Lease) -> Lease:
        """Return the lease as the engine knows it now: with its hosts once it runs, with the reason
        once it has ended.

        Raises BenchError if the engine does not answer.
        """

    def channel(self, lease: Lease) -> Channel:
        """Return a new channel to the agent of a running lease.

        Raises OSError while the agent does not listen, or if it is gone.
        """

    def clients(self, lease: Lease) -> GangClients | None:
        """Return how the first host of a running lease reaches the others; None if there are none."""

    def close(self, lease: Lease) -> None:
        """End a lease and everything that runs in it; one that has ended is no error."""


def clients_among(
    hosts: Sequence[str], through: SlurmSteps | LocalProcesses, address_of: Callable[[str], str]
) -> GangClients | None:
    """Return the clients of a gang, which are its hosts besides the first one; None if there are
    none."""
    server, *others = hosts
    if not others:
        return None
    programs = common_directory()
    clients = tuple(
        RemoteSettings(host=other, programs=programs, through=through, address=address_of(other))
        for other in others
    )
    return GangClients(server_address=address_of(server), hosts=clients)
