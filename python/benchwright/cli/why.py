"""`bw why`: what limited each result, with the USE table and every doubt.

Two steps: what the user said (arguments), what it means here (`Asked` in why_request.py).
Exit code 0 also where nothing was watched: that is said in its place.
"""

from __future__ import annotations

import argparse
from typing import Any

SUMMARY = "what limited each result: USE table, findings, evidence"


def add_parser(commands: Any) -> None:
    """Add `bw why` to the commands."""
    parser = commands.add_parser(
        "why", help=SUMMARY, description=f"{SUMMARY[0].upper()}{SUMMARY[1:]}."
    )
    option = parser.add_argument
    option(
        "inputs",
        nargs="*",
        metavar="STUDY",
        help="DIR, DIR@SESSION or DIR:TEST (default ./bw-study)",
    )
    option("--study", metavar="DIR", help="the same")
    option(
        "--test",
        action="append",
        default=[],
        metavar="NAME",
        help="only this test; may be repeated",
    )
    option(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=RATE",
        help="what a link, a disk or a bus can do: eth0=1Gbit/s, array=200MB/s",
    )
    option(
        "--operation-size",
        metavar="SIZE",
        help="bytes of an operation, for rates of operations (default: a factor "
        "such as block_size)",
    )
    option(
        "--rule",
        action="append",
        default=[],
        metavar="FILE",
        help="a rule of your own: a Python file with rule(result)",
    )
    option("--json", action="store_true", help="one JSON document on stdout")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw why` and return its exit code. Raises InputError, StudyError."""
    import shutil
    import sys

    from benchwright.cli.why_request import asked
    from benchwright.cli.why_results import results_of
    from benchwright.report.json import encode
    from benchwright.report.why import render_why
    from benchwright.report.why_json import why_object

    request = asked(arguments)
    found = results_of(request)
    if arguments.json:
        answer = why_object(found.results, found.study, found.session)
        sys.stdout.write(encode(answer))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        sys.stdout.write(render_why(found.results, min(width, 160)))
    return 0
