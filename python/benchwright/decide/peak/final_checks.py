"""Final checks of a search: two assumptions that it tests by extra runs before it ends.

The assumptions: a higher load responds more slowly, and the capacity does not drift. Both are also
tested without extra runs: `not_monotonic` and `drift` return the evidence for findings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.search import (
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    Probe,
)
from benchwright.core.search_text import criterion_name, criterion_value_text
from benchwright.decide.peak import tuning
from benchwright.decide.peak.reading import limit_s, read_runs, run_length_s, time_scale
from benchwright.stats.arrays import FloatArray

# -- does a higher load clearly respond faster than a lower one? ---------------------------------
#
# Decision: two runs are compared over the same time since their start, so that a cold start, a
# large part of a short run and a small part of a long one, does not look like a difference between
# loads. The variance of an operation's response comes from all runs up to the higher load, because
# a short run shows little about its own noise.


class _QuietRun(msgspec.Struct, frozen=True):
    """A run's bins without the first one, when the server is empty; columns `(n_bins,)`."""

    trial: LoadTrial
    values: FloatArray
    counts: FloatArray
    end_s: float
    """End of the run since the search began [s]."""

    @property
    def squares(self) -> float:
        """Return the sum of squares of one operation's relative response."""
        left = self.values / np.average(self.values, weights=self.counts) - 1
        return float(self.counts @ (left * left))


class _OrderPair(msgspec.Struct, frozen=True):
    """A lower load that responded more slowly than a higher one."""

    chance: float
    """Probability of such a difference by chance."""
    slow: LoadTrial
    quick: LoadTrial


def not_monotonic(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return evidence that a higher load responds faster than a lower one, or ''."""
    pair = _clearest_pair(goal, history)
    if pair is None or pair.chance >= tuning.ORDER_CHANCE:
        return ""
    return _order_text(goal.criteria[0], pair.slow, pair.quick)


def check_for_order(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return a final run that shows whether a lower load is slower; None where no run is
    needed."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    pair = _clearest_pair(goal, history)
    if pair is None or not tuning.ORDER_CHANCE <= pair.chance < tuning.ORDER_PERHAPS:
        return None
    length_s = run_length_s(goal, tuning.ORDER_CHECK_S)
    for load in (pair.slow, pair.quick):
        longest_s = max(t.lasted_s for t in history if t.rate == load.rate)
        if longest_s < tuning.ORDER_LONG * length_s:
            return Probe(load.rate, length_s, "compare")
    return None


def _clearest_pair(goal: PeakGoal, history: Sequence[LoadTrial]) -> _OrderPair | None:
    pairs = _order_pairs(goal, history)
    return min(pairs, key=lambda pair: pair.chance, default=None)


def _order_pairs(goal: PeakGoal, history: Sequence[LoadTrial]) -> Iterator[_OrderPair]:
    """Yield every pair in which the lower load responded more slowly, with its probability."""
    criterion = goal.criteria[0]
    ends_s = np.cumsum([trial.cost_s for trial in history])
    quiet = [
        _quiet_run(criterion, trial, float(end_s))
        for trial, end_s in zip(history, ends_s, strict=True)
    ]
    runs = sorted((r for r in quiet if r is not None), key=lambda r: r.trial.rate)
    total, freedom = 0.0, 0
    for i, quick in enumerate(runs):
        # Higher loads vary more and show nothing about the noise here.
        total += quick.squares
        freedom += quick.values.size - 1
        if freedom < tuning.ORDER_FEWEST_FREEDOM:
            continue
        variance = total / freedom
        for slow in runs[:i]:
            if slow.values.mean() < tuning.ORDER_LEAST_SHARE * criterion.limit:
                continue
            if quick.trial.rate <= tuning.ORDER_APART * slow.trial.rate:
                continue
            t = _order_z(slow, quick, variance)
            if t > 0:
                yield _OrderPair(_order_chance(t, freedom), slow.trial, quick.trial)


def _quiet_run(
    criterion: Criterion, trial: LoadTrial, end_s: float
) -> _QuietRun | None:
    """Return a run's bins, or None for one that cannot be compared."""
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s) or criterion.better != "lower":
        return None
    if trial.ending is LoadEnding.FAILED:
        return None
    counts = np.asarray(trial.series.counts, dtype=float)[1:]
    values = np.asarray(column, dtype=np.float64)[1:]
    known = (counts > 0) & np.isfinite(values)
    values, counts = values[known], counts[known]
    if values.size < tuning.ORDER_FEWEST_BINS:
        return None
    if values.mean() > tuning.ORDER_QUIET * criterion.limit:
        return None
    return _QuietRun(trial, values, counts, end_s)


