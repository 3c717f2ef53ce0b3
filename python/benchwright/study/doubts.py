"""The doubts about a session as a whole, beside those about its tests.

What was recorded while it ran (the machine could not be put in order), and what its
captures of the machine show. Decision: entries of kind `finding`, which no key makes, so
that a resume adds its own and repeats none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.finding.environment import environment_findings
from benchwright.model.finding import Finding
from benchwright.study.database import seeing_damage
from benchwright.study.environment import environments_of
from benchwright.study.journal import NewEntry, Study

KIND = "finding"


def record_doubts(study: Study, session: int, findings: Sequence[Finding]) -> None:
    """Append findings to a session; durable on return. Raises StudyError."""
    if findings:
        entries = [NewEntry(KIND, one.code, one) for one in findings]
        study.append(session, entries)


def doubts_of_session(study: Study, session: int) -> tuple[Finding, ...]:
    """Return what there is to doubt of a session as a whole, each thing once.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with seeing_damage(study.path):
        recorded = [
            msgspec.json.decode(entry.payload, type=Finding)
            for entry in study.entries(session, (KIND,))
        ]
    changed = environment_findings(
        environments_of(study, session), (str(study.path.resolve()),)
    )
    return tuple(dict.fromkeys((*changed, *recorded)))
