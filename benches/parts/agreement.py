"""How far the arrivals at a device agree with a trace. Pure.

An operation of the trace and one at the device are the same if kind, place and size are,
the k-th of such with the k-th. A constant shift of the whole replay is no error of it:
each replayer gets the shift that suits it best. Agreement is the share of the operations
that arrive in the millisecond in which the trace has them:
sum over bins of min(trace, device) / operations = 1 - sum |trace - device| / (2 operations).
Of all operations `bw trace compare` tells it (`overlap_share`); here it is told of those
that found room in the device: whose millisecond is none in which the device was full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parts.traces import Rows

Times = NDArray[np.int64]
MILLISECOND_NS = 1_000_000
_NEVER = np.iinfo(np.uint64).max


class Matched(NamedTuple):
    """The trace's operations that were seen at the device, in the trace's order."""

    intended_ns: Times
    arrived_ns: Times
    missing: int
    """Of the trace, not seen at the device."""
    foreign: int
    """Seen at the device, not of the trace."""


class Agreement(NamedTuple):
    """Shares of the trace's operations, 0 to 1, and errors [ns]."""

    kept_up: float | None
    """In their millisecond, of those that found room in the device; None without any."""
    judged: float
    """Share of the operations that found room."""
    errors_ns: Times
    """How far each matched operation is off, early or late."""
    missing: int
    shift_ns: int
    """The trace's time zero in the device's time."""

    def error_ns(self, percent: float) -> float:
        """Return a percentile of how far operations are off; NaN without any."""
        return float(np.percentile(self.errors_ns, percent)) if len(self.errors_ns) else np.nan


def match(trace: Rows, device: Rows) -> Matched:
    """Pair the operations of a trace with those at a device."""
    ours, theirs = _occurrences(trace), _occurrences(device)
    places = {key: at for at, key in enumerate(theirs)}
    found = [(at, places[key]) for at, key in enumerate(ours) if key in places]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return Matched(
        trace["intended"].astype(np.int64)[pairs[:, 0]],
        device["issued"].astype(np.int64)[pairs[:, 1]],
        len(trace) - len(pairs),
        len(device) - len(pairs),
    )


def _occurrences(rows: Rows) -> list[tuple[int, int, int, int]]:
    """Return of each row what it is, and the how many-th such it is."""
    seen: dict[tuple[int, int, int], int] = {}
    found = []
    fields = (rows[name].tolist() for name in ("kind", "offset", "size"))
    for key in zip(*fields, strict=True):
        number = seen.get(key, 0)
        seen[key] = number + 1
        found.append((*key, number))
    return found


def agreement(trace: Rows, device: Rows, depth: int) -> Agreement:
    """Return how far they agree; the device is full with `depth` operations in flight."""
    matched = match(trace, device)
    errors = matched.arrived_ns - matched.intended_ns
    if not len(errors):
        return Agreement(None, 0.0, errors, matched.missing, 0)
    shift = best_shift_ns(matched)
    arrived = matched.arrived_ns - shift
    ours = _bins(matched.intended_ns)
    counts = _counts(ours), _counts(_bins(arrived))
    full = full_bins(device, shift, depth)
    judged = ~np.isin(np.arange(len(counts[0])), full)
    total = int(counts[0][judged].sum())
    return Agreement(
        _common(*counts, judged) / total if total else None,
        total / len(trace),
        np.abs(errors - shift),
        matched.missing,
        shift,
    )


def best_shift_ns(matched: Matched) -> int:
    """Return the shift of the whole replay at which most arrive in their millisecond."""
    errors = matched.arrived_ns - matched.intended_ns
    candidates = np.unique(np.percentile(errors, np.linspace(0, 100, 201)).astype(int))
    ours = _counts(_bins(matched.intended_ns))
    agreed = [_common(ours, _counts(_bins(matched.arrived_ns - shift))) for shift in candidates]
    return int(candidates[int(np.argmax(agreed))])


def full_bins(device: Rows, shift_ns: int, depth: int) -> Times:
    """Return the milliseconds in which the device had `depth` operations in flight."""
    ended = device["completed"][device["completed"] != _NEVER].astype(np.int64)
    times = np.concatenate([device["issued"].astype(np.int64), ended]) - shift_ns
    steps = np.repeat([1, -1], [len(device), len(ended)])
    order = np.lexsort((steps, times))
    in_flight = np.cumsum(steps[order])
    begins = np.flatnonzero(in_flight[:-1] >= depth)
    times = times[order]
    spans = zip(_bins(times[begins]), _bins(times[begins + 1]), strict=True)
    return np.unique([bin for begin, end in spans for bin in range(begin, end + 1)])


def _bins(times: Times) -> Times:
    return times // MILLISECOND_NS


def _counts(bins: Times) -> Times:
    """Return how many lie in each bin from 0 on; what is before counts nowhere."""
    return np.bincount(bins[bins >= 0])


def _common(a: Times, b: Times, judged: NDArray[np.bool_] | None = None) -> int:
    most = max(len(a), len(b))
    least = np.minimum(np.pad(a, (0, most - len(a))), np.pad(b, (0, most - len(b))))
    if judged is None:
        return int(least.sum())
    return int(least[: len(judged)][judged].sum())
