"""JSON files of other tools: read within limits, and accessed with the place of every mistake.

Purpose: a member that is absent, null or not finite is absent; one of a wrong type is a mistake
with its path in the document (`results[0].times[3]`), and all mistakes of a file are reported at
once. Decision: `JsonFormat` is a parser of `bw stats` that is made of two functions, one that
recognises a document and one that converts it, so that a format is its conversion and nothing else.
The standard library's reader is used, because some tools write NaN and Infinity, which msgspec
rejects. Non-goal: types for the formats: tools add members in every version.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.findings.result import TestResult
from benchwright.study.parsers.api import (
    MOST_BYTES,
    NotRead,
    content_lines,
    negative_times,
    numbered,
    read_mixed_text,
)

_MOST_REPORTED = 20
_MOST_DIGITS = 18


class DamagedJson(ValueError):
    """The text is not a JSON document, or it is too deep."""

    @property
    def in_line(self) -> str:
        """What is wrong, for a document that is one line of a file: without the number of the line."""
        return str(self).removeprefix("line 1, ")


def _integer(text: str) -> float:
    """Return an integer of at most 18 digits exactly; a longer one as a float."""
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def _not_finite(name: str) -> float | None:
    """NaN and Infinity are absent values; NaN is kept since asv distinguishes it from null."""
    return math.nan if name == "NaN" else None


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_not_finite)
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
_SURROGATE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped backslash, a pair of surrogates, or (group 1) one without its partner, which is no
text: it cannot be printed or stored. Source: RFC 8259, section 8.2."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; infinite numbers are None, half a character is U+FFFD.

    Raises DamagedJson, with the line and column.
    """
    with _damage():
        return _DECODER.decode(_without_half_characters(text))


def parse_documents(text: str) -> Iterator[Any]:
    """Yield the objects of a text that begin at the start of a line, with any text between them.

    Raises DamagedJson, with the line and column.
    """
    end = 0
    text = _without_half_characters(text)
    while match := _DOCUMENT.search(text, end):
        with _damage():
            value, end = _DECODER.raw_decode(text, match.start())
        yield value


