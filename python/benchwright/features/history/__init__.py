"""Histories: results run after run, and which change is real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.findings.codes import Code
    from benchwright.page.document import PartWords


class History(Feature):
    """What this feature adds."""

    name = "history"

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.history.command import add_parser

        return add_parser

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.history import document
        from benchwright.features.history.bisect import BisectDocument

        return {
            BisectDocument: None,
            document.HistoryDocument: None,
            document.HistoryAddDocument: None,
            document.HistoryAcceptDocument: None,
            document.HistoryNotesDocument: None,
        }

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.history.codes import CODES

        return CODES

    def part_words(self) -> Mapping[str, PartWords]:
        from benchwright.page.document import PartWords

        return {"history": PartWords("history", "series", "a history")}


FEATURE: Feature = History()
