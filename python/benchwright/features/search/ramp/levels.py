"""The throughput of each level with its interval, and whether throughput grew.

Four steps: a trial's throughput and its noise; a level's throughput from all its runs; the climb,
which is the growth of throughput from level to level, beyond noise; the change of the machine's
speed meanwhile.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.ramp import types
from benchwright.features.search.ramp.scalability import PARAMETERS
from benchwright.features.search.ramp.types import RampAxis, RampGoal, UslFit
from benchwright.stats.arrays import FloatArray
from benchwright.stats.dependence import cosine_count, inflation, long_run_sdev
from benchwright.stats.drift import chance_of_wandering, mser_truncation
from benchwright.stats.intervals import t_quantile
from benchwright.stats.special import f_tail

# -- the throughput of a trial, and its noise ------------------------------------------
#
# The noise is the relative variance of one run's throughput, including autocorrelation: a server's
# counts in neighbouring seconds are similar, so their plain standard deviation is too small; the
# long-run variance is not. A warm-up is removed. A single run cannot show the variation between
# runs (see the next part).
# Decision: cosines (stats/dependence.py) rather than batch means: for 10 bins they have known
# degrees of freedom.
# Decision: the bins of an open loop may count arrivals, which do not depend on the server: an
# overloaded server would seem to complete everything that arrives. They are used only if the run
# kept up with its arrivals.

THROUGHPUT_KEY = "throughput_per_s"
"""Key of a trial's value where the generator reports it."""


class TrialThroughput(msgspec.Struct, frozen=True):
    """One trial's throughput."""

    level: float
    throughput: float
    """Rate of successful operations [1/s]."""
    variance: float | None
    """Relative variance of the run's mean; None: unknown."""
    degrees: int
    """Degrees of freedom of the variance; 0 where it is unknown."""
    warm_up_s: float
    """Warm-up that was removed from the start [s]."""


def trial_throughput(trial: LoadTrial, axis: RampAxis) -> TrialThroughput | None:
    """Return a trial's throughput; None where it is unknown."""
    counts, cut = _counts_of_arrivals(trial), 0
    if axis is RampAxis.USERS or trial.series.binned_by == "completion":
        counts, cut = _steady_counts(trial)
    throughput = _throughput(trial, counts, cut)
    if throughput is None:
        return None
    variance, degrees = _variance(counts)
    width_s = trial.series.width_s
    return TrialThroughput(trial.rate, throughput, variance, degrees, cut * width_s)


def trial_throughputs(trials: Iterable[LoadTrial], axis: RampAxis) -> list[TrialThroughput]:
    """Return the throughputs of the trials, without those whose throughput is unknown."""
    throughputs = (trial_throughput(trial, axis) for trial in trials)
    return [throughput for throughput in throughputs if throughput is not None]


def _steady_counts(trial: LoadTrial) -> tuple[FloatArray, int]:
    """Return the counts of the bins after the warm-up, and the number of bins removed."""
    counts = _whole_counts(trial)
    warm_up = mser_truncation(counts, inflation(counts))
    cut = warm_up.removed if warm_up.p < types.WARM_UP_P else 0
    return counts[cut:], cut


