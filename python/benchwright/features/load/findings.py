"""Findings about loads: a late generator, a backlog, a trace that was not replayed as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.core.results import Finding, Severity
from benchwright.core.text import (
    duration_ns_text,
    number_text,
    part_text,
    percent_text,
    plural,
    rate_text,
)
from benchwright.features.load.file_set_findings import FALSE_ALARMS_OF_A_TRIAL, file_set_findings
from benchwright.features.load.host_findings import host_findings, late_hosts, short_hosts
from benchwright.features.load.response_times import response_times
from benchwright.features.load.types import (
    EngineResult,
    IntervalResult,
    LoopModel,
    RecordedRequests,
    SamplesResult,
    TimeDistribution,
    TraceResult,
)
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding


def empty_text(path: str, left_out: int) -> str:
    """Return the text about a trace without operations, or without any of the requested ones."""
    if left_out:
        return f"no operation of {path} is in the requested part: all {left_out:,} were left out"
    return f"{path} has no operation"


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
        codes += [
            one.code for one in file_set_findings(result.file_set, "", FALSE_ALARMS_OF_A_TRIAL)
        ]
    codes += [one.code for one in host_findings(result, loop, "")]
    codes += [one.code for one in _restarted(result, "")]
    return tuple(dict.fromkeys(codes))


def _fell_behind(result: EngineResult) -> bool:
    """Return whether arrivals were not issued although the target had capacity."""
    counts = result.counts
    full = counts.held or counts.dropped
    return not full and counts.issued < (1 - t.NOT_OFFERED) * counts.intended


def _is_late(result: EngineResult, limit_ns: float) -> bool:
    p99 = result.lateness_ns.p99
    return p99 is not None and p99 > limit_ns


def load_findings(result: EngineResult, loop: LoopModel, subject: str) -> tuple[Finding, ...]:
    """Return every finding about a result, the most serious first."""
    order = list(Severity)[::-1]
    found = list(_load_findings(result, loop, subject))
    return tuple(sorted(found, key=lambda one: order.index(one.severity)))


def _load_findings(result: EngineResult, loop: LoopModel, subject: str) -> Iterator[Finding]:
    if result.interrupted:
        ran = duration_ns_text(result.measured_ns or result.elapsed_ns)
        yield make_finding("load-interrupted", subject, f"interrupted after {ran}")
    if result.stopped is not None:
        evidence = (
            f"the run was stopped after {duration_ns_text(result.measured_ns or result.elapsed_ns)}: "
            f"{result.counts.waiting:,} operations waited for a free slot"
        )
        yield make_finding("backlog-limit", subject, evidence)
    yield from host_findings(result, loop, subject)
    yield from _late(result, loop, subject)
    if loop.open:
        yield from _not_offered(result, subject)
        yield from _saturated(result, subject)
    yield from _failed(result, subject)
    if result.target.tls is not None and not result.target.tls.verified:
        evidence = "any certificate of the server was accepted (--insecure)"
        yield make_finding("certificate-not-verified", subject, evidence)
    if result.file_set is not None:
        yield from file_set_findings(result.file_set, subject)
    yield from _restarted(result, subject)
    yield from _clock_findings(result, subject)
    yield from _few_samples(result, subject)
    if loop.closed:
        yield from _little(result, subject)
        yield _closed(loop, subject)
    if not result.environment.memory_locked:
        why = "; ".join(result.environment.absent) or "locking was not requested"
        yield make_finding(
            "memory-not-locked", subject, f"the engine's memory is not locked: {why}"
        )
    for trace in result.traces:
        yield from _trace_in_load(trace, subject)
    if result.samples is not None:
        yield from _samples(result.samples, subject)


def _restarted(result: EngineResult, subject: str) -> Iterator[Finding]:
    if result.target.verifier_changes:
        times = plural(result.target.verifier_changes, "time")
        evidence = f"the write verifier of the server changed {times}"
        yield make_finding("server-restarted", subject, evidence)


def _samples(samples: SamplesResult, subject: str) -> Iterator[Finding]:
    if samples.lost or samples.failed:
        evidence = f"{samples.lost:,} operations are missing from {samples.path}"
        if samples.failed:
            evidence += f": {samples.failed}"
        yield make_finding("samples-lost", subject, evidence)


def _trace_in_load(trace: TraceResult, subject: str) -> Iterator[Finding]:
    if not trace.operations:
        text = empty_text(trace.path, trace.left_out)
        yield make_finding("trace-empty", subject, text)
    if trace.skipped_lines:
        text = f"{trace.skipped_lines:,} lines of {trace.path} were not understood"
        yield make_finding("trace-lines-skipped", subject, text)
    if trace.requests is not None:
        yield from requests_findings(trace.requests, trace.path, trace.duplicates, subject)


def requests_findings(
    requests: RecordedRequests, path: str, duplicates: str, subject: str, *, sent: bool = True
) -> Iterator[Finding]:
    """Yield the findings about recorded requests that are not replayed as they were; of those that
    are only described (`sent`), about the ones that are skipped.

    `path`: of the trace. `duplicates`: how requests with one time stamp are replayed.
    """
    skipped = (
        ("with a method other than GET, HEAD and OPTIONS", requests.unsafe_methods),
        (
            "with a body that is described (multipart/form-data), but not recorded",
            requests.lost_bodies,
        ),
    )
    if any(number for _, number in skipped):
        parts = (f"{number:,} {what}" for what, number in skipped if number)
        text = f"records of {path} were skipped: {', '.join(parts)}"
        yield make_finding("trace-requests-skipped", subject, text)
    if requests.unreplayable:
        kinds = requests.unsendable or {"no request": requests.unreplayable}
        parts = (f"{number:,} x {kind}" for kind, number in kinds.items())
        text = f"records of {path} have no request that can be sent: {', '.join(parts)}"
        yield make_finding("trace-requests-unsendable", subject, text)
    changed = (
        ("without their credentials", requests.credentials if sent else 0),
        ("with an empty body, since theirs is unknown", requests.without_body if sent else 0),
        ("with a body that does not have the length that the trace states", requests.other_lengths),
    )
    if any(number for _, number in changed):
        parts = (f"{number:,} {what}" for what, number in changed if number)
        text = f"requests of {path} are sent otherwise: {', '.join(parts)}"
        yield make_finding("trace-requests-changed", subject, text)
    if requests.whole_seconds:
        how = "spread evenly over it" if duplicates == "spread" else "at its start together"
        text = (
            f"{requests.whole_seconds:,} requests of {path} have time stamps of whole seconds: "
            f"those of one second are {how}"
        )
        yield make_finding("trace-stamps-coarse", subject, text)


# -- the generator ---------------------------------------------------------------------


def _late(result: EngineResult, loop: LoopModel, subject: str) -> Iterator[Finding]:
    counts = result.counts
    judged = _late_open if loop.open else _late_closed
    reasons, grave = judged(result, loop)
    if counts.skipped > t.SKIPPED * counts.intended:
        reasons.append(
            f"{part_text(counts.skipped, counts.intended)} were too late and were skipped"
        )
    if counts.held_late > t.HELD_LATE * counts.intended and _held_by_generator(result):
        reasons.append(
            f"{part_text(counts.held_late, counts.intended)} found no slot, because operations before them "
            "were late and started together"
        )
    if counts.starved:
        reasons.append(f"the trace reader fell behind {counts.starved:,} times")
    if hosts := late_hosts(result, _late_limit_ns(result)) if loop.open else "":
        reasons.append(hosts)
    if not reasons:
        yield from _late_tail(result, subject)
        return
    if counts.held > counts.held_late:
        waited = counts.held - counts.held_late
        reasons.append(f"{waited:,} that waited for a slot are not included")
    severity = Severity.SERIOUS if grave else None
    evidence = "; ".join(reasons) + (_unknown(result) if counts.skipped else "")
    yield make_finding("generator-late", subject, evidence, severity)


def _late_open(result: EngineResult, loop: LoopModel) -> tuple[list[str], bool]:
    """Return texts about late arrivals, and whether most arrivals were late."""
    del loop
    lateness, limit = result.lateness_ns, _late_limit_ns(result)
    most = lateness.p50 is not None and lateness.p50 > limit
    if not _is_late(result, limit):
        return [], most
    reason = (
        f"the p99 of lateness is {duration_ns_text(lateness.p99)} ({duration_ns_text(limit)} or "
        f"less is fine), over {lateness.count:,} operations that did not wait for the target"
    )
    return [reason], most


def _late_closed(result: EngineResult, loop: LoopModel) -> tuple[list[str], bool]:
    """Return texts about the empty slots of a closed loop, and whether the generator paused."""
    mean, share = result.lateness_ns.mean, _empty_share(result, loop)
    if not mean or mean <= t.LATE_NS or share is None or share < t.EMPTY_SHARE:
        return [], False
    reason = (
        f"an operation started {duration_ns_text(mean)} after it was due, on average: its slot was "
        f"empty for {percent_text(share)} of the time ({percent_text(t.EMPTY_SHARE)} or less is fine)"
    )
    return [reason], share > t.EMPTY_SERIOUS and result.elapsed_ns >= t.START_NS


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
            evidence = (
                f"from {word} on, response times ({duration_ns_text(whole)}) are mostly the "
                f"generator's lateness ({duration_ns_text(late)})"
            )
            yield make_finding("generator-late", subject, evidence, Severity.NOTE)
            return


def _not_offered(result: EngineResult, subject: str) -> Iterator[Finding]:
    counts = result.counts
    intended, offered = result.intended_rate_per_s, result.offered_rate_per_s
    reasons = []
    if intended and offered is not None and offered < (1 - t.NOT_OFFERED) * intended:
        short = 100 * (1 - offered / intended)
        reasons.append(
            f"{rate_text(offered)} offered of {rate_text(intended)} intended ({short:.3g} % less)"
        )
    if counts.dropped > t.DROPPED * counts.intended:
        reasons.append(
            f"{part_text(counts.dropped, counts.intended)} found no free slot and were dropped"
        )
    if counts.waiting > t.NOT_OFFERED * counts.intended:
        reasons.append(f"{part_text(counts.waiting, counts.intended)} never started")
    if hosts := short_hosts(result, 1 - t.NOT_OFFERED):
        reasons.append(hosts)
    if reasons:
        evidence = "; ".join(reasons) + _unknown(result)
        yield make_finding("load-not-offered", subject, evidence)


# -- the target ------------------------------------------------------------------------


def _saturated(result: EngineResult, subject: str) -> Iterator[Finding]:
    reasons = []
    growth = _backlog(result)
    if growth is not None and not _held_by_generator(result):
        reasons.append(
            f"{growth[0]:,} operations waited in the middle of the run, {growth[1]:,} at its end"
        )
    response, service = response_times(result).p50, result.all.service_ns.p50
    counts = result.counts
    held = counts.held - counts.held_late > t.HELD * counts.intended
    if response and service and held and response > t.WAITED_TIMES * service:
        reasons.append(
            f"{part_text(counts.held, counts.intended)} waited for a slot; the "
            f"median response ({duration_ns_text(response)}) is {number_text(response / service, 3)} times "
            f"the service time ({duration_ns_text(service)})"
        )
    if reasons:
        yield make_finding("target-saturated", subject, "; ".join(reasons))


def _held_by_generator(result: EngineResult) -> bool:
    """Return whether the generator came late to most of the operations that found no slot."""
    counts = result.counts
    return counts.held_late > t.HELD_LATE_MOSTLY * counts.held


def _unknown(result: EngineResult) -> str:
    """Return the percentile from which on response times are unknown; empty if all are known."""
    for word, _, beyond in (("p50", "p50", 0.5), *_TAILS):
        if not result.response_known("all", beyond):
            return f"; from {word} on, response times are unknown"
    return ""


def _backlog(result: EngineResult) -> tuple[int, int] | None:
    """Return the backlog at the middle and at the end if it grew, else None.

    At the end at least 1 % of an interval's arrivals must wait: fewer are a burst.
    """
    run = [interval for interval in result.intervals if interval.intended]
    if len(run) < 2:
        return None
    middle, end = run[(len(run) - 1) // 2], run[-1]
    grew = end.waiting > middle.waiting
    return (middle.waiting, end.waiting) if grew and _waits(end) else None


def _waits(interval: IntervalResult) -> bool:
    return interval.waiting >= max(1, t.NOT_OFFERED * interval.intended)


def _failed(result: EngineResult, subject: str) -> Iterator[Finding]:
    counts = result.counts
    if counts.errors:
        kinds = [(k, v) for k, v in sorted(result.kinds.items()) if k != "all"]
        kinds = kinds or [("all", result.all)]
        names = [
            f"{number:,} x {name}" + (f" of {kind}" if len(kinds) > 1 else "")
            for kind, one in kinds
            for name, number in sorted(one.errors.items())
        ]
        many = counts.errors > t.FAILED_SERIOUS * max(1, counts.completed)
        evidence = (
            f"{counts.errors:,} of {plural(counts.completed, 'operation')} failed: "
            f"{', '.join(names)} ({percent_text(counts.errors / counts.completed)})"
            f"{_unknown(result)}"
        )
        severity = Severity.SERIOUS if many else None
        yield make_finding("operations-failed", subject, evidence, severity)
    if result.target.unrequested:
        if result.target.kind == "udp":
            number = plural(result.target.unrequested, "datagram")
            evidence = f"{number} arrived for which no operation waited"
        else:
            number = plural(result.target.unrequested, "connection")
            evidence = f"{number} received bytes that no request was waiting for"
        yield make_finding("unrequested-answers", subject, evidence)
    if result.target.late_errors:
        number = plural(result.target.late_errors, "error")
        evidence = f"{number} of the network for datagrams that expect no answer"
        yield make_finding("undelivered-datagrams", subject, evidence)
    if result.target.unknown_replies:
        evidence = f"replies that belong to no call: {result.target.unknown_replies:,}"
        yield make_finding("unrequested-answers", subject, evidence)
    if counts.stray:
        number = plural(counts.stray, "completion")
        evidence = f"{number} of operations that were not in flight"
        yield make_finding("stray-completions", subject, evidence)
    if counts.undeliverable:
        number = plural(counts.undeliverable, "message")
        evidence = f"{number} to filaments that do not exist"
        yield make_finding("undeliverable-messages", subject, evidence)
    if counts.unfinished:
        many = counts.unfinished > t.FAILED_SERIOUS * max(1, counts.issued)
        part = part_text(counts.unfinished, counts.issued)
        evidence = f"{part} were unfinished at the end of the run{_unknown(result)}"
        severity = Severity.SERIOUS if many else None
        yield make_finding("operations-unfinished", subject, evidence, severity)


# -- the measurement -------------------------------------------------------------------


def _little(result: EngineResult, subject: str) -> Iterator[Finding]:
    """Yield a finding if throughput and times do not describe the operations that were in flight."""
    law = result.little_law
    if law is None or law.deviation <= t.LITTLE:
        return
    evidence = (
        f"{number_text(law.in_flight_mean)} operations were in flight on average; "
        f"{rate_text(law.rate_per_s)} of {duration_ns_text(law.time_ns_mean)} each are "
        f"{number_text(law.product)} ({percent_text(law.deviation)} apart, "
        f"{percent_text(t.LITTLE)} or less is fine)"
    )
    yield make_finding("little-law", subject, evidence)


def _clock_findings(result: EngineResult, subject: str) -> Iterator[Finding]:
    clock = result.clock
    reasons = []
    if clock.drift_ppm is not None and abs(clock.drift_ppm) > t.CLOCK_DRIFT_PPM:
        reasons.append(f"{clock.source} was {clock.drift_ppm:+.3g} ppm off its calibration")
    if clock.unsound:
        reasons.append(f"during the run, {clock.unsound}")
    if result.counts.early:
        reasons.append(f"{result.counts.early:,} operations started before they were due")
    if reasons:
        severity = Severity.SERIOUS if result.counts.early else None
        yield make_finding("clock-unsound", subject, "; ".join(reasons), severity)
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
    few = [
        f"{times.count * share:.2g} beyond {word}"
        for word, _, share in _TAILS
        if round(times.count * share, 6) < t.FEW_BEYOND
    ]
    if few:
        evidence = f"of {times.count:,} operations there are {', '.join(few)}"
        yield make_finding("few-samples-for-percentile", subject, evidence)


def _closed(loop: LoopModel, subject: str) -> Finding:
    some = "some operations form" if loop.open else "the load is"
    evidence = (
        f"{some} a closed loop: response times omit the wait of further arrivals "
        "(coordinated omission), because no operation starts until the one before it ends"
    )
    return make_finding("closed-loop", subject, evidence)
