"""The first process of a PID namespace: runs a command, signals it, and lists what it left.

Its one argument is JSON: `command`, `directory`, `room` (size of a tmpfs on `disk` in the
directory, or an empty text), `signals` (each a name and the file that must be there
first). It prints JSON: `code`, `out`, `err`, `left` (names of processes that were still
there two seconds after the command's end).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GRACE_S = 2.0
MOST_S = 90.0


def reap() -> None:
    """Collect every orphan that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def others() -> list[str]:
    """Return the names of all processes of the namespace but this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "comm").read_text().strip())
            except OSError:
                continue
    return found


def send(process: subprocess.Popen[str], signals: list[list[str]], at: Path) -> None:
    """Send each signal once its file is there, with pauses between them."""
    end = time.monotonic() + MOST_S
    for name, file in signals:
        while not (at / file).exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.Signals[f"SIG{name}"])
        time.sleep(0.3)


def main(asked: dict[str, Any]) -> None:
    """Run the command and print what became of it."""
    at = Path(asked["directory"])
    if asked["room"]:
        (at / "disk").mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={asked['room']}", "none"]
        subprocess.run([*mount, str(at / "disk")], check=True)
    with (at / "out").open("w") as out, (at / "err").open("w") as err:
        process = subprocess.Popen(asked["command"], cwd=at, stdout=out, stderr=err, text=True)
        send(process, asked["signals"], at)
        code = process.wait(MOST_S)
    end = time.monotonic() + GRACE_S
    reap()
    while others() and time.monotonic() < end:
        time.sleep(0.05)
        reap()
    said = {name: (at / name).read_text(errors="replace") for name in ("out", "err")}
    print(json.dumps({"code": code, "left": others(), **said}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
