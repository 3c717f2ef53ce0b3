"""The result of a load and its progress, as text and for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from benchwright.core.comparison import GateOutcome
from benchwright.core.observation import Trial
from benchwright.core.progress import ProgressDisplay
from benchwright.core.results import Finding
from benchwright.core.text import (
    ABSENT,
    TIME_UNITS,
    binary_size_text,
    byte_rate_text,
    duration_ns_text,
    list_text,
    number_text,
    part_text,
    percent_text,
    plural,
    rate_text,
    rounded_down,
    unit_for,
)
from benchwright.core.text_table import (
    Field,
    TextColumn,
    field_lines,
    number_cells,
    number_column,
    table_lines,
    text_column,
    word_column,
)
from benchwright.features.load.parse import exchange_name, target_text
from benchwright.features.load.request import LoadRequest, LoadTarget
from benchwright.features.load.response_times import chain_times, host_times, response_times
from benchwright.features.load.types import (
    EngineResult,
    FileSetProgress,
    FileSetResult,
    HostResult,
    KindResult,
    LimitVerdict,
    LoadCounts,
    LoadProgress,
    SequenceResult,
    TargetResult,
    TimeDistribution,
    TlsResult,
    TraceResult,
)
from benchwright.findings.thresholds import FEW_BEYOND
from benchwright.page.trial_documents import trial_document
from benchwright.report.answer import finding_groups
from benchwright.report.answer_text import Paint, finding_paragraphs, group_lines, unpainted
from benchwright.report.documents import FindingEntry, encode, engine_answer, entries
from benchwright.report.parts import report_text

# --------------------------------------------------------------------------------------
# A load's result as text: the answer in a sentence, the table of times, rates, findings.
#
# Decision: the sentence has what a reader wants to know (was the rate reached, how long did
# responses take, did operations fail) and the issue error, which shows whether the generator kept
# its schedule. The table has three rows per kind of operation: response time, service time, issue
# error. A percentile with fewer than ten operations beyond it is marked. A percentile whose rank
# lies among operations that failed or did not finish is unknown: the table shows the largest time
# as its lower bound. How it was measured (clock, pacer, features of the target) is for --verbose.
# Non-goal: the series of intervals, which `--json` has.

COLUMNS = (
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.1),
    ("p99", "p99", 0.01),
    ("p99.9", "p99_9", 0.001),
    ("p99.99", "p99_99", 0.0001),
    ("max", "max", 1.0),
)
TIMES = (("response", "response_ns"), ("service", "service_ns"), ("issue error", "issue_error_ns"))
_MARK = "~"
_ABOVE = "*"
_LATER = 0.01
"""Minimum wait for the last operations that is reported, as a share of the measured part."""
_AS_REQUESTED = 0.01
"""Of a load that kept its rate: maximum difference between the achieved and the drawn rate, and
between the drawn and the requested one; maximum median issue error as a share of the measured part.
"""
_OTHER_RATE = 0.1
"""Maximum difference of the drawn from the requested rate, as a share."""
_SIGMAS = 4
"""Standard deviations of the number of Poisson arrivals that chance explains."""
_FINEST = 3
"""Maximum decimals of a time in the table: the resolution is a thousandth of its unit."""
_MANY_KINDS = 5
"""From this number on, an answer has the number of kinds, and a table only the response
times of each."""


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
    paint: Paint = unpainted
    verbose: bool = False
    """Whether findings have evidence and remedy, and how it was measured is shown."""


def load_text(result: EngineResult, findings: Sequence[Finding], report: LoadReport) -> str:
    """Return the report, ending with a newline."""
    table = list(_table(result, report))
    chains = [*_label_table(result), *_chain_table(result), *_limit_table(report.limits)]
    chains += _host_table(result)
    fields = field_lines(_fields(result, report))
    text = report_text(
        [load_sentence(result, report)], (*table, *_below(result, table), *chains), fields
    )
    # These lines may have colours, and are without unprintable characters already.
    lines = _finding_lines(findings, report)
    return "\n".join((text, *lines, "")) if lines else text


def _finding_lines(findings: Sequence[Finding], report: LoadReport) -> list[str]:
    """Return one line for each code, the worst first; with --verbose each finding in full."""
    named = [("", finding) for finding in findings]
    if report.verbose:
        return finding_paragraphs(named, report.width, report.paint)
    return group_lines(finding_groups(named), 1, report.width, report.paint)


def load_sentence(result: EngineResult, report: LoadReport) -> str:
    """Return the answer: `read: 10,000/s as requested; response p99 105 us; 0 of 50,000 failed;
    issue error p99 28 us`."""
    names = [kind_name(kind, report) for kind, _ in shown_kinds(result) if kind != "all"]
    kinds = list_text(names or ["load"])
    if len(names) >= _MANY_KINDS:
        kinds = f"{len(names)} kinds of operations"
    parts = _clauses(result, report)
    if result.interrupted:
        whole = report.duration_ns
        of = f" of {duration_ns_text(whole)}" if whole else ""
        after = duration_ns_text(result.measured_ns or result.elapsed_ns)
        parts.append(f"interrupted after {after}{of}")
    for outcome, word in VERDICTS.items():
        if number := _number_text(report.limits, outcome):
            parts.append(f"{number} {word}")
    return f"{kinds}: {'; '.join(parts)}"


VERDICTS = {
    GateOutcome.FAILED: "missed",
    GateOutcome.UNDECIDED: "undecided",
    GateOutcome.PASSED: "held",
}
"""Outcomes in the words of the report, the worst first."""


def _number_text(verdicts: Sequence[LimitVerdict], outcome: GateOutcome) -> str:
    """Return `2 limits`, the number of those with this outcome; empty for none."""
    number = sum(verdict.outcome is outcome for verdict in verdicts)
    return plural(number, "limit") if number else ""


def kind_name(kind: str, report: LoadReport) -> str:
    """Return the name of a kind of operations for users; operations on a server have that of their
    request."""
    return report.exchange if kind == "exchange" else kind


def load_headline(result: EngineResult, report: LoadReport) -> str:
    """Return the answer in a few words: `10,000/s as requested; response p99 105 us`."""
    parts = _clauses(result, report)[:2]
    if result.interrupted:
        parts[1:] = ["interrupted"]
    if missed := _number_text(report.limits, GateOutcome.FAILED):
        parts[:1] = [f"{missed} missed", *parts[:1]]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}"


def _clauses(result: EngineResult, report: LoadReport) -> list[str]:
    """Return the clauses of the answer, the most important first."""
    counts, every = result.counts, result.all
    if result.achieved_rate_per_s is None or not counts.issued:
        return ["no operation started"]
    failed = f"{counts.errors:,} of {counts.intended:,} failed"
    if counts.errors == counts.intended:
        failed = f"all {counts.errors:,} failed"
    if counts.unfinished:
        failed += f", {counts.unfinished:,} did not end"
    if never := counts.never_ended - counts.unfinished:
        failed += f", {never:,} never started"
    rate = _rate_clause(result, report)
    response = f"response {_tail_text(result, response_times(result), is_response=True)}"
    parts = [rate, response, failed]
    if counts.without_response:
        parts = [failed, rate, response]
    return [*parts, f"issue error {_tail_text(result, every.issue_error_ns)}"]


def _rate_clause(result: EngineResult, report: LoadReport) -> str:
    """Return `10,000/s as requested`, `500/s requested, 494/s drawn and issued`, or how much of the
    requested rate was achieved."""
    achieved, drawn = result.achieved_rate_per_s or 0.0, result.intended_rate_per_s
    if not report.open_loop or not drawn:
        return f"{rate_text(achieved)} in a closed loop"
    wish, word = report.asked_per_s, "requested"
    if wish is None:
        wish, word = drawn, "intended"
    elif _other_rate(drawn, wish, result.counts.intended):
        share = percent_text(achieved / wish)
        return f"{rate_text(achieved)}, {share} of the requested {rate_text(wish)}"
    late_ns, length_ns = result.all.issue_error_ns.p50 or 0, result.measured_ns or 0
    in_time = late_ns <= _AS_REQUESTED * length_ns
    if in_time and abs(achieved - drawn) <= _AS_REQUESTED * drawn:
        if abs(drawn - wish) <= _AS_REQUESTED * wish:
            return f"{rate_text(wish)} as {word}"
        # Arrivals at random times are seldom exactly as many as requested.
        return f"{rate_text(wish)} {word}, {rate_text(drawn)} drawn and issued"
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
    if not times.count:
        return "time unknown"
    enough = [
        (title, name, share)
        for title, name, share in COLUMNS[:3]
        if times.count * share >= FEW_BEYOND
    ]
    title, name, share = (enough or [COLUMNS[0]])[-1]
    if is_response and not result.response_known("all", share):
        longest = ""
        if times.max is not None:
            longest = f", over {duration_ns_text(rounded_down(times.max))}"
        return f"{title} unknown{longest}"
    return f"{title} {duration_ns_text(getattr(times, name))}"


def _fields(result: EngineResult, report: LoadReport) -> Iterator[Field]:
    intended = _intended(result, report.asked_per_s) if report.open_loop else ""
    whole = with_warm_up(report.warm_up_ns)
    yield ("target", _target(result, report.target))
    yield ("rate", _rates(result, intended) + _measured(result, report.warm_up_ns))
    for kind, one in shown_kinds(result):
        rate, byte_rate = result.rates_of(one)
        if byte_rate and result.target.kind != "null":
            name = kind_name(kind, report)
            yield (name, f"{rate_text(rate)}, {byte_rate_text(byte_rate)}")
    if report.verbose or result.counts.without_response or result.counts.held:
        yield ("operations", _counts(result))
    if result.file_set is not None:
        yield ("file set", file_set_text(result.file_set, report.warm_up_ns))
    connections = _connections(result)
    if connections:
        yield ("connections", connections + whole)
    statuses = _statuses(result.target)
    if statuses:
        yield ("responses", statuses)
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
    if report.verbose:
        if result.target.tls is not None:
            yield ("TLS", _tls(result.target.tls))
        if result.target.features:
            yield ("features", ", ".join(result.target.features))
        yield ("clock", _clock(result))
        yield ("pacer", f"{result.pacer}; {_workers(result)}")
        for absent in (*result.target.absent, *result.environment.absent):
            yield ("absent", absent)


def with_warm_up(warm_up_ns: int) -> str:
    """Return the label of a count of the whole run; empty without a warm-up."""
    return " (with the warm-up)" if warm_up_ns else ""


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
    scheduled = {str(one.scheduling) for one in result.workers if one.scheduling}
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


def _counts(result: EngineResult) -> str:
    counts = result.counts
    always = (
        f"{counts.intended:,} intended, {counts.issued:,} issued, "
        f"{counts.completed:,} completed, {plural(counts.errors, 'error')}"
    )
    rest = (
        ("dropped", counts.dropped),
        ("skipped", counts.skipped),
        ("delayed", counts.held),
        ("issued after the end", counts.drained),
        ("never started", counts.waiting),
        ("unfinished", counts.unfinished),
    )
    return always + "".join(f", {number:,} {name}" for name, number in rest if number)


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
    if sum(one.operations for one in result.traces) > result.counts.intended:
        # The reader reads ahead; the run ended before it used all operations.
        text += f" read, the run intended {result.counts.intended:,}"
    text += "".join(f", {number:,} {name}" for name, number in policies if number)
    return text + (", offsets scaled" if trace.scaled else "")


# -- the table -------------------------------------------------------------------------


class _TimeRow(msgspec.Struct, frozen=True):
    """A row of the table: one of the three times, for one kind of operation."""

    kind: str
    title: str
    times: TimeDistribution
    is_response: bool


def _table(result: EngineResult, report: LoadReport) -> Iterator[str]:
    """Yield the table of times, all in one unit; of many kinds, the response times of each."""
    kinds = shown_kinds(result)
    short = len(kinds) > _MANY_KINDS and not report.verbose
    rows = [
        _TimeRow(kind, title, shown_times(result, kind, field), field == "response_ns")
        for kind, _ in kinds
        for title, field in (TIMES[:1] if short and kind != "all" else TIMES)
    ]
    scale, unit = _unit([row.times for row in rows])
    first = TIMES[0][0]
    mean = number_column("mean", [_in(scale, row.times.mean) for row in rows], 3)
    yield from table_lines(
        [
            word_column(
                "", (kind_name(row.kind, report) if row.title == first else "" for row in rows)
            ),
            word_column(f"time in {unit}", (row.title for row in rows)),
            text_column("n", (f"{row.times.count:,}" for row in rows)),
            mean,
            *(_percentile_column(result, rows, column, scale) for column in COLUMNS),
        ]
    )


def _unit(times: Sequence[TimeDistribution]) -> tuple[float, str]:
    """Return the unit between the smallest and the largest time, which are often far apart, but
    not so large that the smallest is 0."""
    values = [getattr(one, name) for one in times for _, name, _ in COLUMNS]
    some = [ns / 1e9 for ns in values if ns]
    if not some:
        return TIME_UNITS[0]
    middle = math.sqrt(min(some) * max(some))
    return unit_for(min(middle, min(some) * 10**_FINEST), TIME_UNITS)


def _percentile_column(
    result: EngineResult, rows: Sequence[_TimeRow], column: tuple[str, str, float], scale: float
) -> TextColumn:
    """Return one percentile of each row; `> MAX` if it is unknown."""
    title, name, share = column
    known = [not r.is_response or result.response_known(r.kind, share) for r in rows]
    values = [
        _in(scale, getattr(row.times, name)) if is_known else None
        for row, is_known in zip(rows, known, strict=True)
    ]
    cells = number_cells(values, 3)
    for place, (row, is_known) in enumerate(zip(rows, known, strict=True)):
        if not is_known and row.times.max is not None:
            longest = _in(scale, rounded_down(row.times.max))
            cells[place] = f"> {number_text(longest, 3)}{_ABOVE}"
        elif cells[place] != ABSENT and round(row.times.count * share, 6) < FEW_BEYOND:
            cells[place] += _MARK
    return text_column(title, cells)


def _in(scale: float, ns: float | None) -> float | None:
    """Return a time in the unit of this many seconds."""
    return None if ns is None else round(ns / 1e9 / scale, _FINEST)


def shown_times(result: EngineResult, kind: str, name: str) -> TimeDistribution:
    """Return one of the three times of a kind (`TIMES`)."""
    if name == "response_ns":
        return response_times(result, kind)
    times: TimeDistribution = getattr(result.kinds[kind], name)
    return times


def shown_kinds(result: EngineResult) -> list[tuple[str, KindResult]]:
    """Return each kind, and `all` if there are several kinds."""
    kinds = [(k, v) for k, v in result.kinds.items() if k != "all" and v.operations]
    return kinds if len(kinds) == 1 else [*kinds, ("all", result.all)]


def _below(result: EngineResult, table: Sequence[str]) -> Iterator[str]:
    if any(_MARK in line for line in table):
        yield f"{_MARK} fewer than {FEW_BEYOND} operations lie beyond it"
    if any(_ABOVE in line for line in table):
        yield (
            f"{_ABOVE} not known: {_without_response(result.counts)}; these operations count as slower "
            "than all that did"
        )
    if missing := result.counts.without_response:
        yield (
            f"percentiles of responses are of all operations, {missing:,} of them the slowest; mean, max and "
            "service times are of those that succeeded"
        )
    lateness = result.lateness_ns
    if lateness.count and result.counts.held:
        yield (
            f"issue error without the {result.counts.held:,} delayed operations: "
            f"p50 {duration_ns_text(lateness.p50)}, p99 {duration_ns_text(lateness.p99)}"
        )


def _without_response(counts: LoadCounts) -> str:
    part = part_text(counts.without_response, counts.intended)
    return f"{part} failed or did not finish"


# -- file sets ------------------------------------------------------------------------


def file_set_text(files: FileSetResult, warm_up_ns: int = 0) -> str:
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
        without = f"; {number} without a usable object{with_warm_up(warm_up_ns)}"
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


def shown_chains(result: EngineResult) -> list[tuple[str, SequenceResult]]:
    """Return the chains with more than one operation; others are in the table of kinds."""
    return [(name, one) for name, one in result.sequences.items() if one.operations > one.started]


def _chain_table(result: EngineResult) -> Iterator[str]:
    """Yield an empty line and the table of chains; nothing where there are none."""
    chains = shown_chains(result)
    if not chains:
        return
    times = [chain_times(one) for _, one in chains]
    scale, unit = _unit(times)
    yield ""
    yield from table_lines(
        [
            word_column("chain", (name for name, _ in chains)),
            text_column("n", (f"{one.completed:,}" for _, one in chains)),
            text_column("failed", (f"{one.errors:,}" for _, one in chains)),
            text_column("unfinished", (f"{one.unfinished:,}" for _, one in chains)),
            number_column(
                "operations each", [one.operations / one.started for _, one in chains], 3
            ),
            number_column(f"mean {unit}", [_in(scale, one.mean) for one in times], 3),
            *(
                text_column(title, _chain_cells(times, name, share, scale))
                for title, name, share in COLUMNS
            ),
        ]
    )


def _chain_cells(
    times: Sequence[TimeDistribution], name: str, share: float, scale: float
) -> list[str]:
    cells = number_cells([_in(scale, getattr(one, name)) for one in times], 3)
    return [
        cell + _MARK if cell != ABSENT and round(one.count * share, 6) < FEW_BEYOND else cell
        for cell, one in zip(cells, times, strict=True)
    ]


# -- labels -----------------------------------------------------------------------------


def _label_table(result: EngineResult) -> Iterator[str]:
    """Yield an empty line and the table of labels; nothing where there are none."""
    labels = list(result.labels.items())
    if not labels:
        return
    times = [response_times(result, name, label=True) for name, _ in labels]
    scale, unit = _unit(times)
    yield ""
    yield from table_lines(
        [
            word_column("label", (name for name, _ in labels)),
            text_column("n", (f"{one.operations:,}" for _, one in labels)),
            text_column("failed", (f"{_failed(one):,}" for _, one in labels)),
            number_column(f"mean {unit}", [_in(scale, one.mean) for one in times], 3),
            *(
                text_column(title, _chain_cells(times, name, share, scale))
                for title, name, share in COLUMNS
            ),
            word_column("errors", (_errors(one) for _, one in labels)),
        ]
    )


def _failed(label: KindResult) -> int:
    return sum(label.errors.values())


def _errors(label: KindResult) -> str:
    """Return `HTTP 404 12, check-failed 3`: the number of each error; empty without errors."""
    return ", ".join(f"{name} {number:,}" for name, number in label.errors.items())


# -- limits -----------------------------------------------------------------------------


def _limit_table(verdicts: Sequence[LimitVerdict]) -> Iterator[str]:
    """Yield an empty line and the table of limits; nothing where there are none."""
    if not verdicts:
        return
    yield ""
    yield from table_lines(
        [
            word_column("limit", (one.limit for one in verdicts)),
            word_column("verdict", (VERDICTS[one.outcome] for one in verdicts)),
            word_column("measured", (one.detail for one in verdicts)),
        ]
    )


class EndingCase(msgspec.Struct, frozen=True):
    """A case of JUnit XML about how a load ended, besides its limits."""

    name: str
    outcome: Literal["failure", "error"]
    message: str
    """Why; empty: the case passes."""


def ending_cases(result: EngineResult, errors: str) -> tuple[EndingCase, ...]:
    """Return the cases of a load with a result; `errors`: why it has too many errors, or empty."""
    why = "; ".join(one.lost for one in result.lost_hosts)
    why = why or ("interrupted" if result.interrupted else "")
    cut = (EndingCase("load", "error", why),) if why else ()
    return EndingCase("errors", "failure", errors), *cut


# -- hosts ------------------------------------------------------------------------------


def _hosts_text(result: EngineResult) -> str:
    """Return `3 together; started within 8.1 us of each other, known to ±12 us (UDP)`."""
    measured = [one for one in result.hosts if not one.lost]
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


def _host_table(result: EngineResult) -> Iterator[str]:
    """Yield an empty line and the table of hosts; nothing where there are none."""
    if not result.hosts:
        return
    hosts = result.hosts
    times = [host_times(one) for one in hosts]
    errors = [one.all.issue_error_ns if one.all else None for one in hosts]
    scale, unit = _unit(times)
    yield ""
    yield from table_lines(
        [
            word_column("host", (one.host for one in hosts)),
            text_column("n", (f"{one.count:,}" for one in times)),
            text_column("failed", map(_failed_text, hosts)),
            text_column("rate", (_rate_or_absent(one) for one in hosts)),
            *(
                text_column(f"{title} {unit}", _chain_cells(times, name, share, scale))
                for title, name, share in (COLUMNS[0], COLUMNS[2])
            ),
            text_column(
                "issue error p99",
                (ABSENT if one is None else duration_ns_text(one.p99) for one in errors),
            ),
            text_column("start skew", map(skew_text, hosts)),
            text_column("drift", map(_drift_text, hosts)),
        ]
    )


def _failed_text(host: HostResult) -> str:
    return ABSENT if host.counts is None else f"{host.counts.without_response:,}"


def _rate_or_absent(host: HostResult) -> str:
    rate = host.achieved_rate_per_s
    return ABSENT if rate is None else rate_text(rate)


def skew_text(host: HostResult) -> str:
    """Return `+3.2 us ±11 us`."""
    if host.start_skew_ns is None or host.clock is None:
        return ABSENT
    sign = "-" if host.start_skew_ns < 0 else "+"
    skew = duration_ns_text(abs(host.start_skew_ns), 2)
    return f"{sign}{skew} ±{duration_ns_text(host.clock.bound_ns, 2)}"


def _drift_text(host: HostResult) -> str:
    """Return `+1.2 ±0.4 ppm`."""
    clock = host.clock
    if clock is None or clock.drift_ppm is None or clock.drift_bound_ppm is None:
        return ABSENT
    return f"{clock.drift_ppm:+.2g} ±{clock.drift_bound_ppm:.2g} ppm"


# -- the document ------------------------------------------------------------------------


class LoopEntry(msgspec.Struct, frozen=True):
    """Whether the workload has open and closed loops."""

    open: bool
    closed: bool


class LoadDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/load/1"
):
    """The result of a load."""

    request: dict[str, Any]
    """The request that the engine received."""
    loop: LoopEntry
    result: Annotated[dict[str, Any], engine_answer("EngineResult")]
    """The engine's result with every member that it sent."""
    asked_rate_per_s: float | None
    metrics: dict[str, float]
    response_known_to: float
    """Share of operations up to which percentiles of response times are known."""
    findings: tuple[FindingEntry, ...]
    limits: tuple[LimitVerdict, ...] = ()
    """The verdicts on the limits of `--limit`."""
    max_errors_micro: int | None = None
    """The share of `--max-errors` [millionths]; null: not given."""


