"""From trials to the throughput of each level with its interval, and whether it grew from one level to another."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from benchwright.core.ramp import RampAxis, RampGoal
from benchwright.core.results import Estimate
from benchwright.core.search import LoadTrial
from benchwright.decide.ramp import tuning
from benchwright.stats.dependence import cosine_count, inflation, long_run_sdev
from benchwright.stats.drift import mser_truncation
from benchwright.stats.intervals import t_quantile
from benchwright.stats.moments import FloatArray

# -- From a trial to its throughput, and how much of that is noise ---------------------
#
# Purpose: the relative variance of one run's throughput, with its autocorrelation. The
# counts per second of a server resemble their neighbours, so that their plain standard
# deviation is too small; the long-run variance is not. A warm-up is cut off. Decision: cosines
# (stats/dependence.py) rather than batch means: for 10 bins they have known degrees of
# freedom. What differs between runs no run can show: see level.py. The bins of an open
# loop may be those of a schedule, which goes on whatever the server does: an overloaded
# server would seem to do all that arrives. They are used only where the run kept up.

THROUGHPUT_KEY = "throughput_per_s"
"""Key of a trial's value where the generator tells it itself."""


class TrialThroughput(msgspec.Struct, frozen=True):
    """One trial's throughput."""

    level: float
    throughput: float
    """Operations that ended well [1/s]."""
    variance: float | None
    """Relative, of the run's mean; None: unknown."""
    degrees: int
    """Of freedom of the variance; 0 where it is unknown."""
    warm_up_s: float
    """What was cut off at the begin [s]."""


def trial_throughput(trial: LoadTrial, axis: RampAxis) -> TrialThroughput | None:
    """Return a trial's throughput; None where nothing tells it."""
    counts, cut = _counts_of_arrivals(trial), 0
    if axis is RampAxis.USERS or trial.series.binned_by == "completion":
        counts, cut = _steady_counts(trial)
    throughput = _throughput(trial, counts, cut)
    if throughput is None:
        return None
    variance, degrees = _variance(counts)
    width_s = trial.series.width_s
    return TrialThroughput(trial.rate, throughput, variance, degrees, cut * width_s)


def trial_throughputs(
    trials: Iterable[LoadTrial], axis: RampAxis
) -> list[TrialThroughput]:
    """Return the throughputs of the trials that tell one."""
    found = (trial_throughput(trial, axis) for trial in trials)
    return [flow for flow in found if flow is not None]


def _steady_counts(trial: LoadTrial) -> tuple[FloatArray, int]:
    """Return the counts of the bins after the warm-up, and how many bins that was."""
    counts = _whole_counts(trial)
    found = mser_truncation(counts, inflation(counts))
    cut = found.removed if found.p < tuning.WARM_UP_P else 0
    return counts[cut:], cut


