"""Findings about traces: skipped lines, lost events.

Decision: a trace with gaps is still a trace, so these are findings, and the exit status stays 0;
the number of missing operations is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.results import Finding
from benchwright.features.load.findings import empty_text, requests_findings
from benchwright.features.replay.types import (
    CaptureResult,
    TraceComparison,
    TraceReport,
    TraceStatistics,
)
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding


def trace_reading_findings(report: TraceReport) -> tuple[Finding, ...]:
    """Return the findings about how a trace was read."""
    return tuple(_reading(report))


def _reading(report: TraceReport, *, sent: bool = True) -> Iterator[Finding]:
    if not report.operations:
        text = empty_text(report.path, report.left_out)
        yield make_finding("trace-empty", report.path, text)
    if report.skipped_lines:
        first = f"; the first: {report.skipped_first[0]}" if report.skipped_first else ""
        text = f"{report.skipped_lines:,} lines were not understood{first}"
        yield make_finding("trace-lines-skipped", report.path, text)
    if report.clipped:
        text = f"{report.clipped:,} operations were shortened to fit the target"
        yield make_finding("trace-clipped", report.path, text)
    if report.requests is not None:
        yield from requests_findings(
            report.requests, report.path, report.duplicates, report.path, sent=sent
        )


def trace_stat_findings(result: TraceStatistics) -> tuple[Finding, ...]:
    """Return the findings about the statistics of a trace."""
    return tuple(_stat(result))


def _stat(result: TraceStatistics) -> Iterator[Finding]:
    report, gaps = result.report, result.gaps
    yield from _reading(report, sent=False)
    if (
        gaps.equal > t.SAME_STAMP * max(1, gaps.gap_ns.count)
        and report.duplicates == "burst"
        and not (report.requests and report.requests.whole_seconds)
    ):
        text = (
            f"{gaps.equal:,} of {gaps.gap_ns.count:,} operations have the time stamp of the one "
            "before: bursts shorter than the clock's step come from the clock"
        )
        yield make_finding("trace-stamps-coarse", report.path, text)
    if result.queue is not None and result.queue.without_end:
        text = (
            f"{result.queue.without_end:,} operations have no known end: they are not in "
            "response times or the queue"
        )
        yield make_finding("trace-ends-missing", report.path, text)


def trace_capture_findings(result: CaptureResult, path: str) -> tuple[Finding, ...]:
    """Return the findings about the recording at `path`."""
    return tuple(_capture(result, path))


def _capture(result: CaptureResult, path: str) -> Iterator[Finding]:
    if result.lost_events:
        text = f"the kernel's buffer could not hold {result.lost_events:,} events"
        yield make_finding("capture-events-lost", path, text)
    if result.unread_lines:
        text = f"{result.unread_lines:,} of the kernel's lines were not understood"
        yield make_finding("capture-lines-unread", path, text)
    if result.new_devices:
        text = f"{result.new_devices:,} operations went to devices that appeared during the capture"
        yield make_finding("capture-new-devices", path, text)
    if result.unfinished:
        text = f"{result.unfinished:,} of {result.operations:,} operations have no recorded end"
        yield make_finding("trace-ends-missing", path, text)
    if not result.operations:
        text = "no request reached a block device: the page cache answered all of them"
        yield make_finding("capture-empty", path, text)


def trace_compare_findings(result: TraceComparison) -> tuple[Finding, ...]:
    """Return the findings about a comparison of traces."""
    return tuple(_compare(result))


def _compare(result: TraceComparison) -> Iterator[Finding]:
    yield from _reading(result.a.report)
    yield from _reading(result.b.report)
    subject = result.b.report.path
    if result.unmatched_a > t.UNMATCHED * result.a.operations:
        text = (
            f"{result.unmatched_a:,} of {result.a.operations:,} operations of "
            f"{result.a.report.path} have no match within the window"
        )
        yield make_finding("trace-unmatched", subject, text)
    origins = (result.alignment.speed_from, result.alignment.shift_from)
    if "estimated" in origins or "estimated-whole" in origins:
        text = (
            f"the alignment was estimated from {result.alignment.pairs:,} pairs: an error "
            "common to all operations is invisible"
        )
        yield make_finding("trace-alignment-estimated", subject, text)
