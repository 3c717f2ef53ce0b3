"""The peers that replay the same trace on the same device: fio and blkreplay.

Decision: each gets the trace in its own format with the stamps of the speed already in it,
and the device's depth; blkreplay's protection of conflicting writes is off, as it
delays operations on purpose and the others have none.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from parts.engine import convert
from parts.traces import Stretch, write_load

PATIENCE_S = 120
"""Beyond the trace's own length a peer is ended, and what came until then counts."""


def fio(stretch: Stretch, trace: Path, device: str, depth: int) -> None:
    """Replay by fio's iolog, io_uring and O_DIRECT."""
    log = trace.with_suffix(".iolog")
    log.unlink(missing_ok=True)
    convert(trace, log, "fio-iolog")
    command = ["fio", "--name=replay", f"--read_iolog={log}", "--direct=1"]
    command += [f"--replay_redirect={device}", "--ioengine=io_uring"]
    _run([*command, f"--iodepth={depth}", "--output=/dev/null"], stretch)
    log.unlink()


def blkreplay(stretch: Stretch, trace: Path, device: str, depth: int) -> None:
    """Replay by Debian's blkreplay, O_DIRECT."""
    log = write_load(stretch, trace.with_suffix(".load"))
    command = ["blkreplay", "--with-conflicts", "--no-overhead", "--start-grace=2"]
    with log.open("rb") as text:
        _run([*command, f"--threads={depth}", device], stretch, stdin=text)
    log.unlink()


REPLAYERS = {"fio": fio, "blkreplay": blkreplay}


def installed() -> dict[str, str]:
    """Return the peers that are here, by their commands' names, with their places."""
    places = {name: shutil.which(name) for name in REPLAYERS}
    return {name: place for name, place in places.items() if place is not None}


def _run(command: list[str], stretch: Stretch, stdin: object = subprocess.DEVNULL) -> None:
    patience = stretch.seconds + PATIENCE_S
    with subprocess.Popen(
        command,
        stdin=stdin,  # type: ignore[call-overload]
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            _, words = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            print(f"{command[0]} was ended after {patience:.0f} s")
            return
    if process.returncode:
        print(f"{command[0]} ended with status {process.returncode}: {words[-300:]!r}")
