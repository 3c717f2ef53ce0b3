"""Pauses of a server at even distances: garbage collection, checkpoints, throttling.

Purpose: the finding `server-stalls` (diagnostics.py), and the period, for whoever reads a run in whole periods:
a mean over part of a period depends on how many pauses it met by chance.
Decision: the distances must be even. One huge operation stops a single server like a pause, and
with heavy tails such operations are as frequent as pauses, but their distances vary.
Decision: near the peak a queue also has high bins of its own between the pauses, and fewer than
two gaps in three are alike. If the alike ones are long, it counts how improbable so many are where
spikes come at random: a server that pauses each half minute is known after two or three runs of two
minutes, not after five. Not for short ones: under heavy tails a spike lasts for seconds, and the gaps
between are alike without any pause (in 87 searches of 200 on one server).
Decision: else a comb of the most frequent gap is compared with each run: if nearly every tooth meets a
high bin, which is improbable by chance, the server pauses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import NDArray, np
from benchwright.core.search import Criterion, LoadEnding, LoadTrial
from benchwright.decide.peak import tuning
from benchwright.decide.peak.cache import TrialCache
from benchwright.stats.arrays import FloatArray


class Pauses(msgspec.Struct, frozen=True):
    """The pauses that trials show."""

    period_s: float
    """From one pause to the next [s]."""
    evidence: str


_PAUSES: TrialCache[Pauses | None] = TrialCache(64)


def find_pauses(criterion: Criterion, history: Sequence[LoadTrial]) -> Pauses | None:
    """Return the pauses by one criterion; None where there are none at even distances."""
    return _PAUSES.value(history, criterion, lambda: _computed(criterion, history))


def pause_period_s(criterion: Criterion, history: Sequence[LoadTrial]) -> float:
    """Return the time from one pause to the next by one criterion; 0: there are none at even distances [s]."""
    pauses = find_pauses(criterion, history)
    return pauses.period_s if pauses else 0.0


def _computed(criterion: Criterion, history: Sequence[LoadTrial]) -> Pauses | None:
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    spikes = [(_spikes(criterion, trial), trial) for trial in usable]
    gaps_s = np.concatenate(
        [np.diff(at) * t.series.width_s for at, t in spikes if at.size > 1]
        or [np.empty(0)]
    )
    width_s = max((t.series.width_s for at, t in spikes if at.size > 1), default=1.0)
    if gaps_s.size < tuning.PAUSE_FEWEST_GAPS:
        return None
    runs = [high for high in (_high_bins(criterion, t) for t in usable) if high.any()]
    even = _even_gaps(gaps_s / width_s, runs)
    if not even.any():
        return None
    period_s = float(gaps_s[even].mean())
    return Pauses(
        period_s,
        f"every {period_s:.3g} s the response is for a moment "
        f"{_spike_height(criterion, spikes):.2g} times its usual value "
        f"({int(even.sum())} of {gaps_s.size} gaps are alike)",
    )


def _even_gaps(
    gaps: FloatArray, runs: Sequence[NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Return which gaps [bins] are from one pause to the next; none where the server does not pause.

    `runs` are the high bins of each run that has some.
    """
    median = np.median(gaps)
    even = np.abs(gaps - median) <= tuning.PAUSE_SAME
    if median >= tuning.PAUSE_LEAST_BINS and even.mean() >= tuning.PAUSE_EVEN:
        return even
    even = _most_alike(gaps)
    pauses = _more_alike_than_by_chance(gaps, even) or _comb_fits(runs, gaps, even)
    return even if pauses else np.zeros(gaps.size, dtype=bool)


def _most_alike(gaps: FloatArray) -> NDArray[np.bool_]:
    """Return which gaps [bins] are alike, of those that are long enough: as many as possible."""
    long = gaps[gaps >= tuning.PAUSE_LEAST_BINS]
    alike = [np.abs(gaps - gap) <= tuning.PAUSE_SAME for gap in np.unique(long)]
    nothing = np.zeros(gaps.size, dtype=bool)
    return max(alike, key=lambda same: int(same.sum()), default=nothing)


