"""The mark of tests that profile: they are skipped where perf does not work, with its reason.

Decision: perf is asked to record once a session; that there is a program of this name says
too little. A distribution's perf may be a script that looks for one of this kernel, and a
kernel may let nobody count (perf_event_paranoid, seccomp).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_PATIENCE_S = 30
_MOST = 300
"""Characters of what perf says."""


def complaint() -> str:
    """Return why perf cannot record here, in its words; empty where it can."""
    perf = shutil.which("perf")
    if perf is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory() as place:
        try:
            done = subprocess.run(
                [perf, "record", "-o", Path(place, "recorded"), "true"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as trouble:
            return f"perf does not work here: {trouble}"
    if done.returncode == 0:
        return ""
    said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
    return f"perf does not work here: {said[:_MOST]}"


_COMPLAINT = complaint()
needs_perf = pytest.mark.skipif(bool(_COMPLAINT), reason=_COMPLAINT)
