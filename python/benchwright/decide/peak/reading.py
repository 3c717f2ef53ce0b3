"""Step 1 of a decision: what the trials show of one criterion.

A steady run gives a mean response at the rate that was realised, with its noise; an overloaded
run gives a capacity. Both show the warm-up, which is left out of every run. Responses are
shares of the limit: 1 at the limit, more is worse.
Decision: an overloaded run is no failure. With bins by intended start an operation that
arrives at t ends at t + R(t). While the queue never empties, the arrivals between two moments
over the time between their ends are the capacity, to cv/sqrt(operations): 0.5 % in 150 s, where
a response at the peak costs ten times that. The mean response of an overloaded run is not used.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.search import Criterion, LoadSeries, LoadTrial, PeakGoal
from benchwright.decide.peak import tuning
from benchwright.decide.peak.trials import TrialCache
from benchwright.stats.arrays import FloatArray

SECONDS_OF_UNIT = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
}
FEWEST_BINS = 4
"""With fewer bins a run is read by its totals."""


def share_of_limit(criterion: Criterion, value: FloatArray | float) -> FloatArray:
    """Return values as shares of the limit: above 1 where the criterion fails.

    A value that should be high is inverted; of a share that should be high, what is missing
    to one counts.
    """
    values = np.asarray(value, dtype=float)
    if criterion.better == "lower":
        return np.asarray(values / criterion.limit)
    if criterion.statistic == "share" and criterion.limit < 1:
        return np.asarray((1 - values) / (1 - criterion.limit))
    return np.asarray(criterion.limit / np.maximum(values, 1e-12))


def limit_s(criterion: Criterion) -> float | None:
    """Return the limit as a time [s], or None where the criterion is no time."""
    scale = SECONDS_OF_UNIT.get(criterion.unit)
    return None if scale is None else criterion.limit * scale


# -- lengths of runs -------------------------------------------------------------------------


def time_scale(limit_s: float | None) -> float:
    """Return the factor by which lengths are shorter than usual for a server with this limit;
    1 where the limit is no time.

    A queue at its limit relaxes in a time in proportion to the limit, other things alike.
    """
    if limit_s is None:
        return 1.0
    return min(max(limit_s / tuning.USUAL_LIMIT_S, tuning.LEAST_TIME_SCALE), 1.0)


def run_length_s(goal: PeakGoal, usual_s: float) -> float:
    """Return how long a run lasts: as the user sets it, or the usual length on the time scale
    of the goal's first criterion [s]."""
    return goal.run_length_s or time_scale(limit_s(goal.criteria[0])) * usual_s


# -- the noise of one run: batch means with the lugsail correction --------------------------------
#
# Autocorrelation is respected: batches are many relaxation times long, and what correlation is
# left between them is corrected (2 v_b - v_b/2).
# Decision: variances of single requests, and intervals from them, are not used: near the peak
# they are 13 to 40 times too narrow.
# Source: D. Vats and J. Flegal 2022, Lugsail lag windows, Biometrika 109(3).


