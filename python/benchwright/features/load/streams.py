"""Values of streams: times over all of them, the share of good ones, tokens. Pure.

Decision: a stream that failed, was cut or never ended counts as slower than all others, in each of its
times, as operations do (response_times.py): it is one value without an end. So a server does not look
better the more streams it cuts. A stream that succeeded without an event with content has no first
event, and counts in the same way; one with too few tokens or events has no time per token and no gap,
and is left out of these. Gaps are counted one by one, so that a stream has many; one that failed adds
one gap that never ended. The engine counts those that did not end by their targets; an older one does
not, and of a load with a target without events limits are then judged with none and with all of them.
Source: docs/engine-protocol.md, `streams`.
"""

from __future__ import annotations

from typing import NamedTuple

from benchwright.features.load.response_times import times_of_all
from benchwright.features.load.types import EngineResult, StreamResult, TimeDistribution

_OF_EACH = ("first", "first_service", "first_visible", "first_event", "last")
"""Times that each stream with content has."""


class Share(NamedTuple):
    """A part of a number of streams."""

    some: int
    whole: int


class Lost(NamedTuple):
    """Streams that did not end, or not even begin: at least, at most."""

    least: int
    most: int


def lost_streams(result: EngineResult) -> Lost:
    """Return how many streams never ended; the two differ where other targets have operations, and
    the engine is older."""
    assert result.streams is not None, "the load has streams"
    if (lost := result.streams.lost) is not None:
        known = lost.dropped + lost.skipped + lost.waiting + lost.unfinished
        return Lost(known, known)
    never = result.counts.never_ended
    all_are_streams = result.streams.operations >= result.counts.completed
    return Lost(never if all_are_streams else 0, never)


def failed_streams(streams: StreamResult, name: str) -> int:
    """Return how many streams that ended have none of these times, and count as slower than all."""
    failed = max(0, streams.operations - streams.succeeded)
    if name in _OF_EACH:
        failed += max(0, streams.succeeded - streams.times(name).count)
    return failed


def missing_streams(result: EngineResult, name: str) -> tuple[int, int]:
    """Return how many streams have none of these times, and of how many; of gaps, how many values
    have no end."""
    assert result.streams is not None, "the load has streams"
    missing = failed_streams(result.streams, name) + lost_streams(result).least
    return missing, result.streams.times(name).count + missing


def stream_times(result: EngineResult, name: str) -> TimeDistribution:
    """Return one of STREAM_TIMES with the percentiles of all streams."""
    assert result.streams is not None, "the load has streams"
    return times_of_all(result.streams.times(name), *missing_streams(result, name))


def good_streams(result: EngineResult) -> Share | None:
    """Return how many streams were good, of all that are known to be intended; None: nothing says what is
    good."""
    streams = result.streams
    if streams is None or streams.good is None:
        return None
    return Share(streams.good, streams.operations + lost_streams(result).least)


def goodput_per_s(result: EngineResult) -> float | None:
    """Return the good streams per second of the measured part [1/s]; None: unknown."""
    good, length_ns = good_streams(result), result.measured_ns
    return None if good is None or not length_ns else 1e9 * good.some / length_ns


_NAMES = ("mean", "p50", "p95", "p99")
_METRICS = ("first", "first_visible", "gap", "tpot")
STREAM_METRICS = (
    *(f"{time}_ns_{name}" for time in _METRICS for name in _NAMES),
    *("largest_gap_ns_p99", "tokens_per_s", "good_share", "goodput_per_s", "cut"),
)
"""The names of the metrics that a load with streams may have."""


def stream_metrics(result: EngineResult) -> dict[str, float | None]:
    """Return every number of the streams of a load by name; empty without streams."""
    streams = result.streams
    if streams is None:
        return {}
    found: dict[str, float | None] = {}
    for time in _METRICS:
        times = stream_times(result, time)
        found |= {f"{time}_ns_{name}": getattr(times, name) for name in _NAMES}
    good = good_streams(result)
    return found | {
        "largest_gap_ns_p99": stream_times(result, "largest_gap").p99,
        "tokens_per_s": streams.tokens_per_s if streams.with_tokens else None,
        "good_share": good.some / good.whole if good is not None and good.whole else None,
        "goodput_per_s": goodput_per_s(result),
        "cut": streams.cut,
    }
