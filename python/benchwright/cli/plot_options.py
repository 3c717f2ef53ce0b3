"""The options of `bw plot` and `graphit`, apart from what reads them (plot_request.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec

from benchwright.inputs.options import Option, Text
from benchwright.report.charts.style import parse_legend_place, parse_size
from benchwright.suite.common_options import CONFIDENCE, FOR_SCRIPTS, REPLACES, OkStatus

_MODES = (
    *("line", "bar", "points", "ecdf", "violin", "strip", "epochs", "normal"),
    *("ratio", "use"),
)
_ERRORBARS = ("t", "minmax", "sdev", "interval", "none")

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
            default="./bw-study",
            positional=True,
            names="file",
            default_key="study",
        ),
    ] = ()
    mode: Annotated[
        Text, Option("kind of chart", default="line; of a GLOB alone, what fits", choices=_MODES)
    ] = None
    components: Annotated[
        Text, _data("quantities, as in the tables", "A,B", default="the times; else Elapsed")
    ] = None
    factor: Annotated[Text, _data("factor on the horizontal axis", "FACTOR", short="-x")] = None
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
    baseline: Annotated[Text, _data("baseline of ratios: a NAME or a test", "NAME")] = None
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
    logy: Annotated[bool, _look("use a logarithmic vertical axis", field="logy")] = False
    ymin: Annotated[Text, _look("start of the vertical axis", "V", _number, "ymin")] = None
    ymax: Annotated[Text, _look("end of the vertical axis", "V", _number, "ymax")] = None
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
        tuple[str, ...], _bars("stack these, from the bottom up", "A,B", default="System,User")
    ] = ()
    no_stack: Annotated[bool, _bars("draw bars side by side")] = False
    bar_width: Annotated[Text, _bars("width of a bar", "W", _positive, "bar", default="1")] = None
    bar_gap: Annotated[
        Text, _bars("gap between bars of a group", "W", _gap, "gap", default="0.15")
    ] = None
    group_gap: Annotated[
        Text, _bars("gap between groups of bars", "W", _gap, "group", default="0.9")
    ] = None
    ok_status: OkStatus = None
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
    dpi: Annotated[Text, _output("dots per inch of a PNG", "N", _dpi, "dpi", default="150")] = None
    datafile: Annotated[
        Text, _output("write the plotted numbers as CSV", "FILE", names="file", no_default=REPLACES)
    ] = None
    json: Annotated[
        bool, _output("print the plotted numbers as one JSON document", no_default=FOR_SCRIPTS)
    ] = False
