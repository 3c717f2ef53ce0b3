"""How alike the I/O of two workloads is: a benchmark beside the production that it stands for.

Purpose: workload characterization says what a workload does; this says whether another does the same,
and what differs most. Four questions, each with a distance of one meaning: the smallest share of
the operations of one workload that would have to be changed for the other.

- calls: to be another system call, or to another kind of file (total variation distance).
- sizes: to have another size, by a factor of the square root of 2 or more, so that sizes between
  two powers of two belong to one of them. Reads are matched with reads, and writes with writes.
- locality: to be elsewhere, because one workload goes on where it was more often than the other.
- arrivals: to come at another time, in slots of some tenths of a second, were the rates equal
  (half of the Wasserstein distance between the slots' counts relative to their mean). The one with
  the higher rate is thinned to the rate of the other, because rare events are bursty by chance.

Two recordings of one workload are never equal: `noise` is the distance that pairs of samples from
both together stay below in 95 % of cases, for all questions together, if operations were independent;
of arrivals, blocks of neighbouring slots are, so that a burst stays one. Workloads differ where the
distance is above both this and a margin. Rejected: one number for all questions, which needs weights
that nobody can state; tests alone, which call any difference one after a million operations. Pure:
random numbers have a fixed seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar, get_args

import msgspec

from benchwright.core.numeric import NDArray, np
from benchwright.core.text import binary_size_text, percent_text
from benchwright.features.profile.types import (
    SEEKABLE_KINDS,
    Arrivals,
    Characterization,
    Direction,
    Transfer,
)

MARGIN = 0.05
"""The least share of operations that makes a difference, unless the user states another."""
_LEVEL = 0.05
"""Probability that any of the four questions finds a difference of a workload from itself."""
_DRAWS = 400
_SAME_SIZE = math.sqrt(2)
_MOST_TEXTS = 3
_ABSENT_SIZE = 0.5
"""In place of a transfer of nothing, which is no other size's neighbour."""

