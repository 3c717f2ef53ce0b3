"""Which study, session and test a text names: `DIR`, `DIR@2`, `DIR@before`, `DIR@2:sort`,
`DIR:sort`.

Decision: a directory with the whole text as its name takes precedence, so every study can be named.

Which gang measured the parts of a stored session: a port for features that have others measure.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchwright.core.errors import StudyError, argument_error
from benchwright.feature import features
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import SessionInfo, StoredSession, Study
from benchwright.study.keys import NAME_FLAG


class MeasuredPart(msgspec.Struct, frozen=True):
    """A part of a session that a gang measured, and that is recorded."""

    place: str
    """Of the task (run/gangs.py): `1`, `12`."""
    keys: tuple[str, ...]
    """Of the tests, comparisons and searches in it."""
    gang: str
    """`g1`; `g1 on n3, n4` if the gang was leased again, on other hosts."""
    hosts: tuple[str, ...]
    """Of the gang; none where it is on the machine of the session."""
    held_ns: int
    """For how long it held its gang [ns]."""


def measured_parts(study: Study, session: int, info: SessionInfo) -> list[MeasuredPart]:
    """Return the recorded parts of a session that gangs measured, in the order in which they began;
    none of a session without gangs. Raises StudyError `journal-damaged`."""
    return [part for feature in features() for part in feature.measured_parts(study, session, info)]


def hosts_of_tests(study: Study, session: int, info: SessionInfo) -> dict[str, str]:
    """Return the hosts that measured each test, comparison and search, by its key, where that was
    not the machine of the session. Raises StudyError `journal-damaged`."""
    parts = measured_parts(study, session, info)
    return {key: ", ".join(part.hosts) for part in parts if part.hosts for key in part.keys}


class StudyPart(NamedTuple):
    """A study, one of its sessions, or one test."""

    place: Path
    session: str | None = None
    """The number or the name of a session; None: the last one."""
    test: str | None = None

    def among(self, sessions: list[StoredSession]) -> StoredSession | None:
        """Return the session that is meant; None if these do not contain it."""
        wanted = self.session
        if wanted is None:
            return sessions[-1] if sessions else None
        if wanted.isdecimal():
            found = (session for session in sessions if session.number == int(wanted))
        else:
            found = (session for session in sessions if session.about.name == wanted)
        return next(found, None)

    def of(self, study: Study, where: str = "STUDY") -> StoredSession:
        """Return the session that is meant.

        `where` is the argument's name in messages. Raises InputError for an unknown session,
        StudyError `empty-study` for a study without any.
        """
        sessions = study.sessions()
        if not sessions:
            raise StudyError("empty-study", f"{self.place} contains no session yet")
        found = self.among(sessions)
        if found is None:
            text = f"{self.place}@{self.session}"
            there = ", ".join(map(session_label, sessions))
            message = f"{text}: there is no session {self.session}"
            raise argument_error(where, text, message, f"there are: {there}")
        return found


def session_label(session: StoredSession) -> str:
    """Return a session's number, and its name if it has one: `2 (before)`."""
    name = session.about.name
    return f"{session.number} ({name})" if name else str(session.number)


def split_selector(path: Path) -> StudyPart:
    """Split a path from its selector; a directory with the whole name takes precedence."""
    if (path / JOURNAL).is_file():
        return StudyPart(path)
    for part in _readings(str(path)):
        if (part.place / JOURNAL).is_file():
            return part
    return StudyPart(path)


def _readings(text: str) -> list[StudyPart]:
    """Return every way to read `PATH[@SESSION][:TEST]`, longest path first."""
    found: list[StudyPart] = []
    cuts = [match.start() for match in re.finditer(r"[@:]", text)]
    for cut in reversed(cuts):
        rest = re.fullmatch(r"(?:@([^@:/]+))?(?::(.+))?", text[cut:], re.DOTALL)
        if rest is not None and text[:cut]:
            found.append(StudyPart(Path(text[:cut]), rest[1], rest[2]))
    return found


def check_unused(name: str, study: Study, session: int | None = None) -> None:
    """Raise InputError if another session than this one has the name."""
    for other in study.sessions():
        if other.about.name == name and other.number != session:
            raise argument_error(
                NAME_FLAG,
                name,
                f"session {other.number} of {study.path} has the name {name!r}",
                "give another name: STUDY@NAME must be one session",
            )
