"""The Python API: measure in a child process, read results as types and data frames
(docs/library.md)."""

from __future__ import annotations

from benchwright.api.calls import compare, load, peak, run
from benchwright.api.frames import StudyFrame
from benchwright.api.results import (
    CompareResult,
    LoadResult,
    PeakResult,
    RunResult,
)
from benchwright.api.studies import OpenStudy, open_study

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
