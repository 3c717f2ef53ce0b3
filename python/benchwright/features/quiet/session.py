"""Keeps the machine quiet while a session runs, and restores what the suite and its scripts
changed.

Enter `QuietSession` inside the session's signal handlers: a signal that arrives while settings
are changed or restored waits and then interrupts the session.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol

from benchwright.core.errors import BenchError
from benchwright.core.results import Finding
from benchwright.features.quiet.findings import (
    not_restored_finding,
    quiet_findings,
    restore_findings,
)
from benchwright.features.quiet.hold import Quieted, QuietRequest, restore_session
from benchwright.features.quiet.types import QuietResult, QuietSettings, RestoreResult


class QuietListener(Protocol):
    """Shows what a session changed on the machine."""

    def quieted(self, quiet: QuietResult) -> None:
        """Settings were changed."""

    def restored(self, restored: RestoreResult, *, late: bool) -> None:
        """Settings were restored; `late`: a killed `bw` had left them changed."""

    def not_restored(self, finding: Finding) -> None:
        """Settings could not be restored."""


class QuietSession:
    """A context manager around a session's run; `findings` are complete after it exits.

    `undone` is what this `bw` restored at its start: settings that a killed one had left changed.
    Entering raises InputError for values that this machine does not accept, at
    their places in the suite, and BenchError (`quiet-busy`, `quiet-unavailable`).
    """

    def __init__(
        self,
        wanted: QuietSettings | None,
        token: str,
        listener: QuietListener,
        undone: RestoreResult | None = None,
    ) -> None:
        self._token = token
        self._listener = listener
        self._quieted: Quieted | None = None
        if wanted is not None:
            places, require = wanted.places, wanted.require
            quiet_request = QuietRequest(
                wanted.wishes, places=places, session=token, require=require
            )
            self._quieted = Quieted(quiet_request)
        self.findings: tuple[Finding, ...] = ()
        if undone is not None:
            self.findings = restore_findings(undone, late=True)

    def __enter__(self) -> QuietSession:
        if self._quieted is None:
            return self
        self._quieted.__enter__()
        try:
            self._show_quiet(self._quieted)
        except BaseException:
            # Output can fail (a closed pipe, a full disk); then `with` does not call __exit__.
            self.__exit__(*sys.exc_info())
            raise
        return self

    def _show_quiet(self, quieted: Quieted) -> None:
        """Show what was changed, and what was restored before it."""
        self._listener.quieted(quieted.quiet)
        if quieted.late is not None:
            self._show_restored(quieted.late, late=True)
        self.findings += quiet_findings(quieted.quiet)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._quieted is not None:
            self._quieted.__exit__(kind, error, trace)
            restored = self._quieted.restored
        else:
            restored = self._restore_kept()
        if restored is not None:
            self._show_restored(restored, late=False)

    def _restore_kept(self) -> RestoreResult | None:
        """Restore what a script of the suite changed (noservices.sh) when the session ends.

        A failure is a finding; the session's results are still reported.
        """
        try:
            return restore_session(self._token)
        except BenchError as error:
            left = not_restored_finding(error.message, error.hint)
            self._listener.not_restored(left)
            self.findings += (left,)
            return None

    def _show_restored(self, restored: RestoreResult, *, late: bool) -> None:
        self._listener.restored(restored, late=late)
        self.findings += restore_findings(restored, late=late)
