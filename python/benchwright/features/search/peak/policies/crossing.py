"""A jump of the response across the region of a claim, without a rate in it.

At a step (a cache that is too small, a pool, a server that refuses) no rate has a response
near the limit, but a parabola through the runs on one side predicts one.
Decision: a claim of the region needs a run with a response in it. While there is none, runs
are made in the middle of the unknown interval of rates. If the interval is narrow and the
responses on its sides differ far more than they vary, the answer is a jump.
Decision: the rates here are the intended ones. Where a server jumps at a realised rate, the random
number of arrivals mixes the sides, and the interval is as wide as that variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.monotone_posterior import STEEPNESS_GRID, MonotoneRun
from benchwright.features.search.peak.policies.reading import is_as_long, is_much_longer


class IntendedRun(msgspec.Struct, frozen=True):
    """A run with its intended rate."""

    rate: float
    """Intended [1/s]."""
    run: MonotoneRun


class RegionCrossing(msgspec.Struct, frozen=True):
    """The interval of rates between the runs below a region and those above it."""

    low: float
    high: float
    """`low` is the highest rate below the region, `high` the lowest rate above it or failed;
    where the sides are mixed, the other way round [1/s]."""
    below: tuple[IntendedRun, ...]
    above: tuple[IntendedRun, ...]

    @property
    def middle(self) -> float:
        """The rate between them [1/s]."""
        return math.sqrt(self.low * self.high)

    @property
    def is_mixed(self) -> bool:
        """Whether a lower rate was above the region and a higher one below it."""
        return self.low not in {side.rate for side in self.below}

    def is_jump(self, noise_s: float) -> bool:
        """Return whether the sides are close in rate and far apart in response.

        `noise_s` is the relative variance of a run's mean at the limit, times its length [s].
        """
        if self.high > self.low * (1 + self._narrow()):
            return False
        beside = tuning.CHECK_APART
        below = [s.run for s in self.below if s.rate > self.low * (1 - beside)]
        near = [s.run for s in self.above if s.rate < self.high * (1 + beside)]
        above = [run for run in near if math.isfinite(run.value)]
        # Short runs a few per cent above may be a queue's: they are cut where they seem to be
        # clear.
        over = [
            s.run
            for s in self.above
            if s.rate < self.high * (1 + self._narrow()) and math.isinf(s.run.value)
        ]
        if len(over) >= 2 and not self.is_mixed:
            return True
        if min(len(below), len(above)) < tuning.ENOUGH_TRIALS:
            return False
        ratio = min(run.value for run in above) / max(run.value for run in below)
        steep = 0.0
        if not self.is_mixed:
            steep = float(STEEPNESS_GRID[-1]) * math.log(self.high / self.low)
        least = tuning.CERTAIN_Z * _deviation((below, above), noise_s)
        return math.log(ratio) - steep > least

    def _narrow(self) -> float:
        """Return the largest relative distance of the ends for a jump; larger where sides mix."""
        if not self.is_mixed:
            return tuning.JUMP_NARROW
        lasts_s = max(side.run.lasts_s for side in self.above)
        return tuning.JUMP_NARROW + tuning.CERTAIN_Z / math.sqrt(self.low * lasts_s)


def _deviation(sides: Sequence[Sequence[MonotoneRun]], noise_s: float) -> float:
    """Return the standard deviation of a run's logarithm: the largest of the noise and the sides'
    scatter."""
    scatter = [float(np.std(np.log([r.value for r in s]), ddof=1)) for s in sides]
    lasts_s = min(run.lasts_s for side in sides for run in side)
    return max(*scatter, math.sqrt(noise_s / lasts_s))


def region_crossing(runs: Sequence[IntendedRun], tolerance: float) -> RegionCrossing | None:
    """Return where the response crosses a region of this half-width without a run in it; None
    if a run had a response in the region, or if one side has no run."""
    longest_s = max((r.run.lasts_s for r in runs if r.run.near), default=0.0)
    long_s = longest_s / tuning.CONTRARY_LONGER
    sure = [
        r
        for r in runs
        if (is_as_long(r.run.lasts_s, long_s) or not r.run.near) and not _in_doubt(r, runs)
    ]
    below = tuple(r for r in sure if r.run.value < 1 - tolerance)
    above = tuple(r for r in sure if r.run.value > 1 + tolerance)
    if len(below) + len(above) < len(sure) or not below or not above:
        return None
    ends = max(r.rate for r in below), min(r.rate for r in above)
    return RegionCrossing(min(ends), max(ends), below, above)


def _in_doubt(one: IntendedRun, runs: Sequence[IntendedRun]) -> bool:
    """Return whether a much longer run contradicts one: it was below the limit at no lower a rate,
    or above it at no higher one. A few seconds with a pause of the server seem to be overload."""
    for other in runs:
        longer = is_much_longer(other.run.lasts_s, one.run.lasts_s)
        holds = one.run.value > 1 > other.run.value and other.rate >= one.rate
        fails = one.run.value < 1 < other.run.value and other.rate <= one.rate
        if longer and (holds or fails):
            return True
    return False
