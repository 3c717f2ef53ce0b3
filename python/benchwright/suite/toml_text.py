"""The text of a TOML file, decoded, with the places of its keys and values.

Purpose: suites and workloads are read by the same steps, and tell mistakes alike.
Decision: a mistake of TOML itself is one error, because nothing behind it can be trusted;
mistakes of what it says are collected by `toml_table.Table`.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec

from benchwright.model.errors import InputError
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Where
from benchwright.suite.source import physical_lines
from benchwright.suite.toml_locate import Locator, place_in

MAX_DEPTH = 100
"""Tables and arrays within each other; Python's own recursion ends soon after 300."""
_UNQUOTED = re.compile("Invalid value|Expected newline or end of document after")
_QUOTED = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*|'''
    r"""'''.*?'''|'[^'\n]*'|["']""",
    re.DOTALL,
)
"""A string, a comment, or a quote that belongs to none."""
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


def decoded(text: str, file: str, code: str) -> tuple[dict[str, Any], Locator]:
    """Return a text's values and their places. Raises InputError with this code."""
    try:
        values = tomllib.loads(text)
        if _is_deep(values):
            # Brackets that deep are tomllib's own mistake: these are dots of a key.
            dots = [line.count(".") for line in physical_lines(text)]
            where = place_in(text, file, dots.index(max(dots)) + 1, 1)
            where = msgspec.structs.replace(where, text=where.text[:80])
            message = f"tables are nested more than {MAX_DEPTH} deep"
            hint = "write fewer dots in a key"
            raise InputError([diagnostic(where, code, message, hint)])
        return values, Locator(text, file)
    except RecursionError:
        message, line, column = "arrays are nested too deeply", 1, 1
    except ValueError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        last = text.rstrip("\n").count("\n") + 1
        line = int(place[1]) if place and place[1] else last if place else 1
        column = int(place[2]) if place and place[2] else 10**6 if place else 1
    where, hint = place_in(text, file, line, column), "see https://toml.io"
    opened = _unclosed(text, file)
    if opened is not None and opened.line <= where.line:
        where, message = opened, "a quote is opened here and not closed"
    elif _UNQUOTED.match(message):
        hint = f"a text stands in quotes; {hint}"
    raise InputError([diagnostic(where, code, message, hint)])


def _is_deep(values: dict[str, Any]) -> bool:
    """Tell whether values are nested too deeply for those who read them."""
    layer: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in layer]
        layer = [x for one in inner for x in one if isinstance(x, (dict, list))]
    return bool(layer)


def _unclosed(text: str, file: str) -> Where | None:
    """Return where the first quote stands that belongs to no string; tomllib tells of it
    lines later, where the text ends or the next quote is."""
    for match in _QUOTED.finditer(text):
        if match[0] in ('"', "'"):
            before = text[: match.start()]
            column = match.start() - before.rfind("\n")
            return place_in(text, file, before.count("\n") + 1, column)
    return None
