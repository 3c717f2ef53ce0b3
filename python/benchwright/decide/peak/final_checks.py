"""Two assumptions that are checked by extra runs before a search ends: more load is slower, and the capacity does not drift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from benchwright.core.search import (
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    Probe,
)
from benchwright.decide.peak.curve import FloatArray
from benchwright.decide.peak.reading import limit_s, read_runs, run_length_s, time_scale
from benchwright.findings.load_text import name_of, value_text

# -- Whether a higher load clearly responds faster than a lower one --------------------
#
# Decision: two runs are compared over the same ages, so that a cold start, which is most of a
# short run and little of a long one, is not taken for order. What an operation's response
# varies by is taken from all runs up to the higher load: a short run knows little of its own noise.

ORDER_CHANCE = 0.005
"""Probability of a pair's difference by chance, at most. Measured on clean servers, the
least of all pairs of a search was 0.03."""
ORDER_PERHAPS = 0.1
"""... below which two loads are compared once more, by longer runs, at a search's end."""
ORDER_CHECK_S = 20.0
"""Of such a run, by the usual clock [s]."""
ORDER_LONG = 0.9
"""Share of it that a run must have had to be one."""
ORDER_FALLS = 1.1
"""By so many times the lower load must respond slower."""
ORDER_APART = 1.15
"""... and the higher load be higher."""
ORDER_LEAST_SHARE = 0.15
"""Of the limit: a quicker response than that matters to nobody, and on an idle machine it is
that of processors which wake slowly (nginx: 0.61 ms at 250/s, 0.45 ms at 525/s)."""
ORDER_FEWEST_BINS = 4
ORDER_FEWEST_FREEDOM = 6
ORDER_BETWEEN_RUNS = 0.015
"""Relative standard deviation between runs that is no evidence."""
ORDER_DRIFT_PER_S = 0.014 / 60
"""What a response may change by with time, which is no order [1/s]."""
ORDER_CORRELATION = 2.0
"""Of neighbouring bins: by so much a run's mean varies more than they say."""
ORDER_QUIET = 0.75
"""Responses up to which a run is compared, as shares of the limit."""


class _QuietRun(msgspec.Struct, frozen=True):
    """A run's bins, without the empty server's first; columns `(n_bins,)`."""

    trial: LoadTrial
    values: FloatArray
    counts: FloatArray
    end_s: float
    """Since the search began [s]."""

    @property
    def squares(self) -> float:
        """Return the sum of squares of one operation's relative response."""
        left = self.values / np.average(self.values, weights=self.counts) - 1
        return float(self.counts @ (left * left))


class _OrderPair(msgspec.Struct, frozen=True):
    """A lower load that was slower than a higher one."""

    chance: float
    """Probability of such a difference if it were not."""
    slow: LoadTrial
    quick: LoadTrial


