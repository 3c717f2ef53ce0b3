"""The sampler's client: `bw-sampler serve`, one process for a session, and `bw-sampler reduce`,
which computes the resource use of each trial from a series.

Purpose: an `Observer` that lets the sampler watch the machine and returns the series' path.
Decision: the sampler may neither delay nor end a run. It gets five seconds for an answer;
then it is killed, and later batches are not watched. Source: docs/watch-format.md.

Decision: the program that writes a series also reduces it, in a process of its own for each series,
so that a stored study is reduced like a running one, and no arithmetic on the format is written
twice. Source: docs/watch-format.md.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from benchwright.core.errors import BenchError, OperatingError
from benchwright.core.resource_use import ResourceUse
from benchwright.watch.observer import ObserverError, Watch, Windows


class SeriesError(OperatingError):
    """A series file cannot be read; the message has file, line and reason."""

    code = "series-damaged"

    def __init__(self, path: Path, line: int, message: str) -> None:
        self.path = path
        self.line = line
        super().__init__(
            f"{path}:{line}: {message} [{self.code}]\n"
            "  = the trial's results are in the journal and are not affected"
        )


class _Slices(msgspec.Struct):
    begin_ns: int
    end_ns: int
    most: int


class _Request(msgspec.Struct, omit_defaults=True):
    series: str
    windows: Windows = ()
    slices: _Slices | None = None


class _Uses(msgspec.Struct, tag="uses"):
    uses: list[ResourceUse | None]


class _Damaged(msgspec.Struct, tag="damaged"):
    line: int
    message: str


_REDUCED: msgspec.json.Decoder[_Uses | _Damaged] = msgspec.json.Decoder(_Uses | _Damaged)


_USAGE = 2
"""The exit status of the program for a command that it does not have."""


class SeriesReducer:
    """Reduces series by a sampler program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def uses(self, file: Path, path: str, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each trial of a batch, in order; None: included in an earlier one.

        `path` is the file's path relative to the study. Trials shorter than three sampling
        intervals that follow each other closely, or that lie within one interval, share a window;
        its use is returned for the first of them.
        If the series covers only part of a window, the figures describe that part, and `absent`
        reports its length; if it covers nothing, there are no figures.
        Raises OSError if the program cannot be started, BenchError if it is of another version, and
        SeriesError for a series that cannot be read.
        """
        return self._reduced(file, _Request(path, windows))

    def slices(
        self, file: Path, path: str, begin_ns: int, end_ns: int, most: int
    ) -> list[ResourceUse]:
        """Return the use of equal slices of a time, at most `most`, each of at least three
        sampling intervals: the course of one long trial. `path` and errors as for `uses`."""
        uses = self._reduced(file, _Request(path, slices=_Slices(begin_ns, end_ns, most)))
        return [use for use in uses if use is not None]

    def _reduced(self, file: Path, request: _Request) -> list[ResourceUse | None]:
        done = subprocess.run(
            [self._program, "reduce", file],
            input=msgspec.json.encode(request),
            capture_output=True,
            check=False,
            # Ctrl-C ends the trial, whose series is still reduced.
            start_new_session=True,
        )
        try:
            reply = _REDUCED.decode(done.stdout)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            text = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            if done.returncode == _USAGE:
                message = f"{self._program} cannot reduce series: {text.splitlines()[0]}"
                hint = "its version is another than that of this program: install both together"
                raise BenchError("sampler-protocol", message, hint) from None
            raise SeriesError(file, 1, f"{self._program} cannot reduce it: {text}") from None
        if isinstance(reply, _Damaged):
            raise SeriesError(file, reply.line, reply.message)
        return reply.uses


PROTOCOL = 1
CODE = "not-watched"
_LONGEST_REPLY = 1 << 20
_ENCODER = 500
"""The most of its last output that is reported [characters]."""


class WatchedSeries(msgspec.Struct, frozen=True):
    """A watched batch: the path of its series, and the sampler's report."""

    file: Path
    begin_ns: int
    """CLOCK_MONOTONIC [ns]."""
    end_ns: int
    samples: int
    cost_ns: int
    """CPU time that the sampler used [ns]."""
    lost_ns: int = 0
    """Total delay of late samples [ns]."""
    error: str = ""
    """Why the file is incomplete; empty: it is complete."""


class _WatchRequest(msgspec.Struct, tag="watch"):
    id: int
    out: str
    root_pid: int
    interval_ns: int
    copies: bool
    watcher_pids: tuple[int, ...]
    extra_pids: tuple[int, ...]


class _EndRequest(msgspec.Struct, tag="end"):
    id: int


class _Hello(msgspec.Struct, tag="hello"):
    protocol: int


class _WatchingReply(msgspec.Struct, tag="watching"):
    id: int
    begin_ns: int


class _WatchedReply(msgspec.Struct, tag="watched"):
    id: int
    samples: int
    begin_ns: int
    end_ns: int
    cost_ns: int
    lost_ns: int = 0
    error: str = ""


class _Refusal(msgspec.Struct, tag="error"):
    id: int
    message: str


_Reply = _Hello | _WatchingReply | _WatchedReply | _Refusal
_Expected = TypeVar("_Expected", _WatchingReply, _WatchedReply)


class SamplerObserver:
    """Lets the sampler watch batches; `last` describes the last one."""

    def __init__(
        self,
        program: Path,
        *,
        interval_ns: int = 100_000_000,
        copies: bool = True,
        timeout_s: float = 5.0,
        command: Sequence[str] = (),
    ) -> None:
        """`command`: how it is started; empty: the program, on this machine."""
        self.last: WatchedSeries | None = None
        self.ahead_ns = 0
        """How far CLOCK_MONOTONIC of the sampler's machine was ahead of ours when the last
        watch began, to within half of the time of an answer [ns]."""
        self._program = program
        self._command = tuple(command) or (str(program), "serve")
        self._interval_ns = interval_ns
        self._copies = copies
        self._timeout_s = timeout_s
        self._sampler: _Sampler | None = None
        self._given_up = ""
        self._id = 0
        self._file: Path | None = None

    def begin(self, watch: Watch) -> None:
        """Start watching a batch. Raises ObserverError."""
        self.last = None
        self._file = None
        sampler = self._started()
        self._id += 1
        file = watch.directory / f"{watch.stem}.jsonl.gz"
        request = _WatchRequest(
            self._id,
            str(file.absolute()),
            watch.root_pid,
            self._interval_ns,
            self._copies,
            watch.watcher_pids,
            watch.target_pids,
        )
        # Set before the request, so that `end` stops it even if an interrupt hid the answer.
        self._file = file
        asked_ns = time.monotonic_ns()
        try:
            reply = self._asked(sampler, request, _WatchingReply)
            self.ahead_ns = reply.begin_ns - (asked_ns + time.monotonic_ns()) // 2
        except ObserverError:
            self._file = None
            raise

    def end(self) -> None:
        """End the batch: its file is complete, and `last` describes it. Raises ObserverError.

        Does nothing if no batch was started.
        """
        file, self._file = self._file, None
        if file is None or self._sampler is None:
            return
        reply = self._asked(self._sampler, _EndRequest(self._id), _WatchedReply)
        self.last = WatchedSeries(
            file,
            reply.begin_ns,
            reply.end_ns,
            reply.samples,
            reply.cost_ns,
            reply.lost_ns,
            reply.error,
        )

    def close(self) -> None:
        """Stop the sampler; the series contains everything up to this point."""
        sampler, self._sampler = self._sampler, None
        self._file = None
        if sampler is not None:
            sampler.close()

    def _started(self) -> _Sampler:
        if self._given_up:
            raise ObserverError(CODE, self._given_up)
        if self._sampler is None:
            try:
                self._sampler = _Sampler(self._command, self._timeout_s)
            except OSError as error:
                raise self._lost(f"cannot start {self._program}: {error}") from None
            hello = self._reply(self._sampler, time.monotonic() + self._timeout_s)
            if not isinstance(hello, _Hello) or hello.protocol != PROTOCOL:
                raise self._lost(f"{self._program} does not speak protocol {PROTOCOL}")
        return self._sampler

    def _asked(
        self, sampler: _Sampler, request: _WatchRequest | _EndRequest, expected: type[_Expected]
    ) -> _Expected:
        deadline = time.monotonic() + self._timeout_s
        try:
            sampler.write(msgspec.json.encode(request) + b"\n")
        except OSError:
            raise self._lost("the sampler has exited") from None
        while True:
            reply = self._reply(sampler, deadline)
            if isinstance(reply, _Hello) or reply.id != request.id:
                # A late answer to a request that was interrupted.
                continue
            if isinstance(reply, _Refusal):
                raise ObserverError(CODE, f"the sampler failed: {reply.message}")
            if isinstance(reply, expected):
                return reply

    def _reply(self, sampler: _Sampler, deadline: float) -> _Reply:
        """Return the next answer. Abandons the sampler on failure and raises ObserverError."""
        try:
            return _DECODER.decode(sampler.line(deadline))
        except TimeoutError:
            raise self._lost(
                f"the sampler did not answer for {self._timeout_s:g} s and was stopped"
            ) from None
        except EOFError:
            raise self._lost("the sampler exited by itself") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._lost(f"cannot read the sampler's answer: {error}") from None

    def _lost(self, why: str) -> ObserverError:
        """Abandon the sampler for the session, and return the error with the reason."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            words = sampler.kill()
            why += f"; its last output: {words}" if words else ""
        self._given_up = why
        return ObserverError(CODE, why)


_DECODER: msgspec.json.Decoder[_Reply] = msgspec.json.Decoder(_Reply)


class _Sampler:
    """The process, with line-based requests and answers, each with a time limit."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._rest = b""
        # A memory file, not a pipe: a pipe would not be read while a trial runs.
        self._words = os.memfd_create("bw-sampler-stderr")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                # Ctrl-C must end the trial, not the sampler; bw stops the sampler.
                start_new_session=True,
            )
        except OSError:
            os.close(self._words)
            raise

    def write(self, line: bytes) -> None:
        """Write a request. Raises OSError if the sampler has exited."""
        # It fits in the pipe, which is empty: at most one request is pending.
        os.write(_pipe(self._process.stdin).fileno(), line)

    def line(self, deadline: float) -> bytes:
        """Return the next line. Raises TimeoutError, or EOFError at the end of output."""
        descriptor = _pipe(self._process.stdout).fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while b"\n" not in self._rest:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise TimeoutError
            data = os.read(descriptor, 65536)
            if not data or len(self._rest) > _LONGEST_REPLY:
                raise EOFError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        """Stop it by closing its input; kill it if it does not exit."""
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()
        self._wait()
        self.kill()

    def kill(self) -> str:
        """Kill it, and return the end of its stderr."""
        self._process.kill()
        self._wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()
        words = os.pread(self._words, _LONGEST_REPLY, 0)
        os.close(self._words)
        return words.decode(errors="replace").strip()[-_ENCODER:]

    def _wait(self) -> None:
        # A process blocked on a failed disk does not end even if killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._timeout_s)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the sampler is started with pipes"
    return pipe
