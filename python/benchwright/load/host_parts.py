"""What several hosts can issue together, and the part of each of them. Pure.

Decision: apart from the connections (hosts.py), because every spec and command line is checked.
"""

from __future__ import annotations

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.load.parse import implied_server, kind_of, tls_of
from benchwright.load.request import (
    InputPositions,
    LoadRequest,
    LoadTarget,
    NullTarget,
    PostgresTarget,
    SchedulePart,
    ServerTarget,
    SeveralTarget,
    StreamTarget,
    filament_field,
)
from benchwright.load.workload import Files, Follow, Process, Trace
from benchwright.suite.mistakes import diagnostic
from benchwright.suite.program import Where

_WHY_NOT: dict[type, str] = {
    Follow: "a filament that follows another one waits for operations of other hosts",
    Files: "several hosts cannot share the state of a file set",
    Trace: "the trace, or the Python class, is on this machine only",
    Process: "its process is on this machine only",
}
"""Filaments that several hosts cannot issue together, with the reason."""


def why_not_hosts(filament: object) -> str | None:
    """Return why several hosts cannot issue a filament together; None if they can."""
    return _WHY_NOT.get(type(filament))


def hosts_mistakes(request: LoadRequest, places: InputPositions) -> list[Diagnostic]:
    """Return why several hosts cannot issue a load, each reason at its place."""
    target = places.get("target", Where("--target"))
    found = [
        diagnostic(target, "bad-argument", message, hint)
        for message, hint in target_mistakes(request.target)
    ]
    for place, filament in enumerate(request.workload.filaments):
        if (why := why_not_hosts(filament)) is not None:
            where = places.get(filament_field(place), Where("--hosts"))
            found.append(
                diagnostic(
                    where,
                    "bad-argument",
                    why,
                    "leave out hosts: one machine can issue it",
                )
            )
    return found


def target_mistakes(target: LoadTarget) -> list[tuple[str, str]]:
    """Return why hosts cannot load a target together, and what to do."""
    if not isinstance(target, ServerTarget | NullTarget):
        kind = (
            "several targets are"
            if isinstance(target, SeveralTarget)
            else f"a {kind_of(target)} target is"
        )
        message = f"{kind} not one server that all hosts reach"
        hint = (
            "name http://HOST/PATH, redis://HOST, postgres://USER@HOST/DB, tcp://HOST:PORT or "
            "udp://HOST:PORT"
        )
        return [(message, hint)]
    if isinstance(target, StreamTarget) and target.unix_socket is not None:
        message = "a Unix socket is another server on each host"
        return [(message, "name the server by its host and port")]
    tls = tls_of(target)
    if tls is not None and tls.ca is not None:
        message = (
            "the file of --ca is on this machine, and each host verifies the server"
        )
        return [(message, "install the authority on each host, or use --insecure")]
    if isinstance(target, PostgresTarget) and target.password_file is not None:
        message = "the file of password_file is on this machine, and each host connects"
        return [(message, "write the password into ~/.pgpass of each host")]
    if implied_server(target) is not None:
        message = "a loopback address is another machine on each host"
        return [(message, "name the server by an address that all hosts reach")]
    return []


SHORT_INTERVALS = 20
"""Minimum number of intervals of the measured part, of which the hosts are compared."""
_SHORTEST_NS = 10_000_000


def part_of(request: LoadRequest, index: int, of: int) -> LoadRequest:
    """Return the request of one host: its part of the schedule, and of the connections."""
    target = request.target
    if isinstance(target, ServerTarget):
        # As many as it has users of a closed loop with as many users as connections.
        own = len(range(index, target.connections, of))
        target = msgspec.structs.replace(target, connections=max(own, request.workers))
    return msgspec.structs.replace(
        request,
        target=target,
        part=SchedulePart(index, of),
        controlled=True,
        interval_ns=_interval_ns(request),
        interval_histograms=True,
    )


def _interval_ns(request: LoadRequest) -> int:
    """Return the length of the hosts' intervals: short enough to compare hosts, and a divisor of
    that of the result."""
    most_ns = (request.duration_ns or request.interval_ns) // SHORT_INTERVALS
    lengths = (
        request.interval_ns // n for n in range(1, 101) if not request.interval_ns % n
    )
    fine = [one for one in lengths if one >= _SHORTEST_NS]
    return next(
        (one for one in fine if one <= most_ns), min(fine, default=request.interval_ns)
    )
