"""The checked request of `bw plot`, before any file is read; all mistakes are reported together."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.cli.output_file import check_output, same_file
from benchwright.cli.plot_options import PlotOptions
from benchwright.cli.shared_options import study_here
from benchwright.core.errors import Diagnostic, InputError
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import request_from
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.style import IMAGE_FORMATS, BarSpacing, ChartStyle, LegendPlace
from benchwright.results.inputs import input_files


class PlotRequest(msgspec.Struct, frozen=True):
    """A checked request: inputs, chart, style and output files."""

    pairs: tuple[tuple[str, str], ...]
    chart: ChartRequest
    style: ChartStyle
    graphfiles: tuple[tuple[str, str], ...] = ()
    """Path and format of each output file."""
    datafile: str | None = None
    json: bool = False
    unnamed: bool = False
    """Whether there is a GLOB alone."""
    fitting: bool = False
    """Whether there is a GLOB alone and no mode: the chart is then the one that fits."""
    resources: bool = False
    """Whether the resources of a study are drawn (`--mode use`)."""
    of_tests: bool = False
    """Whether an option is given that only a chart of tests has."""
    errorbars_named: bool = False
    sized: bool = False
    """Whether the size of the chart is given."""
    ok_status: str | None = None


USE = "use"
"""The mode that draws the resources of a study; it has no series of tests."""
_OF_TESTS = (
    *("components", "factor", "errorbars", "confidence", "baseline", "stack"),
    *("ok_status", "xlabel", "ylabel", "rotate", "logx", "logy", "ymin", "ymax"),
)
"""Options that a chart of a search, a comparison or a load does not have."""


def request_of(arguments: argparse.Namespace) -> PlotRequest:
    """Return the request of the arguments. Raises InputError."""
    plot_options = request_from(PlotOptions, arguments)
    words = (*plot_options.words, *(getattr(arguments, "command_argv", None) or ()))
    words = words or study_here()
    plot_options = msgspec.structs.replace(plot_options, words=words)
    reader = OptionReader(plot_options)
    wrong = reader.found
    pairs = _pairs(words, wrong)
    said = reader.fields()
    request = PlotRequest(
        pairs=pairs,
        chart=_chart(plot_options, reader, said),
        style=_style(plot_options, reader, said),
        graphfiles=_graphfiles(plot_options.graphfile, wrong),
        datafile=plot_options.datafile,
        json=plot_options.json,
        unnamed=len(words) == 1,
        fitting=len(words) == 1 and plot_options.mode is None,
        resources=plot_options.mode == USE,
        of_tests=any(getattr(plot_options, name) for name in _OF_TESTS),
        errorbars_named=plot_options.errorbars is not None,
        sized=plot_options.size is not None,
        ok_status=plot_options.ok_status,
    )
    reader.value("ok_status")
    _check_limits(request.style, wrong)
    _check_outputs(plot_options, pairs, wrong)
    if not (plot_options.graphfile or plot_options.datafile or plot_options.json):
        hint = "such as -o chart.png; or --datafile FILE, or --json"
        wrong.append(option_mistake("--graphfile", "no output is given", hint))
    if wrong:
        raise InputError(wrong)
    return request


def without_legend(request: PlotRequest) -> PlotRequest:
    """Return the request without a legend, unless it has a place for one: the only name in it
    would be one that nobody gave."""
    style = request.style
    if style.key.region == "auto":
        style = msgspec.structs.replace(style, key=LegendPlace("off"))
    return msgspec.structs.replace(request, style=style)


def refuse_numbers(request: PlotRequest) -> None:
    """Raise InputError if numbers are requested of a chart that is not one of tests."""
    hint = "bw peak, ramp, surface and load print them by --json; for a comparison add --mode ratio"
    wrong = [
        option_mistake(option, "the chart of this study has its numbers elsewhere", hint)
        for option, given in (("--json", request.json), ("--datafile", request.datafile))
        if given
    ]
    if wrong:
        raise InputError(wrong)


def _pairs(words: tuple[str, ...], wrong: list[Diagnostic]) -> tuple[tuple[str, str], ...]:
    if len(words) == 1 and words[0]:
        return ((Path(words[0]).name or words[0], words[0]),)
    hint = "a series is two words: its name and its results, such as Ext2 'ext2:*.res'"
    if not words:
        wrong.append(
            option_mistake("NAME GLOB", "there is nothing to draw, and no study ./bw-study", hint)
        )
    elif len(words) % 2:
        message = f"the words do not make pairs: {words[-1]!r} is left over"
        wrong.append(option_mistake("NAME GLOB", message, hint, " ".join(words)))
    if any(not word for word in words):
        wrong.append(option_mistake("NAME GLOB", "a NAME or GLOB is empty", hint))
    return tuple(zip(words[::2], words[1::2], strict=False))


def _chart(
    asked: PlotOptions, reader: OptionReader[PlotOptions], said: Mapping[str, Any]
) -> ChartRequest:
    if asked.mode == USE and len(asked.words) != 1:
        reader.wrong("--mode", USE, "--mode use draws one study", "give one STUDY")
    for name in _OF_TESTS if asked.mode == USE else ():
        if getattr(asked, name):
            option = f"--{name.replace('_', '-')}"
            reader.wrong(option, "", f"{option} is not for --mode {USE}")
    mode = PlotMode(PlotMode.LINE if asked.mode in (None, USE) else asked.mode)
    for option, given, fitting in (
        ("--baseline", asked.baseline, (PlotMode.RATIO,)),
        ("--stack", asked.stack, (PlotMode.BAR,)),
        ("--no-stack", asked.no_stack, (PlotMode.BAR,)),
        ("--logx", asked.logx, (PlotMode.LINE, PlotMode.ECDF)),
    ):
        if given and mode not in fitting:
            modes = " and ".join(f"--mode {plot_mode}" for plot_mode in fitting)
            reader.wrong(option, "", f"{option} is for {modes}")
    stacks = tuple(map(_words, asked.stack)) or None
    if asked.no_stack and stacks:
        reader.wrong("--no-stack", "", "--stack and --no-stack are both given")
    if asked.logy and mode is PlotMode.NORMAL:
        reader.wrong("--logy", "", "--logy is not for --mode normal")
    _check_lists(asked, reader)
    return ChartRequest(
        mode=mode,
        components=() if asked.components is None else _words(asked.components),
        factor=asked.factor,
        errorbars=asked.errorbars or "t",
        confidence=reader.value("confidence", 0.95),
        stacks=() if asked.no_stack else stacks,
        spacing=BarSpacing(**_fields_of(BarSpacing, said)),
        baseline=asked.baseline,
        xlabel=_text(asked.xlabel),
        ylabel=_text(asked.ylabel),
    )


def _check_lists(asked: PlotOptions, reader: OptionReader[PlotOptions]) -> None:
    """Report options that are given but empty."""
    for option, given in (
        ("--components", asked.components),
        ("--factor", asked.factor),
        ("--baseline", asked.baseline),
        *(("--stack", stack) for stack in asked.stack),
    ):
        if given is not None and not _words(given):
            hint = f"leave {option} out for the default"
            reader.wrong(option, given, f"{option} is empty", hint)


def _style(
    asked: PlotOptions, reader: OptionReader[PlotOptions], said: Mapping[str, Any]
) -> ChartStyle:
    width, height = reader.value("size", (6.0, 4.0))
    return ChartStyle(
        width_in=width,
        height_in=height,
        title=_text(asked.title) or "",
        **_fields_of(ChartStyle, said),
    )


def _fields_of(kind: type[msgspec.Struct], said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said[name] for name in kind.__struct_fields__ if name in said}


def _graphfiles(paths: Sequence[str], wrong: list[Diagnostic]) -> tuple[tuple[str, str], ...]:
    found = []
    for path in paths:
        form = Path(path).suffix.lower().removeprefix(".")
        if form not in IMAGE_FORMATS:
            message = f"{path!r} does not end in .eps, .pdf, .svg or .png"
            hint = "the suffix of --graphfile is the format of the picture"
            wrong.append(option_mistake("--graphfile", message, hint, path))
            continue
        found.append((path, form))
    return tuple(found)


def _check_outputs(
    asked: PlotOptions, pairs: tuple[tuple[str, str], ...], wrong: list[Diagnostic]
) -> None:
    """Report output files that cannot be written, and files that are named twice."""
    inputs = sorted(input_files(pairs))
    outputs = [("--graphfile", path) for path in asked.graphfile]
    if asked.datafile is not None:
        outputs.append(("--datafile", asked.datafile))
    told = {mistake.text for mistake in wrong if mistake.file == "--graphfile"}
    for at, (option, path) in enumerate(outputs):
        if option == "--graphfile" and path in told:
            continue
        if any(same_file(path, earlier) for _, earlier in outputs[:at]):
            message = f"{path!r} is named twice: one would replace the other"
            wrong.append(option_mistake(option, message, "give another name", path))
            continue
        try:
            check_output(path, option, inputs)
        except InputError as error:
            wrong.extend(error.diagnostics)


def _check_limits(style: ChartStyle, wrong: list[Diagnostic]) -> None:
    low, high = style.ymin, style.ymax
    if low is not None and high is not None and low >= high:
        what = f"--ymin {low:g} is not below --ymax {high:g}"
        wrong.append(option_mistake("--ymin", what))
    for option, limit in (("--ymin", low), ("--ymax", high)):
        if style.logy and limit is not None and limit <= 0:
            what = f"{option} {limit:g} is not on a logarithmic axis"
            hint = "a positive number, or no --logy"
            wrong.append(option_mistake(option, what, hint))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _text(text: str | None) -> str | None:
    """Return a label without control characters, which the formats cannot show."""
    if text is None:
        return None
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
