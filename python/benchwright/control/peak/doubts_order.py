"""Whether a higher load clearly responds faster than a lower one.

Decision: two runs are compared over the same ages, so that a cold start, which is most of a
short run and little of a long one, is not taken for order. What an operation's response
varies by is taken from all runs up to the higher load: a short run knows little of its own noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from benchwright.control.peak.clock import run_length_s
from benchwright.control.peak.curve import FloatArray
from benchwright.finding.load_words import name_of, value_text
from benchwright.model.peak import (
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    Probe,
)

CHANCE = 0.005
"""Probability of a pair's difference by chance, at most. Measured on clean servers, the
least of all pairs of a search was 0.03."""
PERHAPS = 0.1
"""... below which two loads are compared once more, by longer runs, at a search's end."""
CHECK_S = 20.0
"""Of such a run, by the usual clock [s]."""
LONG = 0.9
"""Share of it that a run must have had to be one."""
FALLS = 1.1
"""By so many times the lower load must respond slower."""
APART = 1.15
"""... and the higher load be higher."""
LEAST_SHARE = 0.15
"""Of the limit: a quicker response than that matters to nobody, and on an idle machine it is
that of processors which wake slowly (nginx: 0.61 ms at 250/s, 0.45 ms at 525/s)."""
FEWEST_BINS = 4
FEWEST_FREEDOM = 6
NOISE = 0.015
"""Relative standard deviation between runs that is no evidence."""
DRIFT_PER_S = 0.014 / 60
"""What a response may change by with time, which is no order [1/s]."""
CORRELATION = 2.0
"""Of neighbouring bins: by so much a run's mean varies more than they say."""
QUIET = 0.75
"""Responses up to which a run is compared, as shares of the limit."""


class _Quiet(msgspec.Struct, frozen=True):
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


class _Pair(msgspec.Struct, frozen=True):
    """A lower load that was slower than a higher one."""

    chance: float
    """Probability of such a difference if it were not."""
    slow: LoadTrial
    quick: LoadTrial


def not_monotonic(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how a higher load responds faster than a lower one; else ''."""
    found = min(_pairs(goal, history), key=lambda pair: pair.chance, default=None)
    if found is None or found.chance >= CHANCE:
        return ""
    return _text(goal.criteria[0], found.slow, found.quick)


def check_for_order(goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | None:
    """Return the run that a search should end with to know whether a lower load is slower;
    None: enough is known."""
    if goal.claim.kind is not ClaimKind.REGION or goal.budget_s is not None:
        return None
    found = min(_pairs(goal, history), key=lambda pair: pair.chance, default=None)
    if found is None or not CHANCE <= found.chance < PERHAPS:
        return None
    lasts_s = run_length_s(goal, CHECK_S)
    for asked in (found.slow, found.quick):
        here = [trial.lasted_s for trial in history if trial.rate == asked.rate]
        if max(here) < LONG * lasts_s:
            return Probe(asked.rate, lasts_s, "compare")
    return None


def _pairs(goal: PeakGoal, history: Sequence[LoadTrial]) -> Iterator[_Pair]:
    """Yield every lower load that responded slower than a higher one, with its chance."""
    ends_s = np.cumsum([trial.cost_s for trial in history])
    found = [
        _quiet(goal.criteria[0], trial, float(end_s))
        for trial, end_s in zip(history, ends_s, strict=True)
    ]
    runs = sorted((r for r in found if r is not None), key=lambda r: r.trial.rate)
    total, freedom = 0.0, 0
    for i, quick in enumerate(runs):
        # Above it responses vary more: they tell nothing of the noise here.
        total += quick.squares
        freedom += quick.values.size - 1
        varies = total / max(freedom, 1)
        for slow in runs[:i] if freedom >= FEWEST_FREEDOM else ():
            matters = slow.values.mean() >= LEAST_SHARE * goal.criteria[0].limit
            if matters and quick.trial.rate > APART * slow.trial.rate:
                t = _sureness(slow, quick, varies)
                if t > 0:
                    yield _Pair(_chance(t, freedom), slow.trial, quick.trial)


def _quiet(criterion: Criterion, trial: LoadTrial, end_s: float) -> _Quiet | None:
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
    if values.size < FEWEST_BINS or values.mean() > QUIET * criterion.limit:
        return None
    return _Quiet(trial, values, counts, end_s)


def _sureness(slow: _Quiet, quick: _Quiet, varies: float) -> float:
    """Return by how many standard errors the lower load was slower at the same ages."""
    n = min(slow.values.size, quick.values.size)
    low, high = (
        float(np.average(run.values[:n], weights=run.counts[:n]))
        for run in (slow, quick)
    )
    if high <= 0 or low < FALLS * high:
        return 0.0
    operations = 1 / slow.counts[:n].sum() + 1 / quick.counts[:n].sum()
    error = math.sqrt(CORRELATION * varies * float(operations) + 2 * NOISE**2)
    drifted = DRIFT_PER_S * abs(slow.end_s - quick.end_s)
    return (math.log(low / high) - drifted) / error


def _chance(t: float, freedom: int) -> float:
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


def _text(criterion: Criterion, low: LoadTrial, high: LoadTrial) -> str:
    values = [trial.values.get(criterion.key, math.nan) for trial in (low, high)]
    return (
        f"the {name_of(criterion)} falls from {value_text(criterion, values[0])} at "
        f"{low.rate:.5g}/s to {value_text(criterion, values[1])} at {high.rate:.5g}/s"
    )
