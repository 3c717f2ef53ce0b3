"""Limits of one load, `p99 < 20ms` or `errors < 0.1% of LABEL`, judged by its result. Pure.

Decision: the criteria of a search (`criteria.py`, `engine_values.py`), and a third answer besides
held and missed. A share of operations (beyond a percentile's limit, failed) is compared with the
allowed share by an exact binomial test on either side, as if operations were independent: so too
few operations, and a share too close to the allowed one, are undecided. A limit that is exceeded
only because the generator came to operations late is undecided too: the server's part of a response
(`target_response_ns`) is judged in the same way. So is a limit of a time of streams that values could
decide of which only a bound is known, or nothing (`_Streams`). Rejected: the point estimate alone, as other tools
have it, which fails every second build whose p99 is at its limit, and passes 20 operations without
an error as `errors < 0.1%`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from benchwright.core.comparison import GateOutcome
from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.text import duration_ns_text, number_text, percent_text, plural
from benchwright.features.load.criteria import LoadLimit, stream_value, within_ns
from benchwright.features.load.engine import load_metrics
from benchwright.features.load.engine_values import (
    OperationCounts,
    count_within,
    load_value,
    whole_histogram,
)
from benchwright.features.load.groups import operations_of
from benchwright.features.load.mean_interval import ABOVE, BELOW, ends, means_of_intervals
from benchwright.features.load.request import LoadRequest
from benchwright.features.load.response_times import Histogram
from benchwright.features.load.steady import response_change
from benchwright.features.load.stream_findings import reader_late
from benchwright.features.load.streams import failed_streams, good_streams, lost_streams
from benchwright.features.load.types import (
    GOOD_KEY,
    EngineResult,
    KindResult,
    LimitVerdict,
    StreamResult,
    TimeDistribution,
)
from benchwright.findings import thresholds as t
from benchwright.stats.intervals import t_quantile
from benchwright.stats.special import binomial_cdf

ERROR = 0.05
"""Probability at most which a limit is called held or missed by chance."""
_UPPER_BOUNDS = ("first", "first_service", "first_visible", "first_event", "last")
"""Times of streams that a late read can only make larger."""


def why_not_streamed(criterion: Criterion, request: LoadRequest) -> Iterator[tuple[str, str]]:
    """Yield why a load cannot have the value of streams that a criterion limits, and a hint."""
    of = stream_value(criterion)
    if of is not None and not request.events:
        yield (
            f"{criterion_name(criterion)}: no answer is read as events",
            "add --events sse, or --llm",
        )
    elif of == GOOD_KEY and request.streams is msgspec.UNSET:
        yield "nothing says what a good stream is", "add --good, such as --good 'first < 500ms'"


def judged(
    limits: Sequence[LoadLimit], result: EngineResult, warm_up_ns: int = 0
) -> tuple[LimitVerdict, ...]:
    """Return the verdict on each limit of a load, whose measured part begins after `warm_up_ns`."""
    changed = response_change(result, warm_up_ns) if limits else None
    verdicts = [_judged(limit, result) for limit in limits]
    if changed is None:
        return tuple(verdicts)
    return tuple(
        verdict
        if limit.criterion.statistic in ("metric", "ratio")
        else msgspec.structs.replace(verdict, detail=f"{verdict.detail}; {changed.sentence}")
        for limit, verdict in zip(limits, verdicts, strict=True)
    )


class _Answer(NamedTuple):
    outcome: GateOutcome
    detail: str
    value: float | None = None


def _judged(limit: LoadLimit, result: EngineResult) -> LimitVerdict:
    criterion = limit.criterion
    if criterion.statistic == "metric":
        answer = _of_metric(criterion, result)
    elif (of := stream_value(criterion)) is not None and result.streams is None:
        answer = _Answer(GateOutcome.UNDECIDED, "no answer was read as events")
    elif of == GOOD_KEY:
        answer = _of_good(criterion, result)
    else:
        group = _Operations(result, criterion.of)
        if of is not None:
            group, criterion = _Streams(result, of), _in_place_of_response(criterion)
        # The values of the group are those of all operations there.
        criterion = msgspec.structs.replace(criterion, key=criterion.value, of="")
        if not group.whole:
            answer = _Answer(GateOutcome.UNDECIDED, "no operation")
        elif criterion.statistic == "mean":
            answer = _of_mean(criterion, group)
        else:
            answer = _of_share(criterion, group)
    finite = answer.value is not None and math.isfinite(answer.value)
    return LimitVerdict(
        limit=limit.text,
        of=limit.criterion.of,
        outcome=answer.outcome,
        value=answer.value if finite else None,
        bound=criterion.limit,
        unit=criterion.unit,
        detail=answer.detail,
    )


class _Operations:
    """The operations of a limit: all, or those of a group."""

    def __init__(self, result: EngineResult, of: str) -> None:
        none, counts = TimeDistribution(0), result.counts
        kind = operations_of(result, of) or KindResult(0, 0, {}, none, none, none)
        self.result, self.is_all, self.kind = result, not of, kind
        self.errors = sum(kind.errors.values())
        self.answered = kind.response_ns.count
        lost = counts if not of else kind.lost
        if lost is not None:
            self.least_lost = self.most_lost = lost.never_ended
            self.skipped = lost.skipped
        else:
            # An older engine does not say of which label they are: none or all may be of this one.
            self.least_lost, self.most_lost, self.skipped = 0, counts.never_ended, 0
        # Of an older engine, no lateness is known to be the generator's.
        self.target_ns = kind.target_response_ns or kind.response_ns
        self.response = whole_histogram(kind.response_ns)
        self.target = whole_histogram(self.target_ns)
        self.what, self.noun, self.without = "", "operation", "failed"
        self.faster = self.slower = self.unknown = 0
        """Of the answered ones: those that may have been faster, or slower, than recorded. Beside them:
        those of which no time is known."""
        self.doubt = ""
        """Why these are uncertain."""
        self.late_reader = ""
        """Why a limit that is missed is not decided; empty: it may be."""
        self.late_both_ways = False
        """Whether one that holds is not decided either."""
        self.absent_ms: float | None = None
        """What a value that is absent counts as in a mean that holds; None: it is left out."""
        self.independent: int | None = None
        """The number of independent groups of values; None: each value is one."""
        self.parts = means_of_intervals(result.intervals)
        """Intervals whose mean responses show how much a mean varies; None: nothing does."""

    @property
    def whole(self) -> int:
        """How many there are, those without a value included."""
        return self.answered + self.errors + self.least_lost

    def value(self, criterion: Criterion) -> float | None:
        """Return the value of a criterion, from the intended starts; a percentile with all that may
        be lost."""
        is_percentile = criterion.statistic == "percentile"
        lost = self.most_lost if is_percentile else self.least_lost
        counts = self._counts(self.kind.response_ns.mean, self.response, lost)
        return load_value(counts, criterion)

    def target_value(self, criterion: Criterion) -> float | None:
        """Return the value without the generator's lateness, of what the generator did not skip."""
        lost = self.least_lost - self.skipped
        counts = self._counts(self.target_ns.mean, self.target, lost)
        return load_value(counts, criterion)

    def _counts(self, mean: float | None, times: Histogram, lost: int) -> OperationCounts:
        return OperationCounts(
            rate=1.0,
            lasted_s=1.0,
            intended=self.whole,
            answered=self.answered,
            failed=self.errors + lost,
            mean_ms=None if mean is None else mean / 1e6,
            histogram=times,
        )

    def is_less(self, k: int, n: int, allowed: float) -> bool:
        """Return whether k of n are so few that the share is at most the allowed one."""
        if self.independent is not None and n > self.independent:
            return _is_less(math.ceil(k * self.independent / n), self.independent, allowed)
        return _is_less(k, n, allowed)

    def is_more(self, k: int, n: int, allowed: float) -> bool:
        """Return whether k of n are so many that the share is above the allowed one."""
        if self.independent is not None and n > self.independent:
            return _is_more(k * self.independent // n, self.independent, allowed)
        return _is_more(k, n, allowed)

    @property
    def lateness_text(self) -> str:
        late = self.result.lateness_ns
        parts = [
            f"{word} {duration_ns_text(ns)}"
            for word, ns in (("p99", late.p99), ("max", late.max))
            if ns is not None
        ]
        text = f"the generator was late by {', '.join(parts)}"
        if self.result.counts.held_late:
            text += f"; {plural(self.result.counts.held_late, 'operation')} that it came to late found no slot"
        return text


def _of_metric(criterion: Criterion, result: EngineResult) -> _Answer:
    value = load_metrics(result).get(criterion.key)
    if value is None:
        message = f"the load has no metric {criterion.key} (--json has them: metrics)"
        return _Answer(GateOutcome.UNDECIDED, message)
    held = criterion.holds(value)
    outcome = GateOutcome.PASSED if held else GateOutcome.FAILED
    return _Answer(outcome, f"{criterion.key} {number_text(value)}", value)


# -- shares of operations ----------------------------------------------------------------


def _of_share(criterion: Criterion, group: _Operations) -> _Answer:
    """Return the answer on a percentile, a share within a time, or the share of errors."""
    allowed, limit_ns = _allowed(criterion)
    over = 0 if limit_ns is None else _above(group.response, limit_ns)
    failed = group.errors + over
    least, n_least = failed + group.least_lost, group.whole
    n_most = group.answered + group.errors + group.most_lost
    value = group.value(criterion)
    shown = _shown(criterion, value, least, n_least, group, lost=group.least_lost)
    slower = min(group.slower, group.answered - over) + group.unknown
    if group.is_less(failed + group.most_lost + slower, n_most + group.unknown, allowed):
        if group.late_both_ways:
            return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.late_reader}", value)
        return _Answer(GateOutcome.PASSED, shown, value)
    if not group.is_more(least, n_least, allowed):
        doubtful = group.doubt and group.is_less(least, n_least, allowed)
        why = group.doubt if doubtful else _too_few(least, n_least, allowed, group)
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {why}", value)
    fewest = least - min(group.faster, over)
    if not group.is_more(fewest, n_least + group.unknown, allowed):
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.doubt}", value)
    if group.late_reader:
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.late_reader}", value)
    over = 0 if limit_ns is None else _above(group.target, limit_ns)
    by_target = group.errors + group.least_lost - group.skipped + over
    if not group.is_more(by_target, n_least, allowed):
        target = _shown(criterion, group.target_value(criterion), by_target, n_least, group)
        why = f"without the generator's lateness {target}: {group.lateness_text}"
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {why}", value)
    return _Answer(GateOutcome.FAILED, shown, value)


