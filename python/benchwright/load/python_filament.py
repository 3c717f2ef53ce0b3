"""The class that a workload names for a filament in Python: found, made, asked.

Decision: a file beside the workload comes before an installed module, so that a workload
and its pattern travel together. It is the user's own code and runs as such.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from benchwright.load.filament import Batch
from benchwright.load.filaments import PythonFilament
from benchwright.model.errors import Diagnostic, InputError


def batches_of(spec: PythonFilament) -> Iterator[Batch]:
    """Return the batches of a filament's class, not yet begun. Raises InputError."""
    try:
        found = getattr(_module(spec), spec.name)
        made: Any = found(**spec.arguments)
        batches = iter(made.batches())
    except Exception as error:
        raise failed(spec, "cannot be made", error) from error
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
    """Yield batches that follow each other in time. Raises InputError."""
    last_ns = 0
    while True:
        try:
            batch = next(batches)
            if not isinstance(batch, Batch):
                raise TypeError(f"it yielded {type(batch).__name__}, not Batch")
            if len(batch) and batch.at_ns[0] < last_ns:
                raise ValueError(f"a batch begins before {last_ns} ns, where one ended")
        except StopIteration:
            return
        except Exception as error:
            raise failed(spec, "failed", error) from error
        if len(batch):
            last_ns = int(batch.at_ns[-1])
            yield batch


def failed(spec: PythonFilament, what: str, error: Exception) -> InputError:
    """Return the error of a filament whose class does not do its part."""
    file, line, column = spec.where.rsplit(":", 2)
    message = f"{spec.module}:{spec.name} {what}: {type(error).__name__}: {error}"
    place = Diagnostic(
        code="workload-python",
        message=message,
        hint="docs/workload-toml.md says what such a class has to do",
        file=file,
        line=int(line),
        column=int(column),
    )
    return InputError([place])
