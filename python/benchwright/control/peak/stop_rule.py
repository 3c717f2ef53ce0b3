"""The probability at which a search may stop: what its claim asks for, and a margin.

Decision: the margin is at most half of what is missing to 1. Without that bound a claim of
99 % asked for more than certainty, and its search ended by the number of its trials.
"""

from __future__ import annotations

from benchwright.model.peak import Claim, ClaimKind


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
