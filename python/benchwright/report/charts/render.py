"""From a chart to the bytes of a file: EPS, PDF, SVG or PNG.

Purpose: the same chart gives the same bytes on every run: no times, no user's settings,
no random names. Fonts are embedded as TrueType (type 42), which publishers ask for.
Decision: matplotlib's canvases without pyplot, so that no display and no state is
needed; gnuplot lost, because a wheel cannot bring it. Labels are text, never formulas:
`$` in a name is a dollar sign. Sources: matplotlib's documentation of rcParams and of
savefig's metadata; PLRM 3rd edition, appendix H for EPS.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.report.charts.chart import Chart
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.style import ChartStyle
from benchwright.report.charts.surface import SurfaceChart

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
    """A file's bytes, and what the drawing could not do."""

    data: bytes
    notes: tuple[str, ...] = ()
    """Such as characters that the font does not have."""


def render_chart(chart: Chart, style: ChartStyle, form: str) -> Rendered:
    """Return the chart in one of `style.FORMATS`."""

    def drawn() -> Figure:
        from benchwright.report.charts.draw_chart import draw_chart

        return draw_chart(printable(chart), style)

    return _rendered(drawn, style, form)


def render_sheet(sheet: Sheet, style: ChartStyle, form: str) -> Rendered:
    """Return the sheet in one of `style.FORMATS`; the style's size is a panel's."""

    def drawn() -> Figure:
        from benchwright.report.charts.draw import draw_sheet

        return draw_sheet(printable_sheet(sheet), style)

    return _rendered(drawn, style, form)


def render_surface(chart: SurfaceChart, style: ChartStyle, form: str) -> Rendered:
    """Return the surface in one of `style.FORMATS`; the style's size is a picture's."""

    def drawn() -> Figure:
        from benchwright.report.charts.draw import draw_surface

        return draw_surface(chart, style)

    return _rendered(drawn, style, form)


def _rendered(drawn: Callable[[], Figure], style: ChartStyle, form: str) -> Rendered:
    # Before the import: a home directory that cannot be written is no trouble of ours.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        settings: Any = {**_SETTINGS, "font.size": style.fontsize_pt}
        matplotlib.rcParams.update(settings)
        data = _bytes(drawn(), form, style.dpi)
    notes = dict.fromkeys(_note(str(one.message)) for one in caught)
    return Rendered(data, tuple(note for note in notes if note))


def _note(warning: str) -> str:
    """Return what a user has to know of a warning of matplotlib's; empty if nothing."""
    if warning.startswith("Glyph"):
        return warning
    return _NO_ROOM if "collapsed to zero" in warning else ""


def printable(chart: Chart) -> Chart:
    """Return the chart with no control character in its labels: no format shows them."""
    changed = msgspec.structs.replace
    ticks, blocks = (
        tuple(changed(tick, label=_printable(tick.label)) for tick in row)
        for row in (chart.ticks, chart.blocks)
    )
    series = (
        changed(s, legend=_printable(s.legend), component=_printable(s.component))
        for s in chart.series
    )
    return changed(
        chart,
        series=tuple(series),
        ticks=ticks,
        blocks=blocks,
        xlabel=_printable(chart.xlabel),
        ylabel=_printable(chart.ylabel),
    )


def printable_sheet(sheet: Sheet) -> Sheet:
    """Return the sheet with no control character in its labels and names of files."""
    changed = msgspec.structs.replace
    panels = (
        changed(
            panel,
            x=changed(panel.x, names=tuple(_printable(name) for name in panel.x.names)),
            curves=tuple(changed(c, label=_printable(c.label)) for c in panel.curves),
        )
        for panel in sheet.panels
    )
    return changed(sheet, title=_printable(sheet.title), panels=tuple(panels))


def _printable(text: str) -> str:
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def _bytes(figure: Figure, form: str, dpi: int) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=form, dpi=dpi, metadata=_NO_TIMES[form])
    data = stream.getvalue()
    # The EPS writer takes the time from the clock, or from the environment; a comment
    # that nothing needs is better left out.
    return _EPS_DATE.sub(b"", data, count=1) if form == "eps" else data
