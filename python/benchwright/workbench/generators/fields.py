"""A generator's keys, read from a table by the fields of its record.

Decision: the record's fields and their types are the description of the keys, so that
none is read and forgotten; a second table of keys beside the record lost.
"""

from __future__ import annotations

import shlex
from typing import Any, NewType, TypeVar, get_type_hints

import msgspec

from benchwright.model.quantity import parse_duration_ns
from benchwright.suite.toml_table import Table

Milliseconds = NewType("Milliseconds", float)
"""A key that is written as a duration, `40ms`."""
Words = NewType("Words", tuple[str, ...])
"""A key that is an array of words, or a line that is cut into words."""
Count = int | str
"""A key that is a whole number, or a placeholder such as `{clients}`."""
NO_WORDS = Words(())

T = TypeVar("T", bound=msgspec.Struct)


def keys_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the keys that a generator of this kind takes."""
    return tuple(field.name for field in msgspec.structs.fields(kind))


def read_fields(kind: type[T], table: Table) -> T | None:
    """Return the record that a table describes; None where a mistake was reported.

    Keys that the record does not have are the caller's to report.
    """
    hints = get_type_hints(kind)
    wrong = _absent(kind, table)
    read: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name not in table:
            continue
        value = _value(hints[field.name], table, field.name)
        wrong |= value is None
        read[field.name] = value
    if wrong:
        return None
    try:
        return kind(**read)
    except ValueError as error:
        refuse(table, str(error))
        return None


def refuse(table: Table, message: str, hint: str = "", *at: str | int) -> None:
    """Report a value that cannot be: at a key, or at the table."""
    where = table.at(*at) if at else table.where  # type: ignore[arg-type]
    table.wrong(where, f"{table.kind}-value", message, hint)


def _absent(kind: type[msgspec.Struct], table: Table) -> bool:
    absent = [
        field.name
        for field in msgspec.structs.fields(kind)
        if field.required and field.name not in table
    ]
    for key in absent:
        table.wrong(table.where, f"{table.kind}-missing", f"{key} is missing here")
    return bool(absent)


def _value(hint: Any, table: Table, key: str) -> Any:
    kinds = getattr(hint, "__args__", None) or (hint,)
    if Milliseconds in kinds:
        return _duration_ms(table, key)
    if Words in kinds:
        return _words(table, key)
    if bool in kinds:
        return table.flag(key, False) if table.has(key, bool) else None
    if int in kinds:
        text = str in kinds and isinstance(table.values[key], str)
        return table.text(key) if text else table.whole(key, 1)
    return table.text(key)


def _duration_ms(table: Table, key: str) -> float | None:
    text = table.text(key)
    try:
        return None if text is None else parse_duration_ns(text) / 1e6
    except ValueError as error:
        refuse(table, f"{key}: {error}", "", key)
        return None


def _words(table: Table, key: str) -> tuple[str, ...] | None:
    if not table.has(key, str, list):
        return None
    if isinstance(table.values[key], list):
        texts = table.texts(key)
        return tuple(texts) if len(texts) == len(table.values[key]) else None
    try:
        return tuple(shlex.split(table.values[key]))
    except ValueError as error:
        refuse(table, f"{key}: {error}", "close the quotation", key)
        return None
