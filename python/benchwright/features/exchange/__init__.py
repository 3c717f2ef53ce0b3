"""Results of other tools, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.study.parsers.api import ResultFormats


class Exchange(Feature):
    """What this feature adds."""

    name = "exchange"
    needs = ("load",)

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.exchange.command import add_parser

        return add_parser

    def result_formats(self) -> ResultFormats:
        from benchwright.features.exchange.foreign import FORMATS

        return FORMATS

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.exchange.command import ExportDocument, ExportFormatsDocument

        return {ExportDocument: None, ExportFormatsDocument: None}


FEATURE: Feature = Exchange()
