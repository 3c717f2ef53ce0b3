"""Copies what a gang measured into the study of the session, once.

The journal of the task's study is checked from end to end; then the entries of the task are
appended together with the end of the attempt in one transaction, so a crash leaves both or none,
and a second adoption fails on the keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.results import Finding
from benchwright.features.pool.agent import STUDY
from benchwright.features.pool.keys import attempt_key
from benchwright.features.pool.protocol import TaskVerdict
from benchwright.features.pool.types import Attempt
from benchwright.run.ledger import Ledger
from benchwright.study.contents import FINDING_KIND, first_machine, recorded_findings
from benchwright.study.journal import NewEntry, Study

_COPIED = ("begin", "outcome", "void")
_SESSION = 1
"""The session of a task's study."""


class Damaged(Exception):
    """A result differs from what the host wrote; the message says in what."""


def unpack(result: bytes, verdict: TaskVerdict, place: Path) -> Path:
    """Unpack the result of an attempt into a directory, which is replaced; return its study. Raises
    Damaged."""
    digest = hashlib.sha256(result).hexdigest()
    if (len(result), digest) != (verdict.size, verdict.sha256):
        text = f"the collected result has SHA-256 {digest[:12]}, the one on the host {verdict.sha256[:12]}"
        raise Damaged(text)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, mode=0o700)
    try:
        with tarfile.open(fileobj=io.BytesIO(result)) as packed:
            packed.extractall(place, filter="data")
    except tarfile.TarError as error:
        raise Damaged(f"the collected result cannot be unpacked: {error}") from None
    return place / STUDY


def move_files(study: Path, to: Path, session: int) -> None:
    """Move the logs and series of a task's tests to where those of a session's tests are. Raises
    OSError."""
    for folder in study.glob(f"*/s{_SESSION}"):
        if folder.parent.name == "results":
            continue
        place = to / folder.parent.name / f"s{session}"
        place.mkdir(parents=True, exist_ok=True)
        for item in folder.iterdir():
            shutil.rmtree(place / item.name, ignore_errors=True)
            shutil.move(item, place / item.name)


def adopt(ledger: Ledger, attempt: Attempt, prefixes: tuple[str, ...], study: Path) -> None:
    """Record the entries of an attempt, its machine, its findings and its end, in one durable
    write.

    Raises Damaged, and StudyError if the session's own journal cannot be written.
    """
    try:
        with contextlib.closing(Study.open_to_read(study)) as opened:
            entries = [
                NewEntry(
                    entry.kind, entry.key, msgspec.Raw(entry.payload), entry.begin, copied=entry.seq
                )
                for entry in opened.entries(_SESSION, _COPIED)
                if entry.key.startswith(prefixes)
            ]
            machine = first_machine(opened, _SESSION)
            found: tuple[Finding, ...] = recorded_findings(opened, _SESSION)
    except StudyError as error:
        raise Damaged(f"the collected study: {error.message}") from None
    entries += [NewEntry(FINDING_KIND, finding.code, finding) for finding in found]
    if machine is not None:
        key = attempt_key(attempt.id, "environment")
        entries.append(NewEntry("outcome", key, machine))
    entries.append(NewEntry("outcome", attempt_key(attempt.id, "ended"), attempt))
    ledger.adopt(entries)
