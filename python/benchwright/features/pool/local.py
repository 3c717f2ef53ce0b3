"""The local engine: gangs as processes on this machine, each with an agent in a directory of its
own; the clients of a gang are processes too.

The agents are sessions of their own, so they survive a killed controller; the next one finds them
by their sockets. An agent that died is started again in the same directory, where the results of
its finished tasks are.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.hosts import GangClients, LocalProcesses
from benchwright.features.pool.agent import AGENT_COMMAND, GRACE_S, SOCKET
from benchwright.features.pool.protocol import EndLease, line_of
from benchwright.features.pool.types import (
    Lease,
    LeaseState,
    PoolSettings,
    VoidReason,
    clients_among,
)
from benchwright.run.viewer import short_path

_LEASE = "lease.json"
_STARTS_S = 30.0
"""An agent listens after this time, or has failed."""


class SocketChannel:
    """A channel to an agent on this machine."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._connection.fileno()

    def send(self, data: bytes) -> None:
        """Send all of the data. Raises OSError."""
        self._connection.sendall(data)

    def receive(self) -> bytes:
        """Return what has come; empty at the end. Raises OSError."""
        return self._connection.recv(1 << 16)

    def settimeout(self, seconds: float) -> None:
        """Limit the time of each later call."""
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class LocalEngine:
    """Gangs on this machine."""

    def __init__(self, place: Path, settings: PoolSettings) -> None:
        """`place`: the directory of the agents' directories."""
        self._place = place
        self._lease_s = settings.lease_s or 0.0
        self._clients = settings.clients
        self._started: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        """The agents of this controller, by gang, and when they were started."""

    def existing(self) -> Sequence[Lease]:
        """Return the leases whose agents answer."""
        leases = []
        for file in sorted(self._place.glob(f"*/{_LEASE}")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                lease = msgspec.json.decode(file.read_bytes(), type=Lease)
                self.channel(lease).close()
                leases.append(lease)
        return leases

    def open(self, gang: str, number: int, excluded: Sequence[str]) -> Lease:
        """Start the agent of a gang. Raises BenchError if the gang is excluded, or if it cannot be
        started."""
        hosts = (gang, *(f"{gang}-c{n}" for n in range(1, self._clients + 1)))
        if wrong := [host for host in hosts if host in excluded]:
            message = f"{wrong[0]} of gang {gang} is excluded after void attempts"
            raise BenchError("pool-no-host", message)
        directory = self._place / gang
        ends_ns = time.time_ns() + int(self._lease_s * 1e9) if self._lease_s else 0
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (directory / "agent.log").open("ab") as log:
                process = subprocess.Popen(
                    [*(*AGENT_COMMAND, str(directory)), *(",".join(hosts), str(self._lease_s))],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._started[gang] = (process, time.monotonic())
            lease = Lease(
                gang=gang, number=number, job=str(process.pid), hosts=hosts, ends_ns=ends_ns
            )
            running = msgspec.structs.replace(lease, state=LeaseState.RUNNING)
            (directory / _LEASE).write_bytes(msgspec.json.encode(running))
        except OSError as error:
            message = f"cannot start the agent of gang {gang}: {error}"
            raise BenchError("pool-agent", message) from None
        return lease

    def state(self, lease: Lease) -> Lease:
        """Return whether the agent listens, and whether it still runs."""
        started = self._started.get(lease.gang)
        if started is not None and started[0].poll() is not None:
            return self._ended(lease)
        try:
            self.channel(lease).close()
        except OSError:
            begun_s = -math.inf if started is None else started[1]
            waits = lease.state is LeaseState.WAITING
            if waits and time.monotonic() - begun_s < _STARTS_S:
                return lease
            return self._ended(lease)
        return msgspec.structs.replace(lease, state=LeaseState.RUNNING)

    def _ended(self, lease: Lease) -> Lease:
        at_end = lease.ends_ns and time.time_ns() >= lease.ends_ns
        why = VoidReason.LEASE_ENDED if at_end else VoidReason.AGENT_LOST
        detail = "the lease ended" if at_end else "the agent of the gang ended"
        return msgspec.structs.replace(lease, state=LeaseState.ENDED, ended=why, detail=detail)

    def channel(self, lease: Lease) -> SocketChannel:
        """Return a connection to the agent's socket. Raises OSError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_path(self._place / lease.gang) as place:
                connection.connect(f"{place}/{SOCKET}")
        except OSError:
            connection.close()
            raise
        return SocketChannel(connection)

    def clients(self, lease: Lease) -> GangClients | None:
        """Return the clients as processes of this machine; None if the gang has none."""
        return clients_among(lease.hosts, LocalProcesses(), lambda _: "127.0.0.1")

    def close(self, lease: Lease) -> None:
        """End the agent and its task, and remove its directory."""
        with contextlib.suppress(OSError):
            channel = self.channel(lease)
            channel.settimeout(2 * GRACE_S)
            channel.send(line_of(EndLease()))
            while channel.receive():
                pass
        started = self._started.pop(lease.gang, None)
        if started is not None:
            started[0].kill()
            started[0].wait()
        shutil.rmtree(self._place / lease.gang, ignore_errors=True)
