"""The strawman of the workbench paper: what scripts commonly do.

A fixed number of trials of a fixed length at every load of a linear sequence, until a load
saturates the server; the answer is the largest load that did not.
Decision: a first load that saturates (a seed above the peak) turns the sequence downward;
the paper starts low and does not say.
Source: Workbench paper, section 3 and figure 3 (10 trials of 5 minutes).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.control.peak.algorithm2 import by_rate, result_at
from benchwright.control.peak.bounds import within_bounds
from benchwright.control.peak.load_picking import STEP_PER_S
from benchwright.control.peak.reading import Reading, reading
from benchwright.model.peak import LoadTrial, PeakGoal, PeakResult, PeakStatus, Probe

RUN_LENGTH_S = 300.0
TRIALS = 10


class Strawman(msgspec.Struct, frozen=True):
    """Linear increments, fixed trials, fixed run length."""

    name: str = "strawman"
    step: float = STEP_PER_S
    trials: int = TRIALS

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or the largest load that did not saturate."""
        loads, due = self.played(goal, history)
        if due is None:
            return self._result(goal, loads, PeakStatus.FOUND)
        return Probe(due, goal.run_length_s or RUN_LENGTH_S, "step")

    def played(
        self, goal: PeakGoal, history: Sequence[LoadTrial]
    ) -> tuple[tuple[Reading, ...], float | None]:
        """Return the loads so far and the rate of the next trial; None: it has ended.

        The last load may not have all its trials yet.
        """
        waiting = by_rate(history)
        loads: list[Reading] = []
        last, due = 0.0, goal.start_rate
        while len({load.saturated for load in loads}) < 2:
            rate = within_bounds(goal, due)
            here = waiting.get(rate, [])[-self.trials :]
            if rate == last or not here:
                return tuple(loads), due
            loads.append(reading(goal, here))
            if len(here) < self.trials:
                return tuple(loads), rate
            last, due = rate, self._after(rate, loads[-1].saturated)
        return tuple(loads), None

    def _after(self, rate: float, saturated: bool) -> float:
        """Return the next load; downward always above 0, however low the bound."""
        step = -self.step if saturated else self.step
        return max(rate + step, rate / 1024)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell that no probe is left early: the run length is fixed."""
        del goal, history, probe, so_far
        return False

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the largest load so far that does not saturate the server."""
        return self._result(goal, self.played(goal, history)[0], PeakStatus.UNDECIDED)

    def _result(
        self, goal: PeakGoal, loads: Sequence[Reading], status: PeakStatus
    ) -> PeakResult:
        held = [load for load in loads if not load.saturated]
        answer = max(held, key=lambda load: load.rate) if held else None
        detail = (
            "no load tested met the criteria"
            if answer is None
            else f"{answer.rate:.5g}/s is the largest load tested that did not saturate"
        )
        return result_at(goal, loads, answer, (self.name, status, detail))
