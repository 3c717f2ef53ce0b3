"""The contract of a parser: detect a file, read it into tests.

Purpose: the interface of a plug-in, and what the shipped parsers share: collecting mistakes,
reading text and numbers. Decision: a Protocol rather than a base class, so that a
plug-in need not import Benchwright at run time. Non-goal: transforming what is read.
Source: Auto-pilot paper, section 3.3 (Getstats' parsers are modular: a detection
function and a parsing function).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import CpuProfile, MeasurementBlock, Trial
from benchwright.core.plan import SUCCESS, ComparisonArm, MetricSpec, StopDecision, StoppingRule
from benchwright.core.results import Finding, Summary
from benchwright.core.text import some_text
from benchwright.findings.codes import make_finding
from benchwright.findings.observed import ObservedFiles
from benchwright.stats.aggregate import trials_of_blocks
from benchwright.study.parsers.content import read_content


class FileOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of another tool says about where its numbers come from."""

    tool: str
    """Its name and, if the file has it, its version: `pyperf 2.10.0`."""
    commit: str = ""
    """The measured commit, as the file has it; empty if it is unknown."""
    dirty: bool = False
    """Whether files of the repository differed from the commit."""
    commit_time_ns: int | None = None
    """When it was committed [ns since 1970]."""
    started_ns: int | None = None
    """When it was measured [ns since 1970]."""
    machine: str = ""
    """The machine's name."""
    run: str = ""
    """What distinguishes the run from others of its file, beside commit and time: `note=before`."""
    main: tuple[str, ...] = ()
    """The quantities that a comparison judges, of many; empty for all that are declared."""
    labels: tuple[tuple[str, str], ...] = ()
    """Configuration that the name of the test has in a history where it distinguishes results of
    one run."""

    @property
    def order_ns(self) -> int | None:
        """Its place among the runs of a history [ns since 1970], None if it is unknown: the time of
        the commit, so that an old commit that is measured later stays an old one. A nanosecond for
        each second until the measurement orders the runs of one commit."""
        if self.commit_time_ns is None or self.started_ns is None:
            return self.started_ns if self.commit_time_ns is None else self.commit_time_ns
        later_s = (self.started_ns - self.commit_time_ns) // 10**9
        return self.commit_time_ns + min(max(later_s, 0), 10**9 - 1)


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
    full_name: str = ""
    """Its name with its package or class, which `name` has only where the file needs it; empty if
    the source has none. What matches the tests of two sources."""
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
    recorded: Mapping[str, Any] = {}
    """What observers recorded of the test (`recorded_by`)."""
    deselected: int = 0
    """Number of trials that a selection or grouping left out."""
    machine: MachineCapture | None = None
    """The machine at its session's start, if it is stored."""
    gang: str = ""
    """The hosts of the gang of a pool that measured it; empty: none did, or one of this machine."""
    files: ObservedFiles | None = None
    """The files of its profiles and of what observers recorded, if the source has them."""
    summaries: tuple[Summary, ...] = ()
    """What a file states about quantities of which it has no values: in tables as it is, with the
    file's own interval or without one."""
    notes: tuple[str, ...] = ()
    """What is left out of what the source has, and why: each becomes a notice."""
    origin: FileOrigin | None = None
    """Where the numbers of another tool's file come from."""
    settings: tuple[tuple[str, str], ...] = ()
    """What a tool states beside the name about how it ran the test, such as `threads`."""
    version: str = ""
    """Identity of the benchmark's own code, as its tool states it: results of two versions are not
    compared."""
    clock_s: float = 0.0
    """The step in which its tool writes times [s]; 0 if it is unknown."""
    ok_status: tuple[int, ...] = SUCCESS
    """Exit statuses with which a measured command succeeds."""


def stated_settings(one: ParsedInput) -> dict[str, str]:
    """Return what the tool of a file states about how it ran a test; nothing for one of a study."""
    return {} if one.origin is None else dict((*one.sample, *one.settings))


def trials_of(one: ParsedInput) -> tuple[Trial, ...]:
    """Return an input's trials: its own, or trials made from its blocks."""
    if one.trials is not None:
        return one.trials
    return trials_of_blocks(one.name, one.blocks, one.ok_status)


def has_only_estimates(one: ParsedInput) -> bool:
    """Return whether a file states estimates of a test and no trial."""
    return bool(one.summaries) and not trials_of(one)


