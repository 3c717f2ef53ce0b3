"""Texts about a search over loads: rates, claims, samples.

Shared by searches, their findings, reports, progress and charts, so that each thing has one name.
"""

from __future__ import annotations

import math

from benchwright.core.criterion import Criterion, criterion_value_text
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.core.text import duration_text, number_text, percent_text, plural, rate_text
from benchwright.features.search.surface.types import GangEffects
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus


def peak_rate_text(result: ClaimResult) -> str:
    """Return an answer's rate: `236.34/s`, or what it is a bound of, `below 1/s`, `236.34/s or
    more`."""
    if result.peak_rate is None:
        return "unknown"
    rate = rate_text(result.peak_rate)
    match result.bound_kind:
        case "upper":
            return f"below {rate}"
        case "lower":
            return f"{rate} or more"
    return rate


def open_answer_text(found: ClaimResult) -> str:
    """Return what a search without its claim established, and how it ended: `250/s or more
    (budget)`, `about 700/s, between 97.1 and 7,200/s (undecided)`, `below 1/s (fails-at-lowest)`,
    `failed`."""
    rate, ends = found.peak_rate, found.interval
    if rate is None or found.status is PeakStatus.FAILED:
        return str(found.status)
    if found.bound_kind is not None:
        return f"{peak_rate_text(found)} ({found.status})"
    between = ""
    if ends is not None and math.isfinite(ends.low + ends.high):
        between = f", between {number_text(ends.low, 5)} and {rate_text(ends.high)}"
    return f"about {rate_text(rate)}{between} ({found.status})"


def claim_text(claim: Claim, binding: Criterion | None) -> str:
    """Return a claim as text."""
    share = percent_text(claim.tolerance, 10)
    if claim.kind is ClaimKind.RATE:
        return f"within ±{share} of the true peak rate"
    if claim.kind is ClaimKind.SLO:
        level = percent_text(claim.confidence, 10)
        return f"the criteria hold here with probability {level} at least"
    limit = "the limit" if binding is None else criterion_value_text(binding, binding.limit)
    return f"the true response here is within ±{share} of {limit}"


def claim_sentence(claim: Claim) -> str:
    """Return a claim about an answer as a clause: `the true peak is within ±5 %`."""
    share = percent_text(claim.tolerance, 10)
    match claim.kind:
        case ClaimKind.RATE:
            return f"the true peak is within ±{share}"
        case ClaimKind.SLO:
            return "every limit holds at this rate"
    return f"the true response at this rate is within ±{share} of the limit"


def interval_text(interval: Estimate | None) -> str:
    """Return `231.2 to 241.9/s at 95 %`; empty without an interval."""
    if interval is None:
        return ""
    low, high = number_text(interval.low, 5), rate_text(interval.high)
    return f"{low} to {high} at {percent_text(interval.confidence, 10)}"


def load_value_text(load: float, *, in_users: bool) -> str:
    """Return a load with its unit: `452.89/s`, `16 users`."""
    if not in_users:
        return rate_text(load)
    return f"{number_text(load, 5)} user{'' if load == 1 else 's'}"


def sample_text(sample: Pairs) -> str:
    """Return `workers=2, buffers=64M`."""
    return ", ".join(f"{name}={level}" for name, level in sample)


def binding_criterion(result: ClaimResult, criteria: tuple[Criterion, ...]) -> Criterion | None:
    """Return the criterion that limits the peak, or the only one."""
    named = (criterion for criterion in criteria if criterion.key == result.binding)
    return next(named, criteria[0] if len(criteria) == 1 else None)


def gangs_text(gangs: GangEffects) -> str:
    """Return how gangs differ: `gangs differ by 2.1 % (0.4 % to 3.9 % at 95 %)`."""
    difference = gangs.difference
    level, high = (percent_text(difference.confidence, 10), percent_text(difference.high, 2))
    if gangs.differ:
        return (
            f"gangs differ by {percent_text(difference.value, 2)} "
            f"({percent_text(difference.low, 2)} to {high} at {level})"
        )
    return f"no difference between gangs was found; it is at most {high} (at {level})"


def spent_text(load_s: float, cost_s: float, trials: int, making_s: float = 0.0) -> str:
    """Return what a search cost: `40 s of load, 52 s in total, in 4 trials`; with `making_s`
    also how long file sets were made."""
    load, cost = duration_text(load_s), duration_text(cost_s)
    made = f", {duration_text(making_s)} of making file sets" if making_s else ""
    return f"{load} of load{made}, {cost} in total, in {plural(trials, 'trial')}"
