"""What is doubtful about a trace: lines that were skipped, events that were lost.

Decision: a trace with gaps is still a trace, so these are findings, and the exit status
stays 0; what may be missing is told with its number.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.finding.codes import doubt
from benchwright.model.finding import Finding
from benchwright.model.trace import CaptureResult, TraceReport
from benchwright.model.trace_compare import CompareResult
from benchwright.model.trace_stat import StatResult

_EQUAL = 0.5
"""Where most arrivals share a stamp, the clock was too coarse to tell bursts apart."""
_UNMATCHED = 0.001
"""One in a thousand: beyond, the pairs may be of other operations than those that count."""


def doubts_of_reading(report: TraceReport) -> tuple[Finding, ...]:
    """Return the doubts about how a trace was read."""
    return tuple(_reading(report))


def empty_words(path: str, left_out: int) -> str:
    """Return what is said of a trace that has no operation, or none that was asked for."""
    if left_out:
        return (
            f"no operation of {path} is in the part that was asked for: all {left_out:,} "
            "were left out"
        )
    return f"{path} has no operation"


def _reading(report: TraceReport) -> Iterator[Finding]:
    if not report.operations:
        text = empty_words(report.path, report.left_out)
        yield doubt("trace-empty", report.path, text)
    if report.skipped_lines:
        first = (
            f"; the first: {report.skipped_first[0]}" if report.skipped_first else ""
        )
        text = f"{report.skipped_lines:,} lines were not understood{first}"
        yield doubt("trace-lines-skipped", report.path, text)
    if report.clipped:
        text = f"{report.clipped:,} operations were made smaller, to fit"
        yield doubt("trace-clipped", report.path, text)


def doubts_of_stat(result: StatResult) -> tuple[Finding, ...]:
    """Return the doubts about what was measured of a trace."""
    return tuple(_stat(result))


def _stat(result: StatResult) -> Iterator[Finding]:
    report, gaps = result.report, result.gaps
    yield from _reading(report)
    if gaps.equal > _EQUAL * max(1, gaps.gap_ns.count) and report.duplicates == "burst":
        text = (
            f"{gaps.equal:,} of {gaps.gap_ns.count:,} operations have the stamp of the one "
            "before: below the clock's step, bursts are the clock's"
        )
        yield doubt("trace-stamps-coarse", report.path, text)
    if result.queue is not None and result.queue.without_end:
        text = (
            f"{result.queue.without_end:,} operations have no known end: they are in no "
            "response time and no queue"
        )
        yield doubt("trace-ends-missing", report.path, text)


def doubts_of_capture(result: CaptureResult, path: str) -> tuple[Finding, ...]:
    """Return the doubts about a recording, which is at `path`."""
    return tuple(_capture(result, path))


def _capture(result: CaptureResult, path: str) -> Iterator[Finding]:
    if result.lost_events:
        text = f"the kernel's buffer could not hold {result.lost_events:,} events"
        yield doubt("capture-events-lost", path, text)
    if result.unread_lines:
        text = f"{result.unread_lines:,} of the kernel's lines were not understood"
        yield doubt("capture-lines-unread", path, text)
    if result.new_devices:
        text = (
            f"{result.new_devices:,} operations went to devices that appeared meanwhile"
        )
        yield doubt("capture-new-devices", path, text)
    if result.unfinished:
        text = f"no end was seen of {result.unfinished:,} of {result.operations:,} operations"
        yield doubt("trace-ends-missing", path, text)
    if not result.operations:
        text = (
            "no request reached a block device: what the page cache holds causes none"
        )
        yield doubt("capture-empty", path, text)


def doubts_of_compare(result: CompareResult) -> tuple[Finding, ...]:
    """Return the doubts about a comparison."""
    return tuple(_compare(result))


def _compare(result: CompareResult) -> Iterator[Finding]:
    yield from _reading(result.a.report)
    yield from _reading(result.b.report)
    subject = result.b.report.path
    if result.unmatched_a > _UNMATCHED * result.a.operations:
        text = (
            f"{result.unmatched_a:,} of {result.a.operations:,} operations of "
            f"{result.a.report.path} are not in it within the window"
        )
        yield doubt("trace-unmatched", subject, text)
    origins = (result.alignment.speed_from, result.alignment.shift_from)
    if "estimated" in origins or "estimated-whole" in origins:
        text = (
            f"the alignment was estimated from {result.alignment.pairs:,} pairs: an error that "
            "all operations share cannot be seen"
        )
        yield doubt("trace-alignment-estimated", subject, text)
