"""The result of a load and its progress in words: the answer, how it was measured, how it ended.

Decision: the sentence has what a reader wants to know (was the rate reached, how long did
responses take, did operations fail) and the issue error, which shows whether the generator kept
its schedule. How it was measured (clock, pacer, features of the target) is for --verbose and for
the page. Non-goal: tables (`view.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import msgspec

from benchwright.core.comparison import GateOutcome
from benchwright.core.progress import ProgressDisplay
from benchwright.core.text import (
    binary_size_text,
    byte_rate_text,
    duration_ns_text,
    list_text,
    number_text,
    percent_text,
    plural,
    rate_text,
    rounded_down,
    size_text,
)
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line
from benchwright.features.load.response_times import response_times
from benchwright.features.load.streams import (
    good_streams,
    goodput_per_s,
    missing_streams,
    stream_times,
)
from benchwright.features.load.types import (
    EngineResult,
    FileResult,
    FileSetProgress,
    FileSetResult,
    FlowCounts,
    KindResult,
    LimitVerdict,
    LoadCounts,
    LoadProgress,
    StreamResult,
    TargetResult,
    TimeDistribution,
    TlsResult,
    TraceResult,
    response_rank,
)
from benchwright.findings.thresholds import EDGES, FEW_BEYOND
from benchwright.views.terminal import Paint, unpainted

COLUMNS = (
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.1),
    ("p99", "p99", 0.01),
    ("p99.9", "p99_9", 0.001),
    ("p99.99", "p99_99", 0.0001),
    ("max", "max", 1.0),
)
_LATER = 0.01
"""Minimum wait for the last operations that is reported, as a share of the measured part."""
_AS_REQUESTED = 0.01
"""Of a load that kept its rate: maximum difference between the issued, the achieved and the drawn
rate, and between the drawn and the requested one."""
_OTHER_RATE = 0.1
"""Maximum difference of the drawn from the requested rate, as a share."""
_SIGMAS = 4
"""Standard deviations of the number of Poisson arrivals that chance explains."""
MANY_KINDS = 5
"""From this number on, an answer has the number of kinds, and a table only the response times of
each."""
REQUESTS = "requests"
"""What operations on a server are called where no better word is known."""


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the report of a load needs besides its result."""

    target: str
    open_loop: bool
    """Only an open loop has an intended rate: in a closed loop, arrivals follow responses."""
    asked_per_s: float | None = None
    """The requested rate [1/s]; the intended rate is that of the generated arrivals."""
    duration_ns: int | None = None
    """The requested length, without the warm-up."""
    warm_up_ns: int = 0
    exchange: str = REQUESTS
    """What operations on a server are called."""
    limits: tuple[LimitVerdict, ...] = ()
    """The verdicts on the limits of the load."""
    width: int = 100
    """Of lines of text."""
    table_width: int | None = None
    """Of tables; None: all their columns."""
    paint: Paint = unpainted
    verbose: bool = False
    """Whether findings have evidence and remedy, and how it was measured is shown."""

    def kind_name(self, kind: str) -> str:
        """Return the name of a kind of operations for users; operations on a server have that of
        their request."""
        return self.exchange if kind == "exchange" else kind

    @property
    def with_warm_up(self) -> str:
        """The label of a count of the whole run; empty without a warm-up."""
        return " (with the warm-up)" if self.warm_up_ns else ""

    def limits_text(self, outcome: GateOutcome) -> str:
        """Return `2 limits`, the number of those with this outcome; empty for none."""
        number = sum(verdict.outcome is outcome for verdict in self.limits)
        return plural(number, "limit") if number else ""


def load_sentence(result: EngineResult, report: LoadReport) -> str:
    """Return the answer: `read: 10,000/s as requested; response p99 105 us; 0 of 50,000 failed;
    issue error p99 28 us`."""
    names = [report.kind_name(kind) for kind, _ in shown_kinds(result) if kind != "all"]
    kinds = list_text(names or ["load"])
    if len(names) >= MANY_KINDS:
        kinds = f"{len(names)} kinds of operations"
    parts = _clauses(result, report)
    if result.interrupted:
        whole = report.duration_ns
        of = f" of {duration_ns_text(whole)}" if whole else ""
        after = duration_ns_text(result.measured_ns or result.elapsed_ns)
        parts.append(f"interrupted after {after}{of}")
    for outcome, word in VERDICTS.items():
        if number := report.limits_text(outcome):
            parts.append(f"{number} {word}")
    return f"{kinds}: {'; '.join(parts)}"


