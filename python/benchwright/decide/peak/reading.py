"""What trials show: warm-up, a steady response with its noise or a capacity under overload, and how long runs last."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.core.search import Criterion, LoadSeries, LoadTrial, PeakGoal
from benchwright.decide.peak.curve import FloatArray
from benchwright.decide.peak.trials import TrialCache

# --------------------------------------------------------------------------------------
# How noisy a run's mean is, told by the run itself: batch means with the lugsail
# correction.
#
# Purpose: the relative variance of a run's mean, times its length [s], with the degrees of
# freedom behind it. Autocorrelation is respected: batches are many relaxation times
# long, and what correlation is left between them is corrected (2 v_b - v_b/2).
# Decision: variances of single requests, and intervals from them, are not used at all: near
# the peak they are 13 to 40 times too narrow (reference: peak table of the notes).
# Source: D. Vats and J. Flegal 2022, Lugsail lag windows, Biometrika 109(3).

FEWEST_BATCHES = 5
"""Below it a run tells nothing of its own noise."""
MOST_BATCHES = 8
"""So that batches grow with the run, and their correlation fades."""


BATCH_TRUST = 0.45
"""Share of the batches' degrees of freedom that count. Their noise is right in the mean (0.9 to
1.1 of the noise between runs on five of six servers, heavy tails among them), but batches
are correlated and skewed, so that it is mostly too low and seldom far too high: with 0.7
answers under heavy tails (M/G/4) were right in 86 searches of 100, with this in 93."""


class RunNoise(msgspec.Struct, frozen=True):
    """What a run says of its noise."""

    relative_s: float
    """Relative variance of the mean times the length [s]."""
    freedom: float
    """Degrees of freedom; 0: nothing is known."""


UNKNOWN_NOISE = RunNoise(0.0, 0.0)


def run_noise(
    values: FloatArray, counts: FloatArray, width_s: float, slope: float
) -> RunNoise:
    """Return the noise of a run's bins `(n_bins,)`.

    `slope` is the response's elasticity to the rate: what a batch's own number of arrivals
    explains is not noise, since the realised rate is the abscissa.
    """
    coarse = _variance_s(values, counts, width_s, slope)
    if coarse is None:
        return UNKNOWN_NOISE
    size, variance = coarse
    half = _batched(values, counts, max(size // 2, 1), slope)
    fine = float(half.var(ddof=1)) * max(size // 2, 1) * width_s
    lugsail = 2 * variance - fine if size >= 2 else variance
    batches = values.size // size
    return RunNoise(max(lugsail, variance, 1e-12), (batches - 1) * BATCH_TRUST)


def _variance_s(
    values: FloatArray, counts: FloatArray, width_s: float, slope: float
) -> tuple[int, float] | None:
    """Return the batch size in bins and the batches' variance times their length [s]."""
    size = max(values.size // MOST_BATCHES, 1)
    if values.size // size < FEWEST_BATCHES:
        return None
    means = _batched(values, counts, size, slope)
    return size, float(means.var(ddof=1)) * size * width_s


def _batched(
    values: FloatArray, counts: FloatArray, size: int, slope: float
) -> FloatArray:
    """Return the batches' means over the run's mean, their rate taken out."""
    n = values.size // size * size
    weights = counts[-n:].reshape(-1, size)
    total = np.maximum(weights.sum(axis=1), 1e-9)
    means = (values[-n:].reshape(-1, size) * weights).sum(axis=1) / total
    overall = float(np.average(means, weights=total))
    rates = total / total.mean()
    if overall <= 0:
        return np.zeros(means.size)
    explained = slope * (rates - 1)
    result: FloatArray = means / overall - explained
    return result


# -- How long a server warms up: a slowness that fades, fitted to all runs at once -----
#
# Purpose: the seconds to leave out of every run. Where a warm-up shows is not at the peak,
# where one run's bins differ by more than it does, but under overload (what is completed each
# second) and at low load (the response): both are scaled to one level, and
# slowness(t) = a exp(-t/tau) is fitted by weighted least squares for each of a few tau.
# Decision: a test with a high threshold. MSER, which the literature prefers, lost: it cuts where
# the rest has least variance, so it cuts high beginnings of clean runs: bias of 2 to 4 % of
# the response at the peak on servers without any warm-up (measured).
# Source: K. White 1997, Simulation 69(6) (MSER); P. Welch 1983 (averaging over runs).

WARM_UP_LEAST_S = 2.0
"""Always left out: the empty server's first moments [s]."""
WARM_UP_SHARE = 0.12
"""Share of every run that is left out, seen or not: a warm-up of 15 % over 8 s is seen in
three searches of four, and unseen it moves the answer by 2 %."""
WARM_UP_MOST_S = 40.0
WARM_UP_FADES_S = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Time constants that are tried [s]."""
WARM_UP_Z = 2.2
"""Standard errors at which a warm-up is believed: a false one only costs some seconds."""
WARM_UP_HARMLESS = 0.01
"""Slowness that may stay in a run's first kept second."""


class SlownessByAge(msgspec.Struct, frozen=True):
    """How slow a server was at each age, in one run; columns `(n,)`."""

    age_s: FloatArray
    slowness: FloatArray
    """Time per operation over its mean in the run, or the same of a response."""
    variance: float
    """Of one slowness, correlation included."""


class FittedWarmUp(msgspec.Struct, frozen=True):
    """What is left out of every run, and why."""

    lasts_s: float = WARM_UP_LEAST_S
    slowness: float = 0.0
    """At first, as a share; 0: none was seen."""
    fades_s: float = 0.0


def fit_warm_up(runs: Sequence[SlownessByAge]) -> FittedWarmUp:
    """Return the warm-up that the runs show, or only the least."""
    found = FittedWarmUp()
    surest = WARM_UP_Z
    for fades_s in WARM_UP_FADES_S:
        top, bottom = 0.0, 0.0
        for run in runs:
            shape = np.exp(-run.age_s / fades_s)
            shape = shape - shape.mean()
            top += float(shape @ run.slowness) / run.variance
            bottom += float(shape @ shape) / run.variance
        if bottom <= 0:
            continue
        slowness, sureness = top / bottom, top / math.sqrt(bottom)
        if sureness > surest:
            surest = sureness
            lasts_s = fades_s * math.log(
                max(slowness, WARM_UP_HARMLESS) / WARM_UP_HARMLESS
            )
            found = FittedWarmUp(
                min(max(lasts_s, WARM_UP_LEAST_S), WARM_UP_MOST_S), slowness, fades_s
            )
    return found


# --------------------------------------------------------------------------------------
# What one trial tells: a steady response at a realised rate, or a capacity under
# overload.
#
# Purpose: everything that the posterior looks at, taken from a trial once. Responses are
# shares of the limit.
# Decision: an overloaded run is no failure. With bins by intended start an operation that
# arrives at t ends at t + R(t); while the queue never empties, the arrivals between two moments
# over the time between their ends is the capacity, to cv/sqrt(operations): 0.5 % in 150 s
# where a response at the peak costs ten times that. Its mean response is not used.

OVERLOAD_LIMITS = 8.0
"""A last half beyond so many limits, and growing, is a queue that never empties: near
the capacity a queue wanders off for a while and comes back. To take that for overload would
read a low capacity from every high excursion, and miss it among the responses: with heavy
tails the answers were 0.6 % too high, and right in 84 searches of 100."""
OVERLOAD_GROWTH = 1.25
UNSTEADY_LIMITS = 8.0
"""A mean beyond so many limits has no steady state to speak of."""
SERVICE_CV2 = 1.5
"""Squared coefficient of variation of service: what a capacity's error is expected from."""
SERVICE_CV2_FREEDOM = 3.0
CAPACITY_BLOCKS = 20
"""Of an overloaded run, whose scatter is the capacity's error."""
CAPACITY_COUNTED_SHARE = 0.97
"""Share of the operations that must have a response for bins to tell a capacity: those
that never ended are the slow ones."""
CAPACITY_DIFFERENCE_Z = 3.0
"""Standard errors by which two capacities must differ to be no capacities."""
CAPACITY_COLD_S = 0.5
"""Seconds of work that a warm-up which is not known yet may cost an overloaded run."""
CAPACITY_BETWEEN_RUNS = 0.014
"""Relative standard deviation between two runs' capacities that is usual."""
WARM_UP_FEWEST_BINS = 4
WARM_UP_LEAST_AGE_S = 1.0
WARM_UP_QUIET = 0.6
"""A response below this share of the limit is quiet enough to show a warm-up."""
LEAST_SHARE_OF_LIMIT = 1e-3
"""A smaller share of the limit counts as this: an error ratio is 0 at low loads."""
SECONDS_OF_UNIT = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
}