class TrialLoad(msgspec.Struct, frozen=True):
    """A load that a trial applied (page/trial_documents.py)."""

    document: LoadDocument
    result: EngineResult

    @property
    def headline(self) -> str:
        """Its answer in a few words."""
        return load_headline(self.result, headline_report(self.document))

    @property
    def sentence(self) -> str:
        """Its answer."""
        return load_sentence(self.result, headline_report(self.document))

    def text(self, width: int, paint: Paint = unpainted, *, verbose: bool = False) -> str:
        """Return its report without findings; empty for a request that no load has written."""
        request = self.document.request
        try:
            target = target_text(msgspec.convert(request["target"], LoadTarget))
        except (msgspec.ValidationError, KeyError):
            return ""
        report = msgspec.structs.replace(
            headline_report(self.document),
            target=target,
            warm_up_ns=request.get("warm_up_ns") or 0,
            width=width,
            paint=paint,
            verbose=verbose,
        )
        return load_text(self.result, (), report)


def read_trial_load(output: bytes) -> TrialLoad | None:
    """Return the load whose document a trial printed; None for another program's."""
    try:
        document = msgspec.json.decode(output, type=LoadDocument)
        return TrialLoad(document, msgspec.convert(document.result, EngineResult))
    except msgspec.MsgspecError:
        return None


