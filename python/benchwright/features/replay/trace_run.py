"""Runs the commands of `bw trace`, and makes the findings about traces: skipped lines, lost events.

Decision: a trace with gaps is still a trace, so these are findings, and the exit status stays 0;
the number of missing operations is reported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchwright.cli.output_file import check_output, check_plot, write_plot
from benchwright.cli.terminal import write_answer
from benchwright.core.errors import Diagnostic
from benchwright.core.results import Finding, states
from benchwright.features.load.command_line import raise_all, trace_fields
from benchwright.features.load.engine import INTERRUPTED, EngineAnswer, ask_engine
from benchwright.features.load.engine import capture_trace as capture_io
from benchwright.features.load.findings import empty_trace, requests_findings
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
    TraceReport,
    TraceStatistics,
)
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding
from benchwright.inputs.mistakes import option_mistake
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import request_from
from benchwright.report.documents import FindingEntry, entries


def trace_reading_findings(report: TraceReport) -> tuple[Finding, ...]:
    """Return the findings about how a trace was read."""
    return tuple(_reading(report))


def _reading(report: TraceReport, *, sent: bool = True) -> Iterator[Finding]:
    if not report.operations:
        shown = empty_trace(report.path, report.left_out)
        yield make_finding("trace-empty", report.path, shown)
    if report.skipped_lines:
        first = str(report.skipped_first[0]) if report.skipped_first else None
        shown = states(lines=report.skipped_lines, first=first)
        yield make_finding("trace-lines-skipped", report.path, shown)
    if report.clipped:
        yield make_finding("trace-clipped", report.path, states(operations=report.clipped))
    if report.requests is not None:
        yield from requests_findings(
            report.requests, report.path, report.duplicates, report.path, sent=sent
        )


def trace_stat_findings(result: TraceStatistics) -> tuple[Finding, ...]:
    """Return the findings about the statistics of a trace."""
    return tuple(_stat(result))


def _stat(result: TraceStatistics) -> Iterator[Finding]:
    report, gaps = result.report, result.gaps
    yield from _reading(report, sent=False)
    if (
        gaps.equal > t.SAME_STAMP * max(1, gaps.gap_ns.count)
        and report.duplicates == "burst"
        and not (report.requests and report.requests.whole_seconds)
    ):
        shown = states(equal=gaps.equal, operations=gaps.gap_ns.count)
        yield make_finding("trace-stamps-coarse", report.path, shown)
    if result.queue is not None and result.queue.without_end:
        shown = states(operations=result.queue.without_end)
        yield make_finding("trace-ends-missing", report.path, shown)


def trace_capture_findings(result: CaptureResult, path: str) -> tuple[Finding, ...]:
    """Return the findings about the recording at `path`."""
    return tuple(_capture(result, path))


def _capture(result: CaptureResult, path: str) -> Iterator[Finding]:
    if result.lost_events:
        yield make_finding("capture-events-lost", path, states(events=result.lost_events))
    if result.unread_lines:
        yield make_finding("capture-lines-unread", path, states(lines=result.unread_lines))
    if result.new_devices:
        yield make_finding("capture-new-devices", path, states(operations=result.new_devices))
    if result.unfinished:
        shown = states("captured", unfinished=result.unfinished, operations=result.operations)
        yield make_finding("trace-ends-missing", path, shown)
    if not result.operations:
        text = "no request reached a block device: the page cache answered all of them"
        yield make_finding("capture-empty", path, text)


def trace_compare_findings(result: TraceComparison) -> tuple[Finding, ...]:
    """Return the findings about a comparison of traces."""
    return tuple(_compare(result))


def _compare(result: TraceComparison) -> Iterator[Finding]:
    yield from _reading(result.a.report)
    yield from _reading(result.b.report)
    subject = result.b.report.path
    if result.unmatched_a > t.UNMATCHED * result.a.operations:
        shown = states(
            unmatched=result.unmatched_a, operations=result.a.operations, path=result.a.report.path
        )
        yield make_finding("trace-unmatched", subject, shown)
    origins = (result.alignment.speed_from, result.alignment.shift_from)
    if "estimated" in origins or "estimated-whole" in origins:
        shown = states(pairs=result.alignment.pairs)
        yield make_finding("trace-alignment-estimated", subject, shown)


_NO_OUTPUT = option_mistake("-o", "OUT is missing", "add -o OUT")

# -- `bw trace stat`: statistics of traces, as text, JSON and plots --------------------


def stat(arguments: argparse.Namespace) -> int:
    """Run `bw trace stat`; return the exit code."""
    requests = stat_requests(arguments)
    check_plot(arguments.plot, arguments.traces)
    answers = [ask_engine(request, TraceStatistics) for request in requests]
    files = write_plot(arguments.plot, lambda: stat_sheet(_named(answers)))
    findings = tuple(finding for a in answers for finding in trace_stat_findings(a.result))
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
    capture_options = request_from(options.CaptureOptions, arguments)
    reader = OptionReader(capture_options)
    pid, length, buffer = map(reader.value, ("pid", "length", "buffer"))
    wrong = reader.found
    command = _command(arguments, wrong)
    nothing = (capture_options.device, capture_options.pid, command) == (None, None, None)
    if nothing and arguments.command_argv is None:
        hint = "--device /dev/X, --pid N, or -- CMD..."
        message = "nothing to record is given"
        wrong.append(option_mistake("bw trace capture", message, hint))
    if command is not None and pid is not None:
        message = "a command is given too: only one tree can be recorded"
        wrong.append(option_mistake("--pid", message))
    if capture_options.output is None:
        wrong.append(_NO_OUTPUT)
    raise_all(wrong)
    assert capture_options.output is not None
    request = CaptureRequest(
        device=capture_options.device,
        pid=pid,
        for_ns=length,
        output=capture_options.output,
        buffer_kib=buffer,
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
