"""Whether repeated searches agree, and whether long runs confirm them. Pure.

What counts as *the same peak within its interval*: the median of all answers is taken for
the common peak; a repetition agrees if it ended with an answer and its own interval holds
that median. One that ended without (budget, undecided, failed) does not agree, whatever
its interval. Beside it, because the median is made of the same answers: the most
intervals that any one rate lies in, and the share of ordered pairs in which one
repetition's answer lies in the other's interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

ENOUGH_SHARE = 0.9
"""Of the repetitions must agree."""


class Search(NamedTuple):
    """One repetition, as far as agreement goes."""

    found: bool
    """It ended with an answer."""
    peak: float | None
    low: float | None
    high: float | None
    cost_s: float

    def holds(self, rate: float) -> bool:
        """Return whether the interval holds a rate; one without an interval holds none."""
        if self.low is None or self.high is None:
            return False
        return self.low <= rate <= self.high


class Agreement(NamedTuple):
    """How far repetitions agree."""

    repetitions: int
    found: int
    median_peak: float | None
    agreeing: int
    """Found, and the interval holds the median answer."""
    most_common: int
    """Found, and the interval holds the rate that most of them hold."""
    pair_share: float | None
    """Of the ordered pairs of found ones; None with fewer than two."""
    widest_error: float | None
    """The largest distance of an answer from the median, as a share of it."""
    later_over_earlier: float | None
    """Median answer of the second half over that of the first: a drift of the machine."""
    median_cost_s: float | None
    """Of all repetitions, those without an answer too."""

    @property
    def kept(self) -> bool:
        """Return whether enough repetitions agree."""
        return bool(self.repetitions) and self.agreeing >= math.ceil(
            ENOUGH_SHARE * self.repetitions - 1e-9
        )


def agreement(searches: Sequence[Search]) -> Agreement:
    """Return how far repetitions, in the order in which they ran, agree."""
    found = [one for one in searches if one.found and one.peak is not None]
    peaks = [one.peak for one in found if one.peak is not None]
    median = statistics.median(peaks) if peaks else None
    return Agreement(
        repetitions=len(searches),
        found=len(found),
        median_peak=median,
        agreeing=0 if median is None else sum(one.holds(median) for one in found),
        most_common=_most_common(found),
        pair_share=_pair_share(found),
        widest_error=(
            None if median is None else max(abs(peak / median - 1) for peak in peaks)
        ),
        later_over_earlier=_later_over_earlier(peaks),
        median_cost_s=(
            statistics.median(one.cost_s for one in searches) if searches else None
        ),
    )


def _most_common(found: Sequence[Search]) -> int:
    """Return the most intervals that one rate lies in: it may be taken at a lower end."""
    ends = [one.low for one in found if one.low is not None]
    return max((sum(one.holds(end) for one in found) for end in ends), default=0)


def _pair_share(found: Sequence[Search]) -> float | None:
    pairs = [
        one.holds(other.peak)
        for i, one in enumerate(found)
        for j, other in enumerate(found)
        if i != j and other.peak is not None
    ]
    return sum(pairs) / len(pairs) if pairs else None


def _later_over_earlier(peaks: Sequence[float]) -> float | None:
    half = len(peaks) // 2
    if not half:
        return None
    return statistics.median(peaks[-half:]) / statistics.median(peaks[:half])


class LongRun(NamedTuple):
    """A fixed run beside the peak."""

    share: float
    """Its rate over the median answer."""
    rate: float
    holds: bool | None
    """Whether every criterion held; None: without values."""
    values: str
    """Of each criterion with its limit, as text."""


def confirmed(runs: Sequence[LongRun]) -> bool | None:
    """Return whether all runs below the peak held and all above failed; None without any
    run on one of the sides, or where a run has no values."""
    below = [run.holds for run in runs if run.share < 1]
    above = [run.holds for run in runs if run.share > 1]
    if not below or not above or None in (*below, *above):
        return None
    return all(below) and not any(above)


def cost_ratio(peer: Search, ours: Agreement) -> str:
    """Return a peer's cost over our median one; a peer that was cut off costs at least so
    much."""
    if not ours.median_cost_s:
        return "unknown"
    ratio = peer.cost_s / ours.median_cost_s
    return f"{'' if peer.found else 'at least '}{ratio:.1f}"
