"""Findings about traces: skipped lines, lost events.

Decision: a trace with gaps is still a trace, so these are findings, and the exit status stays 0;
the number of missing operations is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.results import Finding, states
from benchwright.features.load.findings import empty_trace, requests_findings
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
        shown = empty_trace(report.path, report.left_out)
        yield make_finding("trace-empty", report.path, shown)
    if report.skipped_lines:
        first = str(report.skipped_first[0]) if report.skipped_first else None
        shown = states(lines=report.skipped_lines, first=first)
        yield make_finding("trace-lines-skipped", report.path, shown)
    if report.clipped:
        yield make_finding("trace-clipped", report.path, states(operations=report.clipped))
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
        shown = states(equal=gaps.equal, operations=gaps.gap_ns.count)
        yield make_finding("trace-stamps-coarse", report.path, shown)
    if result.queue is not None and result.queue.without_end:
        shown = states(operations=result.queue.without_end)
        yield make_finding("trace-ends-missing", report.path, shown)


def trace_capture_findings(result: CaptureResult, path: str) -> tuple[Finding, ...]:
    """Return the findings about the recording at `path`."""
    return tuple(_capture(result, path))


def _capture(result: CaptureResult, path: str) -> Iterator[Finding]:
    if result.lost_events:
        yield make_finding("capture-events-lost", path, states(events=result.lost_events))
    if result.unread_lines:
        yield make_finding("capture-lines-unread", path, states(lines=result.unread_lines))
    if result.new_devices:
        yield make_finding("capture-new-devices", path, states(operations=result.new_devices))
    if result.unfinished:
        shown = states("captured", unfinished=result.unfinished, operations=result.operations)
        yield make_finding("trace-ends-missing", path, shown)
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
        shown = states(
            unmatched=result.unmatched_a, operations=result.a.operations, path=result.a.report.path
        )
        yield make_finding("trace-unmatched", subject, shown)
    origins = (result.alignment.speed_from, result.alignment.shift_from)
    if "estimated" in origins or "estimated-whole" in origins:
        shown = states(pairs=result.alignment.pairs)
        yield make_finding("trace-alignment-estimated", subject, shown)
