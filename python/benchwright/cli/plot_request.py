"""What `bw plot` was asked to draw: inputs read, options checked, with every mistake at once."""

from __future__ import annotations

import argparse
import glob
import math
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

import msgspec

from benchwright.cli.output_file import check_output, same_file
from benchwright.cli.shared_options import checked
from benchwright.cli.stats_inputs import read_inputs
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.quantity import parse_share
from benchwright.report.charts.plan import ChartRequest
from benchwright.report.charts.plot_data import PlotMode
from benchwright.report.charts.source import (
    PlotGroup,
    PlotTest,
    natural_key,
    plot_test_of,
)
from benchwright.report.charts.style import (
    IMAGE_FORMATS,
    BarSpacing,
    ChartStyle,
    LegendPlace,
    parse_legend_place,
    parse_size,
)
from benchwright.study.parsers.api import ParsedInput, trials_of

# -- From `NAME GLOB` on the command line to the tests that are drawn ------------------
#
# Purpose: a GLOB may be quoted, as in the paper: we expand it. It is a file, a pattern of
# files, a study, or `STUDY:TEST`, where TEST may be a pattern too (`study:ext2:*`).
# Decision: a name that exists is never taken for a pattern, so that files with brackets
# can be named. Everything is read by the parsers of `bw stats`.

_PATTERN = frozenset("*?[")
_JOURNAL_HINT = "a file, a pattern of files, a study, or STUDY:TEST (quote patterns)"


def groups_of(pairs: Sequence[tuple[str, str]]) -> list[PlotGroup]:
    """Return the tests of every pair; a NAME that comes again is one series.

    Raises InputError with every pattern that matches nothing and every input that
    cannot be read.
    """
    found: dict[str, list[ParsedInput]] = {}
    wrong: list[Diagnostic] = []
    for name, pattern in pairs:
        try:
            found.setdefault(name, []).extend(_tests(pattern))
        except InputError as error:
            wrong.extend(error.diagnostics)
    if wrong:
        raise InputError(wrong)
    return [
        PlotGroup(name, tuple(map(_source, tests))) for name, tests in found.items()
    ]