_MOST_READ = 4096
"""Trials whose readings are kept: a search has 200 at most, read by several criteria."""


class MeasuredCapacity(msgspec.Struct, frozen=True):
    """A capacity told by an overloaded run."""

    rate: float
    """[1/s]."""
    relative_sd: float


class RunEstimate(msgspec.Struct, frozen=True):
    """What one trial tells of one criterion."""

    index: int
    rate: float
    """As realised in the part that counts [1/s]."""
    lasts_s: float
    """Of that part [s]."""
    value: float
    """The mean response, as a share of the limit; NaN where it is no steady one."""
    noise: RunNoise = UNKNOWN_NOISE
    capacity: MeasuredCapacity | None = None
    bins: int = 0
    error: float = 0.3
    """Relative standard error of the value, by the run alone and roughly."""

    @property
    def steady(self) -> bool:
        """Tell whether it has a response to learn from."""
        return math.isfinite(self.value)


class RunEstimates(msgspec.Struct, frozen=True):
    """What all trials tell of one criterion."""

    runs: tuple[RunEstimate, ...]
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
    scale = SECONDS_OF_UNIT.get(criterion.unit)
    return None if scale is None else criterion.limit * scale


def read_runs(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float = 0.0
) -> RunEstimates:
    """Return what the trials tell. `slope` is the elasticity near the peak, as far as
    it is known; only the noise's estimate depends on it."""
    return _ESTIMATES.value(
        history, (criterion, slope), lambda: _read_runs(criterion, history, slope)
    )


