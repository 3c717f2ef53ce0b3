"""Feeds filaments in Python to the engine: each by a FIFO, written ahead of time.

Decision: a thread for each writes our own trace format into a FIFO in a private
directory; the pipe is the bound on how far ahead it is, and the engine's reader keeps
blocks of its own. What lost was a file: it would hold what has no end. The
interpreter's lock is no matter: the engine is another process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchwright.load.filaments import PythonFilament
from benchwright.load.plan import Plan
from benchwright.load.python_filament import batches_of
from benchwright.load.request import LoadRequest
from benchwright.load.segment import blocks_of, end_block, header, rows_of
from benchwright.load.workload import Trace
from benchwright.model.errors import InputError

FORMAT = "bw"
_POLL_S = 0.005
_PATIENCE_S = 5


@contextlib.contextmanager
def fed(plan: Plan) -> Iterator[LoadRequest]:
    """Yield the request whose Python filaments are fed while it is in use.

    Raises InputError when a class fails: it comes before what the engine says of the
    trace that then ended too soon.
    """
    if not plan.python:
        yield plan.request
        return
    with tempfile.TemporaryDirectory(prefix="bw-load-") as directory:
        feeders = [_Feeder(spec, Path(directory)) for spec in plan.python]
        for feeder in feeders:
            feeder.start()
        try:
            yield _with_paths(plan, feeders)
        finally:
            for feeder in feeders:
                feeder.finish()
            for feeder in feeders:
                if feeder.error is not None:
                    raise feeder.error


def _with_paths(plan: Plan, feeders: list[_Feeder]) -> LoadRequest:
    filaments = list(plan.request.workload.filaments)
    for feeder in feeders:
        # exact: a class says where its operations go; nothing is to be moved.
        filaments[feeder.place] = Trace(
            path=str(feeder.path), format=FORMAT, offsets="exact"
        )
    workload = msgspec.structs.replace(
        plan.request.workload, filaments=tuple(filaments)
    )
    return msgspec.structs.replace(plan.request, workload=workload)


class _Feeder:
    """One filament's thread and FIFO."""

    def __init__(self, spec: PythonFilament, directory: Path) -> None:
        self.place = spec.place
        self.source = f"{spec.module}:{spec.name}"
        self.path = directory / f"filament-{spec.place}.bw"
        self.error: InputError | None = None
        self._batches = batches_of(spec)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        os.mkfifo(self.path, 0o600)

    def start(self) -> None:
        """Begin to make batches."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread; the engine has gone away already."""
        self._over.set()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            descriptor = self._opened()
            if descriptor is not None:
                with os.fdopen(descriptor, "wb", buffering=0) as pipe:
                    self._feed(pipe.fileno())
        except BrokenPipeError:
            return  # the engine has ended: nobody needs the rest
        except InputError as error:
            self.error = error

    def _feed(self, descriptor: int) -> None:
        _write_all(descriptor, header(self.source))
        for batch in self._batches:
            for block in blocks_of(rows_of(batch)):
                _write_all(descriptor, block)
        _write_all(descriptor, end_block())

    def _opened(self) -> int | None:
        """Return the FIFO's descriptor once the engine reads it; None if it never does.

        Opened without waiting: an engine that dies before would leave us waiting.
        """
        while not self._over.is_set():
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                self._over.wait(_POLL_S)
            else:
                os.set_blocking(descriptor, True)
                return descriptor
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