def _allowed(criterion: Criterion) -> tuple[float, int | None]:
    """Return the share of operations that may be worse, and their limit [ns]; None: the failed
    ones."""
    match criterion.statistic:
        case "percentile":
            assert criterion.share is not None, "a percentile has its share"
            return 1 - criterion.share, round(1e6 * criterion.limit)
        case "share":
            return 1 - criterion.limit, within_ns(criterion)
        case _:
            return criterion.limit, None


def _above(times: Histogram, limit_ns: int) -> int:
    return int(times.count.sum()) - count_within(times, limit_ns)


def _is_less(k: int, n: int, allowed: float) -> bool:
    """Return whether k of n are so few that the share is at most the allowed one."""
    if k == 0 and allowed == 0:
        return True
    return k <= allowed * n and binomial_cdf(k, n, allowed) <= ERROR


def _is_more(k: int, n: int, allowed: float) -> bool:
    """Return whether k of n are so many that the share is above the allowed one."""
    if allowed == 0:
        return k > 0
    return k > allowed * n and 1 - binomial_cdf(k - 1, n, allowed) <= ERROR


def _too_few(k: int, n: int, allowed: float, group: _Operations) -> str:
    values, noun, independent = group.noun, group.noun, n
    if group.independent is not None and n > group.independent:
        noun, independent = "stream", group.independent
    if k == 0 and 0 < allowed < 1:
        enough = math.ceil(math.log(ERROR) / math.log1p(-allowed))
        return f"{plural(independent, noun)} cannot show {percent_text(allowed)}: {enough:,} can"
    part = f"{k:,} of {plural(n, values)} ({percent_text(k / n)})"
    return f"{part} exceed it, too close to {percent_text(allowed)} for so few {noun}s"