def _counts_of_arrivals(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins of a run that kept up; empty for any other run."""
    ended = trial.values.get(THROUGHPUT_KEY, _ended_rate(trial))
    kept_up = ended is not None and ended >= types.KEPT_UP_SHARE * trial.offered_rate
    return _whole_counts(trial) if kept_up else np.empty(0)


def _whole_counts(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins, without an incomplete last bin."""
    series = trial.series
    whole = [
        count
        for at_s, count in zip(series.at_s, series.counts, strict=True)
        if at_s + series.width_s <= trial.lasted_s * 1.001
    ]
    return np.asarray(whole, dtype=np.float64)


def _ended_rate(trial: LoadTrial) -> float | None:
    if trial.completed is None or not trial.lasted_s:
        return None
    return trial.completed / trial.lasted_s


def _throughput(trial: LoadTrial, counts: FloatArray, cut: int) -> float | None:
    """Return the generator's throughput; without one, the counted rate after the warm-up [1/s]."""
    reported = trial.values.get(THROUGHPUT_KEY)
    if reported is not None:
        return reported
    if cut or trial.completed is None:
        if not counts.size:
            return None
        return float(counts.mean()) / trial.series.width_s * _well_share(trial)
    return _ended_rate(trial)


def _well_share(trial: LoadTrial) -> float:
    """Return the share of the operations in the series that succeeded; 1 where it is unknown."""
    total = sum(trial.series.counts)
    if trial.completed is None or not total:
        return 1.0
    return min(trial.completed / total, 1.0)


def _variance(counts: FloatArray) -> tuple[float | None, int]:
    if counts.size < types.FEWEST_VARIANCE_BINS or not counts.mean() > 0:
        return None, 0
    error = long_run_sdev(counts) / math.sqrt(counts.size)
    return (error / float(counts.mean())) ** 2, cosine_count(counts.size)


# -- the throughput of a level, with its interval --------------------------------------
#
# The interval includes two kinds of noise: within a run, which its series shows, and between
# runs (placement, cache, neighbours), which only repetitions show. The second is assumed to be
# the same share of the throughput at every level, so that a few repetitions at any level are
# enough for all.
# Decision: one pooled variance. Rejected: Student's t on two runs of each level, whose intervals
# extend 13 standard errors.
# Source: R. DerSimonian and N. Laird 1986, Controlled Clinical Trials 7(3), for the moment
# estimator; F. Satterthwaite 1946, Biometrics Bulletin 2(6).

_MOST_DEGREES = 10**6


class BetweenRuns(msgspec.Struct, frozen=True):
    """The variation between runs of one level."""

    variance: float
    """Relative variance of one run, beyond the noise within it; 0 where none is visible."""
    degrees: int
    """Number of repetitions that it is estimated from; 0: the variance is unknown."""


class RampLevel(msgspec.Struct, frozen=True):
    """The runs of one level, and the noise of their mean throughput."""

    level: float
    runs: tuple[TrialThroughput, ...]
    variance: float | None
    """Relative variance of the level's mean; None: the noise is unknown."""
    degrees: int
    """Degrees of freedom of the variance."""

    @property
    def throughput(self) -> float:
        """The runs' mean [1/s]."""
        return sum(run.throughput for run in self.runs) / len(self.runs)

    def estimate(self, confidence: float) -> Estimate:
        """Return the throughput with its interval. The ends are NaN without a variance, and for a
        throughput of 0, because the noise is a share of the throughput."""
        middle = self.throughput
        low = high = math.nan
        if self.variance is not None and middle > 0:
            t = t_quantile(confidence, self.degrees)
            factor = math.exp(min(t * math.sqrt(self.variance), 700.0))
            low, high = middle / factor, middle * factor
        repeated = len(self.runs) > 1
        method = "long-run and between runs" if repeated else "long-run"
        return Estimate(middle, low, high, confidence, method, len(self.runs), "1/s")


class SortedTrials(msgspec.Struct, frozen=True):
    """The trials of a ramp that succeeded, in order of time."""

    of_levels: tuple[LoadTrial, ...]
    control: LoadTrial | None
    """The second run of a low level at the end of a ramp that runs each level once. It is in no
    level's throughput: it only shows whether the machine has changed."""


def sort_trials(goal: RampGoal, trials: Iterable[LoadTrial]) -> SortedTrials:
    """Return a ramp's trials, with its control run apart."""
    good = [trial for trial in trials if trial.ending is not LoadEnding.FAILED]
    if goal.repeats > 1:
        return SortedTrials(tuple(good), None)
    for place in range(1, len(good)):
        if good[place].rate < good[place - 1].rate:
            return SortedTrials(tuple(good[:place]), good[place])
    return SortedTrials(tuple(good), None)


def levels_of(runs: Sequence[TrialThroughput]) -> list[RampLevel]:
    """Return the levels in ascending order; `runs` are all trials that succeeded."""
    by_level: dict[float, list[TrialThroughput]] = {}
    for run in runs:
        by_level.setdefault(run.level, []).append(run)
    between = between_runs(list(by_level.values()))
    return [_level(by_level[level], between) for level in sorted(by_level)]


def measured_levels(goal: RampGoal, trials: Iterable[LoadTrial]) -> list[RampLevel]:
    """Return the levels of a ramp's trials in ascending order.

    A level's interval depends on all of them, because the noise between runs is pooled.
    """
    return levels_of(trial_throughputs(sort_trials(goal, trials).of_levels, goal.axis))


def between_runs(groups: Sequence[Sequence[TrialThroughput]]) -> BetweenRuns:
    """Return the variance between runs, pooled over the levels that were repeated."""
    squares = within = 0.0
    degrees = 0
    for group in groups:
        logs = [math.log(run.throughput) for run in group if run.throughput > 0]
        if len(logs) < 2:
            continue
        middle = sum(logs) / len(logs)
        squares += sum((value - middle) ** 2 for value in logs)
        within += (len(logs) - 1) * (_within(group) or 0.0)
        degrees += len(logs) - 1
    if not degrees:
        return BetweenRuns(0.0, 0)
    return BetweenRuns(max(squares - within, 0.0) / degrees, degrees)


def noise_exponent(groups: Sequence[Sequence[TrialThroughput]]) -> float:
    """Return b where the variance of a run is a power of its level, exp(a + b log level), by the
    runs of repeated levels; 0 where they do not show that it changes.

    The likelihood is that of normal logarithms; b is drawn towards 0, because a weight of the
    fit that is taken from few runs makes its intervals too narrow.
    """
    logs = [
        (group[0].level, np.log([run.throughput for run in group]))
        for group in groups
        if len(group) > 1 and all(run.throughput > 0 for run in group)
    ]
    degrees = np.array([len(values) - 1 for _, values in logs])
    squares = np.array([float(np.var(values)) * len(values) for _, values in logs])
    if degrees.sum() < types.FEWEST_REPETITIONS or not squares.sum() > 0:
        return 0.0
    places = np.log([level for level, _ in logs])
    places -= float(degrees @ places) / degrees.sum()
    tried = np.linspace(-4.0, 4.0, 321)
    misfits = degrees.sum() * np.log(np.exp(-np.outer(tried, places)) @ squares)
    unchanged = degrees.sum() * math.log(squares.sum())
    if unchanged - misfits.min() < types.UNEQUAL_NOISE:
        return 0.0
    drawn = misfits + (tried / types.USUAL_EXPONENT) ** 2
    return float(tried[int(np.argmin(drawn))])


def _within(group: Sequence[TrialThroughput]) -> float | None:
    """Return the mean variance within a run; None where it is unknown for any run."""
    known = [run.variance for run in group if run.variance is not None]
    return sum(known) / len(known) if len(known) == len(group) else None


def _level(group: Sequence[TrialThroughput], between: BetweenRuns) -> RampLevel:
    number = len(group)
    inside = _within(group)
    if inside is None and not between.degrees:
        return RampLevel(group[0].level, tuple(group), None, 0)
    own = (inside or 0.0) / number
    other = between.variance / number
    parts = [(own, sum(run.degrees for run in group)), (other, between.degrees)]
    return RampLevel(group[0].level, tuple(group), own + other, _degrees(parts))


def _degrees(parts: Sequence[tuple[float, int]]) -> int:
    """Return Satterthwaite's degrees of freedom of a sum of variances, rounded down."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts if degrees)
    if not below:
        return max(degrees for _, degrees in parts)
    return max(1, min(int(total**2 / below), _MOST_DEGREES))


# -- the climb: did throughput grow from one level to another, beyond noise? -----------
#
# Decision: levels are compared with the best one, not with their neighbour, so that small steps add
# up. A level that is hardly higher than the best one shows nothing if its throughput hardly grows.


class ThroughputGrowth(enum.StrEnum):
    """How a level's throughput compares with the best one's."""

    GREW = "grew"
    FLAT = "flat"
    NEAR = "near"
    """The throughput did not grow, but the level is too near the best one for a conclusion."""
    UNCLEAR = "unclear"
    """The noise hides it."""


class Climb(msgspec.Struct, frozen=True):
    """The growth of throughput over the levels."""

    best: RampLevel
    """The last level at which it had grown."""
    flat: int
    """Number of consecutive levels since then without growth."""
    last: ThroughputGrowth
    """Growth at the last level; GREW for the first level."""


def climb_of(levels: Sequence[RampLevel], goal: RampGoal) -> Climb:
    """Return the growth of throughput over at least one level, in ascending order.

    Where noise hides the growth, the means decide, except at the last level.
    """
    climb = Climb(levels[0], 0, ThroughputGrowth.GREW)
    for level in levels[1:]:
        climb = _climbed(climb, level, goal)
    return climb


def _climbed(climb: Climb, level: RampLevel, goal: RampGoal) -> Climb:
    growth = growth_of(climb.best, level, goal)
    decided = growth
    if growth is ThroughputGrowth.UNCLEAR:
        grew = level.throughput > climb.best.throughput * (1 + goal.growth)
        decided = ThroughputGrowth.GREW if grew else ThroughputGrowth.FLAT
    if decided is ThroughputGrowth.GREW:
        return Climb(level, 0, growth)
    return Climb(climb.best, climb.flat + (decided is ThroughputGrowth.FLAT), growth)


def growth_of(best: RampLevel, level: RampLevel, goal: RampGoal) -> ThroughputGrowth:
    """Return how a higher level's throughput compares with the best one's."""
    if not best.throughput > 0:
        return ThroughputGrowth.GREW if level.throughput > 0 else ThroughputGrowth.FLAT
    if not level.throughput > 0:
        return ThroughputGrowth.FLAT
    grown = math.log(level.throughput / best.throughput)
    wanted = math.log1p(goal.growth)
    error = error_of_ratio((best, level), goal.confidence)
    if grown > wanted and grown - error > 0:
        return ThroughputGrowth.GREW
    if level.level < best.level * (1 + 2 * goal.growth):
        return ThroughputGrowth.NEAR
    return ThroughputGrowth.FLAT if grown + error < wanted else ThroughputGrowth.UNCLEAR


def falls(best: RampLevel, level: RampLevel, goal: RampGoal) -> bool:
    """Return whether a level's throughput is below the best one's, beyond noise and by more than
    the goal's minimum growth."""
    if not (best.throughput > 0 and level.throughput > 0):
        return best.throughput > level.throughput
    fallen = math.log(best.throughput / level.throughput)
    error = error_of_ratio((best, level), goal.confidence)
    return fallen > math.log1p(goal.growth) and fallen - error > 0


def error_of_ratio(pair: Iterable[RampLevel], confidence: float) -> float:
    """Return the half width of the interval of two throughputs' log ratio; 0 where the noise is
    unknown, so that the means decide."""
    levels = list(pair)
    if any(level.variance is None for level in levels):
        return 0.0
    total = sum(level.variance or 0.0 for level in levels)
    degrees = min(level.degrees for level in levels)
    return t_quantile(confidence, degrees) * math.sqrt(total)


# -- did the machine's speed change over the ramp? -------------------------------------
#
# The runs of one level differ by noise alone unless the machine changed between them. Levels that
# are repeated in random order show a change over the whole ramp, and no law has to hold for it: a
# permutation test keeps its level with noise of any distribution, also where it differs between
# levels. One run of each level shows nothing of it, because throughput changes from level to level:
# then a low level is run again at the end, and compared with what the runs scatter around the law.


class SpeedChange(msgspec.Struct, frozen=True):
    """How much the throughput of a level changed over the ramp."""

    share: float
    """Relative change, from the first trial to the last by a straight line, or of the control."""
    scatter: float
    """Relative standard deviation of runs of one level."""
    p: float
    """Probability of so much order in time if the machine does not change; NaN: unknown."""


def speed_change(runs: Sequence[TrialThroughput]) -> SpeedChange | None:
    """Return the change over repeated levels, `runs` in order of time; None where no level was
    run twice."""
    known = [run for run in runs if run.throughput > 0]
    _, group = np.unique([run.level for run in known], return_inverse=True)
    numbers = np.bincount(group) if known else np.empty(0)
    repeated = len(known) - len(numbers)
    if not repeated:
        return None

    def inside(values: FloatArray) -> FloatArray:
        means = np.bincount(group, values) / numbers
        return np.asarray(values - means[group])

    away = inside(np.log([run.throughput for run in known]))
    at = inside(np.linspace(0.0, 1.0, len(known)))
    return SpeedChange(
        share=math.expm1(float(away @ at) / float(at @ at)),
        scatter=math.sqrt(float(away @ away) / repeated),
        p=chance_of_wandering(away, group),
    )


def control_change(again: TrialThroughput, level: RampLevel, fit: UslFit) -> SpeedChange | None:
    """Return the change from a level to its control run; None where either is 0."""
    if not (again.throughput > 0 and level.throughput > 0):
        return None
    change = math.log(again.throughput / level.throughput)
    variance = fit.residual**2 * (1 + 1 / len(level.runs))
    p = f_tail(1, fit.n - PARAMETERS, change**2 / variance) if variance else math.nan
    return SpeedChange(math.expm1(change), fit.residual, p)
