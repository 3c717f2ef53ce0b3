"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

_WHEN = "<; {when}>"
_SEVERAL = "{patterns}" + _WHEN

CODES: dict[str, Code] = {
    "outlier-run": Code(
        Severity.NOTE,
        "Read the findings of each such run (bw why STUDY). It counts for no level: one run alone is "
        "no change.",
        says="[{n_above:?one run is|# runs are} {above:2} above][{joined}][{n_below:?one run is|# runs are} {below:2} below] "
        "its level<; {runs}>",
    ),
    "level-excursion": Code(
        Severity.NOTE,
        "Read the findings of these runs (bw why STUDY): a burst, or a bad day of the machine. They count for no "
        "level.",
        says={"": "runs {runs} were {change:2} {way}{rest}" + _WHEN, "several": _SEVERAL},
    ),
    "level-drifts": Code(
        Severity.NOTE,
        "Find what grows or ages: data, logs, a disk that fills, a machine that warms up. No single commit made "
        "this change.",
        says={
            "": "{change:2} {way} from run {first} to run {last}, steadily and not in a step"
            + _WHEN,
            "beside": "{change:2} {way} from run {first} to run {last}, steadily and beside the steps"
            + _WHEN,
            "alternative": "a steady change fits about as well as the step, {change:2} {way} from run {first} to run "
            "{last}" + _WHEN,
            "several": _SEVERAL,
        },
    ),
    "several-levels": Code(
        Severity.NOTE,
        "Find what switches between runs (a machine of a pool, placement, a cache). More trials do not make a "
        "run more certain; the newest run is compared with both levels together.",
        says={
            "": "two levels at the same time, {count} of run {first} to run {last} are {change:2} {way}"
            + _WHEN,
            "several": _SEVERAL,
        },
    ),
    "spread-changed": Code(
        Severity.NOTE,
        "Find what made the runs vary more or less at that time (machine, load beside, length of the test). "
        "A step is judged by the noise around it.",
        says={
            "": "since run {first} the runs vary {times:2} times {than} before" + _WHEN,
            "several": _SEVERAL,
        },
    ),
    "steps-and-looks-differ": Code(
        Severity.NOTE,
        "Each is wrong in at most 5 % of steady series, and a look knows only the runs before it. Measure further "
        "runs, or both commits side by side (bw history confirm).",
        says={
            "": "a look after a run found a change at run {run} where all runs together have no step"
            + _WHEN,
            "step": "all runs together have a step at run {run} that no look after a run found, so the newest run is "
            "compared with those since run {since}" + _WHEN,
        },
    ),
    "level-wanders": Code(
        Severity.WARNING,
        "Find what drifts on the machine. The steps are the largest moves and have no P-value: "
        "confirm them side by side (bw compare of the commits).",
        says="each run is close to the one before it, and no step explains that<; from the run of {first} to that of "
        "{last}>",
    ),
}
