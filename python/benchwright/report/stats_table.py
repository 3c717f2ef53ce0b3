"""The table of `bw stats`, in the form of the paper's Figure 2."""

from __future__ import annotations

from benchwright.core.text_table import TextColumn, table_lines
from benchwright.core.untrusted import visible
from benchwright.report.parts import finding_lines
from benchwright.report.stats_document import (
    InputSection,
    StatsReport,
    column_headings,
    notice_lines,
    row_cells,
)

# -- Getstats' table, in the form of the paper's Figure 2 ------------------------------
#
# A line with the input's name, the headings, one line per quantity. Names and counts are
# left-aligned, figures right-aligned. A column has the same width in the tables of all
# inputs, so that they can be compared by eye.

_NARROWEST = 6
_NAME = 9
_COUNT = 5
_LEFT = 2


def render_table(document: StatsReport, *, findings: bool = True) -> str:
    """Return findings and notices, one line each, a table for every input, and any t-tests.

    The text ends with a newline; it is empty for an empty report.
    """
    parts = []
    doubts = finding_lines(document.findings) + notice_lines(document.notices)
    if findings and doubts:
        parts.append(doubts)
    tables = [(visible(section.name), _rows(section)) for section in document.sections]
    widths = _column_widths([rows for _, rows in tables])
    for name, rows in tables:
        columns = [
            TextColumn("", cells, left=place < _LEFT, width=widths[place])
            for place, cells in enumerate(zip(*rows, strict=True))
        ]
        lines = [name, *table_lines(columns, gap=" ")]
        parts.append("".join(line + "\n" for line in lines))
    if document.comparisons:
        # This import loads numpy, which a table without t-tests does not need.
        from benchwright.report.ttest import ttest_text

        parts.append(ttest_text(document))
    return "\n".join(parts)


def _rows(section: InputSection) -> list[list[str]]:
    """Return a section's headings and cells, with unprintable characters escaped."""
    rows = [column_headings(section), *map(row_cells, section.lines)]
    return [[visible(cell) for cell in row] for row in rows]


def _column_widths(tables: list[list[list[str]]]) -> list[int]:
    columns = max((len(rows[0]) for rows in tables), default=0)
    widths = [_NAME, _COUNT, *[_NARROWEST] * (columns - _LEFT)]
    for rows in tables:
        for row in rows:
            for place, text in enumerate(row):
                widths[place] = max(widths[place], len(text))
    return widths
