"""What an I/O trace is like: how bursty, how large, how sequential, how skewed, how deep.

Times are whole nanoseconds, sizes bytes. Absent is not zero: a figure that the trace does
not hold is None. Sources: docs/engine-protocol.md; docs/traces.md says what each means.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.model.load import Times
from benchwright.model.trace import TraceReport


class KindShare(msgspec.Struct, frozen=True):
    """One kind's part of a trace."""

    operations: int
    bytes: int
    share: float


class RateSeries(msgspec.Struct, frozen=True):
    """Arrivals over time."""

    bin_ns: int
    """The width of a bin; the last one may be shorter."""
    operations: tuple[int, ...]
    bytes: tuple[int, ...]
    operations_max: int


class Dispersion(msgspec.Struct, frozen=True):
    """Burstiness at one scale."""

    bin_ns: int
    bins: int
    mean: float | None
    """Arrivals in a bin."""
    max: int
    index: float | None
    """Variance of the counts over their mean: 1 for Poisson arrivals."""


class Gaps(msgspec.Struct, frozen=True):
    """Times between arrivals."""

    gap_ns: Times
    cv_squared: float | None
    """1 for Poisson arrivals, 0 for even ones."""
    equal: int
    """Arrivals with the stamp of the one before."""


class SizeCount(msgspec.Struct, frozen=True):
    """How common one size is."""

    bytes: int
    operations: int
    share: float


class SizeBucket(msgspec.Struct, frozen=True):
    """Operations of up to a size, and of more than the bucket before."""

    up_to_bytes: int
    operations: int


class Sizes(msgspec.Struct, frozen=True):
    """How large operations are."""

    mean_bytes: float | None
    different: int | None
    """None: more than are counted exactly."""
    commonest: tuple[SizeCount, ...]
    buckets: tuple[SizeBucket, ...]


class Runs(msgspec.Struct, frozen=True):
    """Operations in a row, each of which starts where the one before ended."""

    runs: int
    mean: float | None
    p50: int | None
    p99: int | None
    max: int | None


class Jump(msgspec.Struct, frozen=True):
    """Distances of up to so much, and of more than half of it."""

    up_to_bytes: int
    forward: int
    backward: int


class Sequentiality(msgspec.Struct, frozen=True):
    """How far operations lie from the one before, on their device."""

    operations: int
    sequential_share: float | None
    recent_share: float | None
    """Of those that start where one of the last 32 ended."""
    runs: Runs
    jumps: tuple[Jump, ...]


class DepthSeries(msgspec.Struct, frozen=True):
    """How many operations are under way, over time."""

    bin_ns: int
    mean: tuple[float, ...]


class QueueDepth(msgspec.Struct, frozen=True):
    """How many operations are under way."""

    operations: int
    without_end: int
    mean: float | None
    """Over time."""
    mean_at_arrival: float
    max: int
    series: DepthSeries


class Top(msgspec.Struct, frozen=True):
    """The most popular part of the touched blocks."""

    blocks_share: float
    accesses_share: float


class ZipfFit(msgspec.Struct, frozen=True):
    """The Zipf law that fits the popular blocks best."""

    exponent: float
    ranks: int
    """How many of the most popular blocks it was fitted to."""
    misfit: float
    """Above about 0.05 it is no Zipf law, whatever the exponent."""


class Popularity(msgspec.Struct, frozen=True):
    """How skewed accesses are."""

    method: Literal["exact", "sampled"]
    rate: float
    """The share of blocks that was followed."""
    block_bytes: int
    accesses: float
    tops: tuple[Top, ...]
    zipf: ZipfFit | None


class WorkingSet(msgspec.Struct, frozen=True):
    """How many different blocks are touched; by the method of `Popularity`."""

    blocks: float
    bytes: float
    window_ns: int
    windows: int
    window_blocks_mean: float | None
    window_blocks_max: float
    bin_ns: int
    cumulative: tuple[float, ...]
    """Different blocks touched from the start to the end of each bin."""


class StatResult(msgspec.Struct, frozen=True):
    """What a trace is like."""

    operations: int
    bytes: int
    duration_ns: int
    """From the first arrival to the last."""
    rate_per_s: float | None
    kinds: dict[str, KindShare]
    rate: RateSeries
    dispersion: tuple[Dispersion, ...]
    gaps: Gaps
    sizes: Sizes
    sequentiality: Sequentiality
    popularity: Popularity
    working_set: WorkingSet
    queue: QueueDepth | None
    """None: the trace does not tell when operations ended."""
    response_ns: Times
    issue_error_ns: Times
    errors: int
    report: TraceReport
