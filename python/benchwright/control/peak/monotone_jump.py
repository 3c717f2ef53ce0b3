"""Whether the response crosses the region of a claim in a jump, between two rates.

Purpose: a step (a cache that no longer holds, a pool, a server that refuses) has no rate with a
response near the limit, and a parabola through the runs on one side of it claims one.
Decision: a claim of the region needs a run that saw a response in it. While there is none, runs
are aimed into the middle of what is not known; where what is left is narrow and the runs
on either side keep apart far beyond their scatter, that is the answer: a jump.
Decision: rates are the intended ones; where a server jumps at a realised rate, the chance in
arrivals mixes the sides, and what is left is as wide as that chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.monotone_near import STEEPNESS, Run

NARROW = 0.01
"""So near, relatively, are rates between which a jump is sure."""
FEWEST = 3
"""Runs on either side of a jump."""
APART = 4.0
"""Standard deviations of a run that lie between the sides, beyond what the steepest curve
that is believed (`STEEPNESS`) has there."""
LONG = 0.5
"""Share of the longest run's seconds from which on a run saw what it saw."""
ENOUGH_S = 40.0
"""... and so many seconds are long enough [s]."""
MIXED = 4.0
"""Standard deviations of a run's number of arrivals over which sides may mix."""
BESIDE = 0.05
"""Runs so near the jump, relatively, tell how far apart its sides are."""


class Asked(msgspec.Struct, frozen=True):
    """A run beside the rate that was asked for."""

    rate: float
    """Intended [1/s]."""
    run: Run


class Crossing(msgspec.Struct, frozen=True):
    """What lies between the runs below a region and those above it."""

    low: float
    high: float
    """The highest rate that was below and the lowest that was above or failed, or, where
    they are mixed, these two the other way round [1/s]."""
    below: tuple[Asked, ...]
    above: tuple[Asked, ...]

    @property
    def middle(self) -> float:
        """The rate between them [1/s]."""
        return math.sqrt(self.low * self.high)

    @property
    def is_mixed(self) -> bool:
        """Tell whether a lower rate was above, and a higher one below."""
        return self.low not in {asked.rate for asked in self.below}

    def is_jump(self, noise_s: float) -> bool:
        """Tell whether the sides are close in rate and far apart in response.

        noise_s: relative variance of a run's mean at the limit, times its length [s].
        """
        if self.high > self.low * (1 + self._narrow()):
            return False
        below = [a.run for a in self.below if a.rate > self.low * (1 - BESIDE)]
        near = [a.run for a in self.above if a.rate < self.high * (1 + BESIDE)]
        above = [run for run in near if math.isfinite(run.value)]
        if any(math.isinf(a.run.value) for a in self.above if a.rate == self.high):
            return True
        if min(len(below), len(above)) < FEWEST:
            return False
        left = float(min(r.value for r in above) / max(r.value for r in below))
        steep = 0.0 if self.is_mixed else STEEPNESS[-1] * math.log(self.high / self.low)
        return math.log(left) - steep > APART * _deviation((below, above), noise_s)

    def _narrow(self) -> float:
        """Return how far apart the ends may be, relatively: further where sides mix."""
        if not self.is_mixed:
            return NARROW
        lasts_s = max(asked.run.lasts_s for asked in self.above)
        return NARROW + MIXED / math.sqrt(self.low * lasts_s)


def _deviation(sides: Sequence[Sequence[Run]], noise_s: float) -> float:
    """Return the standard deviation of a run's logarithm: its noise's or its side's."""
    scatter = [float(np.std(np.log([r.value for r in s]), ddof=1)) for s in sides]
    lasts_s = min(run.lasts_s for side in sides for run in side)
    return max(*scatter, math.sqrt(noise_s / lasts_s))


def crossing(every: Sequence[Asked], tolerance: float) -> Crossing | None:
    """Return where the response passes a region of this half-width without a run in it;
    None: a run saw it there, or one side is missing."""
    longest_s = max((a.run.lasts_s for a in every if a.run.near), default=0.0)
    long_s = min(LONG * longest_s, ENOUGH_S)
    sure = [a for a in every if not a.run.near or a.run.lasts_s >= long_s]
    below = tuple(a for a in sure if a.run.value < 1 - tolerance)
    above = tuple(a for a in sure if a.run.value > 1 + tolerance)
    if len(below) + len(above) < len(sure) or not below or not above:
        return None
    ends = max(a.rate for a in below), min(a.rate for a in above)
    return Crossing(min(ends), max(ends), below, above)