VERDICTS = {
    GateOutcome.FAILED: "missed",
    GateOutcome.UNDECIDED: "undecided",
    GateOutcome.PASSED: "held",
}
"""Outcomes in the words of the report, the worst first."""


def load_headline(result: EngineResult, report: LoadReport) -> str:
    """Return the answer in a few words: `10,000/s as requested; response p99 105 us`."""
    parts = _clauses(result, report)[:2]
    if result.interrupted:
        parts[1:] = ["interrupted"]
    if missed := report.limits_text(GateOutcome.FAILED):
        parts[:1] = [f"{missed} missed", *parts[:1]]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}"


def _clauses(result: EngineResult, report: LoadReport) -> list[str]:
    """Return the clauses of the answer, the most important first."""
    counts, every, flow = result.counts, result.all, result.flow
    started = counts.issued or (flow is not None and flow.issued)
    if result.achieved_rate_per_s is None or not started:
        return ["no operation started"]
    failed = f"{counts.errors:,} of {counts.intended:,} failed"
    if counts.errors == counts.intended:
        failed = f"all {counts.errors:,} failed"
    if counts.unfinished:
        failed += f", {counts.unfinished:,} did not end"
    if never := counts.never_ended - counts.unfinished:
        failed += f", {never:,} never started"
    rate = _rate_clause(result, report)
    if succeeded := succeeded_text(result):
        rate += f", {succeeded}"
    response = f"response {_tail_text(result, response_times(result), is_response=True)}"
    parts = [rate, *_stream_clauses(result), response, failed]
    if counts.without_response:
        parts = [failed, *parts[:-1]]
    return [*parts, f"issue error {_tail_text(result, every.issue_error_ns)}"]


def _stream_clauses(result: EngineResult) -> list[str]:
    """Return `first p99 210 ms`, `tpot p99 22 ms`, `97.2 % good`; nothing without streams."""
    if result.streams is None:
        return []
    parts = []
    for name in ("first", "tpot"):
        times = stream_times(result, name)
        if times.count:
            beyond = partial(_is_beyond, *missing_streams(result, name))
            parts.append(f"{name} {_tail_of(times, beyond)}")
    good = good_streams(result)
    if good is not None and good.whole:
        parts.append(f"{percent_text(good.some / good.whole)} good")
    return parts


def _is_beyond(missing: int, whole: int, share: float) -> bool:
    """Return whether the percentile beyond which this share lies is of a stream without a value."""
    return response_rank(1 - share, missing, whole) is None


def succeeded_text(result: EngineResult) -> str:
    """Return `133/s succeeded` where the achieved rate contains many failures, else an empty
    text."""
    achieved, succeeded = result.achieved_rate_per_s, result.rates_of(result.all)[0]
    if not achieved or not succeeded or achieved - succeeded <= _AS_REQUESTED * achieved:
        return ""
    return f"{rate_text(succeeded)} succeeded"


