"""The machine quiet while a session runs: what its suite asks for, and what it keeps.

Enter it innermost, within the session's signal handlers: a signal that comes while the
machine is put in order, or back, waits and is then the session's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from benchwright.core.errors import BenchError
from benchwright.core.quiet import QuietSettings, RestoreResult
from benchwright.core.results import Finding
from benchwright.findings.machine_state import (
    not_restored_finding,
    quiet_findings,
    restore_findings,
)
from benchwright.machine.quiet.hold import Quieted, QuietRequest, restore_session
from benchwright.report.parts import finding_line
from benchwright.report.quiet import quiet_lines, restored_lines


class QuietSession:
    """A context around a session's run; `findings` are whole when it is left.

    `undone` is what this `bw` put back on starting (`arguments.undone`): what a killed one
    had left. Entering raises InputError for values that this machine does not take, at
    their places in the suite, and BenchError (`quiet-busy`, `quiet-lacking`).
    """

    def __init__(
        self,
        wanted: QuietSettings | None,
        token: str,
        say: Callable[[str], None],
        undone: RestoreResult | None = None,
    ) -> None:
        self._token = token
        self._say = say
        self._quieted: Quieted | None = None
        if wanted is not None:
            places, require = wanted.places, wanted.require
            asked = QuietRequest(
                wanted.wishes, places=places, session=token, require=require
            )
            self._quieted = Quieted(asked)
        self.findings: tuple[Finding, ...] = ()
        if undone is not None:
            self.findings = restore_findings(undone, late=True)

    def __enter__(self) -> QuietSession:
        if self._quieted is None:
            return self
        self._quieted.__enter__()
        try:
            self._begun(self._quieted)
        except BaseException:
            # What is said may go nowhere (a closed pipe, a full disk), and who does not
            # come in is not led out.
            self.__exit__(*sys.exc_info())
            raise
        return self

    def _begun(self, quieted: Quieted) -> None:
        """Say what was put in order, and what was put back before it."""
        for line in quiet_lines(quieted.quiet):
            self._say(line)
        if quieted.late is not None:
            self._note(quieted.late, late=True)
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
            restored = self._end_kept()
        if restored is not None:
            self._note(restored, late=False)

    def _end_kept(self) -> RestoreResult | None:
        """Put back what a script of the suite kept (noservices.sh): it ends with the session.

        Where that cannot be it is a doubt: the session's results are told nevertheless.
        """
        try:
            return restore_session(self._token)
        except BenchError as error:
            left = not_restored_finding(error.message, error.hint)
            self._say(finding_line(left))
            self.findings += (left,)
            return None

    def _note(self, restored: RestoreResult, *, late: bool) -> None:
        for line in restored_lines(restored, late=late):
            self._say(line)
        self.findings += restore_findings(restored, late=late)
