"""Unmounts a file system and mounts it again, which drops its pages, inodes and dentries.

Also finds which mounts can be remounted, and which processes keep one busy.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.text import some_text
from benchwright.features.quiet.host import DeferredSignals
from benchwright.machine.restart import Runner, run_command

# -- The mounts, and which of them can be unmounted and mounted again ------------------
#
# Purpose: the pure part of the method remount. Decision: unmount only file systems that a
# device or a server stores (the data of a tmpfs would be lost), and only if the file system
# is mounted once: its cache lives as long as its last mount. `mount -o remount` only
# changes options and drops no cache. Source: proc_pid_mountinfo(5), mount(8).

_ESCAPED = re.compile(r"\\([0-7]{3})")
_KEPT_ELSEWHERE = ("nfs", "nfs4", "cifs", "ceph", "9p", "virtiofs")
"""Types without a device below /dev, whose data a server or the host stores."""
_NOT_GIVEN = frozenset({"seclabel"})
"""Options that the kernel reports but mount refuses."""


class RemountableMount(msgspec.Struct, frozen=True):
    """One line of mountinfo."""

    device: str
    """Major and minor number, `7:0`."""
    root: str
    """The directory of the file system that is mounted: `/`, or another for a bind mount."""
    target: str
    options: tuple[str, ...]
    """Options of this mount: `rw`, `nosuid`."""
    fs_type: str
    source: str
    super_options: tuple[str, ...]
    """Options of the file system: `errors=remount-ro`."""

    def command(self) -> list[str]:
        """Return the command that mounts it again in the same way."""
        return [
            *("mount", "-t", self.fs_type, "-o", ",".join(self._all_options())),
            *("--", self.source, self.target),
        ]

    def _all_options(self) -> list[str]:
        given = {*self.options, *self.super_options} - _NOT_GIVEN
        if "ro" in given:
            given.discard("rw")
        order = dict.fromkeys((*self.options, *self.super_options))
        return [option for option in order if option in given]


def parse_mountinfo(text: str) -> list[RemountableMount]:
    """Return the mounts of /proc/PID/mountinfo, in its order."""
    return [_parsed(line) for line in text.splitlines()]


def _parsed(line: str) -> RemountableMount:
    ours, _, theirs = line.partition(" - ")
    fields, others = ours.split(" "), theirs.split(" ")
    return RemountableMount(
        device=fields[2],
        root=_plain(fields[3]),
        target=_plain(fields[4]),
        options=tuple(fields[5].split(",")),
        fs_type=others[0],
        source=_plain(others[1]),
        super_options=tuple(others[2].split(",")) if len(others) > 2 else (),
    )


def _plain(text: str) -> str:
    """Return a field with its octal escapes decoded: `\\040` is a blank."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def remountable(mounts: Sequence[RemountableMount], target: str) -> RemountableMount:
    """Return the mount at `target`, which can be unmounted and mounted again.

    Raises BenchError `chill-no-mount` or `chill-not-remountable`.
    """
    here = [mount for mount in mounts if mount.target == target]
    if not here:
        raise BenchError(
            "chill-no-mount",
            f"nothing is mounted at {target}",
            "give the directory that a file system is mounted at (findmnt)",
        )
    mount = here[-1]
    reason = _reason_against(mount, mounts, len(here))
    if reason:
        raise BenchError(
            "chill-not-remountable",
            f"{target} is not unmounted: {reason}",
            "use --method drop-caches or chill, or another file system",
        )
    return mount


def _reason_against(
    mount: RemountableMount, mounts: Sequence[RemountableMount], layers: int
) -> str:
    others = [m for m in mounts if m.device == mount.device and m is not mount]
    below = [m for m in mounts if m.target.startswith(mount.target.rstrip("/") + "/")]
    if mount.target == "/":
        return "the system runs from it"
    if layers > 1:
        return f"{layers} file systems are mounted there, one over the other"
    if below:
        return f"{below[0].target} is mounted below it"
    if others:
        return f"the same file system is also at {others[0].target}, and stays cached"
    if mount.root != "/" and mount.fs_type != "btrfs":
        return f"it shows only {mount.root} of its file system (a bind mount)"
    kept = mount.source.startswith("/dev/") or mount.fs_type in _KEPT_ELSEWHERE
    if not kept or mount.fs_type.startswith("fuse"):
        return f"a {mount.fs_type} from {mount.source} could not be mounted as it was"
    return ""


# -- Processes that keep a file system busy: by a directory, open file or mapping ------
#
# Reports the same as `fuser -m`, which need not be installed. Source: proc(5), fuser(1).

_LINKS = ("cwd", "root", "exe")


def holders(device: int, proc: Path = Path("/proc")) -> list[str]:
    """Return `NAME (PID): WHAT` for each process that keeps a device busy.

    `device` is st_dev of the mounted directory. Processes that this user may not inspect
    are omitted.
    """
    found = ((entry, _held(entry, device)) for entry in _processes(proc))
    return [f"{_name(e)} ({e.name}): {what}" for e, what in found if what]


