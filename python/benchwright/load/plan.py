"""A load that is ready to run, made from a workload's file and the command line.

Decision: the command line wins over the file, field by field; a field that neither
sets has the request's default. A workload that never ends gets a duration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchwright.core.remote import HostsSettings
from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.file_set import at_rate, operations_per_s
from benchwright.load.parse import is_network
from benchwright.load.request import NO_POSITIONS, InputPositions
from benchwright.load.workload_toml import (
    PythonFilament,
    WorkloadFile,
    access_of,
    why_no_requests,
)
from benchwright.suite.mistakes import mistake
from benchwright.suite.program import Where

DURATION_NS = 5 * 10**9
"""Default duration of a load that would not end otherwise [ns]."""


class PreparedLoad(msgspec.Struct, frozen=True):
    """A request, the Python filaments that feed it, and the limit of errors."""

    request: r.LoadRequest
    python: tuple[PythonFilament, ...] = ()
    max_errors_micro: int | None = None
    """Maximum share of intended operations without a response time [millionths]; None: the
    default limit, which applies to operations that failed or did not end."""
    places: InputPositions = NO_POSITIONS
    """The positions of the request's fields in a workload's file."""
    hosts: HostsSettings | None = None
    """The hosts that issue the load together; None: this machine."""


class CommandLineLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load of one filament, from the command line."""

    rate: w.Rate | None = None
    """Arrival rate; None: a closed loop."""
    users: int | None = None
    """Users of the closed loop; None: `depth` for each worker."""
    hosts: int = 1
    """Number of hosts, each with the same number of workers."""
    arrival: w.Arrival = w.PoissonArrival()
    size: w.Distribution | None = None
    read: int | None = None
    """The share of reads [millionths]."""
    location: w.Location = w.UniformLocation()
    think: w.Distribution = w.ConstantValue(0)


def plan_of_file(
    description: WorkloadFile,
    said: Mapping[str, Any],
    target: r.LoadTarget,
    rate_per_s: float | None = None,
) -> PreparedLoad:
    """Return the plan of a workload's file, with the options of the command line.

    `rate_per_s`: all its filaments with a rate together have this rate of operations. Raises
    InputError.
    """
    fields = {**description.run, **said}
    filaments, file_set = description.filaments, None
    if rate_per_s is not None:
        filaments = at_rate(filaments, rate_per_s, file_size_of(description))
    if description.files is not None:
        users = sum(one.users or 0 for one in filaments if isinstance(one, w.Files))
        # Each user of a closed loop has an operation in flight.
        fields.setdefault("depth", max(r.DEPTH, users))
        try:
            file_set = description.files.made_for(filaments)
        except ValueError as error:
            where = description.places.get("workload.file_set", Where("files"))
            raise mistake(where, "workload-value", str(error)) from None
    target = _with_requests(description, target)
    plan = _plan(filaments, fields, target, description.python, file_set)
    return msgspec.structs.replace(plan, places=description.places)


def _with_requests(description: WorkloadFile, target: r.LoadTarget) -> r.LoadTarget:
    """Return the target with the requests of a workload. Raises InputError."""
    table = description.requests
    if table is None or isinstance(target, r.NullTarget):
        return target
    if not table.requests:
        if isinstance(target, r.RedisTarget | r.PostgresTarget | r.UdpTarget):
            return msgspec.structs.replace(target, values=table.values)
        message = "[values] has no effect without [[request]]"
        raise mistake(table.where, "workload-value", message, "describe the requests")
    if (why := why_no_requests(target)) is not None:
        raise mistake(table.where, "workload-value", why, "name http://HOST:PORT/")
    return msgspec.structs.replace(
        target, paths=(), requests=table.requests, values=table.values
    )


def has_rate(description: WorkloadFile) -> bool:
    """Return whether a filament of a workload has a rate."""
    size = file_size_of(description)
    return operations_per_s(description.filaments, size) is not None


def file_size_of(description: WorkloadFile) -> w.Distribution:
    """Return the sizes of the files of a workload's file set; without one, any will do."""
    files = description.files
    return w.ConstantValue(0) if files is None else files.tables.file_size


def plan_of_command(
    bare: CommandLineLoad, said: Mapping[str, Any], target: r.LoadTarget
) -> PreparedLoad:
    """Return the plan of a load without a file."""
    access = access_of(
        network=is_network(target),
        size=bare.size,
        read=bare.read,
        location=bare.location,
    )
    fields = dict(said)
    if bare.rate is not None:
        one: w.FilamentPlan = w.Open(
            arrival=bare.arrival, rate=bare.rate, access=access
        )
    else:
        fields.setdefault("depth", 1)
        workers = fields.get("workers", 1) * bare.hosts
        users = bare.users or fields["depth"] * workers
        one = w.Closed(users=users, think=bare.think, access=access)
    return _plan((one,), fields, target)


def plan_of_traces(
    traces: Sequence[w.Trace], said: Mapping[str, Any], target: r.LoadTarget
) -> PreparedLoad:
    """Return the plan of a replay."""
    return _plan(traces, dict(said), target)


def _plan(
    filaments: Sequence[w.FilamentPlan],
    fields: dict[str, Any],
    target: r.LoadTarget,
    python: tuple[PythonFilament, ...] = (),
    file_set: w.FileSet | None = None,
) -> PreparedLoad:
    limit = fields.pop("max_errors_micro", None)
    return PreparedLoad(_request(filaments, fields, target, file_set), python, limit)


def _request(
    filaments: Sequence[w.FilamentPlan],
    fields: dict[str, Any],
    target: r.LoadTarget,
    file_set: w.FileSet | None,
) -> r.LoadRequest:
    seed = fields.pop("seed", 1)
    if "duration_ns" not in fields and not all(_ends(f) for f in filaments):
        fields["duration_ns"] = DURATION_NS
    workload = w.Workload(filaments=tuple(filaments), seed=seed, file_set=file_set)
    return r.LoadRequest(target=target, workload=workload, **fields)


def _ends(filament: w.FilamentPlan) -> bool:
    """Return whether a filament's operations come to an end."""
    if isinstance(filament, w.Open | w.Files):
        return filament.count is not None
    return isinstance(filament, w.Trace | w.Follow)
