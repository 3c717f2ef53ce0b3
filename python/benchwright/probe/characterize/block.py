"""The block layer recorded while the others count: bw-engine's own capture, and its measure.

Decision: all requests of all devices are recorded, whoever issued them: what the page cache
writes later comes from kernel threads, and which devices matter is known only afterwards. The
file stays, so that `bw trace compare` can hold it against a production trace. Source:
docs/engine-protocol.md.
"""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchwright.model.characterized import BlockTrace
from benchwright.model.trace import CaptureResult
from benchwright.model.trace_stat import StatResult

_PATIENCE_S = 30
T = TypeVar("T")


class BlockRecordingError(Exception):
    """Why the block layer cannot be recorded, in words for a person."""


class BlockRecording:
    """One capture by one engine."""

    def __init__(self, engine: Path, output: Path) -> None:
        """Begin it and wait until events flow. Raises BlockRecordingError."""
        self.output = output
        self._engine = engine
        self._process = _asked(engine, {"type": "trace-capture", "output": str(output)})
        try:
            if _answer(self._process).get("type") != "ready":
                raise BlockRecordingError("the engine does not say that it records")
        except BlockRecordingError:
            self.close()
            raise

    def finish(self, devices: Sequence[str]) -> BlockTrace:
        """End it; return what it holds, measured for these devices alone.

        Raises BlockRecordingError.
        """
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            result = _converted(_answer(self._process), CaptureResult)
        finally:
            self.close()
        trace = BlockTrace(
            str(self.output), result.operations, result.lost_events, tuple(devices)
        )
        known = [device for device in devices if device in result.devices]
        if not known or not result.operations:
            return trace
        return _measured(trace, self._stat(known))

    def close(self) -> None:
        """End the engine if it still runs."""
        _closed(self._process)

    def _stat(self, devices: Sequence[str]) -> StatResult:
        request = {"path": str(self.output), "devices": list(devices)}
        process = _asked(self._engine, {"type": "trace-stat", "input": request})
        try:
            while True:
                said = _answer(process)
                if said.get("type") == "result":
                    return _converted(said, StatResult)
        finally:
            _closed(process)


def _measured(trace: BlockTrace, stat: StatResult) -> BlockTrace:
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


def _asked(engine: Path, request: dict[str, Any]) -> subprocess.Popen[bytes]:
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
    """Return the next line of an engine. Raises BlockRecordingError, as the engine says."""
    assert process.stdout is not None, "it is a pipe"
    ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_S)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise BlockRecordingError("the engine ended and said nothing")
    try:
        said = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BlockRecordingError(f"no answer of the engine's: {error}") from None
    if said.get("type") == "error":
        raise BlockRecordingError(str(said.get("message", "the engine refused")))
    return said


def _converted(said: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise BlockRecordingError(
            f"an answer that is not understood: {error}"
        ) from None


def _closed(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
