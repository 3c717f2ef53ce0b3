"""What the engine reports about I/O traces: reading, capture, conversion, statistics, comparison."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.features.load.types import RecordedRequests, TimeDistribution

# -- Reading, converting and capturing an I/O trace ------------------------------------
#
# Times are whole nanoseconds, sizes bytes. Absent is not zero: what a trace does not contain is
# None. Decision: the engine measures (one pass in bounded memory), these types hold its
# answer; a field that we do not know is skipped here and stays in the document that
# `--json` prints. Sources: docs/engine-protocol.md, docs/trace-format.md.


class TraceReport(msgspec.Struct, frozen=True):
    """Policies applied when reading a trace, and how often each took effect."""

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
    requests: RecordedRequests | None = None
    """None: it is not a trace of requests."""


# -- capture, convert ------------------------------------------------------------------


class CaptureResult(msgspec.Struct, frozen=True):
    """Counts of a recording."""

    operations: int
    unfinished: int
    """Those without a recorded end."""
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


class ConvertedFile(msgspec.Struct, frozen=True):
    """A file that was written."""

    path: str
    format: str


class ConvertResult(msgspec.Struct, frozen=True):
    """Counts of a conversion."""

    output: ConvertedFile
    rows: int
    bytes: int
    lost: tuple[str, ...]
    """What the format could not take over."""
    trace: TraceReport


# --------------------------------------------------------------------------------------
# Statistics of an I/O trace: burstiness, sizes, sequentiality, skew, queue
# depth.
#
# Times are whole nanoseconds, sizes bytes. Absent is not zero: a figure that the trace does not
# hold is None, as sizes and places of recorded requests. Sources: docs/engine-protocol.md;
# docs/traces.md says what each means.


class KindShare(msgspec.Struct, frozen=True):
    """One kind's or method's part of a trace."""

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


class ArrivalGaps(msgspec.Struct, frozen=True):
    """Times between arrivals."""

    gap_ns: TimeDistribution
    cv_squared: float | None
    """1 for Poisson arrivals, 0 for even ones."""
    equal: int
    """Arrivals with the stamp of the one before."""


class SizeCount(msgspec.Struct, frozen=True):
    """Frequency of one size."""

    bytes: int
    operations: int
    share: float


class SizeBucket(msgspec.Struct, frozen=True):
    """Operations up to a size and above the previous bucket."""

    up_to_bytes: int
    operations: int


class OperationSizes(msgspec.Struct, frozen=True):
    """Sizes of operations."""

    mean_bytes: float | None
    different: int | None
    """None: more than are counted exactly."""
    commonest: tuple[SizeCount, ...]
    buckets: tuple[SizeBucket, ...]


class SequentialRuns(msgspec.Struct, frozen=True):
    """Sequential runs: operations that each start where the previous one ended."""

    runs: int
    mean: float | None
    p50: int | None
    p99: int | None
    max: int | None


class JumpBucket(msgspec.Struct, frozen=True):
    """Number of distances up to a limit and above half of it."""

    up_to_bytes: int
    forward: int
    backward: int


class Sequentiality(msgspec.Struct, frozen=True):
    """Distances between consecutive operations on a device."""

    operations: int
    sequential_share: float | None
    recent_share: float | None
    """Of those that start where one of the last 32 ended."""
    runs: SequentialRuns
    jumps: tuple[JumpBucket, ...]


class DepthSeries(msgspec.Struct, frozen=True):
    """Operations in flight, over time."""

    bin_ns: int
    mean: tuple[float, ...]


class QueueDepth(msgspec.Struct, frozen=True):
    """Operations in flight."""

    operations: int
    without_end: int
    mean: float | None
    """Over time."""
    mean_at_arrival: float
    max: int
    series: DepthSeries


class PopularShare(msgspec.Struct, frozen=True):
    """The most popular part of the touched blocks or paths."""

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
    """Skew of accesses."""

    method: Literal["exact", "sampled"]
    rate: float
    """The share of blocks that was followed."""
    block_bytes: int | None
    """None: of recorded requests the paths are counted, with their queries and hosts."""
    accesses: float
    tops: tuple[PopularShare, ...]
    zipf: ZipfFit | None


class WorkingSet(msgspec.Struct, frozen=True):
    """Number of different blocks or paths touched, by the method of `Popularity`."""

    blocks: float
    bytes: float | None
    window_ns: int
    windows: int
    window_blocks_mean: float | None
    window_blocks_max: float
    bin_ns: int
    cumulative: tuple[float, ...]
    """Different blocks touched from the start to the end of each bin."""


class RequestShare(msgspec.Struct, frozen=True):
    """One host's or path's part of recorded requests."""

    name: str
    operations: int
    bytes: int
    """Of the bodies of the responses."""
    share: float


class RequestStatistics(msgspec.Struct, frozen=True):
    """What recorded requests are."""

    statuses: dict[str, int]
    """Requests by the status of their response, where it is recorded."""
    hosts: tuple[RequestShare, ...]
    """Those with the most requests, most first."""
    paths: tuple[RequestShare, ...]
    """Those with the most requests, without their queries, most first."""
    different_paths: int
    body_bytes: TimeDistribution
    """Sizes of the requests' bodies, of those that have one [bytes]."""
    response_bytes: TimeDistribution
    """Sizes of the responses' bodies, of those that are known [bytes]."""


