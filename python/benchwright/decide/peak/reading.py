"""Step 1 of a decision: what the trials show of one criterion.

A steady run shows a mean response at its realised rate, with its noise; an overloaded run shows a
capacity. Both show the warm-up, which is left out of every run. Responses are shares of the limit:
1 at the limit, more is worse.
Decision: an overloaded run is not a failure. With bins by intended start, an operation that arrives
at t ends at t + R(t). While the queue never empties, the arrivals between two moments, divided by
the time between their ends, are the capacity, with an error of cv/sqrt(operations): 0.5 % in 150 s.
The same error of a response at the peak takes ten times as long. The mean response of an overloaded
run is not used.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.search import (
    Criterion,
    LoadEnding,
    LoadSeries,
    LoadTrial,
    PeakGoal,
)
from benchwright.core.text import percent_text
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
"""With fewer bins only a run's totals are used."""


def share_of_limit(criterion: Criterion, value: FloatArray | float) -> FloatArray:
    """Return values as shares of the limit: above 1 where the criterion fails.

    A value that should be high is inverted; for a share that should be high, 1 - share counts.
    """
    values = np.asarray(value, dtype=float)
    if criterion.better == "lower":
        return np.asarray(values / criterion.limit)
    if criterion.statistic == "share" and criterion.limit < 1:
        return np.asarray((1 - values) / (1 - criterion.limit))
    return np.asarray(criterion.limit / np.maximum(values, 1e-12))


def limit_s(criterion: Criterion) -> float | None:
    """Return the limit as a time [s]; None where the criterion is not a time."""
    scale = SECONDS_OF_UNIT.get(criterion.unit)
    return None if scale is None else criterion.limit * scale


# -- lengths of runs -------------------------------------------------------------------------


def time_scale(limit_s: float | None) -> float:
    """Return the factor, at most 1, for the usual run lengths of a server with this limit; 1
    where the limit is not a time.

    Other things equal, the relaxation time of a queue at its limit is proportional to the limit.
    """
    if limit_s is None:
        return 1.0
    return min(max(limit_s / tuning.USUAL_LIMIT_S, tuning.LEAST_TIME_SCALE), 1.0)


def run_length_s(goal: PeakGoal, usual_s: float) -> float:
    """Return the length of a run: the user's, or the usual one on the time scale of the goal's
    first criterion [s]."""
    return goal.run_length_s or time_scale(limit_s(goal.criteria[0])) * usual_s


# -- the noise of one run: batch means with the lugsail correction --------------------------------
#
# The estimate allows for autocorrelation: batches are many relaxation times long, and the remaining
# correlation between them is corrected (2 v_b - v_b/2).
# Decision: intervals from the variance of single requests are not used: near the peak they are 13
# to 40 times too narrow.
# Source: D. Vats and J. Flegal 2022, Lugsail lag windows, Biometrika 109(3).


class RunNoise(msgspec.Struct, frozen=True):
    """The noise of a run's mean, estimated from the run itself."""

    relative_s: float
    """Relative variance of the mean times the length [s]."""
    freedom: float
    """Degrees of freedom; 0: the noise is unknown."""


UNKNOWN_NOISE = RunNoise(0.0, 0.0)


def run_noise(
    values: FloatArray,
    counts: FloatArray,
    width_s: float,
    slope: float,
    period_s: float = 0.0,
) -> RunNoise:
    """Return the noise of a run's bins `(n_bins,)`.

    `slope` is the response's elasticity to the rate: the variation that a batch's number of
    arrivals explains is not noise, because the realised rate is the abscissa. Where a server
    pauses each `period_s`, batches are whole periods: of shorter ones some have a pause and some
    none, and on a server that pauses each 30 s their noise was 40 times the run's.
    """
    if period_s > 0:
        return _noise_of_periods(values, counts, width_s, slope, period_s)
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


