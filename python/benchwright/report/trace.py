"""The reports of `bw trace`, as text and for JSON: statistics, comparison, conversion, capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from benchwright.core.load import TimeDistribution
from benchwright.core.results import Finding
from benchwright.core.text import (
    binary_size_text,
    duration_ns_text,
    number_text,
    percent_text,
    plural,
    signed_duration_ns_text,
)
from benchwright.core.text_table import (
    field_lines,
    percent_column,
    table_lines,
    text_column,
    word_column,
)
from benchwright.core.trace import (
    Alignment,
    CaptureResult,
    ConvertResult,
    Sequentiality,
    TraceComparison,
    TraceReport,
    TraceSide,
    TraceStatistics,
)
from benchwright.load.request import (
    CaptureRequest,
    CompareRequest,
    ConvertRequest,
    StatRequest,
)
from benchwright.report.documents import FileEntry, FindingEntry, engine_answer
from benchwright.report.parts import report_text

# --------------------------------------------------------------------------------------
# How a trace was read, as lines: the policies, and how often each was applied.

_NAME_WIDTH = 12
"""Width of the names at the left."""


def trace_row(name: str, text: str) -> str:
    """Return a named line of a trace's report."""
    return next(field_lines([(name, text)], _NAME_WIDTH))


def reading_lines(report: TraceReport) -> Iterator[str]:
    """Yield how the trace was read: format, policies, their counts, notes."""
    yield trace_row("read as", "; ".join(_policies(report)))
    did = "; ".join(f"{number:,} {what}" for what, number in _counts(report) if number)
    if did:
        yield trace_row("", did)
    if report.devices not in ((), ("0",)):
        yield trace_row("devices", _listed(report.devices))
    for note in report.notes:
        yield trace_row("note", note)


def _policies(report: TraceReport) -> Iterator[str]:
    yield report.format
    if report.window_ns:
        yield f"reordered within {duration_ns_text(report.window_ns)}"
    else:
        yield "in order"
    yield f"equal stamps: {report.duplicates}"
    yield f"offsets: {report.offsets}"
    if report.source_bytes is not None and report.scaled:
        yield f"scaled from {binary_size_text(report.source_bytes)}"
    if report.speed_micro != 10**6:
        yield f"speed {report.speed_micro / 10**6:.6g}x"


def _counts(report: TraceReport) -> Iterator[tuple[str, int]]:
    yield "reordered", report.reordered
    yield "spread", report.spread
    yield "wrapped", report.wrapped
    yield "aligned", report.aligned
    yield "made smaller", report.clipped
    yield "left out by choice", report.left_out
    yield "malformed lines skipped", report.skipped_lines
    yield "other events", report.other_events
    yield "completions of unknown operations", report.unmatched_completions


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


# -- The statistics of a trace as text: one page ---------------------------------------
#
# Decision: each figure has its reference value beside it (Poisson arrivals have an index of
# dispersion of 1 at every scale), and figures from a sample are marked.
# Non-goal: the series, which `--json` has and `--plot` draws.

_SIZES = 6
_QUANTILES = (
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p99.9", "p99_9"),
    ("max", "max"),
)


def stat_text(result: TraceStatistics, findings: Sequence[Finding]) -> str:
    """Return the report with its findings, ending with a newline."""
    details = (_stat_arrivals(result), _places(result), _times(result))
    return report_text(
        (*_stat_head(result), *_kinds(result)),
        *(details if result.operations else ()),
        reading_lines(result.report),
        findings=findings,
    )


def _stat_head(result: TraceStatistics) -> Iterator[str]:
    rate = "" if result.rate_per_s is None else f", {result.rate_per_s:,.4g}/s"
    yield ", ".join(result.report.paths)
    yield (
        f"{plural(result.operations, 'operation')} in {duration_ns_text(result.duration_ns)}{rate}, "
        f"{binary_size_text(result.bytes)}"
        + (f", {result.errors:,} failed" if result.errors else "")
    )


def _kinds(result: TraceStatistics) -> Iterator[str]:
    if not result.operations:
        return
    yield ""
    kinds = list(result.kinds.values())
    whole = result.bytes
    means = (round(kind.bytes / max(kind.operations, 1)) for kind in kinds)
    yield from table_lines(
        [
            word_column("", result.kinds, width=_NAME_WIDTH),
            text_column("operations", (f"{kind.operations:,}" for kind in kinds)),
            percent_column("share", (kind.share for kind in kinds)),
            text_column("size", (binary_size_text(kind.bytes) for kind in kinds)),
            percent_column(
                "share", (kind.bytes / whole if whole else None for kind in kinds)
            ),
            text_column("mean size", map(binary_size_text, means)),
        ]
    )


