"""What studies hold (the sessions of a study, the studies below a folder), and which study, session
and test a text names: `DIR`, `DIR@2`, `DIR@before`, `DIR@2:sort`, `DIR:sort`.

Decision: a folder may contain anything, so the search is bounded in depth and in the number of
names, enters neither symbolic links, hidden directories, mount points nor studies, and never opens
a file. A study that cannot be read is a problem in the result, not an error: the other ones are
listed. Decision: a directory with the whole text as its name takes precedence, so every study can
be named. Which gang measured the parts of a stored session is a port, for features that have others
measure. Non-goal: no figure is computed here (page/headline.py).
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchwright.core.errors import OperatingError, StudyError, argument_error
from benchwright.core.machine import MachineCapture, Revision, revision_of
from benchwright.feature import features
from benchwright.study.contents import TestContents, first_machine, machines_of
from benchwright.study.directory import JOURNAL, writer_of
from benchwright.study.journal import (
    RESUMABLE,
    EndPayload,
    ResumePayload,
    SessionInfo,
    StoredSession,
    Study,
)
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
            stored_sessions = (session for session in sessions if session.number == int(wanted))
        else:
            stored_sessions = (session for session in sessions if session.about.name == wanted)
        return next(stored_sessions, None)

    def of(self, study: Study, where: str = "STUDY") -> StoredSession:
        """Return the session that is meant.

        `where` is the argument's name in messages. Raises InputError for an unknown session,
        StudyError `empty-study` for a study without any.
        """
        sessions = study.sessions()
        if not sessions:
            raise StudyError("empty-study", f"{self.place} contains no session yet")
        session = self.among(sessions)
        if session is None:
            text = f"{self.place}@{self.session}"
            there = ", ".join(map(session_label, sessions))
            message = f"{text}: there is no session {self.session}"
            raise argument_error(where, text, message, f"there are: {there}")
        return session


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


# -- The studies below a folder --------------------------------------------------------

DEPTH = 4
"""Levels of directories below the named one that are searched."""
MOST_NAMES = 200_000
"""Names that a search reads before it stops: about a second's work."""


class CatalogueProblem(msgspec.Struct, frozen=True):
    """What could not be read."""

    path: str
    code: str
    """Stable: `journal-damaged`, `study-unusable`, `directory-unreadable`, `search-stopped`."""
    message: str


class FoundStudies(msgspec.Struct, frozen=True):
    """The studies below a directory, and what could not be searched."""

    studies: tuple[Path, ...]
    """In order of path."""
    problems: tuple[CatalogueProblem, ...]


def find_studies(place: Path, depth: int = DEPTH) -> FoundStudies:
    """Return the study at a directory, or those below it, at most this many levels deep."""
    mounted = _mount_points()
    paths: list[Path] = []
    problems: list[CatalogueProblem] = []
    waiting, left = deque([(place, 0)]), MOST_NAMES
    while waiting:
        directory, level = waiting.popleft()
        names: list[str] = []
        is_study = False
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        break
                    if entry.name == JOURNAL and entry.is_file():
                        is_study = True
                        break
                    if (
                        level < depth
                        and not entry.name.startswith(".")
                        and entry.is_dir(follow_symlinks=False)
                    ):
                        names.append(entry.name)
        except OSError as error:
            message = f"cannot search {directory}: {error.strerror}"
            problems.append(CatalogueProblem(str(directory), "directory-unreadable", message))
            continue
        if is_study:
            paths.append(directory)
        elif left < 0:
            message = f"the search below {place} stopped after {MOST_NAMES:,} names"
            problems.append(CatalogueProblem(str(place), "search-stopped", message))
            break
        else:
            below = (directory / name for name in names)
            waiting += [(path, level + 1) for path in below if os.path.abspath(path) not in mounted]
    return FoundStudies(tuple(sorted(paths)), tuple(problems))


def _mount_points() -> frozenset[str]:
    """Return the directories on which something is mounted. Source: proc_pid_mountinfo(5)."""
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return frozenset()
    places = (line.split(" ")[4] for line in text.splitlines())
    return frozenset(
        re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place) for place in places
    )


# -- The sessions of a study -----------------------------------------------------------

STATES = ("complete", "undecided", "failed", "interrupted", "running")
"""The states of sessions; that of one that was stopped or killed is `interrupted` too."""


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as a catalogue has it."""

    study: Path
    session: StoredSession
    """Its status is `running` while it runs."""
    tests: tuple[str, ...]
    """The names of its tests; empty for a search."""
    machine: MachineCapture | None
    """The first capture; None for a session that has none."""
    revision: Revision | None
    lasted_ns: int | None
    """How long it ran, without the time between an end and a resume [ns]; None: unknown."""

    @property
    def selector(self) -> str:
        """The text that names it: `bw-study@2`."""
        return f"{self.study}@{self.session.number}"

    @property
    def state(self) -> str:
        """One of `STATES`."""
        return state_of(self.session)


def state_of(session: StoredSession) -> str:
    """Return one of `STATES`: a search may end in words of its own."""
    status = session.status
    if status in STATES:
        return status
    if status == "budget":
        return "undecided"
    return "interrupted" if status in RESUMABLE else "complete"


def sessions_now(study: Study) -> list[StoredSession]:
    """Return the sessions; the status of the one that runs is `running`."""
    sessions = study.sessions()
    if sessions and writer_of(study.path) not in (None, os.getpid()):
        # Its last end, if it has one, is that of an earlier run of the session.
        sessions[-1] = msgspec.structs.replace(sessions[-1], status="running")
    return sessions


def record_of(
    study: Study, session: StoredSession, place: Path, tests: Sequence[TestContents]
) -> SessionRecord:
    """Return a session's record; `place` is the study as the user named it, `tests` are the
    session's tests.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    machine = first_machine(study, session.number)
    return SessionRecord(
        place,
        session,
        tuple(dict.fromkeys(test.plan.name for test in tests)),
        machine,
        None if machine is None else revision_of(machine),
        _lasted_ns(study, session),
    )


def _lasted_ns(study: Study, session: StoredSession) -> int | None:
    """Return how long a session ran, without a part that a crash ended and that was resumed."""
    started: int | None = session.info.started_ns
    known: list[int] = []
    for entry in study.entries(session.number, ("resume", "end")):
        if entry.kind == "resume":
            resumed = msgspec.json.decode(entry.payload, type=ResumePayload)
            started = resumed.resumed_ns
            continue
        end = msgspec.json.decode(entry.payload, type=EndPayload).ended_ns
        if started is not None and end:
            known.append(end - started)
            started = None
    if started is not None and session.status == "running":
        known.append(time.time_ns() - started)
    if not known:
        # A session of version 0.1 has no time of its end, but a capture from then.
        machines = machines_of(study, session.number)
        known += [machine.taken_ns - session.info.started_ns for machine in machines[1:][-1:]]
    return max(0, sum(known)) if known else None


def problem_of(place: Path, error: OperatingError | OSError) -> CatalogueProblem:
    """Return why a study cannot be read."""
    code, message = "study-unusable", f"cannot read {place}: {error}"
    if isinstance(error, OSError):
        message = f"cannot read {place}: {error.strerror}"
    elif isinstance(error, StudyError):
        code, message = error.code, error.message
    return CatalogueProblem(str(place), code, message)
