"""The shipped fake: a bench without processes, for tests and simulations.

It computes each epoch from the request and the epoch's number, so a
session, a controller or a resume can be tried thousands of times a second.
"""

from __future__ import annotations

from collections.abc import Callable

from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.trial.bench import BatchResult, BenchProcesses
from benchwright.trial.protocol import EpochRecord, RunRequest

Behaviour = Callable[[RunRequest, int, int], float]
"""(request, epoch, thread) -> elapsed seconds of that EXEC process."""


class FakeBench:
    """Answers every request at once; `requests` stores them."""

    def __init__(
        self, elapsed: Behaviour, *, status: Callable[[RunRequest, int], int] = lambda _r, _e: 0
    ) -> None:
        self._elapsed = elapsed
        self._status = status
        self.requests: list[RunRequest] = []
        self.processes: BenchProcesses | None = None

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        """Return one record per epoch, with the times that the behaviour returns."""
        if abandoned():
            return BatchResult((), "interrupted")
        self.requests.append(request)
        epochs = tuple(
            self._epoch(request, epoch)
            for epoch in range(request.first_epoch, request.first_epoch + request.epochs)
        )
        return BatchResult(epochs, "complete")

    def interrupt(self, *, cleanup: bool) -> None:
        """Nothing runs between two calls, so there is nothing to end."""

    def close(self) -> None:
        """Nothing was started."""

    def _epoch(self, request: RunRequest, epoch: int) -> EpochRecord:
        status = self._status(request, epoch)
        places: list[tuple[str, int, int]] = []
        for mode in dict.fromkeys(command.mode for command in request.commands):
            commands = [c for c in request.commands if c.mode == mode]
            threads = range(1, request.threads + 1) if mode == "EXEC" else (0,)
            places += [(mode, i, t) for i, _ in enumerate(commands) for t in threads]
        processes = tuple(self._process(request, epoch, p, status) for p in places)
        return EpochRecord(
            id=request.id,
            epoch=epoch,
            ending=TrialEnding.OK if status == 0 else TrialEnding.FAILED,
            started_ns=epoch,
            duration_ns=sum(p.elapsed_ns for p in processes),
            release_skew_ns=0,
            left_running=0,
            processes=processes,
        )

    def _process(
        self, request: RunRequest, epoch: int, place: tuple[str, int, int], status: int
    ) -> ProcessRecord:
        mode, index, thread = place
        elapsed_s = self._elapsed(request, epoch, thread) if mode == "EXEC" else 0.0
        return ProcessRecord(
            mode=mode,
            index=index,
            thread=thread,
            status=status,
            elapsed_ns=round(elapsed_s * 1e9),
            user_us=0,
            system_us=0,
            rss_bytes=1 << 20,
        )
