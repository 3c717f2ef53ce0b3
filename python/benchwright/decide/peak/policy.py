"""The interface of a peak search's policies, the policies by name, the rates they may probe and the probability at which they may stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from benchwright.core.search import (
    Claim,
    ClaimKind,
    LoadTrial,
    PeakGoal,
    PeakResult,
    Probe,
    rounded_bound,
    rounded_rate,
)
from benchwright.decide.peak import tuning

# --------------------------------------------------------------------------------------
# The slot that every policy of a peak search fits into, the paper's, ours and a
# rival's.
#
# A policy has no state: the trials so far are all it knows, so a resumed search goes on
# as if nothing had happened, and a search of a simulated server runs the same code.


class Policy(Protocol):
    """A way to search for the peak rate."""

    @property
    def name(self) -> str:
        """As `--policy` names it."""

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough: asked about once a second.

        `so_far` is the trial as it would be if it were left now.
        """

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now, when a budget or the trials are used up."""


# -- Between which rates a search may probe, and how a rate is written -----------------
#
# Decision: bounds depend on the goal alone, so that a policy which replays its history finds
# the trials of a probe that was moved to a bound.
# Decision: the lowest rate is where a run still sees arrivals enough to tell something: one
# trial at a thousandth of the first rate took longer than the whole rest of a search, and saw
# ten operations. The highest is what a generator on one machine may reach: without it a server
# that answers always alike was asked for 5e7/s.


def lowest_rate(goal: PeakGoal) -> float:
    """Return the rate below which nothing is probed [1/s]."""
    rate = goal.lowest_rate
    if rate is None:
        few = min(
            tuning.FEWEST_ARRIVALS / _run_s(goal),
            goal.start_rate * tuning.DESCENT_SHARE,
        )
        rate = max(goal.start_rate * tuning.LOWEST_SHARE, few)
    return rounded_bound(rate, goal.rate_step, math.ceil)


def highest_rate(goal: PeakGoal) -> float:
    """Return the rate above which nothing is probed [1/s]."""
    rate = goal.highest_rate or max(
        tuning.HIGHEST_RATE, goal.start_rate * tuning.HIGHEST_SHARE
    )
    return rounded_bound(rate, goal.rate_step, math.floor)


def within_bounds(goal: PeakGoal, rate: float) -> float:
    """Return a rate as it is probed: one that the generator can be told, between the
    bounds."""
    told = rounded_rate(rate, goal.rate_step)
    return min(max(told, lowest_rate(goal)), highest_rate(goal))


def _run_s(goal: PeakGoal) -> float:
    """Return how long a run at the lowest rate lasts [s]."""
    limits_ms = [one.limit for one in goal.criteria if one.unit == "ms"]
    limit_s = max((ms for ms in limits_ms if math.isfinite(ms)), default=0.0) / 1e3
    return max(
        goal.run_length_s or 0.0,
        tuning.LOWEST_RUN_S,
        tuning.LOWEST_RUN_LIMITS * limit_s,
    )


# --------------------------------------------------------------------------------------
# The probability at which a search may stop: what its claim asks for, and a margin.
#
# Decision: the margin is at most half of what is missing to 1. Without that bound a claim of
# 99 % asked for more than certainty, and its search ended by the number of its trials.


def probability_wanted(
    claim: Claim, margin: float, of_few: float, runs_near: int
) -> float:
    """Return the probability of a claim at which its search may stop.

    `margin` is the price of looking after every run. For a region `of_few` over the number of
    runs near the limit is asked for at least: few runs say little of what differs
    between runs.
    """
    few = of_few / max(runs_near, 1) if claim.kind is ClaimKind.REGION else 0.0
    part = (1 - claim.confidence) / 2
    return claim.confidence + min(max(margin, few), part)


# -- The policies of a peak search by name ---------------------------------------------
#
# Imports are lazy: naming a policy must not cost what another one needs.

DEFAULT_POLICY = "qgs"
POLICY_NAMES = (
    "qgs",
    "monotone",
    "binsearch-honest",
    "binsearch",
    "linear",
    "model",
    "strawman",
)
"""As `--policy` names them; the last four are the workbench paper's, as published."""


def policy_named(name: str) -> Policy:
    """Return a policy with its published parameters. Raises KeyError for no such name."""
    if name not in POLICY_NAMES:
        raise KeyError(name)
    if name == "qgs":
        from benchwright.decide.peak.default import DefaultPeakPolicy

        return DefaultPeakPolicy()
    if name == "monotone":
        from benchwright.decide.peak.monotone import Monotone

        return Monotone()
    if name == "strawman":
        from benchwright.decide.peak.published import Strawman

        return Strawman()
    return _published_policy(name)


def _published_policy(name: str) -> Policy:
    from benchwright.decide.peak.published import (
        Algorithm2,
        binsearch,
        judge_in_region,
        linear,
        model_guided,
    )

    if name == "binsearch-honest":
        return Algorithm2(name, binsearch, judge_in_region, cautions="")
    picking = {"binsearch": binsearch, "linear": linear, "model": model_guided}[name]
    return Algorithm2(name, picking)
