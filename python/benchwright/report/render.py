"""A document in the form that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchwright.report.document import Document
from benchwright.report.formats import render_csv, render_latex, render_markdown
from benchwright.report.json import render_json
from benchwright.report.table import render_table

RENDERERS: Mapping[str, Callable[[Document], str]] = {
    "table": render_table,
    "csv": render_csv,
    "json": render_json,
    "markdown": render_markdown,
    "latex": render_latex,
}


def render(document: Document, form: str) -> str:
    """Return the document as text in one of the forms of `RENDERERS`."""
    return RENDERERS[form](document)
