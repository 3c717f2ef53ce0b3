"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

CODES: dict[str, Code] = {
    "outlier-run": Code(
        Severity.NOTE,
        "Read the findings of each such run (bw why STUDY). It counts for no level: one run alone is "
        "no change.",
    ),
    "level-excursion": Code(
        Severity.NOTE,
        "Read the findings of these runs (bw why STUDY): a burst, or a bad day of the machine. They count for no "
        "level.",
    ),
    "level-drifts": Code(
        Severity.NOTE,
        "Find what grows or ages: data, logs, a disk that fills, a machine that warms up. No single commit made "
        "this change.",
    ),
    "several-levels": Code(
        Severity.NOTE,
        "Find what switches between runs (a machine of a pool, placement, a cache). More trials do not make a "
        "run more certain; the newest run is compared with both levels together.",
    ),
    "spread-changed": Code(
        Severity.NOTE,
        "Find what made the runs vary more or less at that time (machine, load beside, length of the test). "
        "A step is judged by the noise around it.",
    ),
    "steps-and-looks-differ": Code(
        Severity.NOTE,
        "Each is wrong in at most 5 % of steady series, and a look knows only the runs before it. Measure further "
        "runs, or both commits side by side (bw history confirm).",
    ),
    "level-wanders": Code(
        Severity.WARNING,
        "Find what drifts on the machine. The steps are the largest moves and have no P-value: "
        "confirm them side by side (bw compare of the commits).",
    ),
}
