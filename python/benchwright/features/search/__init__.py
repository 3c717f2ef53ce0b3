"""Searches over loads: the peak rate of a server, ramps, and maps of the peak rate over factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.feature import AddParser, DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.cli.shared_options import AddedOptions
    from benchwright.findings.codes import Code
    from benchwright.page.kinds import SessionKind


class Search(Feature):
    """What this feature adds."""

    name = "search"
    needs = ("load", "generators", "quiet")

    def add_parser(self, command: str) -> AddParser:
        match command:
            case "ramp":
                from benchwright.features.search.ramp.command import add_parser
            case "peak":
                from benchwright.features.search.peak.command import add_parser
            case _:
                from benchwright.features.search.surface.command import add_parser
        return add_parser

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.search.compared.document import SearchComparisonDocument
        from benchwright.features.search.peak.report import PeakDocument
        from benchwright.features.search.ramp.report import RampDocument
        from benchwright.features.search.surface.report import SurfaceDocument

        return {
            RampDocument: None,
            PeakDocument: None,
            SurfaceDocument: None,
            SearchComparisonDocument: None,
        }

    def options(self, command: str) -> Sequence[AddedOptions]:
        if command != "compare":
            return ()
        from benchwright.features.search.compared.command import ADDED

        return (ADDED,)

    def calls(self) -> Mapping[str, Any]:
        from benchwright.features.search.peak import api

        return {"peak": api.peak, "PeakResult": api.PeakResult}

    def session_kinds(self) -> Mapping[str, SessionKind]:
        from benchwright.features.search.kinds import KINDS

        return KINDS

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.search.codes import CODES

        return CODES


FEATURE: Feature = Search()
