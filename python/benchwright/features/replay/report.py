"""The reports of `bw trace`, as text and for JSON: statistics, comparison, conversion, capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from benchwright.core.results import Finding
from benchwright.core.text import (
    binary_size_text,
    duration_ns_text,
    more_text,
    number_text,
    percent_text,
    plural,
    signed_duration_ns_text,
    some_text,
)
from benchwright.core.text_table import (
    field_lines,
    percent_column,
    table_lines,
    text_column,
    word_column,
)
from benchwright.core.untrusted import one_line
from benchwright.features.load.request import (
    CaptureRequest,
    CompareRequest,
    ConvertRequest,
    StatRequest,
)
from benchwright.features.load.types import TimeDistribution
from benchwright.features.replay.types import (
    Alignment,
    CaptureResult,
    ConvertResult,
    KindShare,
    OperationSizes,
    Popularity,
    RequestShare,
    Sequentiality,
    TraceComparison,
    TraceReport,
    TraceSide,
    TraceStatistics,
    WorkingSet,
)
from benchwright.report.documents import FileEntry, FindingEntry, engine_answer, report_text

# --------------------------------------------------------------------------------------
# How a trace was read, as lines: the policies, and how often each was applied.

_NAME_WIDTH = 12
"""Width of the names at the left."""
_MOST_DEVICES = 8


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
        name = "devices" if report.requests is None else "hosts"
        yield trace_row(name, some_text(report.devices, _MOST_DEVICES))
    for note in report.notes:
        yield trace_row("note", note)


def _policies(report: TraceReport) -> Iterator[str]:
    yield report.format
    if report.window_ns:
        yield f"reordered within {duration_ns_text(report.window_ns)}"
    else:
        yield "in order"
    yield f"equal stamps: {report.duplicates}"
    if report.requests is None:
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


# -- The statistics of a trace as text: one page ---------------------------------------
#
# Decision: each figure has its reference value beside it (Poisson arrivals have an index of
# dispersion of 1 at every scale), and figures from a sample are marked.
# Non-goal: the series, which `--json` has and `--plot` draws.

_SIZES = 6
_MOST_SHARES = 10
"""Hosts and paths that the text shows; `--json` has more."""
_MOST_STATUSES = 3
_LONGEST_NAME = 60
"""A path or host that is longer is shortened [characters]."""
_QUANTILES = (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p99_9"), ("max", "max"))


def stat_text(result: TraceStatistics, findings: Sequence[Finding]) -> str:
    """Return the report with its findings, ending with a newline."""
    subject = _places(result) if result.requests is None else _requests(result)
    times = _times(result) if result.requests is None else ()
    details = (_stat_arrivals(result), subject, times)
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
        f"{plural(result.operations, _noun(result))} in {duration_ns_text(result.duration_ns)}{rate}, "
        f"{binary_size_text(result.bytes)}"
        + ("" if result.requests is None else " of responses")
        + (f", {result.errors:,} failed" if result.errors else "")
    )


def _noun(result: TraceStatistics) -> str:
    return "operation" if result.requests is None else "request"


def _kinds(result: TraceStatistics) -> Iterator[str]:
    if not result.operations:
        return
    yield ""
    # Requests: the commonest method first.
    shown = sorted(
        result.kinds.items(), key=lambda one: 0 if result.requests is None else -one[1].operations
    )
    of = "size" if result.requests is None else "responses"
    yield from _share_table("", of, shown, result)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _share_table(
    title: str,
    of: str,
    shown: Sequence[tuple[str, KindShare | RequestShare]],
    result: TraceStatistics,
) -> Iterator[str]:
    """Yield a table of kinds, methods, hosts or paths; `of`: what has the size."""
    parts = [part for _, part in shown]
    whole = result.bytes
    means = (round(part.bytes / max(part.operations, 1)) for part in parts)
    names = [_cut(one_line(name)) for name, _ in shown]
    yield from table_lines(
        [
            word_column(title, names, width=_NAME_WIDTH),
            text_column(f"{_noun(result)}s", (f"{part.operations:,}" for part in parts)),
            percent_column("share", (part.share for part in parts)),
            text_column(of, (binary_size_text(part.bytes) for part in parts)),
            percent_column("share", (part.bytes / whole if whole else None for part in parts)),
            text_column("mean size", map(binary_size_text, means)),
        ]
    )


# -- when ------------------------------------------------------------------------------


def _stat_arrivals(result: TraceStatistics) -> Iterator[str]:
    requests = result.report.requests
    coarse = requests is not None and 2 * requests.whole_seconds > result.operations
    shown = [
        dispersion
        for dispersion in result.dispersion
        if dispersion.bins and not (coarse and dispersion.bin_ns < 10**9)
    ]
    if shown:
        yield from table_lines(
            [
                word_column("scale", ["dispersion", "mean count", "most"], width=_NAME_WIDTH),
                *(
                    text_column(
                        duration_ns_text(dispersion.bin_ns),
                        [
                            number_text(dispersion.index, 3),
                            number_text(dispersion.mean, 3),
                            f"{dispersion.max:,}",
                        ],
                    )
                    for dispersion in shown
                ),
                word_column("", ["Poisson: 1"]),
            ]
        )
    gaps = result.gaps
    if coarse:
        yield trace_row("gaps", "unknown within a second: the time stamps are whole seconds")
    elif gaps.gap_ns.count:
        spread = (
            ""
            if gaps.cv_squared is None
            else f"; cv² {number_text(gaps.cv_squared, 3)}, Poisson: 1"
        )
        equal = f"; {gaps.equal:,} of {gaps.gap_ns.count:,} zero" if gaps.equal else ""
        yield trace_row("gaps", quantile_words(gaps.gap_ns) + spread + equal)


# -- where -----------------------------------------------------------------------------


def _places(result: TraceStatistics) -> Iterator[str]:
    if result.sizes is not None:
        yield trace_row("sizes", _sizes(result.sizes))
    if result.sequentiality is not None:
        yield from _sequentiality(result.sequentiality)
    yield from _popularity(result.popularity, result.working_set)


def _popularity(popularity: Popularity, touched: WorkingSet) -> Iterator[str]:
    """Yield the working set and its skew: of blocks, or of the paths of requests."""
    block_bytes = popularity.block_bytes
    noun = "path" if block_bytes is None else "block"

    def amount(blocks: float) -> str:
        if block_bytes is None:
            return f"{round(blocks):,}"
        return binary_size_text(round(blocks * block_bytes))

    how = "exact"
    if popularity.method == "sampled":
        how = f"sampled: 1 of {1 / popularity.rate:,.0f} {noun}s was followed"
    if touched.blocks:
        window = ""
        if touched.window_blocks_mean is not None:
            each = amount(touched.window_blocks_mean)
            most = amount(touched.window_blocks_max)
            window = f"; in {duration_ns_text(touched.window_ns)} mean {each}, most {most}"
        number = plural(round(touched.blocks), noun)
        if block_bytes is None:
            size = f"{number} with queries"
        else:
            block = binary_size_text(block_bytes)
            size = f"{amount(touched.blocks)}, {number} of {block}"
        yield trace_row("working set", f"{size} ({how}){window}")
    if popularity.tops:
        tops = ", ".join(
            f"{percent_text(top.blocks_share)} -> {percent_text(top.accesses_share)}"
            for top in popularity.tops
        )
        yield trace_row("popularity", f"the top {noun}s -> their accesses: {tops}")
    fit = popularity.zipf
    if fit is not None:
        judged = "" if fit.misfit <= 0.05 else "; no Zipf law: above 0.05"
        yield trace_row(
            "",
            f"Zipf exponent {fit.exponent:.3g} of the {fit.ranks:,} most popular, "
            f"misfit {fit.misfit:.2g}{judged}",
        )


def _requests(result: TraceStatistics) -> Iterator[str]:
    """Yield what recorded requests are: statuses, bodies, hosts, paths."""
    requests = result.requests
    assert requests is not None
    yield trace_row("statuses", _statuses(requests.statuses, result.operations))
    for name, sizes in (
        ("responses", requests.response_bytes),
        ("bodies sent", requests.body_bytes),
    ):
        if sizes.count:
            yield trace_row(name, f"{quantile_words(sizes, _bytes_text)} (n {sizes.count:,})")
    yield from _popularity(result.popularity, result.working_set)
    for title, shares, different in (
        ("host", requests.hosts, len(result.report.devices)),
        ("path", requests.paths, requests.different_paths),
    ):
        if not shares:
            continue
        shown = shares[:_MOST_SHARES]
        yield ""
        yield from _share_table(
            title, "responses", [(share.name, share) for share in shown], result
        )
        if different > len(shown):
            yield more_text(different - len(shown))


def _bytes_text(size: float) -> str:
    return binary_size_text(round(size))


def _statuses(statuses: Mapping[str, int], operations: int) -> str:
    """Return `2xx 90 %, 4xx 10 % (404 8 %, 403 2 %)`: classes, of errors the commonest statuses."""
    words = []
    for first in sorted({int(status) // 100 for status in statuses}):
        of = {one: n for one, n in statuses.items() if int(one) // 100 == first}
        commonest = sorted(of, key=lambda one: (-of[one], one))[:_MOST_STATUSES]
        each = ", ".join(f"{one} {percent_text(of[one] / operations)}" for one in commonest)
        text = f"{first}xx {percent_text(sum(of.values()) / operations)}"
        words.append(f"{text} ({each})" if first >= 4 else text)
    if unknown := operations - sum(statuses.values()):
        words.append(f"not recorded {percent_text(unknown / operations)}")
    return ", ".join(words)


def _sizes(sizes: OperationSizes) -> str:
    shown = sizes.commonest[:_SIZES]
    common = ", ".join(f"{binary_size_text(s.bytes)} {percent_text(s.share)}" for s in shown)
    different = "more than are counted" if sizes.different is None else f"{sizes.different:,}"
    mean = "" if sizes.mean_bytes is None else f"; mean {binary_size_text(round(sizes.mean_bytes))}"
    return f"{common}; {different} different{mean}"


def _sequentiality(sequentiality: Sequentiality) -> Iterator[str]:
    if sequentiality.sequential_share is None:
        return
    text = f"{percent_text(sequentiality.sequential_share)} start where the one before ended"
    if sequentiality.recent_share is not None:
        text += f", {percent_text(sequentiality.recent_share)} where one of the last 32 did"
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
        yield trace_row("queue", "unknown: the trace does not have the ends of operations")
    else:
        mean = "" if queue.mean is None else f"mean {number_text(queue.mean, 3)} over time, "
        yield trace_row(
            "queue",
            f"{mean}{number_text(queue.mean_at_arrival, 3)} at arrivals, most {queue.max:,} "
            f"(of {queue.operations:,} with a known end)",
        )
    for name, times in (("response", result.response_ns), ("issue error", result.issue_error_ns)):
        if times.count:
            yield trace_row(name, f"{quantile_words(times)} (n {times.count:,})")


def quantile_words(times: TimeDistribution, text: Callable[[float], str] = duration_ns_text) -> str:
    """Return `mean 1 ms, p50 80 us, ...`, without absent figures; `text`: of a value."""
    mean = [] if times.mean is None else [f"mean {text(times.mean)}"]
    found = ((word, getattr(times, name)) for word, name in _QUANTILES)
    words = (f"{word} {text(value)}" for word, value in found if value is not None)
    return ", ".join([*mean, *words])


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
    speed = f"speed {alignment.speed_micro / 1e6:.6g}x ({_ORIGINS[alignment.speed_from]})"
    shift = f"A's zero at {signed_duration_ns_text(alignment.shift_ns)} of B ({_ORIGINS[alignment.shift_from]})"
    rest = f", from {alignment.pairs:,} pairs" if alignment.pairs else ""
    return f"{speed}, {shift}{rest}"


def _compare_arrivals(result: TraceComparison) -> Iterator[str]:
    error, counts = result.arrival_error, result.counts
    known = {round(quantile.share, 6): quantile.error_ns for quantile in error.quantiles}
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
        f"{percent_text(error_share.share)} within {duration_ns_text(error_share.within_ns)}"
        for error_share in error.within
    )
    if within:
        mean = "" if error.mean_ns is None else f"; mean {signed_duration_ns_text(error.mean_ns)}"
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
    scales = [dispersion.bin_ns for dispersion in result.a.dispersion if dispersion.bins]
    known = [
        {dispersion.bin_ns: dispersion.index for dispersion in side.dispersion} for _, side in sides
    ]
    yield from table_lines(
        [
            word_column("dispersion", (name for name, _ in sides), width=_NAME_WIDTH),
            *(
                text_column(duration_ns_text(ns), (number_text(one.get(ns), 3) for one in known))
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
    return f"{mean}{number_text(queue.mean_at_arrival, 3)} at arrivals, most {queue.max:,}"


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
        ("records not understood", result.unread_lines),
    )
    yield trace_row("left over", always + "".join(f", {n:,} {what}" for what, n in rest if n))


# -- the documents -----------------------------------------------------------------------


class TraceStatDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/trace-stat/1"
):
    """Statistics of each trace, with the engine's members."""

    request: tuple[StatRequest, ...]
    traces: tuple[Annotated[dict[str, Any], engine_answer("TraceStatistics")], ...]
    files: tuple[FileEntry, ...]
    findings: tuple[FindingEntry, ...]


class TraceCompareDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/trace-compare/1"
):
    """Fidelity of a replay, with the engine's members."""

    request: CompareRequest
    result: Annotated[dict[str, Any], engine_answer("TraceComparison")]
    files: tuple[FileEntry, ...]
    findings: tuple[FindingEntry, ...]


class TraceConvertDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/trace-convert/1"
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
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/trace-capture/1"
):
    """Captured I/O, with the engine's members."""

    request: CaptureRequest
    output: str
    command: CapturedCommand | None
    result: Annotated[dict[str, Any], engine_answer("CaptureResult")]
    findings: tuple[FindingEntry, ...]
