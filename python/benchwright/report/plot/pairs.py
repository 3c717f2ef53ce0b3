"""The ratio of two tests: paired by block where they ran in blocks, else each by itself.

Decision: arms of one comparison (`bw compare`) are compared as that compared them: the
mean of the blocks' log ratios, with the confidence sequence that holds however often it
was looked at. Everything else is Welch's on logarithms. So a picture and the verdict
that is stored agree. Sources: stats.confidence_sequence, stats.two_sample.
"""

from __future__ import annotations

import math

import numpy as np

from benchwright.model.estimate import Estimate
from benchwright.report.plot.source import Source
from benchwright.stats.aggregate import Column
from benchwright.stats.confidence_sequence import t_mixture_interval
from benchwright.stats.moments import FloatArray
from benchwright.stats.two_sample import ratio_of_means


def ratio(baseline: Source, test: Source, name: str, confidence: float) -> Estimate:
    """Return test / baseline of a quantity that both have; NaN where a value is not
    positive, a NaN interval where there are too few."""
    one, other = baseline.columns[name], test.columns[name]
    if not _paired(baseline, test):
        return ratio_of_means(one.values, other.values, confidence)
    if min(one.values.min(), other.values.min()) <= 0:
        return Estimate(math.nan, math.nan, math.nan, confidence, "paired", 0, "ratio")
    assert test.arm is not None
    found = t_mixture_interval(
        _log_ratios(one, other, test.arm.trials_per_block), confidence
    )
    method = f"{found.method}, paired"
    value, low, high = map(_exp, (found.value, found.low, found.high))
    return Estimate(value, low, high, confidence, method, found.n, "ratio")


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


def _paired(baseline: Source, test: Source) -> bool:
    """Tell whether both are arms of one comparison in blocks."""
    one, other = baseline.arm, test.arm
    if one is None or other is None:
        return False
    same = one.comparison == other.comparison and one.place != other.place
    return same and one.paired and other.paired


def _log_ratios(baseline: Column, test: Column, per_block: int) -> FloatArray:
    """Return the log ratio of every block in which both have all of their trials."""
    one, other = _by_block(baseline, per_block), _by_block(test, per_block)
    return np.array(
        [
            float(np.mean(other[block])) - float(np.mean(one[block]))
            for block in sorted(one.keys() & other.keys())
            if len(one[block]) == len(other[block]) == per_block
        ]
    )


def _by_block(column: Column, per_block: int) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    logs = np.log(column.values).tolist()
    for epoch, value in zip(column.epochs.tolist(), logs, strict=True):
        found.setdefault((epoch - 1) // per_block, []).append(value)
    return found
