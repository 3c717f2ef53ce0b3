"""Keeps what was sent and what became of it: a line of JSON each, beside the journal.

Decision: a file, not the journal: a notice follows a session's end and is no outcome that
a resume would act on. It is private like the study (0600), and holds no secret.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.notice import Notice, NoticeDelivery
from benchwright.core.untrusted import visible_json

FILE = "notices.jsonl"


class NoticeRecord(msgspec.Struct, frozen=True):
    """One line of the file."""

    notice: Notice
    deliveries: tuple[NoticeDelivery, ...]


def keep(study: Path, notice: Notice, deliveries: Sequence[NoticeDelivery]) -> str:
    """Append to the study's file; return why that was not possible, or an empty text."""
    text = msgspec.json.encode(NoticeRecord(notice, tuple(deliveries))).decode()
    line = visible_json(text).encode() + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(study / FILE, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{study / FILE}: {error.strerror}"
    return ""
