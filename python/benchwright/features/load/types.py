"""The result of a load engine's run: counts, rates, times, and its environment.

Times are integer nanoseconds from the engine, rates operations per second. Absent is not
zero: a percentile of nothing is None. Decision: an unknown field is skipped here and
stays in the document that `--json` prints: an engine may report more than we read.
Source: docs/engine-protocol.md, `result`.
"""

from __future__ import annotations

import math

import msgspec

from benchwright.core.comparison import GateOutcome


class TimeDistribution(msgspec.Struct, frozen=True):
    """Distribution of a time over operations [ns]: a summary of an HdrHistogram."""

    count: int
    mean: float | None = None
    sd: float | None = None
    min: int | None = None
    max: int | None = None
    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p98: int | None = None
    p99: int | None = None
    p99_9: int | None = msgspec.field(name="p99.9", default=None)
    p99_99: int | None = msgspec.field(name="p99.99", default=None)
    hdr: str | None = None
    """The histogram itself: base64 of HdrHistogram V2, deflated."""


def response_rank(share: float, missing: int, whole: int) -> int | None:
    """Return the rank, among the operations with a response, of a percentile of all; None if it
    lies among those without one.

    `share` is from 0 to 1; `missing` of the `whole` operations failed or never ended, and count
    as slower than all others.
    """
    rank = max(1, math.ceil(share * whole * (1 - _ROUNDING)))
    return rank if rank <= whole - missing else None


_ROUNDING = 1e-12
"""Relative error of the product of a share and a count, at most."""


class LostOperations(msgspec.Struct, frozen=True, kw_only=True):
    """Intended operations that did not end, or not even begin: as those of LoadCounts."""

    dropped: int
    skipped: int
    waiting: int
    unfinished: int

    @property
    def never_ended(self) -> int:
        """How many there are."""
        return self.dropped + self.skipped + self.waiting + self.unfinished


class KindResult(msgspec.Struct, frozen=True):
    """Counts and times of one kind of operation."""

    operations: int
    bytes: int
    errors: dict[str, int]
    """Operations that failed, by the name of their error."""
    issue_error_ns: TimeDistribution
    """Actual start - intended start."""
    response_ns: TimeDistribution
    """Completion - intended start."""
    service_ns: TimeDistribution
    """Completion - actual start."""
    target_response_ns: TimeDistribution | None = None
    """Arrival of the answer - the moment when the generator came to an operation that had to wait
    for a free place, or the actual start of one that had not; None: the engine is older."""
    in_time: int | None = None
    """Operations that succeeded and ended in the measured part, whatever their intended start; None:
    the engine is older."""
    in_time_bytes: int = 0
    lost: LostOperations | None = None
    """Those that did not end, which are not among `operations`; None: the engine is older."""


class GroupResult(KindResult, frozen=True, kw_only=True):
    """Counts and times of a group of operations: those of a filament or a target, or those of one
    label or kind among them."""

    filament: str = ""
    """Empty: all filaments of the target."""
    target: str = ""
    """Empty: the load has one target."""
    operation: str = ""
    """The label or the kind; empty: all of several."""


class LoadCounts(msgspec.Struct, frozen=True):
    """Counts of operations by outcome; intended = issued + dropped + skipped + waiting."""

    intended: int
    issued: int
    completed: int
    errors: int
    dropped: int
    """There was no room in flight, and the workload says not to wait."""
    skipped: int
    """Too late, by the policy for late operations."""
    held: int
    """Had to wait for a free place in flight."""
    unfinished: int
    """Still in flight when the run was over."""
    early: int
    starved: int
    """The reader of a trace, or of a filament in Python, was behind, in the whole run."""
    waiting: int = 0
    """Due and never issued, neither dropped nor skipped."""
    stray: int = 0
    """Completions that the target reported of operations that were not in flight."""
    undeliverable: int = 0
    """Messages between filaments whose receiver does not exist."""
    held_late: int = 0
    """Of those that waited: the generator came to them late, after it had started others late."""
    drained: int = 0
    """Of the issued ones: due before the end of the run, and issued after it, when a place was
    free."""
    drained_completed: int = 0
    """Of these the ones that completed, by an older engine: they are in no rate."""

    @property
    def never_ended(self) -> int:
        """Intended operations that did not end, or not even begin."""
        return self.dropped + self.skipped + self.waiting + self.unfinished

    @property
    def without_response(self) -> int:
        """Intended operations that are in no response time: failed, or never ended."""
        return self.errors + self.never_ended


