"""From a sheet to the bytes of a file: EPS, PDF, SVG or PNG.

Purpose: the same sheet gives the same bytes on every run: without times, user settings or
random names. The default size is that of a chart of a few tests, and grows with them until every
panel, row and name has room; a size that the user requests is kept. Fonts are embedded as TrueType (type 42), which publishers require.
Decision: use matplotlib's canvases without pyplot, which need no display and no global state.
Rejected: gnuplot, because a wheel cannot include it. Labels are plain text, so `$` in a name
is a dollar sign. Sources: matplotlib's documentation of rcParams and of savefig's metadata;
PLRM 3rd edition, appendix H for EPS.
"""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.report.charts.sheet import Panel, PanelAxis, Sheet
from benchwright.report.charts.style import ChartStyle

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SETTINGS: dict[str, Any] = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "benchwright",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.formatter.useoffset": False,
    "path.simplify": False,
}
_NO_TIMES: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None},
    "svg": {"Date": None},
    "png": {},
    "eps": {},
}
_NO_ROOM = (
    "the labels leave no room for the chart: a larger --size, a smaller --fontsize, "
    "shorter names, or --key off"
)
_EPS_DATE = re.compile(rb"^%%CreationDate:.*\n", re.MULTILINE)


class Rendered(msgspec.Struct, frozen=True):
    """A file's bytes, and notes about what could not be drawn."""

    data: bytes
    notes: tuple[str, ...] = ()
    """For example, characters that the font lacks."""


def render_sheet(sheet: Sheet, style: ChartStyle, form: str) -> Rendered:
    """Return the sheet in one of `style.IMAGE_FORMATS`."""
    # Before the import, to suppress its warning about a home directory that is not writable.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    from benchwright.report.charts.draw import draw_sheet

    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        settings: Any = {**_SETTINGS, "font.size": style.fontsize_pt}
        matplotlib.rcParams.update(settings)
        figure = draw_sheet(printable_sheet(sheet), style)
        data = _bytes(figure, form, style.dpi)
    notes = dict.fromkeys(_note(str(one.message)) for one in caught)
    return Rendered(data, tuple(note for note in notes if note))


def _note(warning: str) -> str:
    """Return the note for a warning of matplotlib; empty if it does not concern the user."""
    if warning.startswith("Glyph"):
        return warning
    return _NO_ROOM if "collapsed to zero" in warning else ""


def printable_sheet(sheet: Sheet) -> Sheet:
    """Return the sheet without control characters in its texts; no format can show them."""
    changed = msgspec.structs.replace
    panels = (
        changed(
            panel,
            title=_printable(panel.title),
            x=_printable_axis(panel.x),
            y=_printable_axis(panel.y),
            curves=tuple(changed(c, label=_printable(c.label)) for c in panel.curves),
        )
        for panel in sheet.panels
    )
    title, ylabel = _printable(sheet.title), _printable(sheet.ylabel)
    return changed(sheet, title=title, ylabel=ylabel, panels=tuple(panels))


def _printable_axis(axis: PanelAxis) -> PanelAxis:
    changed = msgspec.structs.replace
    ticks, groups = (
        tuple(changed(tick, label=_printable(tick.label)) for tick in row)
        for row in (axis.ticks, axis.groups)
    )
    return changed(axis, label=_printable(axis.label), ticks=ticks, groups=groups)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _bytes(figure: Figure, form: str, dpi: int) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=form, dpi=dpi, metadata=_NO_TIMES[form])
    data = stream.getvalue()
    # The EPS writer adds a comment with the current time, which would change on every run.
    return _EPS_DATE.sub(b"", data, count=1) if form == "eps" else data


# -- The size of a page ----------------------------------------------------------------------

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
    names = max(0 if panel.sideways else len(panel.x.ticks) for panel in sheet.panels)
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
