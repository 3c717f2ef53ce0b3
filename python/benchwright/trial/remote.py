"""Another host as a bench: our launcher there, over one connection, such as one of the system's
OpenSSH client.

Purpose: the server of a search, or its load generator, on another host; with the host's processes,
and its files under the paths that callers know here. Decision: the first session of the connection
runs the launcher, copied into a private directory of the host, below a shell that removes the
directory when the launcher has ended. The launcher ends everything at the end of its input
(docs/launcher-protocol.md), so the end of the connection, for whatever reason, leaves neither
processes nor files. All further calls are sessions of the same connection (ControlMaster). The
hosts of a gang are reached in another way: by steps of a job of Slurm, or by processes of this
machine; only what starts a command differs (`HostWay`). Rejected: a shell script as the launcher
(it cannot adopt daemons, so it would lose them), Python there (it may be absent), an agent that
outlives the connection. Source: ssh(1), ssh_config(5), srun(1), proc(5). docs/remote.md is the
reference for users.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.hosts import PATH, LocalProcesses, NamedServer, RemoteSettings, SlurmSteps
from benchwright.core.processes import (
    Process,
    ProcessIdentity,
    children_among,
    descendants_among,
    parse_stat,
)
from benchwright.trial.bench import BatchResult, BenchProcesses, LauncherClient
from benchwright.trial.programs import SHIPPED_HOOKS, find_engine, find_launcher, find_sampler
from benchwright.trial.protocol import RunRequest, merge_pairs
from benchwright.watch.named_servers import ServerProcesses, find_server
from benchwright.watch.observer import end_child

# -- Ways to a host ----------------------------------------------------------------------


class HostWay(Protocol):
    """Starts commands on a host."""

    program: str
    """What must be installed here."""
    environment: dict[str, str] | None
    """Of its processes here; None: that of this process."""
    cut_status: int | None
    """Exit status of a command whose connection was lost; None: it has none."""
    hint: str
    """What a user whose host cannot be reached should do."""

    def first(self, command: str) -> list[str]:
        """Return the words that run the command whose end is that of the connection."""

    def further(self, command: str) -> list[str]:
        """Return the words that run another command while the first one runs."""


class SshWay:
    """The sessions of one connection of the system's OpenSSH client (ControlMaster)."""

    program = "ssh"
    environment: dict[str, str] | None = None
    cut_status: int | None = 255

    def __init__(self, settings: RemoteSettings, private: Path) -> None:
        """`private`: an existing directory of ours, for the socket."""
        options = (SHIPPED_HOOKS / "ssh-options").read_text().split()
        own = [option.replace("SECONDS", str(settings.timeout_s)) for option in options]
        config = ["-F", settings.ssh_config] if settings.ssh_config else []
        self._words = ["ssh", *config, "-S", str(private / "connection"), *own]
        self._host = settings.host
        self.hint = f"log in once by hand: ssh {settings.host}"

    def first(self, command: str) -> list[str]:
        """Return the words that open the connection."""
        persist = ("-M", "-o", "ControlPersist=no")
        return [*self._words, *persist, "--", self._host, command]

    def further(self, command: str) -> list[str]:
        """Return the words of another session."""
        # Without its socket, ssh would connect anew, and ask a host that knows nothing of us.
        never_anew = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
        return [*self._words, *never_anew, "--", self._host, command]


class SlurmWay:
    """Steps of a job of Slurm on one of its nodes, beside each other."""

    program = "srun"
    cut_status: int | None = None
    hint = "scontrol show node prints the node's state"

    def __init__(self, job: str, host: str) -> None:
        self._words = slurm_step(job, host)
        self.environment: dict[str, str] | None = slurm_environment()

    def first(self, command: str) -> list[str]:
        """Return the words of a step."""
        return [*self._words, *_as_child(command)]

    further = first


class LocalWay:
    """Processes of this machine."""

    program = "sh"
    environment: dict[str, str] | None = None
    cut_status: int | None = None
    hint = ""

    def first(self, command: str) -> list[str]:
        """Return the words of a process."""
        return _as_child(command)

    further = first