class FlowCounts(msgspec.Struct, frozen=True):
    """Counts of what happened in the measured part, whatever the intended start of the operations.

    With LoadCounts: waiting_at_start + intended = issued + dropped + skipped + waiting_at_end, and
    in_flight_at_start + issued = completed + in_flight_at_end.
    """

    waiting_at_start: int
    """Due before it, and not issued before it."""
    in_flight_at_start: int
    issued: int
    completed: int
    errors: int
    """Those of the completed ones that failed."""
    of_warm_up: int
    """Those of the completed ones that were due in the warm-up."""
    waiting_at_end: int
    """Due in it or before, and not issued before its end."""
    in_flight_at_end: int
    drained: int
    """Of those that waited at the end: issued afterwards."""

    @property
    def edge_share(self) -> float:
        """Operations in flight at the start or the end, whichever are more, over those that ended:
        by up to this share the rate of ends may differ from that of a long run."""
        edge = max(self.in_flight_at_start, self.in_flight_at_end)
        return edge / self.completed if self.completed else math.inf if edge else 0.0


STREAM_TIMES = (
    "first",
    "first_service",
    "first_visible",
    "first_event",
    "gap",
    "largest_gap",
    "tpot",
    "last",
)
"""The times of streams, as a criterion names them."""
GOOD_KEY = "good_share"
"""The key of the share of good streams among a load's values."""