def _rate_clause(result: EngineResult, report: LoadReport) -> str:
    """Return `10,000/s as requested`, `500/s requested, 494/s drawn and issued`, or how much of the
    requested rate was achieved."""
    achieved, drawn = result.achieved_rate_per_s or 0.0, result.intended_rate_per_s
    offered = result.offered_rate_per_s or 0.0
    if not report.open_loop or not drawn:
        if result.flow is not None and offered - achieved > EDGES * achieved:
            return f"{rate_text(achieved)} to {rate_text(offered)} in a closed loop"
        return f"{rate_text(achieved)} in a closed loop"
    wish, word = report.asked_per_s, "requested"
    if wish is None:
        wish, word = drawn, "intended"
    elif _other_rate(drawn, wish, result.counts.intended):
        share = percent_text(achieved / wish)
        return f"{rate_text(achieved)}, {share} of the requested {rate_text(wish)}"
    ended = abs(achieved - drawn) <= _AS_REQUESTED * drawn
    issued = result.flow is not None and abs(offered - drawn) <= _AS_REQUESTED * drawn
    if ended or issued:
        text = f"{rate_text(wish)} as {word}"
        if abs(drawn - wish) > _AS_REQUESTED * wish:
            # Arrivals at random times are seldom exactly as many as requested.
            text = f"{rate_text(wish)} {word}, {rate_text(drawn)} drawn and issued"
        return text if ended else f"{text}, {rate_text(achieved)} ended in time"
    share, whole = percent_text(achieved / drawn), f"{word} {rate_text(wish)}"
    if abs(drawn - wish) > _AS_REQUESTED * wish:
        whole = f"{rate_text(drawn)} drawn, {rate_text(wish)} {word}"
    return f"{rate_text(achieved)}, {share} of the {whole}"


def _other_rate(drawn: float, wish: float, operations: int) -> bool:
    """Return whether the drawn rate differs from the requested one by more than chance explains.

    Chains on files have the rate of operations that follows from their tables of sizes; the popular
    files of a set may be larger or smaller.
    """
    by_chance = _SIGMAS / math.sqrt(max(1, operations))
    return abs(drawn - wish) > max(_OTHER_RATE, by_chance) * wish


def _tail_text(result: EngineResult, times: TimeDistribution, *, is_response: bool = False) -> str:
    """Return `p99 105 us`: the highest percentile up to p99 with enough operations beyond it."""
    return _tail_of(times, lambda share: is_response and not result.response_known("all", share))


def _tail_of(times: TimeDistribution, unknown: Callable[[float], bool]) -> str:
    """Return `p99 105 us`; `unknown`: whether a percentile is, by the share beyond it."""
    if not times.count:
        return "time unknown"
    enough = [
        (title, name, share)
        for title, name, share in COLUMNS[:3]
        if times.count * share >= FEW_BEYOND
    ]
    title, name, share = (enough or [COLUMNS[0]])[-1]
    if unknown(share):
        longest = ""
        if times.max is not None:
            longest = f", over {duration_ns_text(rounded_down(times.max))}"
        return f"{title} unknown{longest}"
    return f"{title} {duration_ns_text(getattr(times, name))}"


def facts(result: EngineResult, report: LoadReport) -> Iterator[Field]:
    """Yield the target, the rates, and how it was measured, as names and texts."""
    intended = _intended(result, report.asked_per_s) if report.open_loop else ""
    whole = report.with_warm_up
    yield ("target", _target(result, report.target))
    yield ("rate", _rates(result, intended) + _measured(result, report.warm_up_ns))
    for kind, one in shown_kinds(result):
        rate, byte_rate = result.rates_of(one)
        if byte_rate and result.target.kind != "null":
            name = report.kind_name(kind)
            yield (name, f"{rate_text(rate)}, {byte_rate_text(byte_rate)}")
    flow = result.flow
    if flow is not None and (report.verbose or flow.waiting_at_end or flow.edge_share > EDGES):
        counts = (f"{number:,} {name}" for name, number in flow_counts(flow))
        yield ("in this time", ", ".join(counts))
    if report.verbose or result.counts.without_response or result.counts.held:
        counts = (
            plural(number, "error") if name == "errors" else f"{number:,} {name}"
            for name, number in outcome_counts(result.counts)
        )
        yield ("operations", ", ".join(counts))
    yield from _stream_facts(result, verbose=report.verbose)
    if result.file_set is not None:
        yield ("file set", _file_set_text(result.file_set, report))
    if traffic := _traffic(result):
        yield ("network", traffic)
    connections = _connections(result)
    if connections:
        yield ("connections", connections + whole)
    statuses = _statuses(result.target)
    if statuses:
        yield ("responses", statuses)
    for target in (result.target, *result.target.targets.values()):
        for name, text in target.grpc_messages.items():
            yield ("said with", f"{name}: {one_line(text)}")
    if result.target.pushes:
        yield ("server's own", f"{result.target.pushes:,} messages that answer no operation")
    if result.target.nil_replies:
        yield ("nil replies", f"{result.target.nil_replies:,} (no such key, or no value)")
    if result.target.kind == "udp" and result.target.timeouts:
        late = f"{result.target.late_replies:,} of them answered after the limit"
        yield ("timeouts", f"{plural(result.target.timeouts, 'operation')}, {late}")
    if result.target.jukebox:
        number = plural(result.target.jukebox, "call")
        yield ("postponed", f"{number} (JUKEBOX), sent again")
    for trace in result.traces:
        yield ("trace", _trace(trace, result) + whole)
    for process in result.processes:
        what = f"{plural(process.events, 'event')}, {process.replies:,} replies{whole}"
        yield ("process", f"filament {process.filament}: {what}")
    if result.hosts:
        yield ("hosts", _hosts_text(result))
    if result.samples is not None:
        rows = plural(result.samples.rows, "row")
        yield ("samples", f"{rows} in {result.samples.path}{whole}")
    if result.actions is not None:
        yield ("actions", _actions(result.actions))
    if report.verbose:
        if result.target.tls is not None:
            yield ("TLS", _tls(result.target.tls))
        if result.target.features:
            yield ("features", ", ".join(result.target.features))
        yield ("clock", _clock(result))
        yield ("pacer", f"{result.pacer}; {_workers(result)}")
        for absent in (*result.target.absent, *result.environment.absent):
            yield ("absent", absent)


