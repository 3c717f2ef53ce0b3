"""Cold caches: dirty memory, drop, remount, and what was in memory before and after.

Purpose: what `bw chill` does. Non-goal: deciding when, which is the suite's
(SETUP, CLEANUP). Source: Auto-pilot paper, sections 3.3 and 3.5; the kernel's
admin-guide/sysctl/vm.rst (drop_caches).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.machine.chill_memory import Source, cached
from benchwright.machine.chill_remount import remount
from benchwright.machine.chill_resident import Residency, residency
from benchwright.model.chill import Checked, Chilled, Method, Squeeze, Stopped
from benchwright.model.errors import BenchError, argument_error

SCRATCH = Path("/var/tmp")
"""Where the file of holes is made: on a disk, for memory would only hold memory."""


MACHINE = Source()
"""This machine."""


class Request(msgspec.Struct, frozen=True):
    """What was asked."""

    method: Method
    mount: Path | None = None
    """For the method remount."""
    check: tuple[Path, ...] = ()
    """Files and directories whose pages are counted before and after."""
    scratch: Path = SCRATCH


class _Done(msgspec.Struct, frozen=True):
    """What a method has to tell."""

    squeeze: Squeeze | None = None
    mounted: str | None = None
    kept_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def chill(request: Request, source: Source = MACHINE) -> Chilled:
    """Make caches cold by the method asked for, and return what came of it.

    Raises InputError for a file to check that is not there, BenchError `chill-...` for
    what could not be done.
    """
    before = [_looked_at(path) for path in request.check]
    held = cached(source)
    begin = time.monotonic_ns()
    done = _by_method(request, source)
    elapsed = time.monotonic_ns() - begin
    return Chilled(
        request.method,
        held,
        cached(source),
        elapsed,
        squeeze=done.squeeze,
        mounted=done.mounted,
        kept_by=done.kept_by,
        checked=_checked(request.check, before),
        notes=done.notes,
    )


def _looked_at(path: Path) -> Residency:
    if not path.exists():
        raise argument_error("--check", str(path), f"{path}: no such file or directory")
    return residency(path)


def _checked(paths: Sequence[Path], before: Sequence[Residency]) -> tuple[Checked, ...]:
    found = (
        (path, was, residency(path)) for path, was in zip(paths, before, strict=True)
    )
    return tuple(
        Checked(str(path), now.files, now.pages, was.resident, now.resident, now.unread)
        for path, was, now in found
    )


def _by_method(request: Request, source: Source) -> _Done:
    match request.method:
        case Method.CHILL:
            return _Done(squeeze=_squeezed(request.scratch))
        case Method.DROP_CACHES:
            _drop_caches(source.proc)
            return _Done()
        case Method.REMOUNT:
            assert request.mount is not None, "the command line asks for it"
            told = remount(request.mount)
            return _Done(mounted=told.command, kept_by=told.kept_by, notes=told.notes)
    raise AssertionError("a reboot has no report")


def _drop_caches(proc: Path) -> None:
    """Write back what is dirty, then drop pages, dentries and inodes."""
    os.sync()
    try:
        (proc / "sys/vm/drop_caches").write_text("3\n")
    except OSError as error:
        raise BenchError(
            "chill-not-permitted",
            f"cannot write {proc}/sys/vm/drop_caches: {error.strerror}",
            "run it as root, or use --method chill, which needs no root",
        ) from None


def _squeezed(scratch: Path) -> Squeeze:
    """Run the child that dirties memory; return what it did."""
    os.sync()
    # -P: what lies in the current directory is nobody's that root should run.
    module = "benchwright.machine.chill_squeeze"
    words = [sys.executable, "-P", "-m", module, str(scratch)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        # Not communicate(): it would close stdin, by which the child knows that we live.
        assert child.stdout is not None
        assert child.stderr is not None
        said, complaint = child.stdout.read(), child.stderr.read()
        status = child.wait()
    if status == -signal.SIGKILL:
        return Squeeze(0, 0, Stopped.KILLED, 0)
    if status or not said:
        last = (complaint.decode(errors="replace").strip().splitlines() or ["?"])[-1]
        raise BenchError("chill-failed", f"chill's child ended with {status}: {last}")
    return msgspec.json.decode(said, type=Squeeze)
