"""Recorded traces: measured, compared, converted, recorded and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from pathlib import Path

    from benchwright.findings.codes import Code
    from benchwright.study.journal import SessionInfo


class Replay(Feature):
    """What this feature adds."""

    name = "replay"
    needs = ("load",)

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "replay":
                from benchwright.features.replay.command import add_parser
            case _:
                from benchwright.features.replay.trace_command import add_parser
        return add_parser

    def options_of_other_tools(self, command: str) -> Mapping[str, str]:
        from benchwright.features.load.other_tools import OPTIONS

        return OPTIONS if command == "replay" else {}

    def code_of_failure(self, command: str) -> str:
        return "load-failed" if command == "replay" else super().code_of_failure(command)

    def status_of_resumed(self, place: Path, number: int, info: SessionInfo, status: int) -> int:
        from benchwright.features.load.session import status_of_stored

        return status_of_stored(place, number, info, status)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.replay import report, types

        return {
            report.TraceStatDocument: types.TraceStatistics,
            report.TraceCompareDocument: types.TraceComparison,
            report.TraceConvertDocument: types.ConvertResult,
            report.TraceCaptureDocument: types.CaptureResult,
        }

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.replay.codes import CODES

        return CODES


FEATURE: Feature = Replay()
