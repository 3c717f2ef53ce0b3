"""`bw trace capture`: the block I/O of a device, a process tree or a command, recorded.

Decision: a command is begun by this process once the engine says that events flow, and the
tree that is recorded is this process's own: whatever the command begins belongs to it, and
no first request is missed. The command's exit status is told; one that failed makes
ours 1, with the trace kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

import msgspec

from benchwright.cli.checked import checked
from benchwright.cli.load_options import raise_all
from benchwright.cli.outputs import check_output
from benchwright.finding.trace import doubts_of_capture
from benchwright.load import words
from benchwright.load.engine import INTERRUPTED
from benchwright.load.trace_engine import TraceAnswer
from benchwright.load.trace_engine import capture as capture_io
from benchwright.load.trace_request import CaptureRequest
from benchwright.model.errors import Diagnostic
from benchwright.model.trace import CaptureResult
from benchwright.report.trace_capture import capture_text
from benchwright.report.trace_json import trace_document


class Command:
    """A command that runs while it is recorded."""

    def __init__(self, words: list[str], *, quiet: bool) -> None:
        self.words = words
        self.status: int | None = None
        """Its exit status; None until it has ended; negative: the signal that ended it."""
        self._quiet = quiet

    def run(self) -> None:
        """Run it to its end. With `quiet` its output goes to stderr: stdout is ours."""
        out = sys.stderr if self._quiet else None
        with subprocess.Popen(self.words, stdout=out) as process:
            self.status = process.wait()


def capture(arguments: argparse.Namespace) -> int:
    """Do what `bw trace capture` was asked; return the exit code."""
    request, command = request_of(arguments)
    check_output(request.output, "-o", [])
    sys.stdout.flush()
    if command is None and not arguments.json and sys.stderr.isatty():
        how = "Ctrl-C ends it" if request.for_ns is None else "Ctrl-C ends it early"
        print(f"bw: recording; {how} and keeps the trace", file=sys.stderr)
    answer = capture_io(request, CaptureResult, command.run if command else None)
    findings = doubts_of_capture(answer.result, request.output)
    if arguments.json:
        ran = (
            None
            if command is None
            else {"argv": command.words, "status": command.status}
        )
        parts = {"output": request.output, "command": ran, "result": answer.document}
        sys.stdout.write(trace_document("capture", request, parts, findings))
    else:
        sys.stdout.write(capture_text(answer.result, request.output, findings))
    return _status(request, command, answer)


def _status(
    request: CaptureRequest, command: Command | None, answer: TraceAnswer[CaptureResult]
) -> int:
    """Return 130 for a recording that an interrupt cut short, 1 for a failed command."""
    if command is not None:
        if answer.interrupted:
            return INTERRUPTED
        if command.status:
            how = f"exit status {command.status}"
            if command.status < 0:
                how = f"signal {-command.status}"
            print(
                f"bw: the command ended with {how}; its trace is kept", file=sys.stderr
            )
            return 1
        return 0
    return INTERRUPTED if answer.interrupted and request.for_ns is not None else 0


def request_of(arguments: argparse.Namespace) -> tuple[CaptureRequest, Command | None]:
    """Return what the arguments mean. Raises InputError with every mistake."""
    wrong: list[Diagnostic] = []
    pid = checked("--pid", arguments.pid, words.some, None, wrong)
    length = checked("--for", arguments.length, words.some_ns, None, wrong)
    buffer = checked("--buffer", arguments.buffer, _buffer_kib, None, wrong)
    command = _command(arguments, wrong)
    nothing = (arguments.device, arguments.pid, command) == (None, None, None)
    if nothing and arguments.command_argv is None:
        hint = "--device /dev/X, --pid N, or -- CMD..."
        wrong.append(
            _mistake("bw trace capture", "it is not said what to record", hint)
        )
    if command is not None and pid is not None:
        wrong.append(_mistake("--pid", "there is a command too: which tree?", ""))
    if arguments.output is None:
        wrong.append(_mistake("-o", "there is no OUT", "name it: -o OUT"))
    raise_all(wrong)
    request = CaptureRequest(
        device=arguments.device,
        pid=pid,
        for_ns=length,
        output=arguments.output,
        buffer_kib=buffer,
    )
    if command is not None:
        request = msgspec.structs.replace(request, pid=os.getpid())
    return request, command


def _command(arguments: argparse.Namespace, wrong: list[Diagnostic]) -> Command | None:
    argv = arguments.command_argv
    if argv is None:
        return None
    if not argv:
        wrong.append(_mistake("--", "there is no command after --", ""))
        return None
    if shutil.which(argv[0]) is None:
        wrong.append(_mistake("--", f"there is no program {argv[0]!r}", ""))
    return Command(argv, quiet=arguments.json)


def _mistake(where: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-argument", message, hint, file=where)


def _buffer_kib(text: str) -> int:
    kib = words.some_bytes(text) // 1024
    if not 4 <= kib <= 2**22:
        raise ValueError(f"{text!r} is outside 4k .. 4G for each processor")
    return kib