def load_of(study: Path, session: int, test: str, trial: Trial) -> TrialLoad | None:
    """Return the load in a trial's stored output; None for another program's output."""
    found = trial_document(study, session, test, trial)
    return found.document if found and isinstance(found.document, TrialLoad) else None


def headline_report(document: LoadDocument) -> LoadReport:
    """Return what the sentence and the headline of a stored load need besides its result."""
    return LoadReport(
        target="",
        open_loop=document.loop.open,
        asked_per_s=document.asked_rate_per_s,
        duration_ns=document.request.get("duration_ns"),
        exchange=_exchange_of(document.request),
        limits=document.limits,
    )


def _exchange_of(request: Mapping[str, Any]) -> str:
    """Return what the operations on the server of a stored request are called."""
    try:
        target = msgspec.convert(request["target"], LoadTarget)
        filaments = request["workload"]["filaments"]
        recorded = any(one["type"] == "trace" for one in filaments)
    except (msgspec.ValidationError, KeyError, TypeError):
        # Of another version, or no load's at all.
        return REQUESTS
    return exchange_name(target, recorded=recorded)


def load_document(
    answer: Mapping[str, Any],
    request: LoadRequest,
    metrics: Mapping[str, float],
    *,
    known_to: float,
    findings: Sequence[Finding],
    limits: Sequence[LimitVerdict] = (),
    max_errors_micro: int | None = None,
) -> str:
    """Return the document as JSON; `answer` is the engine's, with every member."""
    loop = request.loop
    document = LoadDocument(
        request=msgspec.to_builtins(request),
        loop=LoopEntry(loop.open, loop.closed),
        result={key: value for key, value in answer.items() if key != "type"},
        asked_rate_per_s=request.asked_rate_per_s,
        metrics=dict(metrics),
        response_known_to=known_to,
        findings=entries(FindingEntry, tuple(findings)),
        limits=tuple(limits),
        max_errors_micro=max_errors_micro,
    )
    return encode(document)


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
