"""`bw plot`, also installed as `graphit`: charts of results, to EPS, PDF, SVG and PNG.

Two steps: what the user said (arguments), what it means here (`plot_request.py`); then
the tests are read, the chart composed, drawn and written. Source:
Auto-pilot paper, section 3.4.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchwright.cli.parser import CommandParser, add_command, sentence_of

if TYPE_CHECKING:
    from benchwright.report.documents import FileEntry

_MODES = ("line", "bar", "ecdf", "violin", "strip", "epochs", "ratio")
_ERRORBARS = ("t", "minmax", "sdev", "interval", "none")
_EXAMPLES = """\
examples:
  bw plot --graphfile pm.eps --xlabel Threads Reiserfs 'reiserfs:*.res'
  bw plot --mode bar --graphfile pm.pdf Ext2 ext2:1.res Ext3 ext3:1.res
  bw plot --mode ratio --graphfile r.svg Ext2 'bw-study:ext2:*' Xfs 'bw-study:xfs:*'

A GLOB is a file, a pattern of files, a study, or STUDY:TEST, where TEST may be a pattern.
"""


def add_parser(commands: Any) -> None:
    """Add `bw plot` to the commands."""
    add_arguments(add_command(commands, "plot", epilog=_EXAMPLES))


def parser_of(program: str) -> CommandParser:
    """Return a parser of its own: `graphit`."""
    parser = CommandParser(
        prog=program,
        description=sentence_of("plot"),
        epilog=_EXAMPLES.replace("bw plot", program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `bw plot` and `graphit` take."""
    add = parser.add_argument
    add(
        "words", nargs="*", metavar="NAME GLOB", help="series: its name and its results"
    )
    add("--mode", choices=_MODES, default="line", help="kind of chart (default: line)")
    _add_data(parser.add_argument_group("what is drawn"))
    _add_look(parser.add_argument_group("how it looks"))
    _add_bars(parser.add_argument_group("bars"))
    _add_output(parser.add_argument_group("output"))
    parser.set_defaults(handler=run)


def _add_data(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--components",
        metavar="A,B",
        help="quantities, as in the tables (default: the times; else Elapsed)",
    )
    add("-x", "--factor", metavar="FACTOR", help="factor on the horizontal axis")
    add(
        "--errorbars",
        choices=_ERRORBARS,
        default="t",
        help="Student's t (default), min and max, standard deviation, the interval that "
        "the test's stopping rule reached, or none",
    )
    add("--confidence", metavar="P", help="confidence of the intervals (default: 95%%)")
    add("--baseline", metavar="NAME", help="baseline of ratios: a NAME or a test")


def _add_look(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-k", "--key", metavar="PLACE", help="legend: 'top right', outside, below, off")
    add("-f", "--fontsize", metavar="PT", help="font size (default: 11)")
    add("--xlabel", metavar="TEXT", help="label of the horizontal axis")
    add("--ylabel", metavar="TEXT", help="label of the vertical axis")
    add("--title", metavar="TEXT", help="title above the chart", default="")
    add("--rotate", metavar="DEG", help="rotate the labels of the horizontal axis")
    add("--logx", action="store_true", help="space powers of two evenly")
    add("--logy", action="store_true", help="use a logarithmic vertical axis")
    add("--ymin", metavar="V", help="start of the vertical axis")
    add("--ymax", metavar="V", help="end of the vertical axis")
    add(
        "--size",
        metavar="WxH",
        help="size of the chart, such as 15x10cm (default: 6x4in)",
    )


def _add_bars(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--stack",
        action="append",
        metavar="A,B",
        help="stack these, from the bottom up (default: System,User)",
    )
    add("--no-stack", action="store_true", help="draw bars side by side")
    add("--bar-width", metavar="W", help="width of a bar (default: 1)")
    add("--bar-gap", metavar="W", help="gap between bars of a group (default: 0.15)")
    add("--group-gap", metavar="W", help="gap between groups of bars (default: 0.9)")


def _add_output(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--graphfile",
        action="append",
        default=[],
        metavar="FILE",
        help="picture to write: .eps, .pdf, .svg or .png (repeatable)",
    )
    add("--dpi", metavar="N", help="dots per inch of a PNG (default: 150)")
    add("--datafile", metavar="FILE", help="write the plotted numbers as CSV")
    add(
        "--json",
        action="store_true",
        help="print the plotted numbers as one JSON document",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `bw plot` and return its exit code. Raises InputError."""
    from benchwright.cli.plot_request import groups_of, request_of
    from benchwright.core.extras import require
    from benchwright.report.charts.compose import check_axes, compose_plot
    from benchwright.report.parts import finding_lines

    request = request_of(arguments)
    if request.graphfiles:
        require("matplotlib", "--graphfile", "a plot")
    plot, findings = compose_plot(groups_of(request.pairs), request.chart)
    check_axes(plot, request.style)
    sys.stderr.write(finding_lines(findings))
    files = _write(plot, request)
    if request.json:
        from benchwright.report.charts.plot_data import plot_document
        from benchwright.report.documents import encode

        sys.stdout.write(encode(plot_document(plot, files, findings)))
    return 0


def _write(plot: Any, request: Any) -> tuple[FileEntry, ...]:
    """Draw everything, then write everything; return what was written."""
    from benchwright.cli.output_file import write_output
    from benchwright.core.untrusted import visible_lines
    from benchwright.report.charts.plot_data import data_text
    from benchwright.report.documents import FileEntry

    drawn: list[tuple[str, str, bytes]] = []
    if request.graphfiles:
        from benchwright.report.charts.panels import plot_sheet
        from benchwright.report.charts.render import render_sheet

        sheet = plot_sheet(plot, request.style)
        notes: dict[str, None] = {}
        for path, form in request.graphfiles:
            rendered = render_sheet(sheet, request.style, form)
            notes |= dict.fromkeys(rendered.notes)
            drawn.append((path, form, rendered.data))
        for note in notes:
            print(visible_lines(f"bw: {note}"), file=sys.stderr)
    if request.datafile is not None:
        drawn.append((request.datafile, "csv", data_text(plot).encode()))
    for path, _, data in drawn:
        write_output(Path(path), data)
    return tuple(FileEntry(path, form, len(data)) for path, form, data in drawn)
