"""Where the launcher is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from benchwright.model.errors import BenchError


def find_launcher() -> Path:
    """Return the path of `bw-launcher`: beside this interpreter, else on PATH.

    BW_LAUNCHER overrides both. Raises BenchError `launcher-missing`.
    """
    override = os.environ.get("BW_LAUNCHER")
    candidates = [
        Path(override) if override else None,
        Path(sysconfig.get_path("scripts")) / "bw-launcher",
        Path(sys.executable).parent / "bw-launcher",
    ]
    for candidate in candidates:
        if candidate is not None and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which("bw-launcher")
    if found is None:
        raise BenchError(
            "launcher-missing",
            "the launcher `bw-launcher` is not installed beside this Python",
            "run `make setup`, or set BW_LAUNCHER to its path",
        )
    return Path(found)
