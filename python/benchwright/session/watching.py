"""Watching a session's batches: where the series go, and what of them goes with a trial.

Purpose: the seam between a session, which knows tests and epochs, and `probe/`, which
knows processes and time. Decision: a trial's resource use is distilled right after its
batch and recorded with its outcome, so that every finding is a function of the journal;
the series stay in the study for plots. What cannot be watched is told by the use itself,
with the reason, and never ends a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from benchwright.bench.port import BenchProcesses, RunResult
from benchwright.model.errors import OperatingError
from benchwright.model.watched import ResourceUse
from benchwright.probe.crew import Crew
from benchwright.probe.observer import Watch
from benchwright.study.names import file_name
from benchwright.trial.record import EpochRecord

Windows = Sequence[tuple[int, int, int]]
"""(epoch, begin, end) of each trial's EXEC, CLOCK_MONOTONIC [ns]."""


class Sampler(Protocol):
    """What is asked of the observer that samples the machine."""

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each window of the batch that was just ended.

        Empty where the batch was not sampled. Raises OSError, SeriesError for a series
        that cannot be read.
        """


class Watching:
    """Watches batches with a crew; without one, nothing is watched."""

    def __init__(
        self,
        place: Path,
        processes: BenchProcesses | None,
        crew: Crew,
        sampler: Sampler | None,
    ) -> None:
        self._place = place
        self._processes = processes
        self.crew = crew
        self._sampler = sampler

    @contextlib.contextmanager
    def batch(self, test: str, first: int) -> Iterator[None]:
        """Watch while the body runs a batch of a test's epochs, from `first` on."""
        if self._processes is None:
            yield
            return
        with contextlib.suppress(OSError):
            self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.crew.begin(
            Watch(
                self._place,
                self._stem(test, first),
                self._processes.root,
                self._processes.own,
            )
        )
        try:
            yield
        finally:
            self.crew.end()

    def uses(self, result: RunResult) -> tuple[tuple[int, ResourceUse], ...]:
        """Return what was seen of the machine in the batch that was just ended."""
        windows = (exec_window(record) for record in result.epochs)
        return self.seen([one for one in windows if one is not None])

    def seen(self, windows: Windows) -> tuple[tuple[int, ResourceUse], ...]:
        """Return what was seen in parts of the batch that was just ended; where nothing
        could be, a use that says why."""
        if not windows:
            return ()
        uses = self._uses(windows)
        if not uses and self.crew.failures:
            uses = [_unseen(windows, str(self.crew.failures[0]))]
        return tuple(
            (window[0], use)
            for window, use in zip(windows, uses, strict=False)
            if use is not None
        )

    def _uses(self, windows: Windows) -> list[ResourceUse | None]:
        if self._sampler is None:
            return []
        try:
            return self._sampler.uses(windows)
        except (OSError, OperatingError) as error:
            return [_unseen(windows, str(error))]

    def close(self) -> None:
        """End everything that watches."""
        self.crew.close()

    def _stem(self, test: str, first: int) -> str:
        """Return a name that no earlier batch has: one may have been cut and run again."""
        stem = f"{file_name(test)}-{first}"
        taken = sum(1 for _ in self._place.glob(f"{_literal(stem)}.*"))
        tries = sum(1 for _ in self._place.glob(f"{_literal(stem)}~*"))
        return f"{stem}~{tries + 2}" if taken or tries else stem


def exec_window(record: EpochRecord) -> tuple[int, int, int] | None:
    """Return an epoch and the time of its EXEC [ns], or None where nothing was executed."""
    executed = [p for p in record.processes if p.mode == "EXEC" and p.start_ns]
    if not executed:
        return None
    begin = min(process.start_ns for process in executed)
    end = max(process.start_ns + process.elapsed_ns for process in executed)
    return record.epoch, begin, end


def _unseen(windows: Windows, why: str) -> ResourceUse:
    begin, end = windows[0][1], windows[-1][2]
    return ResourceUse(
        seconds=(end - begin) / 1e9,
        samples=0,
        epochs=(windows[0][0], windows[-1][0]),
        absent=(("series", why),),
    )


def _literal(text: str) -> str:
    """Return a text as a pattern of glob that matches only itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
