"""Which gang measured the parts of a stored session: a port for features that have others measure."""

from __future__ import annotations

import msgspec

from benchwright.feature import features
from benchwright.study.journal import SessionInfo, Study


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
