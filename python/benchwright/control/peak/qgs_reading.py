"""What one trial tells: a steady response at a realised rate, or a capacity under overload.

Purpose: everything that the posterior looks at, taken from a trial once. Responses are
shares of the limit.
Decision: an overloaded run is no failure. With bins by intended start an operation that
arrives at t ends at t + R(t); while the queue never empties, the arrivals between two moments
over the time between their ends is the capacity, to cv/sqrt(operations): 0.5 % in 150 s
where a response at the peak costs ten times that. Its mean response is not used.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.noise import NOTHING, OwnNoise, own_noise
from benchwright.control.peak.remembered import Remembered
from benchwright.control.peak.warm_up import ALWAYS, Ageing, warm_up
from benchwright.model.peak import Criterion, LoadTrial, Series

OVERLOAD = 8.0
"""A last half beyond so many limits, and growing, is a queue that never empties: near
the capacity a queue wanders off for a while and comes back. To take that for overload would
read a low capacity from every high excursion, and miss it among the responses: with heavy
tails the answers were 0.6 % too high, and right in 84 searches of 100."""
GROWTH = 1.25
UNSTEADY = 8.0
"""A mean beyond so many limits has no steady state to speak of."""
PRIOR_CV2 = 1.5
"""Squared coefficient of variation of service: what a capacity's error is expected from."""
PRIOR_FREEDOM = 3.0
BLOCKS = 20
"""Of an overloaded run, whose scatter is the capacity's error."""
SEEN = 0.97
"""Share of the operations that must have a response for bins to tell a capacity: those
that never ended are the slow ones."""
CLEARLY = 3.0
"""Standard errors by which two capacities must differ to be no capacities."""
COLD_S = 0.5
"""Seconds of work that a warm-up which is not known yet may cost an overloaded run."""
UNLIKE = 0.014
"""Relative standard deviation between two runs' capacities that is usual."""
FEWEST_AGES = 4
LEAST_AGE_S = 1.0
QUIET = 0.6
"""A response below this share of the limit is quiet enough to show a warm-up."""
LEAST_VALUE = 1e-3
"""A smaller share of the limit counts as this: an error ratio is 0 at low loads."""
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


_MOST_READ = 4096
"""Trials whose readings are kept: a search has 200 at most, read by several criteria."""


class Capacity(msgspec.Struct, frozen=True):
    """A capacity told by an overloaded run."""

    rate: float
    """[1/s]."""
    relative_sd: float


class Reading(msgspec.Struct, frozen=True):
    """What one trial tells of one criterion."""

    index: int
    rate: float
    """As realised in the part that counts [1/s]."""
    lasts_s: float
    """Of that part [s]."""
    value: float
    """The mean response, as a share of the limit; NaN where it is no steady one."""
    noise: OwnNoise = NOTHING
    capacity: Capacity | None = None
    bins: int = 0
    error: float = 0.3
    """Relative standard error of the value, by the run alone and roughly."""

    @property
    def steady(self) -> bool:
        """Tell whether it has a response to learn from."""
        return math.isfinite(self.value)


class Readings(msgspec.Struct, frozen=True):
    """What all trials tell of one criterion."""

    runs: tuple[Reading, ...]
    warm_up_s: float
    limit_s: float | None
    """The limit as a time [s]; None where it is none."""


def share_of_limit(criterion: Criterion, value: FloatArray | float) -> FloatArray:
    """Return values as shares of the limit: above 1 where the criterion fails.

    What should be high is turned over; of a share that should be high, what is missing
    from one counts.
    """
    told = np.asarray(value, dtype=float)
    if criterion.better == "lower":
        return np.asarray(told / criterion.limit)
    if criterion.statistic == "share" and criterion.limit < 1:
        return np.asarray((1 - told) / (1 - criterion.limit))
    return np.asarray(criterion.limit / np.maximum(told, 1e-12))


def limit_s(criterion: Criterion) -> float | None:
    """Return the limit as a time [s], or None where the criterion is no time."""
    scale = SECONDS.get(criterion.unit)
    return None if scale is None else criterion.limit * scale


def read(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float = 0.0
) -> Readings:
    """Return what the trials tell. `slope` is the elasticity near the peak, as far as
    it is known; only the noise's estimate depends on it."""
    return _READINGS.value(
        history, (criterion, slope), lambda: _read_all(criterion, history, slope)
    )


