"""Access to the machine whose settings are changed: files, programs, processes, signals.

Also the protocol that every setting implements, and signals deferred during changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

import msgspec

from benchwright.core.processes import (
    Process,
    all_processes,
    ancestors_of,
    read_process,
    stop_signals,
    tree_of,
)
from benchwright.features.quiet.types import RequestedSetting, SettingChange

# --------------------------------------------------------------------------------------
# The machine: the one seam for every effect of its settings.
#
# Purpose: a test can replace the root directories by a simulated tree, and the functions that
# run programs and send signals. A program must not inherit the benchmark's terminal and
# environment: a daemon that `service X start` starts outlives the benchmark.

_PROGRAM_LIMIT_S = 120.0
_MOST_OUTPUT_BYTES = 1 << 20
_OURS = "BW_"


class SettingRefused(Exception):
    """A value cannot be read or written; the message says why."""


class ProgramResult(msgspec.Struct, frozen=True):
    """The exit status of a program and what it printed."""

    status: int
    output: str


def run_program(argv: tuple[str, ...]) -> ProgramResult:
    """Run a program to its end, without our terminal. Raises SettingRefused.

    Its output goes to a file. A daemon that it starts may keep the output open: with a pipe,
    we would wait for the daemon, and the daemon would get SIGPIPE after our end. The file is in
    memory: what a program says of a full disk must not be lost there.
    """
    with open(os.memfd_create("output"), "w+b") as output:
        status = _run(argv, output)
        output.seek(0)
        told = output.read(_MOST_OUTPUT_BYTES).decode(errors="replace").strip()
    return ProgramResult(status, told)


def _run(argv: tuple[str, ...], output: IO[bytes]) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment | {"LC_ALL": "C", "SYSTEMD_PAGER": ""},
            # Ctrl-C reaches the whole foreground group: it must not interrupt `service stop`.
            start_new_session=True,
            timeout=_PROGRAM_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise SettingRefused(f"{argv[0]} did not end in {_PROGRAM_LIMIT_S:g} s") from None
    except OSError as error:
        raise SettingRefused(f"{argv[0]}: {error.strerror}") from None
    return done.returncode


class Host:
    """The machine's files, programs and processes."""

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
        """The mount point of the cpuset hierarchy; None: as the kernel reports it."""
        self.superuser = os.geteuid() == 0 if superuser is None else superuser
        self.own_pid = os.getpid()
        """The root of the benchmark's process tree, which isolation does not move away."""

    # -- files -----------------------------------------------------------------------

    def read(self, path: Path) -> str | None:
        """Return a file's text without newlines at its ends; None if there is no such file."""
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
        """Make a new file, readable by all. Raises SettingRefused if it exists."""
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
        """Remove a file if it exists. Raises SettingRefused."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def make_directory(self, path: Path) -> None:
        """Make a directory (a cgroup) if it does not exist. Raises SettingRefused."""
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; return whether it no longer exists. Raises SettingRefused."""
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
        """Return whether a program is in PATH; a simulated machine has every program."""
        return self.run is not run_program or shutil.which(name) is not None

    def same_device(self, name: str, path: str) -> bool:
        """Return whether fstab's name for a device (UUID=, LABEL=, a path) refers to `path`.

        It does if both lead to the same file, or to two nodes of one device.
        """
        kind, _, value = name.partition("=")
        if value and kind in ("UUID", "LABEL", "PARTUUID", "PARTLABEL"):
            name = f"/dev/disk/by-{kind.lower()}/{value.strip(chr(34))}"
        inside = (self.root / one.lstrip("/") for one in (name, path))
        first, second = (os.path.realpath(one) for one in inside)
        return first == second or _same_node(first, second)

    def glob(self, pattern: str) -> list[Path]:
        """Return the paths below the root that match, in natural order (cpu9, cpu10)."""
        return sorted(self.root.glob(pattern), key=lambda path: _natural(str(path)))

    # -- processes -------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Return all processes."""
        return all_processes(self.proc)

    def process(self, pid: int) -> Process | None:
        """Return one process; None when it no longer exists."""
        return read_process(pid, self.proc)

    def ancestors(self, pid: int) -> set[int]:
        """Return a process and all its ancestors."""
        return ancestors_of(pid, self.proc)

    def tree(self, pid: int) -> set[int]:
        """Return a process and all its descendants."""
        return tree_of([pid], self.processes()) | {pid}

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal. Raises SettingRefused."""
        try:
            self.kill(pid, number)
        except OSError as error:
            raise SettingRefused(f"process {pid}: {error.strerror}") from None

    def may_signal(self, pid: int) -> bool:
        """Return whether this user may stop a process: root any, others their own."""
        try:
            return self.superuser or (self.proc / str(pid)).stat().st_uid == os.geteuid()
        except OSError:
            return False

    # -- other -----------------------------------------------------------------------

    def sync(self) -> None:
        """Write dirty pages to the disks."""
        os.sync()

    def sync_file_system(self, path: Path) -> None:
        """Write the dirty pages of the file system that has this path. Raises SettingRefused."""
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise SettingRefused(f"{path}: {error.strerror}") from None
        try:
            if libc.syncfs(descriptor):
                why = os.strerror(ctypes.get_errno())
                raise SettingRefused(f"{path} cannot be written back: {why}")
        finally:
            os.close(descriptor)

    def rest(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return self.read(self.proc / "sys/kernel/random/boot_id") or ""


def _same_node(first: str, second: str) -> bool:
    """Return whether two paths are the same block device or the same file."""
    try:
        one, other = os.stat(first), os.stat(second)
    except OSError:
        return False
    if stat.S_ISBLK(one.st_mode) and stat.S_ISBLK(other.st_mode):
        return one.st_rdev == other.st_rdev
    return os.path.samestat(one, other)


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)
    ]


# -- Signals are deferred until the machine is in a state that can be restored ---------


class DeferredSignals:
    """A context manager that delays the stop signals until it is left.

    Handlers, not a signal mask: daemons that a restore starts would inherit a mask.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._deferring = contextlib.ExitStack()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._deferring.enter_context(stop_signals(self._seen.append))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._deferring.close()
        for seen in dict.fromkeys(self._seen):
            signal.raise_signal(seen)


