"""Auto-pilot's results file: blocks headed `[name]`, measurement blocks among them.

Purpose: Auto-pilot's own files and ours (study/res.py). Decision: only blocks named
`[measurement]` count; any other block holds raw text of commands and is passed over,
whatever it looks like. Non-goal: a snapshot's raw line `[measurement]` is taken for a
block; the format has no escape. Source: Auto-pilot paper, section 3.2; Auto-pilot's manual, version 2.1.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import (
    Complaints,
    ParsedInput,
    finite,
    read_mixed_text,
    whole,
)

_HEADER = re.compile(r"\[([^\[\]\n]+)\]\s*\Z")
_FIELD = re.compile(r"\s*([^=\s][^=]*?)\s*=\s*(.*?)\s*\Z")
_RENAMED = {"sys": "system"}
_WHOLE = ("thread", "epoch", "status")
MEASUREMENT = "measurement"


class _Res:
    name = "res"
    description = "Auto-pilot's results files (.res)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Recognise a `.res` by its first measurement header, or by its name."""
        if not path.is_file():
            return False
        return path.suffix == ".res" or b"[measurement]" in head

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the file as one test. Raises InputError with file:line:column."""
        text = read_mixed_text(path)
        complaints = Complaints(path, "res-syntax")
        blocks = _blocks(text, complaints)
        if not blocks:
            complaints.add((1, 1), "", "there is no [measurement] block in this file")
        complaints.check()
        return [ParsedInput(path.name, tuple(blocks))]


def _blocks(text: str, complaints: Complaints) -> list[Block]:
    blocks: list[Block] = []
    fields: dict[str, tuple[str, int, str]] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            _close(blocks, fields, complaints)
            fields = {} if header[1].strip() == MEASUREMENT else None
        elif fields is not None and line.strip():
            field = _FIELD.match(line)
            if field is None:
                complaints.add(
                    (number, 1), line, "this is no field", "a field is `name = value`"
                )
            else:
                fields[field[1]] = (field[2], number, line)
    _close(blocks, fields, complaints)
    return blocks


def _close(
    blocks: list[Block],
    fields: dict[str, tuple[str, int, str]] | None,
    complaints: Complaints,
) -> None:
    if not fields:
        return
    place = {name: _whole(name, fields, complaints) for name in _WHOLE}
    values = {}
    for name, (text, number, line) in fields.items():
        if name in _WHOLE or name == "command":
            continue
        value = finite(text)
        if value is not None:
            values[_RENAMED.get(name, name)] = value
        elif name in ("user", "sys", "elapsed"):
            place_of = (number, _column(line))
            complaints.add(place_of, line, f"{name} is {text!r}, not a number")
    blocks.append(
        Block(
            thread=place["thread"],
            epoch=place["epoch"] or len(blocks) + 1,
            command=fields.get("command", ("", 0, ""))[0],
            status=place["status"],
            values=values,
        )
    )


def _whole(
    name: str, fields: dict[str, tuple[str, int, str]], complaints: Complaints
) -> int:
    if name not in fields:
        return 0
    text, number, line = fields[name]
    value = whole(text)
    if value is None:
        what = f"{name} is {text!r}, not a whole number"
    elif value < 0 and name != "status":
        what = f"{name} is {value}, below 0"
    else:
        return value
    complaints.add((number, _column(line)), line, what)
    return 0


def _column(line: str) -> int:
    """Return the column of a field's value, from 1."""
    rest = line[line.find("=") + 1 :]
    return len(line) - len(rest.lstrip()) + 1


PARSER = _Res()
