"""The forest plot of a merge: a row for each job, the mean over jobs, and the next job."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.core.comparison import ComparisonResult
from benchwright.core.quantity import finite
from benchwright.core.text import percent_text
from benchwright.features.merge.types import JobRatio, MergedRatio, MergeResult
from benchwright.report.charts.sheet import (
    CurveForm,
    LevelLine,
    Panel,
    PanelAxis,
    PanelCurve,
    Sheet,
    named_ticks,
)

ALL_JOBS = "all jobs"
NEXT_JOB = "next job"
_JOB, _DOUBTFUL, _MEAN, _NEXT = 0, 1, 4, 7
"""Colours and markers (style.py)."""


def merge_sheet(result: MergeResult) -> Sheet:
    """Return a panel for each judged metric of each candidate."""
    judged = [ratio for ratio in result.ratios if ratio.verdict.judged]
    several = len(judged) > 1
    margin = percent_text(result.comparison.rule.margin)
    panels = [ratio_panel(result.comparison, ratio, titled=several) for ratio in judged]
    return Sheet(
        "",
        tuple(panels),
        columns=1,
        note=f"dashed lines: no difference, and the limits of equivalence (±{margin})",
    )


def ratio_panel(comparison: ComparisonResult, ratio: MergedRatio, *, titled: bool) -> Panel:
    """Return the rows of one metric of one candidate."""
    verdict = ratio.verdict
    rows = list(enumerate(ratio.jobs))
    sound = [(at, job) for at, job in rows if not job.doubts]
    doubtful = [(at, job) for at, job in rows if job.doubts]
    curves = [
        *_jobs_curve("job", sound, _JOB),
        *_jobs_curve("job with a serious finding", doubtful, _DOUBTFUL),
    ]
    mean, next_job = verdict.ratio, ratio.prediction
    total = float(len(rows))
    if finite(mean.value) is not None:
        curves.append(
            PanelCurve(
                "mean over jobs",
                (total,),
                (mean.value,),
                CurveForm.POINTS,
                colour=_MEAN,
                shape=_MEAN,
                low=(finite(mean.low),),
                high=(finite(mean.high),),
                names=(ALL_JOBS,),
            )
        )
    if finite(next_job.low) is not None:
        curves.append(
            PanelCurve(
                "prediction for the next job",
                (total + 1,),
                (mean.value,),
                CurveForm.LEVELS,
                colour=_NEXT,
                low=(next_job.low,),
                high=(next_job.high,),
                names=(NEXT_JOB,),
            )
        )
    margin = comparison.rule.margin
    names = [*(job.job for job in ratio.jobs), ALL_JOBS, NEXT_JOB]
    return Panel(
        f"{verdict.candidate}, {verdict.metric}" if titled else "",
        PanelAxis("", ticks=named_ticks(names)),
        PanelAxis(f"ratio of {verdict.metric} to {comparison.arms[0]}"),
        tuple(curves),
        marks=(LevelLine("", 1.0), LevelLine("", 1 / (1 + margin)), LevelLine("", 1 + margin)),
        missing="" if curves else "no ratio is known",
        sideways=True,
    )


def _jobs_curve(label: str, rows: Sequence[tuple[int, JobRatio]], colour: int) -> list[PanelCurve]:
    known = [(at, job) for at, job in rows if finite(job.ratio.value) is not None]
    if not known:
        return []
    return [
        PanelCurve(
            label,
            tuple(float(at) for at, _ in known),
            tuple(job.ratio.value for _, job in known),
            CurveForm.POINTS,
            colour=colour,
            shape=colour,
            low=tuple(finite(job.ratio.low) for _, job in known),
            high=tuple(finite(job.ratio.high) for _, job in known),
            names=tuple(job.job for _, job in known),
        )
    ]


# -- The same as text ---------------------------------------------------------------------

PICTURE_WIDTH = 33
"""Characters of a row's picture."""


class TextScale:
    """Where ratios stand in the text pictures of one table."""

    def __init__(self, ratio: MergedRatio, low: float, high: float) -> None:
        ends = [low, high, ratio.prediction.low, ratio.prediction.high, 1.0]
        for job in ratio.jobs:
            ends += [job.ratio.low, job.ratio.high, job.ratio.value]
        known = [end for end in ends if finite(end) is not None]
        self.low, self.high = min(known), max(known)

    def place(self, value: float) -> int:
        """Return the column of a ratio."""
        extent = self.high - self.low or 1.0
        return round((value - self.low) / extent * (PICTURE_WIDTH - 1))

    def picture(self, value: float, low: float, high: float, point: str = "o") -> str:
        """Return the interval as a line with its value; `|` is where there is no difference."""
        cells = [" "] * PICTURE_WIDTH
        if finite(low) is not None and finite(high) is not None:
            first, last = self.place(low), self.place(high)
            cells[first : last + 1] = "-" * (last - first + 1)
        cells[self.place(1.0)] = "|"
        if finite(value) is not None:
            cells[self.place(value)] = point
        return "".join(cells)

    @property
    def heading(self) -> str:
        """The ends of the scale, above the pictures."""
        left, right = f"{self.low:.4g}", f"{self.high:.4g}"
        at, room = self.place(1.0), PICTURE_WIDTH
        one = "1" if len(left) < at < room - len(right) - 1 else ""
        middle = one.rjust(at - len(left) + 1) if one else ""
        return left + middle + right.rjust(room - len(left) - len(middle))