# -- The protocol of a setting: plan changes, check, read and write values -------------


class SettingPlan(msgspec.Struct, frozen=True):
    """The changes that a setting would make on this machine now."""

    changes: tuple[SettingChange, ...] = ()
    lacking: tuple[str, ...] = ()
    """Why some of the setting, or all of it, is unavailable."""


class Setting(Protocol):
    """One thing that `bw quiet` can change; its items are changed one by one."""

    @property
    def name(self) -> str:
        """The name in `core.quiet.SETTINGS`."""

    def plan(self, host: Host, wish: RequestedSetting) -> SettingPlan:
        """Return the changes that would be made; make none. Raises SettingRefused."""

    def now(self, host: Host) -> str:
        """Return the present state for messages. Raises SettingRefused."""

    def check(self, host: Host, change: SettingChange) -> None:
        """Raise SettingRefused for an item that no plan of this setting could contain.

        The change may come from a log: it is checked before its item is read or written.
        """

    def read(self, host: Host, change: SettingChange) -> str | None:
        """Return an item's present value; None when it no longer exists. Raises SettingRefused."""

    def write(self, host: Host, change: SettingChange, value: str) -> str:
        """Write an item's value; return a note for messages or an empty text.

        Raises SettingRefused.
        """


def check_item(change: SettingChange, known: re.Pattern[str]) -> None:
    """Raise SettingRefused unless the whole item matches and no part of its path is `..`."""
    if known.fullmatch(change.item) is None or ".." in change.item.split("/"):
        raise unknown_item(change)


def unknown_item(change: SettingChange) -> SettingRefused:
    """Return the exception for an item that a setting does not have."""
    return SettingRefused(f"{change.item!r} is not an item of {change.setting}")


def unavailable(why: str) -> SettingPlan:
    """Return the plan of a setting that is entirely unavailable."""
    return SettingPlan((), (why,))
