"""A load that is ready to run, made from a workload's file and the command line.

Decision: the command line wins over the file, field by field; a field that neither
sets has the request's default. A workload that never ends gets a duration.

A search or a generator sees one load at one rate: the probe and its result. A search asks for *probes*; a bench runs each and returns a `LoadTrial`. Nothing here uses a clock,
a server or a file; only messages of gRPC are encoded by an engine (grpc.py).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from benchwright.core.hosts import HostsSettings
from benchwright.core.observation import CpuProfile
from benchwright.core.resource_use import RemoteUse, ResourceUse
from benchwright.core.text import part_text
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.file_set import at_rate, operations_per_s
from benchwright.features.load.grpc import with_calls
from benchwright.features.load.llm import conversation_of, mean_turns, with_requests_of_models
from benchwright.features.load.parse import is_network
from benchwright.features.load.prompt_traces import PromptTrace
from benchwright.features.load.request import NO_POSITIONS, InputPositions
from benchwright.features.load.requests_toml import HAVE_VALUES, why_no_requests
from benchwright.features.load.workload_toml import PythonFilament, WorkloadFile, access_of
from benchwright.inputs.mistakes import Where, mistake

if TYPE_CHECKING:
    from benchwright.features.load.criteria import LoadLimit
    from benchwright.features.load.types import LoadCounts


def rounded_rate(rate: float, step: float | None = None) -> float:
    """Return a rate as it is passed to a generator [1/s]: the nearest with at most five
    significant digits, and a multiple of `step` where there is one; never 0."""
    if step is not None:
        rate = max(1, round(rate / step)) * step
    return float(f"{rate:.5g}")


class Probe(msgspec.Struct, frozen=True):
    """One trial under load that a policy asks for."""

    rate: float
    """Intended [1/s]; at most five significant digits, so that it can be written down."""
    duration_s: float
    purpose: str = ""
    """For a person: `double`, `bisect`, `hold`, `check`."""
    users: int | None = None
    """Of a closed loop: how many issue at once; `rate` is the same number then. None: an
    open loop at `rate`."""

    def __post_init__(self) -> None:
        assert self.rate > 0
        assert self.duration_s > 0
        assert self.users is None or self.users == self.rate


class LoadSeries(msgspec.Struct, frozen=True):
    """A trial's values in time, in columns of equal length `(n_bins,)`."""

    at_s: tuple[float, ...] = ()
    """Begin of each bin since the load began [s]."""
    width_s: float = 1.0
    counts: tuple[int, ...] = ()
    """Operations that the bin's values are of."""
    values: dict[str, tuple[float, ...]] = {}
    """By criterion's key; without meaning where the count is 0."""
    binned_by: Literal["intended", "completion", "unknown"] = "unknown"
    """Which moment of an operation puts it into a bin."""

    def __post_init__(self) -> None:
        assert len(self.at_s) == len(self.counts)
        assert all(len(column) == len(self.at_s) for column in self.values.values())


class LoadEnding(enum.StrEnum):
    """How a trial under load ended."""

    WHOLE = "whole"
    LEFT = "left"
    """The policy needed no more of it."""
    FAILED = "failed"
    """The server or the generator did; `failure` says how."""


class LoadTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one probe: the observation on which every search is based."""

    rate: float
    """Intended [1/s]."""
    duration_s: float
    """Asked for [s]."""
    lasted_s: float
    """Time for which the load was offered [s]."""
    cost_s: float
    """All of it: configure, start, wait, load, stop [s]; never less than `lasted_s`."""
    values: dict[str, float] = {}
    """By criterion's key, over the whole run, nothing removed; absent where not known."""
    series: LoadSeries = LoadSeries()
    offered: int | None = None
    """Operations that arrived."""
    completed: int | None = None
    """Operations that succeeded within the run."""
    errors: int = 0
    ending: LoadEnding = LoadEnding.WHOLE
    failure: str = ""
    """Of a load that did not fail: why it has no response, where it has none."""
    users: int | None = None
    """Of a closed loop: how many issued at once; None: an open loop."""
    late_p99_ms: float | None = None
    """How late the generator came to its operations, 99th percentile; None: it does not say [ms].
    """
    target_values: dict[str, float] = {}
    """`values` without the generator's lateness: a response counts from the moment when the
    generator came to the operation, and waiting for a free connection is the target's. Absent where
    the generator does not know it."""
    marks: tuple[str, ...] = ()
    """Doubts about the generator: codes such as `closed-loop-generator`."""
    started_ns: int = 0
    """CLOCK_REALTIME [ns]; 0 in a simulation."""
    making_s: float = 0.0
    """Part of the cost in which the file set was examined and made, without limits of I/O [s]."""
    use: ResourceUse | None = None
    """Use of the machine meanwhile; no policy looks at it."""
    remote_use: RemoteUse | None = None
    """Use of the host of a remote server meanwhile; no policy looks at it."""
    profile: CpuProfile | None = None
    """Where CPU time went meanwhile, if that was requested; no policy looks at it."""

    @property
    def why_failed(self) -> str:
        """Why it failed, never empty then; empty where it did not."""
        if self.ending is not LoadEnding.FAILED:
            return ""
        return self.failure or "it failed"

    @property
    def offered_rate(self) -> float:
        """The realised arrival rate, or the intended one where no count exists [1/s]."""
        if self.offered is None or not self.lasted_s:
            return self.rate
        return self.offered / self.lasted_s


DURATION_NS = 5 * 10**9
"""Default duration of a load that would not end otherwise [ns]."""
LEAST_INTERVALS = 20
"""Number of intervals of a load that is shorter than as many seconds."""


