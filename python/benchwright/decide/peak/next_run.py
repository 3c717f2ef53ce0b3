"""Step 4 of a decision: the next run of the queue-guided search.

First the climb, from the start rate to rates on both sides of the peak; where nothing waits yet, to
a rate close to one that is too high, which shows a wall (diagnostics.py). Then, for a claim of the
region, one overloaded run. After that, among a few loads (near the answer, well below it,
overloaded) and lengths, the run that is expected to reduce the claim's variance most per second,
including restart and warm-up; where one run is enough for the claim, the cheapest such run.
Decision: plans of one and of two runs are compared. An overloaded run shows the capacity, a run
below the peak shows the gap, and either alone has little value: a comparison of single runs would
never choose the first of them.
Decision: the reduction is computed from the posterior's draws (a regression of the claimed quantity
on the result of a run, with the expected noise): c-optimal design, one step ahead. Rejected: always
running 120 s at the median.
Source: K. Chaloner and I. Verdinelli 1995, Bayesian experimental design, Statist. Sci. 10(3).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.search import (
    Claim,
    ClaimKind,
    LoadTrial,
    PeakGoal,
    Probe,
    rounded_rate,
)
from benchwright.decide.peak import tuning
from benchwright.decide.peak.posterior import ClaimAnswer, Posterior
from benchwright.decide.peak.reading import (
    RunEstimates,
    limit_s,
    read_trials,
    run_length_s,
    time_scale,
)
from benchwright.stats.arrays import FloatArray

# -- the climb ----------------------------------------------------------------------------------


class Bracket(msgspec.Struct, frozen=True):
    """The rates tested so far, by side of the peak."""

    below: tuple[float, ...]
    """Rates at which the limit held [1/s]."""
    above: tuple[float, ...]
    """Rates at which the limit did not hold [1/s]."""
    capacities: tuple[float, ...]
    """Capacities that overloaded trials showed [1/s]."""
    tried: tuple[float, ...] = ()
    """Intended rates [1/s]."""
    quiet: bool = False
    """Whether a response shows no waiting, as below a wall; False for a claim of the region."""

    @property
    def guess(self) -> tuple[float, float]:
        """A low and a high initial estimate of the peak [1/s]."""
        low = max(self.below, default=min(self.above, default=1.0) / 4)
        high = min(self.above, default=4 * low)
        return min(low, high), max(low, high)


def bracket_of(goal: PeakGoal, history: Sequence[LoadTrial]) -> Bracket:
    """Return the tested rates by side of the peak, by the goal's first criterion."""
    runs = read_trials(goal.criteria[0], history).runs
    sides = [
        (trial.offered_rate, run.value if run.steady and run.value <= 1 else None)
        for trial, run in zip(history, runs, strict=True)
    ]
    below = [(rate, value) for rate, value in sides if value is not None]
    # Far above a low load: from a share of the highest rate that held.
    begin = tuning.CLIMB_QUIET_FROM * max((rate for rate, _ in below), default=0.0)
    lowest = min((value for rate, value in below if rate >= begin), default=1.0)
    region = goal.claim.kind is ClaimKind.REGION
    return Bracket(
        below=tuple(rate for rate, _ in below),
        above=tuple(rate for rate, value in sides if value is None),
        capacities=tuple(run.capacity.rate for run in runs if run.capacity is not None),
        tried=tuple(trial.rate for trial in history),
        quiet=lowest < tuning.CLIMB_QUIET and not region,
    )


def next_climb(goal: PeakGoal, bracket: Bracket, least_s: float = 0.0) -> Probe | None:
    """Return the next probe of the climb, of at least `least_s` [s]; None when the peak is bracketed
    closely enough."""
    rate = _climb_rate(goal, bracket)
    if rate is None:
        return None
    usual_s = tuning.CLIMB_S if goal.watched else tuning.CLIMB_UNWATCHED_S
    length = time_scale(limit_s(goal.criteria[0])) * usual_s
    length = goal.run_length_s or max(length, goal.restart_s, least_s)
    return Probe(rounded_rate(rate), length, "climb")


