"""How faithful a replay is, for a person: A, what was meant, and B side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchwright.finding.load import time_words
from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.trace_compare import Alignment, CompareResult, Side
from benchwright.model.visible import visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.trace_reading import reading_lines, row
from benchwright.report.trace_stat import number, quantile_words, share_words

_ORIGINS = {
    "given": "as given",
    "stamps": "by B's own intended starts",
    "estimated": "estimated",
    "estimated-whole": "estimated, and taken as whole",
}
_SHOWN = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)


def compare_text(result: CompareResult, findings: Sequence[Finding]) -> str:
    """Return the report, ended by a newline; findings follow."""
    lines = [
        *_head(result),
        "",
        *_arrivals(result),
        "",
        *_sides(result),
        "",
        *_readings(result),
    ]
    if findings:
        lines += ["", *(finding_line(one) for one in findings)]
    return visible_lines("\n".join(lines)) + "\n"


def _head(result: CompareResult) -> Iterator[str]:
    for name, side in (("A", result.a), ("B", result.b)):
        paths = ", ".join(side.report.paths)
        yield row(name, f"{paths}: {counted(side.operations, 'operation')}")
    rest = (
        ("only in A", result.unmatched_a),
        ("only in B", result.unmatched_b),
        ("never issued by B", result.dropped_b),
    )
    told = "".join(f", {count:,} {what}" for what, count in rest)
    yield row("pairs", f"{result.matched:,}{told}")
    yield row("alignment", _alignment(result.alignment))


def _alignment(found: Alignment) -> str:
    speed = f"speed {found.speed_micro / 1e6:.6g}x ({_ORIGINS[found.speed_from]})"
    shift = f"A's zero at {signed_words(found.shift_ns)} of B ({_ORIGINS[found.shift_from]})"
    rest = f", from {found.pairs:,} pairs" if found.pairs else ""
    return f"{speed}, {shift}{rest}"


def _arrivals(result: CompareResult) -> Iterator[str]:
    error, counts = result.arrival_error, result.counts
    known = {round(one.share, 6): one.error_ns for one in error.quantiles}
    shown = [share for share in _SHOWN if share in known]
    if shown:
        names = (
            "min" if s == 0 else "max" if s == 1 else f"p{100 * s:g}" for s in shown
        )
        yield row("arrival error", "".join(f"{name:>11}" for name in names))
        yield row("B - A", "".join(f"{signed_words(known[s]):>11}" for s in shown))
    within = ", ".join(
        f"{share_words(one.share)} within {time_words(one.within_ns)}"
        for one in error.within
    )
    if within:
        mean = "" if error.mean_ns is None else f"; mean {signed_words(error.mean_ns)}"
        yield row("", within + mean)
    if counts.equal_share is not None:
        yield row(
            "counts",
            f"{share_words(counts.equal_share)} of A's operations in bins of "
            f"{time_words(counts.fine_bin_ns)} with equal counts; the counts overlap by "
            f"{share_words(counts.overlap_share or 0.0)}",
        )


def _sides(result: CompareResult) -> Iterator[str]:
    sides = (("A", result.a), ("B", result.b))
    scales = [one.bin_ns for one in result.a.dispersion if one.bins]
    yield row("dispersion", "".join(f"{time_words(ns):>11}" for ns in scales))
    for name, side in sides:
        known = {one.bin_ns: one.index for one in side.dispersion}
        cells = "".join(f"{number(known.get(ns)):>11}" for ns in scales)
        yield row(name, cells + "  (Poisson: 1)")
    yield from _pair("response", sides, _response, result.response_ratio)
    yield from _pair("queue", sides, _queue, result.queue_ratio)


def _pair(
    what: str,
    sides: Sequence[tuple[str, Side]],
    words: Callable[[Side], str],
    ratio: float | None,
) -> Iterator[str]:
    for name, side in sides:
        yield row(f"{what} {name}", words(side))
    if ratio is not None:
        yield row("", f"mean of B over mean of A: {number(ratio)}")


def _response(side: Side) -> str:
    times = side.response_ns
    return quantile_words(times) if times.count else "not known"


def _queue(side: Side) -> str:
    queue = side.queue
    if queue is None:
        return "not known"
    mean = "" if queue.mean is None else f"mean {number(queue.mean)}, "
    return (
        f"{mean}{number(queue.mean_at_arrival)} found by an arrival, most {queue.max:,}"
    )


def _readings(result: CompareResult) -> Iterator[str]:
    for name, side in (("A", result.a), ("B", result.b)):
        for line in reading_lines(side.report):
            yield f"{name}: {line}" if line.strip() else line


def signed_words(ns: float) -> str:
    """Return a time with its sign; zero without one."""
    if not ns:
        return "0"
    return ("-" if ns < 0 else "+") + time_words(abs(ns))
