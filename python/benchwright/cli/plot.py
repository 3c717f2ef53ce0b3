"""`bw plot`, also installed as `graphit`: charts of results as EPS, PDF, SVG and PNG.

The arguments become a checked request (`plot_request.py`). Then the tests are read, and the
chart is composed, drawn and written. Source: Auto-pilot paper, section 3.4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.cli.parser import CommandParser, add_command, sentence_of
from benchwright.cli.plot_options import PlotOptions
from benchwright.inputs.options import add_options

if TYPE_CHECKING:
    from benchwright.cli.plot_request import PlotRequest
    from benchwright.report.charts.sheet import Sheet
    from benchwright.report.documents import FileEntry

_EXAMPLES = """\
examples:
  bw plot STUDY -o study.png
  bw plot --graphfile pm.eps --xlabel Threads Reiserfs 'reiserfs:*.res'
  bw plot --mode bar --graphfile pm.pdf Ext2 ext2:1.res Ext3 ext3:1.res
  bw plot --mode normal STUDY -o q.png        are the responses of a search's trials normal?
  bw plot --mode ratio --graphfile r.svg Ext2 'bw-study:ext2:*' Xfs 'bw-study:xfs:*'

A GLOB is a file, a pattern of files, a study, or STUDY:TEST, where TEST may be a pattern.
A GLOB alone needs no NAME. Without --mode, the chart is then the one that fits: the ratios of a
comparison; the chart of a ramp, a peak search, a surface or a load; lines over a factor that is
a number; else each test's trials as points, with the mean and its interval.
"""


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
    from benchwright.cli.plot_request import refuse_numbers, request_of, without_legend
    from benchwright.core.extras import require
    from benchwright.page.charts import (
        fitting_request,
        resources_sheet,
        response_group,
        session_sheet,
    )
    from benchwright.report.charts.compose import check_axes, compose_plot
    from benchwright.report.charts.plot_data import PlotMode
    from benchwright.report.documents import finding_lines
    from benchwright.results.inputs import groups_of

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
    chart, responses = request.chart, None
    if chart.mode is PlotMode.NORMAL and request.unnamed:
        responses = response_group(word)
    groups = groups_of(request.pairs, request.ok_status) if responses is None else [responses]
    if request.fitting:
        chart = fitting_request(groups, chart, errorbars=request.errorbars_named)
    plot, findings = compose_plot(groups, chart)
    check_axes(plot, request.style)
    sys.stderr.write(finding_lines(findings))
    drawn = []
    if request.graphfiles:
        from benchwright.report.charts.compose import plot_sheet

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
    from benchwright.cli.output_file import panel_style
    from benchwright.core.untrusted import visible_lines
    from benchwright.report.charts.render import fitted_style, render_sheet

    style = request.style
    if by_panel and not request.sized:
        size = panel_style()
        style = msgspec.structs.replace(
            style, width_in=size.width_in, height_in=size.height_in, fontsize_pt=size.fontsize_pt
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
