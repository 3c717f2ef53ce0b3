"""Declares a TOML table as data: its keys, how each is read, and the object made of them.

A `Form` is the declaration; `read_form` reads a table by any form and reports every error:
unknown keys, missing keys, wrong types, invalid values. `form_of` derives a form from the fields
of a record, so that no key can be read and then ignored.
Decision: a key has a `parse` (from a scalar's text, as in `Option`) or a `read` (for anything
else). Rejected: a schema with validators (docs/decisions/0010-options-and-toml.md). The caller
checks combinations of keys on the table, so that they are reported together with wrong values.
A key that is also an option is declared as an `Option` (`suite/options.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

if TYPE_CHECKING:
    from benchwright.suite.toml_table import TomlTable

Reader = Callable[["TomlTable", str], Any]
"""Returns the value of a key that the table has; None after it reported an error."""


class Key(msgspec.Struct, frozen=True):
    """One key of a table: its name, how its value is read, and the field that it sets."""

    name: str = ""
    """The name that the user writes; in a record, empty means the field's name."""
    parse: Callable[[str], Any] | None = None
    """Returns the value of a scalar's text; raises ValueError."""
    read: Reader | None = None
    """Reads a value that is not a scalar. In a record, the field's type decides if both are None.
    """
    into: str = ""
    """The field that it sets; empty means the key's name."""
    required: bool = True
    """Whether the key must be given; in a record, the field's default decides."""
    hint: str = ""
    """Advice if the key is missing."""
    help: str = ""
    """Description for the tables in docs/."""
    default: str = ""
    """Default value, as text for the tables in docs/."""

    @property
    def field(self) -> str:
        """The field that it sets."""
        return self.into or self.name

    def value(self, table: TomlTable) -> Any:
        """Return the key's value in a table that has it; None after it reported an error."""
        if self.parse is not None:
            return table.read(self.name, self.parse)
        assert self.read is not None, f"{self.name} has no reader"
        return self.read(table, self.name)


optional = partial(Key, required=False)
"""An optional key."""


class Form(msgspec.Struct, frozen=True):
    """The keys of a table, and the function that makes an object of their values."""

    keys: tuple[Key, ...]
    make: Callable[..., Any]
    """Takes the values of the given keys, by field. Raises ValueError."""

    @property
    def names(self) -> tuple[str, ...]:
        """The keys as the user writes them."""
        return tuple(key.name for key in self.keys)

    def made(self, values: Mapping[str, Any]) -> Any:
        """Return the object that `make` makes of these values; keys without a value are left out."""
        fields = {key.field: values[key.name] for key in self.keys if key.name in values}
        return self.make(**fields)


def read_form(
    table: TomlTable,
    form: Form,
    also: tuple[str, ...] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Any:
    """Return the object that a table describes; None after it reported an error.

    `also`: keys that the caller reads. `elsewhere`: the hints for keys that belong in another
    place.
    """
    table.only((*also, *form.names), elsewhere)
    absent = [key for key in form.keys if key.required and key.name not in table]
    for key in absent:
        table.need(key.name, hint=key.hint)
    values = {}
    failed = bool(absent)
    for key in form.keys:
        if key.name in table:
            before = table.mistakes
            value = values[key.name] = key.value(table)
            if value is None and table.mistakes == before:
                table.refuse(table.at(key.name), f"{key.name} is empty", key.hint)
            failed |= value is None
    if failed:
        return None
    try:
        return form.made(values)
    except ValueError as error:
        table.refuse(table.where, str(error))
        return None


def form_of(
    kind: type[msgspec.Struct],
    declared: Mapping[str, Key] | None = None,
    /,
    **settled: Any,
) -> Form:
    """Return the form of a record: a key for each field.

    The `Key` is in the field's annotation or in `declared`, by the field's name. If it has
    neither `parse` nor `read`, the field's type decides. `settled`: the values of fields that
    are not keys.
    """
    hints = get_type_hints(kind, include_extras=True)
    keys = tuple(
        _key_of(field, hints[field.name], (declared or {}).get(field.name))
        for field in msgspec.structs.fields(kind)
        if field.name not in settled
    )
    return Form(keys, lambda **values: kind(**settled, **values))


def _key_of(field: msgspec.structs.FieldInfo, hint: Any, declared: Key | None) -> Key:
    said = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Key)]
    key = declared or next(iter(said), Key())
    if key.parse is None and key.read is None:
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        key = msgspec.structs.replace(key, read=of_type(bare))
    return msgspec.structs.replace(
        key, name=key.name or field.name, into=field.name, required=field.required
    )


def of_type(hint: Any) -> Reader:
    """Return the reader of values of this type; an integer must be at least 1."""
    if get_origin(hint) is tuple:
        return _texts
    kinds = (hint,) if get_origin(hint) in (None, Literal) else get_args(hint)
    for kind in kinds:
        if get_origin(kind) is Literal:
            return _word_of(get_args(kind), str)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _word_of(tuple(kind), kind)
    if bool in kinds:
        return lambda table, key: table.flag(key, False) if table.has(key, bool) else None
    if int in kinds and str in kinds:
        return _number_or_placeholder
    if int in kinds:
        return lambda table, key: table.whole(key, 1)
    assert str in kinds, f"no reader for {hint}"
    return lambda table, key: table.text(key)


def _word_of(words: tuple[str, ...], make: Callable[[str], Any]) -> Reader:
    def parse(text: str) -> Any:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {text!r}")
        return make(text)

    return lambda table, key: table.read(key, parse)


def _texts(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return the strings of an array, or a single string in a tuple; None if they are wrong."""
    before = table.mistakes
    texts = tuple(table.texts(key))
    return texts if table.mistakes == before else None


def whole(least: int, most: int) -> Reader:
    """Return the reader of an integer between bounds."""
    return lambda table, key: table.whole(key, least, most)


def _number_or_placeholder(table: TomlTable, key: str) -> Any:
    """Return an integer of at least 1, or a text with a placeholder for one."""
    text = isinstance(table.values[key], str)
    return table.text(key) if text else table.whole(key, 1)


def nested(form: Form) -> Reader:
    """Return the reader of a table inside another."""

    def read(table: TomlTable, key: str) -> Any:
        inner = table.table(key)
        return None if inner is None else read_form(inner, form)

    return read


def each(form: Form) -> Reader:
    """Return the reader of an array of tables."""

    def read(table: TomlTable, key: str) -> Any:
        found = [read_form(inner, form) for inner in table.tables(key)]
        sound = table.has(key, list) and len(found) == len(table.values[key])
        return tuple(found) if sound and None not in found else None

    return read