# -- when ------------------------------------------------------------------------------


def _stat_arrivals(result: TraceStatistics) -> Iterator[str]:
    shown = [one for one in result.dispersion if one.bins]
    if shown:
        yield from table_lines(
            [
                word_column(
                    "scale", ["dispersion", "mean count", "most"], width=_NAME_WIDTH
                ),
                *(
                    text_column(
                        duration_ns_text(one.bin_ns),
                        [
                            number_text(one.index, 3),
                            number_text(one.mean, 3),
                            f"{one.max:,}",
                        ],
                    )
                    for one in shown
                ),
                word_column("", ["Poisson: 1"]),
            ]
        )
    gaps = result.gaps
    if gaps.gap_ns.count:
        spread = (
            ""
            if gaps.cv_squared is None
            else f"; cv² {number_text(gaps.cv_squared, 3)}, Poisson: 1"
        )
        equal = f"; {gaps.equal:,} of {gaps.gap_ns.count:,} zero" if gaps.equal else ""
        yield trace_row("gaps", quantile_words(gaps.gap_ns) + spread + equal)


# -- where -----------------------------------------------------------------------------


def _places(result: TraceStatistics) -> Iterator[str]:
    yield trace_row("sizes", _sizes(result))
    yield from _sequentiality(result.sequentiality)
    popularity, touched = result.popularity, result.working_set
    how = "exact"
    if popularity.method == "sampled":
        how = f"sampled: 1 of {1 / popularity.rate:,.0f} blocks was followed"
    block = binary_size_text(popularity.block_bytes)
    if touched.blocks:
        window = ""
        if touched.window_blocks_mean is not None:
            each = binary_size_text(
                round(touched.window_blocks_mean * popularity.block_bytes)
            )
            most = binary_size_text(
                round(touched.window_blocks_max * popularity.block_bytes)
            )
            window = (
                f"; in {duration_ns_text(touched.window_ns)} mean {each}, most {most}"
            )
        size = binary_size_text(round(touched.bytes))
        yield trace_row(
            "working set",
            f"{size}, {plural(round(touched.blocks), 'block')} of {block} ({how}){window}",
        )
    if popularity.tops:
        tops = ", ".join(
            f"{percent_text(top.blocks_share)} -> {percent_text(top.accesses_share)}"
            for top in popularity.tops
        )
        yield trace_row("popularity", f"the top blocks -> their accesses: {tops}")
    fit = popularity.zipf
    if fit is not None:
        judged = "" if fit.misfit <= 0.05 else "; no Zipf law: above 0.05"
        yield trace_row(
            "",
            f"Zipf exponent {fit.exponent:.3g} of the {fit.ranks:,} most popular, "
            f"misfit {fit.misfit:.2g}{judged}",
        )


def _sizes(result: TraceStatistics) -> str:
    sizes = result.sizes
    shown = sizes.commonest[:_SIZES]
    common = ", ".join(
        f"{binary_size_text(s.bytes)} {percent_text(s.share)}" for s in shown
    )
    different = (
        "more than are counted" if sizes.different is None else f"{sizes.different:,}"
    )
    mean = (
        ""
        if sizes.mean_bytes is None
        else f"; mean {binary_size_text(round(sizes.mean_bytes))}"
    )
    return f"{common}; {different} different{mean}"


def _sequentiality(sequentiality: Sequentiality) -> Iterator[str]:
    if sequentiality.sequential_share is None:
        return
    text = f"{percent_text(sequentiality.sequential_share)} start where the one before ended"
    if sequentiality.recent_share is not None:
        text += (
            f", {percent_text(sequentiality.recent_share)} where one of the last 32 did"
        )
    yield trace_row("sequential", text)
    runs = sequentiality.runs
    if runs.mean is not None:
        yield trace_row(
            "",
            f"runs of {number_text(runs.mean, 3)} operations (p99 {runs.p99:,}, max {runs.max:,})",
        )


# -- how long --------------------------------------------------------------------------


def _times(result: TraceStatistics) -> Iterator[str]:
    queue = result.queue
    if queue is None:
        yield trace_row(
            "queue", "unknown: the trace does not have the ends of operations"
        )
    else:
        mean = (
            ""
            if queue.mean is None
            else f"mean {number_text(queue.mean, 3)} over time, "
        )
        yield trace_row(
            "queue",
            f"{mean}{number_text(queue.mean_at_arrival, 3)} at arrivals, most {queue.max:,} "
            f"(of {queue.operations:,} with a known end)",
        )
    for name, times in (
        ("response", result.response_ns),
        ("issue error", result.issue_error_ns),
    ):
        if times.count:
            yield trace_row(name, f"{quantile_words(times)} (n {times.count:,})")


