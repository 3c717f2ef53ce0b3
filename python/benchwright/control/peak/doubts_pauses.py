"""Whether the server pauses again and again: bins far above the others, at even distances.

Decision: evenness is asked for. One huge operation stops a single server as a pause does,
and in heavy tails such operations come as often; but they come at any distance.
Decision: near the peak a queue has high moments of its own between the pauses, and hardly two
gaps in three are alike. So a comb of the commonest gap is laid over each run as well: where
nearly every tooth meets a high bin, which chance does not do, it pauses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.remembered import Remembered
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, PeakGoal

SPIKE = 2.2
"""A bin so many times its run's median is one."""
QUIET = 0.8
"""Runs whose median is below this share of the limit are looked at."""
FEWEST_GAPS = 6
EVEN = 0.85
"""Share of the gaps that must be the same, to a bin."""
LEAST_BINS = 5.0
"""Of a gap: shorter ones would be even by chance."""
MOST_SPIKES = 0.4
"""Share of a run's bins: more is no exception."""


FEWEST_TEETH = 16
"""Of the combs over all runs."""
MET = 0.85
"""Share of the teeth that must meet a high bin."""
PERIODS = np.arange(-0.5, 0.51, 0.1)
"""Around the mean of the commonest gap, that are tried [bins]."""
CHANCE = 1e-5
"""Probability of as many by chance, at most."""


def stalls(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how often and for how long the server pauses; '' if it does not."""
    criterion = goal.criteria[0]
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    found = [(_spikes(criterion, trial), trial) for trial in usable]
    gaps_s = np.concatenate(
        [np.diff(at) * t.series.width_s for at, t in found if at.size > 1]
        or [np.empty(0)]
    )
    width_s = max((t.series.width_s for at, t in found if at.size > 1), default=1.0)
    if gaps_s.size < FEWEST_GAPS:
        return ""
    period_s = float(np.median(gaps_s))
    even = np.abs(gaps_s - period_s) <= 1.01 * width_s
    if period_s < LEAST_BINS * width_s or even.mean() < EVEN:
        even = _comb(criterion, usable, gaps_s / width_s)
    if not even.any():
        return ""
    return (
        f"every {float(gaps_s[even].mean()):.3g} s the response is for a moment "
        f"{_height(criterion, found):.2g} times its usual value "
        f"({int(even.sum())} of {gaps_s.size} gaps are alike)"
    )


def _comb(
    criterion: Criterion, usable: Sequence[LoadTrial], gaps: FloatArray
) -> NDArray[np.bool_]:
    """Return which gaps [bins] are those of pauses; none where no comb fits."""
    long = gaps[gaps >= LEAST_BINS]
    nothing = np.zeros(gaps.size, dtype=bool)
    if long.size < FEWEST_GAPS:
        return nothing
    alike = [np.abs(gaps - gap) <= 1.01 for gap in np.unique(long)]
    even = max(alike, key=lambda one: int(one.sum()))
    runs = [high for high in (_high(criterion, t) for t in usable) if high.any()]
    alike_runs = _by_length(runs)
    periods = float(gaps[even].mean()) + PERIODS
    chances = [_by_chance(alike_runs, float(period)) for period in periods]
    return even if min(chances) * len(periods) < CHANCE else nothing


class _Runs(msgspec.Struct, frozen=True):
    """Runs of one length; columns `(n_runs, n_bins)`."""

    wide: NDArray[np.bool_]
    """Whether a bin or one beside it is high."""
    share: FloatArray
    """Of the bins that are, by chance `(n_runs,)`."""


def _by_length(runs: Sequence[NDArray[np.bool_]]) -> list[_Runs]:
    """Return the runs, those of one length together."""
    found = []
    for size in sorted({high.size for high in runs}):
        high = np.array([one for one in runs if one.size == size])
        wide = high | np.roll(high, 1, axis=1) | np.roll(high, -1, axis=1)
        found.append(_Runs(wide, 1 - (1 - high.mean(axis=1)) ** 3))
    return found


def _by_chance(runs: Sequence[_Runs], period: float) -> float:
    """Return how likely high bins at any distance meet as many teeth as these do; 1 where
    too few are met."""
    from scipy.special import bdtrc

    met, teeth, expected, number = 0, 0, 0.0, 0
    for each in runs:
        hits, of = _best_phases(each.wide, period)
        met, teeth = met + int(hits.sum()), teeth + int(of.sum())
        expected += float(of @ each.share)
        number += len(each.share)
    if teeth < FEWEST_TEETH or met < MET * teeth:
        return 1.0
    tail = float(bdtrc(met - 1, teeth, expected / teeth))
    # Each run has the best of twice as many phases as its period has bins.
    tries = math.log(2 * period) * number
    return math.exp(min(math.log(max(tail, 1e-300)) + tries, 0.0))


def _best_phases(
    wide: NDArray[np.bool_], period: float
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return how many teeth of a comb meet a high bin, and of how many, at the phase where
    most do, for each run `(n_runs,)`."""
    size = wide.shape[1]
    hits, teeth = [], []
    for phase in np.arange(1.0, 1.0 + period, 0.5):
        at = np.rint(np.arange(phase, size - 1, period)).astype(int)
        at = at[at < size]
        hits.append(wide[:, at].sum(axis=1))
        teeth.append(at.size)
    counts, of = np.array(hits), np.array(teeth)
    best = np.argmax(counts / np.maximum(of, 1)[:, None], axis=0)
    return counts[best, np.arange(wide.shape[0])], of[best]


def _spikes(criterion: Criterion, trial: LoadTrial) -> FloatArray:
    """Return the first bins of a quiet run's spikes."""
    high = _high(criterion, trial)
    return np.asarray(np.flatnonzero(high[1:] & ~high[:-1]) + 1.0, dtype=np.float64)


def _high(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    """Return which bins of a quiet run are far above the others; nothing of another run."""
    return _HIGHS.value([trial], criterion, lambda: _high_of(criterion, trial))


_HIGHS: Remembered[NDArray[np.bool_]] = Remembered(1024)


def _high_of(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s) or len(column) < 8:
        return np.zeros(0, dtype=bool)
    values = np.asarray(column, dtype=float)
    typical = float(np.median(values))
    if criterion.better != "lower" or typical > QUIET * criterion.limit:
        return np.zeros(0, dtype=bool)
    high = np.asarray(values > SPIKE * typical, dtype=bool)
    high[0] = False
    return high if high.mean() <= MOST_SPIKES else np.zeros(0, dtype=bool)


def _height(
    criterion: Criterion, found: Sequence[tuple[FloatArray, LoadTrial]]
) -> float:
    """Return how many times the usual value the spikes are, at most."""
    heights = []
    for at, trial in found:
        values = np.asarray(trial.series.values.get(criterion.key, ()), dtype=float)
        if at.size:
            heights.append(values[at.astype(int)].max() / np.median(values))
    return float(np.median(heights))
