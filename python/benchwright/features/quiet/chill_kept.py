"""Why pages of a file cannot be dropped from memory: its file system has no other copy, or a
process locks them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchwright.features.quiet.chill_remount import parse_mountinfo

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
