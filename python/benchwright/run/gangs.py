"""Where the parts of a session run: a port for a feature that has gangs of hosts.

A gang runs a task, which is a part of the session (a test, a comparison, one sample of a surface),
as a session of its own under the same journal keys; what it recorded is copied into the session.
Then the ordinary session finds these outcomes recorded and does not run them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.results import Finding
from benchwright.feature import features
from benchwright.run.ledger import Ledger
from benchwright.study.journal import SessionInfo
from benchwright.suite.program import Program


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a session that one gang runs whole."""

    place: str
    """Identifies it within the session; part of its journal keys: `1`, `12`."""
    name: str
    """For a person: `sample 7`, `test sort`."""
    prefixes: tuple[str, ...]
    """The journal's entries with these prefixes are those of the task."""
    gang: str = ""
    """The gang whose turn it is: another one runs it after a void attempt, or if this gang is lost;
    empty: any."""
    seconds: float | None = None
    """Expected length [s]; None: unknown."""
    keys: tuple[str, ...] = ()
    """The tests and comparisons to run, where the prefixes are not theirs."""
    replicate: int | None = None
    """The only outermost replicate of these to run, on this gang alone: never on another one, which
    may run another replicate."""
    shown_by: str = ""
    """A key that is recorded if the task is; empty: that follows from the prefixes."""


class TaskEnd(msgspec.Struct, frozen=True):
    """A task has ended: it is recorded, or all its attempts were void."""

    task: Task
    gang: str
    """Of the last attempt."""
    study: Path
    """The study of the last attempt; it may not exist after a void one."""
    gave_up: BenchError | None = None
    """The error for a task whose attempts were all void; the session can be resumed."""
    failure: str | None = None
    """What failed in the task itself (its commands, its server), if that made the last attempt
    void."""


class DeadlineReached(Exception):
    """The deadline of a session came while gangs ran tasks of it; their attempts are void."""


class TaskRunner(Protocol):
    """Runs tasks."""

    names: tuple[str, ...]
    """The gangs: `g1`, `g2`, ..."""

    def expect(self, tasks: int, limit_s: float | None = None) -> None:
        """Note the number of tasks of the whole session, and the time until its deadline [s], which
        ends the tasks that run then."""

    def submit(self, task: Task, wanted: str = "") -> None:
        """Have a task run. `wanted`: the sample of a surface, as it is stored."""

    def next_end(self) -> TaskEnd:
        """Wait until a task has ended. Raises Interrupted, BenchError, DeadlineReached."""


class Gangs(TaskRunner, Protocol):
    """The gangs of a session."""

    def parts(
        self, program: Program, defines: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Task, ...]:
        """Return the parts of a program that do not depend on each other, in the order in which
        they would run here. Raises InputError for a program without such parts."""

    def interrupt(self) -> None:
        """Make `next_end` raise Interrupted; safe to call in a signal handler."""

    def findings(self) -> tuple[Finding, ...]:
        """Return what was found about the hosts."""


class GangListener(Protocol):
    """Shows what gangs do."""

    def note(self, text: str) -> None:
        """Show a line of progress."""

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show how far the tasks are, as core/progress.py does; `elapsed_s`: since this start of
        the session [s]."""


OpenGangs = Callable[[Ledger, GangListener], AbstractContextManager[Gangs]]
"""Returns the gangs of a session."""


class SessionGangs(msgspec.Struct, frozen=True):
    """The gangs of a session, from what it stores."""

    names: tuple[str, ...]
    has_clients: bool
    """Whether client hosts of each gang issue the load on its server host."""
    open: OpenGangs


def gangs_of(info: SessionInfo) -> SessionGangs | None:
    """Return the gangs of a session; None if its parts run here."""
    return next(filter(None, (feature.gangs(info) for feature in features())), None)
