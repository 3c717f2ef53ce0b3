"""What is examined before a claim: runs beside the answer, a change with time, and a jump of the
response across the region of the claim, without a rate in it.

Decision: a side of the answer agrees if most of its runs do, because a run at 0.95 of the peak of a
noisy server exceeds the limit now and then. A side that contradicts the answer gets more runs, and
then the search ends undecided. Decision: a change with time is looked for in the responses of the
runs near the limit, beside their slope over the rates: so runs at different rates are one series.
It is the largest difference between all runs up to a moment and those after it: a drift, a step and
a neighbour that comes are all seen.

At a step (a cache that is too small, a pool, a server that refuses) no rate has a response near the
limit, but a parabola through the runs on one side predicts one. Decision: a claim of the region
needs a run with a response in it. While there is none, runs are made in the middle of the unknown
interval of rates. If the interval is narrow and the responses on its sides differ far more than
they vary, the answer is a jump. Decision: the rates here are the intended ones. Where a server
jumps at a realised rate, the random number of arrivals mixes the sides, and the interval is as wide
as that variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.criterion import Criterion, criterion_name, criterion_value_text
from benchwright.core.numeric import np
from benchwright.core.text import list_text, number_text, rate_text
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.monotone_posterior import STEEPNESS_GRID, MonotoneRun
from benchwright.features.search.peak.policies.reading import is_as_long, is_much_longer
from benchwright.features.search.types import RateTally
from benchwright.stats.arrays import FloatArray


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


# -- runs beside the answer ---------------------------------------------------------------


class CheckSide(msgspec.Struct, frozen=True):
    """The runs near one rate beside the answer."""

    share: float
    """The rate as a share of the answer: 0.95."""
    tally: RateTally

    @property
    def size(self) -> int:
        """How many runs there are."""
        return self.tally.held + self.tally.failed

    @property
    def agrees(self) -> bool:
        """Whether most runs held below the answer (or at it), or failed above it."""
        most = self.tally.failed if self.share > 1 else self.tally.held
        return 2 * most > self.size


def check_side(
    share: float, rate: float, apart: float, runs: Sequence[tuple[float, bool]]
) -> CheckSide:
    """Return what runs show at a rate [1/s] and up to half the check's distance from it; of each
    run its rate and whether it held."""
    near = [holds for at, holds in runs if abs(at / rate - 1) <= apart / 2]
    held = sum(near)
    return CheckSide(share, RateTally(rate, held, len(near) - held))


def check_text(tallies: Sequence[RateTally], answer: float) -> str:
    """Return the check of an answer [1/s]: `at 0.95 of it held 3 of 3; at 1.05 of it exceeded a
    limit 3 of 3`."""
    parts = []
    for tally in tallies:
        n = tally.held + tally.failed
        share = tally.rate / answer
        word, some = (
            ("exceeded a limit", tally.failed) if round(share, 3) > 1 else ("held", tally.held)
        )
        if n:
            parts.append(f"at {number_text(share, 3)} of it {word} {some} of {n}")
    return "; ".join(parts)


# -- a change with time -------------------------------------------------------------------


class Movement(msgspec.Struct, frozen=True):
    """A change of the peak during a search."""

    before: float
    """Mean peak that the runs before the change imply [1/s]."""
    after: float
    """... and those after it."""
    evidence: str

    @property
    def share(self) -> float:
        """The change as a share of the lower peak."""
        return max(self.before, self.after) / min(self.before, self.after) - 1


def movement(
    criterion: Criterion,
    history: Sequence[LoadTrial],
    runs: Sequence[MonotoneRun],
    steepness: float,
) -> Movement | None:
    """Return the clearest change with time that the runs near the limit show; None where there is
    none."""
    near = [pair for pair in zip(history, runs, strict=True) if pair[1].near]
    least = tuning.MOVED_LEAST_RUNS
    if len(near) < 2 * least:
        return None
    rates = np.log([run.rate for _, run in near])
    levels = np.log([run.value for _, run in near])
    best, best_z, shift = 0, tuning.CERTAIN_Z, 0.0
    for split in range(least, len(near) - least + 1):
        jump, error = _jump(rates, levels, split)
        if abs(jump) > best_z * error:
            best, best_z, shift = split, abs(jump) / error, jump / steepness
    if not best:
        return None
    middle, after = float(np.mean(rates - levels / steepness)), best / len(near)
    before_rate = math.exp(middle + shift * (1 - after))
    after_rate = math.exp(middle - shift * after)
    text = _control_text(criterion, near, before_rate, after_rate)
    return Movement(before_rate, after_rate, text)


def _jump(rates: FloatArray, levels: FloatArray, split: int) -> tuple[float, float]:
    """Return by how much the logarithm of the response grew from the runs before a moment to those
    after it, at the same rate, and its standard error. The slope over the rates is fitted too,
    because a search goes on from low rates."""
    later = np.arange(rates.size) >= split
    inputs = np.column_stack((np.ones(rates.size), rates - rates.mean(), later))
    found, *_ = np.linalg.lstsq(inputs, levels, rcond=None)
    left = levels - inputs @ found
    variance = float(left @ left) / (rates.size - 3)
    spread = np.linalg.pinv(inputs.T @ inputs)
    return float(found[2]), math.sqrt(variance * float(spread[2, 2])) + 1e-9


def _control_text(
    criterion: Criterion, near: Sequence[tuple[LoadTrial, MonotoneRun]], before: float, after: float
) -> str:
    """Return the values in time at the rate that was repeated most often, the control."""
    rates = [trial.rate for trial, _ in near]
    control = max(rates, key=rates.count)
    points = [
        criterion_value_text(criterion, trial.values[criterion.key])
        for trial, _ in near
        if trial.rate == control and criterion.key in trial.values
    ]
    return (
        f"the trials imply a peak of {rate_text(before)} first and of {rate_text(after)} later; at "
        f"{rate_text(control)} the {criterion_name(criterion)} was {list_text(points)}, in this order"
    )
