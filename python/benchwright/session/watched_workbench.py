"""A workbench whose loads are watched: each trial carries what was seen of the machine.

Decision: around the port, so that neither the workbench nor a search knows of it. The window
is the load's own time, without the server's start: a trial says when its load began.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from benchwright.model.peak import LoadTrial, Probe
from benchwright.model.plan import Pairs
from benchwright.session.watching import Watching
from benchwright.workbench.port import Workbench

LOAD = "load"
"""Begins the names of the series of a session's loads."""


class WatchedWorkbench:
    """A workbench, with observers around each of its trials."""

    def __init__(self, workbench: Workbench, watching: Watching, recorded: int) -> None:
        """`recorded` trials are on record."""
        self._workbench = workbench
        self._watching = watching
        self._number = recorded

    @property
    def watched(self) -> bool:
        """Whether a running trial can be looked at and left early."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial at a sample. See workbench/port.py."""
        self._number += 1
        with self._watching.batch(LOAD, self._number):
            trial = self._workbench.run(probe, sample, leaves)
        if not trial.started_ns or not trial.lasted_s:
            return trial
        begin = trial.started_ns - (time.time_ns() - time.monotonic_ns())
        window = (self._number, begin, begin + round(trial.lasted_s * 1e9))
        seen = dict(self._watching.seen([window]))
        profiles = dict(self._watching.profiles([window]))
        return msgspec.structs.replace(
            trial, use=seen.get(self._number), profile=profiles.get(self._number)
        )

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop the server and everything else that was started."""
        self._workbench.close()
