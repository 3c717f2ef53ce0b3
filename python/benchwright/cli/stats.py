"""`bw stats`: the arguments, and the steps that transform the table, in the order of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchwright.cli.parser import add_command

if TYPE_CHECKING:
    from benchwright.cli.stats_request import TransformStep
    from benchwright.core.results import Finding
    from benchwright.report.stats_document import StatsReport
    from benchwright.study.parsers.api import ParsedInput


# --------------------------------------------------------------------------------------
# The transformations of `bw stats` as the command line has them: read, not applied.
#
# Decision: they are steps in the order given, because each sees what the ones before it
# made (a derived column can be selected by). Applied in stats_transform.py.
# Source: Auto-pilot paper, section 3.3.


class KeepOrder(argparse.Action):
    """Appends (option, text) to `steps`, which all transformations share."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Append the option in its full spelling, and its text."""
        text = values if isinstance(values, str) else ""
        said = (self.option_strings[0], text)
        namespace.steps = [*(namespace.steps or ()), said]


_STEPS = (
    ("--derive", "NAME=E", "add a column NAME"),
    ("--select", "E", "keep the rows for which E is true"),
    ("--group", "COLUMN", "print a table for each value of COLUMN"),
    ("--warn", "E", "report a finding that names the rows for which E is true"),
    (
        "--aggregate",
        "NAME=HOW",
        "merge the rows of a trial into one, NAME by HOW: sum, mean, max, min, median, count",
    ),
)
_SWITCHES = (
    (
        "--unify",
        "merge the commands of a thread into one row here (default: at the end)",
    ),
    ("--no-unify", "print a table for each command"),
)


def add_steps(parser: argparse.ArgumentParser) -> None:
    """Add the transformations."""
    group = parser.add_argument_group(
        "transformations",
        "Applied in the order given, to rows; a row is one measured command. "
        "E reads $elapsed, $user and other values, $command, $thread, $epoch, and the "
        "sample's levels.",
    )
    for name, metavar, text in _STEPS:
        group.add_argument(
            name, action=KeepOrder, dest="steps", metavar=metavar, help=text
        )
    for name, text in _SWITCHES:
        group.add_argument(name, action=KeepOrder, dest="steps", nargs=0, help=text)


# --------------------------------------------------------------------------------------
# `bw stats`, also installed as `getstats`: the table of studies and results files.
#
# Two steps: what the user said (arguments), what it means here (`Request` in
# stats_request.py and what follows). With `--predicate` nothing is printed but with
# `--json`; the exit status answers: 0 true for every quantity, 1 not.
# Source: Auto-pilot paper, section 3.3.

_FORMATS = ("table", "csv", "json", "markdown", "latex")


def add_parser(commands: Any) -> None:
    """Add `bw stats` to the commands."""
    add_arguments(add_command(commands, "stats"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `bw stats` and `getstats` take."""
    option = parser.add_argument
    option("inputs", nargs="*", metavar="INPUT", help="study or results file")
    option(
        "--predicate",
        metavar="E",
        help="exit with 0 if E holds for every quantity, else with 1",
    )
    option(
        "--baseline", metavar="X", help="input that O/H refers to (default: the first)"
    )
    option("--ttest", action="store_true", help="print t-tests against the baseline")
    variances = parser.add_mutually_exclusive_group()
    variances.add_argument(
        "--equal-variance",
        action="store_true",
        help="pool the variances, whatever the F-test says",
    )
    variances.add_argument(
        "--welch", action="store_true", help="never pool the variances"
    )
    option("--format", choices=_FORMATS, help="format of the report (default: table)")
    option("--json", action="store_true", help="same as --format json")
    option(
        "--all",
        action="store_true",
        help="show also peak RSS, faults, switches, block I/O",
    )
    option(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="show also this quantity",
    )
    option("--threshold", metavar="Z", help="warn of z-scores above Z (default: 2)")
    option(
        "--drift",
        action="append",
        default=[],
        metavar="NAME=P",
        help="report no drift of NAME below the share P of its median",
    )
    option("--command", metavar="NAME", help="read only blocks of this command")
    option(
        "--confidence", metavar="P", help="confidence of the intervals (default: 95%%)"
    )
    option("--dump", action="store_true", help="print the raw rows as CSV")
    option(
        "--rule",
        action="append",
        default=[],
        metavar="FILE",
        help="rule of your own: a Python file with rule(result)",
    )
    add_steps(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw stats` and return its exit code. Raises InputError."""
    from benchwright.cli.search_output import print_search_stats
    from benchwright.cli.stats_inputs import READS, read_inputs, selected
    from benchwright.cli.stats_request import request_of

    request = request_of(arguments)
    if print_search_stats(request.paths, request.format):
        return 0
    predicate = _parsed_predicate(request.predicate)
    read = selected(read_inputs(request.paths, READS), request.command)
    inputs, warned = _transformed(read, request.steps)
    if request.dump:
        from benchwright.report.parts import finding_lines
        from benchwright.report.stats_formats import render_dump

        sys.stderr.write(finding_lines(warned))
        sys.stdout.write(render_dump([(i.name, i.blocks) for i in inputs]))
        return 0
    if predicate is not None:
        return _answer(predicate, inputs, request.confidence, request.format == "json")
    from benchwright.cli.stats_document import document_of
    from benchwright.cli.stats_inputs import with_known_names

    request = with_known_names(request, inputs)
    _print(document_of(inputs, request, warned), request.format)
    return 0


def _transformed(
    inputs: list[ParsedInput], steps: tuple[TransformStep, ...]
) -> tuple[list[ParsedInput], tuple[Finding, ...]]:
    """Return the inputs after all steps, and what `--warn` found."""
    if not steps:
        return inputs, ()
    from benchwright.cli.stats_transform import transformed

    found = transformed(inputs, steps)
    return list(found.inputs), found.findings


def _parsed_predicate(text: str | None) -> Any:
    if text is None:
        return None
    from benchwright.stats.predicate import parse_predicate

    return parse_predicate(text)


def _answer(
    predicate: Any, inputs: list[ParsedInput], confidence: float, as_json: bool
) -> int:
    """Ask the predicate about every quantity of every input: 0 true for all, else 1."""
    from benchwright.cli.stats_document import judged_summaries
    from benchwright.stats.predicate import predicate_answers

    given = {
        i.name: predicate_answers(predicate, judged_summaries(i, confidence))
        for i in inputs
    }
    holds = all(found and all(found.values()) for found in given.values())
    if as_json:
        from benchwright.report.documents import encode
        from benchwright.report.stats_json import PredicateDocument

        sys.stdout.write(encode(PredicateDocument(holds, given)))
    return 0 if holds else 1


def _print(document: StatsReport, form: str) -> None:
    """Write the report to stdout; findings and notices go to stderr where
    the form has no place."""
    from benchwright.report.stats_formats import render_stats

    if form == "csv":
        from benchwright.report.parts import finding_lines
        from benchwright.report.stats_document import notice_lines

        sys.stderr.write(finding_lines(document.findings))
        sys.stderr.write(notice_lines(document.notices))
    sys.stdout.write(render_stats(document, form))
