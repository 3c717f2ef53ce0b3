"""The contract of a parser: detect a file, read it into tests.

Purpose: what a plug-in offers, and what the shipped ones share: gathering mistakes,
reading text and numbers. Decision: a Protocol rather than a base class, so that a
plug-in needs nothing of ours at run time. Non-goal: no transformation of what is read.
Source: Auto-pilot paper, section 3.3 (Getstats' parsers are modular: a detection
function and a parsing function).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

import msgspec

from benchwright.core.characterization import Characterization
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import CpuProfile, MeasurementBlock, Trial
from benchwright.core.plan import ComparisonArm, MetricSpec, StopDecision, StoppingRule
from benchwright.core.results import Finding
from benchwright.findings.observed import ObservedFiles
from benchwright.stats.aggregate import trials_of_blocks


class ParsedInput(msgspec.Struct, frozen=True):
    """One test as a file or a study holds it."""

    name: str
    blocks: tuple[MeasurementBlock, ...]
    """Its measurement blocks, in the order of the source."""
    specs: tuple[MetricSpec, ...] = ()
    """Declared metrics, where the source knows them."""
    trials: tuple[Trial, ...] | None = None
    """Whole trials, void ones too, where the source keeps them (a study does)."""
    rule: StoppingRule | None = None
    stop: StopDecision | None = None
    sample: tuple[tuple[str, str], ...] = ()
    arm: ComparisonArm | None = None
    """Of which comparison the test is an arm, if of any."""
    source: str = ""
    """What the user named it by, a path or `STUDY:TEST`; filled in by the reader."""
    test: str = ""
    """Its name there, before names were made to differ."""
    skipped: tuple[str, ...] = ()
    """Columns without any number, which are in no table."""
    findings: tuple[Finding, ...] | None = None
    """About the test, as its session stored them; None where they are to be computed
    (study/findings.py), as after a transformation of the trials."""
    session_findings: tuple[Finding, ...] = ()
    """About its session as a whole, with the first of its tests."""
    profiles: tuple[CpuProfile, ...] = ()
    characterized: Characterization | None = None
    """Of a trial of its own, which is in no figure."""
    deselected: int = 0
    """Trials that a selection or grouping left out."""
    machine: MachineCapture | None = None
    """On which it was measured, at its session's beginning, where that is stored."""
    files: ObservedFiles | None = None
    """Where its source keeps what was observed of it beside its figures."""


def trials_of(one: ParsedInput) -> tuple[Trial, ...]:
    """Return an input's trials: its own, or made of its rows."""
    if one.trials is not None:
        return one.trials
    return trials_of_blocks(one.name, one.blocks)


class ResultParser(Protocol):
    """What a plug-in's `PARSER` object offers."""

    name: str
    description: str

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether this parser reads the file; `head` is its beginning."""

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the tests of the file. Raises InputError with every mistake."""


_MOST_REPORTED = 50
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def parse_finite(text: str) -> float | None:
    """Return a finite decimal number, or None where the text is none.

    Stricter than float(): `1_000`, `nan` and digits of other scripts are text.
    """
    if _NUMBER.fullmatch(text.strip()) is None:
        return None
    value = float(text)
    return value if value - value == 0 else None


def parse_whole(text: str) -> int | None:
    """Return a whole number of at most 18 digits, or None where the text is none."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else None


class ParseErrors:
    """Gathers the mistakes of one text, so that all are reported at once.

    Of a file that is all mistakes the first 50 are reported, then how many more there are.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path = str(path)
        self._code = code
        self._found: list[Diagnostic] = []
        self._more = 0

    def add(
        self, place: tuple[int, int], text: str, message: str, hint: str = ""
    ) -> None:
        """Note a mistake at (line, column)."""
        line, column = place
        if len(self._found) == _MOST_REPORTED:
            self._more += 1
            return
        self._found.append(
            Diagnostic(self._code, message, hint, self._path, line, column, text)
        )

    def check(self) -> None:
        """Raise InputError if there was any mistake."""
        if self._more:
            last = self._found[-1]
            note = f"{last.message} (and {self._more} more mistakes)"
            self._found[-1] = msgspec.structs.replace(last, message=note)
        if self._found:
            raise InputError(self._found)


def read_mixed_text(path: Path) -> str:
    """Return the text of a file that programs' raw output is part of: bytes that are
    not UTF-8 become `\\xNN`."""
    return path.read_bytes().decode("utf-8-sig", "backslashreplace")


def read_text(path: Path, code: str) -> str:
    """Return a file's text. Raises InputError where it is not UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = Diagnostic(
            code,
            f"byte {data[error.start]:#04x} is not UTF-8",
            "results are text: convert the file to UTF-8",
            str(path),
            line,
            column,
        )
        raise InputError([problem]) from None