def _more_alike_than_by_chance(gaps: FloatArray, even: NDArray[np.bool_]) -> bool:
    """Return whether more long gaps [bins] are alike than if spikes came at random moments."""
    from scipy.special import bdtrc

    period = float(gaps[even].mean()) if even.any() else 0.0
    if period < tuning.PAUSE_RARE_BINS:
        return False
    # Each spike lasts for some bins, so short gaps are alike anyway. Beyond half a period gaps of random
    # spikes are geometric. Whatever their mean, the share within a bin of the period is at most three bins'
    # of the largest density that there can be there, 1/(e period/2).
    long = int((gaps >= period / 2).sum())
    share = 6 / (math.e * period)
    # Any gap may be the one that the others are compared with.
    chance = long * float(bdtrc(int(even.sum()) - 2, long - 1, share))
    return chance <= tuning.PAUSE_CHANCE


def _comb_fits(
    runs: Sequence[NDArray[np.bool_]], gaps: FloatArray, even: NDArray[np.bool_]
) -> bool:
    """Return whether a comb with about the period of the even gaps [bins] meets the high bins of runs more often
    than by chance."""
    if (gaps >= tuning.PAUSE_LEAST_BINS).sum() < tuning.PAUSE_FEWEST_GAPS:
        return False
    by_length = _by_length(runs)
    periods = float(gaps[even].mean()) + np.arange(*tuning.COMB_PERIODS)
    chances = [_comb_chance(by_length, float(period)) for period in periods]
    return min(chances) * len(periods) < tuning.COMB_CHANCE


class _RunsOfLength(msgspec.Struct, frozen=True):
    """Runs of one length; columns `(n_runs, n_bins)`."""

    wide: NDArray[np.bool_]
    """Whether a bin or one of its neighbours is high."""
    share: FloatArray
    """Share of such bins in each run, if the high bins are independent `(n_runs,)`."""


def _by_length(runs: Sequence[NDArray[np.bool_]]) -> list[_RunsOfLength]:
    """Return the runs, grouped by length."""
    grouped = []
    for size in sorted({high.size for high in runs}):
        high = np.array([run for run in runs if run.size == size])
        wide = high | np.roll(high, 1, axis=1) | np.roll(high, -1, axis=1)
        grouped.append(_RunsOfLength(wide, 1 - (1 - high.mean(axis=1)) ** 3))
    return grouped


def _comb_chance(runs: Sequence[_RunsOfLength], period: float) -> float:
    """Return the probability that as many teeth meet high bins at random distances; 1 where
    too few teeth do."""
    from scipy.special import bdtrc

    met, teeth, expected, number = 0, 0, 0.0, 0
    for each in runs:
        hits, of = _best_phases(each.wide, period)
        met, teeth = met + int(hits.sum()), teeth + int(of.sum())
        expected += float(of @ each.share)
        number += len(each.share)
    if teeth < tuning.COMB_FEWEST_TEETH or met < tuning.COMB_MET * teeth:
        return 1.0
    tail = float(bdtrc(met - 1, teeth, expected / teeth))
    # Each run has its best phase, out of twice as many phases as the period has bins.
    tries = math.log(2 * period) * number
    return math.exp(min(math.log(max(tail, 1e-300)) + tries, 0.0))


def _best_phases(
    wide: NDArray[np.bool_], period: float
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return how many teeth meet a high bin, and the number of teeth, for each run `(n_runs,)`
    at its best phase."""
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
    high = _high_bins(criterion, trial)
    return np.asarray(np.flatnonzero(high[1:] & ~high[:-1]) + 1.0, dtype=np.float64)


def _high_bins(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    """Return which bins of a quiet run are far above the others; empty for any other run."""
    return _HIGH_BINS.value(
        [trial], criterion, lambda: _computed_high_bins(criterion, trial)
    )


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
    if not 0 < typical <= tuning.PAUSE_QUIET * criterion.limit:
        return nothing
    high = np.asarray(values > tuning.PAUSE_SPIKE * typical, dtype=bool)
    high[0] = False
    return high if high.mean() <= tuning.PAUSE_MOST_SPIKES else nothing


def _spike_height(
    criterion: Criterion, spikes: Sequence[tuple[FloatArray, LoadTrial]]
) -> float:
    """Return the ratio of a run's highest spike to its median, as the median over the runs."""
    heights = []
    for at, trial in spikes:
        values = np.asarray(trial.series.values.get(criterion.key, ()), dtype=float)
        if at.size:
            heights.append(values[at.astype(int)].max() / np.median(values))
    return float(np.median(heights))
