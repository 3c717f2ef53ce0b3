"""The captures of the machine that a session keeps: `environment/1`, `environment/2`, ...

One is written when a session begins, each time it is resumed, and when it ends: the trials
of a session may run on a changed machine, or the machine may change under them. Decision: outcomes of the journal like any other,
numbered as they come; a session of an older version has none.
"""

from __future__ import annotations

import msgspec

from benchwright.model.machine import Machine
from benchwright.study.database import seeing_damage
from benchwright.study.journal import NewEntry, Study

UNDER = "environment/"
"""Begins the keys of captures."""


def environments_of(study: Study, session: int) -> tuple[Machine, ...]:
    """Return a session's captures in the order in which they were taken.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with seeing_damage(study.path):
        return tuple(
            msgspec.json.decode(entry.payload, type=Machine)
            for entry in study.entries(session, ("outcome",), under=UNDER)
        )


def first_environment(study: Study, session: int) -> Machine | None:
    """Return the capture of a session's beginning, None where it has none; only that is decoded.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    with seeing_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=UNDER):
            return msgspec.json.decode(entry.payload, type=Machine)
        return None


def record_environment(study: Study, session: int, machine: Machine) -> None:
    """Append a capture to a session; durable on return. Raises StudyError."""
    known = sum(1 for _ in study.entries(session, ("outcome",), under=UNDER))
    key = f"{UNDER}{known + 1}"
    study.append(session, [NewEntry("outcome", key, machine)])
