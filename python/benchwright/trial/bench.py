"""Where trials run: the port to a bench, this host as a bench, and leftovers of a crash."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Protocol

import msgspec

from benchwright.core import SESSION_TOKEN
from benchwright.core.errors import BenchError
from benchwright.core.observation import CpuProfile
from benchwright.core.processes import PROC, is_stopped, process_ids
from benchwright.core.resource_use import ResourceUse
from benchwright.trial.programs import find_launcher
from benchwright.trial.protocol import (
    BatchDone,
    EpochRecord,
    InterruptRequest,
    LauncherHello,
    LauncherReply,
    RequestRefused,
    RunRequest,
)

# -- The port to a bench: what a session needs from a place where trials run -----------


class BatchResult(msgspec.Struct, frozen=True):
    """The records of one request, in order, and why it ended."""

    epochs: tuple[EpochRecord, ...]
    reason: str
    """`complete`, `budget`, `failed` or `interrupted`."""
    uses: tuple[tuple[int, ResourceUse], ...] = ()
    """Use of the machine's resources, if they were sampled: (epoch, use)."""
    profiles: tuple[tuple[int, CpuProfile], ...] = ()
    """CPU profiles, if they were requested: (epoch, profile)."""


class BenchProcesses(msgspec.Struct, frozen=True):
    """The processes that make up a bench on this machine."""

    root: int
    """The ancestor of every process of a trial."""
    own: tuple[int, ...]
    """Processes of the bench itself; their CPU time counts as no load."""


class Bench(Protocol):
    """A place where trials run."""

    @property
    def processes(self) -> BenchProcesses | None:
        """The bench's processes; None if they are not on this machine."""

    def run(self, request: RunRequest, *, abandoned: Callable[[], bool] = ...) -> BatchResult:
        """Run a batch and return its records; do not start if `abandoned()` is true.

        Raises BenchError.
        """

    def interrupt(self, *, cleanup: bool) -> None:
        """End what is running now, if anything; safe to call in a signal handler."""

    def close(self) -> None:
        """End everything that the bench started."""


# --------------------------------------------------------------------------------------
# Ends processes that a crashed session left running; their environment has its token.
#
# The launcher ends everything when it or `bw` dies (docs/launcher-protocol.md). This code
# covers the case that all of them were killed at the same moment, or before the launcher
# could act. Source: proc(5), /proc/PID/environ.


def leftover_processes(token: str) -> list[int]:
    """Return the process ids whose environment carries the session's token."""
    wanted = f"{SESSION_TOKEN}={token}".encode()
    found = []
    for pid in process_ids():
        with contextlib.suppress(OSError):
            environment = (PROC / str(pid) / "environ").read_bytes()
            if wanted in environment.split(b"\0") and pid != os.getpid():
                found.append(pid)
    return found


def end_leftovers(token: str) -> int:
    """Kill all processes with the token until none is left; return how many there were."""
    ended: set[int] = set()
    for _attempt in range(100):
        alive = leftover_processes(token)
        if not alive:
            break
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
                ended.add(process)
    return len(ended)


# -- This host: the client of the Rust launcher ----------------------------------------
#
# Purpose: one `bw-launcher serve` for a session. Python only writes a request and reads
# the batch of records, so no Python code runs between two trials of a batch.
# Decision: pipes and JSON lines; at one batch a second a socket or shared memory gained
# nothing. Source: docs/launcher-protocol.md.

LAUNCHER_PROTOCOL = 1
_WAKE_S = 2.0
"""A launcher that has not ended by then gets SIGCONT, in case it was stopped [s]."""
_INSIST_S = 15.0
"""After a second interrupt a launcher that does not respond in this time is killed [s]."""
_LAST_S = 75.0
"""At the end, a launcher that has not ended is killed: its supervisor gives trials 60 s [s]."""


_SILENCE_S = 5.0
"""After so long without a record, bw looks whether the launcher is stopped [s]."""


