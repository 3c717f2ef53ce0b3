"""The strawman of the workbench paper: what scripts commonly do.

A fixed number of trials of a fixed length at every load of a linear sequence, until a load
saturates the server; the answer is the largest load that did not.
Decision: a first load that saturates (a seed above the peak) turns the sequence downward;
the paper starts low and does not say.
Source: papers/workbench.txt, section 3 and figure 3 (10 trials of 5 minutes).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.control.peak.algorithm2 import result_at
from benchwright.control.peak.load_picking import STEP_PER_S
from benchwright.control.peak.reading import Reading, reading
from benchwright.control.peak.seen import significant
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
        begun = len(history) % self.trials
        length_s = goal.run_length_s or RUN_LENGTH_S
        if begun:
            return Probe(history[-1].rate, length_s, "again")
        loads = self.loads(goal, history)
        if not loads:
            return Probe(significant(goal.start_rate), length_s, "first")
        if len({load.saturated for load in loads}) == 2:
            return self._result(goal, loads, PeakStatus.FOUND)
        up = not loads[-1].saturated
        rate = loads[-1].rate + (self.step if up else -self.step)
        if rate <= 0:
            return self._result(goal, loads, PeakStatus.UNDECIDED)
        return Probe(significant(rate), length_s, "step up" if up else "step down")

    def loads(
        self, goal: PeakGoal, history: Sequence[LoadTrial]
    ) -> tuple[Reading, ...]:
        """Return the loads so far, the last of them perhaps not yet complete."""
        return tuple(
            reading(goal, history[at : at + self.trials])
            for at in range(0, len(history), self.trials)
        )

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
        return self._result(goal, self.loads(goal, history), PeakStatus.UNDECIDED)

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
