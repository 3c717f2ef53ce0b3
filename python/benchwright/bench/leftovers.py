"""Ends what a crashed session left running, found by its token in the environment.

The launcher ends everything when it or `bw` dies (docs/launcher-protocol.md); this is
for the case that all of them were killed in the same instant, or before the launcher
could act. Source: proc(5), /proc/PID/environ.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

TOKEN = "BW_SESSION"


def find(token: str, proc: Path = Path("/proc")) -> list[int]:
    """Return the process ids whose environment carries the session's token."""
    wanted = f"{TOKEN}={token}".encode()
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(entry.name))
    return found


def end(token: str) -> int:
    """Kill what carries the token, until nothing does; return how many there were."""
    ended: set[int] = set()
    for _attempt in range(100):
        alive = find(token)
        if not alive:
            break
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
                ended.add(process)
    return len(ended)