def _noise_of_periods(
    values: FloatArray,
    counts: FloatArray,
    width_s: float,
    slope: float,
    period_s: float,
) -> RunNoise:
    """Return the noise from batches of whole periods; unknown with fewer than two periods."""
    periods = round(values.size * width_s / period_s)
    batches = min(periods, tuning.MOST_BATCHES)
    if batches < 2:
        return UNKNOWN_NOISE
    first = np.linspace(0, periods, batches, endpoint=False).astype(int)
    begins = np.rint(first * values.size / periods).astype(int)
    lasts_s = np.diff([*begins, values.size]) * width_s
    total = np.maximum(np.add.reduceat(counts, begins), 1e-9)
    means = np.add.reduceat(values * counts, begins) / total
    overall = float(np.average(means, weights=total))
    if overall <= 0:
        return UNKNOWN_NOISE
    explained = slope * (total / lasts_s * (lasts_s.sum() / total.sum()) - 1)
    left = means / overall - explained
    variance = float(lasts_s @ (left - left.mean()) ** 2) / (batches - 1)
    return RunNoise(max(variance, 1e-12), (batches - 1) * tuning.BATCH_TRUST)


def _batch_variance_s(
    values: FloatArray, counts: FloatArray, size: int, slope: float
) -> float:
    """Return the variance of batches of `size` bins, relative to the run's mean and without the
    effect of their rates, times their length in bins."""
    n = values.size // size * size
    weights = counts[-n:].reshape(-1, size)
    total = np.maximum(weights.sum(axis=1), 1e-9)
    means = (values[-n:].reshape(-1, size) * weights).sum(axis=1) / total
    overall = float(np.average(means, weights=total))
    if overall <= 0:
        return 0.0
    explained = slope * (total / total.mean() - 1)
    return float((means / overall - explained).var(ddof=1)) * size


# -- the warm-up: a decaying slowness, fitted to all runs at once ----------------------------------
#
# A warm-up is not visible at the peak, where the bins of one run vary more than the warm-up changes
# them. It is visible under overload (operations completed each second) and at low load (response).
# Both are scaled to one level, and slowness(t) = a exp(-t/tau) is fitted by weighted least squares
# for each of a few tau.
# Decision: a test with a high threshold. Rejected: MSER, which the literature prefers. It cuts where
# the rest has the least variance, so it also cuts high first values of clean runs: a bias of 2 to
# 4 % of the response at the peak on servers without any warm-up (measured).
# Source: K. White 1997, Simulation 69(6) (MSER); P. Welch 1983 (averaging over runs).


class SlownessByAge(msgspec.Struct, frozen=True):
    """How slow a server was at each time since the start of one run; columns `(n,)`."""

    age_s: FloatArray
    slowness: FloatArray
    """Time per operation (or response) divided by its usual value in the run, minus 1."""
    variance: float
    """Variance of one slowness, including correlation."""


class FittedWarmUp(msgspec.Struct, frozen=True):
    """The warm-up that is left out of every run."""

    lasts_s: float = tuning.WARM_UP_LEAST_S
    slowness: float = 0.0
    """Slowness at the start, as a share; 0: no warm-up was detected."""


def fit_warm_up(runs: Sequence[SlownessByAge]) -> FittedWarmUp:
    """Return the warm-up that the runs show; without evidence the minimum."""
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
    """Return the slowness over the run's time; None where a run does not show it."""
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
    """Return the slowness from what an overloaded server completed between bins."""
    ends = bins.at_s + bins.width_s / 2 + waits_s
    busy = int(np.argmax(waits_s > bins.width_s / 4))
    taken = np.diff(ends[busy:])
    served = (bins.counts[busy:-1] + bins.counts[busy + 1 :]) / 2
    if taken.size < tuning.WARM_UP_FEWEST_BINS or served.min() <= 0:
        return None
    each = taken / served
    level = float(taken.sum() / served.sum())
    noise = tuning.WARM_UP_CV2 / float(served.mean())
    ages = (ends[busy:-1] + ends[busy + 1 :]) / 2
    return SlownessByAge(ages, each / level - 1, 1.3 * noise)


# -- one trial ---------------------------------------------------------------------------------------


