"""The next run of the queue-guided search: the climb to the peak, then the load and length that pay most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.core.search import (
    Claim,
    ClaimKind,
    LoadTrial,
    PeakGoal,
    Probe,
    rounded_rate,
)
from benchwright.decide.peak.curve import FloatArray
from benchwright.decide.peak.posterior import (
    MODEL_ERROR,
    NOISE_EXPONENT,
    ClaimAnswer,
    Posterior,
)
from benchwright.decide.peak.reading import (
    RunEstimate,
    limit_s,
    read_runs,
    time_scale,
    without_contradictory_capacities,
)

# --------------------------------------------------------------------------------------
# The climb of the queue-guided search: from a first rate to one on either side of the
# peak.

CLIMB_S = 20.0
CLIMB_UNWATCHED_S = 8.0
CLIMB_BRACKET = 5.0
"""Bracket, as a ratio of rates, that the climb halves before the curve is asked."""
CLIMB_DESCENT = (2.0, 4.0, 16.0)
"""By how much each next rate is lower while nothing holds."""
DESCENT_TO_CAPACITY = 0.7
"""A first descent goes to this share of the capacity, if overload told one."""


class ClimbState(msgspec.Struct, frozen=True):
    """What the trials show before a curve is fitted."""

    goal: PeakGoal
    history: Sequence[LoadTrial]
    runs: tuple[RunEstimate, ...]
    below: tuple[float, ...]
    """Rates at which the limit held [1/s]."""
    above: tuple[float, ...]
    """... and did not [1/s]."""

    @property
    def clock(self) -> float:
        """By how much lengths are shorter than usual."""
        return time_scale(limit_s(self.goal.criteria[0]))

    @property
    def start(self) -> tuple[float, float]:
        """A low and a high guess of the peak [1/s]."""
        low = max(self.below, default=min(self.above, default=1.0) / 4)
        high = min(self.above, default=4 * low)
        return min(low, high), max(low, high)

    def climb(self) -> Probe | None:
        """Return the next probe of the climb, or None when the peak is bracketed."""
        length = self.clock * (CLIMB_S if self.goal.watched else CLIMB_UNWATCHED_S)
        length = self.goal.run_length_s or max(length, self.goal.restart_s)
        rate = self._climbs_to()
        return None if rate is None else Probe(rounded_rate(rate), length, "climb")

    def _climbs_to(self) -> float | None:
        """Return the climb's next rate [1/s]: doubled while all holds, and down in ever
        longer steps while nothing does; None when the peak is bracketed closely enough."""
        if not self.history:
            return self.goal.start_rate
        if not self.above:
            return 2 * max(self.below)
        if self.below:
            low, high = max(self.below), min(self.above)
            return math.sqrt(low * high) if high > CLIMB_BRACKET * low else None
        down = CLIMB_DESCENT[min(len(self.above), len(CLIMB_DESCENT)) - 1]
        told = [run.capacity.rate for run in self.runs if run.capacity is not None]
        if len(self.above) == 1 and told:
            return min(self.above[0] / down, DESCENT_TO_CAPACITY * told[0])
        return min(self.above) / down


def climb_state(goal: PeakGoal, history: Sequence[LoadTrial]) -> ClimbState:
    """Return what the trials show of the goal's first criterion."""
    runs = without_contradictory_capacities(read_runs(goal.criteria[0], history)).runs
    pairs = [
        (trial.offered_rate, run.steady and run.value <= 1)
        for trial, run in zip(history, runs, strict=True)
    ]
    return ClimbState(
        goal=goal,
        history=history,
        runs=runs,
        below=tuple(rate for rate, holds in pairs if holds),
        above=tuple(rate for rate, holds in pairs if not holds),
    )


# -- The next probe: what most narrows the claim for each second of cost ---------------
#
# Purpose: among a few loads (overload, near the answer, well below it) and lengths, the one
# with the largest expected fall of the claim's variance per second, restart and warm-up
# counted; the cheapest that would do, where one would.
# Decision: plans of one and of two runs are weighed: overload tells the capacity and a run below
# the peak tells the gap, and either alone is worth little; a plan of single runs never buys
# the first of them.
# Decision: the fall is computed from the posterior's draws (a regression of what is claimed on
# what a run would show, with the noise that it would have): c-optimal design, one step ahead. Always
# running 120 s at the median, as the prototype did, lost.
# Source: K. Chaloner and I. Verdinelli 1995, Bayesian experimental design, Statist. Sci. 10(3).

RUN_LENGTHS_S = (45.0, 60.0, 90.0, 120.0, 150.0, 180.0)
OVERLOAD_LENGTH = 1
"""Which of them is always enough for an overloaded run."""
LOAD_SHARES = (1.0, 0.93, 0.8)
"""Loads as shares of the answer."""
OVERLOAD_OF_CAPACITY = 1.15
"""Load of an overloaded run, as a share of the capacity."""
LAST_RUN_VARIANCE = 0.75
"""Share of the allowed variance that a last run aims at, so that it is the last."""


STEADY_RELAXATIONS = 40.0
"""A steady run lasts at least so many times its noise's time, which is about four
relaxation times: shorter ones are not normal, and start from an empty server."""


SHORTEST_REGION_S = 90.0
"""Of a steady run, where the claim is of the region: an unseen warm-up of a second of work
is then less than the claim's tolerance at usual elasticities."""
SHORTEST_RATE_S = 45.0
"""... where it is of the rate, to which that matters five times less."""


class RunOption(msgspec.Struct, frozen=True):
    """A load that might be run."""

    rate: float
    purpose: str
    shown: FloatArray
    """What a run would show, by draw `(n,)`: a logarithm."""
    noise_s: float
    """Variance of that times the run's length [s]."""
    fixed: float
    """Variance that no length takes away."""