def _never() -> bool:
    return False


def _unsaid(_text: str) -> None:
    """Print nothing."""


class LauncherClient:
    """Runs trials in processes of a launcher, which may be on another host."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """`process`: the launcher, or the connection to it; its stdin and stdout are pipes."""
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[LauncherReply] = msgspec.json.Decoder(LauncherReply)
        self._next_id = 1
        self._running = False
        self._sending = False
        self._pending: list[InterruptRequest] = []
        self._forced = False
        self._process = process
        self._received = bytearray()
        """What arrived after the last whole line."""
        self.warn: Callable[[str], None] = _unsaid
        """Prints what a user has to know while a batch runs."""
        self._greeted = False
        """Whether the launcher has started."""
        self.hello = self._read_hello()
        self._greeted = True

    @property
    def processes(self) -> BenchProcesses | None:
        """None: the processes may be on another host."""
        return None

    def run(self, request: RunRequest, *, abandoned: Callable[[], bool] = _never) -> BatchResult:
        """Run a batch and return its records. Raises BenchError."""
        request = msgspec.structs.replace(request, id=self._next_id)
        self._next_id += 1
        # From here on, the interrupt of a signal is queued behind the request; `abandoned`
        # reports one that came earlier. So none is lost between the two.
        self._running = self._sending = True
        try:
            if abandoned():
                return BatchResult((), "interrupted")
            self._send(request)
            return self._collect(request)
        except BenchError:
            if self._forced:
                return BatchResult((), "interrupted")
            raise
        finally:
            self._running = self._sending = False
            self._pending.clear()

    def _collect(self, request: RunRequest) -> BatchResult:
        epochs: list[EpochRecord] = []
        while True:
            reply = self._read()
            match reply:
                case EpochRecord():
                    epochs.append(reply)
                case BatchDone(id=request.id):
                    return BatchResult(tuple(epochs), reply.reason)
                case RequestRefused():
                    raise BenchError("launcher-refused", reply.message)
                case _:
                    raise BenchError(
                        "launcher-protocol", f"unexpected reply from the launcher: {reply}"
                    )

    def interrupt(self, *, cleanup: bool) -> None:
        """End what is running now; with `cleanup`, still run its CLEANUP."""
        if not self._running:
            return
        if not cleanup:
            wait = threading.Thread(target=self._insist, args=(self._next_id,))
            wait.daemon = True
            wait.start()
        message = InterruptRequest(cleanup)
        if self._sending:
            # A signal arrived while a request was being written: send the message after it.
            self._pending.append(message)
            return
        with contextlib.suppress(BenchError):
            self._send(message)

    def close(self) -> None:
        """End everything that the launcher started, and the launcher."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        """Wait until the supervisor has ended; continue a launcher that was stopped.

        A launcher that does not end is killed after `_LAST_S`, or at Ctrl-C.
        """
        end = time.monotonic() + _LAST_S
        try:
            while time.monotonic() < end:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_WAKE_S)
                    return
                self._signal(signal.SIGCONT)
        except KeyboardInterrupt:
            self._signal(signal.SIGKILL)
            raise
        self._signal(signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _insist(self, request: int) -> None:
        """End the launcher if it does not answer a second interrupt of this request."""

        def ends_within(patience_s: float) -> bool:
            end = time.monotonic() + patience_s
            while self._running and self._next_id == request:
                if time.monotonic() >= end:
                    return False
                time.sleep(0.05)
            return True

        if ends_within(_WAKE_S):
            return
        self._signal(signal.SIGCONT)
        if ends_within(_INSIST_S):
            return
        # The supervisor ends what the runner leaves.
        self._forced = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the runner; continue the supervisor, which has to act next."""
        self._signal_runner(number)
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def _signal_runner(self, number: signal.Signals) -> None:
        """Signal the launcher's runner, where it is not our child; here the connection to it."""
        if number == signal.SIGKILL:
            self._process.kill()

    def _send(self, message: RunRequest | InterruptRequest) -> None:
        self._sending = True
        try:
            self._write(self._line(message))
            while self._pending:
                self._write(self._line(self._pending.pop()))
        except (OSError, ValueError) as error:
            raise self._gone(f"the launcher is gone: {error}") from None
        finally:
            self._sending = False

    def _write(self, line: bytes) -> None:
        descriptor = _opened_pipe(self._process.stdin).fileno()
        while line:
            line = line[os.write(descriptor, line) :]

    def _line(self, message: RunRequest | InterruptRequest) -> bytes:
        return self._encoder.encode(message) + b"\n"

    def _read(self) -> LauncherReply:
        try:
            return self._decoder.decode(self._line_read())
        except msgspec.MsgspecError as error:
            raise BenchError(
                "launcher-protocol", f"cannot read the launcher's reply: {error}"
            ) from None

    def _line_read(self) -> bytes:
        """Return the launcher's next line. Raises BenchError if it has ended."""
        descriptor = _opened_pipe(self._process.stdout).fileno()
        readable = select.poll()
        readable.register(descriptor, select.POLLIN)
        # Only new bytes are searched, because a record can be long.
        end = self._received.find(b"\n")
        while end < 0:
            if not readable.poll(_SILENCE_S * 1000):
                self._is_silent()
                continue
            data = os.read(descriptor, 1 << 16)
            if not data:
                status = self._process.wait()
                raise self._gone(f"the launcher ended in the middle of a batch (status {status})")
            found = data.find(b"\n")
            end = len(self._received) + found if found >= 0 else -1
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _is_silent(self) -> None:
        """Report a launcher that cannot answer, where its process is known."""

    def _gone(self, message: str) -> BenchError:
        """Return the error for a launcher that has ended."""
        return BenchError(
            "launcher-gone",
            message,
            "if the benchmark kills its parent process ($PPID), that was the launcher; the "
            "study is intact: `bw resume` goes on from the last finished trial"
            if self._greeted
            else "it has run nothing; its own message, if any, is above",
        )

    def _read_hello(self) -> LauncherHello:
        reply = self._read()
        if not isinstance(reply, LauncherHello) or reply.protocol != LAUNCHER_PROTOCOL:
            raise BenchError(
                "launcher-protocol",
                f"the launcher does not speak protocol {LAUNCHER_PROTOCOL}: {reply}",
                "rebuild and install both parts together: `make setup`",
            )
        return reply


