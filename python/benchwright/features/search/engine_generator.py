"""Our load engine as the generator of a workbench: it makes a request from a probe, and a
trial from the result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.errors import BenchError, HostError, InputError, Interrupted
from benchwright.features.generators.run import LeaveEarly
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.criteria import stream_value, within_ns
from benchwright.features.load.engine import (
    DIED,
    Conversation,
    EngineFault,
    LoadAnswer,
    ShowMaking,
    conversation,
    error_of,
    load_metrics,
    unseen,
)
from benchwright.features.load.engine_values import (
    OperationCounts,
    RunningLoad,
    counts_of,
    load_series,
    load_values,
    target_counts,
)
from benchwright.features.load.file_set import with_users
from benchwright.features.load.findings import doubts_of_trial
from benchwright.features.load.groups import group_names, one_of_groups
from benchwright.features.load.parse import EVENT_OPTIONS, is_network
from benchwright.features.load.plan import (
    CommandLineLoad,
    LoadEnding,
    LoadTrial,
    Probe,
    plan_of_command,
    plan_of_file,
)
from benchwright.features.load.request import NO_POSITIONS, InputPositions
from benchwright.features.load.server_queue import QueueWatch, watched_queue
from benchwright.features.load.stream_findings import server_queue
from benchwright.features.load.types import EngineResult, FileSetProgress, LoadProgress
from benchwright.features.load.workload_toml import WorkloadFile
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.search.spec_toml import EngineSettings, target_of
from benchwright.inputs.mistakes import mistake, option_mistake

if TYPE_CHECKING:
    from benchwright.features.load.hosts import LoadHosts

# --------------------------------------------------------------------------------------
# The request to our load engine for a probe: an open loop at a rate, or a number of users.
# Pure.
#
# Decision: the wait at the end of a load follows from the limits, so that an overloaded probe
# ends soon and no response within a limit is cut off. Source: docs/engine-protocol.md.

INTERVAL_NS = 10**9
LEAST_INTERVALS = 10
"""Minimum number of intervals: a short load has shorter ones, so that it too has a series."""
DRAIN_LIMITS = 3
"""Drain in multiples of the longest limit, within the bounds below; the verdict is then certain."""
LEAST_DRAIN_S, MOST_DRAIN_S = 1.0, 10.0
UNLIMITED_DRAIN_S = 3.0
"""Duration of the drain if no criterion limits a response."""


def request_of(
    settings: EngineSettings,
    probe: Probe,
    criteria: tuple[Criterion, ...],
    values: Mapping[str, str],
) -> r.LoadRequest:
    """Return the engine's request for a probe: a rate in an open loop, or a number of users."""
    target = target_of(settings, values)
    duration_ns = round(probe.duration_s * 1e9)
    said: dict[str, Any] = {
        **settings.run,
        "duration_ns": duration_ns,
        "drain_ns": _drain_ns(settings, criteria),
        "interval_ns": max(10**6, min(INTERVAL_NS, duration_ns // LEAST_INTERVALS)),
        "interval_histograms": True,
    }
    if settings.workload is not None:
        return _request_of_workload(settings.workload, probe, said, target)
    rate = None
    if probe.users is None:
        rate = w.ConstantRate(max(1, round(probe.rate * w.MICRO)))
    else:
        # A worker without a user would only take CPU time.
        workers = min(said.get("workers", 1), probe.users)
        said |= {"depth": probe.users, "workers": workers}
        if is_network(target):
            target = msgspec.structs.replace(target, connections=probe.users)
    bare = CommandLineLoad(
        rate=rate,
        users=probe.users,
        arrival=settings.arrival,
        size=settings.size,
        read=settings.read,
        location=settings.location,
        think=settings.think,
    )
    return plan_of_command(bare, said, target).request


def _request_of_workload(
    workload: WorkloadFile, probe: Probe, said: dict[str, Any], target: r.LoadTarget
) -> r.LoadRequest:
    """Return the request for a workload at a probe's rate, or with its number of users."""
    own = msgspec.structs.replace(workload, run={})
    if probe.users is None:
        return plan_of_file(own, said, target, probe.rate).request
    own = msgspec.structs.replace(own, filaments=with_users(own.filaments, probe.users))
    return plan_of_file(own, said, target).request


def _drain_ns(settings: EngineSettings, criteria: tuple[Criterion, ...]) -> int:
    if settings.drain_ns is not None:
        return settings.drain_ns
    if any(stream_value(criterion) is not None for criterion in criteria):
        # A limit of the first event does not say how long a stream lasts.
        return r.DRAIN_NS
    limits_s = limits_s_of(criteria)
    if not limits_s and settings.options.keys() & EVENT_OPTIONS:
        return r.DRAIN_NS
    if not limits_s:
        return round(UNLIMITED_DRAIN_S * 1e9)
    longest_s = max(limits_s)
    wanted_s = min(max(DRAIN_LIMITS * longest_s, LEAST_DRAIN_S), MOST_DRAIN_S)
    return round(wanted_s * 1e9)


def limits_s_of(criteria: tuple[Criterion, ...]) -> list[float]:
    """Return the limits of response times [s], except infinite ones."""
    found = []
    for criterion in criteria:
        ns = within_ns(criterion)
        if ns is not None:
            found.append(ns / 1e9)
        elif criterion.statistic in ("mean", "percentile"):
            found.append(criterion.limit / 1e3)
    return [limit for limit in found if math.isfinite(limit)]


def with_seed(request: r.LoadRequest, seed: int) -> r.LoadRequest:
    """Return the request with this random seed, so that its arrivals are its own."""
    workload = msgspec.structs.replace(request.workload, seed=seed)
    return msgspec.structs.replace(request, workload=workload)


def with_worker_cpus(request: r.LoadRequest, cpus: tuple[int, ...]) -> r.LoadRequest:
    """Return the request with a CPU for each worker, if there are enough."""
    if not cpus or request.workers > len(cpus):
        return request
    return msgspec.structs.replace(request, cpus=cpus[: request.workers])


# -- Our load engine as the generator of a workbench: runs a probe, returns a trial ----
#
# Purpose: open-loop load at the probe's rate, checked each second and ended early. Decision:
# at the end of a load, operations in flight are awaited for a few times the longest limit and
# no longer, so an overloaded probe ends soon; operations that have not ended then count
# against every criterion (engine_values.py). Source: docs/engine-protocol.md.

UNREACHABLE = "connect"
"""The engine's code for a server that accepts no connection: it may have stopped."""
_FIELDS = {"header": "target.headers", "path": "target.paths", "method": "target.method"}
"""The field of each error code of the engine; other codes refer to the target itself."""

_ALWAYS = (
    Criterion("response_ms_p50", 0.0, statistic="percentile", share=0.5),
    Criterion("response_ms_p99", 0.0, statistic="percentile", share=0.99),
    Criterion("error_ratio", 0.0, statistic="ratio"),
)
"""Values for the reader that every whole trial has; they are not limited."""
_OF_STREAMS = (
    Criterion("first_ms_p50", 0.0, statistic="percentile", share=0.5),
    Criterion("first_ms_p99", 0.0, statistic="percentile", share=0.99),
    Criterion("tpot_ms_p50", 0.0, statistic="percentile", share=0.5),
    Criterion("gap_ms_p99", 0.0, statistic="percentile", share=0.99),
    Criterion("good_share", 0.0, unit="", better="higher", statistic="share"),
)
"""The same of a trial whose answers are read as events."""


class LoadRun(msgspec.Struct, frozen=True):
    """One load for a generator to run."""

    probe: Probe
    values: Mapping[str, str]
    """Values of the names in braces."""
    number: int
    """Number among the session's recorded loads, from 1; it selects the arrivals. The
    repetition of an interrupted load, which is not recorded, has the same arrivals."""
    directory: Path
    """Existing directory for the generator's files."""
    leaves: LeaveEarly
    without_limits: Callable[[], contextlib.AbstractContextManager[None]] | None = None
    """A context in which I/O of the server is not limited, for the making of a file set; None: it
    is not limited anyway."""
    making: ShowMaking = unseen
    """Called every second while a file set is made."""


class EngineGenerator:
    """Runs load with `bw-engine`, one process for each trial."""

    def __init__(
        self,
        settings: EngineSettings,
        criteria: tuple[Criterion, ...],
        cpus: tuple[int, ...],
        seed: int = 1,
        *,
        places: InputPositions = NO_POSITIONS,
        network: PrivateNetwork | None = None,
        hosts: LoadHosts | None = None,
    ) -> None:
        """`hosts`: the hosts on which it runs; None: this machine."""
        self._settings = settings
        self._hosts = hosts
        self._criteria = criteria
        self._cpus = cpus
        self._seed = seed
        self._places = places
        self._prefix = () if network is None else network.prefix
        self._engine: Conversation | None = None
        self._interrupted = False

    @property
    def watched(self) -> bool:
        """Whether its progress can be checked, and it can be ended early: hosts send nothing
        while they measure."""
        return self._hosts is None

    def interrupt(self) -> None:
        """End the running load; safe to call in a signal handler."""
        self._interrupted = True
        if self._engine is not None:
            self._engine.end()
        if self._hosts is not None:
            self._hosts.stop()

    def run(self, load: LoadRun) -> LoadTrial:
        """Run one load and return its trial; its cost is that of the load alone.

        Raises InputError for settings that the engine refuses, and Interrupted.
        """
        request = request_of(self._settings, load.probe, self._criteria, load.values)
        _check_groups(request, self._criteria)
        seed = (self._seed * 1_000_003 + load.number) % 2**53
        request = with_worker_cpus(with_seed(request, seed), self._cpus)
        (load.directory / "request.json").write_bytes(msgspec.json.encode(request))
        # A server in a network of its own is not reached from here.
        watching = contextlib.nullcontext() if self._prefix else watched_queue(request.target)
        with watching as queue:
            trial = self._run_request(request, load)
        return _with_queue(trial, queue)

    def _run_request(self, request: r.LoadRequest, load: LoadRun) -> LoadTrial:
        with contextlib.ExitStack() as making:
            if load.without_limits and request.workload.file_set is not None:
                making.enter_context(load.without_limits())
                request = msgspec.structs.replace(request, wait_for_start=self._hosts is None)
            if self._hosts is not None:
                return self._run_on_hosts(self._hosts, request, load, making.close)
            with conversation(request, self._prefix) as engine:
                trial = self._run_here(engine, request, load, making.close)
        # An interrupt after the engine's answer counts, too.
        self._check(engine)
        return trial

    def _run_on_hosts(
        self, hosts: LoadHosts, request: r.LoadRequest, load: LoadRun, set_made: Callable[[], None]
    ) -> LoadTrial:
        """Return the trial of a load of several hosts. `set_made` is called before it starts.

        Raises BenchError if a host is lost before the load starts; HostError if a host of a gang is
        lost at any time.
        """
        part = r.SchedulePart(of=hosts.number)
        request = msgspec.structs.replace(request, part=part)
        try:
            answer = hosts.run(
                request,
                places=self._places,
                making=load.making,
                armed=set_made,
                stopped=lambda: self._interrupted,
            )
        except BenchError as error:
            if self._interrupted:
                raise Interrupted from None
            if error.code == UNREACHABLE:
                return failed_trial(load.probe, f"the engine: {error.message}")
            raise
        _store(answer, load)
        if self._interrupted or answer.result.interrupted:
            raise Interrupted
        if answer.result.lost_hosts:
            why = "; ".join(lost_host.lost for lost_host in answer.result.lost_hosts)
            if hosts.are_of_gang:
                raise HostError("host-lost", answer.result.lost_hosts[0].host, why)
            return failed_trial(load.probe, why)
        return self._trial(answer.result, request, load.probe, left=False)

    def _run_here(
        self,
        engine: Conversation,
        request: r.LoadRequest,
        load: LoadRun,
        set_made: Callable[[], None],
    ) -> LoadTrial:
        """Return the trial of an engine's answer; check meanwhile whether to end early.
        `set_made` is called before a load that waits for its start."""
        running, left = RunningLoad(self._criteria), False

        def progress(so_far: LoadProgress | FileSetProgress) -> None:
            nonlocal left
            if isinstance(so_far, FileSetProgress):
                load.making(so_far)
            elif so_far.interval is not None:
                running.add(so_far.interval)
                left = self._leave(engine, running, load)

        def ready() -> None:
            set_made()
            engine.end_input()

        self._engine = engine
        if self._interrupted:
            # The interrupt came before there was an engine to end.
            engine.end()
        try:
            said = engine.answer(EngineResult, progress=progress, ready=ready)
        except BenchError as error:
            if error.code != DIED:
                raise
            self._check(engine)
            return failed_trial(load.probe, str(error))
        finally:
            self._engine = None
        if isinstance(said, EngineFault):
            # An interrupt ends the making of a file set with an error.
            self._check(engine)
            return self._fault(said, load.probe)
        _store(said, load)
        self._check(engine)
        return self._trial(said.result, request, load.probe, left=left)

    def _check(self, engine: Conversation) -> None:
        if self._interrupted or engine.interrupted:
            raise Interrupted

    def _leave(self, engine: Conversation, running: RunningLoad, load: LoadRun) -> bool:
        """End the load if its results so far are sufficient; return whether they are."""
        probe = load.probe
        tally = running.counts(probe.rate)
        trial = _trial_of(tally, probe, self._criteria, running.series())
        enough = load.leaves(trial)
        if enough:
            engine.end()
        return enough

    def _trial(
        self, result: EngineResult, request: r.LoadRequest, probe: Probe, *, left: bool
    ) -> LoadTrial:
        measured_s = (result.measured_ns or result.elapsed_ns or 1) / 1e9
        limits_s = limits_s_of(self._criteria)
        patience_s = max(limits_s, default=(request.drain_ns or 0) / 1e9)
        groups = {criterion.of for criterion in self._criteria if criterion.of}
        tally = counts_of(result, measured_s if left else probe.duration_s, patience_s, groups)
        whole = [
            interval for interval in result.intervals if interval.intended or interval.completed
        ]
        within = [
            interval_result
            for interval_result in whole
            if interval_result.start_ns / 1e9 < tally.lasted_s
        ]
        trial = _trial_of(tally, probe, self._criteria, load_series(within, self._criteria))
        of_target = target_counts(tally, result)
        late_ns = result.lateness_ns.p99
        unknown = "" if left else _why_no_value(trial, self._criteria)
        return msgspec.structs.replace(
            trial,
            # Operations that ended during the drain do not count as throughput.
            completed=sum(
                interval_result.completed - interval_result.errors for interval_result in within
            ),
            values=load_values(tally, (*_ALWAYS, *_OF_STREAMS))
            | trial.values
            | _metrics(result, self._criteria),
            target_values={}
            if of_target is None
            else load_values(of_target, (*_ALWAYS, *self._criteria)),
            late_p99_ms=None if late_ns is None else late_ns / 1e6,
            ending=_ending(left=left, failed=bool(unknown)),
            failure=unknown or _why_nothing(result),
            marks=doubts_of_trial(result, request.loop, limits_s),
            started_ns=result.started_ns,
            making_s=_making_s(result),
        )

    def _fault(self, fault: EngineFault, probe: Probe) -> LoadTrial:
        """Return the failed trial of an engine that could not continue.

        Raises the error if the request itself is wrong: no trial could succeed.
        """
        error = error_of(fault, self._places)
        if isinstance(error, BenchError):
            if fault.status == 1 or fault.code == UNREACHABLE:
                return failed_trial(probe, f"the engine: {fault.message}")
            where = self._places.get(_FIELDS.get(fault.code, "target"))
            if where is not None:
                error = mistake(where, fault.code, fault.message, fault.remedy)
        raise error


def _with_queue(trial: LoadTrial, queue: QueueWatch | None) -> LoadTrial:
    """Return a trial with its mark if requests waited in the queue of the server."""
    if queue is None or queue.found is None or not any(server_queue(queue.found, "")):
        return trial
    return msgspec.structs.replace(trial, marks=(*trial.marks, "server-queue"))


def _store(answer: LoadAnswer, load: LoadRun) -> None:
    """Write the engine's answer beside its request."""
    (load.directory / "result.json").write_bytes(msgspec.json.encode(answer.document))


def _making_s(result: EngineResult) -> float:
    made = None if result.file_set is None else result.file_set.made
    return 0.0 if made is None else made.making_ns / 1e9


def failed_trial(probe: Probe, failure: str, marks: tuple[str, ...] = ()) -> LoadTrial:
    """Return the failed trial of a probe without any result."""
    return LoadTrial(
        rate=probe.rate,
        users=probe.users,
        duration_s=probe.duration_s,
        lasted_s=0.0,
        cost_s=0.0,
        ending=LoadEnding.FAILED,
        failure=failure,
        marks=marks,
    )


def _trial_of(
    tally: OperationCounts, probe: Probe, criteria: tuple[Criterion, ...], series: Any
) -> LoadTrial:
    return LoadTrial(
        rate=probe.rate,
        users=probe.users,
        duration_s=probe.duration_s,
        lasted_s=tally.lasted_s,
        cost_s=tally.lasted_s,
        values=load_values(tally, criteria),
        series=series,
        offered=tally.intended,
        completed=tally.answered,
        errors=tally.failed + tally.lost,
    )


def _ending(*, left: bool, failed: bool) -> LoadEnding:
    if failed:
        return LoadEnding.FAILED
    return LoadEnding.LEFT if left else LoadEnding.WHOLE


def _why_no_value(trial: LoadTrial, criteria: tuple[Criterion, ...]) -> str:
    """Return which limited value of streams, or of a group of operations, a load does not have; empty
    if it has each. Without a value, a limit would seem to hold."""
    without = [criterion for criterion in criteria if criterion.key not in trial.values]
    for noun, some in (
        ("stream", [one for one in without if stream_value(one) is not None]),
        ("operation", [one for one in without if one.of]),
    ):
        if some:
            return f"no {noun} has a value of {', '.join(map(criterion_name, some))}"
    return ""


def _check_groups(request: r.LoadRequest, criteria: tuple[Criterion, ...]) -> None:
    """Raise InputError for a criterion of operations that a load does not have."""
    known = group_names(request.workload.filaments, request.target)
    unknown = [one for one in criteria if one.of and one.of not in known]
    if unknown:
        raise InputError(
            [
                option_mistake(
                    "--limit",
                    f"{criterion_name(one)}: the load has no operations {one.of!r}",
                    one_of_groups(one.of, known),
                )
                for one in unknown
            ]
        )


def _why_nothing(result: EngineResult) -> str:
    """Return why no operation succeeded; empty if one did."""
    whole = result.all
    if whole.response_ns.count or not result.counts.intended:
        return ""
    kinds = sorted(whole.errors.items(), key=lambda one: -one[1])
    told = [f"{count} {name}" for name, count in kinds]
    never = result.counts.never_ended
    told += [f"{never} never ended"] if never else []
    return f"of {result.counts.intended} operations none succeeded: {', '.join(told)}"


def _metrics(result: EngineResult, criteria: tuple[Criterion, ...]) -> dict[str, float]:
    """Return the values of the criteria that limit a metric of the engine."""
    metrics = load_metrics(result)
    wanted = {criterion.key for criterion in criteria if criterion.statistic == "metric"}
    return {key: value for key, value in metrics.items() if key in wanted}
