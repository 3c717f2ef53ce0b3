"""Benchwright: benchmarks and load tests, with confidence intervals and known problems.

`run`, `compare`, `load`, `peak` and `open_study` are the Python API (docs/library.md). Each is
loaded at its first use, so that this import loads no other module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchwright.api import compare, load, open_study, peak, run

__version__ = "0.1.0"
__all__ = ["compare", "load", "open_study", "peak", "run"]


def __getattr__(name: str) -> Any:
    """Return a function of the Python API."""
    if name in ("run", "load"):
        return import_module(f"benchwright.{name}")
    if name in __all__:
        return getattr(import_module("benchwright.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _CallableRoom(ModuleType):
    """A room with the name of a function of the Python API, which calls that function.

    The import of a room sets the attribute of this package, whatever the attribute was.
    """

    def __call__(self, *words: Any, **options: Any) -> Any:
        """Call the function of the Python API."""
        name = self.__name__.removeprefix("benchwright.")
        return getattr(import_module("benchwright.api"), name)(*words, **options)


def make_callable(room: str) -> None:
    """Let `benchwright.run(...)` call the function of the Python API, although `run` is a room too."""
    sys.modules[room].__class__ = _CallableRoom