def _as_child(command: str) -> list[str]:
    """Return the words that run a command as a child of a shell."""
    # An engine dies with the thread that started it, such as one that connects to a host.
    return ["sh", "-c", f"{command}; exit"]


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill what a `HostConnection` started, with the processes on this machine that belong to it."""
    if process.poll() is None:
        # Each has a session of its own; one that is stopped would not notice the end of its input.
        os.killpg(process.pid, signal.SIGKILL)
    end_child(process)


def slurm_step(job: str, host: str) -> list[str]:
    """Return the words that run a command as a step of a job, on one of its nodes, beside the job's
    other steps."""
    return [
        *("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1"),
        *(f"--nodelist={host}", "--mem=0", "--unbuffered", "--quiet", "--chdir=/"),
    ]


def slurm_environment() -> dict[str, str]:
    """Return an environment in which Slurm's commands do what their words say, and jobs get that of
    the user."""
    kept = ("SLURM_CONF", "SLURM_JWT")
    own = ("SLURM_", "SQUEUE_", "SCANCEL_", "SRUN_")
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(own)
    }


def way_to(settings: RemoteSettings, private: Path) -> HostWay:
    """Return the way to a host; `private`: an existing directory of ours."""
    match settings.through:
        case SlurmSteps(job):
            return SlurmWay(job, settings.host)
        case LocalProcesses():
            return LocalWay()
        case None:
            return SshWay(settings, private)


# -- The connection ----------------------------------------------------------------------

UNAVAILABLE, LOST = "remote-unavailable", "remote-lost"
_HELLO = "bw-remote"
_MOST_NOISE = 200
"""Lines that a login shell may print before our own."""
_END_S = 1.0
"""A first session ends so soon after its input."""
# One line, without a single quote or `!`: also csh and fish pass it on unchanged.
_KEEPER = (
    "umask 022; "
    'd=$(mktemp -d "{directory}/bw-remote.XXXXXX") || exit 1; '
    'chmod 755 "$d"; trap : HUP INT TERM PIPE; '
    f'echo "{_HELLO} $d $(uname -s) $(uname -m) $(getconf _NPROCESSORS_ONLN) $PATH"; '
    'read -r word; if [ "$word" = go ]; then cd /; {launcher} serve; fi; rm -rf "$d"'
)


class HostConnection:
    """A way to a host that is open, with a private directory there as long as it is."""

    def __init__(self, settings: RemoteSettings, private: Path) -> None:
        """Connect. `private`: an existing directory of ours.

        Raises BenchError `remote-unavailable`.
        """
        self.settings = settings
        self._way = way = way_to(settings, private)
        if shutil.which(way.program) is None:
            raise self.unavailable(f"there is no program {way.program} here")
        self._errors = private / "connection.err"
        self._shell: subprocess.Popen[bytes] | None = None
        self._asked = 0
        programs = settings.programs or "$d/bin"
        keeper = _KEEPER.format(
            directory=settings.directory or "${TMPDIR:-/tmp}", launcher=f'"{programs}/bw-launcher"'
        )
        self.process = self._started(way.first(f"sh -c '{keeper}'"))
        try:
            self._greet()
        except BaseException:
            self.abandon()
            raise

    def _started(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._way.environment,
                # Ctrl-C must end the trial, not the connection.
                start_new_session=True,
            )

    def _greet(self) -> None:
        settings = self.settings
        assert self.process.stdout is not None
        with self.limited() as late:
            for _ in range(_MOST_NOISE):
                line = self.process.stdout.readline().decode(errors="replace")
                if not line or line.startswith(f"{_HELLO} "):
                    break
        words = line.split(maxsplit=5)
        if len(words) < 6 or words[0] != _HELLO or not PATH.fullmatch(words[1]):
            self.process.kill()
            status = self.process.wait()
            why = self.last_words or f"{self._way.program} ended with status {status}"
            if late.is_set():
                why = f"no answer within {settings.timeout_s} s"
            raise self.unavailable(why)
        self.place, system, machine = words[1:4]
        """The private directory there."""
        self.cores = int(words[4]) if words[4].isdecimal() else 1
        self.path = words[5].strip()
        """PATH there."""
        ours = os.uname()
        if (system, machine) != (ours.sysname, ours.machine) and not settings.programs:
            why = f"it is {system} {machine}, and this machine {ours.sysname} {ours.machine}"
            hint = (
                "use a host with the architecture of this machine; for [remote]: install Benchwright there, and "
                'name the directory of bw-launcher, programs = "/DIRECTORY"'
            )
            raise self.unavailable(why, hint)

    @contextlib.contextmanager
    def limited(self) -> Iterator[threading.Event]:
        """End the connection if the context lasts longer than the time limit; yield what is set
        then."""
        late = threading.Event()

        def end() -> None:
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

        limit = threading.Timer(self.settings.timeout_s, end)
        limit.start()
        try:
            yield late
        finally:
            limit.cancel()

    @property
    def last_words(self) -> str:
        """The last line that ssh, or the launcher there, printed to stderr."""
        lines = self._errors.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @property
    def is_open(self) -> bool:
        """Whether the connection is still there."""
        return self.process.poll() is None

    def session(self, command: str) -> list[str]:
        """Return the words that run a command in another session of this connection."""
        return self._way.further(command)

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command in another session of this connection; its stdin and stdout are pipes.

        The end of the connection ends its stdin.
        """
        return self._started(self.session(command))

    def is_cut(self, status: int | None = None) -> bool:
        """Return whether a session with this exit status, or the whole connection, was cut."""
        if status is not None and status == self._way.cut_status:
            return True
        # The end of a connection is seen a little later than that of its sessions.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S / 2)
        return not self.is_open

    def abandon(self) -> None:
        """End the first session, whose host notices the end of its input."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        end_session(self.process)

    def ask(self, script: str) -> bytes:
        """Return what a script of sh prints there.

        One shell answers all scripts, so an answer takes no longer than the network. Raises
        BenchError: `remote-lost` without a connection or an answer, `remote-failed`.
        """
        if not self.is_open:
            raise self.lost()
        if self._shell is None:
            self._shell = self.start("sh")
            # What the login shell prints at its start comes before this answer.
            self._exchange(self._shell, ":")
        said, status = self._exchange(self._shell, script)
        if status:
            why = self.last_words or f"exit status {status} of {script}"
            raise BenchError("remote-failed", f"{self.settings.host}: {why}")
        return said

    def _exchange(self, shell: subprocess.Popen[bytes], script: str) -> tuple[bytes, int]:
        """Return what a script prints, and its exit status."""
        self._asked += 1
        mark = f"{_HELLO}-{os.getpid()}-{self._asked}"
        text = f"( {script} ) </dev/null; printf '\\n%s %s\\n' {mark} $?\n"
        assert shell.stdin is not None
        try:
            shell.stdin.write(text.encode())
            shell.stdin.flush()
        except OSError:
            raise self.lost() from None
        return self._answer(shell, f"\n{mark} ".encode())

    def _answer(self, shell: subprocess.Popen[bytes], mark: bytes) -> tuple[bytes, int]:
        """Return what the shell prints before the mark, and the exit status behind it."""
        assert shell.stdout is not None
        deadline = time.monotonic() + self.settings.timeout_s
        said, at = bytearray(), -1
        while at < 0 or not said.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([shell.stdout], [], [], left_s)[0]:
                raise self.lost(f"no answer within {self.settings.timeout_s} s")
            begin = max(0, len(said) - len(mark))
            if not (data := os.read(shell.stdout.fileno(), 1 << 16)):
                shell.wait()
                raise self.lost()
            said += data
            at = said.find(mark, begin) if at < 0 else at
        return bytes(said[:at]), int(said[at + len(mark) :])

    def send(self, place: str, packed: bytes) -> None:
        """Unpack a tar archive in a directory there, which is made. Raises BenchError."""
        # As root, tar would give the files to the users with the same numbers.
        command = f"mkdir -p {place} && tar -C {place} --no-same-owner -xf -"
        try:
            self._fed(command, input=packed, timeout=self.settings.timeout_s)
        except subprocess.TimeoutExpired:
            raise self.lost(f"no answer within {self.settings.timeout_s} s") from None

    def send_file(self, path: str, place: str) -> None:
        """Copy a file of this machine, of any length, to a new one there that only its user can
        read.

        Raises BenchError, and OSError for a file that cannot be read here.
        """
        with open(path, "rb") as file:
            # Without a limit of its own: ssh notices a network that is broken.
            self._fed(f"umask 077; cat >{place}", stdin=file)

    def _fed(self, command: str, **more: Any) -> None:
        """Run a command there with an input. Raises BenchError, and TimeoutExpired."""
        done = subprocess.run(
            self.session(f"sh -c '{command}'"),
            capture_output=True,
            start_new_session=True,
            env=self._way.environment,
            **more,
        )
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode and self.is_cut(done.returncode):
            raise self.lost(said)
        if done.returncode:
            raise BenchError("remote-failed", f"{self.settings.host}: {said}")

    def close(self) -> None:
        """End the sessions besides the first one."""
        if self._shell is not None:
            end_session(self._shell)

    def lost(self, why: str = "") -> BenchError:
        """Return the error for a connection that has ended, or does not answer."""
        text = why or self.last_words
        message = f"{self.settings.host}: the connection was lost" + (text and f": {text}")
        hint = "its processes there have ended; `bw resume` connects again and goes on"
        return BenchError(LOST, message, hint)

    def unavailable(self, why: str, hint: str = "") -> BenchError:
        """Return the error for a host that cannot be used."""
        message = f"{self.settings.host}: {why}"
        return BenchError(UNAVAILABLE, message, hint or self._way.hint)


# -- The bench ---------------------------------------------------------------------------

_MOST_LOG, _MOST_OUTPUT = 1 << 16, 1 << 23
"""How much of the end of a file is copied back: of a server's logs, of a generator's output."""
_BLOCK = 1 << 23
"""How much of a file is copied at a time."""
_OURS = ("PATH", "BW_STUDY")
"""Variables whose values have a meaning on this machine only."""


class RemoteBench(LauncherClient):
    """Runs commands on another host, in processes of the launcher there.

    Directories of logs are named by their path here: each has a counterpart there. What the caller
    wrote into it is there before a command runs, and what the command wrote is here after it.
    """

    def __init__(
        self,
        settings: RemoteSettings,
        files: Sequence[tuple[Path, str]],
        private: Path,
        logs: Path,
        *,
        with_engine: bool = False,
    ) -> None:
        """Connect and start the launcher.

        `files`: a path here, and its name in `here` there. `private`: an existing directory of
        ours for the connection. `logs`: an existing, empty directory for the logs of a server.
        `with_engine`: our load engine is copied too.

        Raises BenchError `remote-unavailable`, and OSError for files that cannot be read.
        """
        self.closing = contextlib.ExitStack()
        """What else has to end before the connection."""
        self.logs = logs
        self.connection = HostConnection(settings, private)
        self._own: BenchProcesses | None = None
        self._there: dict[Path, str] = {}
        self._equal: dict[Path, set[str]] = {}
        """The files of each directory of logs that are there too."""
        try:
            self._copy(files, with_engine=with_engine)
            assert self.connection.process.stdin is not None
            self.connection.process.stdin.write(b"go\n")
            self.connection.process.stdin.flush()
            with self.connection.limited():
                super().__init__(self.connection.process)
        except BaseException as error:
            self.connection.abandon()
            if isinstance(error, BenchError) and error.code != UNAVAILABLE:
                why = (
                    f"bw-launcher does not run there: {self.connection.last_words or error.message}"
                )
                raise self.connection.unavailable(why, "see docs/remote.md") from None
            raise

    def _copy(self, files: Iterable[tuple[Path, str]], *, with_engine: bool = False) -> None:
        """Copy our programs and the user's files into the private directory."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name in ("here", "state", "logs", "watched"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(folder)
            if not self.connection.settings.programs:
                tar.add(find_launcher().resolve(), "bin/bw-launcher")
                tar.add(find_sampler().resolve(), "bin/bw-sampler")
                if with_engine:
                    tar.add(find_engine().resolve(), "bin/bw-engine")
            for path, name in files:
                tar.add(path, f"here/{name}")
        self.connection.send(self.place, packed.getvalue())

    # -- places ------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The private directory there."""
        return self.connection.place

    @property
    def here(self) -> str:
        """The directory there with copies of the user's files."""
        return f"{self.place}/here"

    @property
    def sampler(self) -> list[str]:
        """The words that run the sampler there."""
        programs = self.connection.settings.programs or f"{self.place}/bin"
        return self.connection.session(f"{programs}/bw-sampler serve")

    def start_engine(self) -> subprocess.Popen[bytes]:
        """Start a load engine there; it must have been copied."""
        programs = self.connection.settings.programs or f"{self.place}/bin"
        return self.connection.start(f"{programs}/bw-engine")

    @property
    def state(self) -> str:
        """The directory there for the server's data."""
        return f"{self.place}/state"

    def there(self, logs: Path) -> str:
        """Return the counterpart of a directory of logs; make it if needed."""
        known = self._there.get(logs)
        if known is None:
            known = f"{self.place}/logs/{len(self._there)}"
            self.connection.ask(f"mkdir -p {known}")
            self._there[logs], self._equal[logs] = known, set()
        return known

    def _send_new(self, logs: Path) -> str:
        """Copy the new files of a directory of logs to its counterpart, and return that."""
        there, equal = self.there(logs), self._equal[logs]
        new = [one for one in sorted(logs.iterdir()) if one.name not in equal]
        if new := [one for one in new if one.is_file()]:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for path in new:
                    tar.add(path, path.name)
            self.connection.send(there, packed.getvalue())
            equal.update(path.name for path in new)
        return there

    def refresh(self, logs: Path, most: int = _MOST_LOG) -> None:
        """Copy the ends of the files of a directory of logs back, each at its own offset."""
        script = (
            f"cd {self.there(logs)} || exit; for f in *; do "
            'if [ -f "$f" ]; then n=$(wc -c <"$f"); echo "$((n)) $f"; '
            f'head -c "$((n))" "$f" | tail -c {most}; fi; done; exit 0'
        )
        said = io.BytesIO(self.connection.ask(script))
        while line := said.readline().decode(errors="replace"):
            size, _, name = line.rstrip("\n").partition(" ")
            data = said.read(min(int(size), most))
            self._equal[logs].add(name)
            with (logs / Path(name).name).open("ab") as file:
                file.truncate(int(size) - len(data))
                file.write(data)

    def file(self, path: str) -> bytes:
        """Return the contents of a file there."""
        return self.connection.ask(f"cat {path}")

    def blocks(self, path: str) -> Iterator[bytes]:
        """Yield the contents of a file there, of any length, in blocks. Raises BenchError."""
        for place in itertools.count():
            script = f"dd if={path} bs={_BLOCK} skip={place} count=1 2>/dev/null"
            block = self.connection.ask(script)
            if block:
                yield block
            if len(block) < _BLOCK:
                return

    # -- running -----------------------------------------------------------------------

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        """Run a batch there and return its records. Raises BenchError."""
        logs = Path(request.logs)
        own = tuple(pair for pair in request.environment if pair[0] not in _OURS)
        path = f"{self.here}:{self.connection.path}"
        there = msgspec.structs.replace(
            request, logs=self._send_new(logs), environment=merge_pairs((("PATH", path),), own)
        )
        result = super().run(there, abandoned=abandoned)
        ended_ns = time.time_ns()
        is_load = any(command.mode == "EXEC" for command in request.commands)
        self.refresh(logs, _MOST_OUTPUT if is_load else _MOST_LOG)
        # The clocks of two hosts differ.
        epochs = tuple(
            msgspec.structs.replace(epoch, started_ns=ended_ns - epoch.duration_ns)
            for epoch in result.epochs
        )
        return msgspec.structs.replace(result, epochs=epochs)

    def close(self) -> None:
        """End everything there, and the connection."""
        self.closing.close()
        self.connection.close()
        super().close()

    def _gone(self, message: str) -> BenchError:
        del message
        return self.connection.lost()

    # -- processes ---------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the host can be asked."""
        return self.connection.is_open

    @property
    def there_processes(self) -> BenchProcesses:
        """The launcher there as the root, and the processes there that are the bench's own."""
        if self._own is None:
            pid = self.hello.pid
            runner = self.process(pid)
            supervisor = () if runner is None else (runner.parent,)
            self._own = BenchProcesses(pid, (pid, *supervisor))
        return self._own

    def processes_there(self) -> list[Process]:
        """Return every process of the host. Raises BenchError `remote-lost`."""
        said = self.connection.ask("cat /proc/[0-9]*/stat 2>/dev/null; exit 0")
        found = map(parse_stat, said.decode(errors="replace").splitlines())
        return [process for process in found if process is not None]

    def process(self, pid: int) -> Process | None:
        """Return a process as it is now; None when there is none."""
        return next((one for one in self.processes_there() if one.pid == pid), None)

    def is_alive(self, identity: ProcessIdentity) -> bool:
        """Return whether that process still runs."""
        process = self.process(identity.pid)
        return process is not None and process.identity == identity and process.is_alive

    def children(self, pid: int) -> list[Process]:
        """Return the living children of a process."""
        return children_among(pid, self.processes_there())

    def descendants(self, pid: int) -> list[Process]:
        """Return the living descendants of a process."""
        return descendants_among(pid, self.processes_there())

    def signal(self, processes: Iterable[Process], number: int) -> None:
        """Send a signal to those processes that are still alive."""
        alive = {one.identity for one in self.processes_there() if one.is_alive}
        pids = [str(process.pid) for process in processes if process.identity in alive]
        if pids:
            self.connection.ask(f"kill -{number:d} {' '.join(pids)} 2>/dev/null; exit 0")

    def find(self, named: NamedServer) -> ServerProcesses:
        """Return the processes of a named server there."""
        if named.by == "pid" and named.value.startswith("/"):
            if not PATH.fullmatch(named.value):
                why = f"{named.value} has characters that a path there may not have"
                return ServerProcesses((), why, "use letters, digits and . _ - /")
            said = self.connection.ask(f"head -c 100 {named.value} 2>/dev/null; exit 0")
            word = (said.decode(errors="replace").split() or [""])[0]
            if not (word.isascii() and word.isdecimal()):
                host = self.connection.settings.host
                why = f"there is no process id in {named.value} on {host}"
                return ServerProcesses((), why, "start the server there first")
            named = NamedServer("pid", word)
        with _proc_of(self.connection, fully=named.by == "port") as proc:
            processes = find_server(named, (self.hello.pid,), proc)
        why = processes.why and f"{processes.why} on {self.connection.settings.host}"
        return msgspec.structs.replace(processes, why=why)

    def ports_in_use(self) -> set[int]:
        """Return the local ports of all TCP sockets there."""
        said = self.connection.ask("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; exit 0")
        rows = (line.split() for line in said.decode(errors="replace").splitlines())
        return {
            int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[0] != "sl"
        }

    # -- words before commands ---------------------------------------------------------

    def on_cpus(self, cpus: Sequence[int], groups: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the words that bind a command to CPUs there; empty if it needs none."""
        assert not groups, "cgroups are those of this machine"
        return ("taskset", "-c", ",".join(map(str, cpus))) if cpus else ()

    def in_background(
        self, cpus: Sequence[int], groups: Sequence[str], pid_file: Path, log: Path
    ) -> tuple[str, ...]:
        """Return the words that start a command there in the background, with its process id
        and its output in files; both are named by their paths here."""
        pid = f"{self.there(pid_file.parent)}/{pid_file.name}"
        output = f"{self.there(log.parent)}/{log.name}"
        # setsid forks; a shell's `&` would make the server ignore SIGINT.
        script = (
            f'rm -f {pid}; inner=$1; shift; setsid --fork sh -c "$inner" sh "$@" || exit; '
            f"until [ -s {pid} ]; do sleep 0.01; done"
        )
        inner = (
            f"echo $$ >{pid}.new; mv {pid}.new {pid}; "
            f'exec "$@" </dev/null >>{output}.out 2>>{output}.err'
        )
        return (*self.on_cpus(cpus, groups), "/bin/sh", "-c", script, "sh", inner)


@contextlib.contextmanager
def _proc_of(connection: HostConnection, *, fully: bool) -> Iterator[Path]:
    """Make a copy of what identifies processes in the /proc of a host; `fully`: with the
    sockets that each has open."""
    files = "/proc/[0-9]*/stat /proc/[0-9]*/cgroup /proc/net/tcp /proc/net/tcp6"
    script = (
        f'grep -H "" {files} /proc/net/udp /proc/net/udp6 2>/dev/null; '
        "ls -l /proc/[0-9]*/exe 2>/dev/null; "
        + ("ls -l /proc/[0-9]*/fd 2>/dev/null; " if fully else "")
        + "exit 0"
    )
    text = connection.ask(script).decode(errors="replace")
    with tempfile.TemporaryDirectory(prefix="bw-proc-") as directory:
        root, folder = Path(directory), ""
        for line in text.splitlines():
            if match := re.match(r"/proc/(\d+|net)/(\w+):(.*)", line):
                if match[2] == "fd":
                    folder = match[1]
                    continue
                path = root / match[1] / match[2]
                path.parent.mkdir(exist_ok=True)
                with path.open("a") as file:
                    file.write(f"{match[3]}\n")
            elif match := re.search(r" /proc/(\d+)/exe -> (.+)$", line):
                (root / match[1]).mkdir(exist_ok=True)
                (root / match[1] / "exe").symlink_to(match[2])
            elif match := re.search(r" (\d+) -> (socket:\[\d+\])$", line):
                (root / folder / "fd").mkdir(parents=True, exist_ok=True)
                (root / folder / "fd" / match[1]).symlink_to(match[2])
        yield root