def input_files(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the files that the patterns mean, without links: none may be drawn over."""
    found: set[str] = set()
    for _, pattern in pairs:
        names = [pattern] if Path(pattern).exists() else glob.glob(pattern)
        found |= {os.path.realpath(name) for name in names}
    return found


def _source(one: ParsedInput) -> PlotTest:
    return plot_test_of(
        one.name,
        trials_of(one),
        one.specs,
        sample=one.sample,
        stop=one.stop,
        arm=one.arm,
    )


def _tests(pattern: str) -> list[ParsedInput]:
    if Path(pattern).exists() or not _PATTERN & set(pattern):
        return read_inputs([pattern])
    if files := sorted(glob.glob(pattern), key=natural_key):
        return read_inputs(files)
    for cut in reversed([at for at, letter in enumerate(pattern) if letter == ":"]):
        places = _studies(pattern[:cut])
        if places:
            return _chosen(pattern, places, pattern[cut + 1 :])
    message = f"no file matches {pattern!r}"
    raise InputError([Diagnostic("no-match", message, _JOURNAL_HINT, "GLOB")])


def _studies(text: str) -> list[str]:
    """Return the studies of a name, a pattern, or a name with a session: `DIR@2`."""
    if Path(text).is_dir():
        return [text]
    directory, at, session = text.rpartition("@")
    if at and session.isdigit() and Path(directory).is_dir():
        return [text]
    return sorted((p for p in glob.glob(text) if Path(p).is_dir()), key=natural_key)


def _chosen(pattern: str, places: list[str], wanted: str) -> list[ParsedInput]:
    tests = read_inputs(places)
    chosen = [test for test in tests if fnmatchcase(test.name, wanted)]
    if not chosen:
        hint = "there are: " + ", ".join(test.name for test in tests)
        message = f"no test matches {wanted!r} in {pattern!r}"
        raise InputError([Diagnostic("no-match", message, hint, "GLOB")])
    return chosen


# --------------------------------------------------------------------------------------
# What `bw plot` was asked, checked: every mistake at once, before a file is read.

T = TypeVar("T")


class PlotRequest(msgspec.Struct, frozen=True):
    """A checked request: what to read, what to draw, how, and where to."""

    pairs: tuple[tuple[str, str], ...]
    chart: ChartRequest
    style: ChartStyle
    graphfiles: tuple[tuple[str, str], ...] = ()
    """Path and format."""
    datafile: str | None = None
    json: bool = False


def request_of(arguments: argparse.Namespace) -> PlotRequest:
    """Return the request that the arguments mean. Raises InputError."""
    wrong: list[Diagnostic] = []
    request = PlotRequest(
        pairs=_pairs(arguments, wrong),
        chart=_chart(arguments, wrong),
        style=_style(arguments, wrong),
        graphfiles=_graphfiles(arguments, wrong),
        datafile=arguments.datafile,
        json=arguments.json,
    )
    _check_limits(request.style, wrong)
    _check_outputs(arguments, request.pairs, wrong)
    if not (
        request.graphfiles
        or arguments.graphfile
        or arguments.datafile
        or arguments.json
    ):
        hint = "such as --graphfile=chart.eps; or --datafile FILE, or --json"
        wrong.append(_mistake("--graphfile", "", "no output is given", hint))
    if wrong:
        raise InputError(wrong)
    return request


def _pairs(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> tuple[tuple[str, str], ...]:
    words = (*arguments.words, *(getattr(arguments, "command_argv", None) or ()))
    hint = "a series is two words: its name and its results, such as Ext2 'ext2:*.res'"
    if not words:
        wrong.append(_mistake("NAME GLOB", "", "there is nothing to draw", hint))
    elif len(words) % 2:
        message = f"the words do not make pairs: {words[-1]!r} is left over"
        wrong.append(_mistake("NAME GLOB", " ".join(words), message, hint))
    if any(not word for word in words):
        wrong.append(_mistake("NAME GLOB", "", "a NAME or GLOB is empty", hint))
    return tuple(zip(words[::2], words[1::2], strict=False))


def _chart(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> ChartRequest:
    mode = PlotMode(arguments.mode)
    for option, given, fitting in (
        ("--baseline", arguments.baseline, (PlotMode.RATIO,)),
        ("--stack", arguments.stack, (PlotMode.BAR,)),
        ("--no-stack", arguments.no_stack, (PlotMode.BAR,)),
        ("--logx", arguments.logx, (PlotMode.LINE, PlotMode.ECDF)),
    ):
        if given and mode not in fitting:
            modes = " and ".join(f"--mode {one}" for one in fitting)
            wrong.append(_mistake(option, "", f"{option} is for {modes}"))
    stacks = None if arguments.stack is None else tuple(map(_words, arguments.stack))
    if arguments.no_stack and stacks:
        wrong.append(
            _mistake("--no-stack", "", "--stack and --no-stack are both given")
        )
    _check_lists(arguments, wrong)
    return ChartRequest(
        mode=mode,
        components=() if arguments.components is None else _words(arguments.components),
        factor=arguments.factor,
        errorbars=arguments.errorbars,
        confidence=checked(
            "--confidence", arguments.confidence, _confidence, 0.95, wrong
        ),
        stacks=() if arguments.no_stack else stacks,
        spacing=_spacing(arguments, wrong),
        baseline=arguments.baseline,
        xlabel=_text(arguments.xlabel),
        ylabel=_text(arguments.ylabel),
    )


def _check_lists(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> None:
    """Note every option that is there and is empty."""
    for option, given in (
        ("--components", arguments.components),
        ("--factor", arguments.factor),
        ("--baseline", arguments.baseline),
        *(("--stack", stack) for stack in arguments.stack or ()),
    ):
        if given is not None and not _words(given):
            hint = f"leave {option} out for the default"
            wrong.append(_mistake(option, given, f"{option} is empty", hint))


def _spacing(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> BarSpacing:
    default = BarSpacing()
    bar = checked("--bar-width", arguments.bar_width, _positive, default.bar, wrong)
    gap = checked("--bar-gap", arguments.bar_gap, _not_negative, default.gap, wrong)
    group = checked(
        "--group-gap", arguments.group_gap, _not_negative, default.group, wrong
    )
    return BarSpacing(bar, gap, group)


def _style(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> ChartStyle:
    width, height = checked("--size", arguments.size, parse_size, (6.0, 4.0), wrong)
    return ChartStyle(
        width_in=width,
        height_in=height,
        fontsize_pt=checked("--fontsize", arguments.fontsize, _fontsize, 11.0, wrong),
        title=_text(arguments.title) or "",
        key=checked("--key", arguments.key, parse_legend_place, LegendPlace(), wrong),
        rotate_deg=checked("--rotate", arguments.rotate, _degrees, None, wrong),
        logx=arguments.logx,
        logy=arguments.logy,
        ymin=checked("--ymin", arguments.ymin, _number, None, wrong),
        ymax=checked("--ymax", arguments.ymax, _number, None, wrong),
        dpi=checked("--dpi", arguments.dpi, _dpi, 150, wrong),
    )


def _graphfiles(
    arguments: argparse.Namespace, wrong: list[Diagnostic]
) -> tuple[tuple[str, str], ...]:
    found = []
    for path in arguments.graphfile:
        form = Path(path).suffix.lower().removeprefix(".")
        if form not in IMAGE_FORMATS:
            message = f"{path!r} does not end in .eps, .pdf, .svg or .png"
            hint = "the suffix of --graphfile is the format of the picture"
            wrong.append(_mistake("--graphfile", path, message, hint))
            continue
        found.append((path, form))
    return tuple(found)


def _check_outputs(
    arguments: argparse.Namespace,
    pairs: tuple[tuple[str, str], ...],
    wrong: list[Diagnostic],
) -> None:
    """Note every file that may not or cannot be written, and one that is named twice."""
    inputs = sorted(input_files(pairs))
    outputs = [("--graphfile", path) for path in arguments.graphfile]
    if arguments.datafile is not None:
        outputs.append(("--datafile", arguments.datafile))
    told = {mistake.text for mistake in wrong if mistake.file == "--graphfile"}
    for at, (option, path) in enumerate(outputs):
        if option == "--graphfile" and path in told:
            continue
        if any(same_file(path, earlier) for _, earlier in outputs[:at]):
            message = f"{path!r} is named twice: one would replace the other"
            wrong.append(_mistake(option, path, message, "give another name"))
            continue
        try:
            check_output(path, option, inputs)
        except InputError as error:
            wrong.extend(error.diagnostics)


def _check_limits(style: ChartStyle, wrong: list[Diagnostic]) -> None:
    low, high = style.ymin, style.ymax
    if low is not None and high is not None and low >= high:
        what = f"--ymin {low:g} is not below --ymax {high:g}"
        wrong.append(_mistake("--ymin", "", what))
    for option, limit in (("--ymin", low), ("--ymax", high)):
        if style.logy and limit is not None and limit <= 0:
            what = f"{option} {limit:g} is not on a logarithmic axis"
            wrong.append(_mistake(option, "", what, "a positive number, or no --logy"))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _text(text: str | None) -> str | None:
    """Return a label without control characters, which no format can show."""
    if text is None:
        return None
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def _mistake(option: str, text: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic("bad-argument", message, hint, file=option, text=text)


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


def _not_negative(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1000:
        raise ValueError(f"{text!r} is not from 0 to 1000")
    return value


def _fontsize(text: str) -> float:
    value = _number(text)
    if not 1 <= value <= 200:
        raise ValueError(f"{text!r} is not a font size from 1 to 200 points")
    return value


def _degrees(text: str) -> float | None:
    value = _number(text)
    if not -90 <= value <= 90:
        raise ValueError(f"{text!r} is not from -90 to 90 degrees")
    return value


def _dpi(text: str) -> int:
    value = _number(text)
    if not 10 <= value <= 1200 or value != int(value):
        raise ValueError(f"{text!r} is not a whole number from 10 to 1200")
    return int(value)


def _confidence(text: str) -> float:
    value = parse_share(text)
    if value >= 1:
        raise ValueError("a confidence is below 100%")
    return value