def _shown(
    criterion: Criterion, value: float | None, k: int, n: int, group: _Operations, lost: int = 0
) -> str:
    """Return the value of a criterion as text: `p99 12.4 ms`, `99.2 % within 2 s`, `3 of 5,000
    failed (0.06 %)`; `lost`: how many of the k never started or did not end."""
    if criterion.statistic == "percentile":
        name = f"p{100 * (criterion.share or 0):.10g}{group.what}"
        if value is None or not math.isfinite(value):
            part = f"{k:,} of {plural(n, group.noun)} ({percent_text(k / n)})"
            return f"{name} unknown: {part} {group.without} or took longer than the limit"
        return f"{name} {duration_ns_text(round(1e6 * value))}"
    if criterion.statistic == "share":
        limit = duration_ns_text(within_ns(criterion) or 0)
        return f"{percent_text(1 - k / n)} within {limit}"
    how = "failed" if not lost else "failed, never started or did not end"
    return f"{k:,} of {n:,} {how} ({percent_text(k / n)})"


def _in_place_of_response(criterion: Criterion) -> Criterion:
    """Return the criterion of responses with the limit of one of a time of streams."""
    return msgspec.structs.replace(criterion, key="response_ms")


class _Streams(_Operations):
    """The streams of a load, with one of their times in place of the response.

    The generator's lateness is known of the first event alone, and only where no operation waited
    for a free place. A read has the stamp of its newest packet: where reads are late, the times since
    the intended start are upper bounds, and those between events may be anything.
    """

    def __init__(self, result: EngineResult, name: str) -> None:
        super().__init__(result, "")
        streams = result.streams
        assert streams is not None, "the load has streams"
        times = streams.times(name)
        served = name == "first" and not result.counts.held
        self.kind = msgspec.structs.replace(self.kind, response_ns=times)
        self.errors, self.answered = failed_streams(streams, name), times.count
        self.target_ns = streams.first_service_ns if served else times
        self.response = whole_histogram(times)
        self.target = whole_histogram(self.target_ns)
        self.what = f" {name.replace('_', ' ')}"
        self.noun = "gap" if name == "gap" else "stream"
        self.without = "failed, have none" if name in _UPPER_BOUNDS else "failed"
        self.parts = None
        self.least_lost, self.most_lost = lost_streams(result)
        skipped = self.skipped if self.least_lost else 0
        self.skipped = skipped if streams.lost is None else streams.lost.skipped
        if name == "gap":
            # Gaps of one stream are alike: each stream is one observation, however many gaps it has.
            n = streams.largest_gap_ns.count + self.errors + self.least_lost
            self.independent = max(1, math.floor(n * _evenness(streams)))
        # One that failed has no time: it may be as long as the load, and a time per token a part of that.
        tokens = streams.tokens / streams.with_tokens if streams.with_tokens else 1.0
        self.absent_ms = result.elapsed_ns / 1e6 / (max(1.0, tokens) if name == "tpot" else 1.0)
        self.late_reader = _late_reader(streams)
        self.late_both_ways = bool(self.late_reader) and name not in _UPPER_BOUNDS
        if name in ("first", "first_service", "first_visible"):
            self.faster = streams.first_shared
        elif name == "tpot":
            # The time from a first event that arrived earlier is longer.
            self.slower, self.unknown = streams.first_shared, streams.without_tpot
        self.doubt = _doubt(self, streams)

    def value(self, criterion: Criterion) -> float | None:
        """Return the value of a criterion, from the intended starts, with what is known to be lost."""
        return load_value(
            self._counts(self.kind.response_ns.mean, self.response, self.least_lost), criterion
        )


