"""Percentiles of response times over all operations, those without a response included.

Decision: the histograms of the engine have the operations that succeeded. Those that failed or
never ended count as slower than all others, so a percentile of all is read at its rank among the
successes (`core.load.response_rank`), and is absent where the rank lies among the others. Count,
mean, standard deviation and maximum stay those of the successes. Every percentile of response times
that is shown, exported, judged or stored is from here.

A decoder for HdrHistograms as the engine writes them.

Decision: our own decoder of about eighty lines, because only one format (V2, deflated, base64) is
needed. Rejected: PyPI's `hdrhistogram`, a C extension for recording, which is not needed here, and
without wheels for every Python version that we support. Non-goal: encoding.
Source: HdrHistogram's EncodableHistogram and ZigZagEncoding (github.com/HdrHistogram/HdrHistogram),
the public description of V2.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from collections.abc import Iterator

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.numeric import np, npt
from benchwright.features.load.types import (
    EngineResult,
    HostResult,
    KindResult,
    SequenceResult,
    TimeDistribution,
    response_rank,
)

_COMPRESSED = 0x1C849314
_PLAIN = 0x1C849313
_HEAD = struct.Struct(">iiiiqqd")
"""Header: cookie, bytes of payload, index offset, digits, lowest, highest, ratio."""
_LARGEST_BYTES = 1 << 26
"""No histogram of five digits over 63 bits is larger; larger ones are rejected."""


class HistogramError(BenchError):
    """The engine's text is not an HdrHistogram; the message names the first defect."""

    def __init__(self, defect: str) -> None:
        super().__init__(
            "engine-protocol",
            f"the engine reported an invalid histogram: {defect}",
            "the engine and this program have different versions: run `make setup`",
        )


class Histogram(msgspec.Struct, frozen=True):
    """Counts of values; only buckets with a count, in ascending order."""

    low: npt.NDArray[np.int64]
    """The smallest value of each bucket, shape `(n_buckets,)`."""
    high: npt.NDArray[np.int64]
    """The largest value of each bucket."""
    count: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        """Number of recorded values."""
        return int(self.count.sum())

    def shares(self) -> npt.NDArray[np.float64]:
        """Return the share of values up to each bucket's end, shape `(n_buckets,)`."""
        return np.cumsum(self.count) / max(self.total, 1)

    def quantile(self, share: float) -> int | None:
        """Return the end of the bucket that contains the quantile; None for an empty histogram.

        `share` is from 0 to 1. The count is rounded up, as HdrHistogram does.
        """
        return self.at_rank(max(1, math.ceil(share * self.total)))

    def at_rank(self, rank: int) -> int | None:
        """Return the end of the bucket with the value of a rank, from 1; None for an empty
        histogram."""
        if not self.total:
            return None
        place = int(np.searchsorted(np.cumsum(self.count), rank))
        return int(self.high[min(place, self.high.size - 1)])


def decode_histogram(text: str) -> Histogram:
    """Return the histogram in a text: base64 of HdrHistogram V2, deflated or not.

    Raises HistogramError for any other text.
    """
    data = _inflated(_bytes(text))
    if len(data) < _HEAD.size:
        raise HistogramError(f"its head has {len(data)} of {_HEAD.size} bytes")
    cookie, size, offset, digits, lowest, _highest, _ratio = _HEAD.unpack_from(data)
    if cookie != _PLAIN:
        raise HistogramError(f"its cookie is {cookie & 0xFFFFFFFF:#x}, not V2's")
    if not 0 <= size <= len(data) - _HEAD.size:
        raise HistogramError(f"its payload of {size} bytes is not all there")
    if offset != 0 or not 0 <= digits <= 5 or lowest < 1:
        raise HistogramError(f"offset {offset}, digits {digits}, lowest {lowest}")
    places = _counts(data[_HEAD.size : _HEAD.size + size])
    return _histogram(places, digits, lowest)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HistogramError(f"it is not base64: {error}") from None


