"""What a script wrote to APLOG: measurement blocks, other blocks, `name = value` lines.

Format: blocks headed `[name]`, fields `key = value`; lines before the first header, or
after a blank line that ends a block, belong to the thread itself. Source: Auto-pilot's
results file (Auto-pilot paper, section 3.2; reference: its manual, CSV-Results).
"""

from __future__ import annotations

import math
import re

import msgspec

_HEADER = re.compile(r"\[([^\]]+)\]\s*\Z")
_RENAMED = {"sys": "system"}
_NOT_VALUES = frozenset({"thread", "epoch", "command", "status"})


class Section(msgspec.Struct):
    """One block as written: its name and its fields in order."""

    name: str
    fields: dict[str, str]


class ParsedLog(msgspec.Struct):
    """A thread's APLOG, taken apart."""

    sections: list[Section]
    values: dict[str, str]
    """`name = value` lines outside every block."""


def parse(text: str) -> ParsedLog:
    """Return the blocks and the free values of one thread's APLOG; never fails.

    A line that is neither a header nor a field is ignored: it is kept in the log.
    """
    parsed = ParsedLog([], {})
    current: dict[str, str] = parsed.values
    for raw in text.split("\n"):  # a command may hold what splitlines() splits at
        line = raw.strip()
        if not line:
            current = parsed.values
        elif header := _HEADER.match(line):
            section = Section(header[1], {})
            parsed.sections.append(section)
            current = section.fields
        else:
            name, equals, value = line.partition("=")
            if equals and name.strip():
                current[name.strip()] = value.strip()
    return parsed


def number(text: str) -> float | None:
    """Return a finite number, or None where the text is none: absent is not zero.

    Python's own `1_000` and digits of other scripts are no numbers here.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    strict = text.isascii() and "_" not in text
    return value if strict and math.isfinite(value) else None


def numbers(fields: dict[str, str]) -> dict[str, float]:
    """Return the numeric fields of a block under the names that Benchwright uses."""
    result: dict[str, float] = {}
    for key, text in fields.items():
        value = number(text)
        if value is not None and key not in _NOT_VALUES:
            result[_RENAMED.get(key, key)] = value
    return result
