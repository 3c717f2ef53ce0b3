"""One session of searches, from its first trial to its recorded end.

The same for a ramp, a peak and a surface: an interrupt and a broken workbench leave the
session resumable; what a search comes to decides the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from benchwright.model.errors import Interrupted, OperatingError
from benchwright.session.ledger import Ledger
from benchwright.session.run import Verdict

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
            "interrupted", "interrupted; `bw resume` goes on from here", 130
        )
    except OperatingError as error:
        ledger.study.end_session(ledger.session, "failed", str(error))
        raise
    ledger.study.end_session(ledger.session, verdict.status, verdict.detail)
    return outcome, verdict