def _read_all(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float
) -> Readings:
    ageing = [
        _AGEINGS.value([trial], criterion, functools.partial(_ageing, trial, criterion))
        for trial in history
    ]
    seconds = warm_up([one for one in ageing if one is not None]).lasts_s
    runs = []
    for index, trial in enumerate(history):
        left_out_s = max(seconds, ALWAYS * trial.lasted_s)
        key = (index, criterion, left_out_s, slope)
        compute = functools.partial(
            _read_one, index, trial, criterion, left_out_s, slope
        )
        runs.append(_RUNS.value([trial], key, compute))
    return Readings(tuple(runs), seconds, limit_s(criterion))


_READINGS: Remembered[Readings] = Remembered(16)
_AGEINGS: Remembered[Ageing | None] = Remembered(_MOST_READ)
_RUNS: Remembered[Reading] = Remembered(_MOST_READ)


def believed(readings: Readings) -> Readings:
    """Return the readings without capacities where those that overload told disagree.

    A server that takes operations in turn completes its capacity however high the rate. One
    that shares itself out completes the short ones first: the more, the higher the rate.
    """
    told = [run for run in readings.runs if run.capacity is not None]
    if not any(_differ(one, other) for one, other in itertools.combinations(told, 2)):
        return readings
    runs = tuple(msgspec.structs.replace(run, capacity=None) for run in readings.runs)
    return msgspec.structs.replace(readings, runs=runs)


def _differ(one: Reading, other: Reading) -> bool:
    a, b = one.capacity, other.capacity
    assert a is not None
    assert b is not None
    warm_up = math.hypot(COLD_S / one.lasts_s, COLD_S / other.lasts_s)
    error = math.hypot(a.relative_sd, b.relative_sd, warm_up, UNLIKE)
    return abs(math.log(a.rate / b.rate)) > CLEARLY * error


