"""Keeps the machine quiet while a session runs, and restores what the suite and its scripts
changed.

Modules are imported only if something is changed: every session has a `QuietSession`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from benchwright.core.errors import BenchError
from benchwright.core.results import Finding
from benchwright.features.quiet.log_path import log_path

if TYPE_CHECKING:
    from benchwright.features.quiet.hold import Quieted
    from benchwright.features.quiet.types import QuietSettings, RestoreResult


class QuietSession:
    """What `quiet` of a suite does around its session (`Surrounding` in run/surroundings.py).

    `note` shows a line of progress. Entering raises InputError for values that this machine does
    not accept, at their places in the suite, and BenchError (`quiet-busy`, `quiet-unavailable`).
    """

    def __init__(
        self, wanted: QuietSettings | None, token: str, note: Callable[[str], None]
    ) -> None:
        self._token = token
        self._note = note
        self._quieted: Quieted | None = None
        if wanted is not None:
            from benchwright.features.quiet.hold import Quieted, QuietRequest

            places, require = wanted.places, wanted.require
            quiet_request = QuietRequest(
                wanted.wishes, places=places, session=token, require=require
            )
            self._quieted = Quieted(quiet_request)
        self.findings: tuple[Finding, ...] = ()

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
        from benchwright.features.quiet.report import quiet_findings, quiet_lines

        self._show(quiet_lines(quieted.quiet))
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

        Costs one stat(2) if nothing is changed. A failure is a finding; the session's results are
        still reported.
        """
        if not os.path.exists(log_path()):
            return None
        from benchwright.features.quiet.hold import restore_session
        from benchwright.features.quiet.report import not_restored_finding
        from benchwright.report.documents import finding_line

        try:
            return restore_session(self._token)
        except BenchError as error:
            left = not_restored_finding(error.message, error.hint)
            self._show([finding_line(left)])
            self.findings += (left,)
            return None

    def _show_restored(self, restored: RestoreResult, *, late: bool) -> None:
        from benchwright.features.quiet.report import restore_findings, restored_lines

        self._show(restored_lines(restored, late=late))
        self.findings += restore_findings(restored, late=late)

    def _show(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._note(line)
