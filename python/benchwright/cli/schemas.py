"""The JSON Schemas of every document, made from the documents' types: `bw schema KIND`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from benchwright.feature import DocumentType, features
from benchwright.notice.text import NoticeDocument
from benchwright.page.document import ReportDocument
from benchwright.report.charts.plot_data import PlotDocument
from benchwright.report.env import EnvDifferenceDocument, EnvDocument
from benchwright.report.run import CompareDocument, PlanDocument, RunDocument
from benchwright.report.stats_json import PredicateDocument, StatsDocument
from benchwright.results.explained import WhyDocument
from benchwright.study.export import SessionDocument
from benchwright.views.installation import ConfigDocument, VersionDocument
from benchwright.views.sessions import LsDocument, ShowDocument, TagDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/{name}"

_OF_THE_CORE: tuple[DocumentType, ...] = (
    RunDocument,
    PlanDocument,
    CompareDocument,
    LsDocument,
    ShowDocument,
    TagDocument,
    ReportDocument,
    StatsDocument,
    PredicateDocument,
    WhyDocument,
    PlotDocument,
    EnvDocument,
    EnvDifferenceDocument,
    SessionDocument,
    NoticeDocument,
    VersionDocument,
    ConfigDocument,
)


def documents() -> Mapping[DocumentType, DocumentType | None]:
    """Return the type of each document; with each the type of the least that the engine's answer
    in it contains (`documents.engine_answer`), None without such an answer."""
    found: dict[DocumentType, DocumentType | None] = dict.fromkeys(_OF_THE_CORE)
    for feature in features():
        found |= feature.documents()
    return found


def document_types() -> dict[str, DocumentType]:
    """Return the type of each document by its kind: `peak` of `benchwright/peak/1`."""
    named = {schema_name(document).split("/")[1]: document for document in documents()}
    return dict(sorted(named.items()))


def schema_name(document: type[msgspec.Struct]) -> str:
    """Return the value of a document's member `schema`: `benchwright/peak/1`."""
    return str(document.__struct_config__.tag)


def json_schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document, with the types of its parts under `$defs`."""
    answer = documents().get(document)
    types = (document,) if answer is None else (document, answer)
    (reference, *_), parts = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for part in parts.values():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    return {"$schema": DIALECT, **reference, "$defs": parts}
