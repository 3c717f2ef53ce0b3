"""Auto-pilot's results file: blocks headed `[name]`, measurement blocks among them.

Only blocks named `[measurement]` (or by a hook's own name with the same fields) count;
a snapshot block holds raw text of commands and is passed over, whatever it looks like.
Source: papers/auto-pilot.txt section 3.2; Auto-pilot's manual, version 2.1.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import Complaints, ParsedInput, read_text

_HEADER = re.compile(r"\[([^\[\]\n]+)\]\s*\Z")
_FIELD = re.compile(r"\s*([^=\s][^=]*?)\s*=\s?(.*?)\s*\Z")
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
        text = read_text(path, "res-syntax")
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
    whole = {name: _whole(name, fields, complaints) for name in _WHOLE}
    values = {}
    for name, (text, number, line) in fields.items():
        if name in _WHOLE or name == "command":
            continue
        value = finite(text)
        if value is not None:
            values[_RENAMED.get(name, name)] = value
        elif name in ("user", "sys", "elapsed"):
            column = line.find("=") + 2
            complaints.add((number, column), line, f"{name} is {text!r}, not a number")
    blocks.append(
        Block(
            thread=whole["thread"],
            epoch=whole["epoch"] or len(blocks) + 1,
            command=fields.get("command", ("", 0, ""))[0],
            status=whole["status"],
            values=values,
        )
    )


def _whole(
    name: str, fields: dict[str, tuple[str, int, str]], complaints: Complaints
) -> int:
    if name not in fields:
        return 0
    text, number, line = fields[name]
    try:
        return int(text)
    except ValueError:
        column = line.find("=") + 2
        complaints.add(
            (number, column), line, f"{name} is {text!r}, not a whole number"
        )
        return 0


def finite(text: str) -> float | None:
    """Return a finite number, or None where the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None


PARSER = _Res()
