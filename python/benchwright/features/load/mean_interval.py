"""How far the mean of a load may be from that of a longer one, by its intervals.

Purpose: responses of a server near its capacity resemble their neighbours for seconds, and a mean is
decided by a few busy periods. Model: interval means as AR(1), whose correlation is made larger by its
bias in a short series; and means of ever longer parts, of which the largest spread counts: the
correlation of a queue lasts longer than that of AR(1). Decision: the interval is one of the logarithm,
because such means are skewed, and a load that lacks a busy period has a small mean and a small spread
alike, so that the upper end needs a larger quantile than the lower one (`ABOVE`, by simulation of
M/M/1: docs/calibration.md). Known limit: a load of fewer than about ten relaxation times of its queue
cannot show what it lacks. Sources: M. Kendall 1954, Note on bias in the estimation of autocorrelation,
Biometrika 41; A. Law and W. Kelton 1984, Confidence intervals for steady-state simulations, Operations
Research 32(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.features.load.types import IntervalResult
from benchwright.stats import special
from benchwright.stats.arrays import FloatArray

BELOW, ABOVE = 0.975, 0.99
"""Quantiles of Student's t of the lower and the upper end."""
FEWEST = 5
"""From this number of intervals or parts on, their means show how much a mean varies."""
_STRONGEST = 0.97


class PartMeans(msgspec.Struct, frozen=True):
    """The means of a load's intervals: numbers of operations and sums of their times, shape `(n,)`."""

    counts: FloatArray
    totals: FloatArray

    @property
    def is_enough(self) -> bool:
        return self.counts.size >= FEWEST and float(self.counts.sum()) > 0

    @property
    def mean(self) -> float:
        return float(self.totals.sum() / self.counts.sum())

    @property
    def independent(self) -> float:
        """How many independent intervals these are worth: their number or fewer."""
        rest = self.totals - self.counts * self.mean
        squares = float(rest @ rest)
        if not squares:
            return float(rest.size)
        correlation = float(rest[1:] @ rest[:-1]) / squares
        correlation += (1 + 3 * correlation) / rest.size
        correlation = min(max(correlation, 0.0), _STRONGEST)
        return rest.size * (1 - correlation) / (1 + correlation)

    def half_width(self, quantile: float) -> float:
        """Return how far the mean may be from that of a longer load, in its unit."""
        independent = self.independent
        half = self._by(self.counts.size, self.counts, self.totals, quantile, independent)
        length = 1
        while self.counts.size // length >= FEWEST:
            parts = self.counts.size // length
            counts, totals = (
                one[: parts * length].reshape(parts, length).sum(axis=1)
                for one in (self.counts, self.totals)
            )
            half = max(half, self._by(parts, counts, totals, quantile, float(parts)))
            length *= 2
        return half

    @staticmethod
    def _by(
        parts: int, counts: FloatArray, totals: FloatArray, quantile: float, independent: float
    ) -> float:
        whole = float(counts.sum())
        rest = totals - counts * float(totals.sum()) / whole
        degrees = max(independent - 1, 1.0)
        deviation = math.sqrt(float(rest @ rest) * parts / degrees) / whole
        return special.t_quantile(degrees, quantile) * deviation


def ends(mean: float, below: float, above: float) -> tuple[float, float]:
    """Return the ends of a mean's interval, given half of its width on either side: those of the
    logarithm if it is positive."""
    if mean <= 0:
        return mean - below, mean + above
    return mean * math.exp(-below / mean), mean * math.exp(min(above / mean, 700.0))


def part_means(rows: list[tuple[int, float]]) -> PartMeans:
    """Return the intervals, each with its number of operations and their mean time."""
    counts = np.array([count for count, _ in rows], dtype=np.float64)
    return PartMeans(counts, counts * np.array([mean for _, mean in rows], dtype=np.float64))


def means_of_intervals(intervals: Sequence[IntervalResult]) -> PartMeans | None:
    """Return the mean responses of a load's intervals; None: they are too few."""
    found = part_means(
        [
            (one.completed - one.errors, one.response_ns_mean or 0.0)
            for one in intervals
            if one.response_ns_mean is not None or one.completed == one.errors
        ]
    )
    return found if found.is_enough else None
