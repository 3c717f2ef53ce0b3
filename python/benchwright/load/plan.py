"""A load that is ready to run, made from a workload's file and the command line.

Decision: the command line wins over the file, field by field; a field that neither
sets has the request's default. A workload that never ends gets a duration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.parse import is_network
from benchwright.load.request import NO_POSITIONS, InputPositions
from benchwright.load.workload_toml import (
    PythonFilament,
    WorkloadFile,
    access_of,
)

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


class CommandLineLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load of one filament, from the command line."""

    rate: w.Rate | None = None
    """Arrival rate; None: a closed loop with `depth` users."""
    arrival: w.Arrival = w.PoissonArrival()
    size: w.Distribution | None = None
    read: int | None = None
    """The share of reads [millionths]."""
    location: w.Location = w.UniformLocation()
    think: w.Distribution = w.ConstantValue(0)


def plan_of_file(
    description: WorkloadFile, said: Mapping[str, Any], target: r.LoadTarget
) -> PreparedLoad:
    """Return the plan of a workload's file, with the options of the command line."""
    fields = {**description.run, **said}
    plan = _plan(description.filaments, fields, target, description.python)
    return msgspec.structs.replace(plan, places=description.places)


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
        users = fields["depth"] * fields.get("workers", 1)
        one = w.Closed(users=users, think=bare.think, access=access)
    return _plan((one,), fields, target)


def plan_of_trace(
    trace: w.Trace, said: Mapping[str, Any], target: r.LoadTarget
) -> PreparedLoad:
    """Return the plan of a replay."""
    return _plan((trace,), dict(said), target)


def _plan(
    filaments: Sequence[w.FilamentPlan],
    fields: dict[str, Any],
    target: r.LoadTarget,
    python: tuple[PythonFilament, ...] = (),
) -> PreparedLoad:
    limit = fields.pop("max_errors_micro", None)
    return PreparedLoad(_request(filaments, fields, target), python, limit)


def _request(
    filaments: Sequence[w.FilamentPlan], fields: dict[str, Any], target: r.LoadTarget
) -> r.LoadRequest:
    seed = fields.pop("seed", 1)
    if "duration_ns" not in fields and not all(_ends(f) for f in filaments):
        fields["duration_ns"] = DURATION_NS
    workload = w.Workload(filaments=tuple(filaments), seed=seed)
    return r.LoadRequest(target=target, workload=workload, **fields)


def _ends(filament: w.FilamentPlan) -> bool:
    """Return whether a filament's operations come to an end."""
    if isinstance(filament, w.Open):
        return filament.count is not None
    return isinstance(filament, w.Trace | w.Follow)