class LocalBench(LauncherClient):
    """Runs trials on this host, in processes of the launcher."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        super().__init__(
            subprocess.Popen(
                [find_launcher(), "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                close_fds=True,
            )
        )
        self._worker = os.pidfd_open(self.hello.pid)
        self._stopped = False
        """Whether it was reported that the runner is stopped."""

    @property
    def processes(self) -> BenchProcesses:
        """The launcher's runner as root; its supervisor and this process as the bench's own."""
        return BenchProcesses(self.hello.pid, (os.getpid(), self._process.pid))

    @property
    def all_processes(self) -> BenchProcesses:
        """Like `processes`, if bw itself starts the measured program (a load engine)."""
        own = (os.getpid(), self._process.pid, self.hello.pid)
        return BenchProcesses(os.getpid(), own)

    def close(self) -> None:
        """End everything that the launcher started, and the launcher."""
        super().close()
        os.close(self._worker)

    def _signal_runner(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._worker, number)

    def _is_silent(self) -> None:
        runner = self.hello.pid
        stopped = is_stopped(runner)
        if stopped and not self._stopped:
            self.warn(
                f"bw: the launcher (process {runner}) was stopped: bw waits until it continues "
                f"(kill -CONT {runner}), and repeats the trial; Ctrl-C twice ends it"
            )
        self._stopped = stopped


def _opened_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the launcher is started with pipes"
    return pipe
