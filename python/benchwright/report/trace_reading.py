"""How a trace was read, as lines: the policies in force, and how often each acted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.load import time_words
from benchwright.model.trace import TraceReport
from benchwright.report.load import bytes_words

WIDTH = 14
"""Of the names at the left."""


def row(name: str, text: str) -> str:
    """Return a named line of a trace's report."""
    return f"{name:<{WIDTH}}{text}".rstrip()


def reading_lines(report: TraceReport) -> Iterator[str]:
    """Yield how it was read: format and policies, what they did, notes."""
    yield row("read as", "; ".join(_policies(report)))
    did = "; ".join(f"{number:,} {what}" for what, number in _counts(report) if number)
    if did:
        yield row("", did)
    if report.devices not in ((), ("0",)):
        yield row("devices", _listed(report.devices))
    for note in report.notes:
        yield row("note", note)


def _policies(report: TraceReport) -> Iterator[str]:
    yield report.format
    if report.window_ns:
        yield f"put in order within {time_words(report.window_ns)}"
    else:
        yield "in order"
    yield f"equal stamps: {report.duplicates}"
    yield f"offsets: {report.offsets}"
    if report.source_bytes is not None and report.scaled:
        yield f"scaled from {bytes_words(report.source_bytes)}"
    if report.speed_micro != 10**6:
        yield f"speed {report.speed_micro / 10**6:.6g}x"


def _counts(report: TraceReport) -> Iterator[tuple[str, int]]:
    yield "put in order", report.reordered
    yield "spread", report.spread
    yield "wrapped", report.wrapped
    yield "aligned", report.aligned
    yield "made smaller", report.clipped
    yield "left out by choice", report.left_out
    yield "malformed lines skipped", report.skipped_lines
    yield "other events", report.other_events
    yield "completions of no known operation", report.unmatched_completions


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