def _without_half_characters(text: str) -> str:
    """Return a text of JSON in which U+FFFD stands for each surrogate without its partner."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATE.sub(lambda match: "\\ufffd" if match[1] else match[0], text)


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise DamagedJson(message) from None
    except RecursionError:
        raise DamagedJson("it is nested too deeply") from None
    except ValueError as error:
        raise DamagedJson(str(error)) from None


def load_json(path: Path) -> Any:
    """Return the JSON document of a file. Lines before the document are skipped: fio writes its
    warnings there.

    Raises DamagedJson; InputError for damaged compressed data; OSError for a file that cannot be
    read.
    """
    found = path.stat()
    document, damage = _load(path, found.st_mtime_ns, found.st_size)
    if damage:
        raise DamagedJson(damage)
    return document


@lru_cache(maxsize=2)
def _load(path: Path, _mtime_ns: int, size: int) -> tuple[Any, str]:
    """Return the document, or what is damaged: every format asks for it in turn, and it is parsed
    once."""
    if size > MOST_BYTES:
        return None, f"it is larger than {MOST_BYTES >> 20} MiB"
    text = read_mixed_text(path)
    if not text.lstrip().startswith(("{", "[")):
        start = text.find("\n{")
        text = text[start + 1 :] if start >= 0 else text
    try:
        return parse_json(text), ""
    except DamagedJson as error:
        return None, str(error)


def may_be_json(path: Path, head: bytes) -> bool:
    """Return whether a file may be a JSON document: it begins like one, or a line near its start
    begins with `{`."""
    if not path.is_file():
        return False
    text = head.lstrip()
    return text.startswith((b"{", b"[")) or b"\n{" in text


def json_damage(path: Path, head: bytes) -> str:
    """Return what is wrong with a file that begins like JSON and that no parser recognises; empty
    if it does not begin so."""
    if not may_be_json(path, head):
        return ""
    try:
        load_json(path)
    except DamagedJson as error:
        if _is_lines_of_json(path):
            return f"{path} is lines of JSON of a form that no parser recognises"
        return f"{path} begins like JSON, but is damaged or incomplete: {error}"
    return f"{path} is JSON of a form that no parser recognises"


def _is_lines_of_json(path: Path) -> bool:
    """Return whether each of the first lines of a file is a JSON document."""
    lines = [line for line in itertools.islice(content_lines(path), _LINES_READ) if line.strip()]
    try:
        for line in lines:
            parse_json(line)
    except DamagedJson:
        return False
    return len(lines) > 1


_LINES_READ = 100


def input_error(path: Path, name: str, message: str, hint: str) -> InputError:
    """Return the error for a file as a whole."""
    return InputError([Diagnostic(f"{name}-syntax", message, hint, str(path))])


class Problems:
    """Collects the mistakes of one file, and reports all of them at once."""

    def __init__(self, path: Path, name: str, hint: str) -> None:
        self.path = path
        self._name = name
        self._hint = hint
        self._found: list[str] = []
        self._more = 0
        self._not_read = NotRead()

    def not_read(self, where: str, what: str) -> None:
        """Add a result that is not understood and left out, with its place in the document; it is
        no mistake."""
        place = f"{self.path}: {where}" if where else str(self.path)
        self._not_read.add(place, what)

    def results(self, tests: list[TestResult]) -> list[TestResult]:
        """Return the tests of the file, with the finding about what was not read. Raises InputError
        with all mistakes; it is one if there is no test."""
        for wrong in negative_times(tests):
            self._note(wrong)
        self.check()
        if not tests:
            why = f"; {self._not_read}" if self._not_read else ""
            message = f"{self.path} contains no result that can be read{why}"
            raise input_error(self.path, self._name, message, self._hint)
        return self._not_read.on(self.path, tests)

    def add(self, where: str, message: str) -> None:
        """Add a mistake at a place of the document."""
        self._note(f"{where or 'the document'} {message}")

    @property
    def mistakes(self) -> Sequence[str]:
        """The mistakes so far, each with its place in the document."""
        return self._found

    def _note(self, mistake: str) -> None:
        if len(self._found) < _MOST_REPORTED:
            self._found.append(mistake)
        else:
            self._more += 1

    def check(self) -> None:
        """Raise InputError if there is any mistake."""
        if not self._found:
            return
        if self._more:
            self._found[-1] += f" (and {self._more} more mistakes)"
        code = f"{self._name}-syntax"
        last = len(self._found) - 1
        raise InputError(
            [
                Diagnostic(code, text, self._hint if at == last else "", str(self.path))
                for at, text in enumerate(self._found)
            ]
        )


class Node:
    """A value of a document with its path. Accessors return None, or nothing, for what is absent or
    null, and record a mistake for a wrong type."""

    def __init__(self, value: Any, problems: Problems, where: str = "") -> None:
        self.value = value
        self.where = where
        self.problems = problems

    def __getitem__(self, key: str) -> Node:
        """Return a member; the value of an absent one is None."""
        here = self.value
        if not self.absent and not isinstance(here, dict):
            self.wrong("is not an object")
        value = here.get(key) if isinstance(here, dict) else None
        return Node(value, self.problems, f"{self.where}.{key}".lstrip("."))

    def wrong(self, message: str) -> None:
        """Record a mistake at this place."""
        self.problems.add(self.where, message)

    def not_read(self, what: str) -> None:
        """Record a result at this place that is not understood and left out."""
        self.problems.not_read(self.where, what)

    @property
    def absent(self) -> bool:
        """Whether there is no value; NaN is none."""
        return self.value is None or self.is_nan

    @property
    def is_nan(self) -> bool:
        """Whether this is the word NaN."""
        return isinstance(self.value, float) and math.isnan(self.value)

    def has(self, key: str) -> bool:
        """Return whether this is an object with the member, and that is not null."""
        return isinstance(self.value, dict) and not self[key].absent

    def members(self) -> Iterator[tuple[str, Node]]:
        """Yield the members of an object."""
        if isinstance(self.value, dict):
            for key in self.value:
                yield key, self[key]
        elif not self.absent:
            self.wrong("is not an object")

    def elements(self) -> Iterator[Node]:
        """Yield the elements of an array."""
        if isinstance(self.value, list):
            for at, value in enumerate(self.value):
                yield Node(value, self.problems, f"{self.where}[{at}]")
        elif not self.absent:
            self.wrong("is not an array")

    def text(self, default: str = "") -> str:
        """Return a text; a number as it is written; the default if it is absent."""
        value = self.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.absent:
            return default
        if isinstance(value, int | float):
            return f"{value:.15g}"
        self.wrong("is not a text")
        return default

    def number(self) -> float | None:
        """Return a finite number; None for what is absent, NaN or infinite."""
        value = self.value
        if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
            return None  # JMH writes them as texts.
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            self.wrong(f"is {_shown(value)}, not a number")
            return None
        return value if value is not None and math.isfinite(value) else None

    def count(self) -> int:
        """Return a whole number from 0; 0 if it is absent."""
        value = self.number()
        if value is None:
            return 0
        if value < 0 or value != int(value):
            self.wrong(f"is {_shown(self.value)}, not a whole number from 0")
            return 0
        return int(value)

    def numbers(self) -> list[float | None]:
        """Return the numbers of an array; None for those that are absent."""
        return [element.number() for element in self.elements()]

    def required(self, what: str) -> bool:
        """Return whether there is a value; record a mistake if not."""
        if self.absent:
            self.wrong(f"is missing: {what}")
        return not self.absent


def json_lines(path: Path, problems: Problems, begin: str = "") -> Iterator[Node]:
    """Yield the document of each line that begins with a text and is not empty; a damaged one is a
    mistake."""
    for number, line in enumerate(content_lines(path), 1):
        if not line.startswith(begin) or not line.strip():
            continue
        try:
            yield Node(parse_json(line), problems, f"line {number}")
        except DamagedJson as error:
            problems.add(f"line {number}", f"is damaged: {error.in_line}")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


class JsonFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A parser of one JSON format."""

    name: str
    description: str
    matches: Callable[[Any], bool]
    """Whether a document has this format, by its content."""
    convert: Callable[[Node], list[TestResult]]
    hint: str
    """How the tool writes a complete file."""
    mark: re.Pattern[bytes] | None = None
    """Found near the start of a file of this format, and of no other; by it a damaged one is
    recognised."""
    points: Callable[[Node], list[TestResult]] | None = None
    """Returns the tests of every commit, where a file has several."""
    load: Callable[[Path], Any] = load_json
    """Returns the document of a file."""
    before: re.Pattern[bytes] | None = None
    """Text that the tool may write before the document."""

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a document of this format, or a damaged one."""
        before = self.before is not None and self.before.search(head) is not None
        if not (may_be_json(path, head) or (before and path.is_file())):
            return False
        try:
            document = self.load(path)
        except DamagedJson:
            return before or (self.mark is not None and bool(self.mark.search(head)))
        except OSError:
            return False
        return self.matches(document)

    def read(self, path: Path) -> list[TestResult]:
        """Return the tests of the file. Raises InputError with all mistakes."""
        return self._converted(path, self.convert)

    def history(self, path: Path) -> list[TestResult]:
        """Return the tests of every commit of the file. Raises InputError with all mistakes."""
        if self.points is None:
            return numbered(self.read(path))
        return self._converted(path, self.points)

    def _converted(
        self, path: Path, convert: Callable[[Node], list[TestResult]]
    ) -> list[TestResult]:
        try:
            document = self.load(path)
        except DamagedJson as error:
            message = f"{path} is a damaged {self.name} file: {error}"
            raise input_error(path, self.name, message, self.hint) from None
        problems = Problems(path, self.name, self.hint)
        tests: list[TestResult] = []
        if self.matches(document):
            tests = convert(Node(document, problems))
        else:
            problems.add("", f"is not {self.description}")
        return problems.results(tests)


def is_object(value: Any, *keys: str) -> bool:
    """Return whether a value is an object with all these keys."""
    return isinstance(value, dict) and all(key in value for key in keys)
