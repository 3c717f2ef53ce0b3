"""Stored sessions as a table (`bw ls`), one of them in full (`bw show`), and as JSON.

Times are UTC, as in every report. Decision: a narrow terminal loses columns, the least important
first, and the answer is cut to what is left, so that a session is always one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchwright.core.machine import Revision
from benchwright.core.text import duration_ns_text, plural, size_text
from benchwright.core.text_table import Field, field_lines
from benchwright.core.untrusted import one_line, shell_text, visible
from benchwright.report.answer import AnswerEntry, FindingGroup
from benchwright.report.documents import entry, report_text
from benchwright.study.catalogue import CatalogueProblem, SessionRecord
from benchwright.study.keys import SessionAbout
from benchwright.views.blocks import Cell, Column, TableBlock, Words, keyed, table_of
from benchwright.views.terminal import table_text

# -- A session in short ----------------------------------------------------------------


class ListedSession(msgspec.Struct, frozen=True):
    """A session and its answer in one line."""

    record: SessionRecord
    answer: str


_LONGEST_COMMAND = 40


def sessions_text(listed: Sequence[ListedSession], width: int | None) -> str:
    """Return a table with one line for each session, of at most this width; None: complete."""
    if not listed:
        return ""
    return report_text(table_text(sessions_table(listed), width, cut=True))


def sessions_table(listed: Sequence[ListedSession]) -> TableBlock:
    """Return a row for each session."""

    def words(text: Callable[[SessionRecord], str]) -> Callable[[str, ListedSession], Cell]:
        return lambda _, session: Words(text(session.record))

    return table_of(
        "sessions",
        "Sessions",
        keyed("s", listed),
        (
            (Column("Session"), words(lambda session_record: visible(session_record.selector))),
            (Column("Name", rank=3), words(lambda one: visible(one.session.about.name))),
            (Column("Started UTC"), words(started_text)),
            (Column("Lasted", numeric=True, rank=1), words(_lasted_cell)),
            (Column("State"), words(lambda one: one.state)),
            (Column("Command", rank=5), words(_command_cell)),
            (Column("Tests", rank=5), words(_tests_cell)),
            (Column("Commit", rank=3), words(lambda one: commit_text(one.revision))),
            (Column("Machine", rank=4), words(lambda one: _fact(one, "host.name"))),
            (Column("Tags", rank=2), words(lambda one: visible(" ".join(one.session.about.tags)))),
            (
                Column("Answer"),
                lambda _, listed_session: Words(one_line(listed_session.answer) or "-"),
            ),
        ),
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 3, 1)]}..."


def started_text(record: SessionRecord) -> str:
    """Return when a session was started, in UTC: `2026-11-23 12:36`."""
    return f"{_moment(record.session.info.started_ns // 10**9):%Y-%m-%d %H:%M}"


def _moment(seconds: int) -> datetime:
    # A journal may have any number, and datetime ends with the year 9999.
    return datetime.fromtimestamp(min(max(seconds, 0), 253402300799), UTC)


def _lasted_cell(record: SessionRecord) -> str:
    return "-" if record.lasted_ns is None else duration_ns_text(record.lasted_ns)


def command_text(record: SessionRecord) -> str:
    """Return the command line of a session."""
    return shell_text(("bw", *record.session.info.arguments))


def _command_cell(record: SessionRecord) -> str:
    return _cut(command_text(record).removeprefix("bw "), _LONGEST_COMMAND)


def _tests_cell(record: SessionRecord) -> str:
    if len(record.tests) == 1:
        return _cut(visible(record.tests[0]), _LONGEST_COMMAND)
    return plural(len(record.tests), "test") if record.tests else ""


def commit_text(revision: Revision | None) -> str:
    """Return a commit in short, with `+` if files differ from it: `3f2a1c9+`."""
    if revision is None:
        return ""
    return f"{visible(revision.commit[:9])}{'+' if revision.dirty else ''}"


def _fact(record: SessionRecord, name: str) -> str:
    fact = None if record.machine is None else record.machine.named().get(name)
    return one_line(fact.value) if fact is not None and fact.value else ""


# -- A session in full -----------------------------------------------------------------


class StoredFiles(msgspec.Struct, frozen=True):
    """The files of a session in one folder of its study."""

    folder: str
    """Below the study: `logs/s2`."""
    files: int
    bytes: int


class ShownSession(msgspec.Struct, frozen=True):
    """A session with what `bw show` prints of it."""

    record: SessionRecord
    headline: str
    answer_lines: tuple[str, ...]
    """The table and the sentences of its tests; empty for a search."""
    finding_lines: tuple[str, ...]
    answers: tuple[AnswerEntry, ...]
    groups: tuple[FindingGroup, ...]
    files: tuple[StoredFiles, ...]


def show_text(shown: ShownSession) -> str:
    """Return everything about one session, ending with a newline."""
    return report_text(_show_lines(shown))


def _show_lines(shown: ShownSession) -> Iterator[str]:
    yield from field_lines(_fields(shown))
    yield ""
    yield from shown.answer_lines or [one_line(shown.headline) or "no result yet"]
    if shown.finding_lines:
        yield ""
        yield from shown.finding_lines
    yield ""
    place = shell_text([shown.record.selector])
    yield f"all figures: bw stats {place}; what limited it: bw why {place}"


def _fields(shown: ShownSession) -> Iterator[Field]:
    record = shown.record
    session = record.session
    info, about = session.info, session.about
    name = f", {visible(about.name)}" if about.name else ""
    yield "session", f"{visible(record.selector)}{name}"
    yield "command", command_text(record)
    yield "directory", visible(info.directory)
    started = f"{_moment(info.started_ns // 10**9):%Y-%m-%d %H:%M:%S} UTC"
    lasted = f", lasted {_lasted_cell(record)}" if record.lasted_ns is not None else ""
    yield "started", f"{started}{lasted}"
    detail = one_line(session.detail)
    yield "state", f"{record.state}: {detail}" if detail else record.state
    if about.tags:
        yield "tags", visible(" ".join(about.tags))
    if about.note:
        yield "note", one_line(about.note)
    if record.revision is not None:
        yield "commit", _revision_text(record.revision)
    if machine := ", ".join(filter(None, _machine_words(record))):
        yield "machine", machine
    yield "version", f"bw {visible(info.version)}"
    for at, stored_files in enumerate(shown.files):
        count = plural(stored_files.files, "file")
        place = f"{visible(str(record.study))}/{stored_files.folder}"
        yield "" if at else "files", f"{place}: {count}, {size_text(stored_files.bytes)}"


def _revision_text(revision: Revision) -> str:
    parts = [visible(revision.commit)]
    if revision.branch:
        parts.append(f"on {one_line(revision.branch)}")
    if revision.dirty:
        parts.append("with changed files")
    if revision.committed_s is not None:
        parts.append(f"of {_moment(revision.committed_s):%Y-%m-%d %H:%M} UTC")
    return " ".join(parts)


def _machine_words(record: SessionRecord) -> Iterator[str]:
    yield _fact(record, "host.name")
    online = _fact(record, "cpu.online")
    yield f"CPUs {online}" if online else ""
    yield _fact(record, "cpu.model")
    kernel = _fact(record, "kernel.release")
    yield f"kernel {kernel}" if kernel else ""


# -- JSON ------------------------------------------------------------------------------


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session."""

    study: str
    """The path of the study as it was named."""
    session: int
    name: str
    """Empty without one."""
    tags: tuple[str, ...]
    note: str
    kind: str
    """`run`, `compare`, `null`, `ramp`, `peak` or `surface`."""
    arguments: tuple[str, ...]
    """The words after `bw`."""
    directory: str
    version: str
    started_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    lasted_ns: int | None
    """How long it ran, without the time between an end and a resume; null: unknown."""
    state: str
    """`complete`, `undecided`, `failed`, `interrupted` or `running`."""
    status: str
    """How it ended, in the words of its command; `crashed` without an end."""
    detail: str
    tests: tuple[str, ...]
    """The names of its tests; empty for a search."""
    revision: Revision | None
    """The git commit of its directory; null outside a repository."""
    host: str | None
    cpu: str | None
    """The CPU's model."""
    answer: str
    """In one line; empty if there is none yet."""


class LsDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/ls/1"
):
    """Stored sessions."""

    sessions: tuple[SessionEntry, ...]
    left_out: int
    """Sessions beyond --limit."""
    problems: tuple[CatalogueProblem, ...]
    """What could not be read."""


class ShowDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/show/1"
):
    """One stored session."""

    session: SessionEntry
    answers: tuple[AnswerEntry, ...]
    """Of its tests; empty for a search."""
    finding_groups: tuple[FindingGroup, ...]
    files: tuple[StoredFiles, ...]


class TagDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/tag/1"
):
    """Name, tags and note of a session."""

    study: str
    session: int
    name: str
    tags: tuple[str, ...]
    note: str
    changed: bool
    """Whether this command changed them."""


def session_entry(record: SessionRecord, answer: str) -> SessionEntry:
    """Return a session as JSON has it."""
    session = record.session
    info, about = session.info, session.about
    return SessionEntry(
        study=str(record.study),
        session=session.number,
        name=about.name,
        tags=about.tags,
        note=about.note,
        kind=info.kind,
        arguments=info.arguments,
        directory=info.directory,
        version=info.version,
        started_ns=info.started_ns,
        lasted_ns=record.lasted_ns,
        state=record.state,
        status=session.status,
        detail=session.detail,
        tests=record.tests,
        revision=record.revision,
        host=_fact(record, "host.name") or None,
        cpu=_fact(record, "cpu.model") or None,
        answer=answer,
    )


def show_document(shown: ShownSession) -> ShowDocument:
    """Return one session as JSON."""
    return ShowDocument(
        session=session_entry(shown.record, shown.headline),
        answers=shown.answers,
        finding_groups=shown.groups,
        files=shown.files,
    )


def tag_text(study: Path, session: int, about: SessionAbout) -> str:
    """Return name, tags and note of a session, ending with a newline."""
    fields = [
        ("session", visible(f"{study}@{session}")),
        ("name", visible(about.name)),
        ("tags", visible(" ".join(about.tags))),
        ("note", one_line(about.note)),
    ]
    return report_text(field_lines([(name, text or "-") for name, text in fields]))


def tag_document(study: Path, session: int, about: SessionAbout, changed: bool) -> TagDocument:
    """Return name, tags and note of a session as JSON."""
    return entry(TagDocument, about, study=str(study), session=session, changed=changed)