class StreamResult(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a load: operations whose answers were read as events.

    Times have the streams that succeeded. Events with content are meant, but for `first_event_ns`.
    """

    operations: int
    """Intended in the measured part, and ended."""
    succeeded: int
    cut: int
    """Of those that failed: without the mark of their end."""
    failed_inside: int
    """Of those that failed: an event said so."""
    first_ns: TimeDistribution
    """Arrival of the first event - intended start."""
    first_service_ns: TimeDistribution
    """Arrival of the first event - actual start."""
    first_visible_ns: TimeDistribution
    """Arrival of the first event that is not reasoning - intended start."""
    first_event_ns: TimeDistribution
    """Arrival of the first event of any kind - intended start."""
    last_ns: TimeDistribution
    """Arrival of the last event - intended start."""
    tpot_ns: TimeDistribution
    """(Last - first) / (tokens - 1), of streams with at least two tokens."""
    gap_ns: TimeDistribution
    """Between arrivals of one stream that are from different reads."""
    largest_gap_ns: TimeDistribution
    """Of each stream."""
    read_lateness_ns: TimeDistribution
    """The engine's read - the arrival, of reads with content."""
    events: int
    """Of any kind."""
    content_events: int
    shared_events: int
    """Those with content that shared a read with the one before: they have no gap."""
    first_shared: int = 0
    """Streams whose first event with content was read with others: it may have arrived earlier."""
    without_tpot: int = 0
    """Streams with at least two tokens whose events came in one read: their tpot is unknown."""
    without_events: int = 0
    """Streams that succeeded without an event of any kind."""
    tokens: int = 0
    """As the server counted them."""
    with_tokens: int = 0
    """Streams whose tokens are known."""
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    """Tokens of prompts that were in the server's cache; None: it does not say."""
    reasoning_tokens: int | None = None
    stopped_by_length: int = 0
    """Streams that ended since they had as many tokens as they could."""
    good: int | None = None
    """Streams that met all limits of a good one; None: there are none."""
    tokens_per_s: float | None = None
    timeline: tuple[StreamTimes, ...] = ()
    """The first streams of the run."""
    lost: LostOperations | None = None
    """Those that never ended; None: the engine is older."""

    def times(self, name: str) -> TimeDistribution:
        """Return one of STREAM_TIMES."""
        found: TimeDistribution = getattr(self, f"{name}_ns")
        return found


class StreamTimes(msgspec.Struct, frozen=True, array_like=True):
    """When one stream began and ended [ns after time zero]."""

    intended_ns: int
    issued_ns: int
    first_ns: int | None
    last_ns: int | None
    end_ns: int
    tokens: int | None
    result: int
    """Below 0: the number of its error, negated."""


class LittleLaw(msgspec.Struct, frozen=True):
    """The figures of Little's law: the first is the product of the other two, if each operation is
    recorded once."""

    in_flight_mean: float
    """Mean number of operations in flight until the last had ended, counted as it changed."""
    rate_per_s: float
    """Operations that ended per second."""
    time_ns_mean: float
    """Mean time from actual start to end."""

    @property
    def product(self) -> float:
        """Mean number in flight that rate and time imply."""
        return self.rate_per_s * self.time_ns_mean / 1e9

    @property
    def deviation(self) -> float:
        """Difference of the two as a share of the larger one, from 0 to 1."""
        larger = max(self.in_flight_mean, self.product)
        return abs(self.in_flight_mean - self.product) / larger if larger else 0.0


class EngineClock(msgspec.Struct, frozen=True):
    """Clock that was read."""

    source: str
    hz: float | None = None
    drift_ppm: float | None = None
    """How far the first calibration was off, measured at the end [parts per million]."""
    absent: str | None = None
    """Why it is not the CPU's counter."""
    unsound: str | None = None
    """Why it should not have been the counter: the kernel stopped trusting it during the run."""


class TlsResult(msgspec.Struct, frozen=True):
    """What the connections to a server agreed on."""

    version: str
    """`TLSv1.2` or `TLSv1.3`."""
    cipher: str
    alpn: str | None = None
    """The protocol that the server chose."""
    verified: bool = True
    """Whether the certificate was verified."""


class TargetResult(msgspec.Struct, frozen=True):
    """Target of the operations; its counts do not have the warm-up."""

    kind: str
    engine: str | None = None
    size_bytes: int | None = None
    features: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """What this kernel does not offer, each with its reason."""
    unrequested: int = 0
    """Connections that were closed because bytes arrived that no request had caused; of a UDP
    server the datagrams for which no operation waited, late answers excepted."""
    sent_bytes: int = 0
    """To a server, with heads, before encryption."""
    received_bytes: int = 0
    timeouts: int = 0
    """Operations that took longer than the limit of the target."""
    late_replies: int = 0
    """Replies of a UDP or NFS server that arrived after the time limit of their operation."""
    late_errors: int = 0
    """Errors of the network (ICMP) for datagrams to a UDP server whose operation had ended."""
    nil_replies: int = 0
    """Replies of a Redis server that had no value."""
    pushes: int = 0
    """Messages of a server of WebSocket that answer no operation."""
    status_2xx: int = 0
    """Responses of an HTTP server with a status of 200 to 299."""
    status_3xx: int = 0
    status_4xx: int = 0
    status_5xx: int = 0
    grpc_messages: dict[str, str] = {}
    """The text of the first error of each status of a gRPC server, by the error's name."""
    unknown_replies: int = 0
    """Replies of an NFS server that belong to no call."""
    jukebox: int = 0
    """Calls that an NFS server postponed, and that were sent again."""
    verifier_changes: int = 0
    """Changes of an NFS server's write verifier: it was restarted."""
    connect_ns: TimeDistribution | None = None
    """How long connects to a server took, those before the load included."""
    handshake_ns: TimeDistribution | None = None
    """How long handshakes took after the connects; None without handshakes."""
    tls: TlsResult | None = None
    """None: the connections do not use TLS."""
    targets: dict[str, TargetResult] = {}
    """Of several targets, each by its name."""


class SequenceResult(msgspec.Struct, frozen=True):
    """Counts and times of the chains of one name."""

    started: int
    """Completed, with an error, or unfinished."""
    completed: int
    errors: int
    unfinished: int
    """Cut short by the end of the run."""
    operations: int
    """Operations of all of them that ended."""
    response_ns: TimeDistribution
    """Of the completed ones: from the intended start of the first operation to the last end."""


class ChainDraws(msgspec.Struct, frozen=True):
    """How often a chain was drawn."""

    filament: int
    chain: str
    weight: int
    drawn: int


class PopularityDraws(msgspec.Struct, frozen=True):
    """How often the objects of one weight were drawn."""

    weight: int
    """Of all of them together."""
    objects: int
    present: int
    drawn: int
    chosen: int
    """Draws that could be used."""


class FileSizeDraws(msgspec.Struct, frozen=True):
    """Files of a class of sizes, and how often one was drawn."""

    bytes: int
    """Greatest size of the class."""
    expected_share: float
    files: int
    weight: int
    drawn: int


class TransferSizeDraws(msgspec.Struct, frozen=True):
    """How often a size of a class was drawn."""

    bytes: int
    expected_share: float
    drawn: int


class TransferDraws(msgspec.Struct, frozen=True):
    """Sizes that a step of a chain drew."""

    chain: str
    step: int
    sizes: tuple[TransferSizeDraws, ...]


class FileSetMaking(msgspec.Struct, frozen=True):
    """How a target got its file set."""

    files: int
    """Files that exist at the start of the run."""
    bytes: int
    made: int
    repaired: int
    """Files that had another size or name."""
    reused: int
    removed: int
    beyond: int
    """Files of a larger set, which stay."""
    making_ns: int


class FileSetResult(msgspec.Struct, frozen=True):
    """The file set of a run, and what was drawn from its tables, beside the tables."""

    directories: int
    files: int
    """Those that do not exist at the start included."""
    symlinks: int
    empty_directories: int
    bytes: int
    """Sum of the sizes of the files that exist at the start."""
    files_at_end: int
    bytes_at_end: int
    mix: tuple[ChainDraws, ...]
    file_popularity: tuple[PopularityDraws, ...]
    directory_popularity: tuple[PopularityDraws, ...]
    file_sizes: tuple[FileSizeDraws, ...]
    transfer_sizes: tuple[TransferDraws, ...]
    repeated_draws: int
    """Draws of a file that was absent or in use."""
    searched: int
    """Choices in which every draw was repeated."""
    unavailable: int
    """Operations on an object in the wrong state, since none was in the right one."""
    made: FileSetMaking | None = None
    """None: the target has no files."""


class IntervalResult(msgspec.Struct, frozen=True):
    """One interval of the run."""

    start_ns: int
    length_ns: int
    intended: int
    issued: int
    completed: int
    errors: int
    dropped: int
    in_flight: int
    """At the interval's end."""
    waiting: int
    """Due and not yet issued, at the interval's end."""
    response_ns_mean: float | None = None
    response_ns_p50: int | None = None
    response_ns_p99: int | None = None
    response_ns_max: int | None = None
    issue_error_ns_p99: int | None = None
    response_hdr: str | None = None
    """On request: base64 of HdrHistogram V2, deflated."""
    streams: int | None = None
    """Streams that ended or were dropped; None: there are none, or the engine is older."""
    first_ns_p50: int | None = None
    """Of streams, as the next three."""
    first_ns_p99: int | None = None
    tokens: int | None = None
    good: int | None = None
    first_hdr: str | None = None
    """On request, of streams."""


class Scheduling(msgspec.Struct, frozen=True):
    """How the kernel scheduled a worker's thread."""

    policy: str
    """Such as `SCHED_OTHER` or `SCHED_IDLE`."""
    nice: int
    """Without effect under `SCHED_IDLE` and the real-time policies."""

    def __str__(self) -> str:
        """Return `SCHED_IDLE` or `SCHED_OTHER, nice 19`."""
        fair = self.policy in ("SCHED_OTHER", "SCHED_BATCH")
        return f"{self.policy}, nice {self.nice}" if fair else self.policy


class WorkerResult(msgspec.Struct, frozen=True):
    """Use of one worker's time."""

    cpu: int | None
    spun_ns: int
    slept_ns: int
    busy_ns: int
    guard_ns: int
    """How long before a deadline it stopped sleeping, at the end."""
    scheduling: Scheduling | None = None
    """None in results of earlier versions, and for pacers without a worker."""


class EngineEnvironment(msgspec.Struct, frozen=True):
    """Resources that the engine obtained from the machine."""

    memory_locked: bool
    fifo: int | None = None
    absent: tuple[str, ...] = ()


class RecordedRequests(msgspec.Struct, frozen=True):
    """Counts of the recorded requests of a trace."""

    distinct: int
    """Different requests."""
    unsafe_methods: int = 0
    """Skipped, since their method is not GET, HEAD or OPTIONS."""
    unreplayable: int = 0
    """Skipped, since they cannot be sent: no request, CONNECT, an invalid one."""
    unsendable: dict[str, int] = {}
    """Of these, how many of each kind: `data:`, `CONNECT`, `no request`, `an invalid request`."""
    lost_bodies: int = 0
    """Skipped, since their body is described (`multipart/form-data`), but not recorded."""
    without_body: int = 0
    """Sent with an empty body, since the trace does not have theirs."""
    other_lengths: int = 0
    """Sent with a body that does not have the length that the trace states."""
    credentials: int = 0
    """Sent without their credentials."""
    whole_seconds: int = 0
    """Requests whose stamp is a whole second."""


class TraceResult(msgspec.Struct, frozen=True):
    """Counts of reading one trace, and the effects of its policies."""

    path: str
    operations: int
    skipped_lines: int = 0
    reordered: int = 0
    spread: int = 0
    wrapped: int = 0
    scaled: bool = False
    clipped: int = 0
    """Sizes that were cut to fit the target."""
    left_out: int = 0
    """By choice: of other devices, or outside the requested part."""
    duplicates: str = "burst"
    devices: tuple[str, ...] = ()
    """Names of the devices of the chosen part; of requests their hosts, `-` for none."""
    requests: RecordedRequests | None = None
    """None: it is not a trace of requests."""


class ProcessResult(msgspec.Struct, frozen=True):
    """What a process that is a filament was sent, and what it replied."""

    filament: int
    """Number of its filament."""
    events: int
    replies: int


class FileResult(msgspec.Struct, frozen=True):
    """File to which every operation, or every action of a worker, was written."""

    path: str
    rows: int
    lost: int = 0
    """Operations that are not in it: the disk was too slow for them, or failed; actions that newer
    ones replaced."""
    failed: str | None = None
    """Why writing ended before the run did; None if it did not."""


class HostClock(msgspec.Struct, frozen=True, kw_only=True):
    """CLOCK_MONOTONIC of a host against that of the machine on which `bw` runs."""

    method: str
    """How it was measured: `udp`, packets; `ssh`, lines through the connection; `line`, the same in
    a gang of a pool."""
    round_trips: int
    """Before and after the load together."""
    offset_ns: int
    """Its clock minus ours at time zero."""
    bound_ns: int
    """Maximum error of the offset: half of the smallest delay."""
    drift_ppm: float | None = None
    """How much faster it ran during the load; None: it was not measured afterwards."""
    drift_bound_ppm: float | None = None


class HostResult(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a load that one host issued."""

    host: str
    lost: str = ""
    """Why it has no result; the load has failed then."""
    clock: HostClock | None = None
    start_skew_ns: int | None = None
    """Its time zero minus that of the load; known to the clock's bound."""
    end_skew_ns: int | None = None
    """The same at the end of the measured part: a clock that drifts moves the arrivals."""
    counts: LoadCounts | None = None
    intended_rate_per_s: float | None = None
    offered_rate_per_s: float | None = None
    achieved_rate_per_s: float | None = None
    lateness_ns: TimeDistribution | None = None
    all: KindResult | None = None
    """All kinds of operation together."""
    intervals: tuple[IntervalResult, ...] = ()
    """Intervals of the measured part, often shorter than those of the result."""
    workers: tuple[WorkerResult, ...] = ()

    @property
    def busy_share(self) -> float | None:
        """Share of its workers' time that they neither slept nor waited, from 0 to 1."""
        busy = sum(worker.busy_ns for worker in self.workers)
        whole = busy + sum(worker.spun_ns + worker.slept_ns for worker in self.workers)
        return busy / whole if whole else None


class EngineResult(msgspec.Struct, frozen=True):
    """The complete result of a run of the load engine."""

    schema: str
    interrupted: bool
    started_ns: int
    """CLOCK_REALTIME at time zero [ns since 1970]."""
    elapsed_ns: int
    """Time zero to the last completion [ns]."""
    target: TargetResult
    clock: EngineClock
    pacer: str
    counts: LoadCounts
    intended_rate_per_s: float | None
    offered_rate_per_s: float | None
    """Operations that started in the measured part."""
    achieved_rate_per_s: float | None
    """Operations that ended in the measured part, whenever they were due."""
    lateness_ns: TimeDistribution
    """Issue error of operations that no full target held back: the generator's own."""
    kinds: dict[str, KindResult]
    """By kind, and `all`."""
    intervals: tuple[IntervalResult, ...]
    workers: tuple[WorkerResult, ...]
    environment: EngineEnvironment
    traces: tuple[TraceResult, ...] = ()
    processes: tuple[ProcessResult, ...] = ()
    """The processes of filaments of type `process`."""
    samples: FileResult | None = None
    actions: FileResult | None = None
    little_law: LittleLaw | None = None
    """None: nothing was measured, or the engine is older."""
    stopped: str | None = None
    """Why the engine ended the run early: `backlog`."""
    sequences: dict[str, SequenceResult] = {}
    """By the name of the chain."""
    labels: dict[str, KindResult] = {}
    """By label, of requests with labels."""
    groups: tuple[GroupResult, ...] = ()
    """Of a load with several filaments: each filament, and each target that several of them use, and
    the labels or kinds of each where there are several. A filament or a target comes first with all
    its operations."""
    file_set: FileSetResult | None = None
    hosts: tuple[HostResult, ...] = ()
    """The part of each host of a load from several; the other members are of all together."""
    flow: FlowCounts | None = None
    """None: the engine is older."""
    streams: StreamResult | None = None
    """None: no answer was read as events."""
    measured_ns: int | None = None
    """How long the part lasted that the rates are of [ns]; None without a rate. Neither the warm-up
    nor the wait for the last operations is in it."""

    def __post_init__(self) -> None:
        if self.flow is None:
            msgspec.structs.force_setattr(self, "measured_ns", self._measured_ns())

    @property
    def lost_hosts(self) -> tuple[HostResult, ...]:
        """The hosts without a result."""
        return tuple(host for host in self.hosts if host.lost)

    @property
    def engines(self) -> int:
        """How many engines' figures these are."""
        return max(1, len(self.hosts) - len(self.lost_hosts))

    @property
    def all(self) -> KindResult:
        """All kinds of operation together."""
        return self.kinds["all"]

    def _measured_ns(self) -> int | None:
        """Return the length of the measured part, from the counts and rates of an older engine."""
        counts = self.counts
        ended = counts.completed - counts.drained_completed
        for count, rate in (
            (counts.intended, self.intended_rate_per_s),
            (counts.issued - counts.drained, self.offered_rate_per_s),
            (ended, self.achieved_rate_per_s),
        ):
            if count and rate:
                return round(1e9 * count / rate)
        return None

    def measured_intervals(self, warm_up_ns: int) -> tuple[IntervalResult, ...]:
        """Return the intervals that lie in the measured part, which begins after `warm_up_ns`."""
        end_ns = warm_up_ns + (self.measured_ns or self.elapsed_ns)
        return tuple(
            interval
            for interval in self.intervals
            if interval.start_ns >= warm_up_ns and interval.start_ns + interval.length_ns <= end_ns
        )

    def rates_of(self, kind: KindResult) -> tuple[float | None, float | None]:
        """Return the completed operations and bytes of a kind per second; None if nothing was
        measured."""
        length_ns, counts = self.measured_ns, self.counts
        if not length_ns:
            return None, None
        if kind.in_time is not None:
            return 1e9 * kind.in_time / length_ns, 1e9 * kind.in_time_bytes / length_ns
        # Without what was issued after the end, of which each kind has the same share.
        within = 1 - counts.drained_completed / counts.completed if counts.completed else 1
        per_s = 1e9 * within / length_ns
        return per_s * kind.response_ns.count, per_s * kind.bytes

    def response_known_to(self) -> float:
        """Return up to which quantile the response times are known, from 0 to 1.

        Operations that failed or never ended count as slower than all others: beyond
        their share no percentile of those that succeeded says anything.
        """
        missing, whole = self.missing("all")
        return 1 - missing / whole if whole else 1.0

    def response_known(self, kind: str, beyond: float) -> bool:
        """Return whether the percentile above which this share (0 to 1) lies is known."""
        missing, whole = self.missing(kind)
        return not missing or response_rank(1 - beyond, missing, whole) is not None

    def missing(self, name: str) -> tuple[int, int]:
        """Return how many operations of a kind have no response time, and of how many."""
        if name == "all":
            return self.counts.without_response, self.counts.intended
        return self.missing_of(self.kinds[name])

    def missing_of(self, one: KindResult) -> tuple[int, int]:
        """Return how many operations of a kind, a label or a group have no response time, and of how
        many.

        An older engine does not say of which kind those are that never ended: it may all have been
        this one.
        """
        never = self.counts.never_ended if one.lost is None else one.lost.never_ended
        return sum(one.errors.values()) + never, one.operations + never


class LimitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a limit of a load (`--limit`)."""

    limit: str
    """As the user wrote it."""
    of: str = ""
    """The label or the kind of the operations, or another group; empty: all."""
    outcome: GateOutcome
    """`passed`: it was held; `failed`: it was missed; `undecided`: the load cannot tell."""
    value: float | None = None
    """None: unknown, or beyond every limit."""
    bound: float
    """The limit of the value."""
    unit: str = ""
    """Of both; empty for shares (from 0 to 1) and metrics."""
    detail: str
    """The value in words, and why it is undecided."""


class LoadProgress(msgspec.Struct, frozen=True):
    """How far a run is."""

    at_ns: int
    issued: int
    completed: int
    in_flight: int
    waiting: int
    rate_per_s: float | None = None
    response_ns_p50: int | None = None
    response_ns_p99: int | None = None
    interval: IntervalResult | None = None
    """Where histograms of intervals were requested."""


class FileSetProgress(msgspec.Struct, frozen=True):
    """How far the making of a file set is."""

    phase: str
    """`examine`: read what is there; `make`: make what is missing, and repair what differs."""
    done: int
    """Files, links and directories."""
    total: int
    elapsed_ns: int
    """Time since the phase began."""


class LoopModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reader of the result must know of the workload."""

    open: bool
    """Some operations arrive at their own times, whatever is still in flight."""
    closed: bool
    """Some operations wait for the completion of others."""
    slots: int | None = None
    """Operations that a closed loop offers at once, those that think among them; None: not known,
    or not the same all the time."""
