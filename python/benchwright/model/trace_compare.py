"""How faithful a replay is: B, what an observer saw, beside A, what was meant.

Times are whole nanoseconds; an arrival error below zero is early. Absent is not zero.
Sources: docs/engine-protocol.md; Buttress paper, section 6.4, Figures 8 to 11.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.model.load import Times
from benchwright.model.trace import TraceReport
from benchwright.model.trace_stat import Dispersion, QueueDepth

Origin = Literal["given", "stamps", "estimated", "estimated-whole"]


class Alignment(msgspec.Struct, frozen=True):
    """How B's time is laid over A's, and where that comes from."""

    speed_micro: int
    speed_from: Origin
    shift_ns: int
    """The time of A's time zero in B."""
    shift_from: Origin
    pairs: int
    """That the estimates rest on; 0 where nothing was estimated."""


class SignedQuantile(msgspec.Struct, frozen=True):
    """The error that a share of pairs does not exceed."""

    share: float
    error_ns: int


class Within(msgspec.Struct, frozen=True):
    """The share of pairs that are at most so far off, early or late."""

    within_ns: int
    share: float


class ArrivalError(msgspec.Struct, frozen=True):
    """B's arrivals less A's, of pairs."""

    mean_ns: float | None
    quantiles: tuple[SignedQuantile, ...]
    within: tuple[Within, ...]
    late_ns: Times
    early_ns: Times
    absolute_ns: Times


class Counts(msgspec.Struct, frozen=True):
    """Arrivals in bins, side by side."""

    fine_bin_ns: int
    equal_share: float | None
    """Of A's operations, in narrow bins with equal counts."""
    overlap_share: float | None
    """The smaller count of each narrow bin, over A's operations."""
    bin_ns: int
    a: tuple[int, ...]
    b: tuple[int, ...]
    before_zero: int


class CdfPoint(msgspec.Struct, frozen=True):
    """A response time, and the share of operations that do not exceed it."""

    share_micro: int
    response_ns: int


class Side(msgspec.Struct, frozen=True):
    """One trace alone."""

    operations: int
    dispersion: tuple[Dispersion, ...]
    response_ns: Times
    response_cdf: tuple[CdfPoint, ...]
    queue: QueueDepth | None
    report: TraceReport


class CompareResult(msgspec.Struct, frozen=True):
    """How faithful B is to A."""

    alignment: Alignment
    matched: int
    unmatched_a: int
    unmatched_b: int
    dropped_b: int
    """Operations that B tells of but never issued."""
    arrival_error: ArrivalError
    counts: Counts
    a: Side
    b: Side
    response_ratio: float | None
    """B's mean over A's."""
    queue_ratio: float | None