def without_estimates(one: ParsedInput) -> ParsedInput:
    """Return a test without what its file states, which is then not missing from its trials either."""
    measured = {name for trial in trials_of(one) for block in trial.blocks for name in block.values}
    stated = {summary.name for summary in one.summaries} - measured
    return msgspec.structs.replace(
        one, summaries=(), specs=tuple(spec for spec in one.specs if spec.name not in stated)
    )


def numbered(tests: Iterable[ParsedInput]) -> list[ParsedInput]:
    """Return the tests of one run with distinct names, so that two results with one name stay two:
    the second `sleep` is `sleep#2`."""
    seen: Counter[str] = Counter()
    result = []
    for one in tests:
        seen[one.name] += 1
        number = seen[one.name]
        name = one.name if number == 1 else f"{one.name}#{number}"
        result.append(msgspec.structs.replace(one, name=name))
    return result


_DURATIONS = ("elapsed", "user", "system", "cpu_time")


def negative_times(tests: Iterable[ParsedInput]) -> Iterator[str]:
    """Yield what is wrong with each time below 0, with its test and trial."""
    for one in tests:
        stated = (
            ("", stat.name, value) for stat in one.summaries for value in (stat.mean, stat.median)
        )
        measured = (
            (f", trial {block.epoch}", name, value)
            for block in one.blocks
            for name, value in block.values.items()
        )
        for trial, name, value in (*stated, *measured):
            if name in _DURATIONS and value < 0:
                yield f"{name} of {one.name!r}{trial} is {value:g} s: a time is not below 0"


class NotRead:
    """Collects the results of a file that its parser does not understand, each with its place.

    The other results are read, so these are no error: a finding names them in every report. Nothing
    in a file is left out without it.
    """

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Add a result at a place, such as `bench.txt:9`, with what it is and why it was not read."""
        self._found.append(f"{where}: {what}")

    def __bool__(self) -> bool:
        return bool(self._found)

    def __str__(self) -> str:
        return f"not read: {some_text(self._found, MOST_NOT_READ, '; ')}"

    def on(self, path: Path, tests: list[ParsedInput]) -> list[ParsedInput]:
        """Return the tests of a file; the first has the finding about what was not read."""
        if not self._found or not tests:
            return tests
        found = make_finding("results-not-read", str(path), str(self))
        first = msgspec.structs.replace(
            tests[0], session_findings=(*tests[0].session_findings, found)
        )
        return [first, *tests[1:]]


class ResultParser(Protocol):
    """The interface of a plug-in's `PARSER` object.

    A parser of a file with several commits also has `history(path)`, which returns the tests of
    each commit, with its origin.
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


class ResultFormats(msgspec.Struct, frozen=True):
    """Formats of result files that a feature adds: those that are read, and those that are known and
    not read."""

    parsers: tuple[ResultParser, ...]
    tools: str
    """The tools whose results they are, as a list for messages: `hyperfine, fio or k6`."""
    refusal: Callable[[Path, bytes], InputError | None]
    """Returns, of a file and its first bytes, why it is recognised and not read; None for any other.
    It is called before any parser."""
    damage: Callable[[Path, bytes], str]
    """Returns what is wrong with a file that no parser recognises; empty if that is not known."""


_MOST_REPORTED = 50
MOST_NOT_READ = 20
_NUMBER = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
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
        self._not_read = NotRead()

    def not_read(self, line: int, what: str) -> None:
        """Add a result that is not understood and left out, with its line; it is no mistake."""
        self._not_read.add(f"{self._path}:{line}", what)

    def results(self, tests: list[ParsedInput], hint: str) -> list[ParsedInput]:
        """Return the tests of the text, with the finding about what was not read. Raises InputError
        with all mistakes; it is one if there is no test."""
        if not tests:
            why = f"; {self._not_read}" if self._not_read else ""
            self.add((1, 1), "", f"there is no result that can be read{why}", hint)
        for wrong in negative_times(tests):
            self.add((1, 1), "", wrong, hint)
        self.check()
        return self._not_read.on(Path(self._path), tests)

    def add(self, place: tuple[int, int], text: str, message: str, hint: str = "") -> None:
        """Add a mistake at (line, column)."""
        line, column = place
        if len(self._found) == _MOST_REPORTED:
            self._more += 1
            return
        self._found.append(Diagnostic(self._code, message, hint, self._path, line, column, text))

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
    become `\\xNN`. Raises InputError."""
    return read_content(path).decode("utf-8", "backslashreplace")


def read_text(path: Path, code: str) -> str:
    """Return a file's text. Raises InputError if it is not UTF-8."""
    data = read_content(path)
    try:
        return data.decode("utf-8")
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
