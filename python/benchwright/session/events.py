"""What a session tells while it runs; `report.progress` shows it, tests record it."""

from __future__ import annotations

from typing import Protocol

from benchwright.control.progress import Progress
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

    def note(self, text: str) -> None:
        """A line for a person: ECHO, a resume, an interruption."""

    def close(self) -> None:
        """The session is over; a terminal is put back."""
