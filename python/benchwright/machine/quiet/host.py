"""The machine whose settings are changed: the one seam for files, programs, processes and
signals, and what each setting can do with them."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Protocol

import msgspec

from benchwright.core.processes import (
    Process,
    all_processes,
    ancestors_of,
    read_process,
    tree_of,
)
from benchwright.core.quiet import RequestedSetting, SettingChange

# --------------------------------------------------------------------------------------
# The machine that is put in order: the one seam for every effect of its settings.
#
# Purpose: each directory is a root that a test can replace by a simulated tree, and programs
# and signals go through functions that a test can replace. What a program is started with
# must not be the benchmark's: a daemon that `service X start` starts lives on.

_PROGRAM_LIMIT_S = 120.0
_MOST_OUTPUT_BYTES = 1 << 20
_OURS = "BW_"


class SettingRefused(Exception):
    """Why a value cannot be read or written, as a message."""


class ProgramResult(msgspec.Struct, frozen=True):
    """What a program printed."""

    status: int
    output: str


def run_program(argv: tuple[str, ...]) -> ProgramResult:
    """Run a program to its end, away from our terminal. Raises Refused.

    Its output goes to a file: a daemon that it starts may keep that for its life, and of a
    pipe we would wait for the end, and it would die of our end.
    """
    with _output() as output:
        status = _run(argv, output)
        output.seek(0)
        told = output.read(_MOST_OUTPUT_BYTES).decode(errors="replace").strip()
    return ProgramResult(status, told)


def _output() -> IO[bytes]:
    """Return a file without a name; where there is no room for one, what keeps nothing."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("r+b")


def _run(argv: tuple[str, ...], output: IO[bytes]) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment | {"LC_ALL": "C", "SYSTEMD_PAGER": ""},
            # Ctrl-C goes to the whole foreground group: it must not end a half-way stop.
            start_new_session=True,
            timeout=_PROGRAM_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise SettingRefused(
            f"{argv[0]} did not end in {_PROGRAM_LIMIT_S:g} s"
        ) from None
    except OSError as error:
        raise SettingRefused(f"{argv[0]}: {error.strerror}") from None
    return done.returncode


