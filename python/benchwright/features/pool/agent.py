"""The agent of a lease: a process on the gang's first host that runs tasks, one at a time.

`python -m benchwright.features.pool.agent DIRECTORY HOSTS SECONDS`: the agent listens at
DIRECTORY/agent.sock, and its lease ends after SECONDS (0: never). Each attempt has a directory
there: the order, the study of its session, its output, the result and the verdict, which is durable
before it is sent. The controller is not needed while a task runs, and may be another process
afterwards. Between an order and its end nothing is sent or written by the agent.

Decision: one thread, which sleeps in `select`. While a task runs it wakes once a second: a wake
that comes more than `HOLE_S` late, although the thread did not wait for a CPU, shows that the whole
host or the agent was stopped (a VM that was paused, the freezer of cgroups); SIGSTOP is noticed by
SIGCONT, and by waitid for the task. An attempt with such a hole is void. Rejected: late wakes
alone, because a busy machine has them too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import msgspec

from benchwright import __version__
from benchwright.features.pool import protocol as p
from benchwright.features.pool.types import VoidReason
from benchwright.run.viewer import short_path
from benchwright.study.directory import sync_directory
from benchwright.trial.bench import end_leftovers

SOCKET = "agent.sock"
ORDER, ENDED, VERDICT, RESULT, STUDY = (
    *("order.json", "ended.json", "verdict.json"),
    *("result.tar", "study"),
)
"""Names in the directory of an attempt."""
AGENT_COMMAND = (sys.executable, "-P", "-m", "benchwright.features.pool.agent")
"""The command line of an agent; -P prevents imports from the current directory."""
TASK_COMMAND = (sys.executable, "-P", "-m", "benchwright.features.pool.task")
HOLE_S = 0.1
"""A task is void if it was stopped for longer than this."""
WAKE_S = 1.0
IDLE_S = 600.0
"""An agent without a task and without a controller ends after this time."""
GRACE_S = 5.0
"""A task that is ended gets this time for its clean-up."""
_SEND_S = 60.0
_ROOM_BYTES = 256 << 10
_SIGNALS = (signal.SIGCHLD, signal.SIGCONT, signal.SIGTERM, signal.SIGINT)


class _Running:
    """The task that runs."""

    def __init__(self, place: Path, order: p.TaskOrder) -> None:
        self.place = place
        self.order = order
        self.void: VoidReason | None = None
        self.detail = ""
        with (place / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*TASK_COMMAND, str(place)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self, void: VoidReason, detail: str) -> None:
        """End the task and everything that it started; it is void for this reason."""
        self.void, self.detail = void, detail
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()
        end_leftovers(self.order.info.options["token"])


class Agent:
    """One lease; `serve` returns at its end."""

    def __init__(self, directory: Path, hosts: tuple[str, ...], seconds: float) -> None:
        self._directory = directory
        self._hosts = hosts
        self._until_s = time.monotonic() + seconds if seconds else None
        self._selector = selectors.DefaultSelector()
        self._channels: dict[socket.socket, bytes] = {}
        self._verdicts: dict[str, p.TaskVerdict] = {}
        self._running: _Running | None = None
        self._ends = False
        self._idle_since_s = time.monotonic()
        for order in sorted(directory.glob(f"*/{ORDER}")):
            self._recover(order.parent)

    def _recover(self, place: Path) -> None:
        """Read the verdict of an attempt of an earlier agent; one without a verdict was cut short
        with it."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            text = (place / VERDICT).read_bytes()
            self._verdicts[place.name] = msgspec.json.decode(text, type=p.TaskVerdict)
            return
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            text = (place / ORDER).read_bytes()
            order = msgspec.json.decode(text, type=p.TaskOrder)
            end_leftovers(order.info.options["token"])
        self._verdicts[place.name] = p.TaskVerdict(
            id=place.name, void=VoidReason.AGENT_LOST, detail="the agent ended while the task ran"
        )

    def serve(self) -> None:
        """Serve controllers until the lease ends. Raises OSError if there can be no socket."""
        wake, written = socket.socketpair()
        for end in (wake, written):
            end.setblocking(False)
        signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: None)
        with contextlib.closing(_listener(self._directory)) as listener:
            self._selector.register(listener, selectors.EVENT_READ)
            self._selector.register(wake, selectors.EVENT_READ)
            while not self._ends:
                came = self._wait()
                for key in came:
                    if key is listener:
                        connection, _ = listener.accept()
                        connection.settimeout(_SEND_S)
                        self._channels[connection] = b""
                        self._selector.register(connection, selectors.EVENT_READ)
                    elif key is wake:
                        self._signalled(wake.recv(64))
                    else:
                        self._hear(key)
                self._check_times()
        (self._directory / SOCKET).unlink(missing_ok=True)

    def _wait(self) -> list[socket.socket]:
        """Wait for the next event, at most until the next wake; void a task that was stopped
        meanwhile."""
        if self._running is None:
            due_s = self._idle_since_s + IDLE_S
            if self._until_s is not None:
                due_s = min(due_s, self._until_s)
            patience_s = max(0.0, due_s - time.monotonic())
            events = self._selector.select(
                None if self._channels and not self._until_s else patience_s
            )
            return [key.fileobj for key, _ in events]  # type: ignore[misc]
        begun_s, waited_s = time.monotonic(), _waited_for_cpu_s()
        events = self._selector.select(WAKE_S)
        late_s = time.monotonic() - begun_s - WAKE_S
        late_s -= _waited_for_cpu_s() - waited_s
        if late_s > HOLE_S:
            self._hole(f"the host was stopped for {late_s:.1f} s")
        return [key.fileobj for key, _ in events]  # type: ignore[misc]

    def _check_times(self) -> None:
        now_s = time.monotonic()
        if self._until_s is not None and now_s >= self._until_s:
            self._end(VoidReason.LEASE_ENDED, "the lease ended while the task ran")
        if self._running is not None or self._channels:
            self._idle_since_s = now_s
        elif now_s - self._idle_since_s >= IDLE_S:
            self._ends = True

    # -- signals ------------------------------------------------------------------------

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGCONT in numbers:
            self._hole("the agent was stopped and continued (SIGCONT)")
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._end(VoidReason.PREEMPTED, "the agent received SIGTERM")
        if signal.SIGCHLD in numbers:
            self._child_changed()

    def _child_changed(self) -> None:
        running = self._running
        if running is None:
            return
        flags = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
        with contextlib.suppress(ChildProcessError):
            while (state := os.waitid(os.P_PID, running.process.pid, flags)) is not None:
                if state.si_code in (os.CLD_STOPPED, os.CLD_CONTINUED):
                    self._hole("the task was stopped (SIGSTOP)")
                    return
        if running.process.poll() is not None:
            self._finish()

    def _hole(self, detail: str) -> None:
        if self._running is not None:
            self._running.end(VoidReason.SUSPENDED, detail)
            self._finish()

    def _end(self, void: VoidReason, detail: str) -> None:
        """End the lease; a running task is void for this reason."""
        self._ends = True
        if self._running is not None:
            self._running.end(void, detail)
            self._finish()

    # -- tasks --------------------------------------------------------------------------

    def _start(self, order: p.TaskOrder) -> None:
        attempt = order.attempt.id
        place = self._directory / attempt
        if self._running is not None or attempt in self._verdicts:
            # A controller that was killed had sent the order already.
            return
        try:
            place.mkdir(mode=0o700)
            _write(place / ORDER, msgspec.json.encode(order))
            self._running = _Running(place, order)
        except OSError as error:
            self._report(failed_by(attempt, error))

    def _finish(self) -> None:
        """Make the result and the verdict of the task that has ended, and report it."""
        running, self._running = self._running, None
        assert running is not None
        end_leftovers(running.order.info.options["token"])
        place, attempt = running.place, running.order.attempt.id
        verdict = p.TaskVerdict(id=attempt, void=running.void, detail=running.detail)
        if running.void is None:
            verdict = _verdict_of(place, attempt, running.process.returncode)
            if verdict.void is VoidReason.SERVER_FAILED and _is_full(place):
                verdict = msgspec.structs.replace(verdict, void=VoidReason.DISK_FULL)
        try:
            if (place / STUDY).exists():
                with tarfile.open(place / RESULT, "w") as result:
                    result.add(place / STUDY, STUDY, filter=_collected)
                size, digest = _digest(place / RESULT)
                verdict = msgspec.structs.replace(verdict, size=size, sha256=digest)
            _write(place / VERDICT, msgspec.json.encode(verdict))
        except OSError as error:
            if verdict.void is None:
                verdict = failed_by(attempt, error)
        self._report(verdict)

    def _report(self, verdict: p.TaskVerdict) -> None:
        self._verdicts[verdict.id] = verdict
        for channel in list(self._channels):
            self._send(channel, p.TaskEnded(verdict, self._ends))

    # -- controllers --------------------------------------------------------------------

    def _hear(self, channel: socket.socket) -> None:
        try:
            data = channel.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._forget(channel)
            return
        *lines, self._channels[channel] = (self._channels[channel] + data).split(b"\n")
        for line in lines:
            try:
                question = msgspec.json.decode(line, type=p.Question)
            except msgspec.MsgspecError:
                self._forget(channel)
                return
            self._answer(channel, question)

    def _answer(self, channel: socket.socket, question: p.Question) -> None:
        match question:
            case p.AskHello():
                running = self._running
                self._send(
                    channel,
                    p.AgentHello(
                        protocol=p.PROTOCOL,
                        version=__version__,
                        pid=os.getpid(),
                        hosts=self._hosts,
                        running="" if running is None else running.order.attempt.id,
                        verdicts=tuple(self._verdicts.values()),
                    ),
                )
            case p.RunTask(order):
                self._start(order)
            case p.FetchTask(attempt):
                self._send_result(channel, attempt)
            case p.ForgetTask(attempt):
                self._remove(attempt)
            case p.EndLease():
                self._end(VoidReason.CANCELLED, "the controller ended the lease")

    def _send_result(self, channel: socket.socket, attempt: str) -> None:
        verdict = self._verdicts.get(attempt)
        size = 0 if verdict is None else verdict.size
        self._send(channel, p.TaskResult(attempt, size))
        if size:
            with contextlib.suppress(OSError):
                with (self._directory / attempt / RESULT).open("rb") as result:
                    channel.sendfile(result)
                return
            self._forget(channel)

    def _remove(self, attempt: str) -> None:
        """Remove what the controller has copied."""
        if self._verdicts.pop(attempt, None) is not None:
            shutil.rmtree(self._directory / attempt, ignore_errors=True)

    def _send(self, channel: socket.socket, answer: p.Answer) -> None:
        try:
            channel.sendall(p.line_of(answer))
        except OSError:
            self._forget(channel)

    def _forget(self, channel: socket.socket) -> None:
        if self._channels.pop(channel, None) is not None:
            self._selector.unregister(channel)
            channel.close()


