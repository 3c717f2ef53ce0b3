"""What a session tells while it runs; `report.progress` shows it, tests record it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from benchwright.control.progress import Progress
from benchwright.model.comparison import Comparison, ComparisonProgress
from benchwright.model.decision import Stop
from benchwright.model.plan import Pairs


class Listener(Protocol):
    """Told of a session's progress, between trials and never during one."""

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str
    ) -> None:
        """A test begins, or goes on after a resume."""

    def trials_done(
        self, name: str, done: int, failed: int, progress: Progress, elapsed_s: float
    ) -> None:
        """A batch ended: trials so far, and how far the answer still is."""

    def test_closed(self, name: str, stop: Stop) -> None:
        """A test is over, and why."""

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """A comparison of these arms begins, or goes on after a resume."""

    def block_done(self, so_far: ComparisonProgress) -> None:
        """A block ended: what the comparison would come to now."""

    def comparison_closed(self, result: Comparison) -> None:
        """A comparison is over, and what it came to."""

    def note(self, text: str) -> None:
        """A line for a person: ECHO, a resume, an interruption."""

    def close(self) -> None:
        """The session is over; a terminal is put back."""