def _order_z(slow: _QuietRun, quick: _QuietRun, variance: float) -> float:
    """Return by how many standard errors the lower load was slower at the same run time.

    `variance` is the variance of one operation's relative response.
    """
    n = min(slow.values.size, quick.values.size)
    low, high = (
        float(np.average(run.values[:n], weights=run.counts[:n]))
        for run in (slow, quick)
    )
    if high <= 0 or low < tuning.ORDER_FALLS * high:
        return 0.0
    per_operation = float(1 / slow.counts[:n].sum() + 1 / quick.counts[:n].sum())
    inside = tuning.ORDER_CORRELATION * variance * per_operation
    error = math.sqrt(inside + 2 * tuning.ORDER_BETWEEN_RUNS**2)
    drifted = tuning.ORDER_DRIFT_PER_S * abs(slow.end_s - quick.end_s)
    return (math.log(low / high) - drifted) / error


def _order_chance(t: float, freedom: int) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


def _order_text(criterion: Criterion, low: LoadTrial, high: LoadTrial) -> str:
    values = [trial.values.get(criterion.key, math.nan) for trial in (low, high)]
    return (
        f"the {criterion_name(criterion)} falls from {criterion_value_text(criterion, values[0])} at "
        f"{low.rate:.5g}/s to {criterion_value_text(criterion, values[1])} at {high.rate:.5g}/s"
    )


# -- does the capacity change with the time since the search began? --------------------------------
#
# A drift of 0.5 % a minute is 5 % in ten minutes: the answer is then outdated at once. Overloaded
# runs show the capacity with an error of 1 %.
# Decision: before a search ends it makes one late overloaded run, and more while a drift is neither
# certain nor excluded. Rejected: runs near the peak, which show five times less about the capacity
# for the same load.


class _CapacitySlope(msgspec.Struct, frozen=True):
    """The slope of the capacity's logarithm over time."""

    per_s: float
    error: float
    last_s: float
    """Time of the latest capacity [s]."""
    rate: float
    """Rate of the latest overloaded run that is long enough [1/s]."""

    @property
    def z(self) -> float:
        """The absolute slope in standard errors."""
        return abs(self.per_s) / self.error


def drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return evidence that the capacity drifts, with its rate of change, or ''."""
    slope, lasts_s = _capacity_slope(goal, history), _elapsed_s(history)
    if slope is None or slope.z < tuning.DRIFT_Z:
        return ""
    change = slope.per_s * lasts_s
    if abs(change) < tuning.DRIFT_LEAST:
        return ""
    return (
        f"the capacity changes by {6000 * slope.per_s:+.2g} % a minute "
        f"(standard error {6000 * slope.error:.2g} %): {100 * change:+.2g} % in the "
        f"{lasts_s:.0f} s of this search"
    )


def check_for_drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return a final run that shows whether the capacity drifts; None where no run is needed."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    slope, lasts_s = _capacity_slope(goal, history), _elapsed_s(history)
    if slope is None:
        return None
    uncertain = tuning.DRIFT_PERHAPS_Z < slope.z < tuning.DRIFT_Z
    look_again = uncertain and lasts_s < tuning.DRIFT_LONGEST_S
    if slope.last_s > tuning.DRIFT_LATE * lasts_s and not look_again:
        return None
    return Probe(slope.rate, run_length_s(goal, tuning.DRIFT_CHECK_S), "overload")


def _elapsed_s(history: Sequence[LoadTrial]) -> float:
    return math.fsum(trial.cost_s for trial in history)


def _capacity_slope(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> _CapacitySlope | None:
    """Return the slope by weighted least squares; None without a capacity."""
    criterion = goal.criteria[0]
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    ends = np.cumsum([trial.cost_s for trial in usable])
    shortest_s = time_scale(limit_s(criterion)) * tuning.DRIFT_SHORTEST_S
    runs = read_runs(criterion, usable).runs
    over = [
        (float(end) - trial.cost_s / 2, run.capacity, trial.rate)
        for end, trial, run in zip(ends, usable, runs, strict=True)
        if run.capacity is not None and trial.lasted_s >= shortest_s
    ]
    if not over:
        return None
    last_s, _, rate = over[-1]
    if len(over) < 2:
        return _CapacitySlope(0.0, math.inf, last_s, rate)
    at = np.array([moment for moment, _, _ in over])
    level = np.log([capacity.rate for _, capacity, _ in over])
    between = tuning.DRIFT_BETWEEN_RUNS
    weight = 1 / np.array([c.relative_sd**2 + between**2 for _, c, _ in over])
    left = at - np.average(at, weights=weight)
    bottom = float(weight @ (left * left))
    per_s = float(weight @ (left * level)) / bottom
    # Deviations from the line are noise too.
    rest = level - np.average(level, weights=weight) - per_s * left
    scale = 1.0 if at.size < 3 else max(1.0, float(weight @ rest**2) / (at.size - 2))
    return _CapacitySlope(per_s, math.sqrt(scale / bottom), last_s, rate)