class MeasuredCapacity(msgspec.Struct, frozen=True):
    """A capacity that an overloaded run shows."""

    rate: float
    """[1/s]."""
    relative_sd: float


class RunEstimate(msgspec.Struct, frozen=True):
    """What one trial shows of one criterion."""

    index: int
    """Index in the history."""
    rate: float
    """Realised rate in the part that counts [1/s]."""
    lasts_s: float
    """Length of that part [s]."""
    value: float
    """Mean response as a share of the limit; NaN where it is not steady."""
    noise: RunNoise = UNKNOWN_NOISE
    capacity: MeasuredCapacity | None = None

    @property
    def steady(self) -> bool:
        """Whether the run has a steady response."""
        return math.isfinite(self.value)


class _Bins(msgspec.Struct, frozen=True):
    """The bins of a run that have a value; columns `(n,)`."""

    at_s: FloatArray
    """Start of each bin [s]."""
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
    """Return whether a run's bins show a queue that never empties."""
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
    index: int,
    trial: LoadTrial,
    criterion: Criterion,
    warm_up_s: float,
    slope: float,
    period_s: float,
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
    periods = 0
    if period_s > 0:
        periods = int((bins.values.size - skip) * bins.width_s / period_s + 1e-9)
    if periods:
        skip = bins.values.size - round(periods * period_s / bins.width_s)
    # The last bin of a run that was left early may be incomplete, with a low count.
    values, counts = bins.values[skip:], bins.counts[skip:]
    lasts_s = values.size * bins.width_s
    mean = float(np.average(values, weights=counts))
    if criterion.statistic == "percentile" and math.isfinite(total):
        # The mean of the bins' percentiles is not the run's percentile; the bins are used only
        # to remove the effect of the warm-up.
        mean *= total / float(np.average(bins.values, weights=bins.counts))
    counted = trial.offered is not None and not trial.errors
    rate = float(counts.sum()) / lasts_s if counted else trial.offered_rate
    brief = trial.lasted_s < tuning.UNSTEADY_BRIEF_S * time_scale(limit_s(criterion))
    if mean > (tuning.UNSTEADY_BRIEF_LIMITS if brief else tuning.UNSTEADY_LIMITS):
        return RunEstimate(index, rate, lasts_s, math.nan)
    if mean < tuning.LEAST_SHARE_OF_LIMIT:
        return RunEstimate(index, rate, lasts_s, tuning.LEAST_SHARE_OF_LIMIT)
    whole_s = period_s if periods else 0.0
    noise = run_noise(values, counts, bins.width_s, slope, whole_s)
    if criterion.statistic == "percentile":
        wider = tuning.OWN_NOISE_OF_PERCENTILES * noise.relative_s
        noise = RunNoise(wider, noise.freedom)
    return RunEstimate(index, rate, lasts_s, mean, noise)


def _read_totals(
    index: int, trial: LoadTrial, total: float, limit_s: float | None
) -> RunEstimate:
    """Return the estimate from a trial's totals; `total` is its value as a share of the limit."""
    rate, lasts_s = trial.offered_rate, trial.lasted_s
    if math.isfinite(total) and total <= tuning.UNSTEADY_LIMITS:
        value = max(total, tuning.LEAST_SHARE_OF_LIMIT)
        return RunEstimate(index, rate, lasts_s, value)
    capacity = _capacity_of_totals(trial)
    if capacity is None and limit_s is not None and math.isfinite(total):
        # The mean response if it grows from 0 by rate/capacity - 1 each second.
        ended = rate / (1 + 2 * total * limit_s / lasts_s)
        noise = math.sqrt(1.2 * tuning.SERVICE_CV2 / (ended * lasts_s))
        capacity = MeasuredCapacity(ended, noise + 0.003)
    return RunEstimate(index, rate, lasts_s, math.nan, capacity=capacity)


