"""Percentiles of response times over all operations, those without a response included.

Decision: the histograms of the engine have the operations that succeeded. Those that failed or
never ended count as slower than all others, so a percentile of all is read at its rank among the
successes (`core.load.response_rank`), and is absent where the rank lies among the others. Count,
mean, standard deviation and maximum stay those of the successes. Every percentile of response times
that is shown, exported, judged or stored is from here.
"""

from __future__ import annotations

import msgspec

from benchwright.core.numeric import np
from benchwright.features.load.hdr_histogram import Histogram, decode_histogram
from benchwright.features.load.types import (
    EngineResult,
    HostResult,
    SequenceResult,
    TimeDistribution,
    response_rank,
)

_SHARES = {
    "p50": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p98": 0.98,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
}


def response_times(
    result: EngineResult, name: str = "all", *, label: bool = False
) -> TimeDistribution:
    """Return the response times of a kind of operation, or of a label."""
    one = (result.labels if label else result.kinds)[name]
    return _of_all(one.response_ns, *result.missing(name, label=label))


def chain_times(chain: SequenceResult) -> TimeDistribution:
    """Return the response times of the chains of one name."""
    missing = chain.errors + chain.unfinished
    return _of_all(chain.response_ns, missing, chain.completed + missing)


def host_times(host: HostResult) -> TimeDistribution:
    """Return the response times of a host's operations; empty without its result."""
    if host.all is None:
        return TimeDistribution(0)
    if host.counts is None:
        return host.all.response_ns
    counts = host.counts
    return _of_all(host.all.response_ns, counts.without_response, counts.intended)


def times_histogram(times: TimeDistribution) -> Histogram | None:
    """Return the histogram of times, whose last bucket ends at the maximum; None if it was not
    stored."""
    if times.hdr is None:
        return None
    found = decode_histogram(times.hdr)
    if times.max is None:
        return found
    high = np.minimum(found.high, max(times.max, 0))
    return msgspec.structs.replace(found, low=np.minimum(found.low, high), high=high)


def _of_all(times: TimeDistribution, missing: int, whole: int) -> TimeDistribution:
    """Return times with the percentiles of all operations, `missing` of which are not among them."""
    if not missing:
        return times
    histogram = times_histogram(times)
    found: dict[str, int | None] = {}
    for name, share in _SHARES.items():
        rank = response_rank(share, missing, whole)
        found[name] = None
        if rank is not None and histogram is not None:
            found[name] = histogram.at_rank(rank)
    return msgspec.structs.replace(times, **found)
