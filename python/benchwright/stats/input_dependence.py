"""How values depend on inputs that were drawn for them.

For numbers: the least-squares line of the logarithms of the values, along the numbers or, where these
are positive and span a factor of ten, along their logarithms; its interval is Student's. For texts: the
mean over the population of such inputs, each of them a replicate (stats/nested.py), with how much they
differ. Decision: the effect over the observed range, not a slope, because a reader knows the range and
no unit of a slope of logarithms. Non-goals: curves, several inputs together.
Source: N. R. Draper and H. Smith 1998, Applied Regression Analysis, chapter 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.results import Estimate
from benchwright.stats.intervals import t_quantile

if TYPE_CHECKING:
    from benchwright.stats.nested import NestedEstimate, ReplicateSummary

_LEAST_TRIALS = 4
"""A line through fewer has hardly any degrees of freedom."""
_LOG_FROM = 10.0
LINE_METHOD = "least-squares-log"


def is_wide(inputs: Sequence[float]) -> bool:
    """Return whether numbers are positive and span a factor that only their logarithms show."""
    low, high = min(inputs, default=0.0), max(inputs, default=0.0)
    return low > 0 and high >= _LOG_FROM * low


class NumberDependence(msgspec.Struct, frozen=True):
    """How values change over the range of a number."""

    low: float
    """The least input that was drawn."""
    high: float
    factor: Estimate
    """Value at the largest input / value at the least, by the line."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes that nothing changes."""
        return not self.factor.low <= 1 <= self.factor.high


def number_dependence(
    inputs: Sequence[float], values: Sequence[float], confidence: float = 0.95
) -> NumberDependence | None:
    """Return how positive values depend on numbers, shapes `(n,)`; None where too few trials or
    numbers, or a value that is not positive, allow no line."""
    low, high = min(inputs, default=0.0), max(inputs, default=0.0)
    if len(values) < _LEAST_TRIALS or low == high or min(values) <= 0:
        return None
    is_log = is_wide(inputs)
    x = [math.log(one) if is_log else one for one in inputs]
    y = [math.log(one) for one in values]
    n = len(x)
    mean_x, mean_y = math.fsum(x) / n, math.fsum(y) / n
    square = math.fsum((one - mean_x) ** 2 for one in x)
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / square
    rest = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    error = math.sqrt(rest / (n - 2) / square)
    extent = max(x) - min(x)
    half = t_quantile(confidence, n - 2) * error
    ends = (slope, slope - half, slope + half)
    try:
        value, least, most = (math.exp(one * extent) for one in ends)
    except OverflowError:
        return None
    return NumberDependence(low, high, Estimate(value, least, most, confidence, LINE_METHOD, n))


class TextDependence(msgspec.Struct, frozen=True):
    """How values differ between inputs that are texts."""

    inputs: int
    spread: Estimate
    """Standard deviation between the means of all such inputs, in the values' unit."""
    mean: Estimate
    """Over the population of such inputs, each of which counts alike."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes that they do not differ."""
        return self.spread.low > 0


def text_dependence(
    inputs: Sequence[str], values: Sequence[float], confidence: float = 0.95
) -> TextDependence | None:
    """Return how values differ between texts, shapes `(n,)`; None unless two of them have two trials."""
    from benchwright.stats.nested import nested_estimate

    places = {text: place for place, text in enumerate(dict.fromkeys(inputs))}
    if sum(inputs.count(text) > 1 for text in places) < 2:
        return None
    paths = [[places[text]] for text in inputs]
    return _dependence(nested_estimate(values, paths, confidence, ("input",)))


def summary_dependence(
    inputs: Sequence[ReplicateSummary], confidence: float = 0.95
) -> TextDependence | None:
    """Return how values differ between inputs of which each has many values; None unless two of them
    have two."""
    from benchwright.stats.nested import summary_estimate

    if sum(one.count > 1 for one in inputs) < 2:
        return None
    return _dependence(summary_estimate(inputs, confidence, "input"))


def _dependence(found: NestedEstimate) -> TextDependence:
    outer, mean = found.components[0], found.mean
    low, high = (math.sqrt(max(end, 0.0)) for end in (outer.low, outer.high))
    spread = Estimate(outer.sdev, low, high, mean.confidence, mean.method, found.replicates)
    return TextDependence(found.replicates, spread, mean)
