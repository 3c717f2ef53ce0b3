"""Whether long runs at fixed rates confirm a peak. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class LongRun(NamedTuple):
    """A fixed run beside the peak."""

    share: float
    """Its rate over the median answer."""
    rate: float
    holds: bool | None
    """Whether every criterion held; None: without values."""
    values: str
    """Of each criterion with its limit, as text."""


def confirmed(runs: Sequence[LongRun]) -> bool | None:
    """Return whether all runs below the peak held and all above failed; None without any
    run on one of the sides, or where a run has no values."""
    below = [run.holds for run in runs if run.share < 1]
    above = [run.holds for run in runs if run.share > 1]
    if not below or not above or None in (*below, *above):
        return None
    return all(below) and not any(above)
