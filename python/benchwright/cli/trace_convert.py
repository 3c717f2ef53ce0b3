"""`bw trace convert`: a trace in another format."""

from __future__ import annotations

import argparse
import sys

from benchwright.cli import trace_options as options
from benchwright.cli.checked import checked
from benchwright.cli.load_options import raise_all
from benchwright.finding.trace import doubts_of_reading
from benchwright.load import words
from benchwright.load.trace_engine import ask
from benchwright.load.trace_request import (
    WRITTEN,
    ConvertOutput,
    ConvertRequest,
    TraceInput,
)
from benchwright.model.errors import Diagnostic
from benchwright.model.trace import ConvertResult
from benchwright.report.trace_convert import convert_text
from benchwright.report.trace_json import trace_document


def convert(arguments: argparse.Namespace) -> int:
    """Do what `bw trace convert` was asked; return the exit code."""
    request = request_of(arguments)
    answer = ask(request, ConvertResult)
    findings = doubts_of_reading(answer.result.trace)
    if arguments.json:
        parts = {"result": answer.document}
        sys.stdout.write(trace_document("convert", request, parts, findings))
    else:
        sys.stdout.write(convert_text(answer.result, findings))
    return 0


def request_of(arguments: argparse.Namespace) -> ConvertRequest:
    """Return what the arguments mean. Raises InputError with every mistake."""
    options.refuse_command(arguments, "convert")
    wrong: list[Diagnostic] = []
    fields = options.input_fields(arguments, wrong)
    options.check_places(fields, wrong)
    form = checked(
        "--to",
        arguments.to,
        lambda text: words.one_of(text, WRITTEN, "format that is written"),
        "bw",
        wrong,
    )
    output = arguments.output
    if output is None:
        wrong.append(
            Diagnostic("bad-argument", "there is no OUT", "name it: -o OUT", "-o")
        )
    raise_all(wrong)
    return ConvertRequest(
        input=TraceInput(path=arguments.trace, **fields),
        output=ConvertOutput(output, form),
    )
