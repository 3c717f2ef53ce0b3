"""What a session needs from a pool: gangs that run tasks of it, and record them in its journal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.results import Finding
from benchwright.core.text import plural
from benchwright.features.pool.types import Attempt, PoolProgress, Task
from benchwright.run.ledger import Ledger


class TaskEnd(msgspec.Struct, frozen=True):
    """A task has ended: it is recorded, or all its attempts were void."""

    task: Task
    attempt: Attempt
    """The last one."""
    study: Path
    """The study of the last attempt; it may not exist after a void one."""


def gave_up(end: TaskEnd) -> BenchError:
    """Return the error for a task whose attempts were all void; the session can be resumed."""
    attempt = end.attempt
    return BenchError(
        "pool-gave-up",
        f"{attempt.name} was void in {plural(attempt.number, 'attempt')}, the last one on "
        f"gang {attempt.gang}: {attempt.void} ({attempt.detail})",
        "`bw resume` tries again",
    )


class DeadlineReached(Exception):
    """The deadline of a session came while gangs ran tasks of it; their attempts are void."""


class Gangs(Protocol):
    """Runs tasks; `features/pool/controller.py` implements it."""

    names: tuple[str, ...]
    """The gangs: `g1`, `g2`, ..."""

    def expect(self, tasks: int, limit_s: float | None = None) -> None:
        """Note the number of tasks of the whole session, and the time until its deadline [s], which
        ends the tasks that run then."""

    def submit(self, task: Task, wanted: str = "") -> None:
        """Have a task run. `wanted`: the sample of a surface, as it is stored."""

    def next_end(self) -> TaskEnd:
        """Wait until a task has ended. Raises Interrupted, BenchError, DeadlineReached."""

    def interrupt(self) -> None:
        """Make `next_end` raise Interrupted; safe to call in a signal handler."""

    def findings(self) -> tuple[Finding, ...]:
        """Return what was found about the hosts."""


class GangListener(Protocol):
    """Shows what happens in a pool."""

    def note(self, text: str) -> None:
        """Show a line of progress."""

    def pool_progressed(self, progress: PoolProgress, elapsed_s: float) -> None:
        """A task began or ended; `elapsed_s`: since this start of the session [s]."""


OpenGangs = Callable[[Ledger, GangListener], AbstractContextManager[Gangs]]
"""Returns the pool of a session."""
