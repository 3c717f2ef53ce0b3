"""The findings of a session: stored when it ends, and read by every report.

Purpose: the one place that stores and reads them. Decision: outcomes `findings/1`,
`findings/2`, ... of the journal, numbered in order; stored findings are valid as long as the
session has no later outcome. A session of an older version, a killed one, or one that was
resumed and cut short again has no valid ones: a reader computes them from the journal with
the same function. Findings recorded while a session ran (settings that could not be restored,
an observer that failed) cannot be computed again; they are entries of kind `finding`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchwright.core.results import Finding
from benchwright.findings.environment import environment_findings
from benchwright.study.contents import machines_of
from benchwright.study.database import reporting_damage
from benchwright.study.journal import NewEntry, Study
from benchwright.study.keys import FINDINGS_KEYS, findings_key

FINDING_KIND = "finding"


class SessionFindings(msgspec.Struct, frozen=True):
    """The findings of a session."""

    session: tuple[Finding, ...]
    """Findings about the session as a whole: its machine, failed observers."""
    tests: dict[str, tuple[Finding, ...]]
    """Findings about each test, by its key."""
    comparisons: dict[str, tuple[Finding, ...]] = {}
    """Findings about each comparison as a whole, by its key; those about its arms are in `tests`.
    """

    @property
    def all(self) -> tuple[Finding, ...]:
        """Return all of them: about the session, its comparisons, its tests."""
        each = (*self.comparisons.values(), *self.tests.values())
        return (*self.session, *(one for found in each for one in found))


def store_findings(
    study: Study, session: int, found: SessionFindings, recorded: Sequence[Finding] = ()
) -> None:
    """Append a session's findings and those recorded while it ran; durable on return. Raises
    StudyError."""
    entries = [NewEntry(FINDING_KIND, one.code, one) for one in recorded]
    known = sum(1 for _ in study.entries(session, ("outcome",), under=FINDINGS_KEYS))
    entries.append(NewEntry("outcome", findings_key(known + 1), found))
    study.append(session, entries)


def stored_findings(study: Study, session: int) -> SessionFindings | None:
    """Return a session's stored findings; None if there are none, or if they are outdated.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        last = study.last_outcome(session)
        if last is None or not last.key.startswith(FINDINGS_KEYS):
            return None
        return msgspec.json.decode(last.payload, type=SessionFindings)


def recorded_findings(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings recorded while a session ran, in order.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with reporting_damage(study.path):
        return tuple(
            msgspec.json.decode(entry.payload, type=Finding)
            for entry in study.entries(session, (FINDING_KIND,))
        )


def session_findings(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings about a session as a whole in its current state, each once.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    changed = environment_findings(machines_of(study, session), (str(study.path.resolve()),))
    return tuple(dict.fromkeys((*changed, *recorded_findings(study, session))))


def findings_about_session(study: Study, session: int) -> tuple[Finding, ...]:
    """Return the findings about a session as a whole: stored, else computed again.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    stored = stored_findings(study, session)
    return session_findings(study, session) if stored is None else stored.session
