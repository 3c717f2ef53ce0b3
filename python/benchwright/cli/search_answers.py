"""The load that each search of a stored session came to, read from the journal."""

from __future__ import annotations

from benchwright.finding.profiled_search import answer_load
from benchwright.model.ramp import RampResult
from benchwright.model.search import PeakAnswer
from benchwright.session.ledger import Ledger
from benchwright.session.search import recorded_result
from benchwright.study.contents import searches_of
from benchwright.study.journal import Session, Study


def recorded_answers(study: Study, session: Session) -> dict[str, float | None]:
    """Return the load of each search's answer, a rate [1/s] or users, by the search's name;
    None where it has come to none.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    ledger = Ledger(study, session.number)

    def recorded(key: str) -> PeakAnswer | RampResult | None:
        if session.info.kind == "ramp":
            return recorded_result(ledger, RampResult, key)
        return recorded_result(ledger, PeakAnswer, key)

    names = [name for name, _, _ in searches_of(study, session.number)]
    return {name: answer_load(recorded(f"search/{name}")) for name in names}
