"""Runs single commands and batches of epochs on the bench for a session.

A session waits only here, so interrupts are handled here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import BenchError, Interrupted
from benchwright.core.plan import AS_PLANNED, Command, CommandMode, Pairs, TestPlan, TrialSetting
from benchwright.run.viewer import Viewer
from benchwright.run.watching import BatchWatcher
from benchwright.study.logs import log_directory
from benchwright.trial.bench import BatchResult, Bench
from benchwright.trial.programs import resolve_hooks
from benchwright.trial.protocol import (
    ExecEnvironment,
    RunRequest,
    command_request,
    epochs_request,
    merge_pairs,
)

if TYPE_CHECKING:
    from benchwright.watch.observer import ObserverKind


_WAKE_S = 0.2
"""A wait looks this often whether the user interrupted it [s]."""


class Performer:
    """Runs commands and epochs; `interrupt` may be called from a signal handler."""

    def __init__(
        self,
        bench: Bench,
        around: ExecEnvironment,
        study: Path,
        session: int,
        *,
        watching: BatchWatcher | None = None,
        viewer: Viewer | None = None,
        capture: Callable[[], None] = lambda: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`capture` records the machine as it is now; `warn` prints a line on stderr."""
        self._bench = bench
        self.capture = capture
        self.warn = warn
        self.viewer = viewer or Viewer(study)
        self._watching = watching
        self.surroundings = around
        self._study = study
        self._session = session
        self.interrupts = 0

    def interrupt(self) -> None:
        """First call: end the trial, run its CLEANUP. Second: end everything at once."""
        self.interrupts += 1
        self._bench.interrupt(cleanup=self.interrupts == 1)

    def check(self) -> None:
        """Raise Interrupted if the user asked to stop."""
        if self.interrupts:
            raise Interrupted

    def wait_until(self, moment_ns: int) -> None:
        """Wait until a time of CLOCK_REALTIME [ns]; nothing runs meanwhile. Raises Interrupted."""
        while (left_ns := moment_ns - time.time_ns()) > 0:
            self.check()
            time.sleep(min(left_ns / 1e9, _WAKE_S))
        self.check()

    def command(
        self,
        mode: CommandMode,
        command: Command,
        environment: Pairs = (),
        *,
        test: str | None = None,
        patience: int = 1,
        setting: TrialSetting = AS_PLANNED,
    ) -> int:
        """Run one command once and return its exit status.

        `patience` is the number of interrupts that end it: 2 for a command that must run even
        after the first one. Raises Interrupted if interrupts ended it.
        """
        request = command_request(
            mode, (command,), self.surroundings, self._logs(test), environment, setting
        )
        result = self._bench.run(request, abandoned=lambda: self.interrupts >= patience)
        if result.reason == "interrupted" or not result.epochs:
            raise Interrupted
        return max(process.status for process in result.epochs[0].processes)

    def epochs(
        self, plan: TestPlan, first: int, count: int, setting: TrialSetting = AS_PLANNED
    ) -> BatchResult:
        """Run a batch of epochs; the result may have fewer records than `count`."""
        request = self._request(plan, first, count, setting)
        if self._watching is None:
            return self._run(request)
        with self._watching.batch(plan.name, first, count):
            result = self._run(request)
        return self._watching.with_uses(plan.name, result)

    @property
    def extra_kinds(self) -> tuple[ObserverKind, ...]:
        """The kinds of observers for each of which one more trial of each test runs."""
        return () if self._watching is None else self._watching.extra_kinds

    def recorded(
        self, kind: ObserverKind, plan: TestPlan, epoch: int, setting: TrialSetting = AS_PLANNED
    ) -> msgspec.Struct | None:
        """Run one more epoch, in no figure, and return what an observer recorded of it; None if that
        was not possible, or interrupted."""
        assert self._watching is not None, "it has this kind"
        request = self._request(plan, epoch, 1, setting)
        return self._watching.recorded(
            kind, plan.name, epoch, lambda: self._run(request).reason != "interrupted"
        )

    def _request(self, plan: TestPlan, first: int, count: int, setting: TrialSetting) -> RunRequest:
        return epochs_request(
            msgspec.structs.replace(plan, hooks=self._hooks(plan)),
            first,
            count,
            self.surroundings,
            self._logs(plan.name),
            setting,
        )

    def _run(self, request: RunRequest) -> BatchResult:
        return self._bench.run(request, abandoned=lambda: self.interrupts >= 1)

    def environment(self, *pairs: Pairs) -> Pairs:
        """Return the session's environment with these variables added."""
        return merge_pairs(self.surroundings.environment, *pairs)

    def _hooks(self, plan: TestPlan) -> tuple[str, ...]:
        try:
            return resolve_hooks(plan.hooks, Path(self.surroundings.directory))
        except ValueError as error:
            raise BenchError("hook-missing", f"{plan.name}: {error}") from None

    def _logs(self, test: str | None) -> str:
        path = log_directory(self._study, self._session, test)
        remedy = "make room or give access, then `bw resume`"
        make_directory(path, "logs-unwritable", "the directory of logs", remedy)
        return str(path)


def make_directory(path: Path, code: str, what: str, remedy: str) -> None:
    """Make a directory and its parents unless they exist. Raises BenchError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make {what} {path}: {error.strerror}"
        raise BenchError(code, message, remedy) from None