class _Good(_Streams):
    """The streams of a load that are good; of which times, the result does not say."""

    def __init__(self, result: EngineResult) -> None:
        super().__init__(result, "first")
        streams = result.streams
        assert streams is not None, "the load has streams"
        self.faster = streams.first_shared + streams.without_tpot
        self.doubt = _doubt(self, streams)
        self.late_both_ways = bool(self.late_reader)
        self.made_late = 0 if result.counts.held else _made_late(result)
        """Streams that may be bad since the generator was late."""


def _evenness(streams: StreamResult) -> float:
    """Return how many streams of one length are worth one of these, which differ in length: 1 or less,
    (sum of lengths)^2 / (number x sum of their squares), by the tokens or else the duration of those in
    the timeline. Source: L. Kish, Survey Sampling (1965), the effective size of a
    sample with unequal weights."""
    ended = [
        one for one in streams.timeline if one.first_ns is not None and one.last_ns is not None
    ]
    lengths = [one.tokens for one in ended if one.tokens]
    if len(lengths) < len(ended):
        lengths = [(one.last_ns or 0) - (one.first_ns or 0) for one in ended]
    squares = len(lengths) * sum(length * length for length in lengths)
    return sum(lengths) ** 2 / squares if squares else 1.0


def _late_reader(streams: StreamResult) -> str:
    """Return why times of events are uncertain; empty if they were read in time."""
    if not any(reader_late(streams, "")):
        return ""
    late = duration_ns_text(streams.read_lateness_ns.p99 or 0)
    return (
        f"events were read late (p99 {late}, reader-late), so that when they arrived is uncertain"
    )


