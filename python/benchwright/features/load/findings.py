"""Findings about loads: a late generator, a backlog, a trace that was not replayed as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchwright.core.results import Figure, Finding, FindingFigures, Severity, Value, states
from benchwright.core.text import list_text
from benchwright.features.load.file_set import FALSE_ALARMS_OF_A_TRIAL, file_set_findings
from benchwright.features.load.host_findings import host_findings, late_hosts, short_hosts
from benchwright.features.load.llm import AskedOfModels
from benchwright.features.load.response_times import response_times
from benchwright.features.load.server_queue import ServerQueue
from benchwright.features.load.steady import response_change
from benchwright.features.load.stream_findings import reader_late, server_queue, stream_findings
from benchwright.features.load.streams import stream_times
from benchwright.features.load.types import (
    EngineResult,
    FileResult,
    LoopModel,
    RecordedRequests,
    TimeDistribution,
    TraceResult,
)
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding


def empty_trace(path: str, left_out: int) -> FindingFigures:
    """Return the figures of a trace without operations, or without any of the requested ones."""
    return states("part", path=path, left_out=left_out) if left_out else states(path=path)


def _part(name: str, some: int, whole: int) -> dict[str, Value]:
    """Return the values of `part_of`."""
    share = Figure(some / whole, "%") if whole else ""
    return {name: some, "operations": whole, f"{name}_share": share}


def _time(ns: float) -> Figure:
    return Figure(ns / 1e9, "s")


# --------------------------------------------------------------------------------------
# Findings about loads: a late generator, a load that was not offered, a backlog.
#
# Each threshold has its reason beside it; docs/workload-toml.md lists them for users. Decision:
# lateness is judged by the operations that no full target held back, because the target causes
# waiting for a slot (`target-saturated`), and the generator causes lateness. An operation that the
# generator came to late, and that then found no slot, waits for others that started late with it:
# that is the generator's (`held_late`). In a closed loop the next start is due when the previous
# operation ends, so there is no schedule to miss: lateness is judged by the share of the time in
# which a slot was empty. Sources: Buttress paper, section 6 (issue error); Schroeder and others,
# "Open versus closed" (NSDI '06).


_TAILS = (
    ("p90", "p90", 0.1),
    ("p99", "p99", 0.01),
    ("p99.9", "p99_9", 0.001),
    ("p99.99", "p99_99", 0.0001),
)


def doubts_of_trial(
    result: EngineResult, loop: LoopModel, limits_s: Sequence[float]
) -> tuple[str, ...]:
    """Return the codes of the doubts about a load that is a trial of a search (`LoadTrial.marks`).

    `limits_s`: the limits of its response times. Lateness is compared with the smallest: 50 us do
    not matter for a limit of 40 ms. Without limits, it is compared with the p99 of the responses,
    which include the lateness.
    """
    codes = []
    scale_ns = 1e9 * min(limits_s) if limits_s else response_times(result).p99
    if scale_ns is not None and _is_late(result, t.LATE_SHARE * scale_ns):
        codes.append("generator-late")
    counts = result.counts
    missed = counts.skipped + counts.starved > t.NOT_OFFERED * counts.intended
    if missed or (loop.open and _fell_behind(result)):
        codes.append("generator-behind")
    if result.file_set is not None:
        drawn = file_set_findings(result.file_set, "", FALSE_ALARMS_OF_A_TRIAL, sets=result.engines)
        codes += [finding.code for finding in drawn]
    codes += [host_finding.code for host_finding in host_findings(result, loop, "")]
    codes += [finding.code for finding in _restarted(result, "")]
    if result.streams is not None:
        codes += [finding.code for finding in reader_late(result.streams, "")]
    return tuple(dict.fromkeys(codes))


def _fell_behind(result: EngineResult) -> bool:
    """Return whether arrivals were not issued although the target had capacity."""
    counts = result.counts
    full = counts.held or counts.dropped
    return not full and counts.issued < (1 - t.NOT_OFFERED) * counts.intended


def _is_late(result: EngineResult, limit_ns: float) -> bool:
    p99 = result.lateness_ns.p99
    return p99 is not None and p99 > limit_ns


def load_findings(
    result: EngineResult,
    loop: LoopModel,
    subject: str,
    warm_up_ns: int = 0,
    *,
    asked: AskedOfModels | None = None,
    queue: ServerQueue | None = None,
    inputs: tuple[str, ...] = (),
) -> tuple[Finding, ...]:
    """Return every finding about a result, the most serious first; its measured part begins after
    `warm_up_ns`. `asked`: what its requests ask of language models, if they do; `queue`: what their
    server says of its own; `inputs`: the labels of requests that were drawn from a list."""
    order = list(Severity)[::-1]
    found = list(_load_findings(result, loop, subject, warm_up_ns))
    if inputs:
        # Few loads have a list of requests.
        from benchwright.features.load.inputs import input_findings

        found += input_findings(result, inputs, subject)
    for trace in result.traces:
        found += _trace_in_load(trace, subject)
    if result.streams is not None:
        found += stream_findings(result.streams, subject, asked)
    if queue is not None:
        found += server_queue(queue, subject)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def _load_findings(
    result: EngineResult, loop: LoopModel, subject: str, warm_up_ns: int
) -> Iterator[Finding]:
    if result.interrupted:
        ran = _time(result.measured_ns or result.elapsed_ns)
        yield make_finding("load-interrupted", subject, states(ran=ran))
    if result.stopped is not None:
        ran = _time(result.measured_ns or result.elapsed_ns)
        shown = states(ran=ran, waiting=result.counts.waiting)
        yield make_finding("backlog-limit", subject, shown)
    yield from host_findings(result, loop, subject)
    yield from _late(result, loop, subject)
    saturated: list[Finding] = []
    if loop.open:
        yield from _not_offered(result, subject)
        saturated = list(_saturated(result, subject))
        yield from saturated
    if not saturated:
        yield from _unsteady(result, subject, warm_up_ns)
    yield from _few_responses(result, loop, subject)
    yield from _failed(result, subject)
    if result.target.tls is not None and not result.target.tls.verified:
        yield make_finding("certificate-not-verified", subject, states())
    if result.file_set is not None:
        yield from file_set_findings(result.file_set, subject, sets=result.engines)
    yield from _restarted(result, subject)
    yield from _clock_findings(result, subject)
    yield from _few_samples(result, subject)
    if loop.closed:
        yield from _little(result, subject)
        yield _closed(loop, subject)
    if not result.environment.memory_locked:
        why, *more = result.environment.absent or ("locking was not requested",)
        yield make_finding("memory-not-locked", subject, states(why=why, more="; ".join(more)))
    if result.samples is not None:
        yield from _samples(result.samples, subject)


def _restarted(result: EngineResult, subject: str) -> Iterator[Finding]:
    if result.target.verifier_changes:
        shown = states(times=result.target.verifier_changes)
        yield make_finding("server-restarted", subject, shown)


def _samples(samples: FileResult, subject: str) -> Iterator[Finding]:
    if samples.lost or samples.failed:
        shown = states(lost=samples.lost, path=samples.path, why=samples.failed)
        yield make_finding("samples-lost", subject, shown)


def _trace_in_load(trace: TraceResult, subject: str) -> Iterator[Finding]:
    if not trace.operations:
        yield make_finding("trace-empty", subject, empty_trace(trace.path, trace.left_out))
    if trace.skipped_lines:
        shown = states(lines=trace.skipped_lines, path=trace.path)
        yield make_finding("trace-lines-skipped", subject, shown)
    if trace.requests is not None:
        yield from requests_findings(trace.requests, trace.path, trace.duplicates, subject)
        yield from _merged_hosts(trace, subject)


_NO_HOST = "-"
"""The device of requests that state no host."""


def _merged_hosts(trace: TraceResult, subject: str) -> Iterator[Finding]:
    """Yield the finding about requests of several hosts, of the chosen part of a trace, that go to
    one target."""
    hosts = [name for name in trace.devices if name != _NO_HOST]
    if len(hosts) > 1:
        shown = states(hosts=len(hosts), path=trace.path, names=list_text(hosts, 5))
        yield make_finding("trace-hosts-merged", subject, shown)


def requests_findings(
    requests: RecordedRequests, path: str, duplicates: str, subject: str, *, sent: bool = True
) -> Iterator[Finding]:
    """Yield the findings about recorded requests that are not replayed as they were; of those that
    are only described (`sent`), about the ones that are skipped.

    `path`: of the trace. `duplicates`: how requests with one time stamp are replayed.
    """
    skipped = {"methods": requests.unsafe_methods, "bodies": requests.lost_bodies}
    if any(skipped.values()):
        yield make_finding("trace-requests-skipped", subject, _counts(path, skipped))
    if requests.unreplayable:
        kinds = requests.unsendable or {"no request": requests.unreplayable}
        parts = (f"{number:,} x {kind}" for kind, number in kinds.items())
        text = f"records of {path} have no request that can be sent: {', '.join(parts)}"
        yield make_finding("trace-requests-unsendable", subject, text)
    changed = {
        "credentials": requests.credentials if sent else 0,
        "bodies": requests.without_body if sent else 0,
        "lengths": requests.other_lengths,
    }
    if any(changed.values()):
        yield make_finding("trace-requests-changed", subject, _counts(path, changed))
    if requests.whole_seconds:
        how = "spread evenly over it" if duplicates == "spread" else "at its start together"
        shown = states("seconds", requests=requests.whole_seconds, path=path, how=how)
        yield make_finding("trace-stamps-coarse", subject, shown)


def _counts(path: str, counts: Mapping[str, int]) -> FindingFigures:
    return states(path=path, **{name: number or None for name, number in counts.items()})


# -- the generator ---------------------------------------------------------------------


def _late(result: EngineResult, loop: LoopModel, subject: str) -> Iterator[Finding]:
    counts = result.counts
    judged = _late_open if loop.open else _late_closed
    found, grave = judged(result, loop)
    if counts.skipped > t.SKIPPED * counts.intended:
        found |= _part("skipped", counts.skipped, counts.intended)
    if counts.held_late > t.HELD_LATE * counts.intended and _held_by_generator(result):
        found |= _part("held_late", counts.held_late, counts.intended)
    if counts.starved:
        found["starved"] = counts.starved
    if hosts := late_hosts(result, _late_limit_ns(result)) if loop.open else "":
        found["hosts"] = hosts
    if not found:
        yield from _late_tail(result, subject)
        return
    if counts.held > counts.held_late:
        found["waited"] = counts.held - counts.held_late
    if counts.skipped:
        found["unknown"] = _unknown(result)
    severity = Severity.SERIOUS if grave else None
    yield make_finding("generator-late", subject, states(**found), severity)


def _late_open(result: EngineResult, loop: LoopModel) -> tuple[dict[str, Value], bool]:
    """Return how late arrivals were, and whether most arrivals were late."""
    del loop
    lateness, limit = result.lateness_ns, _late_limit_ns(result)
    most = lateness.p50 is not None and lateness.p50 > limit
    if not _is_late(result, limit):
        return {}, most
    p99, judged = _time(lateness.p99 or 0), lateness.count
    return {"p99": p99, "limit": _time(limit), "judged": judged}, most


def _late_closed(result: EngineResult, loop: LoopModel) -> tuple[dict[str, Value], bool]:
    """Return how long slots of a closed loop were empty, and whether the generator paused."""
    mean, share = result.lateness_ns.mean, _empty_share(result, loop)
    if not mean or mean <= t.LATE_NS or share is None or share < t.EMPTY_SHARE:
        return {}, False
    shown: dict[str, Value] = {
        "mean": _time(mean),
        "empty": Figure(share, "%"),
        "most": Figure(t.EMPTY_SHARE, "%"),
    }
    return shown, share > t.EMPTY_SERIOUS and result.elapsed_ns >= t.START_NS


def _empty_share(result: EngineResult, loop: LoopModel) -> float | None:
    """Return lateness as a share of lateness, service and think time, from 0 to 1; without think
    time if the number of slots is unknown; None if lateness or service is unknown."""
    lateness, measured = result.lateness_ns, result.measured_ns
    if lateness.mean is None:
        return None
    if loop.slots and measured:
        return min(1.0, lateness.mean * lateness.count / (loop.slots * measured))
    service = result.all.service_ns.mean
    return None if service is None else lateness.mean / (lateness.mean + service)


def _late_limit_ns(result: EngineResult) -> float:
    """Return the limit of the p99 of lateness, a share of the service time [ns].

    Response times are not used: they contain the lateness that is judged.
    """
    return max(t.LATE_SHARE * (result.all.service_ns.p50 or 0), t.LATE_NS)


def _late_tail(result: EngineResult, subject: str) -> Iterator[Finding]:
    """Yield a finding if the generator causes only the far tail; `null` has no other tail."""
    if result.target.kind == "null":
        return
    response = response_times(result)
    for word, name, share in _TAILS:
        late, whole = getattr(result.lateness_ns, name), getattr(response, name)
        if not late or not whole or result.lateness_ns.count * share < 1:
            continue
        if late > t.LATE_NS and late > t.TAIL_SHARE * whole:
            shown = states("tail", tail=word, response=_time(whole), late=_time(late))
            yield make_finding("generator-late", subject, shown, Severity.NOTE)
            return


def _not_offered(result: EngineResult, subject: str) -> Iterator[Finding]:
    counts = result.counts
    intended, offered = result.intended_rate_per_s, result.offered_rate_per_s
    found: dict[str, Value] = {}
    if intended and offered is not None and offered < (1 - t.NOT_OFFERED) * intended:
        found["offered"], found["intended"] = Figure(offered, "1/s"), Figure(intended, "1/s")
        found["less"] = Figure(1 - offered / intended, "%")
    if counts.dropped > t.DROPPED * counts.intended:
        found |= _part("dropped", counts.dropped, counts.intended)
    if counts.waiting > t.NOT_OFFERED * counts.intended:
        found |= _part("waiting", counts.waiting, counts.intended)
    if hosts := short_hosts(result, 1 - t.NOT_OFFERED):
        found["hosts"] = hosts
    if found:
        shown = states(**found, unknown=_unknown(result))
        yield make_finding("load-not-offered", subject, shown)


# -- the target ------------------------------------------------------------------------


def _saturated(result: EngineResult, subject: str) -> Iterator[Finding]:
    found: dict[str, Value] = {}
    growth = _backlog(result)
    if growth is not None and not _held_by_generator(result):
        found["middle"], found["end"] = growth
    response, service = response_times(result).p50, result.all.service_ns.p50
    counts = result.counts
    held = counts.held - counts.held_late > t.HELD * counts.intended
    if response and service and held and response > t.WAITED_TIMES * service:
        found |= _part("held", counts.held, counts.intended)
        found["times"] = response / service
        found["response"], found["service"] = _time(response), _time(service)
    if result.streams is not None:
        # A stream may last so long that its wait is little of it, and nearly all of its first event.
        first, served = stream_times(result, "first").p50, result.streams.first_service_ns.p50
        if first and served and held and first > t.WAITED_TIMES * served:
            found |= _part("waited", counts.held, counts.intended)
            found["first_times"] = first / served
            found["first"], found["first_service"] = _time(first), _time(served)
    flow = result.flow
    if flow is not None and flow.of_warm_up - flow.in_flight_at_start > t.HELD * flow.completed:
        found |= {"own": flow.completed - flow.of_warm_up, "ended": flow.completed}
    if found:
        yield make_finding("target-saturated", subject, states(**found))


def _few_responses(result: EngineResult, loop: LoopModel, subject: str) -> Iterator[Finding]:
    """Yield a finding if the measured part is so short that its rate depends on where it begins and
    ends; the rate of an open loop that was issued as intended is that of its schedule."""
    flow, intended = result.flow, result.intended_rate_per_s or 0.0
    if flow is None or not result.measured_ns or flow.edge_share <= t.EDGES:
        return
    if loop.open and (result.offered_rate_per_s or 0.0) >= (1 - t.NOT_OFFERED) * intended:
        return
    edge = max(flow.in_flight_at_start, flow.in_flight_at_end)
    least = max(0, flow.completed - flow.in_flight_at_start)
    per_s = 1e9 / result.measured_ns
    shown = states(
        edge=edge,
        ended=flow.completed,
        least=Figure(least * per_s, "1/s"),
        most=Figure((flow.completed + flow.in_flight_at_end) * per_s, "1/s"),
    )
    severity = Severity.WARNING if flow.edge_share >= t.EDGES_MANY else None
    yield make_finding("few-responses", subject, shown, severity)


def _unsteady(result: EngineResult, subject: str, warm_up_ns: int) -> Iterator[Finding]:
    change = response_change(result, warm_up_ns)
    if change is not None:
        first, last = _time(change.first_ns), _time(change.last_ns)
        shown = states(way=change.way, first=first, last=last, when=change.when)
        yield make_finding("response-not-steady", subject, shown)


def _held_by_generator(result: EngineResult) -> bool:
    """Return whether the generator came late to most of the operations that found no slot."""
    counts = result.counts
    return counts.held_late > t.HELD_LATE_MOSTLY * counts.held


def _unknown(result: EngineResult) -> str:
    """Return the percentile from which on response times are unknown; empty if all are known."""
    for word, _, beyond in (("p50", "p50", 0.5), *_TAILS):
        if not result.response_known("all", beyond):
            return word
    return ""


def _backlog(result: EngineResult) -> tuple[int, int] | None:
    """Return the backlog at the middle and at the end if it grew, else None.

    At the end at least 1 % of a second's arrivals must wait: fewer are a burst.
    """
    run = [interval for interval in result.intervals if interval.intended]
    if len(run) < 2:
        return None
    middle, end = run[(len(run) - 1) // 2], run[-1]
    per_s = 1e9 * sum(one.intended for one in run) / max(sum(one.length_ns for one in run), 1)
    waits = end.waiting >= max(1, t.NOT_OFFERED * per_s)
    grew = end.waiting > middle.waiting
    return (middle.waiting, end.waiting) if grew and waits else None


def _failed(result: EngineResult, subject: str) -> Iterator[Finding]:
    counts = result.counts
    if counts.errors:
        kinds = [(k, v) for k, v in sorted(result.kinds.items()) if k != "all"]
        kinds = kinds or [("all", result.all)]
        names = [
            (number, name + (f" of {kind}" if len(kinds) > 1 else ""))
            for kind, kind_result in kinds
            for name, number in sorted(kind_result.errors.items())
        ]
        number, error = names[0] if len(names) == 1 else (None, None)
        listed = ", ".join(f"{number:,} x {name}" for number, name in names)
        many = counts.errors > t.FAILED_SERIOUS * max(1, counts.completed)
        shown = states(
            failed=counts.errors,
            operations=counts.completed,
            number=number,
            error=error,
            names=listed if number is None else None,
            share=Figure(counts.errors / counts.completed, "%"),
            unknown=_unknown(result),
        )
        severity = Severity.SERIOUS if many else None
        yield make_finding("operations-failed", subject, shown, severity)
    if number := result.target.unrequested:
        shown = states(connections=number)
        if result.target.kind == "udp":
            shown = states("datagrams", datagrams=number)
        yield make_finding("unrequested-answers", subject, shown)
    if number := result.target.late_errors:
        yield make_finding("undelivered-datagrams", subject, states(errors=number))
    if number := result.target.unknown_replies:
        yield make_finding("unrequested-answers", subject, states("replies", replies=number))
    if counts.stray:
        yield make_finding("stray-completions", subject, states(completions=counts.stray))
    if counts.undeliverable:
        shown = states(messages=counts.undeliverable)
        yield make_finding("undeliverable-messages", subject, shown)
    if counts.unfinished:
        many = counts.unfinished > t.FAILED_SERIOUS * max(1, counts.issued)
        part = _part("unfinished", counts.unfinished, counts.issued)
        severity = Severity.SERIOUS if many else None
        shown = states(**part, unknown=_unknown(result))
        yield make_finding("operations-unfinished", subject, shown, severity)


# -- the measurement -------------------------------------------------------------------


def _little(result: EngineResult, subject: str) -> Iterator[Finding]:
    """Yield a finding if throughput and times do not describe the operations that were in flight."""
    law = result.little_law
    if law is None or law.deviation <= t.LITTLE:
        return
    shown = states(
        in_flight=law.in_flight_mean,
        rate=Figure(law.rate_per_s, "1/s"),
        time=_time(law.time_ns_mean),
        product=law.product,
        apart=Figure(law.deviation, "%"),
        most=Figure(t.LITTLE, "%"),
    )
    yield make_finding("little-law", subject, shown)


def _clock_findings(result: EngineResult, subject: str) -> Iterator[Finding]:
    clock = result.clock
    drift = clock.drift_ppm
    drifts = drift is not None and abs(drift) > t.CLOCK_DRIFT_PPM
    if drifts or clock.unsound or result.counts.early:
        severity = Severity.SERIOUS if result.counts.early else None
        shown = states(
            source=clock.source,
            drift=drift if drifts else None,
            unsound=clock.unsound,
            early=result.counts.early or None,
        )
        yield make_finding("clock-unsound", subject, shown, severity)
    if clock.absent:
        evidence = f"time is read from {clock.source}: {clock.absent}"
        yield make_finding("clock-slow", subject, evidence)


def _few_samples(result: EngineResult, subject: str) -> Iterator[Finding]:
    """Yield a finding about percentiles of all response times with too few operations."""
    times: TimeDistribution = result.all.response_ns
    if not times.count:
        evidence = "no operation has a response time"
        yield make_finding("few-samples-for-percentile", subject, evidence)
        return
    few = {
        name: times.count * share
        for _, name, share in _TAILS
        if round(times.count * share, 6) < t.FEW_BEYOND
    }
    if few:
        shown = states(operations=times.count, **few)
        yield make_finding("few-samples-for-percentile", subject, shown)


def _closed(loop: LoopModel, subject: str) -> Finding:
    some = "some operations form" if loop.open else "the load is"
    return make_finding("closed-loop", subject, states(which=some))
