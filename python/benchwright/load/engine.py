"""The load engine as a process: a request goes in, progress and a result come out.

Decision: the engine is a process of its own for each run (docs/decisions/0006-engine.md), and
this side only waits in a read: nothing of Python runs beside what is measured except a
line of progress a second. An interrupt is passed on, and the engine answers with what it
has; a second one ends it. Source: docs/engine-protocol.md.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from benchwright.bench.find import find_engine
from benchwright.load.places import NOWHERE, Places
from benchwright.load.request import LoadRequest
from benchwright.load.result import Answer, EngineFault, decode_line, error_of
from benchwright.model.errors import BenchError
from benchwright.model.load import LoadProgress

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 10
"""How long an engine that has answered may take to end [s]."""


def _ignored(_progress: LoadProgress) -> None:
    """Do nothing with it."""


def run_load(
    request: LoadRequest,
    *,
    progress: Callable[[LoadProgress], None] = _ignored,
    places: Places = NOWHERE,
) -> Answer:
    """Run a request to its end and return what it yielded.

    `places` says where the request's fields come from: what the engine refuses is told there.

    Raises BenchError or InputError for what the engine refuses, with the engine's exit
    status, and BenchError `engine-died` when it ends without an answer.
    """
    with conversation(request) as engine:
        for line in engine.lines():
            said = decode_line(line)
            if isinstance(said, LoadProgress):
                # After an interrupt it would tell of an interval that was cut as of a whole.
                if not engine.interrupted:
                    progress(said)
            elif isinstance(said, EngineFault):
                raise error_of(said, places)
            else:
                return said
        raise engine.died()


class Conversation:
    """One request to one engine, while it is answered."""

    def __init__(self, process: subprocess.Popen[bytes], signals: list[int]) -> None:
        self._process = process
        self._signals = signals

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt has been passed on to the engine."""
        return bool(self._signals)

    def lines(self) -> Iterator[bytes]:
        """Yield what the engine says, line by line, until it ends."""
        assert self._process.stdout is not None, "it is a pipe"
        yield from self._process.stdout

    def end(self) -> None:
        """Ask the engine to end early and answer with what it has."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def died(self) -> BenchError:
        """Return the error of an engine that ended without an answer."""
        status = self._process.wait(_PATIENCE_S)
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        return BenchError(
            "engine-died",
            f"the engine ended {how} and said nothing of a result",
            "its own words, if it had any, stand above",
        )


@contextlib.contextmanager
def conversation(request: msgspec.Struct) -> Iterator[Conversation]:
    """Begin an engine, hand it the request, pass interrupts on, and end it afterwards."""
    process = subprocess.Popen(
        [find_engine()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A terminal's interrupt reaches the engine through us only, and once.
        start_new_session=True,
    )
    with _ended(process), _passed_on(process) as signals:
        assert process.stdin is not None, "it is a pipe"
        _write(process.stdin, msgspec.json.encode(request))
        yield Conversation(process, signals)


def _write(pipe: IO[bytes], data: bytes) -> None:
    # An engine that died at once says why by its exit status: _answered tells.
    with contextlib.suppress(BrokenPipeError):
        pipe.write(data + b"\n")
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let no engine outlive its run."""
    try:
        yield
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@contextlib.contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass interrupts on to the engine; a second one ends it. Yield those seen."""
    seen: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        seen.append(number)
        # poll() would reap it inside a handler; send_signal() looks first by itself.
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL if len(seen) > 1 else number)

    previous = {
        number: signal.signal(number, pass_on)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield seen
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
