"""The climb of the queue-guided search: from a first rate to one on either side of the peak."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.control.peak.clock import clock_of
from benchwright.control.peak.qgs_reading import Reading, believed, limit_s, read
from benchwright.model.peak import LoadTrial, PeakGoal, Probe, written_rate

CLIMB_S = 20.0
CLIMB_UNWATCHED_S = 8.0
WIDE = 5.0
"""Bracket, as a ratio of rates, that the climb halves before the curve is asked."""
DESCENT = (2.0, 4.0, 16.0)
"""By how much each next rate is lower while nothing holds."""
BELOW_CAPACITY = 0.7
"""A first descent goes to this share of the capacity, if overload told one."""


class ReadTrials(msgspec.Struct, frozen=True):
    """What the trials show before a curve is fitted."""

    goal: PeakGoal
    history: Sequence[LoadTrial]
    runs: tuple[Reading, ...]
    below: tuple[float, ...]
    """Rates at which the limit held [1/s]."""
    above: tuple[float, ...]
    """... and did not [1/s]."""

    @property
    def clock(self) -> float:
        """By how much lengths are shorter than usual."""
        return clock_of(limit_s(self.goal.criteria[0]))

    @property
    def start(self) -> tuple[float, float]:
        """A low and a high guess of the peak [1/s]."""
        low = max(self.below, default=min(self.above, default=1.0) / 4)
        high = min(self.above, default=4 * low)
        return min(low, high), max(low, high)

    def climb(self) -> Probe | None:
        """Return the next probe of the climb, or None when the peak is bracketed."""
        length = self.clock * (CLIMB_S if self.goal.watched else CLIMB_UNWATCHED_S)
        length = self.goal.run_length_s or max(length, self.goal.restart_s)
        rate = self._climbs_to()
        return None if rate is None else Probe(written_rate(rate), length, "climb")

    def _climbs_to(self) -> float | None:
        """Return the climb's next rate [1/s]: doubled while all holds, and down in ever
        longer steps while nothing does; None when the peak is bracketed closely enough."""
        if not self.history:
            return self.goal.start_rate
        if not self.above:
            return 2 * max(self.below)
        if self.below:
            low, high = max(self.below), min(self.above)
            return math.sqrt(low * high) if high > WIDE * low else None
        down = DESCENT[min(len(self.above), len(DESCENT)) - 1]
        told = [run.capacity.rate for run in self.runs if run.capacity is not None]
        if len(self.above) == 1 and told:
            return min(self.above[0] / down, BELOW_CAPACITY * told[0])
        return min(self.above) / down


def read_trials(goal: PeakGoal, history: Sequence[LoadTrial]) -> ReadTrials:
    """Return what the trials show of the goal's first criterion."""
    runs = believed(read(goal.criteria[0], history)).runs
    pairs = [
        (trial.offered_rate, run.steady and run.value <= 1)
        for trial, run in zip(history, runs, strict=True)
    ]
    return ReadTrials(
        goal=goal,
        history=history,
        runs=runs,
        below=tuple(rate for rate, holds in pairs if holds),
        above=tuple(rate for rate, holds in pairs if not holds),
    )
