"""The text of a TOML file, decoded, with the places of its keys and values.

Purpose: suites and workloads are read by the same steps, and tell mistakes alike.
Decision: a mistake of TOML itself is one error, because nothing behind it can be trusted;
mistakes of what it says are collected by `toml_table.Table`.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from benchwright.model.errors import InputError
from benchwright.suite.fault import diagnostic
from benchwright.suite.toml_locate import Locator, place_in

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


def decoded(text: str, file: str, code: str) -> tuple[dict[str, Any], Locator]:
    """Return a text's values and their places. Raises InputError with this code."""
    try:
        return tomllib.loads(text), Locator(text, file)
    except RecursionError:
        message, line, column = "arrays are nested too deeply", 1, 1
    except ValueError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        last = text.rstrip("\n").count("\n") + 1
        line = int(place[1]) if place and place[1] else last if place else 1
        column = int(place[2]) if place and place[2] else 10**6 if place else 1
    where = place_in(text, file, line, column)
    raise InputError([diagnostic(where, code, message, "see https://toml.io")])