def _stream_facts(result: EngineResult, *, verbose: bool) -> Iterator[Field]:
    """Yield what the streams of a load were: events, tokens, good ones."""
    streams = result.streams
    if streams is None:
        return
    content = streams.content_events
    text = f"{content:,} in {plural(streams.succeeded, 'stream')}"
    if others := streams.events - content:
        text += f", and {others:,} without content"
    if streams.shared_events:
        share = percent_text(streams.shared_events / max(1, content))
        text += f"; {share} shared a read with the one before"
    if verbose and streams.read_lateness_ns.p99 is not None:
        text += f"; read {duration_ns_text(streams.read_lateness_ns.p99)} after their arrival (p99)"
    yield ("events", text)
    ended_badly = ((streams.cut, "without their end"), (streams.failed_inside, "with an error"))
    if any(number for number, _ in ended_badly):
        said = (f"{plural(number, 'stream')} {how}" for number, how in ended_badly if number)
        yield ("ended", ", ".join(said))
    if streams.with_tokens:
        yield ("tokens", _tokens_text(streams))
    good = good_streams(result)
    if good is not None and good.whole:
        share = percent_text(good.some / good.whole)
        per_s = goodput_per_s(result)
        rate = "" if per_s is None else f", {rate_text(per_s)}"
        yield ("good", f"{good.some:,} of {good.whole:,} streams ({share}){rate}")


def _tokens_text(streams: StreamResult) -> str:
    """Return `12,800 of 100 streams, 640/s; 1.02 an event; prompts 51,200, 3 % of them cached`."""
    known = streams.with_tokens
    text = f"{streams.tokens:,} in {plural(known, 'stream')}"
    if streams.tokens_per_s is not None:
        text += f", {rate_text(streams.tokens_per_s)}"
    if streams.content_events and known == streams.succeeded:
        text += f", {number_text(streams.tokens / streams.content_events)} an event"
    if streams.reasoning_tokens:
        text += f", {percent_text(streams.reasoning_tokens / max(1, streams.tokens))} reasoning"
    text += f"; {number_text(streams.prompt_tokens / known)} in a prompt"
    if streams.cached_tokens is not None:
        cached = percent_text(streams.cached_tokens / max(1, streams.prompt_tokens))
        text += f", {cached} of them from the server's cache"
    return text


def _statuses(target: TargetResult) -> str:
    """Return the responses of an HTTP server by the class of their status."""
    counts = (
        ("2xx", target.status_2xx),
        ("3xx", target.status_3xx),
        ("4xx", target.status_4xx),
        ("5xx", target.status_5xx),
    )
    return ", ".join(f"{number:,} {name}" for name, number in counts if number)


