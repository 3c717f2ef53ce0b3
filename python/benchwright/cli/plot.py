"""`bw plot`, also installed as `graphit`: charts of results as EPS, PDF, SVG and PNG.

The arguments become a checked request (`plot_request.py`). Then the tests are read, and the
chart is composed, drawn and written. Source: Auto-pilot paper, section 3.4.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import CommandParser, add_command, sentence_of
from benchwright.report.charts.style import parse_legend_place, parse_size
from benchwright.suite.common_options import CONFIDENCE, FOR_SCRIPTS, REPLACES
from benchwright.suite.options import Option, Text, add_options

if TYPE_CHECKING:
    from benchwright.cli.plot_request import PlotRequest
    from benchwright.report.charts.sheet import Sheet
    from benchwright.report.documents import FileEntry

_MODES = ("line", "bar", "points", "ecdf", "violin", "strip", "epochs", "ratio", "use")
_ERRORBARS = ("t", "minmax", "sdev", "interval", "none")
_EXAMPLES = """\
examples:
  bw plot STUDY -o study.png
  bw plot --graphfile pm.eps --xlabel Threads Reiserfs 'reiserfs:*.res'
  bw plot --mode bar --graphfile pm.pdf Ext2 ext2:1.res Ext3 ext3:1.res
  bw plot --mode ratio --graphfile r.svg Ext2 'bw-study:ext2:*' Xfs 'bw-study:xfs:*'

