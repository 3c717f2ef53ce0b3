"""Lines of progress of a mapping: a sample begins, a sample ended."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding.words import counted
from benchwright.model.surface import SampleResult, SampleWanted, SurfaceGoal
from benchwright.report.peak_words import interval_text, rate_text, sample_text


def mapping_text(goal: SurfaceGoal, criteria: Sequence[str]) -> str:
    """Return the line that opens a mapping."""
    return (
        f"mapping the peak rate with {' and '.join(criteria)}: "
        f"{goal.samples} of {counted(goal.count, 'sample')}, design {goal.design}"
    )


def beginning_text(number: int, count: int, wanted: SampleWanted) -> str:
    """Return which sample is searched, why, and with what its search begins."""
    text = f"sample {number} of {count}: {sample_text(wanted.sample)} ({wanted.why})"
    if not wanted.seeded_from:
        return f"{text}, beginning at {rate_text(wanted.goal.start_rate)}"
    shape = " and its curve's shape" if wanted.goal.shape is not None else ""
    near = sample_text(wanted.seeded_from)
    return f"{text}, beginning at the peak of {near}, {rate_text(wanted.goal.start_rate)}{shape}"


def ending_text(number: int, result: SampleResult) -> str:
    """Return what a sample's search came to."""
    found = result.found
    if result.peak_rate is None:
        return f"sample {number}: {found.status}: {found.detail}"
    interval = interval_text(found.interval)
    told = f" ({interval})" if interval else ""
    return f"sample {number}: {found.status}: {rate_text(result.peak_rate)}{told}"
