"""JSON files of other tools: read within limits, and accessed with the place of every mistake.

Purpose: a member that is absent, null or not finite is absent; one of a wrong type is a mistake with
its path in the document (`results[0].times[3]`), and all mistakes of a file are reported at once.
Decision: `JsonFormat` is a parser of `bw stats` that is made of two functions, one that recognises
a document and one that converts it, so that a format is its conversion and nothing else. The standard
library's reader is used, because some tools write NaN and Infinity, which msgspec rejects.
Non-goal: types for the formats: tools add members in every version.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.study.parsers.api import ParsedInput

MOST_BYTES = 1 << 28
"""The largest file that is read as one JSON document, after decompression [bytes]."""
_MOST_REPORTED = 20
_GZIP = b"\x1f\x8b"
_MOST_DIGITS = 18


class DamagedJson(ValueError):
    """The text is not a JSON document, or it is too large or too deep."""


def _integer(text: str) -> float:
    """Return an integer of at most 18 digits exactly; a longer one as a float."""
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def _not_finite(_name: str) -> None:
    """NaN and Infinity are absent values."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; NaN and infinite numbers are None.

    Raises DamagedJson, with the line and column.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise DamagedJson(message) from None
    except RecursionError:
        raise DamagedJson("it is nested too deeply") from None
    except ValueError as error:
        raise DamagedJson(str(error)) from None


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is gzip. Raises DamagedJson for a damaged or too
    large file, OSError for one that cannot be read."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        try:
            if packed:
                with gzip.open(file) as unpacked:
                    data = unpacked.read(MOST_BYTES + 1)
            else:
                data = file.read(MOST_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DamagedJson(f"its compressed data is damaged: {error}") from None
    if len(data) > MOST_BYTES:
        raise DamagedJson(f"it is larger than {MOST_BYTES >> 20} MiB")
    return data


def load_json(path: Path) -> Any:
    """Return the JSON document of a file, which can be gzip. Lines before the document are skipped:
    fio writes its warnings there.

    Raises DamagedJson; OSError for a file that cannot be read.
    """
    found = path.stat()
    return _load(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)
def _load(path: Path, _mtime_ns: int, _size: int) -> Any:
    # Every format asks for the same document in turn, which is parsed once.
    text = read_bytes(path).decode("utf-8-sig", "backslashreplace")
    if not text.lstrip().startswith(("{", "[")):
        start = text.find("\n{")
        text = text[start + 1 :] if start >= 0 else text
    return parse_json(text)


def may_be_json(path: Path, head: bytes) -> bool:
    """Return whether a file may be a JSON document: it begins like one, it is gzip, or a line near its
    start begins with `{`."""
    if not path.is_file():
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith((b"{", b"[", _GZIP)) or b"\n{" in text


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

    def add(self, where: str, message: str) -> None:
        """Add a mistake at a place of the document."""
        if len(self._found) < _MOST_REPORTED:
            self._found.append(f"{where or 'the document'} {message}")
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
        if here is not None and not isinstance(here, dict):
            self.wrong("is not an object")
        value = here.get(key) if isinstance(here, dict) else None
        return Node(value, self.problems, f"{self.where}.{key}".lstrip("."))

    def wrong(self, message: str) -> None:
        """Record a mistake at this place."""
        self.problems.add(self.where, message)

    @property
    def absent(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    def has(self, key: str) -> bool:
        """Return whether this is an object with the member, and that is not null."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def members(self) -> Iterator[tuple[str, Node]]:
        """Yield the members of an object."""
        if isinstance(self.value, dict):
            for key in self.value:
                yield key, self[key]
        elif self.value is not None:
            self.wrong("is not an object")

    def elements(self) -> Iterator[Node]:
        """Yield the elements of an array."""
        if isinstance(self.value, list):
            for at, value in enumerate(self.value):
                yield Node(value, self.problems, f"{self.where}[{at}]")
        elif self.value is not None:
            self.wrong("is not an array")

    def text(self, default: str = "") -> str:
        """Return a text; a number as it is written; the default if it is absent."""
        value = self.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return f"{value:.15g}"
        if value is not None:
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
        return [one.number() for one in self.elements()]

    def required(self, what: str) -> bool:
        """Return whether there is a value; record a mistake if not."""
        if self.value is None:
            self.wrong(f"is missing: {what}")
        return self.value is not None


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


class JsonFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A parser of one JSON format."""

    name: str
    description: str
    matches: Callable[[Any], bool]
    """Whether a document has this format, by its content."""
    convert: Callable[[Node], list[ParsedInput]]
    marks: Sequence[bytes]
    """Texts near the start of a file of this format, by which a damaged one is recognised."""
    hint: str
    """How the tool writes a complete file."""
    points: Callable[[Node], list[ParsedInput]] | None = None
    """Returns the tests of every commit, where a file has several."""

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a document of this format, or a damaged one."""
        if not may_be_json(path, head):
            return False
        try:
            document = load_json(path)
        except DamagedJson:
            return any(mark in head for mark in self.marks)
        except OSError:
            return False
        return self.matches(document)

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the tests of the file. Raises InputError with all mistakes."""
        return self._converted(path, self.convert)

    def history(self, path: Path) -> list[ParsedInput]:
        """Return the tests of every commit of the file. Raises InputError with all mistakes."""
        return self._converted(path, self.points or self.convert)

    def _converted(
        self, path: Path, convert: Callable[[Node], list[ParsedInput]]
    ) -> list[ParsedInput]:
        try:
            document = load_json(path)
        except DamagedJson as error:
            message = f"{path} is a damaged {self.name} file: {error}"
            raise input_error(path, self.name, message, self.hint) from None
        problems = Problems(path, self.name, self.hint)
        found: list[ParsedInput] = []
        if self.matches(document):
            found = convert(Node(document, problems))
        else:
            problems.add("", f"is not {self.description}")
        problems.check()
        if not found:
            message = f"{path} contains no benchmark"
            raise input_error(path, self.name, message, self.hint)
        return found


def is_object(value: Any, *keys: str) -> bool:
    """Return whether a value is an object with all these keys."""
    return isinstance(value, dict) and all(key in value for key in keys)
