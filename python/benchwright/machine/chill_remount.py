"""Unmounts a file system and mounts it again: its pages, inodes and names are gone.

Decision: everything that can be known beforehand is checked beforehand, because half of
it (unmounted, and not mounted again) is worse than nothing; signals wait meanwhile, and
whatever fails between the two, it is mounted again. Under a loop device the
file behind it is cached too, and is dropped with it. Source: Auto-pilot paper
section 3.5; loop(4).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from benchwright.machine.chill_holders import holders, namespaces_with
from benchwright.machine.chill_mount import Mount, parse_mountinfo, remountable
from benchwright.machine.quiet.signals import Deferred
from benchwright.model.errors import BenchError

Runner = Callable[[Sequence[str]], str]
"""Runs a command; returns what it complained of, empty when it succeeded."""


def run_command(words: Sequence[str]) -> str:
    """Run a command without a shell; return its complaint, empty for success."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        # A session of its own: a Ctrl-C of the terminal would end it half-way.
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    return (
        done.stderr.strip() or f"exit status {done.returncode}"
        if done.returncode
        else ""
    )


class Remounted(msgspec.Struct, frozen=True):
    """What a remount has to tell."""

    command: str
    """That mounted it again."""
    kept_by: tuple[str, ...]
    """Who has it mounted in a mount namespace of its own: its caches stayed."""
    notes: tuple[str, ...]


class Places(msgspec.Struct, frozen=True):
    """The file trees that a remount reads."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


MACHINE = Places()
"""This machine."""


def remount(
    target: Path, *, places: Places = MACHINE, run: Runner = run_command
) -> Remounted:
    """Unmount and mount again; return what there is to tell of it.

    Raises BenchError `chill-no-mount`, `chill-not-remountable`, `chill-busy`,
    `chill-not-permitted` or `chill-unmounted` (which says how to mount it again).
    """
    text = (places.proc / "self/mountinfo").read_text(errors="surrogateescape")
    mount = remountable(parse_mountinfo(text), os.path.realpath(target))
    _refuse_busy(mount, places)
    os.sync()
    with _WholeOrTold(), _kept_loop(mount, places) as behind:
        _unmount(mount, places, run)
        try:
            kept_by = namespaces_with(mount.device, places.proc)
            notes = _dropped(behind)
        finally:
            _mount(mount, run)
    return Remounted(shlex.join(mount.command()), tuple(kept_by), tuple(notes))


class _WholeOrTold(Deferred):
    """Signals take effect when this is left, unless an error is on its way out.

    The error ends the program too, and is the only word of a file system left unmounted.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._seen.clear()
        super().__exit__(kind, error, trace)


def _unmount(mount: Mount, places: Places, run: Runner) -> None:
    complaint = run(["umount", "--", mount.target])
    if complaint:
        _refuse_busy(mount, places)
        raise BenchError("chill-busy", f"{mount.target} stays mounted: {complaint}")


def _mount(mount: Mount, run: Runner) -> None:
    complaint = run(mount.command())
    if complaint:
        raise BenchError(
            "chill-unmounted",
            f"{mount.target} is unmounted, and mounting it again failed: {complaint}",
            shlex.join(mount.command()),
        )


def _refuse_busy(mount: Mount, places: Places) -> None:
    """Raise BenchError `chill-busy` with who holds it, if somebody does."""
    who = holders(os.stat(mount.target).st_dev, places.proc)
    if who:
        raise BenchError(
            "chill-busy",
            f"{mount.target} is in use by {'; '.join(who[:5])}"
            + (f"; and {len(who) - 5} more" if len(who) > 5 else ""),
            "end them, or let them leave it; nothing was changed",
        )


@contextlib.contextmanager
def _kept_loop(mount: Mount, places: Places) -> Iterator[Path | None]:
    """Hold a loop device open, or the kernel would take it apart; yield its file."""
    name = Path(mount.source).name
    try:
        text = (places.sys / "block" / name / "loop/backing_file").read_text()
        descriptor = os.open(mount.source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield Path(text.rstrip("\n"))
    finally:
        os.close(descriptor)


def _dropped(behind: Path | None) -> list[str]:
    """Drop the cached pages of the file behind a loop device; return what to say of it."""
    if behind is None:
        return []
    try:
        descriptor = os.open(behind, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return [f"{behind} (behind the loop device) stays cached: {error.strerror}"]
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return [f"dropped what was cached of {behind}, the file behind the loop device"]
