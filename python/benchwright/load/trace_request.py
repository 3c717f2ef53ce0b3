"""Requests about traces: to measure, compare, convert and capture them.

Decision: what the user does not say is not in the request, so that each format's own
default holds and the engine reports it. Source: docs/engine-protocol.md, `the others`.
"""

from __future__ import annotations

import msgspec

WRITTEN = ("bw", "fio-iolog")


class TraceInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A trace, and the policies for what it leaves open; None: the format's default."""

    path: str | tuple[str, ...]
    """Several are merged by time."""
    format: str | None = None
    lenient: bool = False
    window_ns: int | None = None
    duplicates: str | None = None
    from_ns: int = 0
    for_ns: int | None = None
    devices: tuple[str, ...] | None = None
    offsets: str | None = None
    target_bytes: int | None = None
    source_bytes: int | None = None
    align_bytes: int | None = None
    speed_micro: int | None = None
    v2_wait: str | None = None
    """What the number in a `wait` line of fio's iolog version 2 means: us or ms."""
    arrivals: str | None = None
    """Which event of blktrace is the arrival: queue or issue."""
    stamp_unit_ns: int | None = None
    """Of MQSim's stamps, which the file does not tell."""


class _Request(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"
):
    """Base of requests."""


class StatRequest(_Request, frozen=True, tag="trace-stat"):
    """What a trace is like."""

    input: TraceInput


class CompareRequest(_Request, frozen=True, kw_only=True, tag="trace-compare"):
    """How faithful a replay is."""

    a: TraceInput
    """What was meant."""
    b: TraceInput
    """What became of it."""
    speed_micro: int | None = None
    """None: estimated from the first operations."""
    shift_ns: int | None = None
    window_ns: int | None = None
    """How far apart a pair may be."""
    by_device: bool = False


class ConvertOutput(msgspec.Struct, frozen=True):
    """A file to be written."""

    path: str
    format: str


class ConvertRequest(_Request, frozen=True, tag="trace-convert"):
    """A trace in another format."""

    input: TraceInput
    output: ConvertOutput


class CaptureRequest(_Request, frozen=True, kw_only=True, tag="trace-capture"):
    """A recording of a device's or a process tree's I/O."""

    device: str | None = None
    pid: int | None = None
    for_ns: int | None = None
    """None: until interrupted."""
    output: str
    buffer_kib: int | None = None
