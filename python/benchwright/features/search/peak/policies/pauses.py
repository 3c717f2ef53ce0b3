"""Pauses of a server at even distances: garbage collection, checkpoints, throttling.

Purpose: the finding `server-stalls` (diagnostics.py), and the period, for whoever reads a run in
whole periods: a mean over part of a period depends on how many pauses it met by chance. Decision:
the distances must be even. One huge operation stops a single server like a pause, and with heavy
tails such operations are as frequent as pauses, but their distances vary. Rejected: a count of
alike gaps against chance, and a comb laid over each run. They saw pauses near the peak, between the
high moments of the queue itself, but saved no load on any server but one that pauses twice a
minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import NDArray, np
from benchwright.core.results import Figure, FindingFigures, states
from benchwright.features.load.plan import LoadEnding, LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import TrialCache
from benchwright.stats.arrays import FloatArray


class Pauses(msgspec.Struct, frozen=True):
    """The pauses that trials show."""

    period_s: float
    """From one pause to the next [s]."""
    figures: FindingFigures
    """Of the finding `server-stalls`."""


_PAUSES: TrialCache[Pauses | None] = TrialCache(64)


def find_pauses(criterion: Criterion, history: Sequence[LoadTrial]) -> Pauses | None:
    """Return the pauses by one criterion; None where there are none at even distances."""
    return _PAUSES.value(history, criterion, lambda: _computed(criterion, history))


def pause_period_s(criterion: Criterion, history: Sequence[LoadTrial]) -> float:
    """Return the time from one pause to the next by one criterion; 0: there are none at even
    distances [s]."""
    pauses = find_pauses(criterion, history)
    return pauses.period_s if pauses else 0.0


def _computed(criterion: Criterion, history: Sequence[LoadTrial]) -> Pauses | None:
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    spikes = [(_spikes(criterion, trial), trial) for trial in usable]
    gaps_s = np.concatenate(
        [np.diff(at) * t.series.width_s for at, t in spikes if at.size > 1] or [np.empty(0)]
    )
    width_s = max((t.series.width_s for at, t in spikes if at.size > 1), default=1.0)
    if gaps_s.size < tuning.PAUSE_FEWEST_GAPS:
        return None
    even = _even_gaps(gaps_s / width_s)
    if not even.any():
        return None
    period_s = float(gaps_s[even].mean())
    return Pauses(
        period_s,
        states(
            period=Figure(period_s, "s"),
            height=_spike_height(criterion, spikes),
            alike=int(even.sum()),
            gaps=gaps_s.size,
        ),
    )


def _even_gaps(gaps: FloatArray) -> NDArray[np.bool_]:
    """Return which gaps [bins] are from one pause to the next; none where the server does not
    pause."""
    median = np.median(gaps)
    even = np.abs(gaps - median) <= tuning.PAUSE_SAME
    if median >= tuning.PAUSE_LEAST_BINS and even.mean() >= tuning.PAUSE_EVEN:
        return even
    return np.zeros(gaps.size, dtype=bool)


def _spikes(criterion: Criterion, trial: LoadTrial) -> FloatArray:
    """Return the first bins of a quiet run's spikes."""
    high = _high_bins(criterion, trial)
    return np.asarray(np.flatnonzero(high[1:] & ~high[:-1]) + 1.0, dtype=np.float64)


def _high_bins(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    """Return which bins of a quiet run are far above the others; empty for any other run."""
    return _HIGH_BINS.value([trial], criterion, lambda: _computed_high_bins(criterion, trial))


_HIGH_BINS: TrialCache[NDArray[np.bool_]] = TrialCache(1024)


def _computed_high_bins(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    column = trial.series.values.get(criterion.key, ())
    nothing = np.zeros(0, dtype=bool)
    if len(column) != len(trial.series.at_s):
        return nothing
    if len(column) < tuning.PAUSE_FEWEST_BINS or criterion.better != "lower":
        return nothing
    values = np.asarray(column, dtype=float)
    typical = float(np.median(values))
    if not 0 < typical <= tuning.QUIET_LIMITS * criterion.limit:
        return nothing
    high = np.asarray(values > tuning.PAUSE_SPIKE * typical, dtype=bool)
    high[0] = False
    return high if high.mean() <= tuning.PAUSE_MOST_SPIKES else nothing


def _spike_height(criterion: Criterion, spikes: Sequence[tuple[FloatArray, LoadTrial]]) -> float:
    """Return the ratio of a run's highest spike to its median, as the median over the runs."""
    heights = []
    for at, trial in spikes:
        values = np.asarray(trial.series.values.get(criterion.key, ()), dtype=float)
        if at.size:
            heights.append(values[at.astype(int)].max() / np.median(values))
    return float(np.median(heights))
