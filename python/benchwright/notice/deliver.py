"""Delivers a notice to all targets at once, each by its own process.

Decision: the process is the user's command, or `python -m benchwright.notice.send` for the
other targets. A process can be ended whatever a server does (a response of one byte a second
never reaches a socket's timeout), and what it reads cannot fill the memory of `bw`. Rejected:
threads, which cannot be ended. Output goes to an unnamed file: a full pipe would
block. A notice that is not delivered is reported and changes nothing else.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from benchwright.core.notice import (
    CommandTarget,
    Notice,
    NoticeDelivery,
    NoticeSettings,
    NoticeTarget,
)
from benchwright.core.untrusted import visible_json
from benchwright.notice import text
from benchwright.notice.text import SendRequest, target_name

FILE = "notices.jsonl"
_MOST_OUTPUT_BYTES = 65536


class NoticeLimits(msgspec.Struct, frozen=True):
    """How long a delivery may take [s]."""

    command_s: float = 30.0
    """Limit for a user's command, which is started once."""
    answer_s: float = 10.0
    """Limit for one response of a server."""
    pauses_s: tuple[float, ...] = (1.0, 3.0)
    """Pauses between attempts to reach a server: one attempt more than pauses."""
    most_s: float = 60.0
    """Limit for all attempts to reach a server."""


class NoticeRecord(msgspec.Struct, frozen=True):
    """One line of the study's file of notices."""

    notice: Notice
    deliveries: tuple[NoticeDelivery, ...]


def deliver(
    settings: Sequence[NoticeSettings],
    notice: Notice,
    limits: NoticeLimits | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[NoticeDelivery, ...]:
    """Send a notice to every target that wants its event; return the result of each.

    Raises nothing itself. A KeyboardInterrupt ends the deliveries that are still running.
    """
    limits = limits or NoticeLimits()
    variables = dict(os.environ if environment is None else environment)
    targets = dict.fromkeys(
        target for setting in settings if setting.wants(notice.event) for target in setting.targets
    )
    with contextlib.ExitStack() as files:
        attempts = [
            _Attempt(target, notice, limits, files.enter_context(TemporaryFile()))
            for target in targets
        ]
        with contextlib.suppress(KeyboardInterrupt):
            for attempt in attempts:
                attempt.start(variables)
            for attempt in attempts:
                attempt.wait()
        return tuple(attempt.result() for attempt in attempts)


class _Attempt:
    """The process that sends a notice to one target."""

    def __init__(
        self, target: NoticeTarget, notice: Notice, limits: NoticeLimits, output: IO[bytes]
    ) -> None:
        self._target = target
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._error = ""
        self._is_command = isinstance(target, CommandTarget)
        self._variables: dict[str, str] = {}
        if isinstance(target, CommandTarget):
            self._argv = target.argv
            self._input = text.document(notice)
            self._variables = text.variables(notice)
            self._limit_s = limits.command_s
        else:
            self._argv = (sys.executable, "-P", "-m", "benchwright.notice.send")
            request = SendRequest(target, notice, limits.answer_s, limits.pauses_s)
            self._input = msgspec.json.encode(request)
            self._limit_s = limits.most_s
        self._end_s = time.monotonic() + self._limit_s

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the process with its input on stdin."""
        with TemporaryFile() as stdin:
            stdin.write(self._input)
            stdin.seek(0)
            try:
                self._process = subprocess.Popen(
                    self._argv,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL if self._is_command else self._output,
                    stderr=self._output if self._is_command else subprocess.DEVNULL,
                    env={**environment, **self._variables},
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                self._error = f"cannot be started: {reason}"

    def wait(self) -> None:
        """Wait until the process ends or its time is over. Raises KeyboardInterrupt."""
        if self._process is not None:
            try:
                self._process.wait(max(0.0, self._end_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._error = f"stopped after {self._limit_s:g} s without an answer"

    def result(self) -> NoticeDelivery:
        """Return how the delivery ended. Ends the process if it is still running."""
        name, process = target_name(self._target), self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
            self._error = self._error or "interrupted"
        self._output.seek(0)
        output = self._output.read(_MOST_OUTPUT_BYTES)
        if self._error or process is None:
            return NoticeDelivery(name, 1, self._error)
        if self._is_command:
            return NoticeDelivery(name, 1, _exit_error(process.returncode, output))
        try:
            tries, error = msgspec.json.decode(output, type=tuple[int, str])
        except msgspec.DecodeError:
            return NoticeDelivery(name, 1, _exit_error(process.returncode, b""))
        return NoticeDelivery(name, tries, error)


def _exit_error(status: int, stderr: bytes) -> str:
    """Return why a process failed: its status and the last line of its stderr."""
    if not status:
        return ""
    what = f"signal {-status}" if status < 0 else f"exit status {status}"
    last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return text.one_line(f"ended with {what}{last and ': '}{last}", 300)


def record_notice(study: Path, notice: Notice, deliveries: Sequence[NoticeDelivery]) -> str:
    """Append a notice to the study's file; return why that failed, or an empty string.

    Decision: a file beside the journal, since a notice follows a session's end and no resume
    acts on it. It is private like the study (0600) and contains no secret.
    """
    record = NoticeRecord(notice, tuple(deliveries))
    line = visible_json(msgspec.json.encode(record).decode()).encode() + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(study / FILE, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{study / FILE}: {error.strerror}"
    return ""
