"""The searches of a surface on one machine, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.features.search.surface.design import next_search
from benchwright.features.search.surface.spec import TimeLeft
from benchwright.features.search.surface.types import (
    GangNames,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)


def next_sample(
    goal: SurfaceGoal, results: Sequence[SampleResult], time: TimeLeft | None = None
) -> SampleRequest | None:
    """Return the search that follows these; None when the design is complete, or the time is
    over."""
    wanted = [SampleRequest(one.sample, goal.peak) for one in results]
    return next_search(goal, GangNames(("",)), wanted, dict(enumerate(results, 1)), time)
