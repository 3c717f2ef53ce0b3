"""The JSON Schemas of every document, made from the documents' types: `bw schema KIND`."""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.features.exchange.export.document import (
    ExportDocument,
    ExportFormatsDocument,
)
from benchwright.features.history.bisect_report import BisectDocument
from benchwright.features.history.document import (
    HistoryAcceptDocument,
    HistoryAddDocument,
    HistoryDocument,
    HistoryNotesDocument,
)
from benchwright.features.load.report import LoadDocument
from benchwright.features.load.types import EngineResult
from benchwright.features.pool.report import PoolDocument
from benchwright.features.quiet.chill_report import ChillDocument
from benchwright.features.quiet.report import QuietDocument
from benchwright.features.replay.report import (
    TraceCaptureDocument,
    TraceCompareDocument,
    TraceConvertDocument,
    TraceStatDocument,
)
from benchwright.features.replay.types import (
    CaptureResult,
    ConvertResult,
    TraceComparison,
    TraceStatistics,
)
from benchwright.features.search.peak.report import PeakDocument
from benchwright.features.search.ramp.report import RampDocument
from benchwright.features.search.surface.report import SurfaceDocument
from benchwright.notice.text import NoticeDocument
from benchwright.page.document import ReportDocument
from benchwright.report.charts.plot_data import PlotDocument
from benchwright.report.config import ConfigDocument
from benchwright.report.env import EnvDifferenceDocument, EnvDocument
from benchwright.report.plan import PlanDocument
from benchwright.report.run import CompareDocument, RunDocument
from benchwright.report.sessions import LsDocument, ShowDocument, TagDocument
from benchwright.report.stats_json import PredicateDocument, StatsDocument
from benchwright.report.version import VersionDocument
from benchwright.report.why import WhyDocument
from benchwright.study.export import SessionDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/{name}"

DOCUMENTS: tuple[type[msgspec.Struct], ...] = (
    RunDocument,
    PlanDocument,
    CompareDocument,
    LsDocument,
    ShowDocument,
    TagDocument,
    BisectDocument,
    ReportDocument,
    StatsDocument,
    PredicateDocument,
    WhyDocument,
    HistoryDocument,
    HistoryAddDocument,
    HistoryAcceptDocument,
    HistoryNotesDocument,
    PlotDocument,
    ExportDocument,
    ExportFormatsDocument,
    LoadDocument,
    TraceStatDocument,
    TraceCompareDocument,
    TraceConvertDocument,
    TraceCaptureDocument,
    RampDocument,
    PeakDocument,
    PoolDocument,
    SurfaceDocument,
    QuietDocument,
    ChillDocument,
    EnvDocument,
    EnvDifferenceDocument,
    SessionDocument,
    NoticeDocument,
    VersionDocument,
    ConfigDocument,
)
_ENGINE_ANSWERS: dict[type[msgspec.Struct], type[msgspec.Struct]] = {
    LoadDocument: EngineResult,
    TraceStatDocument: TraceStatistics,
    TraceCompareDocument: TraceComparison,
    TraceConvertDocument: ConvertResult,
    TraceCaptureDocument: CaptureResult,
}
"""Types with the minimum members of the engine's answer in each document; see
`documents.engine_answer`."""


def document_types() -> dict[str, type[msgspec.Struct]]:
    """Return the type of each document by its kind: `peak` of `benchwright/peak/1`."""
    return {schema_name(document).split("/")[1]: document for document in DOCUMENTS}


def schema_name(document: type[msgspec.Struct]) -> str:
    """Return the value of a document's member `schema`: `benchwright/peak/1`."""
    return str(document.__struct_config__.tag)


def json_schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document, with the types of its parts under `$defs`."""
    answer = _ENGINE_ANSWERS.get(document)
    types = (document,) if answer is None else (document, answer)
    (reference, *_), parts = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for part in parts.values():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    return {"$schema": DIALECT, **reference, "$defs": parts}