def _doubt(group: _Operations, streams: StreamResult) -> str:
    """Return why the times of some streams are uncertain."""
    parts = []
    if group.most_lost > group.least_lost:
        lost = plural(group.most_lost - group.least_lost, "operation")
        parts.append(f"of {lost} that did not end it is unknown whether they are streams")
    if (group.faster or group.slower) and streams.first_shared:
        shared = plural(streams.first_shared, "stream")
        parts.append(f"the first event of {shared} was read with later ones, and may be earlier")
    if streams.without_tpot and (group.unknown or group.faster > streams.first_shared):
        parts.append(f"the tpot of {plural(streams.without_tpot, 'stream')} is unknown")
    return "; ".join(parts)


def _made_late(result: EngineResult) -> int:
    """Return how many operations started so late that a time of their stream may be beyond its limit
    for that alone."""
    assert result.streams is not None, "the load has streams"
    first = result.streams.first_service_ns.p50 or 0
    return _above(whole_histogram(result.lateness_ns), max(round(t.LATE_SHARE * first), t.LATE_NS))


def _of_good(criterion: Criterion, result: EngineResult) -> _Answer:
    """Return the answer on the share of good streams."""
    good = good_streams(result)
    if good is None or not good.whole:
        why = "no stream" if good is not None else "nothing says what a good stream is"
        return _Answer(GateOutcome.UNDECIDED, why)
    group = _Good(result)
    bad, whole, allowed = good.whole - good.some, good.whole, 1 - criterion.limit
    value = good.some / whole
    shown = f"{good.some:,} of {whole:,} are good ({percent_text(value)})"
    more = group.most_lost - group.least_lost
    doubts = [group.doubt] if more or group.faster else []
    if _is_less(bad + more, whole + more, allowed):
        if not group.late_both_ways:
            return _Answer(GateOutcome.PASSED, shown, value)
        doubts = [group.late_reader]
    elif _is_more(bad, whole, allowed):
        # What may be good after all: the streams that did not fail.
        doubtful = result.streams.succeeded - good.some if result.streams else 0
        if _is_more(bad - min(group.faster, doubtful), whole, allowed):
            by_target = bad - group.skipped - min(group.made_late, doubtful)
            if group.late_reader:
                doubts = [group.late_reader]
            elif _is_more(by_target, whole, allowed):
                return _Answer(GateOutcome.FAILED, shown, value)
            else:
                doubts = [f"without the generator's lateness more may be: {group.lateness_text}"]
    elif not _is_less(bad, whole, allowed):
        doubts = [_too_few(bad, whole, allowed, group)]
    return _Answer(GateOutcome.UNDECIDED, "; ".join([shown, *doubts]), value)


