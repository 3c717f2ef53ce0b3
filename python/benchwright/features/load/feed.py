"""Python filaments for the engine: imports the class that a workload names, and writes
its operations ahead of time to a FIFO."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.features.load.plan import PreparedLoad
from benchwright.features.load.request import LoadRequest
from benchwright.features.load.samples import Batch, blocks_of, encode_header, end_block, rows_of
from benchwright.features.load.workload import Trace
from benchwright.features.load.workload_toml import PythonFilament

# -- The class of a Python filament: imported, created and checked ---------------------
#
# Decision: a file beside the workload takes precedence over an installed module, so that a
# workload and its pattern can be moved together. It is the user's own code and runs as such.


def batches_of(spec: PythonFilament) -> Iterator[Batch]:
    """Return the batches of a filament's class, before the first is made. Raises InputError."""
    try:
        found = getattr(_module(spec), spec.name)
        made: Any = found(**spec.arguments)
        batches = iter(made.batches())
    except Exception as error:
        raise filament_failed(spec, "cannot be made", error) from error
    return _checked(spec, batches)


def _module(spec: PythonFilament) -> ModuleType:
    path = Path(spec.directory, *spec.module.split(".")).with_suffix(".py")
    if not path.is_file():
        return importlib.import_module(spec.module)
    described = importlib.util.spec_from_file_location(spec.module, path)
    assert described is not None, "a .py file can be loaded"
    assert described.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(described)
    sys.modules.setdefault(spec.module, module)
    described.loader.exec_module(module)
    return module


def _checked(spec: PythonFilament, batches: Iterator[Any]) -> Iterator[Batch]:
    """Yield batches after checking that they follow each other in time. Raises InputError."""
    last_ns = 0
    while True:
        try:
            batch = next(batches)
            if not isinstance(batch, Batch):
                raise TypeError(f"it yielded {type(batch).__name__}, not Batch")
            if len(batch) and batch.at_ns[0] < last_ns:
                raise ValueError(
                    f"a batch begins before {last_ns} ns, where the previous one ended"
                )
        except StopIteration:
            return
        except Exception as error:
            raise filament_failed(spec, "failed", error) from error
        if len(batch):
            last_ns = int(batch.at_ns[-1])
            yield batch


def filament_failed(spec: PythonFilament, what: str, error: Exception) -> InputError:
    """Return the error for a filament whose class fails."""
    file, line, column = spec.where.rsplit(":", 2)
    message = f"{spec.module}:{spec.name} {what}: {type(error).__name__}: {error}"
    place = Diagnostic(
        code="workload-python",
        message=message,
        hint="docs/workload-toml.md describes such a class",
        file=file,
        line=int(line),
        column=int(column),
    )
    return InputError([place])


# -- Feeds Python filaments to the engine, each through its own FIFO -------------------
#
# Decision: for each filament, a thread writes our own trace format into a FIFO in a private
# directory; the pipe's size limits how far it is ahead, and the engine's reader buffers
# more blocks. Rejected: a file, because a filament may be endless. The interpreter's
# lock does not matter: the engine is another process.

FORMAT = "bw"
_POLL_S = 0.005
_PATIENCE_S = 5


@contextlib.contextmanager
def fed(plan: PreparedLoad) -> Iterator[LoadRequest]:
    """Yield the request while its Python filaments are fed.

    Raises InputError if a class fails; it replaces the engine's report that the trace
    ended too soon.
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


def _with_paths(plan: PreparedLoad, feeders: list[_Feeder]) -> LoadRequest:
    filaments = list(plan.request.workload.filaments)
    for feeder in feeders:
        # exact: the class sets the place of each operation; nothing is to be moved.
        filaments[feeder.place] = Trace(path=str(feeder.path), format=FORMAT, offsets="exact")
    workload = msgspec.structs.replace(plan.request.workload, filaments=tuple(filaments))
    return msgspec.structs.replace(plan.request, workload=workload)


class _Feeder:
    """The thread and FIFO of one filament."""

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
        """Start to produce batches."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread; the engine has already ended."""
        self._over.set()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            descriptor = self._opened()
            if descriptor is not None:
                with os.fdopen(descriptor, "wb", buffering=0) as pipe:
                    self._feed(pipe.fileno())
        except BrokenPipeError:
            return  # the engine has ended: the rest is not needed
        except InputError as error:
            self.error = error

    def _feed(self, descriptor: int) -> None:
        _write_all(descriptor, encode_header(self.source))
        for batch in self._batches:
            for block in blocks_of(rows_of(batch)):
                _write_all(descriptor, block)
        _write_all(descriptor, end_block())

    def _opened(self) -> int | None:
        """Return the FIFO's descriptor as soon as the engine reads it; None if it never does.

        Opens without blocking: the engine may die first, and the open would never return.
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
