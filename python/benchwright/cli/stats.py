"""`bw stats`, also installed as `getstats`: the table of studies and results files.

Two steps: what the user said (arguments), what it means here (`Request` in
stats_request.py and what follows). With `--predicate` nothing is printed but with
`--json`; the exit status answers: 0 true for every quantity, 1 not.
Source: Auto-pilot paper, section 3.3.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from benchwright.cli.stats_steps import add_steps

if TYPE_CHECKING:
    from benchwright.cli.stats_checked import Step
    from benchwright.model.finding import Finding
    from benchwright.report.document import Document
    from benchwright.study.parsers.api import ParsedInput

SUMMARY = "Tables and statistics of results: studies, .res files, CSV, GNU time output."
_FORMATS = ("table", "csv", "json", "markdown", "latex")


def add_parser(commands: Any) -> None:
    """Add `bw stats` to the commands."""
    add_arguments(commands.add_parser("stats", help=SUMMARY, description=SUMMARY))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `bw stats` and `getstats` take."""
    option = parser.add_argument
    option("inputs", nargs="*", metavar="INPUT", help="a study or a results file")
    option(
        "--predicate", metavar="E", help="exit 0 if E holds for every quantity, else 1"
    )
    option(
        "--baseline", metavar="X", help="input that O/H refers to (default: the first)"
    )
    option("--ttest", action="store_true", help="t-tests against the baseline")
    variances = parser.add_mutually_exclusive_group()
    variances.add_argument(
        "--equal-variance",
        action="store_true",
        help="pool the variances, whatever the F-test says",
    )
    variances.add_argument(
        "--welch", action="store_true", help="never pool the variances"
    )
    option("--format", choices=_FORMATS, help="form of the report (default: table)")
    option("--json", action="store_true", help="the same as --format json")
    option(
        "--all", action="store_true", help="also peak RSS, faults, switches, block I/O"
    )
    option(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="also this quantity",
    )
    option("--threshold", metavar="Z", help="warn of z-scores above Z (default: 2)")
    option(
        "--drift",
        action="append",
        default=[],
        metavar="NAME=P",
        help="a change of NAME below P of its median is no drift",
    )
    option("--command", metavar="NAME", help="only blocks of this command")
    option("--confidence", metavar="P", help="of the intervals (default: 95%%)")
    option("--dump", action="store_true", help="the raw rows as CSV, nothing computed")
    option(
        "--rule",
        action="append",
        default=[],
        metavar="FILE",
        help="findings of a rule of your own: a Python file with rule(result)",
    )
    add_steps(parser)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw stats` and return its exit code. Raises InputError."""
    from benchwright.cli.stats_inputs import READS, read_inputs, selected
    from benchwright.cli.stats_request import request_of
    from benchwright.cli.stats_search import tell_search

    request = request_of(arguments)
    if tell_search(request.paths, request.format):
        return 0
    predicate = _parsed_predicate(request.predicate)
    read = selected(read_inputs(request.paths, READS), request.command)
    inputs, warned = _transformed(read, request.steps)
    if request.dump:
        from benchwright.report.dump import render_dump
        from benchwright.report.findings import finding_lines

        sys.stderr.write(finding_lines(warned))
        sys.stdout.write(render_dump([(i.name, i.blocks) for i in inputs]))
        return 0
    if predicate is not None:
        return _answer(predicate, inputs, request.confidence, request.format == "json")
    from benchwright.cli.stats_document import document_of
    from benchwright.cli.stats_names import with_known_names

    request = with_known_names(request, inputs)
    _print(document_of(inputs, request, warned), request.format)
    return 0


def _transformed(
    inputs: list[ParsedInput], steps: tuple[Step, ...]
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
    from benchwright.stats.predicate import answers

    given = {
        i.name: answers(predicate, judged_summaries(i, confidence)) for i in inputs
    }
    holds = all(found and all(found.values()) for found in given.values())
    if as_json:
        from benchwright.report.json import encode

        sys.stdout.write(
            encode(
                {"schema": "benchwright/predicate/1", "holds": holds, "answers": given}
            )
        )
    return 0 if holds else 1


def _print(document: Document, form: str) -> None:
    """Write the report to stdout; findings and notices go to stderr where
    the form has no place."""
    from benchwright.report.formats import render

    if form == "csv":
        from benchwright.report.findings import finding_lines
        from benchwright.report.notices import notice_lines

        sys.stderr.write(finding_lines(document.findings))
        sys.stderr.write(notice_lines(document.notices))
    sys.stdout.write(render(document, form))
