"""One benchmark measured once, and what `bw why` names, on a machine that may be shared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from limiter_cases import Case
from limiter_strangers import Strangers

BW = (sys.executable, "-m", "benchwright.cli.main")
SHARED, STOLEN = 0.1, 0.05
"""Processors that strangers used, or the hypervisor took, from which on a machine is shared."""
OF_OTHERS = frozenset(("noisy-neighbour", "steal"))


@dataclass(frozen=True)
class Named:
    """What was named in one run, and whether strangers used the machine meanwhile."""

    causes: tuple[str, ...]
    """Codes, the first cause first."""
    strangers: Strangers

    @property
    def shared(self) -> bool:
        """Whether others than the case's own programs used the machine, as /proc says."""
        return self.strangers.cores >= SHARED or self.strangers.stolen >= STOLEN

    def first(self, wanted: str = "") -> str:
        """Return what was named first, or nothing; on a shared machine without what others
        cost, which is true there, unless that is wanted."""
        causes = [
            code
            for code in self.causes
            if not (self.shared and code in OF_OTHERS and code != wanted)
        ]
        return causes[0] if causes else ""


def named(case: Case) -> Named:
    """Make the limiter happen once and return what is named.

    Raises Lacking for what this machine has not.
    """
    place = Path(tempfile.mkdtemp(prefix="bw-limiters-"))
    try:
        with case.make(place) as command:
            return causes_of(command, place / "study", case.figure, case.said)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def causes_of(
    command: Sequence[str], study: Path, figure: str = "", said: Sequence[str] = ()
) -> Named:
    """Measure a command once and return what `bw why` names."""
    kept = ["--study", str(study)]
    if figure:
        kept += ["--metric", figure]
    run = (*BW, "run", "--quiet", "--keep-going", "--min-runs", "1", "--max-runs", "1")
    with Strangers() as strangers:
        subprocess.run((*run, *kept, "--", *command), capture_output=True, timeout=120)
    why = (*BW, "why", str(study), "--json", *said)
    done = subprocess.run(why, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"bw why: {done.stderr}")
    (result,) = json.loads(done.stdout)["results"]
    return Named(tuple(cause["code"] for cause in result["causes"]), strangers)
