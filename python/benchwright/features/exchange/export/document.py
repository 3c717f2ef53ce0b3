"""The documents of `bw export --json`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.report.documents import FileEntry


class ExportDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/export/1"
):
    """An export: the files that were written, or its text."""

    study: str
    session: int
    format: str
    left_out: tuple[str, ...]
    """What the session has and the files have not, a sentence for each."""
    files: tuple[FileEntry, ...]
    text: str | UnsetType = UNSET
    """Without `--output`: the export."""


class FormatEntry(msgspec.Struct, frozen=True):
    """A format of `bw export`."""

    name: str
    reader: str
    """What reads it."""


class ExportFormatsDocument(
    msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/export-formats/1"
):
    """The formats of `bw export`."""

    formats: tuple[FormatEntry, ...]
