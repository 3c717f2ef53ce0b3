"""Rates, limits, claims and samples of a search in words: one thing has one name in report, progress and picture.

Shared by the report, the progress and the picture, so that one thing has one name.
"""

from __future__ import annotations

from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.core.search import Claim, ClaimKind, Criterion, PeakResult, PeakStatus
from benchwright.findings.load_text import (
    limit_text,
    name_of,
    number_text,
    percent_text,
    value_text,
)


def rate_text(rate: float) -> str:
    """Return a rate with up to five digits: `236.34/s`, `12,500/s`."""
    return f"{number_text(rate)}/s"


def bound_text(rate: float, status: PeakStatus) -> str:
    """Return an answer's rate: `236.34/s`, or what it is a bound of, `below 1/s`."""
    if status is PeakStatus.FAILS_AT_LOWEST:
        return f"below {rate_text(rate)}"
    more = " or more" if status is PeakStatus.NEVER_FAILS else ""
    return f"{rate_text(rate)}{more}"


def seconds_text(seconds: float) -> str:
    """Return a length of time as a search counts it: `0.35 s`, `48.5 s`, `1,260 s`."""
    text = f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
    return f"{text} s"


def probability_text(probability: float) -> str:
    """Return a probability in per cent, never as certainty: `97.3 %`, `> 99.9 %`."""
    if probability > 0.999:
        return "> 99.9 %"
    if probability < 0.001:
        return "< 0.1 %"
    return percent_text(probability)


def criterion_text(criterion: Criterion) -> str:
    """Return a criterion as a person writes it: `mean response < 40 ms`."""
    return f"{name_of(criterion)} {limit_text(criterion)}"


def claim_text(claim: Claim, binding: Criterion | None) -> str:
    """Return a claim in words: what is promised of the answer."""
    share = f"{100 * claim.tolerance:.10g} %"
    if claim.kind is ClaimKind.RATE:
        return f"within ±{share} of the true peak rate"
    if claim.kind is ClaimKind.SLO:
        level = f"{100 * claim.confidence:.10g} %"
        return f"the criteria hold here with probability {level} at least"
    limit = "the limit" if binding is None else value_text(binding, binding.limit)
    return f"the true response here is within ±{share} of {limit}"


def interval_text(interval: Estimate | None) -> str:
    """Return `231.2 to 241.9/s at 95 %`; empty where there is no interval."""
    if interval is None:
        return ""
    low, high = number_text(interval.low), rate_text(interval.high)
    return f"{low} to {high} at {100 * interval.confidence:.10g} %"


def sample_text(sample: Pairs) -> str:
    """Return `workers=2, buffers=64M`."""
    return ", ".join(f"{name}={level}" for name, level in sample)


def binding_criterion(
    result: PeakResult, criteria: tuple[Criterion, ...]
) -> Criterion | None:
    """Return the criterion that limits the peak; the only one where there is one."""
    named = (one for one in criteria if one.key == result.binding)
    return next(named, criteria[0] if len(criteria) == 1 else None)
