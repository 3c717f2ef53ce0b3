"""The machine quiet while a session runs: what its suite asks for, and what its scripts left.

Enter it innermost, within the session's signal handlers: a signal that comes while settings
are changed or restored waits and then interrupts the session.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol

from benchwright.core.errors import BenchError
from benchwright.core.quiet import QuietResult, QuietSettings, RestoreResult
from benchwright.core.results import Finding
from benchwright.findings.machine_state import (
    not_restored_finding,
    quiet_findings,
    restore_findings,
)
from benchwright.machine.quiet.hold import Quieted, QuietRequest, restore_session


class QuietListener(Protocol):
    """Shows what was changed on the machine for a session."""

    def quieted(self, quiet: QuietResult) -> None:
        """Settings were changed."""

    def restored(self, restored: RestoreResult, *, late: bool) -> None:
        """Settings were restored; `late`: those that a killed `bw` had left."""

    def not_restored(self, finding: Finding) -> None:
        """Settings could not be restored."""


class QuietSession:
    """A context around a session's run; `findings` are complete when it is left.

    `undone` is what this `bw` restored at its start: settings that a killed one had left.
    Entering raises InputError for values that this machine does not take, at
    their places in the suite, and BenchError (`quiet-busy`, `quiet-lacking`).
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
            # Showing it can fail (a closed pipe, a full disk), and `with` does not call
            # __exit__ then.
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
        """Restore what a script of the suite changed (noservices.sh): it ends with the session.

        Where that fails it is a finding: the session's results are reported nevertheless.
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
