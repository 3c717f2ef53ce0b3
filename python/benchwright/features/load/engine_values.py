"""Computes the values that criteria limit from a load's counts and histograms. Pure.

Decision: an operation without a response exceeds every limit: operations that failed or never
ended count against percentiles, shares and the error ratio, and an open operation counts with
a lower bound of its age. Without them a server would look better the more requests it
drops. The engine does not report which operations are open; they are assumed to be the
youngest arrivals, so every age is a lower bound. Operations that waited for a free place when
the load ended were only cut short: they are lost if older than every limit, and ignored if
young. A percentile whose rank lies among operations without a response is infinite, as with
every generator (generators/output.py). Sources: docs/engine-protocol.md; Schroeder and
others, "Open versus closed" (NSDI '06), on what a closed view omits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np, npt
from benchwright.features.load.criteria import stream_value, within_ns
from benchwright.features.load.groups import operations_of
from benchwright.features.load.plan import LoadSeries
from benchwright.features.load.response_times import Histogram, decode_histogram, times_histogram
from benchwright.features.load.streams import Share, failed_streams
from benchwright.features.load.types import (
    GOOD_KEY,
    STREAM_TIMES,
    EngineResult,
    IntervalResult,
    KindResult,
    LoadCounts,
    LostOperations,
    TimeDistribution,
    response_rank,
)

MEAN = "response_ms_mean"


class StreamsInFlight(msgspec.Struct, frozen=True):
    """Counts of streams without a response, in place of those of all operations."""

    rate: float
    """Arrivals of streams [1/s]."""
    open: int
    lost: int


class StreamCounts(msgspec.Struct, frozen=True):
    """Counts of one time of the streams of a load."""

    failed: int
    """Streams that never started, or ended without one: they count as slower than all."""
    histogram: Histogram
    """Of the others [ns]."""
    mean_ms: float | None = None
    own: StreamsInFlight | None = None
    """None: those of all operations are theirs."""


class OperationCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a load's operations, or of its part so far."""

    rate: float
    """Arrival rate [1/s]."""
    lasted_s: float
    """Time during which operations arrived [s]."""
    intended: int
    answered: int
    """Operations with a response that did not fail."""
    failed: int = 0
    """Operations that failed, were dropped, or were skipped as too late."""
    open: int = 0
    """Operations that arrived and have neither ended nor been given up."""
    lost: int = 0
    """Operations that were given up; older than the open ones."""
    open_for_s: float = 0.0
    """Time since the youngest open or lost operation arrived, at least [s]."""
    mean_ms: float | None = None
    """Mean response time of the operations that were answered."""
    histogram: Histogram
    """Response times of the operations that were answered [ns]."""
    streams: dict[str, StreamCounts] = {}
    """Of operations whose answers were read as events, by the time; some or all may be unknown."""
    good: Share | None = None
    """Good streams, of those that ended; None: unknown."""
    groups: dict[str, OperationCounts] = {}
    """Of the groups of operations that criteria name; none until the load is over."""


def load_values(tally: OperationCounts, criteria: Iterable[Criterion]) -> dict[str, float]:
    """Return the value of each criterion that the load has a value for, and the mean."""
    found = {MEAN: _mean_ms(tally)}
    found |= {criterion.key: load_value(tally, criterion) for criterion in criteria}
    return {key: value for key, value in found.items() if value is not None}


def load_value(tally: OperationCounts, criterion: Criterion) -> float | None:
    """Return a criterion's value; None if the load has none."""
    if criterion.of:
        own = tally.groups.get(criterion.of)
        if own is None:
            return None
        tally = own
    of = stream_value(criterion)
    if of == GOOD_KEY:
        return _good_share(tally)
    if of is not None:
        streams = tally.streams.get(of)
        if streams is None:
            return None
        tally = _counts_of_time(tally, streams)
    match criterion.statistic:
        case "mean":
            return _mean_ms(tally)
        case "percentile":
            assert criterion.share is not None, "a percentile has its share"
            return _percentile_ms(tally, criterion.share, criterion.limit)
        case "share":
            limit_ns = within_ns(criterion)
            return None if limit_ns is None else _share_within(tally, limit_ns)
        case "ratio":
            return _error_ratio(tally)
    return None


