"""Prepares the machine for a benchmark and restores it afterwards; empties caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.core.results import Finding
    from benchwright.run.surroundings import Surrounding
    from benchwright.study.journal import SessionInfo
    from benchwright.suite.tables import SuiteTable


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

    def before_command(self, argv: Sequence[str]) -> Sequence[Finding]:
        from benchwright.features.quiet.leftovers import undo_leftovers

        return undo_leftovers(argv)

    def suite_tables(self) -> Mapping[str, SuiteTable]:
        from benchwright.features.quiet.toml import check_quiet, read_quiet
        from benchwright.suite.tables import SuiteTable

        return {"quiet": SuiteTable(read_quiet, check_quiet, changes_machine=True)}

    def surroundings(
        self, info: SessionInfo, tables: Mapping[str, Any], note: Callable[[str], None]
    ) -> Sequence[Surrounding]:
        from benchwright.features.quiet.session import QuietSession

        return (QuietSession(tables.get("quiet"), info.options["token"], note),)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.quiet.chill_report import ChillDocument
        from benchwright.features.quiet.report import QuietDocument

        return {QuietDocument: None, ChillDocument: None}


FEATURE: Feature = Quiet()
