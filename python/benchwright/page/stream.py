"""From the journal of a study to the events of its live view.

Purpose: what a page shows, section by section, and what it needs to show the current state.
Decision: an event contains whole sections, those that changed since the journal row that the page
has, and the order of all; so a page that joins late, or comes back after a lost connection, needs
no history of events. A section that changed at that very row is sent again, because a row can be
followed by a change of state (the session was killed). Source: WHATWG, HTML, section 9.2
(server-sent events).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from benchwright import __version__
from benchwright.core.errors import OperatingError, StudyError
from benchwright.page.document import ReportDocument
from benchwright.page.files import read_part
from benchwright.page.html import section_pages
from benchwright.study.directory import writer_of
from benchwright.study.journal import FollowedJournal, StoredSession, Study

State = Literal["waiting", "running", "interrupted", "ended", "unreadable"]


class LiveState(msgspec.Struct, frozen=True):
    """What the page shows about the session."""

    state: State
    text: str


class LiveUpdate(msgspec.Struct, frozen=True):
    """The data of an event."""

    state: State
    text: str
    order: tuple[str, ...]
    """The ids of all sections."""
    changed: dict[str, str]
    """HTML of those that changed, by id."""


class LivePage:
    """The sections of the page, and the journal row at which each changed last."""

    def __init__(self) -> None:
        self.seq = 0
        """The last journal row that the page shows."""
        self.state = LiveState("waiting", "waiting for the first session")
        self._sections: dict[str, str] = {}
        self._changed_at: dict[str, int] = {}

    def show(self, seq: int, sections: Mapping[str, str], state: LiveState) -> bool:
        """Take the current sections and state; return whether anything changed.

        A smaller `seq` than before means another journal; then all sections count as changed.
        """
        if seq < self.seq:
            self._sections = {}
        changed = {name for name, html in sections.items() if self._sections.get(name) != html}
        is_new = bool(changed) or self._sections.keys() != sections.keys() or self.state != state
        self._changed_at |= dict.fromkeys(changed, seq)
        self._sections, self.seq, self.state = dict(sections), seq, state
        return is_new

    def state_changed(self, state: LiveState) -> bool:
        """Take another state with the same sections; return whether it differs."""
        is_new = self.state != state
        self.state = state
        return is_new

    def event(self, after: int) -> bytes:
        """Return the event that brings a page from journal row `after` to the current state."""
        update = LiveUpdate(
            self.state.state,
            self.state.text,
            tuple(self._sections),
            {
                name: html
                for name, html in self._sections.items()
                if self._changed_at[name] >= after or after > self.seq
            },
        )
        # JSON has no line break outside strings, and none inside: the data is one line.
        return b"id: %d\ndata: %s\n\n" % (self.seq, msgspec.json.encode(update))


class Reading(msgspec.Struct, frozen=True):
    """The state of a study at one row of its journal."""

    seq: int
    state: LiveState
    document: ReportDocument | None
    """The report of the last session; None if there is none, or if it cannot be read."""

    @property
    def sections(self) -> dict[str, str]:
        """The HTML of the sections, as in the report."""
        return {} if self.document is None else section_pages(self.document)


class _BeginKeys(msgspec.Struct):
    """The part of a `begin` entry that is read here (run/ledger.py)."""

    keys: tuple[str, ...]


class JournalFollower:
    """Reads the last session of a study again and again while a session may append to it."""

    def __init__(self, study: Path) -> None:
        self._path = study
        self._followed: FollowedJournal | None = None
        self._seq = 0

    def read(self, *, is_over: bool = False) -> Reading:
        """Return the current state; `is_over`: the session that holds the study has ended.

        A study that cannot be read gives a state that says why.
        """
        try:
            study, self._followed = Study.open_to_follow(self._path, self._followed)
            with contextlib.closing(study):
                self._seq = self._followed.rows.seq
                sessions = study.sessions()
                if not sessions:
                    return Reading(self._seq, LiveState("waiting", "no trial has run yet"), None)
                session = sessions[-1]
                is_running = not is_over and writer_of(self._path) is not None
                if is_running:
                    # Its last end, if it has one, is that of an earlier run of the session.
                    session = msgspec.structs.replace(session, status="running")
                part = read_part(study, session, "p1")
        except StudyError as error:
            self._followed = None
            return Reading(self._seq, LiveState("unreadable", error.message), None)
        except (OperatingError, OSError) as error:
            return Reading(self._seq, LiveState("unreadable", str(error)), None)
        document = ReportDocument(title=part.title, version=__version__, parts=(part,), shared=())
        return Reading(self._seq, state_of(session), document)

    def in_flight(self) -> int:
        """Return the number of trials that have begun and have no outcome; 0 if none runs.

        A journal that cannot be read counts as one in which nothing runs.
        """
        try:
            study, self._followed = Study.open_to_follow(self._path, self._followed)
            with contextlib.closing(study):
                last = study.last_entry()
        except (OperatingError, OSError):
            self._followed = None
            return 0
        if last is None or last.kind != "begin":
            return 0
        return len(msgspec.json.decode(last.payload, type=_BeginKeys).keys)


def state_of(session: StoredSession) -> LiveState:
    """Return what the page shows about a session."""
    if session.status == "running":
        return LiveState("running", f"session {session.number} runs")
    if session.status == "crashed":
        return LiveState("interrupted", "killed; bw resume continues")
    if session.status in ("interrupted", "stopped", "deadline"):
        return LiveState("interrupted", f"{session.status}; bw resume continues")
    return LiveState("ended", f"ended: {session.status}")
