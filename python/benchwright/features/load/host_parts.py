"""What several hosts can issue together, and the part of each of them. Pure.

Decision: apart from the connections (hosts.py), because every spec and command line is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.features.load.file_set import multiplied
from benchwright.features.load.parse import each_of, implied_server, is_loopback, kind_of, tls_of
from benchwright.features.load.request import (
    InputPositions,
    LoadRequest,
    LoadTarget,
    NfsTarget,
    NullTarget,
    OneTarget,
    PostgresTarget,
    RedisTarget,
    SchedulePart,
    ServerTarget,
    SeveralTarget,
    StreamTarget,
    filament_field,
)
from benchwright.features.load.workload import Files, FileSet, Follow, Process, Trace
from benchwright.inputs.mistakes import Where, diagnostic

_WHY_NOT: dict[type, str] = {
    Follow: "a filament that follows another one waits for operations of other hosts",
    Process: "its process is on this machine only",
}
"""Filaments that several hosts cannot issue together, with the reason."""
_NO_FILE = ("-", "/dev/stdin")


def why_not_hosts(filament: object, target: LoadTarget | None) -> str | None:
    """Return why several hosts cannot issue a filament on a target together; None if they can.
    `target` is None if nobody knows it."""
    if isinstance(filament, Files) and not isinstance(target, NfsTarget | None):
        return "several hosts have a file set each on an NFS server only"
    if isinstance(filament, Trace):
        paths = _paths_of(filament)
        if "" in paths:
            return "the Python class is on this machine only"
        if any(path in _NO_FILE for path in paths):
            return "each host reads the trace, and standard input is read only once"
    return _WHY_NOT.get(type(filament))


def hosts_mistakes(request: LoadRequest, places: InputPositions) -> list[Diagnostic]:
    """Return why several hosts cannot issue a load, each reason at its place."""
    target = places.get("target", Where("--target"))
    mistakes = [
        diagnostic(target, "bad-argument", message, hint)
        for message, hint in target_mistakes(request.target)
    ]
    if request.actions is not msgspec.UNSET:
        message = "the actions are those of one engine, and each host has its own"
        mistakes.append(diagnostic(Where("--actions"), "bad-argument", message, "leave it out"))
    for place, filament in enumerate(request.workload.filaments):
        if (why := why_not_hosts(filament, request.target)) is not None:
            where = places.get(filament_field(place), Where("--hosts"))
            mistakes.append(
                diagnostic(where, "bad-argument", why, "leave out hosts: one machine can issue it")
            )
    return mistakes


def target_mistakes(target: LoadTarget) -> list[tuple[str, str]]:
    """Return why hosts cannot load a target together, and what to do."""
    if isinstance(target, SeveralTarget):
        return [
            (f"target {named_target.name}: {message}", hint)
            for named_target in target.targets
            for message, hint in target_mistakes(named_target.target)
        ]
    if not isinstance(target, ServerTarget | NfsTarget | NullTarget):
        message = f"a {kind_of(target)} target is not one server that all hosts reach"
        hint = (
            "name http://HOST/PATH, ws://HOST/PATH, redis://HOST, postgres://USER@HOST/DB, nfs://HOST/EXPORT, "
            "tcp://HOST:PORT or udp://HOST:PORT"
        )
        return [(message, hint)]
    if isinstance(target, StreamTarget) and target.unix_socket is not None:
        message = "a Unix socket is another server on each host"
        return [(message, "name the server by its host and port")]
    if isinstance(target, RedisTarget | PostgresTarget) and target.password_file:
        message = "the file of password_file is on this machine, and each host connects"
        hint = "set REDISCLI_AUTH in the environment of the sessions of ssh on each host"
        if isinstance(target, PostgresTarget):
            hint = "write the password into ~/.pgpass of each host"
        return [(message, hint)]
    if implied_server(target) or (isinstance(target, NfsTarget) and is_loopback(target.host)):
        message = "a loopback address is another machine on each host"
        return [(message, "name the server by an address that all hosts reach")]
    return []


# -- Files of this machine ---------------------------------------------------------------


def _paths_of(trace: Trace) -> tuple[str, ...]:
    return (trace.path,) if isinstance(trace.path, str) else trace.path


def files_of(request: LoadRequest) -> tuple[str, ...]:
    """Return the paths of the files that each host needs: traces, and authorities of TLS."""
    filaments = request.workload.filaments
    traces = (filament for filament in filaments if isinstance(filament, Trace))
    paths = [path for trace in traces for path in _paths_of(trace)]
    for target in each_of(request.target):
        tls = tls_of(target)
        if tls is not None and tls.ca is not None:
            paths.append(tls.ca)
    return tuple(dict.fromkeys(paths))


def with_files(request: LoadRequest, there: Mapping[str, str]) -> LoadRequest:
    """Return the request with other paths for the files of `files_of`."""

    def moved(filament: object) -> object:
        if not isinstance(filament, Trace):
            return filament
        paths = tuple(there[path] for path in _paths_of(filament))
        return msgspec.structs.replace(filament, path=paths[0] if len(paths) == 1 else paths)

    def verified(target: OneTarget) -> OneTarget:
        tls = tls_of(target)
        if tls is None or tls.ca is None:
            return target
        tls = msgspec.structs.replace(tls, ca=there[tls.ca])
        return msgspec.structs.replace(target, tls=tls)

    workload = request.workload
    filaments = tuple(moved(filament) for filament in workload.filaments)
    return msgspec.structs.replace(
        request,
        workload=msgspec.structs.replace(workload, filaments=filaments),
        target=_each(request.target, verified),
    )


def _each(target: LoadTarget, change: Callable[[OneTarget], OneTarget]) -> LoadTarget:
    """Return the target changed, or each of several targets."""
    if not isinstance(target, SeveralTarget):
        return change(target)
    return SeveralTarget(
        tuple(
            msgspec.structs.replace(named_target, target=change(named_target.target))
            for named_target in target.targets
        )
    )


# -- The part of a host ------------------------------------------------------------------

SHORT_INTERVALS = 20
"""Minimum number of intervals of the measured part, of which the hosts are compared."""
_SHORTEST_NS = 10_000_000


def part_of(request: LoadRequest, index: int, of: int) -> LoadRequest:
    """Return the request of one host: its part of the schedule, and of the connections."""

    def connected(target: OneTarget) -> OneTarget:
        if not isinstance(target, ServerTarget | NfsTarget):
            return target
        # As many as it has users of a closed loop with as many users as connections.
        own = len(range(index, target.connections, of))
        return msgspec.structs.replace(target, connections=max(own, request.workers))

    workload = request.workload
    if workload.file_set is not None:
        files = _part_of_files(workload.file_set, of)
        workload = msgspec.structs.replace(workload, file_set=files)
    return msgspec.structs.replace(
        request,
        workload=workload,
        target=_each(request.target, connected),
        part=SchedulePart(index, of),
        controlled=True,
        interval_ns=_interval_ns(request),
        interval_histograms=True,
    )


def _part_of_files(files: FileSet, of: int) -> FileSet:
    """Return the file set of each of so many hosts: the same tables with a part of the objects of
    each directory, at least one."""
    share = Fraction(1, of)
    return msgspec.structs.replace(
        files,
        files=multiplied(files.files, share),
        symlinks=multiplied(files.symlinks, share),
        empty_directories=multiplied(files.empty_directories, share),
    )


def _interval_ns(request: LoadRequest) -> int:
    """Return the length of the hosts' intervals: short enough to compare hosts, and a divisor of
    that of the result."""
    most_ns = (request.duration_ns or request.interval_ns) // SHORT_INTERVALS
    lengths = (request.interval_ns // n for n in range(1, 101) if not request.interval_ns % n)
    fine = [length for length in lengths if length >= _SHORTEST_NS]
    return next((one for one in fine if one <= most_ns), min(fine, default=request.interval_ns))
