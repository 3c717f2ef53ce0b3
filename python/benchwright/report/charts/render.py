"""From a sheet to the bytes of a file: EPS, PDF, SVG or PNG.

Purpose: the same sheet gives the same bytes on every run: without times, user settings or
random names. Fonts are embedded as TrueType (type 42), which publishers require.
Decision: use matplotlib's canvases without pyplot, which need no display and no global state.
Rejected: gnuplot, because a wheel cannot include it. Labels are plain text, so `$` in a name
is a dollar sign. Sources: matplotlib's documentation of rcParams and of savefig's metadata;
PLRM 3rd edition, appendix H for EPS.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.report.charts.sheet import PanelAxis, Sheet
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
