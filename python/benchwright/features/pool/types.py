"""The types of a pool: gangs of hosts that run parts of one session side by side.

A session's journal is filled by key. A gang runs a task, which is a part of the session (a test, a
comparison, one sample of a surface), as a session of its own under the same keys; the controller
copies its entries into the study. Then the ordinary session finds these outcomes recorded and does
not run them. So resuming, reports, findings and exports need nothing that is specific to pools.
Decision: an attempt is recorded as two outcomes, when it begins and when it ends, so that a
controller that comes back can continue with an attempt that still runs. Rejected: a `begin` entry,
which a resume would close as void.

`PoolEngine` is what a controller needs from an engine of pools, `Channel` from the way to an agent.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from benchwright.core.hosts import GangClients, LocalProcesses, RemoteSettings, SlurmSteps
from benchwright.trial.programs import common_directory


class PoolKind(enum.StrEnum):
    """Where the hosts of a pool are from."""

    LOCAL = "local"
    """Processes on this machine, each gang in a directory of its own."""
    SLURM = "slurm"
    """Nodes of a Slurm cluster, one job for each lease of a gang."""


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--pool` and `[pool]` set."""

    engine: PoolKind
    gangs: int
    clients: int = 0
    """Number of client hosts of each gang, which issue the load on its server host."""
    retries: int = 2
    """How often a task is tried again after a void attempt."""
    lease_s: float | None = None
    """Length of a lease [s]; None: until the session ends, or the limit of the partition."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    """Features that Slurm's nodes must have."""

    def __post_init__(self) -> None:
        assert self.gangs >= 1
        assert self.clients >= 0
        assert self.retries >= 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the gangs."""
        return tuple(f"g{number}" for number in range(1, self.gangs + 1))


class VoidReason(enum.StrEnum):
    """Why an attempt does not count."""

    HOST_LOST = "host-lost"
    PREEMPTED = "preempted"
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"
    LEASE_ENDED = "lease-ended"
    DEADLINE = "deadline"
    SERVER_FAILED = "server-failed"
    DISK_FULL = "disk-full"
    AGENT_LOST = "agent-lost"
    NOT_ARMED = "not-armed"
    """A client was not ready to issue its part of a load in time."""
    CLOCK_UNCERTAIN = "clock-uncertain"
    """The offset of a client's clock could not be measured, so there was no common start."""
    DAMAGED = "damaged"
    """The collected result differs from the one that the host wrote."""

    @property
    def blames_host(self) -> bool:
        """Whether it counts against the hosts; two such attempts exclude a host."""
        return self not in _NOT_THE_HOST


_NOT_THE_HOST = (
    VoidReason.PREEMPTED,
    VoidReason.SUSPENDED,
    VoidReason.CANCELLED,
    VoidReason.LEASE_ENDED,
    VoidReason.DEADLINE,
)


class LeaseState(enum.StrEnum):
    """State of a lease."""

    WAITING = "waiting"
    """The engine has not provided the hosts yet."""
    RUNNING = "running"
    ENDED = "ended"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that is held for a time."""

    gang: str
    """`g1`, `g2`, ..."""
    number: int
    """Of the gang's leases, from 1."""
    job: str = ""
    """Name at the engine: the number of a Slurm job, the process id of a local agent."""
    hosts: tuple[str, ...] = ()
    """The server's host first; empty while it waits."""
    state: LeaseState = LeaseState.WAITING
    ends_ns: int = 0
    """CLOCK_REALTIME at which it ends at the latest [ns]; 0: unknown or unlimited."""
    failed_host: str = ""
    """The host whose failure ended it, if that is known."""
    ended: VoidReason | None = None
    """Why it ended, if that was not the controller's decision; a task that ran is void for this
    reason."""
    detail: str = ""

    @property
    def name(self) -> str:
        """Its name within the session: `g1.2`."""
        return f"{self.gang}.{self.number}"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a task by a gang."""

    place: str
    """Of the task."""
    name: str
    """Of the task."""
    number: int
    """From 1, of this task, over all resumes of the session."""
    gang: str
    lease: str
    hosts: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    """Of the task; empty in studies of earlier versions."""
    replicate: int | None = None
    """Of the task: the number of its host among replicates."""
    began_ns: int
    """CLOCK_REALTIME [ns], of the controller, as `ended_ns`."""
    ended_ns: int = 0
    """0: it runs."""
    void: VoidReason | None = None
    """None in an attempt that ended: its entries are in the journal."""
    detail: str = ""
    """What happened, for a void attempt."""
    failed_host: str = ""
    """The host that made it void, if that is known not to be the server's."""

    @property
    def counts_against(self) -> str:
        """The host that a void attempt counts against; empty: none."""
        if self.void is None or not self.void.blames_host:
            return ""
        return self.failed_host or "".join(self.hosts[:1])

    @property
    def is_recorded(self) -> bool:
        """Whether it ended and its entries are in the journal."""
        return self.ended_ns > 0 and self.void is None

    @property
    def id(self) -> str:
        """Its identifier within the session: `7.1`."""
        return f"{self.place}.{self.number}"


class PlannedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """What a session intends to run on its pool."""

    tasks: int
    """Number of tasks of the whole session; fewer where a deadline ends it."""
    until_ns: int = 0
    """CLOCK_REALTIME of its deadline [ns]; 0: none."""


class PoolProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the tasks of a session are."""

    planned: int | None
    """Number of tasks of the whole session; None: unknown."""
    recorded: int
    running: int
    void: int
    """Number of void attempts."""
    left_s: float | None = None
    """Expected time until all tasks are recorded [s]; None: unknown."""
    at_most: bool = False
    """Whether that is the time until the deadline."""

    @property
    def fraction(self) -> float | None:
        """The share of the tasks that are recorded; None: unknown."""
        return min(1.0, self.recorded / self.planned) if self.planned else None


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