def _climb_rate(goal: PeakGoal, bracket: Bracket) -> float | None:
    """Return the climb's next rate [1/s]: doubled while the limit holds, and reduced by growing
    factors while it does not; None at the end of the climb."""
    below, above = bracket.below, bracket.above
    if not below and not above:
        return goal.start_rate
    if not above:
        return 2 * max(below)
    if below:
        low, high = max(below), min(above)
        if high > tuning.CLIMB_BRACKET * low:
            return math.sqrt(low * high)
        return _rate_below_wall(bracket) if bracket.quiet else None
    descent = tuning.CLIMB_DESCENT
    down = descent[min(len(above), len(descent)) - 1]
    if len(above) == 1 and bracket.capacities:
        to_capacity = tuning.DESCENT_TO_CAPACITY * bracket.capacities[0]
        return min(above[0] / down, to_capacity)
    return min(above) / down


def _rate_below_wall(bracket: Bracket) -> float | None:
    """Return a rate that shows whether the response is low just below the lowest rate, or capacity,
    that is too high [1/s]; None if it was tried."""
    low, high = max(bracket.below), min(bracket.above + bracket.capacities)
    nearest, middle, farthest = (high / by for by in tuning.CLIMB_QUIET_LAST)
    rate = math.sqrt(low * high)
    if high <= tuning.CLIMB_QUIET_BRACKET * low:
        if any(farthest <= other <= nearest for other in bracket.below):
            return None
        rate = middle
    apart = tuning.CLIMB_QUIET_APART
    return None if any(abs(rate / r - 1) < apart for r in bracket.tried) else rate


# -- after the climb ------------------------------------------------------------------------------


class SearchState(msgspec.Struct, frozen=True):
    """The state after the climb, from which the search stops or chooses its next run."""

    goal: PeakGoal
    history: Sequence[LoadTrial]
    """The trials that are long enough."""
    least_s: float
    """The least length of the next run [s]."""
    bracket: Bracket
    estimates: RunEstimates
    posterior: Posterior
    answer: ClaimAnswer
    near_peak: int
    """Number of runs near the peak."""
    wanted: float
    """Probability of the claim at which the search may stop."""


def next_run(state: SearchState) -> Probe:
    """Return the run with the highest expected value per second."""
    overload = _overload_is_useful(state)
    if overload and (first := _first_overload(state)) is not None:
        return first
    goal, scale = state.goal, time_scale(state.estimates.limit_s)
    if state.answer.probability >= state.wanted:
        # The probability is reached; only more runs near the peak are needed.
        length = scale * min(shortest_s(goal.claim), tuning.CONFIRM_S)
        rate, purpose = state.answer.rate, "focus"
    else:
        warm_up_s = state.estimates.warm_up_s
        overhead_s = scale * tuning.TURNAROUND_S + warm_up_s + _restart_s(state)
        best = best_run(state, overhead_s, overload=overload)
        rate, length = best.option.rate, best.lasts_s
        purpose = best.option.purpose
    length = math.ceil(max(length, state.least_s) + state.estimates.warm_up_s)
    return Probe(rounded_rate(rate), goal.run_length_s or length, purpose)


def _restart_s(state: SearchState) -> float:
    """Return the mean time of a trial without its load [s]."""
    return float(np.mean([trial.cost_s - trial.lasted_s for trial in state.history]))