def _capacity_of_totals(trial: LoadTrial) -> MeasuredCapacity | None:
    """Return the capacity from the operations completed while the queue grew; None if it did not."""
    if trial.completed is None or trial.offered is None:
        return None
    if trial.completed < tuning.CAPACITY_FEWEST_COMPLETED:
        return None
    if trial.completed > tuning.CAPACITY_COUNTED_SHARE * trial.offered:
        return None
    noise = math.sqrt(tuning.SERVICE_CV2 / trial.completed)
    # The server was not busy in the first moments, before there was a queue.
    error = math.hypot(noise, 0.05 / math.sqrt(trial.lasted_s))
    return MeasuredCapacity(trial.completed / trial.lasted_s, error)


def _capacity_of_bins(
    series: LoadSeries, bins: _Bins, warm_up_s: float, limit_s: float | None
) -> MeasuredCapacity | None:
    """Return the capacity: arrivals divided by the time between their ends; None where the bins
    do not show it."""
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
    # The scatter of departures, in blocks of bins, gives the noise of the capacity.
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
    """Time that is left out of every run, at least [s]."""
    limit_s: float | None
    """The limit as a time [s]; None where it is not a time."""
    mean_limit_s: float | None = None
    """The mean response at the limit [s], of a percentile that of exponential responses."""


_MOST_READ = 4096
"""Number of cached estimates: a search has at most 200 trials, read by several criteria."""
_ESTIMATES: TrialCache[RunEstimates] = TrialCache(16)
_SLOWNESS: TrialCache[SlownessByAge | None] = TrialCache(_MOST_READ)
_RUNS: TrialCache[RunEstimate] = TrialCache(_MOST_READ)


def read_runs(
    criterion: Criterion,
    history: Sequence[LoadTrial],
    slopes: Sequence[float] = (),
    period_s: float = 0.0,
) -> RunEstimates:
    """Return what the trials show. `slopes` are the current estimates of the elasticity at each
    trial's rate, 0 if there are none; only the estimated noise depends on them. Where the server
    pauses each `period_s`, of each run whole periods are read; 0: it does not."""
    key = (criterion, tuple(slopes), period_s)
    return _ESTIMATES.value(
        history, key, lambda: _read_runs(criterion, history, slopes, period_s)
    )


def _read_runs(
    criterion: Criterion,
    history: Sequence[LoadTrial],
    slopes: Sequence[float],
    period_s: float,
) -> RunEstimates:
    slowness = []
    for trial in history:
        fit = functools.partial(_slowness_by_age, trial, criterion)
        slowness.append(_SLOWNESS.value([trial], criterion, fit))
    warm_up_s = fit_warm_up([one for one in slowness if one is not None]).lasts_s
    runs = []
    for index, trial in enumerate(history):
        slope = slopes[index] if slopes else 0.0
        left_out_s = max(warm_up_s, tuning.WARM_UP_SHARE * trial.lasted_s)
        read = functools.partial(
            _read_run, index, trial, criterion, left_out_s, slope, period_s
        )
        key = (index, criterion, left_out_s, slope, period_s)
        runs.append(_RUNS.value([trial], key, read))
    return RunEstimates(
        tuple(runs), warm_up_s, limit_s(criterion), _mean_limit_s(criterion)
    )


def _mean_limit_s(criterion: Criterion) -> float | None:
    """Return the mean response at the limit [s], of a percentile that of exponential responses."""
    longest = limit_s(criterion)
    if longest is None or criterion.statistic != "percentile" or not criterion.share:
        return longest
    return longest / -math.log1p(-criterion.share)


def read_trials(
    criterion: Criterion, history: Sequence[LoadTrial], slopes: Sequence[float] = ()
) -> RunEstimates:
    """Return the same as `read_runs`, but with capacities only if they agree."""
    return without_contradictory_capacities(read_runs(criterion, history, slopes))


def without_contradictory_capacities(estimates: RunEstimates) -> RunEstimates:
    """Return the estimates without capacities where overloaded runs contradict each other.

    A server that takes operations in turn completes its capacity at any higher rate. A server
    that shares its time completes short operations first, so it completes more at higher rates.
    """
    over = [run for run in estimates.runs if run.capacity is not None]
    if not any(_differ(one, other) for one, other in itertools.combinations(over, 2)):
        return estimates
    runs = tuple(msgspec.structs.replace(run, capacity=None) for run in estimates.runs)
    return msgspec.structs.replace(estimates, runs=runs)


