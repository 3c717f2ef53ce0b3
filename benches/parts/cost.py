"""What one run of a client cost: its rate, and the CPU time of client and server for each
operation."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What one run did."""

    rate_per_s: float
    client_us: float
    """CPU time of the client for an operation, with its start."""
    server_us: float
    """CPU time of the server for an operation."""

    @classmethod
    def of(cls, rate_per_s: Callable[[], float], servers: Sequence[int], seconds: float) -> Cost:
        """Run a client for so many seconds on the server with these process ids."""
        server_s, client_s = sum(map(cpu_s, servers)), children_cpu_s()
        rate = rate_per_s()
        operations = rate * seconds
        return cls(
            rate,
            (children_cpu_s() - client_s) / operations * 1e6,
            (sum(map(cpu_s, servers)) - server_s) / operations * 1e6,
        )


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    """Return the CPU time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