def _ageing(trial: LoadTrial, criterion: Criterion) -> Ageing | None:
    """Return how slow the server was at each age; None where a run tells nothing of it."""
    at, values, counts = _columns(trial.series, criterion)
    scale = limit_s(criterion)
    if values.size < FEWEST_AGES or trial.series.binned_by == "completion":
        return None
    if _grows(values):
        if scale is None or counts.sum() + trial.errors < SEEN * (trial.offered or 0):
            return None
        return _served(at, values * scale, counts, trial.series.width_s)
    settled = values[values.size // 3 :]
    if settled.mean() > QUIET:
        return None
    kept = at >= LEAST_AGE_S
    level, spread = float(settled.mean()), float(settled.var(ddof=1))
    if level <= 0 or kept.sum() < FEWEST_AGES:
        return None
    slowness = values[kept] / level - 1
    return Ageing(at[kept], slowness, 1.5 * spread / level**2 + 1e-6)


def _served(
    at: FloatArray, waits_s: FloatArray, counts: FloatArray, width_s: float
) -> Ageing | None:
    """Return slowness by what an overloaded server completed between bins."""
    ends = at + width_s / 2 + waits_s
    busy = int(np.argmax(waits_s > width_s / 4))
    taken = np.diff(ends[busy:])
    served = (counts[busy:-1] + counts[busy + 1 :]) / 2
    if taken.size < FEWEST_AGES or served.min() <= 0:
        return None
    each = taken / served
    level = float(taken.sum() / served.sum())
    noise = PRIOR_CV2 / float(served.mean())
    ages = (ends[busy:-1] + ends[busy + 1 :]) / 2
    return Ageing(ages, each / level - 1, 1.3 * noise)


def _columns(
    series: Series, criterion: Criterion
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return begins [s], values as shares of the limit and counts of the bins that have
    a value `(n,)`."""
    column = series.values.get(criterion.key, ())
    if len(column) != len(series.at_s):
        return np.empty(0), np.empty(0), np.empty(0)
    values = share_of_limit(criterion, np.asarray(column, dtype=float))
    counts = np.asarray(series.counts, dtype=float)
    known = (counts > 0) & np.isfinite(values)
    return np.asarray(series.at_s, dtype=float)[known], values[known], counts[known]


def _grows(values: FloatArray) -> bool:
    """Tell whether a run's bins are those of a queue that never empties."""
    if values.size < 4:
        return False
    quarter = max(values.size // 4, 1)
    last, middle = values[-quarter:].mean(), values[quarter : 3 * quarter].mean()
    never_empty = values[quarter:].min() > OVERLOAD
    stays = values[values.size // 2 :].min() > OVERLOAD
    return bool(stays and (last > GROWTH * middle or never_empty))


def _read_one(
    index: int, trial: LoadTrial, criterion: Criterion, warm_up_s: float, slope: float
) -> Reading:
    at, values, counts = _columns(trial.series, criterion)
    whole = float(share_of_limit(criterion, trial.values.get(criterion.key, math.nan)))
    scale = limit_s(criterion)
    if values.size < 4:
        return _without_series(index, trial, whole, scale)
    width = trial.series.width_s
    if _grows(values):
        whole_seen = counts.sum() + trial.errors >= SEEN * (trial.offered or 0)
        capacity = (
            _slope_capacity(trial.series, (at, values, counts), warm_up_s, scale)
            if whole_seen
            else None
        )
        return Reading(
            index,
            trial.offered_rate,
            trial.lasted_s,
            math.nan,
            capacity=capacity or _completed_capacity(trial),
            bins=values.size,
        )
    skip = min(int(np.searchsorted(at, warm_up_s - 1e-9)), values.size // 2)
    # The last bin of a run that was left may be part of one: its count says so.
    kept, weights = values[skip:], counts[skip:]
    lasts = kept.size * width
    mean = float(np.average(kept, weights=weights))
    if criterion.statistic == "percentile" and math.isfinite(whole):
        # A mean of the bins' percentiles is no percentile of the run; the bins only say
        # what the warm-up did to it.
        mean *= whole / float(np.average(values, weights=counts))
    counted = trial.offered is not None and not trial.errors
    rate = float(weights.sum()) / lasts if counted else trial.offered_rate
    if mean > UNSTEADY:
        return Reading(index, rate, lasts, math.nan, bins=values.size)
    if mean < LEAST_VALUE:
        return Reading(index, rate, lasts, LEAST_VALUE, bins=values.size)
    noise = own_noise(kept, weights, width, slope)
    spread = (
        float(kept.std(ddof=1)) / mean / math.sqrt(kept.size) if kept.size > 2 else 0.3
    )
    own = math.sqrt(noise.relative_s / lasts)
    return Reading(
        index, rate, lasts, mean, noise, bins=values.size, error=max(1.5 * spread, own)
    )


def _without_series(
    index: int, trial: LoadTrial, whole: float, scale: float | None
) -> Reading:
    """Return what a trial's totals alone tell."""
    rate, lasts = trial.offered_rate, trial.lasted_s
    if math.isfinite(whole) and whole <= UNSTEADY:
        return Reading(index, rate, lasts, max(whole, LEAST_VALUE))
    capacity = _completed_capacity(trial)
    if capacity is None and scale is not None and math.isfinite(whole):
        # The mean of a response that grows from 0 by rate/capacity - 1 each second.
        told = rate / (1 + 2 * whole * scale / lasts)
        capacity = Capacity(told, math.sqrt(1.2 * PRIOR_CV2 / (told * lasts)) + 0.003)
    return Reading(index, rate, lasts, math.nan, capacity=capacity)


def _completed_capacity(trial: LoadTrial) -> Capacity | None:
    """Return the capacity by what was completed while the queue grew, if it grew."""
    if trial.completed is None or trial.offered is None or trial.completed < 30:
        return None
    if trial.completed > 0.97 * trial.offered:
        return None
    told = trial.completed / trial.lasted_s
    noise = math.sqrt(PRIOR_CV2 / trial.completed)
    # The first moments, before a queue stood, are missing from it.
    return Capacity(told, math.hypot(noise, 0.05 / math.sqrt(trial.lasted_s)))


def _slope_capacity(
    series: Series,
    columns: tuple[FloatArray, FloatArray, FloatArray],
    warm_up_s: float,
    scale: float | None,
) -> Capacity | None:
    """Return the capacity by arrivals over the time between their ends; None where the
    bins cannot tell."""
    if series.binned_by == "completion" or scale is None:
        return None
    at, values, counts = columns
    ends = at + series.width_s / 2 + values * scale
    arrived = np.cumsum(counts) - counts / 2
    begin = int(np.argmax((values > 1.0) & (ends >= min(warm_up_s, ends[-1] / 2))))
    x, n = ends[begin:], arrived[begin:]
    if x.size < 4 or x[-1] <= x[0]:
        return None
    told = float((n[-1] - n[0]) / (x[-1] - x[0]))
    # Departures between bins, in blocks: their scatter is the noise of the capacity.
    blocks = max(x.size // BLOCKS, 1)
    steps_n, steps_x = np.diff(n[::blocks]), np.diff(x[::blocks])
    left = steps_n - told * steps_x
    freedom = max(left.size - 1, 0)
    own = float(np.sum(left * left)) / max(float(n[::blocks][-1] - n[0]), 1.0)
    cv2 = (PRIOR_FREEDOM * PRIOR_CV2 + freedom * own) / (PRIOR_FREEDOM + freedom)
    return Capacity(told, math.sqrt(cv2 / max(float(n[-1] - n[0]), 1.0)))
