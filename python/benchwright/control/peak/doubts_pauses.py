"""Whether the server pauses again and again: bins far above the others, at even distances.

Decision: evenness is asked for. One huge operation stops a single server as a pause does,
and in heavy tails such operations come as often; but they come at any distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchwright.control.peak.curve import FloatArray
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
        return ""
    return (
        f"every {float(gaps_s[even].mean()):.3g} s the response is for a moment "
        f"{_height(criterion, found):.2g} times its usual value "
        f"({int(even.sum())} of {gaps_s.size} gaps are alike)"
    )


def _spikes(criterion: Criterion, trial: LoadTrial) -> FloatArray:
    """Return the first bins of a quiet run's spikes."""
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s) or len(column) < 8:
        return np.empty(0)
    values = np.asarray(column, dtype=float)
    typical = float(np.median(values))
    if criterion.better != "lower" or typical > QUIET * criterion.limit:
        return np.empty(0)
    high = values > SPIKE * typical
    high[0] = False
    if high.mean() > MOST_SPIKES:
        return np.empty(0)
    return np.asarray(np.flatnonzero(high[1:] & ~high[:-1]) + 1.0, dtype=np.float64)


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
