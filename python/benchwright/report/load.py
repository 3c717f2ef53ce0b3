"""The result of a load and its progress, as text and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from benchwright.core.load import (
    KindResult,
    LoadCounts,
    LoadProgress,
    LoadResult,
    TimeDistribution,
    TraceResult,
)
from benchwright.core.progress import ProgressDisplay
from benchwright.core.results import Finding
from benchwright.core.text import (
    ABSENT,
    TIME_UNITS,
    binary_size_text,
    duration_ns_text,
    number_text,
    part_text,
    plural,
    rate_text,
)
from benchwright.core.text_table import (
    Field,
    TextColumn,
    common_unit,
    field_lines,
    number_cells,
    table_lines,
    text_column,
    word_column,
)
from benchwright.findings.thresholds import FEW_BEYOND
from benchwright.load.request import LoadRequest
from benchwright.report.documents import (
    FindingEntry,
    encode,
    engine_answer,
    entries,
)
from benchwright.report.parts import report_text

# --------------------------------------------------------------------------------------
# A load's result as text: target and clock, rates, counts, the table of times.
#
# Decision: the table has three rows per kind of operation (issue error, service time, response
# time), because the first shows whether the other two are valid. A percentile with fewer than
# ten operations beyond it is marked. A percentile whose rank lies among operations that failed
# or did not finish is unknown: the table shows the largest time as its lower bound.
# Non-goal: the series of intervals, which `--json` has.

_COLUMNS = (
    ("p50", "p50", 0.5),
    ("p90", "p90", 0.1),
    ("p99", "p99", 0.01),
    ("p99.9", "p99_9", 0.001),
    ("p99.99", "p99_99", 0.0001),
    ("max", "max", 1.0),
)
_TIMES = (
    ("issue error", "issue_error_ns"),
    ("service", "service_ns"),
    ("response", "response_ns"),
)
_MARK = "~"
_ABOVE = "*"
_LATER = 0.01
"""Minimum wait for the last operations that is reported, as a share of the measured part."""


def load_text(
    result: LoadResult,
    target: str,
    findings: Sequence[Finding],
    *,
    open_loop: bool,
    asked_per_s: float | None = None,
    warm_up_ns: int = 0,
) -> str:
    """Return the report with findings after the table, ending with a newline.

    Only an `open_loop` has an intended rate: in a closed loop, arrivals follow responses. The
    intended rate is that of the generated arrivals; `asked_per_s` is the requested one [1/s].
    """
    intended = _intended(result, asked_per_s) if open_loop else ""
    rates = _rates(result, intended) + _measured(result, warm_up_ns)
    table = list(_table(result))
    head = field_lines(_head(result, target, rates))
    return report_text(head, (*table, *_below(result, table)), findings=findings)


def _head(result: LoadResult, target: str, rates: str) -> Iterator[Field]:
    yield ("target", _target(result, target))
    if result.target.features:
        yield ("features", ", ".join(result.target.features))
    yield ("clock", _clock(result))
    yield ("pacer", f"{result.pacer}; {_workers(result)}")
    yield ("rate", rates)
    yield ("operations", _counts(result))
    for trace in result.traces:
        yield ("trace", _trace(trace, result))
    if result.samples is not None:
        rows = plural(result.samples.rows, "row")
        yield ("samples", f"{rows} in {result.samples.path}")


def _target(result: LoadResult, target: str) -> str:
    made = result.target
    parts = [target]
    if made.engine is not None:
        parts.append(made.engine)
    if made.size_bytes is not None and made.kind == "file":
        parts.append(binary_size_text(made.size_bytes))
    return ", ".join(parts)


def _clock(result: LoadResult) -> str:
    clock = result.clock
    text = clock.source
    if clock.hz is not None:
        text += f", {clock.hz / 1e9:.4g} GHz"
    if clock.drift_ppm is not None:
        text += f", {clock.drift_ppm:+.2g} ppm off its first calibration"
    return text


def _workers(result: LoadResult) -> str:
    number = len(result.workers)
    cpus = [str(worker.cpu) for worker in result.workers if worker.cpu is not None]
    text = plural(number, "worker")
    return text + (f" on cpu {', '.join(cpus)}" if cpus else "")


def _intended(result: LoadResult, asked_per_s: float | None) -> str:
    intended_rate_per_s = result.intended_rate_per_s
    if intended_rate_per_s is None:
        return ""
    if asked_per_s is None:
        return f"intended {rate_text(intended_rate_per_s)}, "
    asked, text = rate_text(asked_per_s), rate_text(intended_rate_per_s)
    return (
        f"requested {asked}, "
        if asked == text
        else f"requested {asked} ({text} drawn), "
    )


def _rates(result: LoadResult, intended: str) -> str:
    rates = (
        ("offered", result.offered_rate_per_s),
        ("achieved", result.achieved_rate_per_s),
    )
    known = [f"{name} {rate_text(rate)}" for name, rate in rates if rate is not None]
    if not known:
        return "none: no operation started"
    return intended + ", ".join(known)


def _measured(result: LoadResult, warm_up_ns: int) -> str:
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


def _counts(result: LoadResult) -> str:
    counts = result.counts
    always = (
        f"{counts.intended:,} intended, {counts.issued:,} issued, "
        f"{counts.completed:,} completed, {plural(counts.errors, 'error')}"
    )
    rest = (
        ("dropped", counts.dropped),
        ("skipped", counts.skipped),
        ("delayed", counts.held),
        ("never started", counts.waiting),
        ("unfinished", counts.unfinished),
    )
    return always + "".join(f", {number:,} {name}" for name, number in rest if number)


def _trace(trace: TraceResult, result: LoadResult) -> str:
    policies = (
        ("lines skipped", trace.skipped_lines),
        ("reordered", trace.reordered),
        ("spread", trace.spread),
        ("wrapped", trace.wrapped),
        ("clipped", trace.clipped),
        ("left out", trace.left_out),
    )
    text = f"{trace.path}: {plural(trace.operations, 'operation')}"
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


def _table(result: LoadResult) -> Iterator[str]:
    """Yield the table of times, all in one unit."""
    rows = [
        _TimeRow(kind, title, getattr(one, field), field == "response_ns")
        for kind, one in _shown(result)
        for title, field in _TIMES
    ]
    values = [getattr(row.times, name) for row in rows for _, name, _ in _COLUMNS]
    scale, unit = common_unit([_seconds(ns) for ns in values], TIME_UNITS)
    first = _TIMES[0][0]
    yield from table_lines(
        [
            word_column("", (row.kind if row.title == first else "" for row in rows)),
            word_column(unit, (row.title for row in rows)),
            text_column("n", (f"{row.times.count:,}" for row in rows)),
            *(_percentile_column(result, rows, column, scale) for column in _COLUMNS),
        ]
    )


def _percentile_column(
    result: LoadResult,
    rows: Sequence[_TimeRow],
    column: tuple[str, str, float],
    scale: float,
) -> TextColumn:
    """Return one percentile of each row; `> MAX` if it is unknown."""
    title, name, share = column
    known = [not r.is_response or result.response_known(r.kind, share) for r in rows]
    values = [
        _seconds(getattr(row.times, name)) if is_known else None
        for row, is_known in zip(rows, known, strict=True)
    ]
    cells = number_cells([None if s is None else s / scale for s in values], 3)
    for place, (row, is_known) in enumerate(zip(rows, known, strict=True)):
        longest = _seconds(row.times.max)
        if not is_known and longest is not None:
            cells[place] = f"> {number_text(longest / scale, 3)}{_ABOVE}"
        elif cells[place] != ABSENT and round(row.times.count * share, 6) < FEW_BEYOND:
            cells[place] += _MARK
    return text_column(title, cells)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _shown(result: LoadResult) -> list[tuple[str, KindResult]]:
    """Return each kind, and `all` if there are several kinds."""
    kinds = [(k, v) for k, v in result.kinds.items() if k != "all" and v.operations]
    return kinds if len(kinds) == 1 else [*kinds, ("all", result.all)]


def _below(result: LoadResult, table: Sequence[str]) -> Iterator[str]:
    if any(_MARK in line for line in table):
        yield f"{_MARK} fewer than {FEW_BEYOND} operations lie beyond it"
    if any(_ABOVE in line for line in table):
        yield (
            f"{_ABOVE} not known: {_without_response(result.counts)}; these operations count as slower "
            "than all that did"
        )
    lateness = result.lateness_ns
    if lateness.count and result.counts.held:
        yield (
            f"issue error without the {result.counts.held:,} delayed operations: "
            f"p50 {duration_ns_text(lateness.p50)}, p99 {duration_ns_text(lateness.p99)}"
        )
    for absent in (*result.target.absent, *result.environment.absent):
        yield f"absent: {absent}"


def _without_response(counts: LoadCounts) -> str:
    part = part_text(counts.without_response, counts.intended)
    return f"{part} failed or did not finish"


# -- the document ------------------------------------------------------------------------


class LoopEntry(msgspec.Struct, frozen=True):
    """Whether the workload has open and closed loops."""

    open: bool
    closed: bool


class LoadDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/load/1",
):
    """The result of a load."""

    request: dict[str, Any]
    """The request that the engine received."""
    loop: LoopEntry
    result: Annotated[dict[str, Any], engine_answer("LoadResult")]
    """The engine's result with every member that it sent."""
    asked_rate_per_s: float | None
    metrics: dict[str, float]
    response_known_to: float
    """Share of operations up to which percentiles of response times are known."""
    findings: tuple[FindingEntry, ...]


def load_document(
    answer: Mapping[str, Any],
    request: LoadRequest,
    metrics: Mapping[str, float],
    *,
    known_to: float,
    findings: Sequence[Finding],
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
    )
    return encode(document)


# -- progress --------------------------------------------------------------------------


def show_load_progress(
    display: ProgressDisplay, end_ns: int | None, progress: LoadProgress
) -> None:
    """Show the progress of a load; `end_ns` is its end, None if unknown."""
    fraction = min(1.0, progress.at_ns / end_ns) if end_ns else None
    text = load_progress_text(progress, end_ns)
    display.status(text, fraction, progress.at_ns / 1e9)


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
    known = [
        f"{name} {duration_ns_text(ns)}" for name, ns in quantiles if ns is not None
    ]
    if known:
        parts.append(f"response {', '.join(known)}")
    return "; ".join(parts)
