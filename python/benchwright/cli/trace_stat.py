"""`bw trace stat`: what a trace is like, as text, JSON and a page of plots."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchwright.cli import trace_options as options
from benchwright.cli.load_options import raise_all
from benchwright.cli.plot_file import check_plot, write_plot
from benchwright.finding.trace import doubts_of_stat
from benchwright.load.trace_engine import TraceAnswer, ask
from benchwright.load.trace_request import StatRequest, TraceInput
from benchwright.model.errors import Diagnostic
from benchwright.model.trace_stat import StatResult
from benchwright.report.plot.trace_stat import NamedStat, stat_sheet
from benchwright.report.trace_json import trace_document
from benchwright.report.trace_stat import stat_text


def stat(arguments: argparse.Namespace) -> int:
    """Do what `bw trace stat` was asked; return the exit code."""
    requests = requests_of(arguments)
    check_plot(arguments.plot, arguments.traces)
    answers = [ask(request, StatResult) for request in requests]
    files = write_plot(arguments.plot, lambda: stat_sheet(_named(answers)))
    findings = tuple(one for a in answers for one in doubts_of_stat(a.result))
    if arguments.json:
        parts = {"traces": [answer.document for answer in answers], "files": files}
        sys.stdout.write(trace_document("stat", requests, parts, findings))
    else:
        texts = (
            stat_text(answer.result, doubts_of_stat(answer.result))
            for answer in answers
        )
        sys.stdout.write("\n".join(texts))
    return 0


def requests_of(arguments: argparse.Namespace) -> list[StatRequest]:
    """Return what the arguments mean. Raises InputError with every mistake."""
    options.refuse_command(arguments, "stat")
    wrong: list[Diagnostic] = []
    fields = options.input_fields(arguments, wrong)
    raise_all(wrong)
    paths: list[str | tuple[str, ...]] = list(arguments.traces)
    if arguments.merge:
        paths = [tuple(arguments.traces)]
    return [StatRequest(input=TraceInput(path=path, **fields)) for path in paths]


def _named(answers: list[TraceAnswer[StatResult]]) -> list[NamedStat]:
    """Return the results with names that tell them apart."""
    paths = [answer.result.report.path for answer in answers]
    names = [Path(path).name for path in paths]
    if len(set(names)) < len(names):
        names = paths
    return [
        NamedStat(name, answer.result)
        for name, answer in zip(names, answers, strict=True)
    ]
