"""A bench that breaks in the middle of a session, as a launcher that is killed."""

from __future__ import annotations

from collections.abc import Callable

from benchwright.core.errors import BenchError
from benchwright.trial.bench import BatchResult
from benchwright.trial.fake import Behaviour, FakeBench
from benchwright.trial.protocol import RunRequest


class BreakingBench(FakeBench):
    """A bench that breaks after so many requests; without a number it does not."""

    def __init__(self, elapsed: Behaviour, breaks_at: int = 10**6) -> None:
        super().__init__(elapsed)
        self._left = breaks_at

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        self._left -= 1
        if self._left < 0:
            raise BenchError("launcher-gone", "killed")
        return super().run(request, abandoned=abandoned)