Dimension = Literal["calls", "sizes", "locality", "arrivals"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_WAYS: tuple[Direction, ...] = ("read", "write")
Key = TypeVar("Key", str, int)
_Shares = Mapping[Key, float]


class DimensionDistance(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question about two workloads."""

    dimension: Dimension
    distance: float | None
    """The share of operations that would have to be changed; None: not recorded of one of them."""
    noise: float | None = None
    """What two recordings of one workload stay below, if operations were independent."""
    differs: bool = False
    differences: tuple[str, ...] = ()
    """Sentences, the largest difference first; empty if it does not differ."""
    absent: str = ""
    """Why there is no distance."""


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """How alike two workloads are."""

    baseline: str
    """The name of the first."""
    candidate: str
    operations: tuple[int, int]
    """System calls of each."""
    per_s: tuple[float, float]
    """The same for each second."""
    margin: float
    dimensions: tuple[DimensionDistance, ...]
    """The largest distance first."""

    @property
    def differs(self) -> bool:
        """Whether they differ in any dimension."""
        return any(one.differs for one in self.dimensions)


def similarity(
    first: Characterization, second: Characterization, names: tuple[str, str], margin: float
) -> Similarity:
    """Return how alike two workloads are; `names` are theirs."""
    pair = (first, second)
    counts = tuple(_calls(one, kinds=first.method == second.method) for one in pair)
    found = [
        _calls_distance(counts[0], counts[1], names),
        _sizes_distance(first, second, names),
        _locality_distance(first, second, names),
        _arrivals_distance(first.arrivals, second.arrivals, names),
    ]
    judged = [_judged(one, margin) for one in found]
    totals = (counts[0].total(), counts[1].total())
    return Similarity(
        baseline=names[0],
        candidate=names[1],
        operations=totals,
        per_s=(totals[0] / first.seconds, totals[1] / second.seconds),
        margin=margin,
        dimensions=tuple(sorted(judged, key=lambda one: -(one.distance or 0.0))),
    )


def _judged(found: DimensionDistance, margin: float) -> DimensionDistance:
    distance, noise = found.distance, found.noise
    differs = distance is not None and distance > max(margin, noise or 0.0)
    texts = found.differences[:_MOST_TEXTS] if differs else ()
    return msgspec.structs.replace(found, differs=differs, differences=texts)


def _absent(dimension: Dimension, why: str) -> DimensionDistance:
    return DimensionDistance(dimension=dimension, distance=None, absent=why)


def _noise(draw: Callable[[np.random.Generator], float]) -> float:
    """Return the distance below which pairs of samples of one workload stay."""
    random = np.random.default_rng(0)
    distances = [draw(random) for _ in range(_DRAWS)]
    return float(np.quantile(distances, 1 - _LEVEL / len(DIMENSIONS)))


# -- calls -----------------------------------------------------------------------------


def _calls(one: Characterization, *, kinds: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for transfer in one.transfers:
        found[f"{transfer.call} ({_what(transfer)})" if kinds else transfer.call] += transfer.calls
    for other in one.others:
        found[other.call] += other.calls
    return found


def _what(transfer: Transfer) -> str:
    how = ("direct ",) * transfer.direct + ("synchronous ",) * transfer.synchronous
    return f"{''.join(how)}{transfer.kind}"


def _shares(counts: Counter[Key]) -> dict[Key, float]:
    total = counts.total()
    return {key: count / total for key, count in counts.items()}


def _variation(a: _Shares[Key], b: _Shares[Key]) -> float:
    return sum(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in {**a, **b}) / 2


def _pooled_noise(
    a: Counter[Key], b: Counter[Key], distance: Callable[[_Shares[Key], _Shares[Key]], float]
) -> float:
    """Return the noise of a distance of two samples of so many operations, from both together."""
    pooled = a + b
    keys = list(pooled)
    shares = np.array([pooled[key] for key in keys]) / pooled.total()

    def draw(random: np.random.Generator) -> float:
        each = [random.multinomial(one.total(), shares) / one.total() for one in (a, b)]
        first, second = (dict(zip(keys, map(float, one), strict=True)) for one in each)
        return distance(first, second)

    return _noise(draw)


def _calls_distance(a: Counter[str], b: Counter[str], names: tuple[str, str]) -> DimensionDistance:
    if not a or not b:
        return _absent("calls", "no calls were counted of one of them")
    first, second = _shares(a), _shares(b)
    order = sorted({**first, **second}, key=lambda key: _gap(first, second, key), reverse=True)
    return DimensionDistance(
        dimension="calls",
        distance=_variation(first, second),
        noise=_pooled_noise(a, b, _variation),
        differences=tuple(
            f"{key} is {_of_both(first.get(key, 0.0), second.get(key, 0.0), names, 'the calls')}"
            for key in order
            if _gap(first, second, key)
        ),
    )


def _gap(first: _Shares[Key], second: _Shares[Key], key: Key) -> float:
    return abs(first.get(key, 0.0) - second.get(key, 0.0))


def _of_both(first: float, second: float, names: tuple[str, str], what: str) -> str:
    return (
        f"{percent_text(first)} of {what} of {names[0]}, "
        f"{percent_text(second)} of those of {names[1]}"
    )


# -- sizes -----------------------------------------------------------------------------


def _sizes(one: Characterization, way: Direction) -> Counter[int]:
    found: Counter[int] = Counter()
    for transfer in one.transfers:
        if transfer.direction == way:
            for size in (*transfer.sizes, *transfer.buckets):
                found[size.bytes] += size.calls
    return found


def _unmatched(a: _Shares[int], b: _Shares[int]) -> float:
    """Return the share that has no partner of about its size. Both are matched in the order of
    their sizes, which leaves the fewest alone, because all tolerances are equal."""
    first, second = (
        [(max(size, _ABSENT_SIZE), share) for size, share in sorted(one.items())] for one in (a, b)
    )
    matched, i, j = 0.0, 0, 0
    left = [share for _, share in first], [share for _, share in second]
    while i < len(first) and j < len(second):
        ratio = first[i][0] / second[j][0]
        if 1 / _SAME_SIZE < ratio < _SAME_SIZE:
            share = min(left[0][i], left[1][j])
            matched += share
            left[0][i] -= share
            left[1][j] -= share
            i, j = i + (left[0][i] <= left[1][j]), j + (left[0][i] > left[1][j])
        else:
            i, j = i + (ratio < 1), j + (ratio > 1)
    return max(0.0, 1.0 - matched)


def _sizes_distance(
    first: Characterization, second: Characterization, names: tuple[str, str]
) -> DimensionDistance:
    sizes = {way: (_sizes(first, way), _sizes(second, way)) for way in _WAYS}
    both = {way: pair for way, pair in sizes.items() if pair[0] and pair[1]}
    if not both:
        return _absent("sizes", "no sizes of the same direction were counted of both")
    weights = _weights({way: (a.total(), b.total()) for way, (a, b) in both.items()})
    distances = {way: _unmatched(_shares(a), _shares(b)) for way, (a, b) in both.items()}
    noises = {way: _pooled_noise(a, b, _unmatched) for way, (a, b) in both.items()}
    texts = sorted(
        (-weights[way] * gap, text)
        for way in both
        for gap, text in _size_texts(way, *both[way], names)
    )
    return DimensionDistance(
        dimension="sizes",
        distance=sum(weights[way] * distances[way] for way in both),
        noise=sum(weights[way] * noises[way] for way in both),
        differences=tuple(text for _, text in texts),
    )


def _weights(calls: Mapping[Direction, tuple[int, int]]) -> dict[Direction, float]:
    """Return the part of each direction, the mean of both workloads."""
    totals = [sum(pair[at] for pair in calls.values()) for at in (0, 1)]
    return {way: (pair[0] / totals[0] + pair[1] / totals[1]) / 2 for way, pair in calls.items()}


def _size_texts(
    way: Direction, a: Counter[int], b: Counter[int], names: tuple[str, str]
) -> Iterator[tuple[float, str]]:
    """Yield the sizes of which one has more, each with by how much."""
    first, second = _shares(a), _shares(b)

    def near(shares: _Shares[int], size: int) -> float:
        low, high = size / _SAME_SIZE, size * _SAME_SIZE
        return sum(share for one, share in shares.items() if one == size or low < one < high)

    named: list[int] = []
    both = {size: (near(first, size), near(second, size)) for size in {**first, **second}}
    gaps = {size: abs(one - other) for size, (one, other) in both.items() if one != other}
    for size in sorted(gaps, key=lambda one: -gaps[one]):
        if not any(1 / _SAME_SIZE < max(size, 1) / max(one, 1) < _SAME_SIZE for one in named):
            named.append(size)
            shares = _of_both(*both[size], names, f"the {way}s")
            yield gaps[size], f"about {binary_size_text(size)} have {shares}"


# -- locality --------------------------------------------------------------------------


class _Order(msgspec.Struct, frozen=True):
    """Transfers of one direction of files and devices."""

    calls: int
    sequential: float


def _order(one: Characterization, way: Direction) -> _Order | None:
    known = [
        (transfer.calls, transfer.sequential)
        for transfer in one.transfers
        if transfer.direction == way
        and transfer.kind in SEEKABLE_KINDS
        and transfer.sequential is not None
        and transfer.calls
    ]
    calls = sum(count for count, _ in known)
    return _Order(calls, sum(count * share for count, share in known) / calls) if calls else None


def _locality_distance(
    first: Characterization, second: Characterization, names: tuple[str, str]
) -> DimensionDistance:
    both = {
        way: (a, b)
        for way in _WAYS
        if (a := _order(first, way)) is not None and (b := _order(second, way)) is not None
    }
    if not both:
        return _absent("locality", "one of them has no transfers of files whose places are known")
    weights = _weights({way: (a.calls, b.calls) for way, (a, b) in both.items()})
    gaps = {way: abs(a.sequential - b.sequential) for way, (a, b) in both.items()}

    def draw(random: np.random.Generator) -> float:
        found = 0.0
        for way, (a, b) in both.items():
            calls = a.calls + b.calls
            share = (a.sequential * a.calls + b.sequential * b.calls) / calls
            one, other = (random.binomial(x.calls, min(share, 1.0)) / x.calls for x in (a, b))
            found += weights[way] * abs(one - other)
        return found

    order = sorted(both, key=lambda way: -weights[way] * gaps[way])
    return DimensionDistance(
        dimension="locality",
        distance=sum(weights[way] * gaps[way] for way in both),
        noise=_noise(draw),
        differences=tuple(
            f"sequential are {_of_both(a.sequential, b.sequential, names, f'the {way}s')}"
            for way in order
            if gaps[way]
            for a, b in (both[way],)
        ),
    )


# -- arrivals --------------------------------------------------------------------------

_Slots = NDArray[np.int64]
_FEWEST_SLOTS = 10


def _slots_alike(a: Arrivals, b: Arrivals) -> tuple[_Slots, _Slots]:
    """Return the calls of slots of about equal lengths, the finer ones joined."""
    length = max(a.slot_s, b.slot_s)
    return _joined(a, round(length / a.slot_s)), _joined(b, round(length / b.slot_s))


def _joined(one: Arrivals, parts: int) -> _Slots:
    whole = len(one.calls) // parts * parts
    calls: _Slots = np.array(one.calls[:whole], dtype=np.int64).reshape(-1, parts)
    found: _Slots = calls.sum(axis=1)
    return found


def _displaced(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return half of the Wasserstein distance of two samples of slots, each of mean 1."""
    # Both quantile functions are steps; between two edges of either, both are constant.
    edges = np.union1d(np.arange(1, len(a) + 1) * len(b), np.arange(1, len(b) + 1) * len(a))
    widths = np.diff(edges, prepend=0)
    begins = edges - widths
    gaps = np.abs(np.sort(a)[begins // len(b)] - np.sort(b)[begins // len(a)])
    return float((gaps * widths).sum() / edges[-1] / 2)


def _relative(slots: _Slots) -> NDArray[np.float64]:
    mean = slots.mean()
    return slots / mean if mean else np.ones(len(slots))


def _arrivals_distance(
    first: Arrivals | None, second: Arrivals | None, names: tuple[str, str]
) -> DimensionDistance:
    if first is None or second is None:
        return _absent("arrivals", "the calls over time were not recorded of one of them")
    a, b = _slots_alike(first, second)
    if min(len(a), len(b)) < _FEWEST_SLOTS or not a.sum() or not b.sum():
        return _absent("arrivals", "one of them was recorded too briefly")
    random = np.random.default_rng(0)
    rate = min(a.mean(), b.mean())
    thinned = tuple(random.binomial(x, rate / x.mean()) for x in (a, b))
    relative = _relative(thinned[0]), _relative(thinned[1])
    pooled = np.concatenate(relative)

    # Neighbours are alike where a burst lasts: blocks of slots are drawn, and no single ones.
    block = max(1, round(math.sqrt(min(len(a), len(b)))))

    def draw(generator: np.random.Generator) -> float:
        one, other = (_blocks(pooled, len(x), block, generator) for x in (a, b))
        return _displaced(one / max(one.mean(), 1e-9), other / max(other.mean(), 1e-9))

    busiest = tuple(_busiest_tenth(x) for x in (a, b))
    return DimensionDistance(
        dimension="arrivals",
        distance=_displaced(*relative),
        noise=_noise(draw),
        differences=(
            "in the busiest tenth of the time come "
            f"{_of_both(busiest[0], busiest[1], names, 'the calls')}",
        ),
    )


def _blocks(
    pooled: NDArray[np.float64], length: int, block: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return so many slots, in blocks of neighbours (circular block bootstrap: Politis and Romano,
    1992)."""
    begins = random.integers(0, len(pooled), math.ceil(length / block))
    places = (begins[:, None] + np.arange(block)).ravel()[:length] % len(pooled)
    found: NDArray[np.float64] = pooled[places]
    return found


def _busiest_tenth(slots: _Slots) -> float:
    most = np.sort(slots)[::-1][: max(1, round(len(slots) / 10))]
    return float(most.sum() / slots.sum())


def working_set_text(one: Characterization) -> str:
    """Return the files and the bytes that a workload reached; empty if they are not known."""
    files = [use.files for use in one.file_systems if use.files is not None]
    reached: Sequence[int] = [
        use.files_bytes for use in one.file_systems if use.files_bytes is not None
    ]
    if not files:
        return ""
    return f"{sum(files):,} files, at most {binary_size_text(sum(reached))}"
