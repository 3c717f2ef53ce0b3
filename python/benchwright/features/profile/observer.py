"""The observer behind `--characterize`: counts a trial's I/O and records the block layer."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchwright.features.profile.bpftrace_program import (
    Absent,
    Depth,
    ThreadTree,
    absent_of,
    absent_without,
    begin_mark,
    end_mark,
    tree_below,
)
from benchwright.features.profile.description import (
    DescriptionContext,
    DeviceMount,
    describe_io,
    devices_used,
    disk_name,
    disks_below,
    mounts,
    node_name,
    nodes_used,
)
from benchwright.features.profile.kernel_counter import CountingTask
from benchwright.features.profile.totals import Totals, device_name, totals
from benchwright.features.profile.types import BlockTrace, Characterization, CountingMethod
from benchwright.watch.observer import ObserverError, Watch, end_child

# -- The counting program, bpftrace or our own; its output is a private file -------------

CODE = "characterize-unavailable"
_DEPTHS = (Depth(), Depth(rings=False), Depth(files=False, rings=False))
_BEGIN_S = 60
"""The time limit for bpftrace to start [s]: it compiles about a hundred probes."""
_END_S = 60
_LEAVE_S = 5
_LOOK_S = 0.05
_TICK = re.compile(r'"tick (\d+)')
_TICKS = 2
"""So many ticks after a mark, bpftrace has cleared its maps: it does so between printings."""


class Counting:
    """One running program that counts."""

    def __init__(self, task: CountingTask, place: Path, why: str = "") -> None:
        """Start it; `why`: the reason not to use bpftrace."""
        self.place = place
        self._why = why
        self.depth = task.depth
        self.method: CountingMethod = "bpftrace" if task.bpftrace else "tracefs"
        self.begin_ns = 0
        """When it was first seen to count, CLOCK_MONOTONIC [ns]."""
        self._end_ns = 0
        self._said = place.with_name(f"{place.name}.said")
        with place.open("xb") as out, self._said.open("xb") as said:
            place.chmod(0o600)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "benchwright.features.profile.kernel_counter"],
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
        """Wait until it counts: it has printed a tick. Raises ObserverError."""
        end = time.monotonic() + _BEGIN_S
        while '"tick ' not in self.place.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > end:
                raise ObserverError(CODE, f"{self.method} does not start: {self._reason()}")
            time.sleep(_LOOK_S)
        self.begin_ns = time.monotonic_ns()
        self._mark(begin_mark(os.getpid()))

    def _mark(self, process: int) -> None:
        """Tell the program in the kernel that counting begins or ends; wait until it knows."""
        at_ns = time.monotonic_ns()
        with contextlib.suppress(OSError):
            os.getpgid(process)
        if self.method == "tracefs":
            return
        end = time.monotonic() + _LEAVE_S
        while self._ticks_after(at_ns) < _TICKS and time.monotonic() < end:
            time.sleep(_LOOK_S)

    def _ticks_after(self, at_ns: int) -> int:
        text = self.place.read_text(errors="replace")
        return sum(int(tick) > at_ns for tick in _TICK.findall(text))

    def finish(self) -> float:
        """Stop it; return how long it counted [s]. Raises ObserverError."""
        self._end_ns = time.monotonic_ns()
        if self._process.poll() is None:
            self._mark(end_mark(os.getpid()))
            self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise ObserverError(CODE, f"{self.method} does not stop") from None
        if status:
            raise ObserverError(CODE, f"{self.method} ended with {status}: {self._reason()}")
        return (self._end_ns - self.begin_ns) / 1e9

    def discard(self) -> None:
        """Stop it, and remove its output."""
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
        """Return what is not observed at this depth, and why."""
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
    """Start counting a tree: with bpftrace at the greatest depth that this kernel supports.

    If bpftrace is missing or does not start, events of tracefs are read instead. Raises
    ObserverError with the last error.
    """
    tasks = (
        [CountingTask(tree, bpftrace, depth, os.getpid()) for depth in _DEPTHS] if bpftrace else []
    )
    why = "bpftrace is not installed: each call is read as one event"
    refused = ObserverError(CODE, "no method was tried")
    for task in (*tasks, CountingTask(tree, "", _DEPTHS[-1], os.getpid())):
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


# --------------------------------------------------------------------------------------
# Records the block layer with bw-engine's capture, and computes its statistics.
#
# Decision: the requests of all programs to all devices are recorded: the page cache writes
# from kernel threads, and the relevant devices are known only afterwards. The file is stored,
# so that `bw trace compare` can compare it with a production trace. Source:
# docs/engine-protocol.md.

_PATIENCE_S = 30
T = TypeVar("T")


class _Captured(msgspec.Struct, frozen=True):
    """What is used of the engine's answer about a capture (docs/engine-protocol.md)."""

    operations: int
    lost_events: int
    devices: tuple[str, ...]


