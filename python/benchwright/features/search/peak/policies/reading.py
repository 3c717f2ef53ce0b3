"""What the trials show of one criterion: a steady response with its noise, overload, and pauses of
the server at even distances: garbage collection, checkpoints, throttling.

Responses are shares of the limit: 1 at the limit, more is worse.

Purpose of the pauses: the finding `server-stalls` (diagnostics.py), and the period, for whoever
reads a run in whole periods: a mean over part of a period depends on how many pauses it met by
chance. Decision: the distances must be even. One huge operation stops a single server like a pause,
and with heavy tails such operations are as frequent as pauses, but their distances vary. Rejected:
a count of alike gaps against chance, and a comb laid over each run. They saw pauses near the peak,
between the high moments of the queue itself, but saved no load on any server but one that pauses
twice a minute.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.numeric import NDArray, np
from benchwright.core.results import Figure, FindingFigures, states
from benchwright.core.text import percent_text
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import TrialCache
from benchwright.features.search.peak.policies.policy import limit_s, share_of_limit, time_scale
from benchwright.features.search.types import PeakGoal
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


FEWEST_BINS = 4
"""With fewer bins only a run's totals are used."""


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
    values: FloatArray, counts: FloatArray, width_s: float, period_s: float = 0.0
) -> RunNoise:
    """Return the noise of a run's bins `(n_bins,)`.

    Where a server
    pauses each `period_s`, batches are whole periods: of shorter ones some have a pause and some
    none, and on a server that pauses each 30 s their noise was 40 times the run's.
    """
    if period_s > 0:
        return _noise_of_periods(values, counts, width_s, period_s)
    size = max(values.size // tuning.MOST_BATCHES, 1)
    batches = values.size // size
    if batches < tuning.FEWEST_BATCHES:
        return UNKNOWN_NOISE
    variance = _batch_variance_s(values, counts, size) * width_s
    lugsail = variance
    if size >= 2:
        half = _batch_variance_s(values, counts, size // 2) * width_s
        lugsail = 2 * variance - half
    return RunNoise(max(lugsail, variance, 1e-12), (batches - 1) * tuning.BATCH_TRUST)


def _noise_of_periods(
    values: FloatArray, counts: FloatArray, width_s: float, period_s: float
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
    left = means / overall
    variance = float(lasts_s @ (left - left.mean()) ** 2) / (batches - 1)
    return RunNoise(max(variance, 1e-12), (batches - 1) * tuning.BATCH_TRUST)


def _batch_variance_s(values: FloatArray, counts: FloatArray, size: int) -> float:
    """Return the variance of batches of `size` bins, relative to the run's mean, times their length
    in bins."""
    n = values.size // size * size
    weights = counts[-n:].reshape(-1, size)
    total = np.maximum(weights.sum(axis=1), 1e-9)
    means = (values[-n:].reshape(-1, size) * weights).sum(axis=1) / total
    overall = float(np.average(means, weights=total))
    if overall <= 0:
        return 0.0
    return float((means / overall).var(ddof=1)) * size


# -- one trial -------------------------------------------------------------------------


class RunEstimate(msgspec.Struct, frozen=True):
    """What one trial shows of one criterion."""

    rate: float
    """Realised rate in the part that counts [1/s]."""
    lasts_s: float
    """Length of that part [s]."""
    value: float
    """Mean response as a share of the limit; NaN where it is not steady."""
    noise: RunNoise = UNKNOWN_NOISE

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
    always = values[quarter:].min() > tuning.UNSTEADY_LIMITS
    at_the_end = values[values.size // 2 :].min() > tuning.UNSTEADY_LIMITS
    return bool(at_the_end and (always or last > tuning.OVERLOAD_GROWTH * middle))


def _read_run(
    trial: LoadTrial, criterion: Criterion, period_s: float, left_out: float
) -> RunEstimate:
    bins = _bins_of(trial.series, criterion)
    total = float(share_of_limit(criterion, trial.values.get(criterion.key, math.nan)))
    if bins.values.size < FEWEST_BINS:
        steady = math.isfinite(total) and total <= tuning.UNSTEADY_LIMITS
        value = max(total, tuning.LEAST_SHARE_OF_LIMIT) if steady else math.nan
        return RunEstimate(trial.offered_rate, trial.lasted_s, value)
    never = criterion.statistic == "percentile" and math.isinf(total)
    if never or _never_empties(bins.values):
        return RunEstimate(trial.offered_rate, trial.lasted_s, math.nan)
    skip = _first_counted(bins, trial, left_out)
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
    if mean > (tuning.FAR_LIMITS if brief else tuning.UNSTEADY_LIMITS):
        return RunEstimate(rate, lasts_s, math.nan)
    if mean < tuning.LEAST_SHARE_OF_LIMIT:
        return RunEstimate(rate, lasts_s, tuning.LEAST_SHARE_OF_LIMIT)
    whole_s = period_s if periods else 0.0
    noise = run_noise(values, counts, bins.width_s, whole_s)
    if criterion.statistic == "percentile":
        wider = tuning.OWN_NOISE_OF_PERCENTILES * noise.relative_s
        noise = RunNoise(wider, noise.freedom)
    return RunEstimate(rate, lasts_s, mean, noise)


def _first_counted(bins: _Bins, trial: LoadTrial, left_out: float) -> int:
    """Return the index of the first bin after the part that is left out, which is at most half of
    the run."""
    left_out_s = max(tuning.WARM_UP_LEAST_S, left_out * trial.lasted_s)
    warm = int(np.searchsorted(bins.at_s, left_out_s - 1e-9))
    return min(warm, bins.values.size // 2)


# -- all trials ------------------------------------------------------------------------


_RUNS: TrialCache[RunEstimate] = TrialCache(4096)
"""A search has at most 200 trials, read by several criteria."""


def read_runs(
    criterion: Criterion,
    history: Sequence[LoadTrial],
    period_s: float = 0.0,
    left_out: float = tuning.WARM_UP_SHARE,
) -> list[RunEstimate]:
    """Return what the trials show. Where the server pauses each `period_s`, of each run whole
    periods are read; 0: it does not. `left_out` is the share of each run that is left out at its
    begin, at least."""
    return [
        _RUNS.value(
            [trial],
            (criterion, period_s, left_out),
            functools.partial(_read_run, trial, criterion, period_s, left_out),
        )
        for trial in history
    ]


# -- runs that are too short for this server -------------------------------------------
#
# A server that pauses every half minute shows no pause in most runs of five seconds, and too much
# of one in a run of twenty. So a higher rate seems to be far below the limit and a lower one far
# above it, and each of them alone decides on which side the peak is. A server that is slow at the
# start of each run seems to fail at rates that it holds later. Decision: such runs are not
# believed. Those that contradict each other are left out, or those that a cold start may have made
# fail, and the next ones are longer, until nothing contradicts any more. Where the longer of two
# contradictory runs is as long as the next ones would be, only the shorter is in doubt. Rejected: a
# vote of the runs, because short runs without a pause are the majority; a fitted curve of the
# warm-up, left out of every run: it had 12 constants, did not see the backlog that a cold start
# leaves, and left a tenth of a long one in.


class LongRuns(msgspec.Struct, frozen=True):
    """The trials that are long enough to show a server's response."""

    trials: tuple[LoadTrial, ...]
    too_short_s: float = 0.0
    """Runs up to this length contradict each other, or are cold; 0: none do [s]."""
    evidence: str = ""
    """Why runs contradict each other."""
    cold: str = ""
    """Why runs are cold at their begin."""
    cold_s: float = 0.0
    """Length of the longest of these; 0: none is cold [s]."""
    stays_cold: bool = False
    """Whether the longest runs that are possible are cold too."""
    left_out: float = tuning.WARM_UP_SHARE
    """Share of each run that is left out at its begin, at least."""
    longest_s: float = math.inf
    """Length of the longest run that is possible [s]."""

    @property
    def least_s(self) -> float:
        """The least length of the next runs; 0: any [s]."""
        return min(tuning.CONTRARY_LONGER * self.too_short_s, self.longest_s)


_LONG_RUNS: TrialCache[LongRuns] = TrialCache(64)


def long_runs(goal: PeakGoal, history: Sequence[LoadTrial]) -> LongRuns:
    """Return the trials without those that are too short, by the goal's first criterion.

    All of them where that is no response, or where the user set the length of the runs.
    """
    criterion = goal.criteria[0]
    timed = criterion.statistic in ("mean", "percentile") and criterion.limit > 0
    if goal.run_length_s is not None or not timed or criterion.better != "lower":
        return LongRuns(tuple(history))
    longest_s = longest_run_s(goal)
    return _LONG_RUNS.value(
        history,
        (criterion, longest_s),
        lambda: _without_cold(
            criterion, _without_contrary(criterion, history, longest_s), longest_s
        ),
    )


def longest_run_s(goal: PeakGoal) -> float:
    """Return the longest run that a search may make [s]."""
    if goal.budget_s is None:
        return tuning.MONOTONE_RUNS_S[1]
    return min(
        tuning.MONOTONE_RUNS_S[1], tuning.CONTRARY_LONGER * tuning.BUDGET_RUN_SHARE * goal.budget_s
    )


def _without_contrary(
    criterion: Criterion, history: Sequence[LoadTrial], longest_s: float
) -> LongRuns:
    # By the totals, because this is asked each second of a running probe.
    usable = []
    for trial in history:
        total = trial.values.get(criterion.key, math.nan) / criterion.limit
        if trial.ending is not LoadEnding.FAILED and not math.isnan(total):
            steady = total <= tuning.UNSTEADY_LIMITS
            usable.append((trial, total if steady else math.inf))
    high = [(t, value) for t, value in usable if value > tuning.PARABOLA_NEAR[1]]
    low = [(t, value) for t, value in usable if value < tuning.PARABOLA_NEAR[0]]
    near = 1 - tuning.SAME_RATE
    most_s = longest_s / tuning.CONTRARY_LONGER
    pairs = []
    for (slow, above), (quick, below) in itertools.product(high, low):
        doubted_s = _doubted_s(slow.lasted_s, quick.lasted_s)
        if quick.offered_rate >= near * slow.offered_rate and doubted_s <= most_s:
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
    trials = [
        t
        for t in history
        if t.lasted_s > too_short_s or id(t) in sure or t.ending is LoadEnding.FAILED
    ]
    return LongRuns(tuple(trials), too_short_s, evidence)


def is_as_long(one_s: float, other_s: float) -> bool:
    """Return whether a run is as long as another length; a generator may end it a little early [s]."""
    return one_s >= 0.9 * other_s


def _doubted_s(one_s: float, other_s: float) -> float:
    """Return up to which length runs are in doubt if two of these lengths contradict each other
    [s]."""
    shorter_s, longer_s = sorted((one_s, other_s))
    return shorter_s if is_much_longer(longer_s, shorter_s) else longer_s


def is_much_longer(one_s: float, other_s: float) -> bool:
    """Return whether a run is so much longer than another that it is believed where both contradict
    each other; a generator may end it a little early [s]."""
    return one_s >= (tuning.CONTRARY_LONGER - 0.5) * other_s


def _without_cold(criterion: Criterion, seen: LongRuns, longest_s: float) -> LongRuns:
    """Return the runs without those that a cold start may have made fail, where the longest runs
    are cold."""
    left, short_s, left_out = list(seen.trials), seen.too_short_s, seen.left_out
    cold, cold_s, stays = "", 0.0, False
    while found := _still_cold(criterion, _longer(left, short_s), left_out):
        cold, tested_s = found
        cold_s = max(cold_s, tested_s)
        if left_out == tuning.COLD_LEFT_OUT:
            stays = is_as_long(tested_s, longest_s)
            if stays:
                break
            short_s = max(short_s, tested_s)
            left = _surely_right(criterion, left, tested_s)
        left_out = tuning.COLD_LEFT_OUT
    if not cold:
        return seen
    return msgspec.structs.replace(
        seen,
        trials=tuple(left),
        too_short_s=short_s,
        cold=cold,
        cold_s=cold_s,
        stays_cold=stays,
        left_out=left_out,
        longest_s=longest_s,
    )


def _longer(history: Sequence[LoadTrial], than_s: float) -> list[LoadTrial]:
    return [trial for trial in history if trial.lasted_s > than_s]


def _surely_right(
    criterion: Criterion, history: Sequence[LoadTrial], cold_s: float
) -> list[LoadTrial]:
    """Return the trials that are longer than those which are cold, and those that a cold start
    cannot have made fail."""
    values = [t.values.get(criterion.key, math.inf) for t in history]
    rows = list(zip(history, values, strict=True))
    held = [t.rate for t, value in rows if value <= criterion.limit]
    surely = tuning.COLD_FAILS_FROM * max(held, default=math.inf)
    return [
        trial
        for trial, value in rows
        if trial.lasted_s > cold_s
        or trial.ending is LoadEnding.FAILED
        or trial.rate >= surely
        or value <= tuning.PARABOLA_NEAR[0] * criterion.limit
    ]


def _still_cold(
    criterion: Criterion, history: Sequence[LoadTrial], left_out: float
) -> tuple[str, float] | None:
    """Return evidence that steady runs are slower in the first half of what counts of them than in
    the second, and the length of the longest of them [s]; None without.

    Runs are compared with others that are not several times as long. The test is Wilcoxon's of
    signed ranks: at the limit halves differ much by chance, but not all in one direction. Decision:
    a longer run does not take the evidence of shorter ones away. Rejected: only the longest runs,
    because those that were known to be cold were believed again as soon as there was one that is
    not.
    """
    steady = []
    for trial in history:
        ratio = _HALVES.value(
            [trial], (criterion, left_out), functools.partial(_halves, trial, criterion, left_out)
        )
        if ratio is not None:
            steady.append((ratio, trial.lasted_s))
    for longest_s in sorted({length_s for _, length_s in steady}, reverse=True):
        ratios = [
            ratio
            for ratio, length_s in steady
            if length_s <= longest_s <= tuning.CONTRARY_LONGER * length_s
        ]
        slower = _slower_at_first(np.array(ratios))
        if slower:
            text = (
                f"in {len(ratios)} trials of up to {longest_s:.3g} s the {criterion_name(criterion)} is "
                f"{100 * math.expm1(slower):.0f} % higher in the first half of what counts than in the second"
            )
            return text, longest_s
    return None


def _slower_at_first(ratios: FloatArray) -> float:
    """Return the median of the logarithms of ratios `(n_runs,)` of first halves to second ones, if
    it is certain that the first ones are slower; else 0."""
    n = ratios.size
    ranks = np.argsort(np.argsort(np.abs(ratios))) + 1
    positive = float(ranks[ratios > 0].sum())
    z = (positive - n * (n + 1) / 4) / math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    slower = float(np.median(ratios))
    is_cold = z >= tuning.COLD_Z and slower >= math.log1p(tuning.COLD_LEAST)
    return slower if is_cold else 0.0


_HALVES: TrialCache[float | None] = TrialCache(4096)


def _halves(trial: LoadTrial, criterion: Criterion, left_out: float) -> float | None:
    """Return the logarithm of the ratio of the halves of what counts of a run; None where it is not
    steady."""
    bins = _bins_of(trial.series, criterion)
    if bins.values.size < FEWEST_BINS or _never_empties(bins.values):
        return None
    values = bins.values[_first_counted(bins, trial, left_out) :]
    half = values.size // 2
    if not half or values.min() <= 0 or values.mean() > tuning.PARABOLA_NEAR[1]:
        return None
    return math.log(float(values[:half].mean()) / float(values[-half:].mean()))