def _first_overload(state: SearchState) -> Probe | None:
    """Return the overloaded run that a claim of the region needs first; None if it was made.

    It shows the capacity, and it shows a warm-up more clearly than any other run.
    """
    scale, runs = time_scale(state.estimates.limit_s), state.estimates.runs
    enough_s = tuning.FIRST_OVERLOAD_ENOUGH_S * scale
    made = any(not run.steady and run.lasts_s >= enough_s for run in runs)
    if state.goal.claim.kind is not ClaimKind.REGION or made:
        return None
    posterior = state.posterior
    capacity = math.exp(posterior.mean(np.log(posterior.curve.capacity)))
    length = run_length_s(state.goal, tuning.FIRST_OVERLOAD_S)
    rate = rounded_rate(tuning.FIRST_OVERLOAD_RATIO * capacity)
    return Probe(rate, length, "overload")


def _overload_is_useful(state: SearchState) -> bool:
    """Return whether an overloaded run is worth its time. It is not if an earlier one showed no
    capacity, if the limit is not a time, or if there are many such runs already."""
    estimates = state.estimates
    if estimates.limit_s is None:
        return False
    highest = max(state.bracket.below, default=math.inf)
    far = tuning.FIRST_OVERLOAD_RATIO * highest
    long_s = tuning.LONG_OVERLOAD_SHARE * time_scale(estimates.limit_s)
    long_s *= tuning.FIRST_OVERLOAD_S
    runs = [run for run in estimates.runs if run.lasts_s >= long_s]
    with_capacity = [run for run in runs if run.capacity is not None]
    without = [
        run
        for run in runs
        if run.capacity is None and (not run.steady or run.rate > far)
    ]
    return (
        len(without) < tuning.MOST_WITHOUT_CAPACITY
        and len(with_capacity) < tuning.MOST_OVERLOADS_AHEAD + state.near_peak
    )


# -- the load and length with the highest value per second -----------------------------------------------


class RunOption(msgspec.Struct, frozen=True):
    """A candidate load."""

    rate: float
    purpose: str
    shown: FloatArray
    """Logarithm of the quantity that a run measures, by draw `(n,)`."""
    noise_s: float
    """Variance of `shown` times the run's length [s]."""
    fixed: float
    """Variance that does not decrease with the length."""


class PlannedRun(msgspec.Struct, frozen=True):
    """A load with a length."""

    option: RunOption
    row: int
    """Its row in the table of covariances."""
    lasts_s: float

    @property
    def noise(self) -> float:
        """Variance of the logarithm that the run measures."""
        return self.option.noise_s / self.lasts_s + self.option.fixed


def best_run(state: SearchState, overhead_s: float, *, overload: bool) -> PlannedRun:
    """Return the run with the highest value per second.

    `overhead_s` is the time of a run that shows nothing [s]; `overload` allows overloaded runs.
    """
    claim, posterior, rate = state.goal.claim, state.posterior, state.answer.rate
    scale = time_scale(state.estimates.limit_s)
    options = _run_options(posterior, rate)[: None if overload else -1]
    target = _claimed_quantity(claim, posterior, rate)
    # Covariances over the draws: row 0 is the claimed quantity, row i is what option i measures.
    columns = np.array([target, *(option.shown for option in options)])
    left = columns - (columns @ posterior.weight)[:, None]
    spread = (left * posterior.weight) @ left.T
    lengths = [scale * lasts_s for lasts_s in tuning.RUN_LENGTHS_S]
    relaxed_s = tuning.STEADY_RELAXATIONS * posterior.mean(posterior.noise_s)
    shortest = min(max(relaxed_s, scale * shortest_s(claim)), lengths[-3])
    runs = _planned_runs(options, lengths, shortest)
    allowed = tuning.LAST_RUN_VARIANCE * allowed_variance(claim)

    def worth(plan: Sequence[PlannedRun]) -> float:
        # A smaller variance than the claim needs adds no value.
        after = max(_variance_after(spread, plan), 1e-3 * spread[0, 0], allowed)
        cost = sum(run.lasts_s + overhead_s for run in plan)
        return math.log(spread[0, 0] / after) / cost

    plans = [(run,) for run in runs] + list(itertools.combinations(runs, 2))
    best = max(plans, key=worth)
    # Of two runs the more valuable one goes first, because its result may change the plan.
    return min(best, key=lambda run: _variance_after(spread, (run,)))