def quantile_words(times: TimeDistribution) -> str:
    """Return `mean 1 ms, p50 80 us, ...`, without absent figures."""
    mean = [] if times.mean is None else [f"mean {duration_ns_text(times.mean)}"]
    found = ((word, getattr(times, name)) for word, name in _QUANTILES)
    return ", ".join(
        [
            *mean,
            *(f"{word} {duration_ns_text(ns)}" for word, ns in found if ns is not None),
        ]
    )


# -- The fidelity of a replay as text: trace A, the intended times, trace B -------------

_ORIGINS = {
    "given": "as given",
    "stamps": "by B's own intended starts",
    "estimated": "estimated",
    "estimated-whole": "estimated, and taken as whole",
}
_SHOWN = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)


def compare_text(result: TraceComparison, findings: Sequence[Finding]) -> str:
    """Return the report with its findings, ending with a newline."""
    return report_text(
        _compare_head(result),
        _compare_arrivals(result),
        _sides(result),
        _readings(result),
        findings=findings,
    )


def _compare_head(result: TraceComparison) -> Iterator[str]:
    for name, side in (("A", result.a), ("B", result.b)):
        paths = ", ".join(side.report.paths)
        yield trace_row(name, f"{paths}: {plural(side.operations, 'operation')}")
    rest = (
        ("only in A", result.unmatched_a),
        ("only in B", result.unmatched_b),
        ("never issued by B", result.dropped_b),
    )
    others = "".join(f", {count:,} {what}" for what, count in rest)
    yield trace_row("pairs", f"{result.matched:,}{others}")
    yield trace_row("alignment", _alignment(result.alignment))


def _alignment(alignment: Alignment) -> str:
    speed = (
        f"speed {alignment.speed_micro / 1e6:.6g}x ({_ORIGINS[alignment.speed_from]})"
    )
    shift = f"A's zero at {signed_duration_ns_text(alignment.shift_ns)} of B ({_ORIGINS[alignment.shift_from]})"
    rest = f", from {alignment.pairs:,} pairs" if alignment.pairs else ""
    return f"{speed}, {shift}{rest}"


def _compare_arrivals(result: TraceComparison) -> Iterator[str]:
    error, counts = result.arrival_error, result.counts
    known = {
        round(quantile.share, 6): quantile.error_ns for quantile in error.quantiles
    }
    shown = [share for share in _SHOWN if share in known]
    if shown:
        heads = {0.0: "min", 1.0: "max"}
        yield from table_lines(
            [
                word_column("arrival error", ["B - A"], width=_NAME_WIDTH),
                *(
                    text_column(
                        heads.get(share, f"p{100 * share:g}"),
                        [signed_duration_ns_text(known[share])],
                    )
                    for share in shown
                ),
            ]
        )
    within = ", ".join(
        f"{percent_text(one.share)} within {duration_ns_text(one.within_ns)}"
        for one in error.within
    )
    if within:
        mean = (
            ""
            if error.mean_ns is None
            else f"; mean {signed_duration_ns_text(error.mean_ns)}"
        )
        yield trace_row("", within + mean)
    if counts.equal_share is not None:
        yield trace_row(
            "counts",
            f"{percent_text(counts.equal_share)} of A's operations in bins of "
            f"{duration_ns_text(counts.fine_bin_ns)} with equal counts; the counts overlap by "
            f"{percent_text(counts.overlap_share or 0.0)}",
        )


def _sides(result: TraceComparison) -> Iterator[str]:
    sides = (("A", result.a), ("B", result.b))
    scales = [one.bin_ns for one in result.a.dispersion if one.bins]
    known = [{one.bin_ns: one.index for one in side.dispersion} for _, side in sides]
    yield from table_lines(
        [
            word_column("dispersion", (name for name, _ in sides), width=_NAME_WIDTH),
            *(
                text_column(
                    duration_ns_text(ns), (number_text(one.get(ns), 3) for one in known)
                )
                for ns in scales
            ),
            word_column("", ["Poisson: 1"] * len(sides)),
        ]
    )
    yield from _pair("response", sides, _response, result.response_ratio)
    yield from _pair("queue", sides, _queue, result.queue_ratio)