def _counts_of_time(tally: OperationCounts, streams: StreamCounts) -> OperationCounts:
    """Return the counts of operations with a time of their streams in place of the response."""
    if (own := streams.own) is not None:
        tally = msgspec.structs.replace(tally, rate=own.rate, open=own.open, lost=own.lost)
    return msgspec.structs.replace(
        tally,
        answered=streams.histogram.total,
        failed=streams.failed,
        mean_ms=streams.mean_ms,
        histogram=streams.histogram,
    )


def _good_share(tally: OperationCounts) -> float | None:
    if tally.good is None:
        return None
    first = tally.streams.get("first")
    own = None if first is None else first.own
    whole = tally.good.whole + (tally.lost if own is None else own.lost)
    return tally.good.some / whole if whole else None


def _mean_ms(tally: OperationCounts) -> float | None:
    """Return the mean response, including the minimum age of open operations [ms]."""
    pending = tally.open + tally.lost
    n = tally.answered + pending
    if not n:
        return None
    answered = (tally.mean_ms or 0.0) * tally.answered
    mean_age_s = tally.open_for_s + 0.5 * pending / tally.rate
    if not tally.lost:
        # Operations that have just arrived carry no information yet.
        mean_ms = answered / tally.answered if tally.answered else 0.0
        if 1e3 * mean_age_s <= mean_ms:
            return mean_ms
    return (answered + 1e3 * mean_age_s * pending) / n


def _older(tally: OperationCounts, limit_s: float) -> int:
    """Return a lower bound of the operations without a response older than a limit."""
    return tally.lost + _overdue(tally.open, tally.rate, limit_s - tally.open_for_s)


def _overdue(n: int, rate: float, age_s: float) -> int:
    """Return a lower bound of those of the `n` youngest arrivals that exceed an age."""
    young = max(0.0, rate * age_s)
    return max(0, n - math.ceil(young)) if young < n else 0


def _percentile_ms(tally: OperationCounts, share: float, limit_ms: float) -> float | None:
    """Return a percentile of all operations [ms]; infinite if its rank lies among operations
    without a response."""
    over = tally.failed + _older(tally, limit_ms / 1e3)
    whole = tally.answered + over
    if not whole:
        return None
    rank = response_rank(share, over, whole)
    if rank is None:
        return math.inf
    ns = tally.histogram.at_rank(rank)
    return None if ns is None else ns / 1e6


def _share_within(tally: OperationCounts, limit_ns: int) -> float | None:
    over = tally.failed + _older(tally, limit_ns / 1e9)
    whole = tally.answered + over
    return count_within(tally.histogram, limit_ns) / whole if whole else None


def count_within(histogram: Histogram, limit_ns: int) -> int:
    """Return how many values do not exceed a limit; its own bucket counts completely."""
    return int(histogram.count[histogram.low <= limit_ns].sum())


def _error_ratio(tally: OperationCounts) -> float | None:
    lost = tally.failed + tally.lost
    whole = tally.answered + lost
    return lost / whole if whole else None


# -- from the engine's results ---------------------------------------------------------


def counts_of(
    result: EngineResult, lasted_s: float, patience_s: float, groups: Iterable[str] = ()
) -> OperationCounts:
    """Return the counts of a load that is over, and of these groups; operations arrived for
    `lasted_s`.

    An operation that waited for a free place at the end is lost if older than `patience_s`.
    """
    counts = result.counts
    whole = _counts_of_kind(result, result.all, counts, lasted_s, patience_s)
    late = counts.waiting - whole.open
    of_groups = ((name, operations_of(result, name)) for name in groups)
    return msgspec.structs.replace(
        whole,
        streams=_stream_counts(result, _not_started(result), _in_flight(result, whole.rate, late)),
        good=_good_counts(result, _not_started(result)),
        groups={
            # An older engine does not say which of all that did not end are of a group.
            name: _counts_of_kind(result, kind, kind.lost or counts, lasted_s, patience_s)
            for name, kind in of_groups
            if kind is not None
        },
    )


