"""What was found out about traces as JSON documents, `benchwright/trace-.../1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchwright.model.finding import Finding
from benchwright.report.json import encode, finding_object


def trace_document(
    kind: str,
    request: msgspec.Struct | Sequence[msgspec.Struct],
    parts: Mapping[str, Any],
    findings: Sequence[Finding],
) -> str:
    """Return the document of `bw trace KIND`: what was asked, what came of it, the doubts.

    `parts` has the engine's answers in full, with every field that they have.
    """
    return encode(
        {
            "schema": f"benchwright/trace-{kind}/1",
            "request": msgspec.to_builtins(request),
            **parts,
            "findings": [finding_object(one) for one in findings],
        }
    )