class _Sequentiality(msgspec.Struct, frozen=True):
    sequential_share: float | None


class _Queue(msgspec.Struct, frozen=True):
    mean: float
    mean_at_arrival: float
    max: int


class _Responses(msgspec.Struct, frozen=True):
    p50: float | None
    p99: float | None


class _Statistics(msgspec.Struct, frozen=True):
    """What is used of the engine's answer about a trace of block I/O."""

    sequentiality: _Sequentiality
    queue: _Queue | None
    """None: the trace has no ends of operations."""
    response_ns: _Responses


class BlockRecordingError(Exception):
    """The block layer cannot be recorded; the message says why."""


class BlockRecording:
    """One capture by one engine."""

    def __init__(self, engine: Path, output: Path) -> None:
        """Start it and wait until it records. Raises BlockRecordingError."""
        self.output = output
        self._engine = engine
        self._process = _capture_request(engine, {"type": "trace-capture", "output": str(output)})
        try:
            if _answer(self._process).get("type") != "ready":
                raise BlockRecordingError("the engine does not report that it records")
        except BlockRecordingError:
            self.close()
            raise

    def finish(self, devices: Sequence[str]) -> BlockTrace:
        """Stop it; return the trace, with statistics of these devices only.

        Raises BlockRecordingError.
        """
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            result = _converted(_answer(self._process), _Captured)
        finally:
            self.close()
        trace = BlockTrace(str(self.output), result.operations, result.lost_events, tuple(devices))
        known = [device for device in devices if device in result.devices]
        if not known or not result.operations:
            return trace
        return _measured(trace, self._stat(known))

    def close(self) -> None:
        """Stop the engine if it still runs."""
        end_child(self._process)

    def _stat(self, devices: Sequence[str]) -> _Statistics:
        request = {"path": str(self.output), "devices": list(devices)}
        process = _capture_request(self._engine, {"type": "trace-stat", "input": request})
        try:
            while True:
                answer = _answer(process)
                if answer.get("type") == "result":
                    return _converted(answer, _Statistics)
        finally:
            end_child(process)


def _measured(trace: BlockTrace, stat: _Statistics) -> BlockTrace:
    queue = stat.queue
    median, high = stat.response_ns.p50, stat.response_ns.p99
    return msgspec.structs.replace(
        trace,
        sequential=stat.sequentiality.sequential_share,
        queue_mean=None if queue is None else queue.mean,
        queue_at_arrival=None if queue is None else queue.mean_at_arrival,
        queue_max=None if queue is None else queue.max,
        response_s_p50=None if median is None else median / 1e9,
        response_s_p99=None if high is None else high / 1e9,
    )


def _capture_request(engine: Path, request: dict[str, Any]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [engine],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        umask=0o077,
    )
    assert process.stdin is not None, "it is a pipe"
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(request) + b"\n")
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    return process


def _answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the engine's next answer. Raises BlockRecordingError with the engine's message."""
    assert process.stdout is not None, "it is a pipe"
    ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_S)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise BlockRecordingError("the engine exited without an answer")
    try:
        said = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BlockRecordingError(f"no answer from the engine: {error}") from None
    if said.get("type") == "error":
        raise BlockRecordingError(str(said.get("message", "the engine refused")))
    return said


def _converted(said: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise BlockRecordingError(f"the answer cannot be read: {error}") from None


# --------------------------------------------------------------------------------------
# The observer behind `--characterize`.
#
# Decision: bpftrace counts in the kernel (features/profile/bpftrace_program.py), and
# bw-engine records the block layer at the same time. Both slow down a trial with many small
# calls, so a separate trial is characterized, and its measurements are not used.
# Source: bpftrace(8).

_ORDINARY = (
    "only root may trace I/O in the kernel (bpftrace, tracefs); for an ordinary user "
    "`strace -f -c COMMAND` counts a command's calls"
)
_NOT_UNDERSTOOD = (
    *(OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    msgspec.MsgspecError,
)
"""Exceptions that reading another program's output may raise if its format differs."""