# -- runs that are too short for this server ----------------------------------------------------------
#
# A server that pauses every half minute shows no pause in most runs of five seconds, and too much of
# one in a run of twenty. So a higher rate seems to be far below the limit and a lower one far above
# it, and each of them alone decides on which side the peak is.
# Decision: neither run is believed. All runs of that length are left out, and the policies make longer
# ones, which they do not end early. Where the longer of the two is several times as long as the
# other, only the shorter is in doubt. Rejected: a vote of the runs, because short runs without a pause
# are the majority.


class LongRuns(msgspec.Struct, frozen=True):
    """The trials that are long enough to show a server's response."""

    trials: tuple[LoadTrial, ...]
    too_short_s: float = 0.0
    """Runs up to this length contradict each other; 0: none do [s]."""
    evidence: str = ""

    @property
    def least_s(self) -> float:
        """The least length of the next runs; 0: any [s]."""
        return tuning.CONTRARY_LONGER * self.too_short_s


_LONG_RUNS: TrialCache[LongRuns] = TrialCache(64)


def long_runs(goal: PeakGoal, history: Sequence[LoadTrial]) -> LongRuns:
    """Return the trials without those that are too short, by the goal's first criterion.

    All of them where that is no response, or where the user set the length of the runs.
    """
    criterion = goal.criteria[0]
    timed = criterion.statistic in ("mean", "percentile") and criterion.limit > 0
    if goal.run_length_s is not None or not timed or criterion.better != "lower":
        return LongRuns(tuple(history))
    return _LONG_RUNS.value(
        history, criterion, lambda: _computed_long_runs(criterion, history)
    )


def _computed_long_runs(criterion: Criterion, history: Sequence[LoadTrial]) -> LongRuns:
    # By the totals, because this is asked each second of a running probe.
    usable = []
    for trial in history:
        total = trial.values.get(criterion.key, math.nan) / criterion.limit
        if trial.ending is not LoadEnding.FAILED and not math.isnan(total):
            steady = total <= tuning.UNSTEADY_LIMITS
            usable.append((trial, total if steady else math.inf))
    high = [(t, value) for t, value in usable if value > tuning.CONTRARY_ABOVE]
    low = [(t, value) for t, value in usable if value < tuning.CONTRARY_BELOW]
    near = 1 - tuning.CONTRARY_NEAR
    longest_s = time_scale(limit_s(criterion)) * tuning.CONTRARY_LONGEST_S
    pairs = []
    for (slow, above), (quick, below) in itertools.product(high, low):
        doubted_s = _doubted_s(slow.lasted_s, quick.lasted_s)
        if quick.offered_rate >= near * slow.offered_rate and doubted_s <= longest_s:
            beyond = "far beyond" if math.isinf(above) else f"{percent_text(above)} of"
            text = (
                f"the response was {beyond} the limit in {slow.lasted_s:.3g} s at "
                f"{slow.offered_rate:.4g}/s, and {percent_text(below)} of it in "
                f"{quick.lasted_s:.3g} s at {quick.offered_rate:.4g}/s"
            )
            pairs.append((doubted_s, text, slow))
    if not pairs:
        return LongRuns(tuple(history))
    too_short_s, evidence, _ = max(pairs, key=lambda pair: pair[0])
    contrary = {id(slow) for _, _, slow in pairs}
    # An overloaded run that no other contradicts has grown beyond any pause.
    sure = {id(trial) for trial, value in usable if math.isinf(value)} - contrary
    kept = [t for t in history if t.lasted_s > too_short_s or id(t) in sure]
    return LongRuns(tuple(kept), too_short_s, evidence)


def _doubted_s(one_s: float, other_s: float) -> float:
    """Return up to which length runs are in doubt if two of these lengths contradict each other [s]."""
    shorter_s, longer_s = sorted((one_s, other_s))
    return longer_s if longer_s < tuning.CONTRARY_ALIKE * shorter_s else shorter_s


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