def _counts_of_kind(
    result: EngineResult,
    kind: KindResult,
    lost: LoadCounts | LostOperations,
    lasted_s: float,
    patience_s: float,
) -> OperationCounts:
    """Return the counts of the operations of a kind or a group, of which `lost` did not end."""
    response, errors = kind.response_ns, sum(kind.errors.values())
    drained_s = max(0.0, result.elapsed_ns / 1e9 - lasted_s)
    open_for_s = drained_s if lost.unfinished else 0.0
    intended = response.count + errors + lost.never_ended
    rate = max(intended, 1) / lasted_s
    late = _overdue(lost.waiting, rate, patience_s - open_for_s)
    return OperationCounts(
        rate=rate,
        lasted_s=lasted_s,
        intended=intended,
        answered=response.count,
        failed=errors + lost.dropped + lost.skipped,
        open=lost.waiting - late,
        lost=lost.unfinished + late,
        open_for_s=open_for_s,
        mean_ms=None if response.mean is None else response.mean / 1e6,
        histogram=whole_histogram(response),
    )


def _not_started(result: EngineResult, *, skipped: bool = True) -> int:
    """Return how many streams were dropped or, if they count, skipped."""
    of: LoadCounts | LostOperations = result.counts
    if result.streams is not None and result.streams.lost is not None:
        of = result.streams.lost
    return of.dropped + (of.skipped if skipped else 0)


def _in_flight(result: EngineResult, rate: float, late: int) -> StreamsInFlight | None:
    """Return the counts of streams that did not end, of a load with this rate of operations, of which
    `late` waited for too long; None: an older engine does not count them."""
    if result.streams is None or result.streams.lost is None:
        return None
    lost, all_waiting = result.streams.lost, result.counts.waiting
    intended = result.streams.operations + lost.dropped + lost.skipped
    intended += lost.waiting + lost.unfinished
    # Those that waited longest are of all targets alike.
    own_late = min(lost.waiting, math.ceil(late * lost.waiting / all_waiting)) if late else 0
    return StreamsInFlight(
        rate=rate * max(intended, 1) / max(result.counts.intended, 1),
        open=lost.waiting - own_late,
        lost=lost.unfinished + own_late,
    )


def _stream_counts(
    result: EngineResult, not_started: int, own: StreamsInFlight | None, *, of_target: bool = False
) -> dict[str, StreamCounts]:
    """Return the counts of each time of streams; `of_target`: without the generator's lateness,
    which is known where no operation waited for a free place."""
    streams = result.streams
    if streams is None:
        return {}
    found = {}
    for name in STREAM_TIMES:
        served = of_target and name == "first" and not result.counts.held
        times = streams.first_service_ns if served else streams.times(name)
        mean_ms = None if times.mean is None else times.mean / 1e6
        failed = failed_streams(streams, name) + not_started
        found[name] = StreamCounts(failed, whole_histogram(times), mean_ms, own)
    return found


def _good_counts(result: EngineResult, not_started: int) -> Share | None:
    streams = result.streams
    if streams is None or streams.good is None:
        return None
    return Share(streams.good, streams.operations + not_started)


def target_counts(tally: OperationCounts, result: EngineResult) -> OperationCounts | None:
    """Return the counts of a load that is over without the lateness of the generator, and without
    the operations that it skipped; None: the engine does not say."""
    whole = _target_counts_of_kind(tally, result.all, result.counts)
    if whole is None:
        return None
    of_groups = {
        name: _target_counts_of_kind(own, kind, kind.lost or result.counts)
        for name, own in tally.groups.items()
        if (kind := operations_of(result, name)) is not None
    }
    return msgspec.structs.replace(
        whole,
        groups={name: own for name, own in of_groups.items() if own is not None},
        streams=_stream_counts(
            result,
            _not_started(result, skipped=False),
            tally.streams["first"].own if tally.streams else None,
            of_target=True,
        ),
        good=_good_counts(result, _not_started(result, skipped=False)),
    )


