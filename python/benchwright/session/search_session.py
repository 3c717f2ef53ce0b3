"""One session of searches, from its first trial to its recorded end.

The same for a ramp, a peak and a surface: an interrupt and a broken workbench leave the
session resumable; what a search comes to decides the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from benchwright.model.errors import Interrupted, OperatingError
from benchwright.session.ledger import Ledger
from benchwright.session.run import Verdict
from benchwright.study.export_search import export_searches

Outcome = TypeVar("Outcome")


def run_session(
    ledger: Ledger,
    do: Callable[[], Outcome],
    verdict_of: Callable[[Outcome], Verdict],
) -> tuple[Outcome | None, Verdict]:
    """Do what the session is for; record and return what it came to, and the verdict.

    The outcome is None after an interrupt. Raises BenchError, InputError and StudyError
    as the searches do; the session ends as `failed` then and can be resumed.
    """
    outcome = None
    try:
        outcome = do()
        verdict = verdict_of(outcome)
    except Interrupted:
        verdict = Verdict(
            "interrupted", "cut short; `bw resume` goes on from here", 130
        )
    except OperatingError as error:
        _end(ledger, "failed", str(error))
        raise
    unexported = _end(ledger, verdict.status, verdict.detail)
    if unexported:
        detail = f"{verdict.detail}; {unexported}"
        verdict = msgspec.structs.replace(verdict, detail=detail)
    return outcome, verdict


def _end(ledger: Ledger, status: str, detail: str) -> str:
    """Record how the session ended and export it; return why the export is not whole."""
    ledger.study.end_session(ledger.session, status, detail)
    try:
        export_searches(ledger.study, ledger.session)
    except OSError as error:
        return (
            f"the text export under results/ is not whole: {error.strerror} (the journal "
            "is: `bw stats` reads it)"
        )
    return ""
