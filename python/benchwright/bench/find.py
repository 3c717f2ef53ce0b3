"""Where our native programs are: the launcher, the load engine, the sampler."""

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
    return _found("launcher", "BW_LAUNCHER")


def find_engine() -> Path:
    """Return the path of `bw-engine`: beside this interpreter, else on PATH.

    BW_ENGINE overrides both. Raises BenchError `engine-missing`.
    """
    return _found("engine", "BW_ENGINE")


def find_sampler() -> Path:
    """Return the path of `bw-sampler`: beside this interpreter, else on PATH.

    BW_SAMPLER overrides both. Raises BenchError `sampler-missing`.
    """
    return _found("sampler", "BW_SAMPLER")


def _found(what: str, variable: str) -> Path:
    name = f"bw-{what}"
    override = os.environ.get(variable)
    candidates = [
        Path(override) if override else None,
        Path(sysconfig.get_path("scripts")) / name,
        Path(sys.executable).parent / name,
    ]
    for candidate in candidates:
        if candidate is not None and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which(name)
    if found is None:
        raise BenchError(
            f"{what}-missing",
            f"the {what} `{name}` is not installed beside this Python",
            f"run `make setup`, or set {variable} to its path",
        )
    return Path(found)
