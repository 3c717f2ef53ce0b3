"""The Python API: measure in a child process, read results as types and data frames (docs/library.md).

`load`, `peak` and their results are added by the features of these names.
"""

from __future__ import annotations

from typing import Any

from benchwright.api.calls import compare, run
from benchwright.api.frames import StudyFrame
from benchwright.api.results import CompareResult, OpenStudy, RunResult, open_study
from benchwright.feature import call, calls

__all__ = [
    "CompareResult",
    "LoadResult",
    "OpenStudy",
    "PeakResult",
    "RunResult",
    "StudyFrame",
    "compare",
    "load",
    "open_study",
    "peak",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in calls():
        return call(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
