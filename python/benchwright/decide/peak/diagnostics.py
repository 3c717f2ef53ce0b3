"""What the trials of a search say against its assumptions: thrashing, load shedding, pauses, a curve that its runs contradict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.core.results import Finding, Severity
from benchwright.core.search import (
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakResult,
)
from benchwright.decide.peak.curve import FloatArray
from benchwright.decide.peak.final_checks import drift, not_monotonic
from benchwright.decide.peak.monotone_posterior import load_by_criterion, value_share
from benchwright.decide.peak.posterior import NOISE_EXPONENT
from benchwright.decide.peak.reading import RunEstimate, RunEstimates, read_runs
from benchwright.decide.peak.trials import TrialCache
from benchwright.findings.codes import make_finding
from benchwright.findings.load_text import name_of
from benchwright.findings.text import counted

# --------------------------------------------------------------------------------------
# What overload says against a queue: it completes less than before, or it only
# refuses.
#
# A queue that is overloaded completes its capacity, and no steady run can be faster than
# that. Where one was, the server gets slower by being overloaded (thrashing), or its work
# grows with the rate (a second bottleneck: a kink).

RETROGRADE_CV2 = 2.0
"""Squared coefficient of variation of work: for the noise of what was served."""
RETROGRADE_BETWEEN_RUNS = 0.015
"""Relative standard deviation of a server's speed between runs that is no evidence."""
RETROGRADE_Z = 4.0
RETROGRADE_TOGETHER_S = 600.0
RETROGRADE_DRIFT_PER_S = 0.007 / 60
"""Of runs further apart than that so much of the difference may be drift [1/s]."""
RETROGRADE_LEAST = 0.03
"""By so much more a steady run must have served than an overloaded one completed."""
RETROGRADE_STEADY = 1.5
"""Responses up to which a run counts as served, as shares of the limit."""
SHEDDING_ERRORS = 0.002
"""From this share of errors on a server is refusing, not failing by chance."""
SHEDDING_FLAT = 0.7
"""A response below this share of the limit is flat."""