def _target(result: EngineResult, target: str) -> str:
    made = result.target
    parts = [target]
    if made.engine is not None:
        parts.append(made.engine)
    if made.tls is not None:
        parts.append(made.tls.version)
    if made.size_bytes is not None and made.kind == "file":
        parts.append(binary_size_text(made.size_bytes))
    return ", ".join(parts)


def _connections(result: EngineResult) -> str:
    """Return how long connects and handshakes took; empty for a target without them."""
    named = (("connect", result.target.connect_ns), ("handshake", result.target.handshake_ns))
    parts = []
    for name, times in named:
        if times is None or times.mean is None or times.p99 is None or times.max is None:
            continue
        figures = (times.mean, times.p99, times.max)
        mean, p99, longest = (duration_ns_text(ns) for ns in figures)
        number = plural(times.count, name)
        parts.append(f"{number}: mean {mean}, p99 {p99}, max {longest}")
    return "; ".join(parts)


def _tls(tls: TlsResult) -> str:
    alpn = "" if tls.alpn is None else f", {tls.alpn}"
    verified = "verified" if tls.verified else "not verified"
    return f"{tls.version}, {tls.cipher}{alpn}; certificate {verified}"


def _clock(result: EngineResult) -> str:
    clock = result.clock
    text = clock.source
    if clock.hz is not None:
        text += f", {clock.hz / 1e9:.4g} GHz"
    if clock.drift_ppm is not None:
        text += f", {clock.drift_ppm:+.2g} ppm off its first calibration"
    return text


def _workers(result: EngineResult) -> str:
    number = len(result.workers)
    cpus = [str(worker.cpu) for worker in result.workers if worker.cpu is not None]
    text = plural(number, "worker")
    if cpus:
        text += f" on cpu {', '.join(cpus)}"
    scheduled = {str(worker.scheduling) for worker in result.workers if worker.scheduling}
    return "; ".join((text, *sorted(scheduled)))


def _intended(result: EngineResult, asked_per_s: float | None) -> str:
    intended_rate_per_s = result.intended_rate_per_s
    if intended_rate_per_s is None:
        return ""
    if asked_per_s is None:
        return f"intended {rate_text(intended_rate_per_s)}, "
    asked, text = rate_text(asked_per_s), rate_text(intended_rate_per_s)
    return f"requested {asked}, " if asked == text else f"requested {asked}, drawn {text}, "


def _rates(result: EngineResult, intended: str) -> str:
    offered, achieved = result.offered_rate_per_s, result.achieved_rate_per_s
    if offered is None and achieved is None:
        return "none: no operation started"
    text = f"{intended}achieved {rate_text(achieved)}"
    if offered is not None and rate_text(offered) != rate_text(achieved):
        text = f"{intended}offered {rate_text(offered)}, achieved {rate_text(achieved)}"
    return text


def _traffic(result: EngineResult) -> str:
    """Return what was sent and received, heads included: the rates of operations count replies."""
    targets = (result.target, *result.target.targets.values())
    sent = sum(target.sent_bytes for target in targets)
    received = sum(target.received_bytes for target in targets)
    if not sent + received:
        return ""
    return f"{size_text(sent)} sent, {size_text(received)} received"


def _measured(result: EngineResult, warm_up_ns: int) -> str:
    """Return the length of the measured part, with the warm-up before and the wait after it."""
    length_ns = result.measured_ns
    if length_ns is None:
        return ""
    text = f" in {duration_ns_text(length_ns)}"
    if warm_up_ns:
        text += f" after {duration_ns_text(warm_up_ns)} of warm-up"
    later_ns = result.elapsed_ns - warm_up_ns - length_ns
    if later_ns > _LATER * length_ns:
        text += f"; the last ended {duration_ns_text(later_ns)} later"
    return text


def outcome_counts(counts: LoadCounts) -> Iterator[tuple[str, int]]:
    """Yield the number of operations with each outcome; of rare ones, where there are any."""
    yield "intended", counts.intended
    yield "issued", counts.issued
    yield "completed", counts.completed
    yield "errors", counts.errors
    rare = (
        ("dropped", counts.dropped),
        ("skipped", counts.skipped),
        ("delayed", counts.held),
        ("issued after the end", counts.drained),
        ("never started", counts.waiting),
        ("unfinished", counts.unfinished),
    )
    yield from ((name, number) for name, number in rare if number)


