"""The contract of a parser (detect a file, read it into tests), and the content of a results file,
whatever it is packed and encoded in.

Purpose: the interface of a plug-in, and what the shipped parsers share: collecting mistakes,
reading text and numbers. Decision: a Protocol rather than a base class, so that a
plug-in need not import Benchwright at run time. Non-goal: transforming what is read.
Source: Auto-pilot paper, section 3.3 (Getstats' parsers are modular: a detection
function and a parsing function).

Purpose: every format is read alike as plain text, as gzip (`k6 --out json=FILE.gz`), and in UTF-16
with a byte order mark (`>` of PowerShell). Decision: the content is bytes of UTF-8 without a mark,
for detection as for reading, so that no parser knows about it.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, cast

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.results import Finding
from benchwright.core.text import some_text
from benchwright.core.untrusted import open_regular
from benchwright.findings.codes import make_finding
from benchwright.findings.result import TestResult

MOST_BYTES = 1 << 28
"""The largest content that is unpacked or recoded, and the largest JSON document [bytes]."""
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # Before UTF-16, whose mark is its start.
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def damaged_content(path: Path, what: str) -> InputError:
    """Return the error for a file whose content cannot be had."""
    hint = "let the tool write the file again"
    return InputError([Diagnostic("damaged-content", f"{path}: {what}", hint, file=str(path))])


@contextlib.contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its content. Raises InputError for damaged compressed data, also while it
    is read; OSError."""
    try:
        with contextlib.ExitStack() as opened:
            file: IO[bytes] = opened.enter_context(open_regular(path))
            if _starts(file, len(_GZIP)) == _GZIP:
                packed = gzip.GzipFile(fileobj=file)
                file = cast("IO[bytes]", opened.enter_context(packed))
            start = _starts(file, 4)
            for mark, encoding in _MARKS:
                if start.startswith(mark):
                    file.seek(len(mark))
                    yield (file if encoding == "utf-8" else _recoded(path, file, encoding))
                    return
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged_content(path, f"its compressed data is damaged: {error}") from None


def _starts(file: IO[bytes], size: int) -> bytes:
    start = file.read(size)
    file.seek(0)
    return start


def _recoded(path: Path, file: IO[bytes], encoding: str) -> IO[bytes]:
    text = _read_whole(path, file).decode(encoding, "replace").replace("\r\n", "\n")
    return io.BytesIO(text.encode("utf-8", "replace"))


def _read_whole(path: Path, file: IO[bytes], most: int = MOST_BYTES) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise damaged_content(path, f"it is larger than {most >> 20} MiB")
    return data


def content_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file's content, at most `size`. Raises InputError, OSError."""
    with open_content(path) as file:
        return file.read(size)


def read_content(path: Path) -> bytes:
    """Return the whole content of a file. Raises InputError, OSError."""
    most = max(MOST_BYTES, path.stat().st_size)
    with open_content(path) as file:
        return _read_whole(path, file, most)


def content_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file's content; bytes that are not UTF-8 become `\\xNN`. Raises
    InputError, OSError."""
    with open_content(path) as file:
        for line in file:
            yield line.decode("utf-8", "backslashreplace")


ParsedInput = TestResult
"""The name of this type in plug-ins for version 0.1."""


def stated_settings(one: TestResult) -> dict[str, str]:
    """Return what the tool of a file states about how it ran a test; nothing for one of a study."""
    return {} if one.origin is None else dict((*one.sample, *one.settings))


def has_only_estimates(one: TestResult) -> bool:
    """Return whether a file states estimates of a test and no trial."""
    return bool(one.summaries) and not one.trials


def without_estimates(one: TestResult) -> TestResult:
    """Return a test without what its file states, which is then not missing from its trials either."""
    measured = {name for trial in one.trials for block in trial.blocks for name in block.values}
    stated = {summary.name for summary in one.summaries} - measured
    return msgspec.structs.replace(
        one, summaries=(), specs=tuple(spec for spec in one.specs if spec.name not in stated)
    )


def numbered(tests: Iterable[TestResult]) -> list[TestResult]:
    """Return the tests of one run with distinct names, so that two results with one name stay two:
    the second `sleep` is `sleep#2`."""
    seen: Counter[str] = Counter()
    result = []
    for test in tests:
        seen[test.name] += 1
        number = seen[test.name]
        name = test.name if number == 1 else f"{test.name}#{number}"
        result.append(msgspec.structs.replace(test, name=name))
    return result


_DURATIONS = ("elapsed", "user", "system", "cpu_time")


def negative_times(tests: Iterable[TestResult]) -> Iterator[str]:
    """Yield what is wrong with each time below 0, with its test and trial."""
    for test in tests:
        stated = (
            ("", stat.name, value) for stat in test.summaries for value in (stat.mean, stat.median)
        )
        measured = (
            (f", trial {block.epoch}", name, value)
            for block in test.blocks
            for name, value in block.values.items()
        )
        for trial, name, value in (*stated, *measured):
            if name in _DURATIONS and value < 0:
                yield f"{name} of {test.name!r}{trial} is {value:g} s: a time is not below 0"


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

    def on(self, path: Path, tests: list[TestResult]) -> list[TestResult]:
        """Return the tests of a file; the first has the finding about what was not read."""
        if not self._found or not tests:
            return tests
        return _with_finding(tests, make_finding("results-not-read", str(path), str(self)))


def _with_finding(tests: list[TestResult], found: Finding) -> list[TestResult]:
    """Return the tests of a file; the first has also this finding."""
    first = msgspec.structs.replace(tests[0], session_findings=(*tests[0].session_findings, found))
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

    def read(self, path: Path) -> list[TestResult]:
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
        self._settings: list[str] = []

    def setting(self, name: str, levels: Sequence[str]) -> None:
        """Add a column of numbers that is read as a setting, with its levels."""
        self._settings.append(f"{name} ({some_text(levels, MOST_NOT_READ)})")

    def not_read(self, line: int, what: str) -> None:
        """Add a result that is not understood and left out, with its line; it is no mistake."""
        self._not_read.add(f"{self._path}:{line}", what)

    def results(self, tests: list[TestResult], hint: str) -> list[TestResult]:
        """Return the tests of the text, with the finding about what was not read. Raises InputError
        with all mistakes; it is one if there is no test."""
        if not tests:
            why = f"; {self._not_read}" if self._not_read else ""
            self.add((1, 1), "", f"there is no result that can be read{why}", hint)
        for wrong in negative_times(tests):
            self.add((1, 1), "", wrong, hint)
        self.check()
        if self._settings:
            columns = f"not as results: {'; '.join(self._settings)}"
            tests = _with_finding(tests, make_finding("read-as-setting", self._path, columns))
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