class PlannedRun(msgspec.Struct, frozen=True):
    """A load with a length."""

    option: RunOption
    place: int
    """Its row in the table of covariances."""
    lasts_s: float

    @property
    def noise(self) -> float:
        """Variance of what it shows."""
        return self.option.noise_s / self.lasts_s + self.option.fixed


class ChosenRun(msgspec.Struct, frozen=True):
    """The load and length that were chosen."""

    rate: float
    lasts_s: float
    purpose: str


def choose_run(
    claim: Claim,
    known: Posterior,
    found: ClaimAnswer,
    overhead_s: float,
    *,
    overload: bool = True,
    clock: float = 1.0,
) -> ChosenRun:
    """Return the probe that pays most; `overhead_s` is what each costs beside its use.

    `clock` shortens the lengths to choose from.
    """
    target = _claimed_quantity(claim, known, found.rate)
    lengths = [clock * lasts_s for lasts_s in RUN_LENGTHS_S]
    shortest = min(
        max(STEADY_RELAXATIONS * known.mean(known.noise_s), clock * shortest_s(claim)),
        lengths[-3],
    )
    options = _run_options(known, found.rate)[: None if overload else -1]
    columns = np.array([target, *(option.shown for option in options)])
    left = columns - (columns @ known.weight)[:, None]
    spread = (left * known.weight) @ left.T
    runs = _planned_runs(options, lengths, shortest)
    plans = [(one,) for one in runs] + list(itertools.combinations(runs, 2))
    allowed = LAST_RUN_VARIANCE * allowed_variance(claim)
    best: tuple[bool, float, tuple[PlannedRun, ...]] | None = None
    for plan in plans:
        after = max(_variance_after(spread, plan), 1e-3 * spread[0, 0])
        cost = sum(run.lasts_s + overhead_s for run in plan)
        # A plan that would do is worth what it reaches, not what lies beyond.
        worth = math.log(spread[0, 0] / max(after, allowed)) / cost
        if best is None or worth > best[1]:
            best = (after <= allowed, worth, plan)
    assert best is not None
    # Of two runs the one that is worth more alone goes first: it may change the plan.
    first = min(best[2], key=lambda run: _variance_after(spread, (run,)))
    return ChosenRun(first.option.rate, first.lasts_s, first.option.purpose)


def _planned_runs(
    options: Sequence[RunOption], lengths: Sequence[float], shortest: float
) -> list[PlannedRun]:
    """Return every load with every length that is long enough."""
    overloaded = min(shortest, lengths[OVERLOAD_LENGTH])
    runs = []
    for place, option in enumerate(options, start=1):
        least = shortest if option.purpose != "overload" else overloaded
        for lasts_s in lengths:
            if lasts_s >= least:
                runs.append(PlannedRun(option, place, lasts_s))
    return runs


def _variance_after(spread: FloatArray, plan: Sequence[PlannedRun]) -> float:
    """Return the claim's variance that is left after a plan's runs: normal regression."""
    if len(plan) == 1:
        run = plan[0]
        told = spread[run.place, run.place] + run.noise
        return float(spread[0, 0] - spread[0, run.place] ** 2 / told)
    one, other = plan
    a = spread[one.place, one.place] + one.noise
    b = spread[other.place, other.place] + other.noise
    c = spread[one.place, other.place]
    u, v = spread[0, one.place], spread[0, other.place]
    told = (b * u * u - 2 * c * u * v + a * v * v) / (a * b - c * c)
    return float(spread[0, 0] - told)


def shortest_s(claim: Claim) -> float:
    """Return how long a steady run is at least, for a usual limit [s]."""
    return SHORTEST_REGION_S if claim.kind is ClaimKind.REGION else SHORTEST_RATE_S


def allowed_variance(claim: Claim) -> float:
    """Return the variance of the claimed quantity at which its claim would hold."""
    from scipy.special import ndtri

    z = float(ndtri(0.5 + claim.confidence / 2))
    if claim.kind is ClaimKind.SLO:
        z = float(ndtri(claim.confidence))
    return (claim.tolerance / z) ** 2


def _claimed_quantity(claim: Claim, known: Posterior, rate: float) -> FloatArray:
    """Return the quantity that the claim bounds, by draw: a logarithm."""
    if claim.kind is ClaimKind.REGION:
        return _log_response(known, rate)
    return np.log(known.curve.peak)


def _log_response(known: Posterior, rate: float) -> FloatArray:
    response = known.curve.response(np.array(rate), 0.004)
    result: FloatArray = np.clip(np.log(response), -3.0, 1.5)
    return result


def _run_options(known: Posterior, rate: float) -> list[RunOption]:
    curve = known.curve
    between = known.mean(known.between**2)
    noise_s = known.mean(known.noise_s)
    options = []
    for share in LOAD_SHARES:
        shown = _log_response(known, share * rate)
        waiting = np.minimum(curve.waiting(np.array(share * rate), 0.004), 3.0)
        here_s = noise_s * known.mean(waiting**NOISE_EXPONENT)
        steep = 1 / max(known.mean(curve.gap), 0.01)
        part = (1 - curve.unloaded) * waiting / np.exp(shown)
        away = known.mean(part * np.log(waiting))
        fixed = (
            between * steep**2 * known.mean(waiting) ** 2 + (MODEL_ERROR * away) ** 2
        )
        purpose = "focus" if share == 1.0 else "flank"
        options.append(RunOption(share * rate, purpose, shown, here_s, fixed))
    capacity = float(np.exp(known.mean(np.log(curve.capacity))))
    options.append(
        RunOption(
            OVERLOAD_OF_CAPACITY * capacity,
            "overload",
            np.log(curve.capacity) + known.excess,
            1.5 / capacity,
            between,
        )
    )
    return options
