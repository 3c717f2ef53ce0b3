"""Makes caches cold: by evicting files, by dirtying memory, dropping caches, a remount or a reboot.
Counts how much of a file was in memory before and after, and says why pages cannot be dropped:
the file system has no other copy, or a process locks them.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from benchwright.core.errors import BenchError, argument_error
from benchwright.core.untrusted import open_regular
from benchwright.features.quiet.chill_remount import parse_mountinfo, remount
from benchwright.features.quiet.chill_squeeze import MemorySource, cached
from benchwright.features.quiet.chill_types import (
    CacheResidency,
    ChillAllocation,
    ChillMethod,
    ChillReport,
    ChillStop,
)
from benchwright.machine.restart import RESTART_PATIENCE_S, Runner, ask_for_restart, run_command

# Sources: proc_pid_smaps(5) (the flag `lo`), proc_pid_status(5) (VmLck), mlock(2), tmpfs(5).
# Non-goal: pages that a process only maps; the methods differ in them.

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_PROC = Path("/proc")


def file_system_in_memory(path: Path, proc: Path = _PROC) -> str:
    """Return the type of the file system of a path if memory is all that it has, else an empty
    text."""
    with contextlib.suppress(OSError, IndexError):
        number = path.stat().st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        text = (proc / "self/mountinfo").read_text(errors="surrogateescape")
        for mount in parse_mountinfo(text):
            if mount.device == device and mount.fs_type in _IN_MEMORY:
                return mount.fs_type
    return ""


def lockers(places: Iterable[Path], proc: Path = _PROC) -> tuple[str, ...]:
    """Return the processes that lock pages of any of these files, `NAME (process PID)`; without
    those that the user may not see."""
    wanted = set()
    for place in places:
        with contextlib.suppress(OSError):
            about = place.stat()
            device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
            wanted.add((device, str(about.st_ino)))
    return tuple(
        f"{name} (process {pid})"
        for pid, name in _that_lock(proc)
        if not wanted.isdisjoint(_locked_files(proc / pid))
    )


def _that_lock(proc: Path) -> Iterator[tuple[str, str]]:
    """Yield the ids and names of processes with locked pages."""
    for entry in sorted(proc.iterdir()):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            text = (entry / "status").read_text(errors="replace")
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            if fields.get("VmLck", "0").split()[0] != "0":
                yield entry.name, fields["Name"].strip()


def _locked_files(process: Path) -> Iterator[tuple[str, str]]:
    """Yield device and inode of the files of which a process has locked pages."""
    with contextlib.suppress(OSError):
        device = inode = ""
        for line in (process / "smaps").read_text(errors="replace").splitlines():
            words = line.split(None, 5)
            if words[0] == "VmFlags:":
                if "lo" in line.split():
                    yield device, inode
            elif not words[0].endswith(":") and len(words) > 4:
                device, inode = words[3], words[4]


# -- How many pages of a file are in memory, by mincore(2) -----------------------------
#
# Decision: mincore over a private mapping, called through ctypes; it reads no pages in.
# Rejected: cachestat(2), which only kernels since 6.5 have. Source: mincore(2).

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Residency(msgspec.Struct, frozen=True):
    """Pages of a file, or of the files below a directory."""

    files: int = 0
    pages: int = 0
    resident: int = 0
    unread: int = 0
    """Files that could not be opened."""

    def plus(self, other: Residency) -> Residency:
        """Return the sum of both."""
        return Residency(
            self.files + other.files,
            self.pages + other.pages,
            self.resident + other.resident,
            self.unread + other.unread,
        )


def residency(path: Path) -> Residency:
    """Return how much of a file, or of all regular files below a directory, is in memory."""
    total = Residency()
    for regular_file in _regular_files(path):
        total = total.plus(_of_file(regular_file))
    return total


def _regular_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for directory, _, names in os.walk(path):
        places = (Path(directory, name) for name in names)
        yield from (p for p in places if p.is_file() and not p.is_symlink())


def _of_file(path: Path) -> Residency:
    try:
        about = path.stat()
        # To anyone else, mincore reports each page as resident.
        if about.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return Residency(unread=1)
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            vector = _mincore(file.fileno(), size) if size else b""
    except OSError:
        return Residency(unread=1)
    return Residency(1, len(vector), sum(page & 1 for page in vector))


def _mincore(descriptor: int, size: int) -> Sequence[int]:
    """Return one byte per page; its lowest bit is set if the page is in memory."""
    vector = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # Writable, because ctypes takes addresses only of writable memory; nothing is written.
    memory = mmap.mmap(
        descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    )
    view = (ctypes.c_ubyte * size).from_buffer(memory)
    try:
        if _LIBC.mincore(ctypes.addressof(view), size, vector):
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        del view
        memory.close()
    return bytes(vector)


# --------------------------------------------------------------------------------------
# The methods of `bw chill`, with the residency of files before and after.
#
# Non-goal: deciding when to chill; the suite does that (SETUP, CLEANUP). Source: Auto-pilot
# paper, sections 3.3 and 3.5; the kernel's admin-guide/sysctl/vm.rst (drop_caches).

MOST_BYTES = 4 << 30
"""How much memory the method chill takes by default: a part of a machine that others use, too."""
SCRATCH = Path("/var/tmp")
"""Where the sparse file is made: on a disk, because a tmpfs file would occupy memory."""


MACHINE_MEMORY = MemorySource()
"""The real machine."""


class ChillRequest(msgspec.Struct, frozen=True):
    """What to chill, and how."""

    method: ChillMethod
    files: tuple[Path, ...] = ()
    """For the method files: files, and directories with all files below them."""
    mount: Path | None = None
    """For the method remount."""
    check: tuple[Path, ...] = ()
    """Files and directories whose pages are counted before and after."""
    scratch: Path = SCRATCH
    most_bytes: int = MOST_BYTES
    """For the method chill: the most memory that it takes [bytes]."""


class _ChillOutcome(msgspec.Struct, frozen=True):
    """The report of a method."""

    squeeze: ChillAllocation | None = None
    mounted: str | None = None
    kept_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def chill(request: ChillRequest, source: MemorySource = MACHINE_MEMORY) -> ChillReport:
    """Make caches cold by the requested method, and return the report.

    Raises InputError if a file to check does not exist, BenchError `chill-...` if the method
    fails.
    """
    paths = tuple(dict.fromkeys((*request.files, *request.check)))
    before = [_residency_of(path) for path in paths]
    held = cached(source)
    begin = time.monotonic_ns()
    done = _by_method(request, source)
    elapsed = time.monotonic_ns() - begin
    return ChillReport(
        request.method,
        held,
        cached(source),
        elapsed,
        squeeze=done.squeeze,
        mounted=done.mounted,
        kept_by=done.kept_by,
        checked=_checked(paths, before),
        notes=done.notes,
    )


def _residency_of(path: Path) -> Residency:
    if not path.exists():
        raise argument_error("FILE", str(path), f"{path}: no such file or directory")
    if not (path.is_file() or path.is_dir()):
        message = f"{path} is no regular file and no directory: it has no cached pages"
        raise argument_error("FILE", str(path), message)
    return residency(path)


_EVICTIONS = 3
"""How often a file is evicted: a page that another process uses at that moment stays."""


def _evict(paths: Sequence[Path]) -> None:
    """Write back and evict the pages of files; needs no right but to read them."""
    for path in paths:
        for place in _regular_files(path):
            with contextlib.suppress(OSError), open_regular(place) as file:
                os.fdatasync(file.fileno())
                for _ in range(_EVICTIONS):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _checked(paths: Sequence[Path], before: Sequence[Residency]) -> tuple[CacheResidency, ...]:
    found = ((path, was, residency(path)) for path, was in zip(paths, before, strict=True))
    return tuple(
        CacheResidency(
            str(path),
            now.files,
            now.pages,
            was.resident,
            now.resident,
            now.unread,
            only_in=file_system_in_memory(path) if now.resident else "",
            locked_by=lockers(_regular_files(path)) if now.resident else (),
        )
        for path, was, now in found
    )


def _by_method(request: ChillRequest, source: MemorySource) -> _ChillOutcome:
    match request.method:
        case ChillMethod.FILES:
            _evict(request.files)
            return _ChillOutcome()
        case ChillMethod.CHILL:
            squeeze = _squeezed(request.scratch, request.most_bytes)
            return _ChillOutcome(squeeze=squeeze)
        case ChillMethod.DROP_CACHES:
            _drop_caches(source.proc)
            return _ChillOutcome()
        case ChillMethod.REMOUNT:
            assert request.mount is not None, "the command line asks for it"
            told = remount(request.mount)
            return _ChillOutcome(mounted=told.command, kept_by=told.kept_by, notes=told.notes)
    raise AssertionError("a reboot has no report")


def _drop_caches(proc: Path) -> None:
    """Write back dirty pages, then drop pages, dentries and inodes."""
    os.sync()
    try:
        (proc / "sys/vm/drop_caches").write_text("3\n")
    except OSError as error:
        raise BenchError(
            "chill-not-permitted",
            f"cannot write {proc}/sys/vm/drop_caches: {error.strerror}",
            "run it as root, or name the files: bw chill FILE...",
        ) from None


def _squeezed(scratch: Path, most_bytes: int) -> ChillAllocation:
    """Run the child that dirties memory; return its report."""
    os.sync()
    # -P: root must not import modules from the current directory.
    module = "benchwright.features.quiet.chill_squeeze"
    words = [sys.executable, "-P", "-m", module, str(scratch), str(most_bytes)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        # Not communicate(): it would close stdin, and the child ends when its stdin closes.
        assert child.stdout is not None
        assert child.stderr is not None
        said, complaint = child.stdout.read(), child.stderr.read()
        status = child.wait()
    if status == -signal.SIGKILL:
        return ChillAllocation(0, 0, ChillStop.KILLED, 0)
    if status or not said:
        last = (complaint.decode(errors="replace").strip().splitlines() or ["?"])[-1]
        raise BenchError("chill-failed", f"chill's child ended with {status}: {last}")
    return msgspec.json.decode(said, type=ChillAllocation)


# -- Restarts the machine, and never returns -------------------------------------------
#
# Decision: the caller is a suite that wrote CHECKPOINT just before; if this returned, the
# suite would measure a machine that was not restarted. So this ignores the signals of a
# shutdown and waits for its end (`bw` itself handles them, and is resumed); it fails if the
# machine still runs.


def reboot(
    *,
    run: Runner = run_command,
    sleep: Callable[[float], None] = time.sleep,
    root: Path = Path("/"),
) -> NoReturn:
    """Ask for a restart and wait for it.

    Raises BenchError `chill-no-reboot` if the request is refused or the machine still runs
    after RESTART_PATIENCE_S.
    """
    deaf = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.signal(number, signal.SIG_IGN) for number in deaf]
    try:
        complaint = ask_for_restart(run=run, root=root)
        if not complaint:
            sleep(RESTART_PATIENCE_S)
            complaint = f"it was requested and did not begin within {RESTART_PATIENCE_S} s"
    finally:
        for number, handler in zip(deaf, before, strict=True):
            signal.signal(number, handler)
    raise BenchError(
        "chill-no-reboot", f"no restart: {complaint}", "reboot it by hand, then `bw resume`"
    )
