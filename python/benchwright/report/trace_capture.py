"""What was captured, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.load import time_words
from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.trace import CaptureResult
from benchwright.model.visible import visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.trace_reading import row


def capture_text(result: CaptureResult, path: str, findings: Sequence[Finding]) -> str:
    """Return the report, ended by a newline."""
    return visible_lines("\n".join(_lines(result, path, findings))) + "\n"


def _lines(
    result: CaptureResult, path: str, findings: Sequence[Finding]
) -> Iterator[str]:
    seconds = result.elapsed_ns / 1e9
    rate = f", {result.operations / seconds:,.4g}/s" if seconds else ""
    length = time_words(result.elapsed_ns)
    yield f"{path}: {counted(result.operations, 'operation')} in {length}{rate}"
    if result.zero_monotonic_ns is not None:
        zero = f"{result.zero_monotonic_ns / 1e9:.6f} s of CLOCK_MONOTONIC"
        yield row("time zero", f"{zero}, the first operation")
    always = (
        f"{counted(result.lost_events, 'event')} lost, {result.unfinished:,} without an end, "
        f"{counted(result.strangers, 'end')} of others' or earlier requests"
    )
    rest = (
        ("on devices that appeared meanwhile", result.new_devices),
        ("lines not understood", result.unread_lines),
    )
    yield row("left over", always + "".join(f", {n:,} {what}" for what, n in rest if n))
    if findings:
        yield ""
        yield from (finding_line(one) for one in findings)