def _run_options(posterior: Posterior, rate: float) -> list[RunOption]:
    """Return the candidate loads, the overloaded one last."""
    curve = posterior.curve
    between = posterior.mean(posterior.between**2)
    noise_s = posterior.mean(posterior.noise_s)
    options = []
    for share in tuning.LOAD_SHARES:
        log_response = _log_response(posterior, share * rate)
        waiting = curve.waiting(np.array(share * rate), tuning.SOFTNESS)
        waiting = np.minimum(waiting, 3.0)
        here_s = noise_s * posterior.mean(waiting**posterior.noise_power)
        steep = 1 / max(posterior.mean(curve.gap), 0.01)
        part = (1 - curve.unloaded) * waiting / np.exp(log_response)
        away = posterior.mean(part * np.log(waiting))
        model_error = (tuning.MODEL_ERROR * away) ** 2
        fixed = between * steep**2 * posterior.mean(waiting) ** 2 + model_error
        purpose = "focus" if share == 1.0 else "flank"
        options.append(RunOption(share * rate, purpose, log_response, here_s, fixed))
    capacity = float(np.exp(posterior.mean(np.log(curve.capacity))))
    options.append(
        RunOption(
            tuning.OVERLOAD_OF_CAPACITY * capacity,
            "overload",
            np.log(curve.capacity) + posterior.excess,
            tuning.OVERLOAD_CV2 / capacity,
            between,
        )
    )
    return options


def _planned_runs(
    options: Sequence[RunOption], lengths: Sequence[float], shortest: float
) -> list[PlannedRun]:
    """Return each load with each length that is long enough for it."""
    overloaded = min(shortest, lengths[tuning.OVERLOAD_LENGTH])
    runs = []
    for row, option in enumerate(options, start=1):
        least = shortest if option.purpose != "overload" else overloaded
        for lasts_s in lengths:
            if lasts_s >= least:
                runs.append(PlannedRun(option, row, lasts_s))
    return runs


def _variance_after(spread: FloatArray, plan: Sequence[PlannedRun]) -> float:
    """Return the claimed quantity's variance after a plan's runs, by normal regression."""
    if len(plan) == 1:
        run = plan[0]
        shown = spread[run.row, run.row] + run.noise
        return float(spread[0, 0] - spread[0, run.row] ** 2 / shown)
    one, other = plan
    a = spread[one.row, one.row] + one.noise
    b = spread[other.row, other.row] + other.noise
    c = spread[one.row, other.row]
    u, v = spread[0, one.row], spread[0, other.row]
    explained = (b * u * u - 2 * c * u * v + a * v * v) / (a * b - c * c)
    return float(spread[0, 0] - explained)


def shortest_s(claim: Claim) -> float:
    """Return the minimum length of a steady run, for a usual limit [s]."""
    region = claim.kind is ClaimKind.REGION
    return tuning.SHORTEST_REGION_S if region else tuning.SHORTEST_RATE_S


def allowed_variance(claim: Claim) -> float:
    """Return the largest variance of the claimed quantity at which the claim holds."""
    from scipy.special import ndtri

    one_sided = claim.kind is ClaimKind.SLO
    z = ndtri(claim.confidence if one_sided else 0.5 + claim.confidence / 2)
    return (claim.tolerance / float(z)) ** 2


def _claimed_quantity(claim: Claim, posterior: Posterior, rate: float) -> FloatArray:
    """Return the logarithm of the quantity that the claim bounds, by draw."""
    if claim.kind is ClaimKind.REGION:
        return _log_response(posterior, rate)
    return np.log(posterior.curve.peak)


def _log_response(posterior: Posterior, rate: float) -> FloatArray:
    response = posterior.curve.response(np.array(rate), tuning.SOFTNESS)
    result: FloatArray = np.clip(np.log(response), -3.0, 1.5)
    return result
