"""`bw trace compare`: how faithful a replay is to its trace."""

from __future__ import annotations

import argparse
import sys

from benchwright.cli import trace_options as options
from benchwright.cli.load_options import raise_all
from benchwright.cli.plot_file import check_plot, write_plot
from benchwright.finding.trace import doubts_of_compare
from benchwright.load.trace_engine import ask
from benchwright.load.trace_request import CompareRequest, TraceInput
from benchwright.model.errors import Diagnostic
from benchwright.model.trace_compare import CompareResult
from benchwright.report.plot.trace_compare import compare_sheet
from benchwright.report.trace_compare import compare_text
from benchwright.report.trace_json import trace_document


def compare(arguments: argparse.Namespace) -> int:
    """Do what `bw trace compare` was asked; return the exit code."""
    request = request_of(arguments)
    check_plot(arguments.plot, [arguments.a, arguments.b])
    answer = ask(request, CompareResult)
    files = write_plot(arguments.plot, lambda: compare_sheet(answer.result))
    findings = doubts_of_compare(answer.result)
    if arguments.json:
        parts = {"result": answer.document, "files": files}
        sys.stdout.write(trace_document("compare", request, parts, findings))
    else:
        sys.stdout.write(compare_text(answer.result, findings))
    return 0


def request_of(arguments: argparse.Namespace) -> CompareRequest:
    """Return what the arguments mean. Raises InputError with every mistake."""
    options.refuse_command(arguments, "compare")
    wrong: list[Diagnostic] = []
    a, b, pairing = options.compare_fields(arguments, wrong)
    raise_all(wrong)
    return CompareRequest(
        a=TraceInput(path=arguments.a, **a),
        b=TraceInput(path=arguments.b, **b),
        **pairing,
    )
