"""A criterion: a limit on a value of a trial under load, and its texts."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from benchwright.core.text import ABSENT, number_text, percent_text


class Criterion(msgspec.Struct, frozen=True):
    """A condition at a load: a value of the trial is on the right side of a limit."""

    key: str
    """Names the value among those of a trial: `response_ms_mean`, `response_ms_p99`, `first_ms_p95`,
    `within_40ms_share`, `good_share`, `error_ratio`, or a user's metric; with `of` behind it for a
    group of operations: `response_ms_p99 of read@data`."""
    limit: float
    """In the value's unit."""
    unit: str = "ms"
    better: Literal["lower", "higher"] = "lower"
    statistic: Literal["mean", "percentile", "share", "ratio", "metric"] = "mean"
    """The kind of value, which determines the shape and noise of its curve."""
    share: float | None = None
    """Of a percentile: 0.99."""
    of: str = ""
    """The group of the operations; empty: all."""

    @property
    def value(self) -> str:
        """The name of the value, whatever operations it is of."""
        return self.key.removesuffix(f" of {self.of}") if self.of else self.key

    def holds(self, value: float) -> bool:
        """Return whether a value meets the limit; a value equal to the limit does."""
        return value <= self.limit if self.better == "lower" else value >= self.limit


def criterion_name(criterion: Criterion) -> str:
    """Return the name of the value that a criterion limits: `p99 response`, `errors of read@data`."""
    return f"{_value_name(criterion)} of {criterion.of}" if criterion.of else _value_name(criterion)


def _value_name(criterion: Criterion) -> str:
    if criterion.statistic == "mean":
        return f"mean {timed_quantity(criterion)}"
    if criterion.statistic == "percentile" and criterion.share is not None:
        return f"p{100 * criterion.share:.10g} {timed_quantity(criterion)}"
    if criterion.statistic == "ratio":
        return "errors"
    if criterion.statistic == "share":
        return criterion.value.removesuffix("_share").replace("_", " ")
    return criterion.key


def timed_quantity(criterion: Criterion) -> str:
    """Return the time that a mean or a percentile is of: `response`, `largest gap`."""
    name, is_time, _ = criterion.value.partition("_ms_")
    return name.replace("_", " ") if is_time else "response"


def criterion_value_text(criterion: Criterion, value: float | None) -> str:
    """Return a criterion's value with its unit; `-` if it is unknown."""
    if value is None or math.isnan(value):
        return ABSENT
    if criterion.statistic in ("share", "ratio"):
        return percent_text(value)
    if math.isinf(value):
        return "longer than any response that was waited for"
    return f"{number_text(value)} {criterion.unit}".rstrip()


def criterion_limit_text(criterion: Criterion) -> str:
    """Return the limit of a criterion: `< 40 ms`."""
    limit = criterion_value_text(criterion, criterion.limit) if criterion.limit else "0"
    return f"{'<' if criterion.better == 'lower' else '>'} {limit}"


def criterion_text(criterion: Criterion) -> str:
    """Return a criterion as text: `mean response < 40 ms`."""
    return f"{criterion_name(criterion)} {criterion_limit_text(criterion)}"