A GLOB is a file, a pattern of files, a study, or STUDY:TEST, where TEST may be a pattern.
A GLOB alone needs no NAME. Without --mode, the chart is then the one that fits: the ratios of a
comparison; the chart of a ramp, a peak search, a surface or a load; lines over a factor that is
a number; else each test's trials as points, with the mean and its interval.
"""


_data = partial(Option, group="what is drawn")
_look = partial(Option, group="how it looks")
_bars = partial(Option, group="bars")
_output = partial(Option, group="output")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number")
    return value


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1000:
        raise ValueError(f"{text!r} is not above 0, at most 1000")
    return value


def _within(least: float, most: float, what: str) -> Callable[[str], float]:
    """Return the parser of a number from `least` to `most`; `what` describes the range."""

    def parse(text: str) -> float:
        value = _number(text)
        if not least <= value <= most:
            raise ValueError(f"{text!r} is not {what}")
        return value

    return parse


_gap = _within(0, 1000, "from 0 to 1000")


def _dpi(text: str) -> int:
    value = _number(text)
    if not 10 <= value <= 1200 or value != int(value):
        raise ValueError(f"{text!r} is not a whole number from 10 to 1200")
    return int(value)


class PlotOptions(msgspec.Struct, frozen=True):
    """The options of `bw plot`; a `field` is one of the chart's style or of its bars' spacing."""

    words: Annotated[
        tuple[str, ...],
        Option(
            "series: its name and its results; or one GLOB alone",
            "NAME GLOB",
            positional=True,
            names="file",
        ),
    ] = ()
    mode: Annotated[
        Text,
        Option(
            "kind of chart",
            default="line; of a GLOB alone, what fits",
            choices=_MODES,
        ),
    ] = None
    components: Annotated[
        Text,
        _data("quantities, as in the tables", "A,B", default="the times; else Elapsed"),
    ] = None
    factor: Annotated[
        Text, _data("factor on the horizontal axis", "FACTOR", short="-x")
    ] = None
    errorbars: Annotated[
        Text,
        _data(
            "what error bars show: Student's t, min and max, standard deviation, the "
            "interval that the test's stopping rule reached, or nothing",
            default="t; of a GLOB alone, interval",
            choices=_ERRORBARS,
        ),
    ] = None
    confidence: Annotated[Text, CONFIDENCE._replace(group="what is drawn")] = None
    baseline: Annotated[Text, _data("baseline of ratios: a NAME or a test", "NAME")] = (
        None
    )
    key: Annotated[
        Text,
        _look(
            "legend: 'top right', outside, below, off",
            "PLACE",
            parse_legend_place,
            "key",
            short="-k",
        ),
    ] = None
    fontsize: Annotated[
        Text,
        _look(
            "font size",
            "PT",
            _within(1, 200, "a font size from 1 to 200 points"),
            "fontsize_pt",
            default="11",
            short="-f",
        ),
    ] = None
    xlabel: Annotated[Text, _look("label of the horizontal axis", "TEXT")] = None
    ylabel: Annotated[Text, _look("label of the vertical axis", "TEXT")] = None
    title: Annotated[Text, _look("title above the chart", "TEXT")] = None
    rotate: Annotated[
        Text,
        _look(
            "rotate the labels of the horizontal axis",
            "DEG",
            _within(-90, 90, "from -90 to 90 degrees"),
            "rotate_deg",
        ),
    ] = None
    logx: Annotated[bool, _look("space powers of two evenly", field="logx")] = False
    logy: Annotated[bool, _look("use a logarithmic vertical axis", field="logy")] = (
        False
    )
    ymin: Annotated[Text, _look("start of the vertical axis", "V", _number, "ymin")] = (
        None
    )
    ymax: Annotated[Text, _look("end of the vertical axis", "V", _number, "ymax")] = (
        None
    )
    size: Annotated[
        Text,
        _look(
            "size of the chart, such as 15x10cm",
            "WxH",
            parse_size,
            default="6x4in, more for many tests",
        ),
    ] = None
    stack: Annotated[
        tuple[str, ...],
        _bars("stack these, from the bottom up", "A,B", default="System,User"),
    ] = ()
    no_stack: Annotated[bool, _bars("draw bars side by side")] = False
    bar_width: Annotated[
        Text, _bars("width of a bar", "W", _positive, "bar", default="1")
    ] = None
    bar_gap: Annotated[
        Text, _bars("gap between bars of a group", "W", _gap, "gap", default="0.15")
    ] = None
    group_gap: Annotated[
        Text, _bars("gap between groups of bars", "W", _gap, "group", default="0.9")
    ] = None
    graphfile: Annotated[
        tuple[str, ...],
        _output(
            "picture to write: .eps, .pdf, .svg or .png (repeatable)",
            "FILE",
            short="-o",
            names="file",
            no_default=REPLACES,
        ),
    ] = ()
    dpi: Annotated[
        Text, _output("dots per inch of a PNG", "N", _dpi, "dpi", default="150")
    ] = None
    datafile: Annotated[
        Text,
        _output(
            "write the plotted numbers as CSV",
            "FILE",
            names="file",
            no_default=REPLACES,
        ),
    ] = None
    json: Annotated[
        bool,
        _output(
            "print the plotted numbers as one JSON document", no_default=FOR_SCRIPTS
        ),
    ] = False


def add_parser(commands: Any) -> None:
    """Add `bw plot` to the commands."""
    add_arguments(add_command(commands, "plot", epilog=_EXAMPLES))


def parser_of(program: str) -> CommandParser:
    """Return the parser of the separate program `graphit`."""
    parser = CommandParser(
        prog=program,
        description=sentence_of("plot"),
        epilog=_EXAMPLES.replace("bw plot", program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bw plot` and `graphit`."""
    add_options(parser, PlotOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw plot`; return the exit code. Raises InputError."""
    from benchwright.cli.plot_request import (
        groups_of,
        refuse_numbers,
        request_of,
        without_legend,
    )
    from benchwright.cli.plot_study import (
        fitting_request,
        resources_sheet,
        session_sheet,
    )
    from benchwright.core.extras import require
    from benchwright.report.charts.compose import check_axes, compose_plot
    from benchwright.report.parts import finding_lines

    request = request_of(arguments)
    if request.graphfiles:
        require("matplotlib", "--graphfile", "a plot")
    ((_, word), *_) = request.pairs
    sheet = None
    if request.resources:
        sheet = resources_sheet(word)
    elif request.fitting and not request.of_tests:
        sheet = session_sheet(word)
    if sheet is not None:
        refuse_numbers(request)
        _write(_drawn(sheet, request, by_panel=True))
        return 0
    groups, chart = groups_of(request.pairs), request.chart
    if request.fitting:
        chart = fitting_request(groups, chart, errorbars=request.errorbars_named)
    plot, findings = compose_plot(groups, chart)
    check_axes(plot, request.style)
    sys.stderr.write(finding_lines(findings))
    drawn = []
    if request.graphfiles:
        from benchwright.report.charts.panels import plot_sheet
        from benchwright.report.charts.plot_data import PlotMode

        named = plot.mode in (PlotMode.LINE, PlotMode.ECDF)
        if request.unnamed and named and len(plot.legends()) == 1:
            request = without_legend(request)
        drawn = _drawn(plot_sheet(plot, request.style), request)
    if request.datafile is not None:
        from benchwright.report.charts.plot_data import data_text

        drawn.append((request.datafile, "csv", data_text(plot).encode()))
    files = _write(drawn)
    if request.json:
        from benchwright.report.charts.plot_data import plot_document
        from benchwright.report.documents import encode

        sys.stdout.write(encode(plot_document(plot, files, findings)))
    return 0


def _drawn(
    sheet: Sheet, request: PlotRequest, *, by_panel: bool = False
) -> list[tuple[str, str, bytes]]:
    """Draw a sheet into each of the requested files; return their paths, formats and bytes.

    `by_panel`: the size is that of a panel, as in the pictures of `--plot`.
    """
    from benchwright.cli.plot_file import panel_style
    from benchwright.core.untrusted import visible_lines
    from benchwright.report.charts.page import fitted_style
    from benchwright.report.charts.render import render_sheet

    style = request.style
    if by_panel and not request.sized:
        size = panel_style()
        style = msgspec.structs.replace(
            style,
            width_in=size.width_in,
            height_in=size.height_in,
            fontsize_pt=size.fontsize_pt,
        )
    if not request.sized:
        style = fitted_style(sheet, style)
    if style.title:
        sheet = msgspec.structs.replace(sheet, title=style.title)
    notes: dict[str, None] = {}
    drawn = []
    for path, form in request.graphfiles:
        rendered = render_sheet(sheet, style, form)
        notes |= dict.fromkeys(rendered.notes)
        drawn.append((path, form, rendered.data))
    for note in notes:
        print(visible_lines(f"bw: {note}"), file=sys.stderr)
    return drawn


def _write(drawn: Sequence[tuple[str, str, bytes]]) -> tuple[FileEntry, ...]:
    """Write all files; return their entries for the JSON document."""
    from benchwright.cli.output_file import write_output
    from benchwright.report.documents import FileEntry

    for path, _, data in drawn:
        write_output(Path(path), data)
    return tuple(FileEntry(path, form, len(data)) for path, form, data in drawn)
