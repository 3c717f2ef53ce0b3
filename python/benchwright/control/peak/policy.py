"""The slot that every policy of a peak search fits into, the paper's, ours and a rival's.

A policy has no state: the trials so far are all it knows, so a resumed search goes on
as if nothing had happened, and a search of a simulated server runs the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from benchwright.model.peak import LoadTrial, PeakGoal, PeakResult, Probe


class Policy(Protocol):
    """A way to search for the peak rate."""

    @property
    def name(self) -> str:
        """As `--policy` names it."""

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell whether a running probe has told enough: asked about once a second.

        `so_far` is the trial as it would be if it were left now.
        """

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer now, when a budget or the trials are used up."""
