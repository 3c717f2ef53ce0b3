"""Values in a generator's output, found by a JSON pointer, a CSV column or a regular
expression; errors name the position of a missing value."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from benchwright.core.plan import MetricSpec
from benchwright.core.text import some_text
from benchwright.features.generators.adapter import GeneratorOutput, UnreadableOutput, shortened
from benchwright.inputs.mistakes import fault_of
from benchwright.suite import rules as metric
from benchwright.trial.observe import (
    MetricNotFound,
    extract_metric,
    last_json,
    parse_number,
    value_at,
)

# --------------------------------------------------------------------------------------
# Sources of values in an output: a JSON pointer, a CSV column, a regular expression.
#
# Purpose: one notation for the values of `command` and for its series. Decision: JSON with
# NaN and Infinity is accepted, because many programs write it, although RFC 8259 does not
# allow it; if one of them is the value that `values` refers to, the message says so.
# Sources: RFC 6901 (pointers), RFC 4180 (CSV).

COLUMN = "column "
_MOST_MEMBERS = 12
_WORD = re.compile(r"[A-Za-z_][\w/]*", re.ASCII)
"""A pointer whose first / is missing."""


class ValueSource(msgspec.Struct, frozen=True):
    """The place of a number in an output. Exactly one of the three fields is set."""

    pointer: str | None = None
    column: str | None = None
    """A column of CSV with a header; the last row's value counts."""
    pattern: str | None = None
    """A regular expression with one group; searched in stdout, then in stderr."""

    @property
    def text(self) -> str:
        """The source as the user wrote it."""
        if self.column is not None:
            return COLUMN + self.column
        return self.pointer or self.pattern or ""

    def value(self, output: GeneratorOutput) -> float:
        """Return the number. Raises MetricNotFound with the reason."""
        if self.column is not None:
            return _last_of_column(self.column, output.stdout)
        if self.pointer is not None:
            return _number_at(self.pointer, output.stdout)
        spec = MetricSpec("value", pattern=self.pattern)
        return extract_metric(spec, output.stdout, output.stderr)


def parse_source(text: str) -> ValueSource:
    """Return the source named by `/json/pointer`, `column NAME` or a pattern. Raises ValueError."""
    if not text.strip():
        raise ValueError("it is empty: /json/pointer, column NAME or a regex(group)")
    if text.startswith("/"):
        return ValueSource(pointer=_faultless(metric.pointer, text))
    if text.startswith(COLUMN):
        return ValueSource(column=text.removeprefix(COLUMN).strip())
    if _WORD.fullmatch(text):
        hint = f"/{text} is a JSON pointer, column {text} a column of CSV"
        raise ValueError(f"{text!r} is not the position of a value: {hint}, a regex has one ( )")
    return ValueSource(pattern=_faultless(metric.pattern, text))


def rows_at(source: ValueSource, output: GeneratorOutput) -> list[tuple[float, int, float]]:
    """Return the rows (second, count, mean_ms) of a series. Raises MetricNotFound."""
    assert source.pointer is not None, "a series is at a pointer"
    found = _array_at(source.pointer, output.stdout)
    return [_row(one, source.pointer, place) for place, one in enumerate(found)]


def _faultless(parse: Callable[[str], str], text: str) -> str:
    """Return a text that a parser accepts. Raises ValueError with its advice."""
    fault = fault_of(parse, text)
    if fault is not None:
        raise ValueError(fault.message + (f": {fault.hint}" if fault.hint else ""))
    return text


def _number_at(pointer: str, text: str) -> float:
    found = value_at(pointer, _loose_json(text))
    scalar = isinstance(found, (int, float, str)) and not isinstance(found, bool)
    value = parse_number(str(found)) if scalar else None
    if value is None:
        raise MetricNotFound(f"{pointer} is {shown(found)}, not a number")
    return value


def _array_at(pointer: str, text: str) -> list[Any]:
    found = value_at(pointer, _loose_json(text))
    if not isinstance(found, list):
        raise MetricNotFound(f"{pointer} is {type(found).__name__}, not an array")
    return found