class RunNoise(msgspec.Struct, frozen=True):
    """How noisy a run's mean is, as the run itself shows."""

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
    size = max(values.size // tuning.MOST_BATCHES, 1)
    batches = values.size // size
    if batches < tuning.FEWEST_BATCHES:
        return UNKNOWN_NOISE
    variance = _batch_variance_s(values, counts, size, slope) * width_s
    lugsail = variance
    if size >= 2:
        half = _batch_variance_s(values, counts, size // 2, slope) * width_s
        lugsail = 2 * variance - half
    return RunNoise(max(lugsail, variance, 1e-12), (batches - 1) * tuning.BATCH_TRUST)


def _batch_variance_s(
    values: FloatArray, counts: FloatArray, size: int, slope: float
) -> float:
    """Return the variance of batches of `size` bins, relative to the run's mean and with their
    rate taken out, times their length in bins."""
    n = values.size // size * size
    weights = counts[-n:].reshape(-1, size)
    total = np.maximum(weights.sum(axis=1), 1e-9)
    means = (values[-n:].reshape(-1, size) * weights).sum(axis=1) / total
    overall = float(np.average(means, weights=total))
    if overall <= 0:
        return 0.0
    explained = slope * (total / total.mean() - 1)
    return float((means / overall - explained).var(ddof=1)) * size


# -- the warm-up: a slowness that fades, fitted to all runs at once --------------------------------
#
# A warm-up does not show at the peak, where the bins of one run differ by more than it does, but
# under overload (what is completed each second) and at low load (the response). Both are scaled to
# one level, and slowness(t) = a exp(-t/tau) is fitted by weighted least squares for each of a few tau.
# Decision: a test with a high threshold. MSER, which the literature prefers, lost: it cuts where
# the rest has least variance, so it cuts high beginnings of clean runs: bias of 2 to 4 % of
# the response at the peak on servers without any warm-up (measured).
# Source: K. White 1997, Simulation 69(6) (MSER); P. Welch 1983 (averaging over runs).


class SlownessByAge(msgspec.Struct, frozen=True):
    """How slow a server was at each age, in one run; columns `(n,)`."""

    age_s: FloatArray
    slowness: FloatArray
    """Time per operation over its mean in the run, or the same of a response."""
    variance: float
    """Of one slowness, correlation included."""


class FittedWarmUp(msgspec.Struct, frozen=True):
    """What is left out of every run."""

    lasts_s: float = tuning.WARM_UP_LEAST_S
    slowness: float = 0.0
    """At first, as a share; 0: none was detected."""


def fit_warm_up(runs: Sequence[SlownessByAge]) -> FittedWarmUp:
    """Return the warm-up that the runs show, or only the least."""
    best, best_z = FittedWarmUp(), tuning.WARM_UP_Z
    for fades_s in tuning.WARM_UP_FADES_S:
        top, bottom = 0.0, 0.0
        for run in runs:
            shape = np.exp(-run.age_s / fades_s)
            shape = shape - shape.mean()
            top += float(shape @ run.slowness) / run.variance
            bottom += float(shape @ shape) / run.variance
        if bottom <= 0:
            continue
        slowness, z = top / bottom, top / math.sqrt(bottom)
        if z > best_z:
            harmless = tuning.WARM_UP_HARMLESS
            lasts_s = fades_s * math.log(max(slowness, harmless) / harmless)
            lasts_s = min(max(lasts_s, tuning.WARM_UP_LEAST_S), tuning.WARM_UP_MOST_S)
            best, best_z = FittedWarmUp(lasts_s, slowness), z
    return best


def _slowness_by_age(trial: LoadTrial, criterion: Criterion) -> SlownessByAge | None:
    """Return how slow the server was at each age; None where a run does not show it."""
    bins = _bins_of(trial.series, criterion)
    if (
        bins.values.size < tuning.WARM_UP_FEWEST_BINS
        or trial.series.binned_by == "completion"
    ):
        return None
    if _never_empties(bins.values):
        scale = limit_s(criterion)
        if scale is None or not _counts_all(trial, bins):
            return None
        return _slowness_by_completion(bins, bins.values * scale)
    settled = bins.values[bins.values.size // 3 :]
    if settled.mean() > tuning.WARM_UP_QUIET:
        return None
    old_enough = bins.at_s >= tuning.WARM_UP_LEAST_AGE_S
    level, variance = float(settled.mean()), float(settled.var(ddof=1))
    if level <= 0 or old_enough.sum() < tuning.WARM_UP_FEWEST_BINS:
        return None
    slowness = bins.values[old_enough] / level - 1
    return SlownessByAge(
        bins.at_s[old_enough], slowness, 1.5 * variance / level**2 + 1e-6
    )


def _slowness_by_completion(bins: _Bins, waits_s: FloatArray) -> SlownessByAge | None:
    """Return slowness by what an overloaded server completed between bins."""
    ends = bins.at_s + bins.width_s / 2 + waits_s
    busy = int(np.argmax(waits_s > bins.width_s / 4))
    taken = np.diff(ends[busy:])
    served = (bins.counts[busy:-1] + bins.counts[busy + 1 :]) / 2
    if taken.size < tuning.WARM_UP_FEWEST_BINS or served.min() <= 0:
        return None
    each = taken / served
    level = float(taken.sum() / served.sum())
    noise = tuning.SERVICE_CV2 / float(served.mean())
    ages = (ends[busy:-1] + ends[busy + 1 :]) / 2
    return SlownessByAge(ages, each / level - 1, 1.3 * noise)


# -- one trial ---------------------------------------------------------------------------------------


class MeasuredCapacity(msgspec.Struct, frozen=True):
    """A capacity that an overloaded run showed."""

    rate: float
    """[1/s]."""
    relative_sd: float


class RunEstimate(msgspec.Struct, frozen=True):
    """What one trial shows of one criterion."""

    index: int
    """Place in the history."""
    rate: float
    """As realised in the part that counts [1/s]."""
    lasts_s: float
    """Of that part [s]."""
    value: float
    """The mean response, as a share of the limit; NaN where there is no steady one."""
    noise: RunNoise = UNKNOWN_NOISE
    capacity: MeasuredCapacity | None = None

    @property
    def steady(self) -> bool:
        """Return whether it has a steady response."""
        return math.isfinite(self.value)


class _Bins(msgspec.Struct, frozen=True):
    """The bins of a run that have a value; columns `(n,)`."""

    at_s: FloatArray
    """Begins [s]."""
    values: FloatArray
    """Shares of the limit."""
    counts: FloatArray
    width_s: float


def _bins_of(series: LoadSeries, criterion: Criterion) -> _Bins:
    column = series.values.get(criterion.key, ())
    if len(column) != len(series.at_s):
        return _Bins(np.empty(0), np.empty(0), np.empty(0), series.width_s)
    values = share_of_limit(criterion, np.asarray(column, dtype=float))
    counts = np.asarray(series.counts, dtype=float)
    known = (counts > 0) & np.isfinite(values)
    at_s = np.asarray(series.at_s, dtype=float)
    return _Bins(at_s[known], values[known], counts[known], series.width_s)


def _never_empties(values: FloatArray) -> bool:
    """Return whether a run's bins are those of a queue that never empties."""
    if values.size < FEWEST_BINS:
        return False
    quarter = max(values.size // 4, 1)
    last, middle = values[-quarter:].mean(), values[quarter : 3 * quarter].mean()
    always = values[quarter:].min() > tuning.OVERLOAD_LIMITS
    at_the_end = values[values.size // 2 :].min() > tuning.OVERLOAD_LIMITS
    return bool(at_the_end and (always or last > tuning.OVERLOAD_GROWTH * middle))


def _counts_all(trial: LoadTrial, bins: _Bins) -> bool:
    """Return whether nearly all operations of a trial are in its bins."""
    counted = bins.counts.sum() + trial.errors
    return bool(counted >= tuning.CAPACITY_COUNTED_SHARE * (trial.offered or 0))


def _read_run(
    index: int, trial: LoadTrial, criterion: Criterion, warm_up_s: float, slope: float
) -> RunEstimate:
    bins = _bins_of(trial.series, criterion)
    total = float(share_of_limit(criterion, trial.values.get(criterion.key, math.nan)))
    if bins.values.size < FEWEST_BINS:
        return _read_totals(index, trial, total, limit_s(criterion))
    if _never_empties(bins.values):
        capacity = None
        if _counts_all(trial, bins):
            capacity = _capacity_of_bins(
                trial.series, bins, warm_up_s, limit_s(criterion)
            )
        return RunEstimate(
            index,
            trial.offered_rate,
            trial.lasted_s,
            math.nan,
            capacity=capacity or _capacity_of_totals(trial),
        )
    skip = min(int(np.searchsorted(bins.at_s, warm_up_s - 1e-9)), bins.values.size // 2)
    # The last bin of a run that was left may be part of one: its count is low too.
    values, counts = bins.values[skip:], bins.counts[skip:]
    lasts_s = values.size * bins.width_s
    mean = float(np.average(values, weights=counts))
    if criterion.statistic == "percentile" and math.isfinite(total):
        # A mean of the bins' percentiles is no percentile of the run; the bins only show
        # what the warm-up did to it.
        mean *= total / float(np.average(bins.values, weights=bins.counts))
    counted = trial.offered is not None and not trial.errors
    rate = float(counts.sum()) / lasts_s if counted else trial.offered_rate
    if mean > tuning.UNSTEADY_LIMITS:
        return RunEstimate(index, rate, lasts_s, math.nan)
    if mean < tuning.LEAST_SHARE_OF_LIMIT:
        return RunEstimate(index, rate, lasts_s, tuning.LEAST_SHARE_OF_LIMIT)
    noise = run_noise(values, counts, bins.width_s, slope)
    return RunEstimate(index, rate, lasts_s, mean, noise)


def _read_totals(
    index: int, trial: LoadTrial, total: float, limit_s: float | None
) -> RunEstimate:
    """Return what the totals of a trial show; `total` is its value as a share of the limit."""
    rate, lasts_s = trial.offered_rate, trial.lasted_s
    if math.isfinite(total) and total <= tuning.UNSTEADY_LIMITS:
        value = max(total, tuning.LEAST_SHARE_OF_LIMIT)
        return RunEstimate(index, rate, lasts_s, value)
    capacity = _capacity_of_totals(trial)
    if capacity is None and limit_s is not None and math.isfinite(total):
        # The mean of a response that grows from 0 by rate/capacity - 1 each second.
        ended = rate / (1 + 2 * total * limit_s / lasts_s)
        noise = math.sqrt(1.2 * tuning.SERVICE_CV2 / (ended * lasts_s))
        capacity = MeasuredCapacity(ended, noise + 0.003)
    return RunEstimate(index, rate, lasts_s, math.nan, capacity=capacity)


def _capacity_of_totals(trial: LoadTrial) -> MeasuredCapacity | None:
    """Return the capacity by what was completed while the queue grew, if it grew."""
    if trial.completed is None or trial.offered is None:
        return None
    if trial.completed < tuning.CAPACITY_FEWEST_COMPLETED:
        return None
    if trial.completed > tuning.CAPACITY_COUNTED_SHARE * trial.offered:
        return None
    noise = math.sqrt(tuning.SERVICE_CV2 / trial.completed)
    # The first moments, before there was a queue, are missing from it.
    error = math.hypot(noise, 0.05 / math.sqrt(trial.lasted_s))
    return MeasuredCapacity(trial.completed / trial.lasted_s, error)


def _capacity_of_bins(
    series: LoadSeries, bins: _Bins, warm_up_s: float, limit_s: float | None
) -> MeasuredCapacity | None:
    """Return the capacity by arrivals over the time between their ends; None where the
    bins do not show it."""
    if series.binned_by == "completion" or limit_s is None:
        return None
    ends = bins.at_s + series.width_s / 2 + bins.values * limit_s
    arrived = np.cumsum(bins.counts) - bins.counts / 2
    warm = ends >= min(warm_up_s, ends[-1] / 2)
    begin = int(np.argmax((bins.values > 1.0) & warm))
    x, n = ends[begin:], arrived[begin:]
    if x.size < FEWEST_BINS or x[-1] <= x[0]:
        return None
    rate = float((n[-1] - n[0]) / (x[-1] - x[0]))
    # Departures between bins, in blocks: their scatter is the noise of the capacity.
    blocks = max(x.size // tuning.CAPACITY_BLOCKS, 1)
    left = np.diff(n[::blocks]) - rate * np.diff(x[::blocks])
    freedom = max(left.size - 1, 0)
    own = float(np.sum(left * left)) / max(float(n[::blocks][-1] - n[0]), 1.0)
    prior = tuning.SERVICE_CV2_FREEDOM
    cv2 = (prior * tuning.SERVICE_CV2 + freedom * own) / (prior + freedom)
    return MeasuredCapacity(rate, math.sqrt(cv2 / max(float(n[-1] - n[0]), 1.0)))


# -- all trials ------------------------------------------------------------------------------------------


class RunEstimates(msgspec.Struct, frozen=True):
    """What all trials show of one criterion."""

    runs: tuple[RunEstimate, ...]
    warm_up_s: float
    """What is left out of every run."""
    limit_s: float | None
    """The limit as a time [s]; None where it is none."""


_MOST_READ = 4096
"""Trials whose estimates are cached: a search has 200 at most, read by several criteria."""
_ESTIMATES: TrialCache[RunEstimates] = TrialCache(16)
_SLOWNESS: TrialCache[SlownessByAge | None] = TrialCache(_MOST_READ)
_RUNS: TrialCache[RunEstimate] = TrialCache(_MOST_READ)


def read_runs(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float = 0.0
) -> RunEstimates:
    """Return what the trials show. `slope` is the elasticity near the peak, as far as
    it is known; only the noise's estimate depends on it."""
    return _ESTIMATES.value(
        history, (criterion, slope), lambda: _read_runs(criterion, history, slope)
    )


def _read_runs(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float
) -> RunEstimates:
    slowness = []
    for trial in history:
        fit = functools.partial(_slowness_by_age, trial, criterion)
        slowness.append(_SLOWNESS.value([trial], criterion, fit))
    warm_up_s = fit_warm_up([one for one in slowness if one is not None]).lasts_s
    runs = []
    for index, trial in enumerate(history):
        left_out_s = max(warm_up_s, tuning.WARM_UP_SHARE * trial.lasted_s)
        read = functools.partial(_read_run, index, trial, criterion, left_out_s, slope)
        key = (index, criterion, left_out_s, slope)
        runs.append(_RUNS.value([trial], key, read))
    return RunEstimates(tuple(runs), warm_up_s, limit_s(criterion))


def read_trials(
    criterion: Criterion, history: Sequence[LoadTrial], slope: float = 0.0
) -> RunEstimates:
    """Return what the trials show, as `read_runs`, with capacities only where they agree."""
    return without_contradictory_capacities(read_runs(criterion, history, slope))


def without_contradictory_capacities(estimates: RunEstimates) -> RunEstimates:
    """Return the estimates without capacities where overloaded runs contradict each other.

    A server that takes operations in turn completes its capacity however high the rate. One
    that shares itself out completes the short ones first: the more, the higher the rate.
    """
    over = [run for run in estimates.runs if run.capacity is not None]
    if not any(_differ(one, other) for one, other in itertools.combinations(over, 2)):
        return estimates
    runs = tuple(msgspec.structs.replace(run, capacity=None) for run in estimates.runs)
    return msgspec.structs.replace(estimates, runs=runs)


def _differ(run_estimate: RunEstimate, other: RunEstimate) -> bool:
    """Return whether two capacities differ by more than their errors."""
    a, b = run_estimate.capacity, other.capacity
    assert a is not None
    assert b is not None
    cold_s = tuning.CAPACITY_COLD_S
    warm_up = math.hypot(cold_s / run_estimate.lasts_s, cold_s / other.lasts_s)
    error = math.hypot(
        a.relative_sd, b.relative_sd, warm_up, tuning.CAPACITY_BETWEEN_RUNS
    )
    return abs(math.log(a.rate / b.rate)) > tuning.CAPACITY_DIFFERENCE_Z * error
