"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

CODES: dict[str, Code] = {
    "pool-host-excluded": Code(
        Severity.WARNING,
        "Repair the host, or leave it out: bw pool status prints why each attempt was void.",
    ),
    "pool-hosts-share-machine": Code(
        Severity.WARNING,
        "Use a pool of Slurm for a figure about hosts: the gangs of local all run on this machine.",
    ),
}
