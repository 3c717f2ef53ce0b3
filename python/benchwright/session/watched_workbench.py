"""A workbench whose loads are watched: each trial carries what was seen of the machine.

Decision: around the port, so that a search does not know of it. The workbench itself begins
the watch, when its server is ready: only then is it known which processes are the server's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.model.peak import LoadTrial, Probe
from benchwright.model.plan import Pairs
from benchwright.session.watching import Watching
from benchwright.workbench.port import Workbench

LOAD = "load"
"""Begins the names of the series of a session's loads."""


class LoadWatch:
    """Watches the loads of a session, one after the other."""

    def __init__(self, watching: Watching, recorded: int) -> None:
        """`recorded` trials are on record."""
        self._watching = watching
        self._number = recorded
        self._begun = False

    def next(self) -> None:
        """Note that another trial begins; its load may never do."""
        self._number += 1
        self._begun = False

    @contextlib.contextmanager
    def around(self, server: Sequence[int]) -> Iterator[None]:
        """Watch while the body runs the trial's load on a server of these processes."""
        with self._watching.batch(LOAD, self._number, servers=server):
            self._begun = True
            yield

    def described(self, trial: LoadTrial) -> LoadTrial:
        """Return the trial with what was seen of its load."""
        if not self._begun or not trial.started_ns or not trial.lasted_s:
            return trial
        begin = trial.started_ns - (time.time_ns() - time.monotonic_ns())
        window = (self._number, begin, begin + round(trial.lasted_s * 1e9))
        seen = dict(self._watching.seen([window]))
        profiles = dict(self._watching.profiles([window]))
        return msgspec.structs.replace(
            trial, use=seen.get(self._number), profile=profiles.get(self._number)
        )


class WatchedWorkbench:
    """A workbench that was built with a watch of its loads."""

    def __init__(self, workbench: Workbench, loads: LoadWatch) -> None:
        self._workbench = workbench
        self._loads = loads

    @property
    def watched(self) -> bool:
        """Whether a running trial can be looked at and left early."""
        return self._workbench.watched

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        """Run one trial at a sample. See workbench/port.py."""
        self._loads.next()
        return self._loads.described(self._workbench.run(probe, sample, leaves))

    def interrupt(self) -> None:
        """End what is running; safe to call in a signal handler."""
        self._workbench.interrupt()

    def close(self) -> None:
        """Stop the server and everything else that was started."""
        self._workbench.close()