def _pair(
    what: str,
    sides: Sequence[tuple[str, TraceSide]],
    words: Callable[[TraceSide], str],
    ratio: float | None,
) -> Iterator[str]:
    for name, side in sides:
        yield trace_row(f"{what} {name}", words(side))
    if ratio is not None:
        yield trace_row("", f"mean of B over mean of A: {number_text(ratio, 3)}")


def _response(side: TraceSide) -> str:
    times = side.response_ns
    return quantile_words(times) if times.count else "unknown"


def _queue(side: TraceSide) -> str:
    queue = side.queue
    if queue is None:
        return "unknown"
    mean = "" if queue.mean is None else f"mean {number_text(queue.mean, 3)}, "
    return (
        f"{mean}{number_text(queue.mean_at_arrival, 3)} at arrivals, most {queue.max:,}"
    )


def _readings(result: TraceComparison) -> Iterator[str]:
    for name, side in (("A", result.a), ("B", result.b)):
        for line in reading_lines(side.report):
            yield f"{name}: {line}" if line.strip() else line


# -- A converted trace as text ---------------------------------------------------------

_FIO = (
    "fio opens the file that each line names; --replay_redirect=FILE takes another file or device, "
    "--filename does not"
)
"""Tested with fio 3.33: with --read_iolog, --filename does not replace the log's file names."""


def convert_text(result: ConvertResult, findings: Sequence[Finding]) -> str:
    """Return the report, ending with a newline."""
    return report_text(_convert_lines(result), findings=findings)


def _convert_lines(result: ConvertResult) -> Iterator[str]:
    output = result.output
    size = binary_size_text(result.bytes)
    yield f"{output.path}: {plural(result.rows, 'operation')} as {output.format}, {size}"
    yield trace_row("from", ", ".join(result.trace.paths))
    yield from reading_lines(result.trace)
    for one in result.lost:
        yield trace_row("lost", one)
    if output.format == "fio-iolog":
        yield trace_row("fio", _FIO)


# -- Captured I/O as text --------------------------------------------------------------


def capture_text(result: CaptureResult, path: str, findings: Sequence[Finding]) -> str:
    """Return the report, ending with a newline."""
    return report_text(_capture_lines(result, path), findings=findings)


def _capture_lines(result: CaptureResult, path: str) -> Iterator[str]:
    seconds = result.elapsed_ns / 1e9
    rate = f", {result.operations / seconds:,.4g}/s" if seconds else ""
    length = duration_ns_text(result.elapsed_ns)
    yield f"{path}: {plural(result.operations, 'operation')} in {length}{rate}"
    if result.zero_monotonic_ns is not None:
        zero = f"{result.zero_monotonic_ns / 1e9:.6f} s of CLOCK_MONOTONIC"
        yield trace_row("time zero", f"{zero}, the first operation")
    always = (
        f"{plural(result.lost_events, 'event')} lost, {result.unfinished:,} without an end, "
        f"{plural(result.strangers, 'end')} of requests that other processes or earlier ones made"
    )
    rest = (
        ("on devices that appeared meanwhile", result.new_devices),
        ("lines not understood", result.unread_lines),
    )
    yield trace_row(
        "left over", always + "".join(f", {n:,} {what}" for what, n in rest if n)
    )


# -- the documents -----------------------------------------------------------------------


class TraceStatDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/trace-stat/1",
):
    """Statistics of each trace, with the engine's members."""

    request: tuple[StatRequest, ...]
    traces: tuple[Annotated[dict[str, Any], engine_answer("TraceStatistics")], ...]
    files: tuple[FileEntry, ...]
    findings: tuple[FindingEntry, ...]


class TraceCompareDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/trace-compare/1",
):
    """Fidelity of a replay, with the engine's members."""

    request: CompareRequest
    result: Annotated[dict[str, Any], engine_answer("TraceComparison")]
    files: tuple[FileEntry, ...]
    findings: tuple[FindingEntry, ...]


class TraceConvertDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/trace-convert/1",
):
    """The result of converting a trace, with the engine's members."""

    request: ConvertRequest
    result: Annotated[dict[str, Any], engine_answer("ConvertResult")]
    findings: tuple[FindingEntry, ...]


class CapturedCommand(msgspec.Struct, frozen=True):
    """The command whose I/O was captured, and how it ended."""

    argv: tuple[str, ...]
    status: int | None


class TraceCaptureDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/trace-capture/1",
):
    """Captured I/O, with the engine's members."""

    request: CaptureRequest
    output: str
    command: CapturedCommand | None
    result: Annotated[dict[str, Any], engine_answer("CaptureResult")]
    findings: tuple[FindingEntry, ...]
