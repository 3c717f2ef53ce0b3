"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

CODES: dict[str, Code] = {
    "jobs-disagree": Code(
        Severity.WARNING,
        "Look at the jobs in which the difference is small or reversed: what differs between the "
        "machines may decide whether the change helps.",
    ),
    "jobs-of-one-boot": Code(
        Severity.WARNING,
        "Run the jobs on different machines, or at least restart between them: the interval is "
        "about what the jobs drew.",
    ),
    "too-few-jobs": Code(
        Severity.NOTE,
        "Add jobs: trials within a job make the mean of that job more precise, not the one over jobs.",
    ),
}