class TraceStatistics(msgspec.Struct, frozen=True):
    """Statistics of a trace."""

    operations: int
    bytes: int
    """Of the operations; of requests, of the bodies of their responses."""
    duration_ns: int
    """From the first arrival to the last."""
    rate_per_s: float | None
    kinds: dict[str, KindShare]
    """Requests by method."""
    rate: RateSeries
    dispersion: tuple[Dispersion, ...]
    gaps: ArrivalGaps
    sizes: OperationSizes | None
    """None: they are requests."""
    sequentiality: Sequentiality | None
    """None: they are requests."""
    popularity: Popularity
    working_set: WorkingSet
    queue: QueueDepth | None
    """None: the trace has no ends of operations."""
    response_ns: TimeDistribution
    issue_error_ns: TimeDistribution
    errors: int
    report: TraceReport
    requests: RequestStatistics | None = None
    """None: the trace is one of block I/O."""


# -- Fidelity of a replay: B, the observed trace, compared with A, the intended one ----
#
# Times are whole nanoseconds; an arrival error below zero is early. Absent is not zero.
# Sources: docs/engine-protocol.md; Buttress paper, section 6.4, Figures 8 to 11.

AlignmentSource = Literal["given", "stamps", "estimated", "estimated-whole"]


class Alignment(msgspec.Struct, frozen=True):
    """Alignment of B's time with A's, and its source."""

    speed_micro: int
    speed_from: AlignmentSource
    shift_ns: int
    """The time of A's time zero in B."""
    shift_from: AlignmentSource
    pairs: int
    """That the estimates rest on; 0 where nothing was estimated."""


class SignedQuantile(msgspec.Struct, frozen=True):
    """The error that a share of pairs does not exceed."""

    share: float
    error_ns: int


class ErrorShare(msgspec.Struct, frozen=True):
    """Share of pairs with an arrival error up to a limit, early or late."""

    within_ns: int
    share: float


class ArrivalError(msgspec.Struct, frozen=True):
    """Arrival times of B minus those of A, for matched pairs."""

    mean_ns: float | None
    quantiles: tuple[SignedQuantile, ...]
    within: tuple[ErrorShare, ...]
    late_ns: TimeDistribution
    early_ns: TimeDistribution
    absolute_ns: TimeDistribution


class BinCounts(msgspec.Struct, frozen=True):
    """Arrivals of A and B in the same bins."""

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


class TraceSide(msgspec.Struct, frozen=True):
    """One trace alone."""

    operations: int
    dispersion: tuple[Dispersion, ...]
    response_ns: TimeDistribution
    response_cdf: tuple[CdfPoint, ...]
    queue: QueueDepth | None
    report: TraceReport


class TraceComparison(msgspec.Struct, frozen=True):
    """Fidelity of B, a replay of A."""

    alignment: Alignment
    matched: int
    unmatched_a: int
    unmatched_b: int
    dropped_b: int
    """Operations that B records but never issued."""
    arrival_error: ArrivalError
    counts: BinCounts
    a: TraceSide
    b: TraceSide
    response_ratio: float | None
    """B's mean over A's."""
    queue_ratio: float | None
