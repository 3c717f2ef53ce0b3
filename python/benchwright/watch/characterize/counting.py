"""One program while it counts, bpftrace or our own: started, found ready, ended, its output a private file."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchwright.core.characterization import CountingMethod
from benchwright.watch.characterize.bpftrace_program import (
    Absent,
    Depth,
    absent_of,
    absent_without,
)
from benchwright.watch.characterize.kernel_counter import CountingTask
from benchwright.watch.characterize.tree import ThreadTree
from benchwright.watch.observer import ObserverError

CODE = "characterize-unavailable"
_DEPTHS = (Depth(), Depth(rings=False), Depth(files=False, rings=False))
_BEGIN_S = 60
"""How long bpftrace may take to begin: it compiles some hundred probes."""
_END_S = 60
_LEAVE_S = 5
_LOOK_S = 0.05


class Counting:
    """One program that counts."""

    def __init__(self, task: CountingTask, place: Path, why: str = "") -> None:
        """Begin it; `why`: bpftrace is not what counts."""
        self.place = place
        self._why = why
        self.depth = task.depth
        self.method: CountingMethod = "bpftrace" if task.bpftrace else "tracefs"
        self.begin_ns = 0
        """When it was found to count, CLOCK_MONOTONIC [ns]."""
        self._end_ns = 0
        self._said = place.with_name(f"{place.name}.said")
        with place.open("xb") as out, self._said.open("xb") as said:
            place.chmod(0o600)
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "benchwright.watch.characterize.kernel_counter",
                ],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=said,
                start_new_session=True,
            )
        assert self._process.stdin is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(task))
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait_until_ready(self) -> None:
        """Return once it counts: its clock has ticked. Raises ObserverError."""
        end = time.monotonic() + _BEGIN_S
        while '"tick ' not in self.place.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > end:
                raise ObserverError(
                    CODE, f"{self.method} does not start: {self._reason()}"
                )
            time.sleep(_LOOK_S)
        self.begin_ns = time.monotonic_ns()

    def finish(self) -> float:
        """End it; return for how long it counted [s]. Raises ObserverError."""
        self._end_ns = time.monotonic_ns()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise ObserverError(CODE, f"{self.method} does not stop") from None
        if status:
            raise ObserverError(
                CODE, f"{self.method} ended with {status}: {self._reason()}"
            )
        return (self._end_ns - self.begin_ns) / 1e9

    def discard(self) -> None:
        """End it, and remove its output."""
        if self._process.poll() is None:
            # It may have an instance of tracefs to remove.
            self._process.terminate()
            try:
                self._process.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        for left in (self.place, self._said):
            left.unlink(missing_ok=True)

    def absent(self) -> list[Absent]:
        """Return what this depth does not see, and why."""
        if self.method == "tracefs":
            return list(absent_without(self._why))
        return list(absent_of(self.depth))

    def _reason(self) -> str:
        """Return the first error that bpftrace or its starter printed."""
        lines = self._said.read_text(errors="replace").splitlines()
        known = "couldn't set RLIMIT_MEMLOCK"
        errors = [line.strip() for line in lines if line.strip() and known not in line]
        reported = [line for line in errors if "ERROR" in line] or errors
        return reported[0] if reported else "it gave no reason"


def start_counting(bpftrace: str | None, tree: ThreadTree, place: Path) -> Counting:
    """Return what counts a tree: bpftrace at the greatest depth that this kernel takes.

    Without one, or where it does not begin at all, events of tracefs are read. Raises
    ObserverError with what was reported at the last.
    """
    tasks = (
        [CountingTask(tree, bpftrace, depth) for depth in _DEPTHS] if bpftrace else []
    )
    why = "bpftrace is not installed: each call is read as one event"
    refused = ObserverError(CODE, "no method was tried")
    for task in (*tasks, CountingTask(tree, "", _DEPTHS[-1])):
        counting = Counting(task, place, why)
        try:
            counting.wait_until_ready()
        except ObserverError as reason:
            counting.discard()
            refused, why = reason, str(reason)
        except BaseException:
            counting.discard()
            raise
        else:
            return counting
    raise refused