MAX_ERRORS_MICRO = w.MICRO // 100
"""Share of operations that may fail, if --max-errors is not given [millionths]."""


def too_many_errors(counts: LoadCounts, limit_micro: int | None) -> str:
    """Return why a load failed: more operations than --max-errors have no response time; empty: it
    did not.

    Without the option, only failed and unfinished operations count, up to MAX_ERRORS_MICRO.
    Findings report dropped and skipped operations.
    """
    limit, missing = limit_micro, counts.without_response
    how = "failed, were dropped or skipped, or did not finish"
    if limit is None:
        limit, missing = MAX_ERRORS_MICRO, counts.errors + counts.unfinished
        how = "failed or did not finish"
    if missing * w.MICRO <= limit * counts.intended:
        return ""
    share = f"more than --max-errors {limit / 10_000:g}%"
    return f"{part_text(missing, counts.intended)} {how}: {share}"


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
    limits: tuple[LoadLimit, ...] = ()
    """The limits that decide the exit status."""


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
        users = sum(filament.users or 0 for filament in filaments if isinstance(filament, w.Files))
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
    if isinstance(target, r.SeveralTarget):
        return r.SeveralTarget(
            tuple(
                msgspec.structs.replace(
                    named_target,
                    target=table.of(named_target.name, named_target.target).on(named_target.target),
                )
                for named_target in target.targets
            )
        )
    if not table.requests and not isinstance(target, HAVE_VALUES):
        message = "[values] has no effect without [[request]]"
        raise mistake(table.where, "workload-value", message, "describe the requests")
    why = why_no_requests(target, table.requests) if table.requests else None
    if why is not None:
        raise mistake(table.where, "workload-value", why, "name another target")
    return table.on(target)


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
        network=is_network(target), size=bare.size, read=bare.read, location=bare.location
    )
    fields = dict(said)
    turns = conversation_of(target)
    if turns is not None:
        one: w.FilamentPlan = _conversations(bare, turns, access)
    elif bare.rate is not None:
        one = w.Open(arrival=bare.arrival, rate=bare.rate, access=access)
    else:
        fields.setdefault("depth", 1)
        workers = fields.get("workers", 1) * bare.hosts
        users = bare.users or fields["depth"] * workers
        one = w.Closed(users=users, think=bare.think, access=access)
    return _plan((one,), fields, target)


def _conversations(bare: CommandLineLoad, turns: w.Distribution, access: w.Access) -> w.PartlyOpen:
    """Return the conversations of a load, whose requests have its rate together. Raises InputError."""
    if not isinstance(bare.rate, w.ConstantRate):
        message = "conversations arrive at a rate, and there is none"
        raise mistake(Where("--turns"), "bad-argument", message, "add --rate: of their requests")
    rate = w.ConstantRate(max(1, round(bare.rate.micro_per_s / mean_turns(turns))))
    # Each session has the requests of its turns in order.
    in_order = msgspec.structs.replace(access, location=w.SequentialLocation())
    return w.PartlyOpen(
        arrival=bare.arrival, rate=rate, requests=turns, think=bare.think, access=in_order
    )


def plan_of_prompts(
    trace: PromptTrace, speed_micro: int, said: Mapping[str, Any], target: r.HttpTarget
) -> PreparedLoad:
    """Return the plan of a replay of requests to a language model at their times; the trace is in
    the target too."""
    times = [row.at_ns * w.MICRO // speed_micro for row in trace.rows]
    gaps = [after - before for before, after in pairwise([0, *times])]
    # The engine refuses gaps of which none has a length.
    gaps[0] += not any(gaps)
    one = w.Open(
        arrival=w.RecordedArrival(tuple(gaps)),
        rate=w.RecordedRate(),
        access=access_of(network=True, size=None, read=None, location=w.UniformLocation()),
        count=len(gaps),
    )
    return _plan((one,), dict(said), target)


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
    most = fields.pop("max_errors_micro", None)
    limits = fields.pop("limits", ())
    if good := fields.pop("good", ()):
        fields["streams"] = r.StreamLimits(good)
    request = _request(filaments, fields, target, file_set)
    return PreparedLoad(request, python, most, limits=limits)


def _request(
    filaments: Sequence[w.FilamentPlan],
    fields: dict[str, Any],
    target: r.LoadTarget,
    file_set: w.FileSet | None,
) -> r.LoadRequest:
    seed = fields.pop("seed", 1)
    if "duration_ns" not in fields and not all(_ends(f) for f in filaments):
        fields["duration_ns"] = DURATION_NS
    if "interval_ns" not in fields and "duration_ns" in fields:
        measured_ns = fields["duration_ns"] - fields.get("warm_up_ns", 0)
        fields["interval_ns"] = _interval_ns(measured_ns)
    workload = w.Workload(filaments=tuple(filaments), seed=seed, file_set=file_set)
    target = with_calls(with_requests_of_models(target))
    return r.LoadRequest(target=target, workload=workload, **fields)


def _interval_ns(measured_ns: int) -> int:
    """Return the length of the intervals of a load whose measured part lasts so long: whole
    milliseconds, so that a short load too has a series that shows whether it was steady."""
    some_ms = measured_ns // LEAST_INTERVALS // 10**6
    return min(max(some_ms, 1) * 10**6, r.INTERVAL_NS)


def _ends(filament: w.FilamentPlan) -> bool:
    """Return whether a filament's operations come to an end."""
    if isinstance(filament, w.Open | w.Files):
        return filament.count is not None
    return isinstance(filament, w.Trace | w.Follow)
