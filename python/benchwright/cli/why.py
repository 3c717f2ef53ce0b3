"""What `bw why` was asked, checked: every mistake at once, before a study is read."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import checked
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.quantity import parse_size_bytes
from benchwright.findings.limit import StatedCapacity, bytes_per_s
from benchwright.findings.rules import NamedRule
from benchwright.findings.sanity import Claims


class WhyRequest(msgspec.Struct, frozen=True):
    """A checked request."""

    path: str
    tests: tuple[str, ...]
    claims: Claims
    rules: tuple[NamedRule, ...]


def why_request(arguments: argparse.Namespace) -> WhyRequest:
    """Return the request that the arguments mean. Raises InputError."""
    from benchwright.cli.rule_files import read_rules

    wrong: list[Diagnostic] = []
    paths = [*arguments.inputs]
    if arguments.study:
        paths.append(arguments.study)
    if len(paths) > 1:
        message = "bw why explains one study at a time"
        hint = "call it for each"
        wrong.append(Diagnostic("bad-argument", message, hint, "STUDY", text=paths[1]))
    size = checked("--operation-size", arguments.operation_size, _size, None, wrong)
    capacities = [_capacity(text, wrong) for text in arguments.limit]
    found: list[NamedRule] = []
    try:
        found = read_rules(arguments.rule)
    except InputError as error:
        wrong.extend(error.diagnostics)
    if wrong:
        raise InputError(wrong)
    claims = Claims(tuple(one for one in capacities if one is not None), size)
    path = paths[0] if paths else "bw-study"
    return WhyRequest(path, tuple(arguments.test), claims, tuple(found))


def _size(text: str) -> float | None:
    size = parse_size_bytes(text)
    if size <= 0:
        raise ValueError("an operation has at least one byte")
    return float(size)


def _capacity(text: str, wrong: list[Diagnostic]) -> StatedCapacity | None:
    name, _, rate = text.partition("=")
    try:
        if not name or not rate:
            raise ValueError("no name or no rate: write NAME=RATE, eth0=1Gbit/s")
        found = bytes_per_s(rate)
    except ValueError as error:
        column = len(name) + 2 if rate else 1
        wrong.append(
            Diagnostic(
                "bad-argument", str(error), file="--limit", column=column, text=text
            )
        )
        return None
    return StatedCapacity(name, found)


# -- `bw why`: what limited each result, with the USE table and every doubt ------------
#
# Two steps: what the user said (arguments), what it means here.
# Exit code 0 also where nothing was watched: that is said in its place.


def add_parser(commands: Any) -> None:
    """Add `bw why` to the commands."""
    parser = add_command(
        commands,
        "why",
    )
    option = parser.add_argument
    option(
        "inputs",
        nargs="*",
        metavar="STUDY",
        help="DIR, DIR@SESSION or DIR:TEST (default: ./bw-study)",
    )
    option("--study", metavar="DIR", help="study directory, in place of STUDY")
    option(
        "--test",
        action="append",
        default=[],
        metavar="NAME",
        help="explain only this test (repeatable)",
    )
    option(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=RATE",
        help="capacity of a link, a disk or a bus: eth0=1Gbit/s, array=200MB/s",
    )
    option(
        "--operation-size",
        metavar="SIZE",
        help="size of an operation, for rates of operations (default: a factor "
        "such as block_size)",
    )
    option(
        "--rule",
        action="append",
        default=[],
        metavar="FILE",
        help="rule of your own: a Python file with rule(result)",
    )
    option("--json", action="store_true", help="print one JSON document on stdout")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw why` and return its exit code. Raises InputError, StudyError."""
    import shutil
    import sys

    from benchwright.cli.why_results import results_of
    from benchwright.report.documents import encode
    from benchwright.report.why import render_why, why_document

    request = why_request(arguments)
    found = results_of(request)
    if arguments.json:
        answer = why_document(found.results, found.study, found.session)
        sys.stdout.write(encode(answer))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(render_why(found.results, min(width, 160)))
    return 0
