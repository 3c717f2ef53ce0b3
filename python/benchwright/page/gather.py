"""From stored sessions to a report: which session, its answer, and its sections in order."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from benchwright import __version__
from benchwright.core.errors import argument_error
from benchwright.core.machine import MachineCapture
from benchwright.feature import session_kind
from benchwright.machine.redact import without_secrets
from benchwright.page.document import ReportDocument, ReportPart
from benchwright.page.files import FileResults, file_part
from benchwright.page.origin import shared_section
from benchwright.page.tests import tests_part
from benchwright.study.contents import first_machine
from benchwright.study.journal import StoredSession, Study
from benchwright.study.selection import StudyPart


def gather_document(sources: Sequence[StudyPart | FileResults]) -> ReportDocument:
    """Return the report of these sessions and files.

    Raises StudyError for a study that cannot be read, InputError for an unknown session or test.
    """
    parts: list[ReportPart] = []
    machines: list[Sequence[MachineCapture]] = []
    for place, source in enumerate(sources, 1):
        if isinstance(source, FileResults):
            parts.append(file_part(source, f"p{place}"))
            machines.append(source.machines)
            continue
        with contextlib.closing(Study.open_to_read(source.place)) as study:
            session = source.of(study)
            if source.test is not None and session_kind(session.info.kind) is not None:
                text, kind = f"{source.place}:{source.test}", session.info.kind
                message = f"session {session.number} is a bw {kind}, which has no tests"
                hint = f"leave out :{source.test}"
                raise argument_error("STUDY", text, message, hint)
            parts.append(read_part(study, session, f"p{place}", source.test))
            machine = first_machine(study, session.number)
            machines.append(() if machine is None else (machine,))
    several = "sessions" if all(part.session for part in parts) else "results"
    title = parts[0].title if len(parts) == 1 else f"{len(parts)} {several}"
    shared = (shared_section(parts, machines),) if len(parts) > 1 else ()
    return ReportDocument(title=title, version=__version__, parts=tuple(parts), shared=shared)


def read_part(
    study: Study, session: StoredSession, part: str, only: str | None = None
) -> ReportPart:
    """Return the report of one session; `part` is the prefix of its ids, such as `p1`.

    The session may be running. Raises StudyError for a record that cannot be read.
    """
    if (kind := session_kind(session.info.kind)) is not None:
        whole = kind.page(study, session, part)
    else:
        whole = tests_part(study, session, part, only)
    shown: ReportPart = without_secrets(whole, session.info.commands)
    return shown
