"""The load engine's Python side: descriptions of load, requests, results, samples.

Python never measures: it writes a request, starts `bw-engine`, and reads its output
(docs/engine-protocol.md). The names of `__all__` are the Python API; each is imported
at its first use, so importing this package loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchwright import make_callable

if TYPE_CHECKING:
    from benchwright.features.load.samples import Batch, Filament, iter_samples, read_samples


__all__ = ["Batch", "Filament", "iter_samples", "read_samples"]

_HOMES = {
    "Batch": "samples",
    "Filament": "samples",
    "iter_samples": "samples",
    "read_samples": "samples",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"benchwright.features.load.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


make_callable(__name__)
