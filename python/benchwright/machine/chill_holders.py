"""Who holds a file system: processes with a directory, file or mapping in it.

Source: proc(5); what fuser(1) -m tells, which need not be installed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from benchwright.machine.chill_mount import parse_mountinfo

_LINKS = ("cwd", "root", "exe")


def holders(device: int, proc: Path = Path("/proc")) -> list[str]:
    """Return `NAME (PID): WHAT` for each process that holds something of a device.

    `device` is st_dev of the mounted directory. Processes that may not be looked at are
    left out.
    """
    found = ((entry, _held(entry, device)) for entry in _processes(proc))
    return [f"{_name(e)} ({e.name}): {what}" for e, what in found if what]


def namespaces_with(device: str, proc: Path = Path("/proc")) -> list[str]:
    """Return `NAME (PID)` for each mount namespace that has a device (`7:0`) mounted.

    One process stands for each; those that may not be looked at are left out.
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
    for link in _links(entry):
        with contextlib.suppress(OSError):
            if os.stat(link).st_dev == device:
                return f"{link.name if link.name in _LINKS else 'open'} {os.readlink(link)}"
    return _mapped(entry, device)


def _links(entry: Path) -> Iterator[Path]:
    yield from (entry / name for name in _LINKS)
    with contextlib.suppress(OSError):
        yield from sorted((entry / "fd").iterdir())


def _mapped(entry: Path, device: int) -> str:
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
