"""Declares a TOML table as data: its keys, how each is read, and the object made of them.

A `Form` is the declaration: an `Option` (inputs/options.py) for each key. `read_form` reads a table
by any form and reports every error: unknown keys, missing keys, wrong types, invalid values.
`form_of` derives a form from the fields of a record, and `keys_of` from the options of a request,
so that no key can be read and then ignored.
Decision: a key has a `parse` (from a scalar's text, as an option has) or a `read` (for anything
else). Rejected: a schema with validators (docs/decisions/0010-options-and-toml.md). The caller
checks combinations of keys on the table, so that they are reported together with wrong values.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.inputs.mistakes import at_key
from benchwright.inputs.options import Option, Reader, options_of

if TYPE_CHECKING:
    from benchwright.inputs.toml_table import TomlTable


def needed(
    key: str,
    parse: Callable[[str], Any] | None = None,
    *,
    read: Reader | None = None,
    field: str = "",
    **more: Any,
) -> Option:
    """Return the declaration of a key that must be given, and that is no option; `field`: what it
    sets, if that is not the key."""
    return Option(key=key, parse=parse, read=read, field=field, **({"required": True} | more))


optional = partial(needed, required=False)
"""Returns the declaration of a key that need not be given, and that is no option."""


def keys_of(request: type[msgspec.Struct]) -> tuple[Option, ...]:
    """Return the options of a request that are keys too."""
    return tuple(
        option._replace(read=of_type(bool)) if option.kind == "flag" else option
        for option in options_of(request).values()
        if option.key
    )


class Form(msgspec.Struct, frozen=True):
    """The keys of a table, and the function that makes an object of their values."""

    keys: tuple[Option, ...]
    make: Callable[..., Any] = dict
    """Takes the values of the given keys, by field. Raises ValueError."""

    @property
    def names(self) -> tuple[str, ...]:
        """The keys as the user writes them."""
        return tuple(str(key.key) for key in self.keys)

    @property
    def fields(self) -> dict[str, str]:
        """The field that each key sets."""
        return {str(key.key): key.field or str(key.key) for key in self.keys}

    def made(self, values: Mapping[str, Any]) -> Any:
        """Return the object of these values by key. Raises ValueError."""
        return self.make(**{field: values[k] for k, field in self.fields.items() if k in values})


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
    given = {field for key, field in form.fields.items() if key in table}
    absent = [key for key in form.keys if key.required and str(key.key) not in table]
    for one in absent:
        table.need(str(one.key), hint=one.hint)
    values = read_values(table, form.keys)
    if absent or given - values.keys():
        return None
    try:
        return form.make(**values)
    except ValueError as error:
        table.refuse(table.where, str(error))
        return None


def read_values(
    table: TomlTable, keys: Sequence[Option], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of the given keys by field, without the wrong ones, which are reported;
    `only`: the keys to read."""
    values: dict[str, Any] = {}
    for one in keys:
        key = str(one.key)
        if key not in table or (only is not None and key not in only):
            continue
        before = table.mistakes
        value = one.read(table, key) if one.read else table.read(key, one.parse or str)
        if value is None and table.mistakes == before and one.read:
            table.refuse(table.at(key), f"{key} is empty", one.hint)
        # None can be the value of a text, such as a time limit of `none`.
        if value is not None or table.mistakes == before:
            values[one.field or key] = value
    return values


def texts_of(table: TomlTable, request: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the texts that the keys of a table give the options of a request, by its field.

    A key's `read` returns its text here. Wrong types are reported and left out.
    """
    texts: dict[str, Any] = {}
    for option in options_of(request).values():
        key = str(option.key)
        if not option.key or key not in table:
            continue
        if option.kind == "list":
            texts[option.name] = tuple(table.texts(key))
        elif (text := option.read(table, key) if option.read else table.read(key, str)) is not None:
            texts[option.name] = text
    return texts


def place_mistakes(
    table: TomlTable, request: type[msgspec.Struct], mistakes: Iterable[Diagnostic], code: str = ""
) -> None:
    """Report mistakes of a request's options at the keys of a table; `code`: their code there."""
    keys = {option.flag: str(option.key) for option in options_of(request).values() if option.key}
    for mistake in mistakes:
        key = keys.get(mistake.file, mistake.file)
        where = table.at(key) if key in table else table.where
        if key in table and isinstance(value := table.values[key], list) and mistake.text in value:
            where = table.at(key, value.index(mistake.text))
        placed = at_key(mistake, key, where, code)
        hint = table.unknown_name(mistake.text) or placed.hint
        table.note(msgspec.structs.replace(placed, hint=hint))


def form_of(
    kind: type[msgspec.Struct], declared: Mapping[str, Option] | None = None, /, **settled: Any
) -> Form:
    """Return the form of a record: a key for each field.

    The `Option` is in the field's annotation or in `declared`, by the field's name. If it has
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


def _key_of(field: msgspec.structs.FieldInfo, hint: Any, declared: Option | None) -> Option:
    annotated = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Option)]
    option = declared or next(iter(annotated), Option())
    if option.parse is None and option.read is None:
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        option = option._replace(read=of_type(bare))
    key = option.key if isinstance(option.key, str) and option.key else field.name
    return option._replace(key=key, field=field.name, required=field.required)


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
