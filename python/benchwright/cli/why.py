"""`bw why`: what limited each result, with the USE table and all findings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.terminal import report_width, write_answer
from benchwright.core.errors import InputError
from benchwright.core.quantity import parse_size_bytes
from benchwright.findings.limit import StatedCapacity, stated_rate
from benchwright.findings.sanity import Claims
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.inputs.template import named
from benchwright.suite.common_options import Json, OkStatus, RuleFiles

if TYPE_CHECKING:
    from benchwright.results.explained import WhyRequest


_RATE_HINT = "write NAME=RATE, such as eth0=1Gbit/s, vda=3k/s or sda+sdb=400MB/s"


def _size(text: str) -> float:
    size = parse_size_bytes(text)
    if size <= 0:
        raise ValueError("the size of an operation must be at least one byte")
    return float(size)


class WhyOptions(msgspec.Struct, frozen=True):
    """The options of `bw why`."""

    inputs: Annotated[
        tuple[str, ...],
        Option(
            "study or a part of it: DIR, DIR@SESSION or DIR:TEST",
            "STUDY",
            default="./bw-study",
            positional=True,
            names="directory",
            default_key="study",
            yields_to="study",
        ),
    ] = ()
    study: Annotated[
        Text, Option("study directory, in place of STUDY", "DIR", names="directory")
    ] = None
    tests: Annotated[
        tuple[str, ...], Option("explain only this test (repeatable)", "NAME", flag="--test")
    ] = ()
    limits: Annotated[
        tuple[str, ...],
        Option(
            "capacity of a link, a disk, disks together or a bus, in bytes or in requests: eth0=1Gbit/s, vda=3k/s, "
            "sda+sdb=400MB/s (repeatable)",
            "NAME=RATE",
            named(stated_rate),
            flag="--limit",
            hint=_RATE_HINT,
        ),
    ] = ()
    operation_size: Annotated[
        Text,
        Option(
            "size of an operation, for rates of operations",
            "SIZE",
            _size,
            default="a factor such as block_size",
        ),
    ] = None
    whole: Annotated[
        bool,
        Option(
            "print the USE table of every test with all its rows, and why figures are absent",
            flag="--all",
        ),
    ] = False
    rules: RuleFiles = ()
    ok_status: OkStatus = None
    json: Json = False


def why_request(asked: WhyOptions) -> WhyRequest:
    """Return the request of the options. Raises InputError."""
    from benchwright.cli.rule_files import rules_and_mistakes
    from benchwright.results.explained import WhyRequest

    reader = OptionReader(asked)
    paths = [*asked.inputs, *filter(None, [asked.study])]
    if len(paths) > 1:
        message = "bw why explains one study at a time"
        reader.wrong("STUDY", paths[1], message, "run it once for each study")
    size = reader.value("operation_size")
    reader.value("ok_status")
    capacities = [
        StatedCapacity(named[0], *named[1])
        for text in asked.limits
        if (named := reader.named("--limit", text, stated_rate, _RATE_HINT)) is not None
    ]
    rules, wrong = rules_and_mistakes(asked.rules)
    if wrong := [*reader.found, *wrong]:
        raise InputError(wrong)
    path = paths[0] if paths else "bw-study"
    claims = Claims(tuple(capacities), size)
    return WhyRequest(path, asked.tests, claims, rules, asked.ok_status)


def add_parser(commands: Any) -> None:
    """Add `bw why` to the commands."""
    parser = add_command(commands, "why")
    add_options(parser, WhyOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw why`; return the exit code. Raises InputError, StudyError.

    The exit code is 0 even if the trials were not watched; then the report says so.
    """
    from benchwright.results.explained import results_of, why_document
    from benchwright.views.why import render_why

    request = request_from(WhyOptions, arguments)
    results = results_of(why_request(request))
    write_answer(
        json=request.json,
        document=lambda: why_document(
            results.results, results.study, results.session, results.findings
        ),
        text=lambda: render_why(
            results.results,
            report_width(),
            about=results.findings,
            whole=request.whole,
            noun="test" if results.session is None else "load",
        ),
    )
    return 0
