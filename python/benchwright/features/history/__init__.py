"""Histories: results run after run, and which change is real."""

from __future__ import annotations

from collections.abc import Mapping

from benchwright.feature import AddParser, DocumentType, Feature


class History(Feature):
    """What this feature adds."""

    name = "history"

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.history.command import add_parser

        return add_parser

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.history import document
        from benchwright.features.history.bisect_report import BisectDocument

        return {
            BisectDocument: None,
            document.HistoryDocument: None,
            document.HistoryAddDocument: None,
            document.HistoryAcceptDocument: None,
            document.HistoryNotesDocument: None,
        }


FEATURE: Feature = History()