def flow_counts(flow: FlowCounts) -> Iterator[tuple[str, int]]:
    """Yield the number of operations that started and ended in the measured part, and that were
    there at its edges."""
    yield "started", flow.issued
    yield "ended", flow.completed
    rare = (
        ("waiting at its start", flow.waiting_at_start),
        ("in flight at its start", flow.in_flight_at_start),
        ("waiting at its end", flow.waiting_at_end),
        ("in flight at its end", flow.in_flight_at_end),
    )
    yield from ((name, number) for name, number in rare if number)


def _actions(file: FileResult) -> str:
    text = f"{plural(file.rows, 'action')} in {file.path}"
    if file.lost:
        text += f", the last of {file.rows + file.lost:,}"
    return text if file.failed is None else f"{text}; the file is incomplete: {file.failed}"


def _trace(trace: TraceResult, result: EngineResult) -> str:
    policies = (
        ("lines skipped", trace.skipped_lines),
        ("reordered", trace.reordered),
        ("spread", trace.spread),
        ("wrapped", trace.wrapped),
        ("clipped", trace.clipped),
        ("left out", trace.left_out),
    )
    text = f"{trace.path}: {plural(trace.operations, 'operation')}"
    if trace.requests is not None:
        text += f", {trace.requests.distinct:,} different"
    if sum(trace.operations for trace in result.traces) > result.counts.intended:
        # The reader reads ahead; the run ended before it used all operations.
        text += f" read, the run intended {result.counts.intended:,}"
    text += "".join(f", {number:,} {name}" for name, number in policies if number)
    return text + (", offsets scaled" if trace.scaled else "")


def shown_kinds(result: EngineResult) -> list[tuple[str, KindResult]]:
    """Return each kind, and `all` if there are several kinds."""
    kinds = [(k, v) for k, v in result.kinds.items() if k != "all" and v.operations]
    return kinds if len(kinds) == 1 else [*kinds, ("all", result.all)]


# -- file sets ------------------------------------------------------------------------


def _file_set_text(files: FileSetResult, report: LoadReport) -> str:
    """Return `4,200 files (111 MiB) in 21 directories; 20 made, 4,180 re-used, in 12 ms; 3
    operations without a usable object`."""
    made = files.made
    present = files.files if made is None else made.files
    size = binary_size_text(files.bytes if made is None else made.bytes)
    where = files.directories
    text = f"{plural(present, 'file')} ({size}) in {where:,} director{'y' if where == 1 else 'ies'}"
    without = ""
    if files.unavailable:
        number = plural(files.unavailable, "operation")
        without = f"; {number} without a usable object{report.with_warm_up}"
    if made is None:
        return text + without
    done = (
        ("made", made.made),
        ("repaired", made.repaired),
        ("re-used", made.reused),
        ("removed", made.removed),
    )
    text += "; " + ", ".join(f"{count:,} {word}" for word, count in done if count)
    return f"{text}, in {duration_ns_text(made.making_ns)}{without}"


# -- how it ended ----------------------------------------------------------------------


class EndingCase(msgspec.Struct, frozen=True):
    """A case of JUnit XML about how a load ended, besides its limits."""

    name: str
    outcome: Literal["failure", "error"]
    message: str
    """Why; empty: the case passes."""


def ending_cases(result: EngineResult, errors: str) -> tuple[EndingCase, ...]:
    """Return the cases of a load with a result; `errors`: why it has too many errors, or empty."""
    why = "; ".join(lost_host.lost for lost_host in result.lost_hosts)
    why = why or ("interrupted" if result.interrupted else "")
    cut = (EndingCase("load", "error", why),) if why else ()
    return EndingCase("errors", "failure", errors), *cut


# -- hosts ------------------------------------------------------------------------------