def namespaces_with(device: str, proc: Path = Path("/proc")) -> list[str]:
    """Return `NAME (PID)` for each mount namespace that has a device (`7:0`) mounted.

    Each namespace is shown by one of its processes. Processes that this user may not inspect
    are omitted.
    """
    found: dict[str, str] = {}
    for entry in _processes(proc):
        with contextlib.suppress(OSError):
            space = os.readlink(entry / "ns/mnt")
            if space not in found:
                text = (entry / "mountinfo").read_text(errors="surrogateescape")
                has = any(m.device == device for m in parse_mountinfo(text))
                found[space] = f"{_name(entry)} ({entry.name})" if has else ""
    return [who for who in found.values() if who]


def _processes(proc: Path) -> list[Path]:
    entries = (entry for entry in proc.iterdir() if entry.name.isdecimal())
    return sorted(entries, key=lambda entry: int(entry.name))


def _held(entry: Path, device: int) -> str:
    """Return how a process keeps a device busy: by a link, an open or a mapped file; else ''."""
    links = [entry / name for name in _LINKS]
    with contextlib.suppress(OSError):
        links += sorted((entry / "fd").iterdir())
    for link in links:
        with contextlib.suppress(OSError):
            if os.stat(link).st_dev == device:
                return f"{link.name if link.name in _LINKS else 'open'} {os.readlink(link)}"
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}"
    with contextlib.suppress(OSError):
        for line in (entry / "maps").read_text(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if fields[3] == wanted and fields[4] != "0":
                return f"mapped {fields[5] if len(fields) > 5 else fields[4]}"
    return ""


def _name(entry: Path) -> str:
    try:
        return (entry / "comm").read_text(errors="replace").strip()
    except OSError:
        return "?"


# --------------------------------------------------------------------------------------
# The remount.
#
# Decision: check everything before the unmount, because a file system left unmounted is
# worse than no remount. Signals are deferred in between, and after any failure the file
# system is mounted again. The file behind a loop device is cached too; its pages are
# dropped as well. Source: Auto-pilot paper, section 3.5; loop(4).


class Remount(msgspec.Struct, frozen=True):
    """The report of a remount."""

    command: str
    """The command that mounted the file system again."""
    kept_by: tuple[str, ...]
    """Processes of other mount namespaces that have it mounted: its caches stayed."""
    notes: tuple[str, ...]


class RemountRoots(msgspec.Struct, frozen=True):
    """The file trees that a remount reads."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


MACHINE_ROOTS = RemountRoots()
"""The real machine."""


def remount(
    target: Path, *, places: RemountRoots = MACHINE_ROOTS, run: Runner = run_command
) -> Remount:
    """Unmount and mount again; return the report.

    Raises BenchError `chill-no-mount`, `chill-not-remountable`, `chill-busy`,
    `chill-not-permitted` or `chill-unmounted` (which says how to mount it again).
    """
    text = (places.proc / "self/mountinfo").read_text(errors="surrogateescape")
    mount = remountable(parse_mountinfo(text), os.path.realpath(target))
    _refuse_busy(mount, places)
    os.sync()
    with _DeferredUnlessFailed(), _kept_loop(mount, places) as behind:
        _unmount(mount, places, run)
        try:
            kept_by = namespaces_with(mount.device, places.proc)
            notes = _dropped(behind)
        finally:
            _mount(mount, run)
    return Remount(shlex.join(mount.command()), tuple(kept_by), tuple(notes))


class _DeferredUnlessFailed(DeferredSignals):
    """Deferred signals take effect on leaving, unless an error is being raised.

    The error ends the program as well, and only its message reports an unmounted file system.
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


def _unmount(mount: RemountableMount, places: RemountRoots, run: Runner) -> None:
    complaint = run(["umount", "--", mount.target])
    if complaint:
        _refuse_busy(mount, places)
        raise BenchError("chill-busy", f"{mount.target} stays mounted: {complaint}")


def _mount(mount: RemountableMount, run: Runner) -> None:
    complaint = run(mount.command())
    if complaint:
        raise BenchError(
            "chill-unmounted",
            f"{mount.target} is unmounted, and mounting it again failed: {complaint}",
            shlex.join(mount.command()),
        )


def _refuse_busy(mount: RemountableMount, places: RemountRoots) -> None:
    """Raise BenchError `chill-busy` with the processes that keep it busy, if there are any."""
    who = holders(os.stat(mount.target).st_dev, places.proc)
    if who:
        raise BenchError(
            "chill-busy",
            f"{mount.target} is in use by {some_text(who, 5, '; ')}",
            "stop them, or make them close their files; nothing was changed",
        )


@contextlib.contextmanager
def _kept_loop(mount: RemountableMount, places: RemountRoots) -> Iterator[Path | None]:
    """Hold a loop device open, so that the kernel does not detach it; yield its file."""
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
    """Drop the cached pages of the file behind a loop device; return notes for the report."""
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