class Host:
    """Where the machine's files are, and how its programs and processes are reached."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        run: Callable[[tuple[str, ...]], ProgramResult] = run_program,
        kill: Callable[[int, int], None] = os.kill,
        cpuset: Path | None = None,
        superuser: bool | None = None,
    ) -> None:
        self.root = root
        self.proc = root / "proc"
        self.sys = root / "sys"
        self.run = run
        self.kill = kill
        self.cpuset = cpuset
        """The cpuset hierarchy's root; None: where the kernel has mounted it."""
        self.superuser = os.geteuid() == 0 if superuser is None else superuser
        self.own_pid = os.getpid()
        """The process whose tree is the benchmark's: it is not moved out of the way."""

    # -- files -----------------------------------------------------------------------

    def read(self, path: Path) -> str | None:
        """Return a file's text without its last newline; None when there is none."""
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip("\n")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def write(self, path: Path, text: str) -> None:
        """Write a file that exists, in one system call. Raises SettingRefused."""
        self._write(path, text, os.O_TRUNC)

    def create(self, path: Path, text: str) -> None:
        """Make a file that must not be there yet, readable by all. Raises SettingRefused."""
        self._write(path, text, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)

    def _write(self, path: Path, text: str, flags: int) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
            try:
                os.write(descriptor, (text + "\n").encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there. Raises Refused."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def make_directory(self, path: Path) -> None:
        """Make a directory (a cgroup), if it is not there. Raises Refused."""
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; return whether it no longer exists. Raises Refused."""
        try:
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise SettingRefused(f"{path}: {error.strerror}") from None
        return True

    def writable(self, path: Path) -> bool:
        """Return whether this user may write to a file."""
        return os.access(path, os.W_OK)

    def has_program(self, name: str) -> bool:
        """Return whether a program is there; a simulated machine has those it is given."""
        return self.run is not run_program or shutil.which(name) is not None

    def same_device(self, name: str, path: str) -> bool:
        """Return whether fstab's name for a device (UUID=, LABEL=, a path) means a path.

        A path does if it leads to it, or to another node of the same device.
        """
        kind, _, value = name.partition("=")
        if value and kind in ("UUID", "LABEL", "PARTUUID", "PARTLABEL"):
            name = f"/dev/disk/by-{kind.lower()}/{value.strip(chr(34))}"
        inside = (self.root / one.lstrip("/") for one in (name, path))
        first, second = (os.path.realpath(one) for one in inside)
        return first == second or _same_node(first, second)

    def glob(self, pattern: str) -> list[Path]:
        """Return the paths below the root that match, numbers in their order."""
        return sorted(self.root.glob(pattern), key=lambda path: _natural(str(path)))

    # -- processes -------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Return every process, by its id."""
        return all_processes(self.proc)

    def process(self, pid: int) -> Process | None:
        """Return one process; None when it no longer exists."""
        return read_process(pid, self.proc)

    def ancestors(self, pid: int) -> set[int]:
        """Return a process and all that it descends from."""
        return ancestors_of(pid, self.proc)

    def tree(self, pid: int) -> set[int]:
        """Return a process and all that descends from it."""
        return tree_of([pid], self.processes()) | {pid}

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal. Raises Refused."""
        try:
            self.kill(pid, number)
        except OSError as error:
            raise SettingRefused(f"process {pid}: {error.strerror}") from None

    def may_signal(self, pid: int) -> bool:
        """Return whether this user may stop a process: their own, or any for root."""
        try:
            return (
                self.superuser or (self.proc / str(pid)).stat().st_uid == os.geteuid()
            )
        except OSError:
            return False

    # -- other -----------------------------------------------------------------------

    def sync(self) -> None:
        """Write what is dirty to the disks."""
        os.sync()

    def rest(self, seconds: float) -> None:
        """Wait a little."""
        time.sleep(seconds)

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return self.read(self.proc / "sys/kernel/random/boot_id") or ""


def _same_node(first: str, second: str) -> bool:
    """Return whether two paths are of one block device, or of one file."""
    try:
        one, other = os.stat(first), os.stat(second)
    except OSError:
        return False
    if stat.S_ISBLK(one.st_mode) and stat.S_ISBLK(other.st_mode):
        return one.st_rdev == other.st_rdev
    return os.path.samestat(one, other)


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", text)
    ]


# -- Signals that wait until the machine is in a state that can be undone from ---------

_WAITING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DeferredSignals:
    """Ctrl-C, SIGTERM and SIGHUP take effect when this is left, not inside.

    Handlers and not a mask: a mask would be inherited by the daemons that a restore starts.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _WAITING:
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._seen.append(number)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for seen in dict.fromkeys(self._seen):
            signal.raise_signal(seen)


# -- What every setting can do: say what it would change, read a value, write one ------


class SettingPlan(msgspec.Struct, frozen=True):
    """What a setting would do on this machine as it is now."""

    changes: tuple[SettingChange, ...] = ()
    lacking: tuple[str, ...] = ()
    """Why some of it, or all, is unavailable."""


class Setting(Protocol):
    """One thing that is put in order; its items are changed one by one."""

    @property
    def name(self) -> str:
        """Its name in `model.quiet.SETTINGS`."""

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return what would be changed. Changes nothing. Raises Refused."""

    def now(self, host: Host) -> str:
        """Return its state for messages. Raises Refused."""

    def check(self, host: Host, change: SettingChange) -> None:
        """Refuse a change of an item that no plan of this setting could make.

        The change may be from a log: nothing of it is read or written before. Raises
        Refused.
        """

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return an item's present value; None when it no longer exists. Raises Refused."""

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Give an item a value; return a note for messages, mostly empty. Raises Refused."""


def check_item(change: SettingChange, known: re.Pattern[str]) -> None:
    """Raise Refused unless the whole item matches and no part of its path is `..`."""
    if known.fullmatch(change.item) is None or ".." in change.item.split("/"):
        raise unknown_item(change)


def unknown_item(change: SettingChange) -> SettingRefused:
    """Return the refusal of an item that a setting does not have."""
    return SettingRefused(f"{change.item!r} is not an item of {change.setting}")


def unavailable(why: str) -> SettingPlan:
    """Return the plan of a setting that is unavailable at all."""
    return SettingPlan((), (why,))
