"""Who holds a file system: processes with a directory, file or mapping in it.

Source: proc(5); what fuser(1) -m tells, which need not be installed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_LINKS = ("cwd", "root", "exe")


def holders(device: int, proc: Path = Path("/proc")) -> list[str]:
    """Return `NAME (PID): WHAT` for each process that holds something of a device.

    `device` is st_dev of the mounted directory. Processes that may not be looked at are
    left out.
    """
    entries = sorted(
        (e for e in proc.iterdir() if e.name.isdecimal()), key=lambda e: int(e.name)
    )
    found = ((entry, _held(entry, device)) for entry in entries)
    return [f"{_name(e)} ({e.name}): {what}" for e, what in found if what]


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
