"""A load's result as one JSON document, `benchwright/load/1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchwright.model.finding import Finding
from benchwright.model.load import Loop
from benchwright.report.json import encode, finding_object

SCHEMA = "benchwright/load/1"


def load_document(
    result: Mapping[str, Any],
    request: Mapping[str, Any],
    metrics: Mapping[str, float],
    *,
    known_to: float,
    loop: Loop,
    asked_rate_per_s: float | None,
    findings: Sequence[Finding],
) -> str:
    """Return the document: what was asked, what the engine said in full, the metrics by
    name, and the doubts. `result` is the engine's own, with every field that it has;
    beyond the share `known_to` its percentiles of response times say nothing."""
    said = {key: value for key, value in result.items() if key != "type"}
    return encode(
        {
            "schema": SCHEMA,
            "request": dict(request),
            "loop": {"open": loop.open, "closed": loop.closed},
            "result": said,
            "asked_rate_per_s": asked_rate_per_s,
            "metrics": dict(metrics),
            "response_known_to": known_to,
            "findings": [finding_object(one) for one in findings],
        }
    )