# -- means -------------------------------------------------------------------------------


def _of_mean(criterion: Criterion, group: _Operations) -> _Answer:
    value = group.value(criterion)
    if value is None:
        why = f"no {group.noun} has a{group.what or ' response time'}"
        return _Answer(GateOutcome.UNDECIDED, why)
    shown = f"mean{group.what} {duration_ns_text(round(1e6 * value))}"
    low, high = ends(value, *(_half_ms(group, value, at) for at in (BELOW, ABOVE)))
    if low <= criterion.limit <= high:
        reach = " to ".join(duration_ns_text(round(min(1e6 * end, 1e18)), 2) for end in (low, high))
        detail = f"{shown} ({reach}): too close to the limit for so short a load"
        return _Answer(GateOutcome.UNDECIDED, detail, value)
    least, most = _mean_bounds_ms(group, value)
    if criterion.holds(value):
        if absent := group.errors + group.most_lost:
            noun = "stream" if group.noun == "gap" else group.noun
            shown += f"; {plural(absent, noun)} that failed or did not end not included"
        if not criterion.holds(most):
            slow = duration_ns_text(round(1e6 * most))
            reasons = [
                f"with the most that these, and uncertain ones, may be, it is {slow}",
                group.doubt,
            ]
            shown = "; ".join([shown, *filter(None, reasons)])
            return _Answer(GateOutcome.UNDECIDED, shown, value)
        if group.late_both_ways:
            return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.late_reader}", value)
        return _Answer(GateOutcome.PASSED, shown, value)
    if criterion.holds(least):
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.doubt}", value)
    if group.late_reader:
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {group.late_reader}", value)
    of_target = group.target_value(criterion)
    if of_target is not None and criterion.holds(of_target):
        target = duration_ns_text(round(1e6 * of_target))
        why = f"without the generator's lateness {target}: {group.lateness_text}"
        return _Answer(GateOutcome.UNDECIDED, f"{shown}; {why}", value)
    return _Answer(GateOutcome.FAILED, shown, value)


def _mean_bounds_ms(group: _Operations, mean_ms: float) -> tuple[float, float]:
    """Return the mean if each uncertain time were 0; and if each were that of the slowest, and each
    that is absent as long as `absent_ms` [ms]."""
    times = group.kind.response_ns
    slowest_ms = mean_ms if times.max is None else times.max / 1e6
    n, total = times.count, times.count * mean_ms
    absent = 0 if group.absent_ms is None else group.errors + group.most_lost
    absent_ms = max(slowest_ms, group.absent_ms or 0.0)
    least = max(0.0, total - min(group.faster, n) * slowest_ms) / (n + group.unknown)
    uncertain = (group.unknown + min(group.slower, n)) * slowest_ms
    most = (total + uncertain + absent * absent_ms) / (n + group.unknown + absent)
    return least, most


def _half_ms(group: _Operations, mean_ms: float, quantile: float) -> float:
    """Return half of the interval of the mean [ms]: by the load's intervals, and at least that of
    independent operations. A part of the operations has both: its own noise, and what all have."""
    times = group.kind.response_ns
    alone = 0.0
    n = times.count if group.independent is None else min(group.independent, times.count)
    if times.sd is not None and n:
        alone = t_quantile(2 * quantile - 1, n) * times.sd / 1e6 / math.sqrt(n)
    if group.parts is None:
        return alone
    together = mean_ms * group.parts.half_width(quantile) / max(group.parts.mean, 1e-300)
    return max(alone, together) if group.is_all else math.hypot(alone, together)