def _target_counts_of_kind(
    tally: OperationCounts, kind: KindResult, lost: LoadCounts | LostOperations
) -> OperationCounts | None:
    times = kind.target_response_ns
    if times is None:
        return None
    return msgspec.structs.replace(
        tally,
        failed=tally.failed - lost.skipped,
        mean_ms=None if times.mean is None else times.mean / 1e6,
        histogram=whole_histogram(times),
    )


def whole_histogram(times: TimeDistribution) -> Histogram:
    """Return the histogram of times; an empty one where there is none."""
    return times_histogram(times) or merged([])


def _has_series(criterion: Criterion) -> bool:
    """Return whether intervals have a value for a criterion: none of a group, of streams the first
    event, and good ones."""
    return not criterion.of and stream_value(criterion) in (None, "first", GOOD_KEY)


class _GrowingSeries:
    """The values of the intervals of a load so far."""

    def __init__(self, criteria: Iterable[Criterion]) -> None:
        self._wanted = {MEAN: Criterion(MEAN, 0.0)} | {
            criterion.key: criterion for criterion in criteria if criterion.statistic != "metric"
        }
        self._at_s: list[float] = []
        self._width_s = 1.0
        self._answered: list[int] = []
        self._wanted = {key: one for key, one in self._wanted.items() if _has_series(one)}
        self._columns: dict[str, list[float]] = {key: [] for key in self._wanted}

    def add(self, interval: IntervalResult) -> OperationCounts:
        """Add the newest interval; return its counts."""
        tally = _counts_of_interval(interval)
        self._at_s.append(interval.start_ns / 1e9)
        if len(self._at_s) == 1:
            self._width_s = tally.lasted_s
        self._answered.append(tally.answered)
        for key, one in self._wanted.items():
            self._columns[key].append(_or_zero(load_value(tally, one)))
        return tally

    def series(self) -> LoadSeries:
        """Return the values of each interval; an interval has the operations that ended in it."""
        return LoadSeries(
            at_s=tuple(self._at_s),
            width_s=self._width_s,
            counts=tuple(self._answered),
            values={key: tuple(column) for key, column in self._columns.items()},
            binned_by="completion",
        )


class RunningLoad:
    """A running load: its intervals so far. Each is computed once, when it is added, so that a
    second of a long load costs no more than one of a short load."""

    def __init__(self, criteria: Iterable[Criterion]) -> None:
        self._series = _GrowingSeries(criteria)
        self._counts = OperationCounts(
            rate=0.0, lasted_s=0.0, intended=0, answered=0, histogram=merged([])
        )
        self._length_ns = 0
        self._others = 0
        """Operations that ended, or were dropped, and are no streams."""

    def add(self, interval: IntervalResult) -> None:
        """Add the newest interval."""
        tally, before = self._series.add(interval), self._counts
        answered = before.answered + tally.answered
        total_ms = sum((one.mean_ms or 0.0) * one.answered for one in (before, tally))
        self._length_ns += interval.length_ns
        if interval.streams is not None:
            self._others += interval.completed + interval.dropped - interval.streams
        # Which of those in flight are streams is unknown then: none of them counts yet.
        own = StreamsInFlight(rate=1.0, open=0, lost=0) if self._others else None
        self._counts = OperationCounts(
            rate=(before.intended + tally.intended) / (self._length_ns / 1e9)
            if self._length_ns
            else 0.0,
            lasted_s=(interval.start_ns + interval.length_ns) / 1e9,
            intended=before.intended + tally.intended,
            answered=answered,
            failed=before.failed + tally.failed,
            open=interval.in_flight + interval.waiting,
            mean_ms=total_ms / answered if answered else None,
            histogram=merged([before.histogram, tally.histogram]),
            streams=_streams_together((before.streams, tally.streams), own),
            good=_together(before.good, tally.good),
        )

    def counts(self, rate: float) -> OperationCounts:
        """Return the counts of all intervals; `rate` [1/s] where nothing has arrived yet."""
        return msgspec.structs.replace(self._counts, rate=self._counts.rate or rate)

    def series(self) -> LoadSeries:
        """Return the values of each interval; an interval has the operations that ended in it."""
        return self._series.series()


