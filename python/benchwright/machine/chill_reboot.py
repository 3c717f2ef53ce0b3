"""Asks the machine to restart, and never returns as if that were done.

Decision: the caller is a suite that wrote CHECKPOINT just before; a return would let it
measure a machine that was not restarted. So this waits for the end, deaf to the
signals of a shutdown (`bw` itself hears them, and is resumed), and fails if the machine is
still there. What lost: reboot(2), which stops no service and unmounts nothing.
Source: Auto-pilot paper, section 3.5.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from benchwright.machine.chill_remount import Runner, run_command
from benchwright.model.errors import BenchError

PATIENCE_S = 600
"""How long a shutdown may take [s]."""


def reboot(
    *,
    run: Runner = run_command,
    sleep: Callable[[float], None] = time.sleep,
    booted: Path = Path("/run/systemd/system"),
) -> NoReturn:
    """Ask for a restart and wait for it.

    Raises BenchError `chill-no-reboot` when it is refused, or has not come.
    """
    deaf = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.signal(number, signal.SIG_IGN) for number in deaf]
    try:
        os.sync()
        complaint = run(_command(booted))
        if not complaint:
            sleep(PATIENCE_S)
            complaint = f"it was asked for, and has not come in {PATIENCE_S} s"
    finally:
        for number, handler in zip(deaf, before, strict=True):
            signal.signal(number, handler)
    raise BenchError(
        "chill-no-reboot",
        f"no restart: {complaint}",
        "reboot it by hand, then `bw resume`",
    )


def _command(booted: Path) -> list[str]:
    """Return the command of this machine's init."""
    if booted.is_dir():
        return ["systemctl", "reboot"]
    return [shutil.which("reboot") or "/sbin/reboot"]
