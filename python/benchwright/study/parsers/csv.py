"""Comma-separated values with a header line: ours, hyperfine's, anybody's.

The columns thread, epoch, command, status and test are known by name; any other column
of numbers is a quantity. An empty cell is absent, not zero. Source: RFC 4180.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import Complaints, ParsedInput, read_text
from benchwright.study.parsers.res import finite

_KNOWN = {
    "thread": "thread",
    "epoch": "epoch",
    "iteration": "epoch",
    "command": "command",
    "status": "status",
    "test": "test",
    "name": "test",
}
_RENAMED = {"sys": "system", "real": "elapsed", "wall": "elapsed"}


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
        """Return one test per value of the column `test`, else the file as one test."""
        text = read_text(path, "csv-syntax")
        complaints = Complaints(path, "csv-syntax")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        tests: dict[str, list[Block]] = {}
        try:
            header = next(reader, [])
            columns = _columns(header, complaints)
            for row in reader:
                if any(cell.strip() for cell in row):
                    _add_row(tests, columns, row, (reader.line_num, path, complaints))
        except csv.Error as error:
            complaints.add((max(reader.line_num, 1), 1), "", f"not CSV: {error}")
        if not tests:
            complaints.add((1, 1), "", "there is no row under the header line")
        complaints.check()
        return [ParsedInput(name, tuple(blocks)) for name, blocks in tests.items()]


def _columns(header: Sequence[str], complaints: Complaints) -> list[str]:
    names = [cell.strip() for cell in header]
    line = ",".join(header)
    for place, name in enumerate(names):
        if not name:
            column = len(",".join(header[:place])) + 1
            complaints.add((1, column), line, f"column {place + 1} has no name")
        elif name in names[:place]:
            column = len(",".join(header[:place])) + 2
            complaints.add((1, column), line, f"the column {name!r} is there twice")
    if names and all(finite(name) is not None for name in names):
        complaints.add(
            (1, 1), line, "the first line is data", "CSV needs a line of column names"
        )
    return names


def _add_row(
    tests: dict[str, list[Block]],
    columns: Sequence[str],
    row: Sequence[str],
    place: tuple[int, Path, Complaints],
) -> None:
    line, path, complaints = place
    if len(row) != len(columns):
        complaints.add(
            (line, 1), ",".join(row), f"{len(row)} cells under {len(columns)} columns"
        )
        return
    known: dict[str, str] = {}
    values: dict[str, float] = {}
    for name, cell in zip(columns, row, strict=True):
        role = _KNOWN.get(name.lower())
        value = finite(cell)
        if name.startswith("factor:"):
            continue
        if role is not None and role not in known:
            known[role] = cell.strip()
        elif value is not None:
            key = (
                name.lower() if name.lower() in ("elapsed", "user", "system") else name
            )
            values[_RENAMED.get(name.lower(), key)] = value
    test = known.get("test") or path.name
    blocks = tests.setdefault(test, [])
    whole = {
        k: _whole(known, k, (line, ",".join(row), complaints))
        for k in ("thread", "epoch", "status")
    }
    blocks.append(
        Block(
            thread=whole["thread"],
            epoch=whole["epoch"] if "epoch" in known else len(blocks) + 1,
            command=known.get("command", ""),
            status=whole["status"],
            values=values,
        )
    )


def _whole(known: dict[str, str], name: str, place: tuple[int, str, Complaints]) -> int:
    text = known.get(name, "")
    if not text:
        return 0
    value = finite(text)
    if value is None or value != int(value):
        line, row, complaints = place
        complaints.add((line, 1), row, f"{name} is {text!r}, not a whole number")
        return 0
    return int(value)


PARSER = _Csv()
