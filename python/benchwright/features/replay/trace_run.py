"""Runs the commands of `bw trace`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from benchwright.cli.output_file import check_output
from benchwright.cli.plot_file import check_plot, write_plot
from benchwright.cli.terminal import write_answer
from benchwright.core.errors import Diagnostic
from benchwright.features.load.command_line import raise_all, trace_fields
from benchwright.features.load.engine import INTERRUPTED, EngineAnswer, ask_engine
from benchwright.features.load.engine import capture_trace as capture_io
from benchwright.features.load.request import (
    CaptureRequest,
    CompareRequest,
    ConvertedTrace,
    ConvertRequest,
    StatRequest,
    TraceInput,
)
from benchwright.features.replay import trace_options as options
from benchwright.features.replay.chart import NamedStat, compare_sheet, stat_sheet
from benchwright.features.replay.findings import (
    trace_capture_findings,
    trace_compare_findings,
    trace_reading_findings,
    trace_stat_findings,
)
from benchwright.features.replay.report import (
    CapturedCommand,
    TraceCaptureDocument,
    TraceCompareDocument,
    TraceConvertDocument,
    TraceStatDocument,
    capture_text,
    compare_text,
    convert_text,
    stat_text,
)
from benchwright.features.replay.types import (
    CaptureResult,
    ConvertResult,
    TraceComparison,
    TraceStatistics,
)
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import request_from
from benchwright.report.documents import FindingEntry, entries

_NO_OUTPUT = option_mistake("-o", "OUT is missing", "add -o OUT")

# -- `bw trace stat`: statistics of traces, as text, JSON and plots --------------------


def stat(arguments: argparse.Namespace) -> int:
    """Run `bw trace stat`; return the exit code."""
    requests = stat_requests(arguments)
    check_plot(arguments.plot, arguments.traces)
    answers = [ask_engine(request, TraceStatistics) for request in requests]
    files = write_plot(arguments.plot, lambda: stat_sheet(_named(answers)))
    findings = tuple(one for a in answers for one in trace_stat_findings(a.result))
    texts = (stat_text(answer.result, trace_stat_findings(answer.result)) for answer in answers)
    write_answer(
        json=arguments.json,
        document=lambda: TraceStatDocument(
            request=tuple(requests),
            traces=tuple(answer.document for answer in answers),
            files=files,
            findings=entries(FindingEntry, findings),
        ),
        text=lambda: "\n".join(texts),
    )
    return 0


def stat_requests(arguments: argparse.Namespace) -> list[StatRequest]:
    """Return a request for each trace. Raises InputError with all mistakes."""
    options.refuse_command(arguments, "stat")
    wrong: list[Diagnostic] = []
    fields = trace_fields(arguments, wrong)
    raise_all(wrong)
    request = request_from(options.StatOptions, arguments)
    paths = [request.traces] if request.merge else request.traces
    return [StatRequest(input=TraceInput(path=path, **fields)) for path in paths]


def _named(answers: list[EngineAnswer[TraceStatistics]]) -> list[NamedStat]:
    """Return the results with distinct names."""
    paths = [answer.result.report.path for answer in answers]
    names = [Path(path).name for path in paths]
    if len(set(names)) < len(names):
        names = paths
    return [NamedStat(name, answer.result) for name, answer in zip(names, answers, strict=True)]


# -- `bw trace compare`: how closely a replay matches its trace ------------------------


def compare(arguments: argparse.Namespace) -> int:
    """Run `bw trace compare`; return the exit code."""
    request = compare_request(arguments)
    check_plot(arguments.plot, [arguments.a, arguments.b])
    answer = ask_engine(request, TraceComparison)
    files = write_plot(arguments.plot, lambda: compare_sheet(answer.result))
    findings = trace_compare_findings(answer.result)
    write_answer(
        json=arguments.json,
        document=lambda: TraceCompareDocument(
            request=request,
            result=answer.document,
            files=files,
            findings=entries(FindingEntry, findings),
        ),
        text=lambda: compare_text(answer.result, findings),
    )
    return 0


def compare_request(arguments: argparse.Namespace) -> CompareRequest:
    """Return the request of the arguments. Raises InputError with all mistakes."""
    options.refuse_command(arguments, "compare")
    wrong: list[Diagnostic] = []
    a, b, pairing = options.compare_fields(arguments, wrong)
    raise_all(wrong)
    return CompareRequest(
        a=TraceInput(path=arguments.a, **a), b=TraceInput(path=arguments.b, **b), **pairing
    )


# -- `bw trace convert`: a trace in another format -------------------------------------


def convert(arguments: argparse.Namespace) -> int:
    """Run `bw trace convert`; return the exit code."""
    request = convert_request(arguments)
    answer = ask_engine(request, ConvertResult)
    findings = trace_reading_findings(answer.result.trace)
    write_answer(
        json=arguments.json,
        document=lambda: TraceConvertDocument(
            request=request, result=answer.document, findings=entries(FindingEntry, findings)
        ),
        text=lambda: convert_text(answer.result, findings),
    )
    return 0


def convert_request(arguments: argparse.Namespace) -> ConvertRequest:
    """Return the request of the arguments. Raises InputError with all mistakes."""
    options.refuse_command(arguments, "convert")
    wrong: list[Diagnostic] = []
    fields = trace_fields(arguments, wrong)
    options.check_places(fields, wrong)
    request = request_from(options.ConvertOptions, arguments)
    reader = OptionReader(request)
    form = reader.value("to", "bw")
    output = request.output
    if output is None:
        reader.found.append(_NO_OUTPUT)
    raise_all([*wrong, *reader.found])
    assert output is not None
    return ConvertRequest(
        input=TraceInput(path=request.trace, **fields), output=ConvertedTrace(output, form)
    )


# --------------------------------------------------------------------------------------
# `bw trace capture`: records the block I/O of a device, a process tree or a command.
#
# Decision: this process starts the command after the engine reports that it receives events, and
# the engine records this process's tree. So the trace contains the command's first request, and
# the I/O of all its children. If the command fails, its exit status is printed, the trace is
# stored, and the exit code is 1.


class TracedCommand:
    """A command whose I/O is recorded."""

    def __init__(self, words: list[str], *, quiet: bool) -> None:
        self.words = words
        self.status: int | None = None
        """Its exit status; None before its end; negative: the signal that ended it."""
        self._quiet = quiet

    def run(self) -> None:
        """Run the command. With `quiet`, its stdout goes to stderr, because `bw` writes to stdout."""
        out = sys.stderr if self._quiet else None
        with subprocess.Popen(self.words, stdout=out) as process:
            self.status = process.wait()


def capture(arguments: argparse.Namespace) -> int:
    """Run `bw trace capture`; return the exit code."""
    request, command = capture_request(arguments)
    check_output(request.output, "-o", [])
    sys.stdout.flush()
    if command is None and not arguments.json and sys.stderr.isatty():
        how = "Ctrl-C ends it" if request.for_ns is None else "Ctrl-C ends it early"
        print(f"bw: recording; {how} and keeps the trace", file=sys.stderr)
    answer = capture_io(request, CaptureResult, command.run if command else None)
    findings = trace_capture_findings(answer.result, request.output)
    ran = None
    if command is not None:
        ran = CapturedCommand(tuple(command.words), command.status)
    write_answer(
        json=arguments.json,
        document=lambda: TraceCaptureDocument(
            request=request,
            output=request.output,
            command=ran,
            result=answer.document,
            findings=entries(FindingEntry, findings),
        ),
        text=lambda: capture_text(answer.result, request.output, findings),
    )
    return _status(request, command, answer)


def _status(
    request: CaptureRequest, command: TracedCommand | None, answer: EngineAnswer[CaptureResult]
) -> int:
    """Return the exit code: 130 after an interrupt, 1 if the command failed, else 0."""
    if command is not None:
        if answer.interrupted:
            return INTERRUPTED
        if command.status:
            how = f"exit status {command.status}"
            if command.status < 0:
                how = f"signal {-command.status}"
            print(f"bw: the command ended with {how}; its trace was written", file=sys.stderr)
            return 1
        return 0
    return INTERRUPTED if answer.interrupted and request.for_ns is not None else 0


def capture_request(arguments: argparse.Namespace) -> tuple[CaptureRequest, TracedCommand | None]:
    """Return the request of the arguments. Raises InputError with all mistakes."""
    asked = request_from(options.CaptureOptions, arguments)
    reader = OptionReader(asked)
    pid, length, buffer = map(reader.value, ("pid", "length", "buffer"))
    wrong = reader.found
    command = _command(arguments, wrong)
    nothing = (asked.device, asked.pid, command) == (None, None, None)
    if nothing and arguments.command_argv is None:
        hint = "--device /dev/X, --pid N, or -- CMD..."
        message = "nothing to record is given"
        wrong.append(option_mistake("bw trace capture", message, hint))
    if command is not None and pid is not None:
        message = "a command is given too: only one tree can be recorded"
        wrong.append(option_mistake("--pid", message))
    if asked.output is None:
        wrong.append(_NO_OUTPUT)
    raise_all(wrong)
    assert asked.output is not None
    request = CaptureRequest(
        device=asked.device, pid=pid, for_ns=length, output=asked.output, buffer_kib=buffer
    )
    if command is not None:
        request = msgspec.structs.replace(request, pid=os.getpid())
    return request, command


def _command(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> TracedCommand | None:
    argv = arguments.command_argv
    if argv is None:
        return None
    if not argv:
        wrong.append(option_mistake("--", "there is no command after --"))
        return None
    if shutil.which(argv[0]) is None:
        wrong.append(option_mistake("--", f"there is no program {argv[0]!r}"))
    return TracedCommand(argv, quiet=arguments.json)
