"""The report of `bw stats` as one JSON document, schema `benchwright/stats/1`."""

from __future__ import annotations

from typing import Any

from benchwright.report.document import Document
from benchwright.report.json import encode, finding_object, section_object
from benchwright.report.ttest import comparison_objects

SCHEMA = "benchwright/stats/1"


def stats_object(document: Document) -> dict[str, Any]:
    """Return the document as plain objects, ready to be part of another document."""
    baseline = document.sections[document.baseline].name if document.sections else None
    return {
        "schema": SCHEMA,
        "confidence": document.confidence,
        "baseline": baseline,
        "inputs": [section_object(section) for section in document.sections],
        "comparisons": comparison_objects(document),
        "findings": [finding_object(finding) for finding in document.findings],
        "notices": [
            {"subject": one.subject, "text": one.text} for one in document.notices
        ],
    }


def render_json(document: Document) -> str:
    """Return the document as indented JSON with a newline at its end."""
    return encode(stats_object(document))