def _row(one: Any, pointer: str, place: int) -> tuple[float, int, float]:
    """Return a row. The mean may be null or NaN in a second in which no operation started;
    it is then 0. Raises MetricNotFound."""
    three = isinstance(one, list) and len(one) == 3
    if three and one[1] == 0 and (one[2] is None or _is_nan(one[2])):
        one = [one[0], 0, 0]
    if not three or not all(map(_is_finite, one)) or one[1] < 0 or one[1] % 1:
        found = shown(one)
        raise MetricNotFound(f"{pointer}/{place} is {found}, not [second, count, mean_ms]")
    return float(one[0]), int(one[1]), float(one[2])


def _is_nan(one: Any) -> bool:
    return type(one) is float and math.isnan(one)


def _is_finite(one: Any) -> bool:
    return type(one) in (int, float) and math.isfinite(one)


def shown(value: Any) -> str:
    """Return a value of JSON as its writer wrote it, shortened: `NaN`, `Infinity`."""
    return shortened(json.dumps(value), 40)


def _loose_json(text: str) -> Any:
    """Return the text as JSON; accept NaN and Infinity too. Raises MetricNotFound."""
    try:
        return last_json(text)
    except MetricNotFound:
        return last_json(text, json.loads)


def has_json(text: str) -> bool:
    """Return whether a text is JSON, with NaN and Infinity accepted."""
    try:
        _loose_json(text)
    except MetricNotFound:
        return False
    return True


def members(text: str) -> str:
    """Return the pointers of a text's JSON with the kind of value that each leads to:
    `/mean_ms (a number), /series (an array of 60)`; empty if the text is not JSON."""
    try:
        found = list(_members(_loose_json(text), ""))
    except MetricNotFound:
        return ""
    return some_text(found, _MOST_MEMBERS)


def _members(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            token = name.replace("~", "~0").replace("/", "~1")
            yield from _members(one, f"{pointer}/{token}")
    elif isinstance(value, list):
        yield f"{pointer or 'all of it'} (an array of {len(value)})"
    elif type(value) in (int, float):
        yield f"{pointer or 'all of it'} (a number)"
    elif isinstance(value, str):
        yield f"{pointer or 'all of it'} (a text)"


def _last_of_column(name: str, text: str) -> float:
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise MetricNotFound(f"stdout is not CSV: {error}") from None
    headers = [place for place, row in enumerate(rows) if name in row]
    if not headers:
        raise MetricNotFound(f"stdout has no CSV header with the column {name!r}")
    at = rows[headers[0]].index(name)
    values = [row[at] for row in rows[headers[0] + 1 :] if len(row) > at]
    if not values:
        raise MetricNotFound(f"the CSV column {name!r} has no row")
    value = parse_number(values[-1])
    if value is None:
        raise MetricNotFound(f"{name!r} of the last row is {values[-1]!r}")
    return value


# -- A generator's JSON; errors name the place of a missing value ----------------------


class JsonOutput:
    """A JSON document and its origin."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        try:
            self._root = last_json(text)
        except MetricNotFound:
            sought = "JSON without NaN and Infinity" if has_json(text) else "JSON"
            raise UnreadableOutput(sought, where, text) from None

    def number(self, *path: str | int) -> float:
        """Return the number at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return float(found)

    def number_or(self, default: float, *path: str | int) -> float:
        """Return the number at a path, or `default` if it is missing."""
        return default if self.get(*path) is None else self.number(*path)

    def table(self, *path: str | int) -> dict[str, Any]:
        """Return the object at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if not isinstance(found, dict):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return found

    def get(self, *path: str | int) -> Any:
        """Return the value at a path; None if there is none."""
        found = self._root
        for step in path:
            inside = isinstance(found, dict) and step in found
            if isinstance(found, list):
                inside = isinstance(step, int) and step < len(found)
            if not inside:
                return None
            found = found[step]
        return found

    def _beside(self, path: tuple[str | int, ...]) -> str:
        around = self.get(*path[:-1])
        if isinstance(around, dict):
            return "the members " + ", ".join(around)
        return f"no {_text(path[:-1])}"


def _text(path: tuple[str | int, ...]) -> str:
    return "/" + "/".join(str(step) for step in path)
