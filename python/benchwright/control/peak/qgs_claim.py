"""The claims: which answer is most likely to keep one, and how likely it is.

Purpose: from a posterior's draws to an answer with the probability of its claim.
Source: Workbench paper, section 2 (peak region).
"""

from __future__ import annotations

import msgspec
import numpy as np

from benchwright.control.peak.curve import FloatArray
from benchwright.control.peak.qgs_posterior import Posterior
from benchwright.model.peak import Claim, ClaimKind

ANSWERS = 41
"""Rates that are tried as the answer, between the quantiles below."""
BETWEEN = (0.1, 0.9)


class Answer(msgspec.Struct, frozen=True):
    """A rate and the probability that it keeps the claim."""

    rate: float
    probability: float
    low: float
    """Of the peak's central interval [1/s]."""
    high: float


def answer(claim: Claim, known: Posterior) -> Answer:
    """Return the best answer to a claim."""
    tail = (1 - claim.confidence) / 2
    low, high = known.quantile(tail), known.quantile(1 - tail)
    if claim.kind is ClaimKind.SLO:
        return _one_sided(claim, known, low, high)
    first, last = (known.quantile(share) for share in BETWEEN)
    rates = np.linspace(first, last, ANSWERS)[:, None]
    kept = _kept(claim, known, rates) @ known.weight
    # Where many answers keep it alike, the middle one.
    good = np.flatnonzero(kept >= kept.max() - 1e-3)
    best = int(good[good.size // 2])
    return Answer(float(rates[best, 0]), min(float(kept[best]), 1.0), low, high)


def answer_at(claim: Claim, known: Posterior, rate: float) -> Answer:
    """Return a rate as the answer to a claim of the region or of the rate."""
    tail = (1 - claim.confidence) / 2
    kept = _kept(claim, known, np.array([[rate]])) @ known.weight
    low, high = known.quantile(tail), known.quantile(1 - tail)
    return Answer(rate, min(float(kept[0]), 1.0), low, high)


def _kept(claim: Claim, known: Posterior, rates: FloatArray) -> FloatArray:
    """Return which draws keep the claim at each rate `(n_rates, n)`, as 0 and 1."""
    curve = known.curve
    if claim.kind is ClaimKind.RATE:
        kept = np.abs(rates / curve.peak - 1) <= claim.tolerance
    else:
        response = curve.response(rates)
        kept = (np.abs(response - 1) <= claim.tolerance) & (rates < curve.capacity)
    return np.asarray(kept, dtype=float)


def _one_sided(claim: Claim, known: Posterior, low: float, high: float) -> Answer:
    rate = known.quantile(1 - claim.confidence)
    middle = known.quantile(0.5)
    near = rate >= middle * (1 - claim.tolerance)
    return Answer(rate, claim.confidence if near else 0.0, low, high)
