"""Programs that are asked while files are read: begun early, answered in time or absent.

Purpose: the few facts that no file tells (`git status`, `systemctl list-units`). Decision:
begun first and collected last, so that they cost a capture little; what is not ready in
time is ended and said to be absent. Each gets an empty environment but for PATH, no input, no
terminal and the C locale.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, Protocol

_MOST_BYTES = 1 << 20


class Asked(NamedTuple):
    """What a program answered, or why there is no answer."""

    text: str | None
    absent: str = ""
    source: str = ""


class Pending(Protocol):
    """A program that was begun."""

    def answer(self, deadline_ns: int) -> Asked:
        """Return its answer if it ended by then (CLOCK_MONOTONIC), and end it if not."""


Begin = Callable[[Sequence[str], str], Pending]
"""(words, directory) -> the program, begun. Never raises for a program that is not there."""


def begin(words: Sequence[str], directory: str) -> Pending:
    """Begin a program in a directory."""
    # A file, not a pipe: nobody reads while it runs, and a full pipe would hold it up.
    output = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            list(words),
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        output.close()
        return _NotBegun(words[0], error)
    return _Begun(words[0], process, output)


class _NotBegun:
    """A program that could not be started."""

    def __init__(self, name: str, error: OSError) -> None:
        missing = isinstance(error, FileNotFoundError)
        reason = "is not installed" if missing else f"cannot be run: {error.strerror}"
        self._asked = Asked(None, f"{name} {reason}", name)

    def answer(self, deadline_ns: int) -> Asked:  # noqa: ARG002
        """Return why there is no answer."""
        return self._asked


class _Begun:
    """A program that runs."""

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        output: IO[bytes],
    ) -> None:
        self._name = name
        self._process = process
        self._output = output

    def answer(self, deadline_ns: int) -> Asked:
        """Return what it wrote, or end it."""
        left_s = max(0.0, (deadline_ns - time.monotonic_ns()) / 1e9)
        with self._output:
            try:
                status = self._process.wait(left_s)
            except subprocess.TimeoutExpired:
                self._end()
                return Asked(None, f"{self._name} took too long", self._name)
            if status:
                reason = f"{self._name} ended with status {status}"
                return Asked(None, reason, self._name)
            self._output.seek(0)
            text = self._output.read(_MOST_BYTES).decode(errors="replace")
            return Asked(text, "", self._name)

    def _end(self) -> None:
        # Its own session, so its children end with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
