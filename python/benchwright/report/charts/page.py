"""The size of a page on which every panel, row and name has room.

Decision: the default size is that of a chart of a few tests, and grows with them; a size that
the user requests is kept. Pure.
"""

from __future__ import annotations

import math

import msgspec

from benchwright.report.charts.sheet import Panel, Sheet
from benchwright.report.charts.style import ChartStyle

_ROW_LINES = 1.9
"""Height of a row of a sideways panel, in lines of text."""
_NAME_LINES = 1.35
"""Distance of turned names along an axis, in lines of text."""
_AROUND_IN = 1.3
"""Titles, legend and the text of an axis [inches]."""
_PANEL_IN = 1.5
"""Height of a panel below others [inches]."""
_WIDER = 0.6
"""Width of a panel beside others, as a share of that of a page with one."""
_LINE = 1.25 / 72
"""Height of a line of text [inches] for each point of its size."""
_TITLE_LINES, _NOTE_LINES = 3.0, 2.0
"""Height of a page's title and of its note, in lines of text."""
_LARGEST_IN = 60.0
_ROWS_IN = 0.7
"""Smallest height of the rows of a panel [inches]."""
_LETTER = 0.6
"""Width of a letter, as a share of the font's size."""
_SAMPLE_LETTERS = 5
"""Width of a line's sample in a legend."""
_MOST_ACROSS = 6
"""Names beside each other in a legend."""


def fitted_style(sheet: Sheet, style: ChartStyle) -> ChartStyle:
    """Return the style with a page, or panels, as large as the sheet needs. Only rows of names
    make it smaller: a page with one of them would be empty."""
    line_in = _LINE * style.fontsize_pt
    names = max(0 if one.sideways else len(one.x.ticks) for one in sheet.panels)
    width = names * _NAME_LINES * line_in + _AROUND_IN
    rows = max(map(_rows, sheet.panels))
    height = max(rows * _ROW_LINES * line_in, _ROWS_IN) if rows else 0.0
    columns = min(sheet.columns, len(sheet.panels))
    down = math.ceil(len(sheet.panels) / columns)
    if sheet.whole_page:
        if columns > 1:
            width = columns * max(width, _WIDER * style.width_in)
        height = down * max(height, _PANEL_IN if down > 1 else 0.0)
    width = min(max(width, style.width_in), _LARGEST_IN)
    height += _AROUND_IN
    if not rows:
        height = max(height, style.height_in)
    height += _legend_lines(sheet, style, width) * line_in
    if not sheet.whole_page:
        lines = _TITLE_LINES * bool(sheet.title) + _NOTE_LINES * bool(sheet.note)
        height += lines * line_in / down
    return msgspec.structs.replace(style, width_in=width, height_in=min(height, _LARGEST_IN))


def _legend_lines(sheet: Sheet, style: ChartStyle, width_in: float) -> int:
    """Return by how many lines a page's legend is longer than the two that always fit."""
    labels = {curve.label for panel in sheet.panels for curve in panel.curves} - {""}
    if not sheet.whole_page or not labels:
        return 0
    widest = (max(map(len, labels)) + _SAMPLE_LETTERS) * _LETTER * style.fontsize_pt
    across = max(1, min(_MOST_ACROSS, int(72 * width_in / widest)))
    return max(0, math.ceil(len(labels) / across) - 2)


def _rows(panel: Panel) -> int:
    """Return how many names are below each other in a panel."""
    if panel.grid is not None and panel.grid.cells:
        return len(panel.y.ticks)
    return len(panel.x.ticks) if panel.sideways else 0
