"""The contract of a parser: detect a file, read it into tests.

Purpose: the interface of a plug-in, and what the shipped parsers share: collecting mistakes,
reading text and numbers. Decision: a Protocol rather than a base class, so that a
plug-in need not import Benchwright at run time. Non-goal: transforming what is read.
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
from benchwright.core.results import Finding, Summary
from benchwright.findings.observed import ObservedFiles
from benchwright.stats.aggregate import trials_of_blocks


class FileOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of another tool says about where its numbers come from."""

    tool: str
    """Its name and, if the file has it, its version: `pyperf 2.10.0`."""
    commit: str = ""
    """The measured commit, as the file has it; empty if it is unknown."""
    commit_time_ns: int | None = None
    """When it was committed [ns since 1970]."""
    started_ns: int | None = None
    """When it was measured [ns since 1970]."""
    machine: str = ""
    """The machine's name."""
    main: tuple[str, ...] = ()
    """The quantities that a comparison judges, of many; empty for all that are declared."""


class ParsedInput(msgspec.Struct, frozen=True):
    """One test as read from a file or a study."""

    name: str
    blocks: tuple[MeasurementBlock, ...]
    """Its measurement blocks, in the order of the source."""
    specs: tuple[MetricSpec, ...] = ()
    """Declared metrics, if the source has them."""
    trials: tuple[Trial, ...] | None = None
    """Whole trials, including void ones, if the source has them (a study does)."""
    rule: StoppingRule | None = None
    stop: StopDecision | None = None
    sample: tuple[tuple[str, str], ...] = ()
    arm: ComparisonArm | None = None
    """The comparison of which the test is an arm, if any."""
    source: str = ""
    """The user's argument, a path or `STUDY:TEST`; the reader fills it in."""
    test: str = ""
    """Its name in the source, before names were made unique."""
    skipped: tuple[str, ...] = ()
    """Columns without numbers, which are in no table."""
    findings: tuple[Finding, ...] | None = None
    """Findings about the test, as its session stored them; None if they must be computed
    (study/findings.py), as after a transformation of the trials."""
    status: str = ""
    """How its session ended; empty for what is not a test of a study."""
    baseline: str = "first"
    """What the ratios of its session refer to."""
    session_findings: tuple[Finding, ...] = ()
    """Findings about its session as a whole; only the session's first test has them."""
    profiles: tuple[CpuProfile, ...] = ()
    characterized: Characterization | None = None
    """The I/O of an extra trial, which is in no figure."""
    deselected: int = 0
    """Number of trials that a selection or grouping left out."""
    machine: MachineCapture | None = None
    """The machine at its session's start, if it is stored."""
    gang: str = ""
    """The hosts of the gang of a pool that measured it; empty: none did, or one of this machine."""
    files: ObservedFiles | None = None
    """The files of its profiles and characterized I/O, if the source has them."""
    summaries: tuple[Summary, ...] = ()
    """What a file states about quantities of which it has no values: in tables as it is, with the
    file's own interval or without one."""
    origin: FileOrigin | None = None
    """Where the numbers of another tool's file come from."""


def trials_of(one: ParsedInput) -> tuple[Trial, ...]:
    """Return an input's trials: its own, or trials made from its blocks."""
    if one.trials is not None:
        return one.trials
    return trials_of_blocks(one.name, one.blocks)


class ResultParser(Protocol):
    """The interface of a plug-in's `PARSER` object.

    A parser of a file with several commits also has `history(path)`, which returns the tests of each
    commit, with its origin.
    """

    @property
    def name(self) -> str:
        """The name of the format, in messages."""

    @property
    def description(self) -> str:
        """What it reads, in a few words."""

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether this parser reads the file; `head` is the file's first bytes."""

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the tests of the file. Raises InputError with every mistake."""


_MOST_REPORTED = 50
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def parse_finite(text: str) -> float | None:
    """Return a finite decimal number; None if the text is not one.

    Stricter than float(): rejects `1_000`, `nan` and digits of other scripts.
    """
    if _NUMBER.fullmatch(text.strip()) is None:
        return None
    value = float(text)
    return value if value - value == 0 else None


def parse_whole(text: str) -> int | None:
    """Return a whole number of at most 18 digits; None if the text is not one."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else None


class ParseErrors:
    """Collects the mistakes of one text, so that all are reported at once.

    Reports the first 50 mistakes, then the number of further ones.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path = str(path)
        self._code = code
        self._found: list[Diagnostic] = []
        self._more = 0

    def add(
        self, place: tuple[int, int], text: str, message: str, hint: str = ""
    ) -> None:
        """Add a mistake at (line, column)."""
        line, column = place
        if len(self._found) == _MOST_REPORTED:
            self._more += 1
            return
        self._found.append(
            Diagnostic(self._code, message, hint, self._path, line, column, text)
        )

    def check(self) -> None:
        """Raise InputError if there is any mistake."""
        if self._more:
            last = self._found[-1]
            note = f"{last.message} (and {self._more} more mistakes)"
            self._found[-1] = msgspec.structs.replace(last, message=note)
        if self._found:
            raise InputError(self._found)


def read_mixed_text(path: Path) -> str:
    """Return the text of a file that contains raw output of programs: bytes that are not UTF-8
    become `\\xNN`."""
    return path.read_bytes().decode("utf-8-sig", "backslashreplace")


def read_text(path: Path, code: str) -> str:
    """Return a file's text. Raises InputError if it is not UTF-8."""
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