def _read_runs(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float
) -> RunEstimates:
    ageing = [
        _SLOWNESS.value(
            [trial], criterion, functools.partial(_slowness_by_age, trial, criterion)
        )
        for trial in history
    ]
    seconds = fit_warm_up([one for one in ageing if one is not None]).lasts_s
    runs = []
    for index, trial in enumerate(history):
        left_out_s = max(seconds, WARM_UP_SHARE * trial.lasted_s)
        key = (index, criterion, left_out_s, slope)
        compute = functools.partial(
            _read_run, index, trial, criterion, left_out_s, slope
        )
        runs.append(_RUNS.value([trial], key, compute))
    return RunEstimates(tuple(runs), seconds, limit_s(criterion))


_ESTIMATES: TrialCache[RunEstimates] = TrialCache(16)
_SLOWNESS: TrialCache[SlownessByAge | None] = TrialCache(_MOST_READ)
_RUNS: TrialCache[RunEstimate] = TrialCache(_MOST_READ)


def without_contradictory_capacities(readings: RunEstimates) -> RunEstimates:
    """Return the readings without capacities where those that overload told disagree.

    A server that takes operations in turn completes its capacity however high the rate. One
    that shares itself out completes the short ones first: the more, the higher the rate.
    """
    told = [run for run in readings.runs if run.capacity is not None]
    if not any(_differ(one, other) for one, other in itertools.combinations(told, 2)):
        return readings
    runs = tuple(msgspec.structs.replace(run, capacity=None) for run in readings.runs)
    return msgspec.structs.replace(readings, runs=runs)