def not_monotonic(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how a higher load responds faster than a lower one; else ''."""
    found = min(_order_pairs(goal, history), key=lambda pair: pair.chance, default=None)
    if found is None or found.chance >= ORDER_CHANCE:
        return ""
    return _order_text(goal.criteria[0], found.slow, found.quick)


def check_for_order(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return the run that a search should end with to know whether a lower load is slower;
    None: enough is known."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    found = min(_order_pairs(goal, history), key=lambda pair: pair.chance, default=None)
    if found is None or not ORDER_CHANCE <= found.chance < ORDER_PERHAPS:
        return None
    lasts_s = run_length_s(goal, ORDER_CHECK_S)
    for asked in (found.slow, found.quick):
        here = [trial.lasted_s for trial in history if trial.rate == asked.rate]
        if max(here) < ORDER_LONG * lasts_s:
            return Probe(asked.rate, lasts_s, "compare")
    return None


def _order_pairs(goal: PeakGoal, history: Sequence[LoadTrial]) -> Iterator[_OrderPair]:
    """Yield every lower load that responded slower than a higher one, with its chance."""
    ends_s = np.cumsum([trial.cost_s for trial in history])
    found = [
        _quiet_run(goal.criteria[0], trial, float(end_s))
        for trial, end_s in zip(history, ends_s, strict=True)
    ]
    runs = sorted((r for r in found if r is not None), key=lambda r: r.trial.rate)
    total, freedom = 0.0, 0
    for i, quick in enumerate(runs):
        # Above it responses vary more: they tell nothing of the noise here.
        total += quick.squares
        freedom += quick.values.size - 1
        varies = total / max(freedom, 1)
        for slow in runs[:i] if freedom >= ORDER_FEWEST_FREEDOM else ():
            matters = slow.values.mean() >= ORDER_LEAST_SHARE * goal.criteria[0].limit
            if matters and quick.trial.rate > ORDER_APART * slow.trial.rate:
                t = _order_z(slow, quick, varies)
                if t > 0:
                    yield _OrderPair(_order_chance(t, freedom), slow.trial, quick.trial)


def _quiet_run(
    criterion: Criterion, trial: LoadTrial, end_s: float
) -> _QuietRun | None:
    column = trial.series.values.get(criterion.key, ())
    if (
        len(column) != len(trial.series.at_s)
        or criterion.better != "lower"
        or trial.ending is LoadEnding.FAILED
    ):
        return None
    counts = np.asarray(trial.series.counts, dtype=float)[1:]
    values = np.asarray(column, dtype=np.float64)[1:]
    known = (counts > 0) & np.isfinite(values)
    values, counts = values[known], counts[known]
    if values.size < ORDER_FEWEST_BINS or values.mean() > ORDER_QUIET * criterion.limit:
        return None
    return _QuietRun(trial, values, counts, end_s)


def _order_z(slow: _QuietRun, quick: _QuietRun, varies: float) -> float:
    """Return by how many standard errors the lower load was slower at the same ages."""
    n = min(slow.values.size, quick.values.size)
    low, high = (
        float(np.average(run.values[:n], weights=run.counts[:n]))
        for run in (slow, quick)
    )
    if high <= 0 or low < ORDER_FALLS * high:
        return 0.0
    operations = 1 / slow.counts[:n].sum() + 1 / quick.counts[:n].sum()
    error = math.sqrt(
        ORDER_CORRELATION * varies * float(operations) + 2 * ORDER_BETWEEN_RUNS**2
    )
    drifted = ORDER_DRIFT_PER_S * abs(slow.end_s - quick.end_s)
    return (math.log(low / high) - drifted) / error


def _order_chance(t: float, freedom: int) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


def _order_text(criterion: Criterion, low: LoadTrial, high: LoadTrial) -> str:
    values = [trial.values.get(criterion.key, math.nan) for trial in (low, high)]
    return (
        f"the {name_of(criterion)} falls from {value_text(criterion, values[0])} at "
        f"{low.rate:.5g}/s to {value_text(criterion, values[1])} at {high.rate:.5g}/s"
    )


# -- Whether the server's capacity changes with the time since the search began --------
#
# Purpose: a drift of half a per cent a minute is five in ten minutes: the answer is then that of
# no moment. Overloaded runs tell the capacity to one per cent, early and late.
# Decision: a search that would end is asked for one late overloaded run, and for more while a
# drift is neither clear nor out of the question. Runs near the peak lost: each tells five
# times less of the capacity for the same load.

DRIFT_BETWEEN_RUNS = 0.011
"""Relative standard deviation of the capacity between runs that is no drift."""
DRIFT_SHORTEST_S = 45.0
"""Of an overloaded run that counts, by the usual clock: where operations share a processor,
a shorter one tells another capacity [s]."""
DRIFT_Z = 3.0
DRIFT_PERHAPS_Z = 0.8
"""Standard errors above which a drift is looked for further."""
DRIFT_LEAST = 0.02
"""A change of the capacity over the whole search that is worth telling."""
DRIFT_LATE = 0.75
"""From this share of the search's time on an overloaded run is a late one."""
DRIFT_LONGEST_S = 1000.0
"""Of a search up to which a drift that is not clear is looked for again [s]."""
DRIFT_CHECK_S = 60.0
"""Of the run that is asked for, by the usual clock [s]."""


class _CapacitySlope(msgspec.Struct, frozen=True):
    """The logarithm of the capacity against time."""

    per_s: float
    error: float
    last_s: float
    """When the latest capacity was told [s]."""
    rate: float
    """Of the latest overloaded run that is long enough [1/s]."""

    @property
    def sureness(self) -> float:
        """By how many standard errors the capacity changes."""
        return abs(self.per_s) / self.error


def drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how fast the capacity changes; '' if it does not clearly."""
    slope, lasts_s = _capacity_slope(goal, history), _elapsed_s(history)
    if slope is None or slope.sureness < DRIFT_Z:
        return ""
    change = slope.per_s * lasts_s
    if abs(change) < DRIFT_LEAST:
        return ""
    return (
        f"the capacity changes by {6000 * slope.per_s:+.2g} % a minute "
        f"(standard error {6000 * slope.error:.2g} %): {100 * change:+.2g} % in the "
        f"{lasts_s:.0f} s of this search"
    )


def check_for_drift(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return the run that a search should end with to know of a drift; None: enough."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    slope, lasts_s = _capacity_slope(goal, history), _elapsed_s(history)
    if slope is None:
        return None
    perhaps = DRIFT_PERHAPS_Z < slope.sureness < DRIFT_Z and lasts_s < DRIFT_LONGEST_S
    if slope.last_s > DRIFT_LATE * lasts_s and not perhaps:
        return None
    return Probe(slope.rate, run_length_s(goal, DRIFT_CHECK_S), "overload")


def _elapsed_s(history: Sequence[LoadTrial]) -> float:
    return math.fsum(trial.cost_s for trial in history)


def _capacity_slope(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> _CapacitySlope | None:
    """Return the weighted least-squares line; None with less than two capacities."""
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    ends = np.cumsum([trial.cost_s for trial in usable])
    shortest_s = time_scale(limit_s(goal.criteria[0])) * DRIFT_SHORTEST_S
    told = [
        (float(end) - trial.cost_s / 2, run.capacity, trial.rate)
        for end, trial, run in zip(
            ends, usable, read_runs(goal.criteria[0], usable).runs, strict=True
        )
        if run.capacity is not None and trial.lasted_s >= shortest_s
    ]
    if len(told) < 1:
        return None
    at = np.array([moment for moment, _, _ in told])
    level = np.log([capacity.rate for _, capacity, _ in told])
    variance = np.array([c.relative_sd**2 + DRIFT_BETWEEN_RUNS**2 for _, c, _ in told])
    if at.size < 2:
        return _CapacitySlope(0.0, math.inf, float(at[-1]), told[-1][2])
    weight = 1 / variance
    left = at - np.average(at, weights=weight)
    bottom = float(weight @ (left * left))
    per_s = float(weight @ (left * level)) / bottom
    # What lines do not explain is noise too.
    rest = level - np.average(level, weights=weight) - per_s * left
    scale = 1.0 if at.size < 3 else max(1.0, float(weight @ rest**2) / (at.size - 2))
    return _CapacitySlope(per_s, math.sqrt(scale / bottom), float(at[-1]), told[-1][2])
