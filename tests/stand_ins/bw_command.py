"""`bw` as a program of its own, as a user starts it: what the tests of real runs share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

Done = subprocess.CompletedProcess[str]


def bw_words(*words: str) -> list[str]:
    """Return the command line of bw with these words."""
    return [sys.executable, "-m", "benchwright.cli.main", *words]


def bw(directory: Path, *words: str, timeout: float = 280, **more: Any) -> Done:
    """Run bw in a directory and return what it did; `timeout` [s] is for what hangs."""
    return subprocess.run(
        bw_words(*words), cwd=directory, capture_output=True, text=True, timeout=timeout, **more
    )