def _inflated(data: bytes) -> bytes:
    """Return the bytes of a histogram, decompressed if it is compressed."""
    if len(data) < 8 or struct.unpack_from(">I", data)[0] != _COMPRESSED:
        return data
    (length,) = struct.unpack_from(">I", data, 4)
    if length > len(data) - 8:
        raise HistogramError(f"{len(data) - 8} of {length} compressed bytes are there")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data[8 : 8 + length], _LARGEST_BYTES)
    except zlib.error as error:
        raise HistogramError(f"it cannot be inflated: {error}") from None
    if not stream.eof:
        raise HistogramError("its compressed bytes are cut short, or too many")
    return plain


def _counts(payload: bytes) -> list[tuple[int, int]]:
    """Return index and count of every bucket that has a count."""
    place, found = 0, []
    for number in _zigzag(payload):
        if number < 0:
            place -= number
            continue
        if number:
            found.append((place, number))
        place += 1
    return found


def _zigzag(payload: bytes) -> Iterator[int]:
    """Yield the numbers: LEB128 of at most nine bytes, the ninth whole, zig-zag."""
    value = shift = 0
    for byte in payload:
        if shift == 56:
            value |= byte << shift
        else:
            value |= (byte & 0x7F) << shift
            if byte & 0x80:
                shift += 7
                continue
        yield (value >> 1) ^ -(value & 1)
        value = shift = 0
    if shift:
        raise HistogramError("its last number is cut short")


def _histogram(places: list[tuple[int, int]], digits: int, lowest: int) -> Histogram:
    """Return the histogram: buckets of one unit below 2^bits, then half-ranges of each doubling."""
    unit = lowest.bit_length() - 1
    half_bits = math.ceil(math.log2(2 * 10**digits)) - 1
    low, high, count = [], [], []
    for place, number in places:
        doublings = max((place >> half_bits) - 1, 0)
        width = doublings + unit
        begin = (place - (doublings << half_bits)) << width
        if begin + (1 << width) > 2**63:
            raise HistogramError(f"bucket {place} is beyond 63 bits")
        low.append(begin)
        high.append(begin + (1 << width) - 1)
        count.append(number)
    if sum(count) >= 2**63:
        raise HistogramError("it counts more than 63 bits can")
    return Histogram(*(np.array(one, dtype=np.int64) for one in (low, high, count)))


_SHARES = {
    "p50": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p98": 0.98,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
}


def response_times(result: EngineResult, name: str = "all") -> TimeDistribution:
    """Return the response times of a kind of operation."""
    return times_of_all(result.kinds[name].response_ns, *result.missing(name))


def kind_times(result: EngineResult, one: KindResult) -> TimeDistribution:
    """Return the response times of a label or a group."""
    return times_of_all(one.response_ns, *result.missing_of(one))


def chain_times(chain: SequenceResult) -> TimeDistribution:
    """Return the response times of the chains of one name."""
    missing = chain.errors + chain.unfinished
    return times_of_all(chain.response_ns, missing, chain.completed + missing)


def host_times(host: HostResult) -> TimeDistribution:
    """Return the response times of a host's operations; empty without its result."""
    if host.all is None:
        return TimeDistribution(0)
    if host.counts is None:
        return host.all.response_ns
    counts = host.counts
    return times_of_all(host.all.response_ns, counts.without_response, counts.intended)


def times_histogram(times: TimeDistribution) -> Histogram | None:
    """Return the histogram of times, whose last bucket ends at the maximum; None if it was not
    stored."""
    if times.hdr is None:
        return None
    histogram = decode_histogram(times.hdr)
    if times.max is None:
        return histogram
    high = np.minimum(histogram.high, max(times.max, 0))
    return msgspec.structs.replace(histogram, low=np.minimum(histogram.low, high), high=high)


def times_of_all(times: TimeDistribution, missing: int, whole: int) -> TimeDistribution:
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