def throughput_drop(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how an overloaded run completed less than a steady one served; else ''."""
    criterion = goal.criteria[0]
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    readings, ends_s = (
        read_runs(criterion, usable),
        np.cumsum([t.cost_s for t in usable]),
    )
    steady = [r for r in readings.runs if r.steady and r.value < RETROGRADE_STEADY]
    over = [r for r in readings.runs if r.capacity is not None]
    pairs = [(one, other) for one in steady for other in over]
    if not pairs:
        return ""

    def sureness(pair: tuple[RunEstimate, RunEstimate]) -> float:
        apart_s = abs(float(ends_s[pair[0].index] - ends_s[pair[1].index]))
        return _retrograde_z(
            pair,
            readings,
            RETROGRADE_DRIFT_PER_S * max(apart_s - RETROGRADE_TOGETHER_S, 0.0),
        )

    served, beaten = max(pairs, key=sureness)
    capacity = beaten.capacity
    assert capacity is not None
    if sureness((served, beaten)) < RETROGRADE_Z:
        return ""
    return (
        f"overloaded at {beaten.rate:.5g}/s it completes {capacity.rate:.4g}/s "
        f"({100 * (1 - capacity.rate / served.rate):.0f} % less than the {served.rate:.4g}/s "
        f"that it served with a response of {100 * served.value:.0f} % of the limit)"
    )


def _retrograde_z(
    pair: tuple[RunEstimate, RunEstimate], readings: RunEstimates, drifted: float
) -> float:
    """Return by how many standard errors more was served than is completed overloaded,
    beyond a share that a drift may have taken in between."""
    served, over = pair
    capacity = over.capacity
    if capacity is None or served.rate < (1 + RETROGRADE_LEAST) * capacity.rate:
        return 0.0
    chance = RETROGRADE_CV2 / (served.rate * served.lasts_s)
    # What is still waiting when a run ends was not served.
    waiting = served.value * (readings.limit_s or 0.0) / served.lasts_s
    scale = math.sqrt(chance + capacity.relative_sd**2 + 2 * RETROGRADE_BETWEEN_RUNS**2)
    return (math.log(served.rate / capacity.rate) - waiting - drifted) / scale


def load_shedding(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how errors rise while the response stays flat; else ''."""
    timed = [c for c in goal.criteria if c.statistic in ("mean", "percentile")]
    refusing = [t for t in history if _error_share(t) > SHEDDING_ERRORS]
    if not timed or not refusing:
        return ""
    quick = [
        t for t in refusing if all(value_share(c, t) < SHEDDING_FLAT for c in timed)
    ]
    if len(quick) < len(refusing):
        return ""
    worst = max(quick, key=_error_share)
    value = load_by_criterion(timed[0], [worst]).value
    return (
        f"at {worst.rate:.5g}/s {100 * _error_share(worst):.0f} % of the operations end "
        f"in an error while the {name_of(timed[0])} is only {100 * value:.0f} % of its limit"
    )


def _error_share(trial: LoadTrial) -> float:
    known = (trial.completed or 0) + trial.errors
    return trial.errors / known if known and trial.completed is not None else 0.0


# --------------------------------------------------------------------------------------
# Whether the server pauses again and again: bins far above the others, at even
# distances.
#
# Decision: evenness is asked for. One huge operation stops a single server as a pause does,
# and in heavy tails such operations come as often; but they come at any distance.
# Decision: near the peak a queue has high moments of its own between the pauses, and hardly two
# gaps in three are alike. So a comb of the commonest gap is laid over each run as well: where
# nearly every tooth meets a high bin, which chance does not do, it pauses.

PAUSE_SPIKE = 2.2
"""A bin so many times its run's median is one."""
PAUSE_QUIET = 0.8
"""Runs whose median is below this share of the limit are looked at."""
PAUSE_FEWEST_GAPS = 6
PAUSE_EVEN = 0.85
"""Share of the gaps that must be the same, to a bin."""
PAUSE_LEAST_BINS = 5.0
"""Of a gap: shorter ones would be even by chance."""
PAUSE_MOST_SPIKES = 0.4
"""Share of a run's bins: more is no exception."""


COMB_FEWEST_TEETH = 16
"""Of the combs over all runs."""
COMB_MET = 0.85
"""Share of the teeth that must meet a high bin."""
COMB_PERIODS = np.arange(-0.5, 0.51, 0.1)
"""Around the mean of the commonest gap, that are tried [bins]."""
COMB_CHANCE = 1e-5
"""Probability of as many by chance, at most."""


def periodic_pauses(goal: PeakGoal, history: Sequence[LoadTrial]) -> str:
    """Return how often and for how long the server pauses; '' if it does not."""
    criterion = goal.criteria[0]
    usable = [t for t in history if t.ending is not LoadEnding.FAILED]
    found = [(_spikes(criterion, trial), trial) for trial in usable]
    gaps_s = np.concatenate(
        [np.diff(at) * t.series.width_s for at, t in found if at.size > 1]
        or [np.empty(0)]
    )
    width_s = max((t.series.width_s for at, t in found if at.size > 1), default=1.0)
    if gaps_s.size < PAUSE_FEWEST_GAPS:
        return ""
    period_s = float(np.median(gaps_s))
    even = np.abs(gaps_s - period_s) <= 1.01 * width_s
    if period_s < PAUSE_LEAST_BINS * width_s or even.mean() < PAUSE_EVEN:
        even = _comb_gaps(criterion, usable, gaps_s / width_s)
    if not even.any():
        return ""
    return (
        f"every {float(gaps_s[even].mean()):.3g} s the response is for a moment "
        f"{_spike_height(criterion, found):.2g} times its usual value "
        f"({int(even.sum())} of {gaps_s.size} gaps are alike)"
    )


def _comb_gaps(
    criterion: Criterion, usable: Sequence[LoadTrial], gaps: FloatArray
) -> NDArray[np.bool_]:
    """Return which gaps [bins] are those of pauses; none where no comb fits."""
    long = gaps[gaps >= PAUSE_LEAST_BINS]
    nothing = np.zeros(gaps.size, dtype=bool)
    if long.size < PAUSE_FEWEST_GAPS:
        return nothing
    alike = [np.abs(gaps - gap) <= 1.01 for gap in np.unique(long)]
    even = max(alike, key=lambda one: int(one.sum()))
    runs = [high for high in (_high_bins(criterion, t) for t in usable) if high.any()]
    alike_runs = _by_length(runs)
    periods = float(gaps[even].mean()) + COMB_PERIODS
    chances = [_comb_chance(alike_runs, float(period)) for period in periods]
    return even if min(chances) * len(periods) < COMB_CHANCE else nothing


class _RunsOfLength(msgspec.Struct, frozen=True):
    """Runs of one length; columns `(n_runs, n_bins)`."""

    wide: NDArray[np.bool_]
    """Whether a bin or one beside it is high."""
    share: FloatArray
    """Of the bins that are, by chance `(n_runs,)`."""


def _by_length(runs: Sequence[NDArray[np.bool_]]) -> list[_RunsOfLength]:
    """Return the runs, those of one length together."""
    found = []
    for size in sorted({high.size for high in runs}):
        high = np.array([one for one in runs if one.size == size])
        wide = high | np.roll(high, 1, axis=1) | np.roll(high, -1, axis=1)
        found.append(_RunsOfLength(wide, 1 - (1 - high.mean(axis=1)) ** 3))
    return found


def _comb_chance(runs: Sequence[_RunsOfLength], period: float) -> float:
    """Return how likely high bins at any distance meet as many teeth as these do; 1 where
    too few are met."""
    from scipy.special import bdtrc

    met, teeth, expected, number = 0, 0, 0.0, 0
    for each in runs:
        hits, of = _best_phases(each.wide, period)
        met, teeth = met + int(hits.sum()), teeth + int(of.sum())
        expected += float(of @ each.share)
        number += len(each.share)
    if teeth < COMB_FEWEST_TEETH or met < COMB_MET * teeth:
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
    high = _high_bins(criterion, trial)
    return np.asarray(np.flatnonzero(high[1:] & ~high[:-1]) + 1.0, dtype=np.float64)


def _high_bins(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    """Return which bins of a quiet run are far above the others; nothing of another run."""
    return _HIGH_BINS.value(
        [trial], criterion, lambda: _computed_high_bins(criterion, trial)
    )


_HIGH_BINS: TrialCache[NDArray[np.bool_]] = TrialCache(1024)


def _computed_high_bins(criterion: Criterion, trial: LoadTrial) -> NDArray[np.bool_]:
    column = trial.series.values.get(criterion.key, ())
    if len(column) != len(trial.series.at_s) or len(column) < 8:
        return np.zeros(0, dtype=bool)
    values = np.asarray(column, dtype=float)
    typical = float(np.median(values))
    if criterion.better != "lower" or typical > PAUSE_QUIET * criterion.limit:
        return np.zeros(0, dtype=bool)
    high = np.asarray(values > PAUSE_SPIKE * typical, dtype=bool)
    high[0] = False
    return high if high.mean() <= PAUSE_MOST_SPIKES else np.zeros(0, dtype=bool)


def _spike_height(
    criterion: Criterion, found: Sequence[tuple[FloatArray, LoadTrial]]
) -> float:
    """Return how many times the usual value the spikes are, at most."""
    heights = []
    for at, trial in found:
        values = np.asarray(trial.series.values.get(criterion.key, ()), dtype=float)
        if at.size:
            heights.append(values[at.astype(int)].max() / np.median(values))
    return float(np.median(heights))


# -- Whether the runs near an answer lie on the curve that the answer was read from ----
#
# Purpose: the last look before a search by a queue's curve ends. A curve that is steep enough
# goes through anything: past a step in the response (12 ms, then 50 ms) it has the limit
# at the step, with every run near it far from the curve.
# Decision: only what the curve's noise, its band and a server's usual change from run to run
# leave over counts. What the fit itself believes of the change between runs is not asked: a fit that
# misses its runs explains them by it.
# Decision: the result is judged, not the posterior, so that any search's curve can be.

MISFIT_NEAR = (0.45, 1.5)
"""Responses by the curve, as shares of the limit, of loads that are near the answer."""
MISFIT_BETWEEN_RUNS = 0.012
"""Relative standard deviation of a server's speed between runs that is no evidence."""
MISFIT_STEEPEST = 20.0
"""Elasticity up to which that counts: a curve steeper than this was bent to its runs."""
MISFIT_FAMILY_ERROR = 0.05
"""Relative error of a queue's curve near its answer."""
MISFIT_Z = 4.0
"""Standard errors by which a run contradicts the curve."""
MISFIT_LEAST = 0.3
"""... and by so much at least, of the logarithm of the response."""
MISFIT_FEWEST = 2
"""Runs that must contradict it: one may be anything."""
MISFIT_QUIETEST = 0.2
"""A run's noise is at least that of this share of the limit."""


class _ResultCurve(msgspec.Struct, frozen=True):
    """The result's curve; columns `(n_points,)`, logarithms of rate and share of the limit."""

    rate: FloatArray
    level: FloatArray
    error: FloatArray
    """Standard deviation of the level."""
    slope: FloatArray
    """Elasticity."""
    noise_s: float
    """Relative variance of a run's mean at the limit, times its length [s]."""

    def off(self, run: RunEstimate) -> tuple[float, float]:
        """Return how far a run is from the curve, and in standard errors; 0 where it is
        not near the answer."""
        at, value = math.log(run.rate), math.log(run.value)
        if not self.rate[0] <= at <= self.rate[-1]:
            return 0.0, 0.0
        level, error, slope = (
            float(np.interp(at, self.rate, column))
            for column in (self.level, self.error, self.slope)
        )
        if not MISFIT_NEAR[0] < math.exp(level) < MISFIT_NEAR[1]:
            return 0.0, 0.0
        chance = (
            self.noise_s
            / run.lasts_s
            * max(math.exp(level), MISFIT_QUIETEST) ** NOISE_EXPONENT
        )
        between = MISFIT_BETWEEN_RUNS * min(slope, MISFIT_STEEPEST)
        scale = math.sqrt(chance + error**2 + between**2 + MISFIT_FAMILY_ERROR**2)
        # The mean of a logarithm is below the logarithm of the mean.
        left = value - level + min(chance, 0.5) / 2
        return left, abs(left) / scale


def misfit(goal: PeakGoal, history: Sequence[LoadTrial], result: PeakResult) -> str:
    """Return how runs near a result's answer contradict its curve; '' if they do not.

    `goal` has the criterion that the curve is of as its first.
    """
    known = _result_curve(goal.criteria[0], result)
    if known is None:
        return ""
    runs = [run for run in read_runs(goal.criteria[0], history).runs if run.steady]
    wrong = [run for run in runs if _contradicts(*known.off(run))]
    if len(wrong) < MISFIT_FEWEST:
        return ""
    worst = max(wrong, key=lambda run: known.off(run)[1])
    left, sureness = known.off(worst)
    return (
        f"{len(wrong)} runs contradict the curve: at {worst.rate:.4g}/s the response was "
        f"{100 * worst.value:.0f} % of the limit and should be "
        f"{100 * worst.value / math.exp(left):.0f} % ({sureness:.0f} standard errors)"
    )


def _contradicts(left: float, sureness: float) -> bool:
    return abs(left) > MISFIT_LEAST and sureness > MISFIT_Z


def _result_curve(criterion: Criterion, result: PeakResult) -> _ResultCurve | None:
    """Return the curve of a result; None where it has none, or no noise."""
    noise_s = result.components.within_s
    points = [p for p in result.curve if min(p.low, p.middle) > 0]
    if noise_s is None or len(points) < 3 or criterion.better != "lower":
        return None
    rate = np.log([p.rate for p in points])
    level = np.log([p.middle / criterion.limit for p in points])
    ends = np.log([p.high / p.low for p in points])
    slope = np.asarray(np.gradient(level, rate), dtype=np.float64)
    return _ResultCurve(rate, level, ends / (2 * 1.96), slope, noise_s)


# --------------------------------------------------------------------------------------
# What a search's trials say against its assumptions: a queue, a steady one, more is
# slower.
#
# Purpose: the findings of a search, and which of them end the belief in a queue's curve. Every
# way out of that belief has a finding with its reason.
# Decision: a doubt must be clear; on servers that are queues hardly one search in a hundred
# may be told of any. So each has a test with a high threshold and a least size.
# Source: docs/peak.md; the figures behind the thresholds are tests/calibration's.

NO_QUEUE_CODE = "curve-fits-no-queue"
DRIFT_CODE = "drift"
SERVER_SUBJECT = "search"


_FINDINGS: TrialCache[tuple[Finding, ...]] = TrialCache(64)


def server_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    """Return every doubt about the server that the trials give reason for; of the goal it
    looks at the criteria only."""
    key = ("all", goal.criteria)
    return _FINDINGS.value(history, key, lambda: _computed_findings(goal, history))


def _computed_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    shape = shape_findings(goal, history)
    each = (
        *shape,
        *_finding_of("sheds-load", load_shedding(goal, history)),
        *_finding_of("response-not-monotonic", not_monotonic(goal, history)),
        # Where the capacity depends on the load, a change of it tells no drift.
        *_finding_of(DRIFT_CODE, "" if shape else drift(goal, history)),
    )
    return tuple({found.code: found for found in reversed(each)}.values())[::-1]


def shape_findings(goal: PeakGoal, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubts with which a queue's curve is not to be believed; none: it may."""
    key = ("shape", goal.criteria[0])
    return _FINDINGS.value(
        history, key, lambda: _computed_shape_findings(goal, history)
    )


def _computed_shape_findings(
    goal: PeakGoal, history: Sequence[LoadTrial]
) -> tuple[Finding, ...]:
    backwards, pauses = throughput_drop(goal, history), periodic_pauses(goal, history)
    first = backwards or pauses
    return (
        *_finding_of(NO_QUEUE_CODE, first),
        *_finding_of("retrograde-under-overload", backwards),
        *_finding_of("server-stalls", pauses),
    )


def not_converged_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return why a search goes on without a curve that came to no claim in so many trials:
    a note, since a queue can be so too."""
    evidence = (
        f"the queue model did not converge in {counted(len(history), 'trial')}; continued "
        "with the monotone search (this says nothing against the server)"
    )
    return (make_finding(NO_QUEUE_CODE, SERVER_SUBJECT, evidence, Severity.NOTE),)


def no_curve_findings(criterion: Criterion) -> tuple[Finding, ...]:
    """Return what is to be said of a criterion that no queue's curve is known of."""
    evidence = (
        f"no queue's curve is known of what limits ({name_of(criterion)}): the search "
        "assumes only that more load is not better"
    )
    return (make_finding(NO_QUEUE_CODE, SERVER_SUBJECT, evidence, Severity.NOTE),)


def refusal_findings(history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubt about a server whose limit is where it, or its generator, fails."""
    failed = [trial.rate for trial in history if trial.ending is LoadEnding.FAILED]
    evidence = (
        f"{counted(len(failed), 'rate')} failed, from {min(failed):.5g}/s on: the limit is where "
        "the server refuses, of which a queue's curve knows nothing"
    )
    return _finding_of(NO_QUEUE_CODE, evidence)


def misfit_findings(
    goal: PeakGoal, history: Sequence[LoadTrial], result: PeakResult
) -> tuple[Finding, ...]:
    """Return the doubt about a curve that its own runs contradict."""
    return _finding_of(NO_QUEUE_CODE, misfit(goal, history, result))


def _finding_of(code: str, evidence: str) -> tuple[Finding, ...]:
    return (make_finding(code, SERVER_SUBJECT, evidence),) if evidence else ()
