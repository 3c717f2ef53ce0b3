"""A workbench whose first trial is judged as the command line's doing.

Purpose: a pointer that leads nowhere is a mistake of who typed it, and no failure of the
server. What is a mistake each command says itself.
"""

from __future__ import annotations

from collections.abc import Callable

from benchwright.model.peak import LoadTrial, Probe
from benchwright.model.plan import Pairs
from benchwright.workbench.port import Workbench

UNREADABLE = "command: no "
"""Begin of the failure of a trial whose output lacks what was sought (adapter.py)."""


class FirstOutput:
    """A workbench; `judge` is shown its first trial, and raises InputError for a mistake."""

    def __init__(
        self, workbench: Workbench, judge: Callable[[LoadTrial], None]
    ) -> None:
        self._workbench = workbench
        self._judge = judge
        self._judged = False

    @property
    def watched(self) -> bool:
        """As the workbench's."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial. Raises InputError for the first one without a value."""
        trial = self._workbench.run(probe, sample, leaves)
        if not self._judged:
            self._judge(trial)
        self._judged = True
        return trial

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop everything that was started."""
        self._workbench.close()
