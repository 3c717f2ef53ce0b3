"""What the trials at one test load say about the criterion that binds there.

Purpose: the paper has one mean response and one share of requests; a goal may have any
criteria. At a load the one binds whose mean exceeds its limit most (or stays least under
it), relative to the limit; its Student-t interval and its peak region are judged.
Source: Workbench paper, section 2.1 (interval, accuracy), section 4 (region,
[R_sat +- s R_sat] and in the same way [P_sat +- s P_sat]), appendix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from benchwright.control.peak.seen import counted_rate
from benchwright.model.estimate import Estimate
from benchwright.model.peak import Criterion, LoadEnding, LoadTrial, PeakGoal
from benchwright.stats.students_t import t_interval


class Reading(msgspec.Struct, frozen=True):
    """A test load's response, by the means of its trials."""

    rate: float
    """Mean of the trials' rates [1/s]."""
    criterion: Criterion
    """The one that binds here."""
    values: tuple[float, ...]
    """One mean per trial."""
    saturated: bool
    """Whether any criterion's mean is past its limit."""
    lost: bool = False
    """Whether the server failed here, or a value is infinite: no interval then."""

    @property
    def mean(self) -> float:
        """Return the mean of the trials' values; infinite where one was lost."""
        if self.lost:
            return math.inf
        return sum(self.values) / len(self.values)

    def interval(self, confidence: float) -> Estimate:
        """Return the Student-t interval of the mean; NaN ends for one trial."""
        return _interval(self.values, confidence, self.criterion.unit)

    def overlaps(self, width: float, confidence: float) -> bool:
        """Tell whether the interval and the peak region have a value in common.

        `width` is the paper's s, a share of the limit.
        """
        limit = self.criterion.limit
        found = self.interval(confidence)
        return found.low <= limit * (1 + width) and found.high >= limit * (1 - width)

    def accuracy(self, confidence: float) -> float:
        """Return the paper's accuracy, 1 - (high - low) / (high + low), equation 2."""
        found = self.interval(confidence)
        if found.high == found.low:
            return 1.0
        total = found.high + found.low
        return 1 - (found.high - found.low) / total if total > 0 else -math.inf


@lru_cache(maxsize=4096)
def _interval(values: tuple[float, ...], confidence: float, unit: str) -> Estimate:
    """Return the interval; kept, since a replay asks for the same ones again."""
    return t_interval(values, confidence, unit)


def reading(goal: PeakGoal, trials: Sequence[LoadTrial]) -> Reading:
    """Return what the trials at one load, at least one, come to."""
    rates = {counted_rate(trial) for trial in trials}
    columns = [_column(criterion, trials) for criterion in goal.criteria]
    means = [sum(column) / len(column) for column in columns]
    pairs = list(zip(goal.criteria, means, strict=True))
    at = max(range(len(pairs)), key=lambda i: excess(*pairs[i]))
    lost = any(trial.ending is LoadEnding.FAILED for trial in trials)
    return Reading(
        rate=math.fsum(rates) / len(rates),
        criterion=goal.criteria[at],
        values=columns[at],
        saturated=not all(criterion.holds(mean) for criterion, mean in pairs),
        lost=lost or not math.isfinite(means[at]),
    )


def excess(criterion: Criterion, mean: float) -> float:
    """Return how far a mean is past its limit, as a share of it; negative within."""
    past = mean - criterion.limit
    past = past if criterion.better == "lower" else -past
    return past / abs(criterion.limit) if criterion.limit else past


def _column(criterion: Criterion, trials: Sequence[LoadTrial]) -> tuple[float, ...]:
    """Return one value per trial; a trial that failed is past every limit."""
    worst = math.inf if criterion.better == "lower" else -math.inf
    return tuple(
        worst
        if trial.ending is LoadEnding.FAILED
        else trial.values.get(criterion.key, worst)
        for trial in trials
    )