def _streams_together(
    each: Sequence[Mapping[str, StreamCounts]], own: StreamsInFlight | None
) -> dict[str, StreamCounts]:
    """Return the counts of several parts of a load together; `own`: of those in flight."""
    found = {}
    for name in dict.fromkeys(name for streams in each for name in streams):
        parts = [streams[name] for streams in each if name in streams]
        failed = sum(part.failed for part in parts)
        found[name] = _stream_counts_of(failed, merged([part.histogram for part in parts]), own)
    return found


def _together(*shares: Share | None) -> Share | None:
    known = [share for share in shares if share is not None]
    if not known:
        return None
    return Share(sum(one.some for one in known), sum(one.whole for one in known))


def load_series(intervals: Iterable[IntervalResult], criteria: Iterable[Criterion]) -> LoadSeries:
    """Return the values of each interval of a load."""
    series = _GrowingSeries(criteria)
    for interval in intervals:
        series.add(interval)
    return series.series()


def _or_zero(value: float | None) -> float:
    """Return 0 for an interval without a value; its count is 0 then, too."""
    return 0.0 if value is None else value


def _counts_of_interval(interval_result: IntervalResult) -> OperationCounts:
    mean_ns = interval_result.response_ns_mean
    return OperationCounts(
        rate=1.0,
        lasted_s=interval_result.length_ns / 1e9,
        intended=interval_result.intended,
        answered=interval_result.completed - interval_result.errors,
        failed=interval_result.errors + interval_result.dropped,
        mean_ms=None if mean_ns is None else mean_ns / 1e6,
        histogram=histogram_of(interval_result),
        streams=_streams_of_interval(interval_result),
        good=None
        if interval_result.good is None
        else Share(interval_result.good, _streams_in(interval_result)),
    )


def _streams_of_interval(interval: IntervalResult) -> dict[str, StreamCounts]:
    """Return the counts of the first events of an interval; nothing where they are unknown."""
    if interval.first_hdr is None:
        return {}
    histogram = decode_histogram(interval.first_hdr)
    failed = interval.errors + interval.dropped
    if interval.streams is not None:
        failed = interval.streams - histogram.total
    return {"first": _stream_counts_of(failed, histogram)}


def _streams_in(interval: IntervalResult) -> int:
    """Return how many streams ended in an interval, or were dropped."""
    return interval.completed if interval.streams is None else interval.streams


def _stream_counts_of(
    failed: int, histogram: Histogram, own: StreamsInFlight | None = None
) -> StreamCounts:
    """Return counts with the mean of a histogram, known to half a bucket."""
    mean_ms = None
    if histogram.total:
        middles = (histogram.low + histogram.high) / 2
        mean_ms = float(np.average(middles, weights=histogram.count)) / 1e6
    return StreamCounts(failed, histogram, mean_ms, own)


def histogram_of(interval: IntervalResult) -> Histogram:
    """Return an interval's response times; empty if it has none."""
    if interval.response_hdr is None:
        return merged([])
    return decode_histogram(interval.response_hdr)


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the histogram of all values together."""
    if not histograms:
        none: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        return Histogram(none, none, none)
    low = np.concatenate([histogram.low for histogram in histograms])
    high = np.concatenate([histogram.high for histogram in histograms])
    count = np.concatenate([histogram.count for histogram in histograms])
    ends, places = np.unique(high, return_inverse=True)
    total = np.bincount(places, weights=count, minlength=ends.size).astype(np.int64)
    begins = np.full(ends.size, np.iinfo(np.int64).max)
    np.minimum.at(begins, places, low)
    return Histogram(begins, ends, total)
