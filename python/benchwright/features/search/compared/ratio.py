"""The ratio of two peaks, with its interval and a verdict. Pure.

Decision: the interval is that of a difference of two estimates with unequal ends (MOVER), on
logarithms: a search's interval is rarely as wide above its answer as below. Decision: a search that
ended without its claim has a verdict only by a bound: its interval says that the peak may also
be beyond it. Then the ratio is shown, and the verdict is `undecided`.
Source: A. Donner and G. Y. Zou, Closed-form confidence intervals for functions of the normal mean and
standard deviation, Statistical Methods in Medical Research 21 (2012), 347-359, section 2.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate
from benchwright.features.search.types import ClaimResult, PeakStatus
from benchwright.stats import special


class PeakVerdict(enum.StrEnum):
    """What two searches show about the second peak against the first."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no-difference-shown"
    UNDECIDED = "undecided"
    """A search did not end with its claim, and its bound does not decide."""


class PeakRatio(msgspec.Struct, frozen=True, kw_only=True):
    """The second peak over the first."""

    sample: Pairs
    """() for two searches, which may be of different samples."""
    first: ClaimResult
    second: ClaimResult
    ratio: Estimate | None
    """With an end of 0 or infinity where one peak has only a bound; its value is then NaN. None:
    one search has no rate, or no interval."""
    verdict: PeakVerdict
    why: str = ""
    """Of `undecided`: which search did not end."""


class _Ends(msgspec.Struct, frozen=True):
    """The logarithm of a peak, and its ends; infinite where there is none."""

    value: float
    low: float
    high: float


def compare_peaks(
    first: ClaimResult, second: ClaimResult, confidence: float, sample: Pairs = ()
) -> PeakRatio:
    """Return the ratio of two peaks at a confidence."""
    a, b = _ends(first, confidence), _ends(second, confidence)
    ratio = None if a is None or b is None else _ratio(a, b, confidence)
    open_ones = [
        f"the {name} search ended {result.status}"
        for name, result in (("first", first), ("second", second))
        if not _is_known(result)
    ]
    verdict = _verdict(ratio, ended=not open_ones)
    why = ", ".join(open_ones)
    if verdict is PeakVerdict.UNDECIDED and not why:
        why = "a peak is known only by a bound"
    return PeakRatio(
        sample=sample,
        first=first,
        second=second,
        ratio=ratio,
        verdict=verdict,
        why=why if verdict is PeakVerdict.UNDECIDED else "",
    )


def _is_known(result: ClaimResult) -> bool:
    """Return whether a search ended with its claim, or with a bound."""
    return result.status is PeakStatus.FOUND or result.bound_kind is not None


def _verdict(ratio: Estimate | None, *, ended: bool) -> PeakVerdict:
    if ratio is None or not ended:
        return PeakVerdict.UNDECIDED
    if ratio.low > 1:
        return PeakVerdict.BETTER
    if ratio.high < 1:
        return PeakVerdict.WORSE
    bounded = math.isinf(ratio.high) or ratio.low == 0
    return PeakVerdict.UNDECIDED if bounded else PeakVerdict.NO_DIFFERENCE


def _ends(result: ClaimResult, confidence: float) -> _Ends | None:
    """Return what a search says about its peak; a claim without an interval counts with its
    tolerance. None where it says nothing that has ends."""
    rate, interval = result.peak_rate, result.interval
    if not rate or result.status is PeakStatus.FAILED:
        return None
    value = math.log(rate)
    if result.bound_kind == "lower":
        return _Ends(math.nan, value, math.inf)
    if result.bound_kind == "upper":
        return _Ends(math.nan, -math.inf, value)
    if interval is not None and 0 < interval.low <= interval.high < math.inf:
        wider = special.normal_quantile((1 + confidence) / 2) / special.normal_quantile(
            (1 + interval.confidence) / 2
        )
        below, above = math.log(rate / interval.low), math.log(interval.high / rate)
        # An answer may lie at an end of its interval, or hardly beyond.
        return _Ends(value, value - wider * max(below, 0.0), value + wider * max(above, 0.0))
    if result.status is not PeakStatus.FOUND:
        return None
    by = result.claim.tolerance
    return _Ends(value, value + math.log1p(-by), value + math.log1p(by))


def _ratio(a: _Ends, b: _Ends, confidence: float) -> Estimate:
    if math.isnan(a.value) or math.isnan(b.value):
        value, low, high = math.nan, b.low - a.high, b.high - a.low
    else:
        value = b.value - a.value
        low = value - math.hypot(b.value - b.low, a.high - a.value)
        high = value + math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(_exp(value), _exp(low), _exp(high), confidence, "mover", 2)


def _exp(value: float) -> float:
    return math.inf if value == math.inf else math.exp(value)


def compare_samples(
    first: Mapping[Pairs, ClaimResult], second: Mapping[Pairs, ClaimResult], confidence: float
) -> tuple[PeakRatio, ...]:
    """Return the ratios of the samples that two surfaces have in common: all intervals hold together
    at the confidence (Bonferroni)."""
    both = [sample for sample in first if sample in second]
    each = 1 - (1 - confidence) / max(1, len(both))
    return tuple(compare_peaks(first[one], second[one], each, one) for one in both)