def _differ(one: RunEstimate, other: RunEstimate) -> bool:
    a, b = one.capacity, other.capacity
    assert a is not None
    assert b is not None
    warm_up = math.hypot(CAPACITY_COLD_S / one.lasts_s, CAPACITY_COLD_S / other.lasts_s)
    error = math.hypot(a.relative_sd, b.relative_sd, warm_up, CAPACITY_BETWEEN_RUNS)
    return abs(math.log(a.rate / b.rate)) > CAPACITY_DIFFERENCE_Z * error


def _slowness_by_age(trial: LoadTrial, criterion: Criterion) -> SlownessByAge | None:
    """Return how slow the server was at each age; None where a run tells nothing of it."""
    at, values, counts = _columns(trial.series, criterion)
    scale = limit_s(criterion)
    if values.size < WARM_UP_FEWEST_BINS or trial.series.binned_by == "completion":
        return None
    if _grows(values):
        if scale is None or counts.sum() + trial.errors < CAPACITY_COUNTED_SHARE * (
            trial.offered or 0
        ):
            return None
        return _slowness_by_completion(at, values * scale, counts, trial.series.width_s)
    settled = values[values.size // 3 :]
    if settled.mean() > WARM_UP_QUIET:
        return None
    kept = at >= WARM_UP_LEAST_AGE_S
    level, spread = float(settled.mean()), float(settled.var(ddof=1))
    if level <= 0 or kept.sum() < WARM_UP_FEWEST_BINS:
        return None
    slowness = values[kept] / level - 1
    return SlownessByAge(at[kept], slowness, 1.5 * spread / level**2 + 1e-6)


def _slowness_by_completion(
    at: FloatArray, waits_s: FloatArray, counts: FloatArray, width_s: float
) -> SlownessByAge | None:
    """Return slowness by what an overloaded server completed between bins."""
    ends = at + width_s / 2 + waits_s
    busy = int(np.argmax(waits_s > width_s / 4))
    taken = np.diff(ends[busy:])
    served = (counts[busy:-1] + counts[busy + 1 :]) / 2
    if taken.size < WARM_UP_FEWEST_BINS or served.min() <= 0:
        return None
    each = taken / served
    level = float(taken.sum() / served.sum())
    noise = SERVICE_CV2 / float(served.mean())
    ages = (ends[busy:-1] + ends[busy + 1 :]) / 2
    return SlownessByAge(ages, each / level - 1, 1.3 * noise)


def _columns(
    series: LoadSeries, criterion: Criterion
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
    never_empty = values[quarter:].min() > OVERLOAD_LIMITS
    stays = values[values.size // 2 :].min() > OVERLOAD_LIMITS
    return bool(stays and (last > OVERLOAD_GROWTH * middle or never_empty))


def _read_run(
    index: int, trial: LoadTrial, criterion: Criterion, warm_up_s: float, slope: float
) -> RunEstimate:
    at, values, counts = _columns(trial.series, criterion)
    whole = float(share_of_limit(criterion, trial.values.get(criterion.key, math.nan)))
    scale = limit_s(criterion)
    if values.size < 4:
        return _without_series(index, trial, whole, scale)
    width = trial.series.width_s
    if _grows(values):
        whole_seen = counts.sum() + trial.errors >= CAPACITY_COUNTED_SHARE * (
            trial.offered or 0
        )
        capacity = (
            _slope_capacity(trial.series, (at, values, counts), warm_up_s, scale)
            if whole_seen
            else None
        )
        return RunEstimate(
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
    if mean > UNSTEADY_LIMITS:
        return RunEstimate(index, rate, lasts, math.nan, bins=values.size)
    if mean < LEAST_SHARE_OF_LIMIT:
        return RunEstimate(index, rate, lasts, LEAST_SHARE_OF_LIMIT, bins=values.size)
    noise = run_noise(kept, weights, width, slope)
    spread = (
        float(kept.std(ddof=1)) / mean / math.sqrt(kept.size) if kept.size > 2 else 0.3
    )
    own = math.sqrt(noise.relative_s / lasts)
    return RunEstimate(
        index, rate, lasts, mean, noise, bins=values.size, error=max(1.5 * spread, own)
    )


def _without_series(
    index: int, trial: LoadTrial, whole: float, scale: float | None
) -> RunEstimate:
    """Return what a trial's totals alone tell."""
    rate, lasts = trial.offered_rate, trial.lasted_s
    if math.isfinite(whole) and whole <= UNSTEADY_LIMITS:
        return RunEstimate(index, rate, lasts, max(whole, LEAST_SHARE_OF_LIMIT))
    capacity = _completed_capacity(trial)
    if capacity is None and scale is not None and math.isfinite(whole):
        # The mean of a response that grows from 0 by rate/capacity - 1 each second.
        told = rate / (1 + 2 * whole * scale / lasts)
        capacity = MeasuredCapacity(
            told, math.sqrt(1.2 * SERVICE_CV2 / (told * lasts)) + 0.003
        )
    return RunEstimate(index, rate, lasts, math.nan, capacity=capacity)


def _completed_capacity(trial: LoadTrial) -> MeasuredCapacity | None:
    """Return the capacity by what was completed while the queue grew, if it grew."""
    if trial.completed is None or trial.offered is None or trial.completed < 30:
        return None
    if trial.completed > 0.97 * trial.offered:
        return None
    told = trial.completed / trial.lasted_s
    noise = math.sqrt(SERVICE_CV2 / trial.completed)
    # The first moments, before a queue stood, are missing from it.
    return MeasuredCapacity(told, math.hypot(noise, 0.05 / math.sqrt(trial.lasted_s)))


def _slope_capacity(
    series: LoadSeries,
    columns: tuple[FloatArray, FloatArray, FloatArray],
    warm_up_s: float,
    scale: float | None,
) -> MeasuredCapacity | None:
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
    blocks = max(x.size // CAPACITY_BLOCKS, 1)
    steps_n, steps_x = np.diff(n[::blocks]), np.diff(x[::blocks])
    left = steps_n - told * steps_x
    freedom = max(left.size - 1, 0)
    own = float(np.sum(left * left)) / max(float(n[::blocks][-1] - n[0]), 1.0)
    cv2 = (SERVICE_CV2_FREEDOM * SERVICE_CV2 + freedom * own) / (
        SERVICE_CV2_FREEDOM + freedom
    )
    return MeasuredCapacity(told, math.sqrt(cv2 / max(float(n[-1] - n[0]), 1.0)))


# --------------------------------------------------------------------------------------
# How long runs last: lengths follow the limit, since a quick server needs shorter
# ones.

USUAL_LIMIT_S = 0.040
"""Of the response, for which all lengths are stated [s]."""
LEAST_TIME_SCALE = 0.25
"""Of those lengths, at least: a real machine's own noise has a second's grain, and batch means
need bins."""


def time_scale(limit_s: float | None) -> float:
    """Return by how much lengths are shorter for a server with a limit; 1 where it is no time.

    A queue at its limit relaxes in a time in proportion to the limit, other things alike.
    """
    return (
        1.0
        if limit_s is None
        else min(max(limit_s / USUAL_LIMIT_S, LEAST_TIME_SCALE), 1.0)
    )


def run_length_s(goal: PeakGoal, usual_s: float) -> float:
    """Return how long a run lasts: as the user says, or as usual by the server's clock [s].

    The clock is that of the goal's first criterion.
    """
    return goal.run_length_s or time_scale(limit_s(goal.criteria[0])) * usual_s
