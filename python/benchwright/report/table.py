"""Getstats' table, in the form of the paper's Figure 2.

A line with the input's name, the headings, one line per quantity; names and counts to
the left, figures with three decimals to the right; columns as wide as the widest figure
of any input, so that inputs can be compared by eye.
"""

from __future__ import annotations

from benchwright.model.visible import visible
from benchwright.report.cells import cells, heading
from benchwright.report.document import Document, Section
from benchwright.report.findings import finding_lines
from benchwright.report.notices import notice_lines
from benchwright.report.ttest import ttest_text

_NARROWEST = 6
_NAME = 9
_COUNT = 5
_LEFT = 2


def render_table(document: Document, *, findings: bool = True) -> str:
    """Return findings and notices, one line each, and a table for every input.

    Then the t-tests, where there are any. Ends with a newline; empty for an empty
    document.
    """
    parts = []
    doubts = finding_lines(document.findings) + notice_lines(document.notices)
    if findings and doubts:
        parts.append(doubts)
    tables = [(visible(section.name), _rows(section)) for section in document.sections]
    widths = _widths([rows for _, rows in tables])
    for name, rows in tables:
        lines = [name, *(_aligned(row, widths) for row in rows)]
        parts.append("".join(line + "\n" for line in lines))
    if document.comparisons:
        parts.append(ttest_text(document))
    return "\n".join(parts)


def _rows(section: Section) -> list[list[str]]:
    """Return a section's heading and cells, what is not printable in them escaped."""
    rows = [heading(section), *map(cells, section.lines)]
    return [[visible(cell) for cell in row] for row in rows]


def _widths(tables: list[list[list[str]]]) -> list[int]:
    columns = max((len(rows[0]) for rows in tables), default=0)
    widths = [_NAME, _COUNT, *[_NARROWEST] * (columns - _LEFT)]
    for rows in tables:
        for row in rows:
            for place, text in enumerate(row):
                widths[place] = max(widths[place], len(text))
    return widths


def _aligned(row: list[str], widths: list[int]) -> str:
    padded = [
        text.ljust(width) if place < _LEFT else text.rjust(width)
        for place, (text, width) in enumerate(zip(row, widths, strict=False))
    ]
    return " ".join(padded).rstrip()
