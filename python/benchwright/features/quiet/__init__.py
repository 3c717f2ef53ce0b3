"""Prepares the machine for a benchmark and restores it afterwards; empties caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchwright.feature import AddParser, DocumentType, Feature


class Quiet(Feature):
    """What this feature adds."""

    name = "quiet"

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "quiet":
                from benchwright.features.quiet.command import add_parser
            case _:
                from benchwright.features.quiet.chill_command import add_parser
        return add_parser

    def before_command(self, argv: Sequence[str]) -> Any:
        from benchwright.features.quiet.leftovers import undo_leftovers

        return undo_leftovers(argv)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.quiet.chill_report import ChillDocument
        from benchwright.features.quiet.report import QuietDocument

        return {QuietDocument: None, ChillDocument: None}


FEATURE: Feature = Quiet()