def _hosts_text(result: EngineResult) -> str:
    """Return `3 together; started within 8.1 us of each other, known to ±12 us (UDP)`."""
    measured = [host for host in result.hosts if not host.lost]
    text = f"{len(measured)} together"
    if len(measured) < len(result.hosts):
        text = f"{len(measured)} of {len(result.hosts)} have a result"
    skews = [one.start_skew_ns for one in measured if one.start_skew_ns is not None]
    clocks = [one.clock for one in measured if one.clock is not None]
    if len(skews) < 2:
        return text
    apart_ns = max(skews) - min(skews)
    worst = max(clocks, key=lambda one: one.bound_ns)
    how = "UDP"
    if worst.method != "udp":
        way = "ssh" if worst.method == "ssh" else "the connection"
        how = f"through {way}, because no UDP packets pass"
    bound = duration_ns_text(worst.bound_ns, 2)
    return f"{text}; started within {duration_ns_text(apart_ns, 2)} of each other, each known to ±{bound} ({how})"


# -- progress --------------------------------------------------------------------------


class LoadProgressLine:
    """Shows the progress of a load, and of the making of its file set before it."""

    def __init__(self, display: ProgressDisplay, end_ns: int | None = None) -> None:
        """`end_ns` is the end of the load, None if unknown."""
        self._display = display
        self._end_ns = end_ns
        self._phase = ""

    def show(self, progress: LoadProgress | FileSetProgress) -> None:
        """Show how far it is."""
        if isinstance(progress, FileSetProgress):
            self._begin(progress.phase)
            fraction = progress.done / max(1, progress.total)
            text = file_set_progress_text(progress)
            self._display.status(text, fraction, progress.elapsed_ns / 1e9)
            return
        self._begin("load")
        end_ns = self._end_ns
        share = min(1.0, progress.at_ns / end_ns) if end_ns else None
        text = load_progress_text(progress, end_ns)
        self._display.status(text, share, progress.at_ns / 1e9)

    def show_time(self, at_ns: int, hosts: int) -> None:
        """Show how long a load runs on its hosts, which send nothing meanwhile."""
        self._begin("load")
        end_ns = self._end_ns
        text = duration_ns_text(at_ns)
        if end_ns is not None:
            text = f"{text} of {duration_ns_text(end_ns)}"
            if at_ns > end_ns:
                text = f"past its {duration_ns_text(end_ns)}"
        share = min(1.0, at_ns / end_ns) if end_ns else None
        text += f" on {plural(hosts, 'host')}, which report at the end"
        self._display.status(text, share, at_ns / 1e9)

    def _begin(self, phase: str) -> None:
        """Show the first status of a phase at once: its time begins at 0."""
        if self._phase not in ("", phase):
            self._display.end_status()
        self._phase = phase


def file_set_progress_text(progress: FileSetProgress) -> str:
    """Return `making the file set: 4,210 of 16,789 files and directories; about 12 s left`."""
    doing = "examining" if progress.phase == "examine" else "making"
    done, total = progress.done, progress.total
    text = f"{doing} the file set: {done:,} of {total:,} files and directories"
    if 0 < done < total:
        left_ns = progress.elapsed_ns * (total - done) / done
        text += f"; about {duration_ns_text(left_ns, 2)} left"
    return text


def load_progress_text(progress: LoadProgress, end_ns: int | None) -> str:
    """Return `3 s of 5 s; 9,998/s; 12 in flight, 0 waiting; response p50 80 us, p99 1 ms`.

    An interval that extends past the end has no rate, because its length is unknown.
    """
    parts = [duration_ns_text(progress.at_ns)]
    over = end_ns is not None and progress.at_ns > end_ns
    if end_ns is not None:
        whole = duration_ns_text(end_ns)
        parts = [f"past its {whole}" if over else f"{parts[0]} of {whole}"]
    if progress.rate_per_s is not None and not over:
        parts.append(rate_text(progress.rate_per_s))
    parts.append(f"{progress.in_flight:,} in flight, {progress.waiting:,} waiting")
    quantiles = (("p50", progress.response_ns_p50), ("p99", progress.response_ns_p99))
    known = [f"{name} {duration_ns_text(ns)}" for name, ns in quantiles if ns is not None]
    if known:
        parts.append(f"response {', '.join(known)}")
    return "; ".join(parts)
