"""What became of an I/O trace: how it was read, converted, captured.

Times are whole nanoseconds, sizes bytes. Absent is not zero: what a trace does not tell is
None. Decision: the engine measures (one pass in bounded memory), these types hold its
answer; a field that we do not know is passed over here and kept in the document that
`--json` prints. Sources: docs/engine-protocol.md, docs/trace-format.md.
"""

from __future__ import annotations

import msgspec


class TraceReport(msgspec.Struct, frozen=True):
    """What reading did to a trace: the policies in force, and how often each acted."""

    path: str
    paths: tuple[str, ...]
    format: str
    operations: int
    """Handed on."""
    skipped_lines: int
    skipped_first: tuple[str, ...]
    """The first of them, with place and reason."""
    other_events: int
    """Lines or records that are no operation's arrival."""
    unmatched_completions: int
    left_out: int
    """By `devices`, `from` and `for`."""
    reordered: int
    window_ns: int
    duplicates: str
    spread: int
    offsets: str
    wrapped: int
    scaled: bool
    source_bytes: int | None
    aligned: int
    clipped: int
    speed_micro: int
    devices: tuple[str, ...]
    notes: tuple[str, ...]


# -- capture, convert ------------------------------------------------------------------


class CaptureResult(msgspec.Struct, frozen=True):
    """What was recorded."""

    operations: int
    unfinished: int
    """Those whose end was not seen."""
    lost_events: int
    """What the kernel's buffer could not hold: the trace has gaps."""
    strangers: int
    """Ends of requests from before, or of others than the tree."""
    new_devices: int
    """Operations on devices that appeared meanwhile: not in the trace."""
    unread_lines: int
    elapsed_ns: int
    zero_monotonic_ns: int | None
    """CLOCK_MONOTONIC of the first operation, the trace's zero."""
    devices: tuple[str, ...]


class ConvertOutput(msgspec.Struct, frozen=True):
    """A file that was written."""

    path: str
    format: str


class ConvertResult(msgspec.Struct, frozen=True):
    """What was converted."""

    output: ConvertOutput
    rows: int
    bytes: int
    lost: tuple[str, ...]
    """What the format could not take over."""
    trace: TraceReport
