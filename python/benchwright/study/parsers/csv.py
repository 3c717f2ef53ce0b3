"""Comma-separated values with a header line: ours, hyperfine's, anybody's.

The columns thread, epoch, command, status and test are known by name; any other cell
with a number is a quantity of its column's name. An empty cell is absent, not zero. A
column without any number is in no table; its name is kept so that this can be said.
Decision: a row of hyperfine's export sums up one command, so each is a test of one
block, whose elapsed time is hyperfine's mean; its spread is kept under its own names.
Non-goals: no other separators, no headerless files. Sources: RFC 4180; hyperfine 1.15,
`--export-csv`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import (
    Complaints,
    ParsedInput,
    finite,
    read_text,
    whole,
)

_KNOWN = {
    "thread": "thread",
    "epoch": "epoch",
    "iteration": "epoch",
    "command": "command",
    "status": "status",
    "test": "test",
    "name": "test",
}
_RENAMED = {
    "user": "user",
    "system": "system",
    "sys": "system",
    "elapsed": "elapsed",
    "real": "elapsed",
    "wall": "elapsed",
}
"""Times of any spelling; what is under them must be a number."""
_FACTOR = "factor:"
_LARGEST = 1e18
_WHOLE = ("thread", "epoch", "status")
_HYPERFINE = ["command", "mean", "stddev", "median", "user", "system", "min", "max"]
_HYPERFINE_FACTOR = "parameter_"


class _Csv:
    name = "csv"
    description = "CSV with a header line"

    def detect(self, path: Path, head: bytes) -> bool:
        """Recognise CSV by its name, or by a first line of several words with commas."""
        if not path.is_file():
            return False
        first = head.split(b"\n", 1)[0]
        return path.suffix.lower() == ".csv" or (
            first.count(b",") > 0 and b"=" not in first and b"elapsed" in first.lower()
        )

    def read(self, path: Path) -> list[ParsedInput]:
        """Return one test per value of the column `test`, else the file as one test.

        Raises InputError with file:line:column; a row's line is the one that it ends on.
        """
        text = read_text(path, "csv-syntax")
        complaints = Complaints(path, "csv-syntax")
        _check_separator(text, complaints)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        table: _Table | None = None
        try:
            table = _Table(next(reader, []), path.name, complaints)
            for row in reader:
                if any(cell.strip() for cell in row):
                    table.add(reader.line_num, row)
        except csv.Error as error:
            complaints.add((max(reader.line_num, 1), 1), "", f"not CSV: {error}")
        tests = table.tests() if table is not None else []
        if not tests:
            complaints.add((1, 1), "", "there is no row under the header line")
        complaints.check()
        return tests


class _Table:
    """Gathers the rows under one header line."""

    def __init__(
        self, header: Sequence[str], file: str, complaints: Complaints
    ) -> None:
        self._complaints = complaints
        self._file = file
        self._columns = _columns(header, complaints)
        self._hyperfine = self._columns[: len(_HYPERFINE)] == _HYPERFINE
        self._blocks: dict[str, list[Block]] = {}
        self._samples: dict[str, dict[str, str]] = {}
        self._without: dict[str, dict[str, None]] = {}
        """Columns with text and no number so far, by test."""

    def tests(self) -> list[ParsedInput]:
        """Return the tests in the order of their first rows."""
        return [
            ParsedInput(
                name,
                tuple(b),
                sample=tuple(self._samples[name].items()),
                skipped=self._skipped(name, b),
            )
            for name, b in self._blocks.items()
        ]

    def _skipped(self, test: str, blocks: Sequence[Block]) -> tuple[str, ...]:
        numbers = {name for block in blocks for name in block.values}
        return tuple(n for n in self._without[test] if self._quantity(n) not in numbers)

    def add(self, line: int, row: Sequence[str]) -> None:
        """Take in one row."""
        if len(row) != len(self._columns):
            what = f"{len(row)} cells under {len(self._columns)} columns"
            self._complaints.add((line, 1), ",".join(row), what)
            return
        known: dict[str, str] = {}
        values: dict[str, float] = {}
        sample: dict[str, str] = {}
        texts: dict[str, None] = {}
        for index, (name, cell) in enumerate(zip(self._columns, row, strict=True)):
            role = _KNOWN.get(name.lower())
            if (factor := self._factor(name)) is not None:
                if cell:
                    sample[factor] = cell
            elif role is not None and role not in known:
                known[role] = cell if role == "command" else cell.strip()
            elif (value := self._value(name, cell, (line, index, row))) is not None:
                values[self._quantity(name)] = value
            else:
                texts[name] = None
        place = {role: self._whole(role, known, line, row) for role in _WHOLE}
        command = known.get("command", "")
        test = known.get("test") or (command if self._hyperfine else "") or self._file
        blocks = self._blocks.setdefault(test, [])
        self._samples.setdefault(test, sample)
        self._without.setdefault(test, {}).update(texts)
        epoch = place["epoch"] if known.get("epoch") else len(blocks) + 1
        blocks.append(Block(place["thread"], epoch, command, place["status"], values))

    def _factor(self, name: str) -> str | None:
        if name.startswith(_FACTOR):
            return name.removeprefix(_FACTOR)
        if self._hyperfine and name.startswith(_HYPERFINE_FACTOR):
            return name.removeprefix(_HYPERFINE_FACTOR)
        return None

    def _quantity(self, name: str) -> str:
        if self._hyperfine and name == "mean":
            return "elapsed"
        return _RENAMED.get(name.lower(), name)

    def _value(
        self, name: str, cell: str, place: tuple[int, int, Sequence[str]]
    ) -> float | None:
        value = finite(cell)
        if value is None and cell.strip() and name.lower() in _RENAMED:
            line, index, row = place
            column = len(",".join(row[:index])) + (2 if index else 1)
            what = f"{name} is {cell.strip()!r}, not a number"
            self._complaints.add((line, column), ",".join(row), what)
        return value

    def _whole(
        self, role: str, known: dict[str, str], line: int, row: Sequence[str]
    ) -> int:
        text = known.get(role, "")
        if not text:
            return 0
        value = whole(text)
        number = finite(text)
        if (
            value is None
            and number is not None
            and number.is_integer()
            and abs(number) < _LARGEST
        ):
            value = int(number)  # spreadsheets write 3 as 3.0
        if value is None or (value < 0 and role != "status"):
            column = len(",".join(row[: row.index(text)])) + 1 if text in row else 1
            what = f"{role} is {text!r}, not a whole number from 0"
            self._complaints.add((line, column), ",".join(row), what)
            return 0
        return value


def _check_separator(text: str, complaints: Complaints) -> None:
    """Raise InputError for columns that are not separated by commas: all else that
    there is to say of such a file follows from it."""
    first = text.split("\n", 1)[0].rstrip("\r")
    for separator, name in ((";", "';'"), ("\t", "tabs")):
        if separator in first and "," not in first:
            what = f"the columns are separated by {name}, not by commas"
            hint = "export it with commas, and with points in numbers (1.5)"
            complaints.add((1, first.index(separator) + 1), first, what, hint)
            complaints.check()


def _columns(header: Sequence[str], complaints: Complaints) -> list[str]:
    names = [cell.strip() for cell in header]
    line = ",".join(header)
    for place, name in enumerate(names):
        column = len(",".join(header[:place])) + (2 if place else 1)
        if not name:
            complaints.add((1, column), line, f"column {place + 1} has no name")
        elif name in names[:place]:
            complaints.add((1, column), line, f"the column {name!r} is there twice")
    if names and all(finite(name) is not None for name in names):
        complaints.add(
            (1, 1), line, "the first line is data", "CSV needs a line of column names"
        )
    return names


PARSER = _Csv()
