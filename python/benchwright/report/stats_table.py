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
# A line with the input's name, the headings, one line per quantity; names and counts to
# the left, figures with three decimals to the right; columns as wide as the widest figure
# of any input, so that inputs can be compared by eye.

_NARROWEST = 6
_NAME = 9
_COUNT = 5
_LEFT = 2


def render_table(document: StatsReport, *, findings: bool = True) -> str:
    """Return findings and notices, one line each, and a table for every input.

    Then the t-tests, where there are any. Ends with a newline; empty for an empty
    document.
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
        # Two samples are compared with arrays: a table without t-tests needs none.
        from benchwright.report.ttest import ttest_text

        parts.append(ttest_text(document))
    return "\n".join(parts)


def _rows(section: InputSection) -> list[list[str]]:
    """Return a section's heading and cells, what is not printable in them escaped."""
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
