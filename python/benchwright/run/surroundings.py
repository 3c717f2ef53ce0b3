"""What surrounds a session: a port for features that change the machine for it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from benchwright.core.results import Finding


class Surrounding(Protocol):
    """Entered inside of the session's signal handlers, before the first capture of the machine, and
    left after the last trial.

    A signal that arrives while it is entered or left waits, and then interrupts the session.
    """

    findings: tuple[Finding, ...]
    """Findings to store with the session; complete after it was left."""

    def __enter__(self) -> object:
        """Change the machine. Raises InputError, at the place in the suite, and BenchError."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the machine; what cannot be restored is a finding."""
