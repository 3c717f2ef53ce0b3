"""Loads: operations at their intended times, by the engine, against servers, files and devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from pathlib import Path

    from benchwright.findings.codes import Code
    from benchwright.page.kinds import TrialDocumentKind
    from benchwright.study.journal import SessionInfo


class Load(Feature):
    """What this feature adds."""

    name = "load"

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.load.command import add_parser

        return add_parser

    def options_of_other_tools(self, command: str) -> Mapping[str, str]:
        from benchwright.features.load.other_tools import OPTIONS

        return OPTIONS

    def code_of_failure(self, command: str) -> str:
        return "load-failed"

    def trial_documents(self) -> Sequence[TrialDocumentKind]:
        from benchwright.features.load.trial_document import LOADS

        return (LOADS,)

    def status_of_resumed(self, place: Path, number: int, info: SessionInfo, status: int) -> int:
        from benchwright.features.load.session import status_of_stored

        return status_of_stored(place, number, info, status)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.load.document import LoadDocument
        from benchwright.features.load.types import EngineResult

        return {LoadDocument: EngineResult}

    def calls(self) -> Mapping[str, Any]:
        from benchwright.features.load import api

        return {"load": api.load, "LoadResult": api.LoadResult}

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.load.codes import CODES

        return CODES


FEATURE: Feature = Load()
