"""The check of an answer before a search ends: runs beside it, and a change with time.

Decision: a side of the answer agrees if most of its runs do, because a run at 0.95 of the peak of a
noisy server exceeds the limit now and then. A side that contradicts the answer gets more runs, and
then the search ends undecided. Decision: a change with time is looked for in the responses of the
runs near the limit, beside their slope over the rates: so runs at different rates are one series.
It is the largest difference between all runs up to a moment and those after it: a drift, a step and
a neighbour that comes are all seen.
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
from benchwright.features.search.peak.policies.monotone_posterior import MonotoneRun
from benchwright.features.search.types import RateTally
from benchwright.stats.arrays import FloatArray

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