class Characterizer:
    """An observer (watch/observer.py) that counts a batch's I/O."""

    def __init__(
        self, engine: Path | None, bpftrace: str = "bpftrace", proc: Path = Path("/proc")
    ) -> None:
        self._engine = engine
        self._bpftrace = bpftrace
        self._proc = proc
        self._counting: Counting | None = None
        self._recording: BlockRecording | None = None
        self._no_recording = "the engine is not installed"
        self._watch: Watch | None = None
        self._mounts: dict[str, DeviceMount] = {}
        self.recorded: Characterization | None = None
        """The result for the last batch."""

    def begin(self, watch: Watch) -> None:
        """Start counting. Raises ObserverError `characterize-unavailable`."""
        self.close()
        self.recorded = None
        if os.geteuid() != 0:
            raise ObserverError(CODE, _ORDINARY)
        self._watch = watch
        self._mounts = self._mounted(watch)
        # Of a server that runs already, its own tree alone: the other servers have observers too.
        tree = (
            tree_below(None, [watch.root_pid], self._proc)
            if watch.root_counts
            else tree_below(watch.root_pid, watch.target_pids, self._proc)
        )
        place = watch.directory / f"{watch.stem}.counts"
        self._counting = start_counting(shutil.which(self._bpftrace), tree, place)
        self._record(watch)

    def end(self) -> None:
        """Stop counting and read the counts. Raises ObserverError."""
        counting, self._counting = self._counting, None
        if counting is None or self._watch is None:
            return
        try:
            seconds = counting.finish()
            counted = self._understood(counting, seconds)
            self.recorded = self._kept(self._traced(counted), self._watch)
        finally:
            counting.discard()
            self.close()

    def close(self) -> None:
        """Stop everything and discard the counts."""
        counting, self._counting = self._counting, None
        recording, self._recording = self._recording, None
        if counting is not None:
            counting.discard()
        if recording is not None:
            recording.close()
            recording.output.unlink(missing_ok=True)

    def _record(self, watch: Watch) -> None:
        if self._engine is not None:
            try:
                output = watch.directory / f"{watch.stem}.bw"
                self._recording = BlockRecording(self._engine, output)
            except (BlockRecordingError, OSError) as why:
                self._no_recording = str(why)

    def _mounted(self, watch: Watch) -> dict[str, DeviceMount]:
        own = mounts(self._proc / str(watch.root_pid) / "mountinfo")
        return own or mounts(self._proc / "self" / "mountinfo")

    def _understood(self, counting: Counting, seconds: float) -> Characterization:
        """Return the counts. Raises ObserverError for any fault in the output."""
        try:
            with counting.place.open(errors="replace") as lines:
                return self._described(totals(lines), counting, seconds)
        except _NOT_UNDERSTOOD as why:
            what = f"the output of {counting.method} cannot be read: {why!r}"
            raise ObserverError(CODE, what) from None

    def _described(self, found: Totals, counting: Counting, seconds: float) -> Characterization:
        assert self._watch is not None, "a batch was started"
        # The first mount of a device stays; new devices are added.
        self._mounts = {**self._mounted(self._watch), **self._mounts}
        numbers = {device_name(int(key[1])) for key in found.maps.get("blk", {})}
        around = DescriptionContext(
            method=counting.method,
            begin_ns=counting.begin_ns,
            seconds=seconds,
            page_size=os.sysconf("SC_PAGE_SIZE"),
            mounts=self._mounts,
            disks={number: disk_name(number) or number for number in numbers},
            nodes={number: node_name(number) for number in nodes_used(found.maps)},
            absent=tuple(counting.absent()),
        )
        return describe_io(found, around)

    def _traced(self, counted: Characterization) -> Characterization:
        """Return the counts with the results of the block layer's trace."""
        recording, self._recording = self._recording, None
        why = self._no_recording
        trace: BlockTrace | None = None
        if recording is not None:
            disks = disks_below(devices_used(counted), self._mounts)
            try:
                trace = recording.finish(disks)
            except (BlockRecordingError, OSError) as refused:
                why = str(refused)
        absent = counted.absent if trace else (*counted.absent, ("block trace", why))
        return msgspec.structs.replace(counted, trace=trace, absent=absent)

    def _kept(self, counted: Characterization, watch: Watch) -> Characterization:
        """Store the counts beside the series; return them with the file's name."""
        study = watch.directory if watch.root_counts else watch.directory.parent.parent
        place = watch.directory / f"{watch.stem}.io.json"
        trace = counted.trace
        if trace is not None:
            trace_file = str(Path(trace.file).relative_to(study))
            trace = msgspec.structs.replace(trace, file=trace_file)
        name = str(place.relative_to(study))
        counted = msgspec.structs.replace(counted, trace=trace, file=name)
        try:
            # A link in a directory of somebody else is not followed.
            with place.open("xb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(counted)))
        except OSError as why:
            raise ObserverError(CODE, f"the counts cannot be stored: {why}") from None
        return counted