def _listener(directory: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (directory / SOCKET).unlink(missing_ok=True)
    with short_path(directory) as place:
        listener.bind(f"{place}/{SOCKET}")
    (directory / SOCKET).chmod(0o600)
    listener.listen(8)
    return listener


def _verdict_of(place: Path, attempt: str, status: int) -> p.TaskVerdict:
    """Return the verdict of a task that ended by itself with this exit status."""
    try:
        text = (place / ENDED).read_bytes()
        ended = msgspec.json.decode(text, type=p.TaskVerdict)
    except (OSError, msgspec.MsgspecError):
        output = (place / "output").read_text(errors="replace").strip()
        last = output.splitlines()[-1] if output else "no output"
        detail = f"its process ended with status {status}: {last}"
        void = VoidReason.SERVER_FAILED
        return p.TaskVerdict(id=attempt, void=void, detail=detail, status=status)
    return ended


def failed_by(attempt: str, error: OSError) -> p.TaskVerdict:
    """Return the verdict of an attempt whose files could not be read or written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    void = VoidReason.DISK_FULL if full else VoidReason.SERVER_FAILED
    reason = error.strerror or str(error)
    detail = f"{error.filename}: {reason}" if error.filename else reason
    return p.TaskVerdict(id=attempt, void=void, detail=detail, status=1)


def _collected(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a file of the study; None for the text export, which the session writes itself."""
    return None if member.name == f"{STUDY}/results" else member


def _is_full(place: Path) -> bool:
    """Return whether the file system has no room for a study: a full disk has many error messages."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize < _ROOM_BYTES


def _write(path: Path, data: bytes) -> None:
    """Write a file durably: it is whole or absent after a crash."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_directory(path.parent)


def _digest(path: Path) -> tuple[int, str]:
    """Return the size of a file and its SHA-256, after its contents are durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def _waited_for_cpu_s() -> float:
    """Return how long this thread has waited for a CPU [s]; 0 if the kernel does not count it."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def main(words: list[str]) -> int:
    """Run the agent of a lease to its end."""
    directory, hosts, seconds = words
    Agent(Path(directory), tuple(hosts.split(",")), float(seconds)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