def _counts_of_arrivals(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins of a run that kept up; of another one, none."""
    ended = trial.values.get(THROUGHPUT_KEY, _ended_rate(trial))
    kept_up = ended is not None and ended >= tuning.KEPT_UP_SHARE * trial.offered_rate
    return _whole_counts(trial) if kept_up else np.empty(0)


def _whole_counts(trial: LoadTrial) -> FloatArray:
    """Return the counts of the bins without a last one that the load's end cut."""
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
    """Return what the generator says; else what was counted, after the warm-up."""
    told = trial.values.get(THROUGHPUT_KEY)
    if told is not None:
        return told
    if cut or trial.completed is None:
        if not counts.size:
            return None
        return float(counts.mean()) / trial.series.width_s * _well_share(trial)
    return _ended_rate(trial)


def _well_share(trial: LoadTrial) -> float:
    """Return what share of the operations in the series ended well, where that is known."""
    total = sum(trial.series.counts)
    if trial.completed is None or not total:
        return 1.0
    return min(trial.completed / total, 1.0)


def _variance(counts: FloatArray) -> tuple[float | None, int]:
    if counts.size < tuning.FEWEST_VARIANCE_BINS or not counts.mean() > 0:
        return None, 0
    error = long_run_sdev(counts) / math.sqrt(counts.size)
    return (error / float(counts.mean())) ** 2, cosine_count(counts.size)


# -- From the trials of a level to its throughput with an interval ---------------------
#
# Purpose: two kinds of noise in one interval: within a run, which its series tells, and between
# runs (placement, cache, neighbours), which only repetitions tell. The second is taken to be
# the same share of the throughput at every level, so that a few repetitions anywhere serve
# all levels. Decision: one pooled variance; t on two runs of each level lost, whose
# intervals are 13 standard errors wide.
# Source: R. DerSimonian and N. Laird 1986, Controlled Clinical Trials 7(3), for the moment
# estimator; F. Satterthwaite 1946, Biometrics Bulletin 2(6).

_MOST_DEGREES = 10**6


class BetweenRuns(msgspec.Struct, frozen=True):
    """What differs between runs of one level."""

    variance: float
    """Relative, of one run, beyond what is within it; 0 where nothing is seen of it."""
    degrees: int
    """Repetitions that it is from; 0: it is unknown."""


class RampLevel(msgspec.Struct, frozen=True):
    """The runs of one level, and what is known of its throughput."""

    level: float
    flows: tuple[TrialThroughput, ...]
    variance: float | None
    """Relative, of the level's mean; None: nothing tells the noise."""
    degrees: int

    @property
    def throughput(self) -> float:
        """The runs' mean [1/s]."""
        return sum(flow.throughput for flow in self.flows) / len(self.flows)

    def estimate(self, confidence: float) -> Estimate:
        """Return the throughput with its interval; its ends are NaN without a variance,
        and of a throughput of 0: the noise is known as a share of it."""
        middle = self.throughput
        low = high = math.nan
        if self.variance is not None and middle > 0:
            t = t_quantile(confidence, self.degrees)
            factor = math.exp(min(t * math.sqrt(self.variance), 700.0))
            low, high = middle / factor, middle * factor
        repeated = len(self.flows) > 1
        method = "long-run and between runs" if repeated else "long-run"
        return Estimate(middle, low, high, confidence, method, len(self.flows), "1/s")


def levels_of(flows: Sequence[TrialThroughput]) -> list[RampLevel]:
    """Return the levels in rising order; the flows are of all trials that went well."""
    by_level: dict[float, list[TrialThroughput]] = {}
    for flow in flows:
        by_level.setdefault(flow.level, []).append(flow)
    between = between_runs(list(by_level.values()))
    return [_level(by_level[level], between) for level in sorted(by_level)]


def between_runs(groups: Sequence[Sequence[TrialThroughput]]) -> BetweenRuns:
    """Return the variance between runs, pooled over the levels that were repeated."""
    squares = within = 0.0
    degrees = 0
    for group in groups:
        logs = [math.log(flow.throughput) for flow in group if flow.throughput > 0]
        if len(logs) < 2:
            continue
        middle = sum(logs) / len(logs)
        squares += sum((one - middle) ** 2 for one in logs)
        within += (len(logs) - 1) * (_within(group) or 0.0)
        degrees += len(logs) - 1
    if not degrees:
        return BetweenRuns(0.0, 0)
    return BetweenRuns(max(squares - within, 0.0) / degrees, degrees)


def _within(group: Sequence[TrialThroughput]) -> float | None:
    """Return the mean variance within a run; None where a run does not tell."""
    known = [flow.variance for flow in group if flow.variance is not None]
    return sum(known) / len(known) if len(known) == len(group) else None


def _level(group: Sequence[TrialThroughput], between: BetweenRuns) -> RampLevel:
    runs = len(group)
    inside = _within(group)
    if inside is None and not between.degrees:
        return RampLevel(group[0].level, tuple(group), None, 0)
    own = (inside or 0.0) / runs
    other = between.variance / runs
    parts = [(own, sum(f.degrees for f in group)), (other, between.degrees)]
    return RampLevel(group[0].level, tuple(group), own + other, _degrees(parts))


def _degrees(parts: Sequence[tuple[float, int]]) -> int:
    """Return Satterthwaite's degrees of freedom of a sum of variances, rounded down."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts if degrees)
    if not below:
        return max(degrees for _, degrees in parts)
    return max(1, min(int(total**2 / below), _MOST_DEGREES))


# -- Has throughput grown from one level to another, beyond noise? ---------------------
#
# Decision: levels are compared with the best one, not with their neighbour, so that small
# steps add up; and a level that is itself hardly higher proves nothing by hardly growing.


class ThroughputGrowth(enum.StrEnum):
    """What a level's throughput shows beside the best one's."""

    GREW = "grew"
    FLAT = "flat"
    NEAR = "near"
    """The level is too near the best one to show anything by not growing."""
    UNCLEAR = "unclear"
    """The noise hides it."""


class Climb(msgspec.Struct, frozen=True):
    """How far throughput grew with the levels."""

    best: RampLevel
    """The last one at which it had grown."""
    flat: int
    """Levels since then without growth, one after the other."""
    last: ThroughputGrowth
    """Of the last level; GREW for the first."""


def climb_of(levels: Sequence[RampLevel], goal: RampGoal) -> Climb:
    """Return what the levels show, in rising order; at least one.

    What the noise hides is decided by the figures themselves, except at the last level.
    """
    climb = Climb(levels[0], 0, ThroughputGrowth.GREW)
    for level in levels[1:]:
        climb = _climbed(climb, level, goal)
    return climb


def _climbed(climb: Climb, level: RampLevel, goal: RampGoal) -> Climb:
    seen = growth_of(climb.best, level, goal)
    decided = seen
    if seen is ThroughputGrowth.UNCLEAR:
        grew = level.throughput > climb.best.throughput * (1 + goal.growth)
        decided = ThroughputGrowth.GREW if grew else ThroughputGrowth.FLAT
    if decided is ThroughputGrowth.GREW:
        return Climb(level, 0, seen)
    return Climb(climb.best, climb.flat + (decided is ThroughputGrowth.FLAT), seen)


def growth_of(best: RampLevel, level: RampLevel, goal: RampGoal) -> ThroughputGrowth:
    """Return what a higher level's throughput shows beside the best one's."""
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
    """Tell whether a level's throughput is lower than the best one's, beyond noise and by
    more than what counts as growth."""
    if not (best.throughput > 0 and level.throughput > 0):
        return best.throughput > level.throughput
    fallen = math.log(best.throughput / level.throughput)
    error = error_of_ratio((best, level), goal.confidence)
    return fallen > math.log1p(goal.growth) and fallen - error > 0


def error_of_ratio(pair: Iterable[RampLevel], confidence: float) -> float:
    """Return the half width of the interval of two throughputs' log ratio; 0 where nothing
    tells the noise, so that the figures decide."""
    levels = list(pair)
    if any(level.variance is None for level in levels):
        return 0.0
    total = sum(level.variance or 0.0 for level in levels)
    degrees = min(level.degrees for level in levels)
    return t_quantile(confidence, degrees) * math.sqrt(total)
