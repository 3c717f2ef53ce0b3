"""Reads tables of a workload's or spec's TOML: typed values by key; each error has its
position."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchwright.core.errors import suggestion
from benchwright.core.untrusted import regular_bytes
from benchwright.features.load import parse as words
from benchwright.features.load import workload as w
from benchwright.features.load.options import TargetOptions
from benchwright.features.load.request import (
    MEANINGS,
    LoadTarget,
    Payload,
    ProtoFile,
    Stall,
    Statement,
)
from benchwright.inputs.form import (
    Form,
    each,
    keys_of,
    needed,
    nested,
    of_type,
    optional,
    read_form,
    read_values,
)
from benchwright.inputs.mistakes import Where
from benchwright.inputs.options import Reader
from benchwright.inputs.template import (
    NAME_IN_BRACES,
    OffsetLocator,
    Template,
    brace_template,
    choice,
    fill_placeholders,
)
from benchwright.inputs.toml_table import TomlTable, one_of_words, set_by_trial

# --------------------------------------------------------------------------------------
# Values of a workload's TOML; each error has its position.

# -- forms -----------------------------------------------------------------------


def read_distribution(parse: words.ParseText) -> Reader:
    """Return the reader of a distribution whose values `parse` reads: a text, a table with `type`,
    a table of weights by value, or an array of values with the same weight."""
    weighted = Form((needed("values", read=_weighted(parse)),), w.Weighted)
    forms = {**words.distribution_forms(parse), "weighted": weighted}
    short = partial(words.parse_distribution, parse=parse)
    typed = _text_or_form(short, forms, "distribution")
    fields = {"type"}.union(*(form.names for form in forms.values()))

    def read(table: TomlTable, key: str) -> Any:
        value = table.values[key]
        if isinstance(value, list):
            return _equal_weights(table, key, parse)
        if isinstance(value, dict) and value and not fields & value.keys():
            return _weights_by_value(table, key, parse)
        return typed(table, key)

    return read


def _equal_weights(table: TomlTable, key: str, parse: words.ParseText) -> w.Weighted | None:
    """Return the values of an array, each with the weight of how often it is there."""
    found = [table.scalar_of(one, parse, key, index) for index, one in enumerate(table.values[key])]
    if not found:
        table.refuse(table.at(key), f"{key} is empty")
    sound = [value for value in found if value is not None]
    if not sound or len(sound) < len(found):
        return None
    return w.Weighted(tuple(Counter(sound).items()))


def _weights_by_value(table: TomlTable, key: str, parse: words.ParseText) -> w.Weighted | None:
    """Return the values that are the keys of a table, with their weights."""
    inner = table.table(key)
    assert inner is not None, "it is a table"
    pairs = []
    for text in inner.values:
        value = table.scalar_of(text, parse, key, text)
        weight = inner.read(text, words.some)
        if value is not None and weight is not None:
            pairs.append((value, weight))
    return w.Weighted(tuple(pairs)) if len(pairs) == len(inner.values) else None


def _text_or_form(parse: words.ParseText, forms: words.Forms, what: str) -> Reader:
    """Return the reader of a text, or of a table whose `type` names its form."""

    def read(table: TomlTable, key: str) -> Any:
        if not isinstance(table.values[key], dict):
            return table.read(key, parse)
        inner = table.table(key)
        assert inner is not None, "its type was looked at"
        return read_typed(inner, forms, what)

    return read


def read_typed(table: TomlTable, forms: words.Forms, what: str, also: tuple[str, ...] = ()) -> Any:
    """Return the value of a table with a `type`; None if an error was reported."""
    word = table.text("type") if table.need("type") else None
    if word is None:
        return None
    if word not in forms:
        hint = one_of_words(word, forms)
        table.refuse(table.at("type"), f"{word!r} is no {what}", hint)
        return None
    return read_form(table, forms[word], ("type", *also))


def _weighted(parse: words.ParseText) -> Reader:
    """Return the reader of values with weights."""

    def read(table: TomlTable, key: str) -> Any:
        pairs = [
            (table.scalar_of(one, parse, key, index, 0), weight)
            for index, one, weight in _pairs(table, key)
        ]
        return tuple(pair for pair in pairs if pair[0] is not None) or None

    return read


def _gaps(table: TomlTable, key: str) -> tuple[int, ...] | None:
    if not table.has(key, list):
        return None
    gaps = [
        table.scalar_of(one, words.duration_ns, key, index)
        for index, one in enumerate(table.values[key])
    ]
    if not any(gaps):
        table.refuse(table.at(key), f"{key} has no gap above 0")
        return None
    return tuple(gap for gap in gaps if gap is not None)


def _parts(table: TomlTable, key: str) -> tuple[tuple[w.Location, int], ...] | None:
    parts: list[tuple[w.Location, int]] = []
    for index, one, weight in _pairs(table, key):
        if isinstance(one, dict):
            inner = table.inner(one, key, index, 0)
            part = read_typed(inner, words.LOCATIONS, "location")
        else:
            part = table.scalar_of(one, words.parse_location, key, index, 0)
        if part is not None:
            parts.append((part, weight))
    return tuple(parts) or None


def _pairs(table: TomlTable, key: str) -> list[tuple[int, Any, int]]:
    """Return an array of `[value, weight]` as (place, value, weight)."""
    if not table.has(key, list):
        return []
    found = []
    for index, one in enumerate(table.values[key]):
        if not isinstance(one, list) or len(one) != 2:
            table.refuse(table.at(key, index), f"{key}: expected [value, weight]")
            continue
        weight = table.scalar_of(one[1], words.some, key, index, 1)
        if weight is not None:
            found.append((index, one[0], weight))
    if not table.values[key]:
        table.refuse(table.at(key), f"{key} is empty")
    return found


read_arrival = _text_or_form(
    words.parse_arrival,
    {
        **words.ARRIVALS,
        "recorded": Form((needed("gaps", read=_gaps, field="gaps_ns"),), w.RecordedArrival),
    },
    "arrival process",
)
"""Reads an arrival process: a text or a table."""
read_location = _text_or_form(
    words.parse_location,
    {**words.LOCATIONS, "mixed": Form((needed("parts", read=_parts),), w.MixedLocation)},
    "location",
)
"""Reads the location of operations: a text or a table."""


def read_rate(table: TomlTable, key: str) -> w.Rate | None:
    """Return a rate, or a profile: an array of `{for, from, to}` or `{for, at}`."""
    if not isinstance(table.values[key], list):
        micro = table.read(key, words.rate_micro)
        return None if micro is None else w.ConstantRate(micro)
    steps = [
        read_form(toml_table, _LEVEL if "at" in toml_table else _SLOPE)
        for toml_table in table.tables(key)
    ]
    if not steps:
        table.refuse(table.at(key), f"{key} has no steps")
    elif steps[-1] is not None and not any(
        s is not None and (s.from_micro_per_s or s.to_micro_per_s) for s in steps
    ):
        table.refuse(table.at(key), f"{key} is 0 all the time")
    return w.RateProfile(tuple(step for step in steps if step is not None))


def _rate_or_zero(text: str) -> int:
    return 0 if text.strip() in ("0", "0/s") else words.rate_micro(text)


_FOR = needed("for", words.some_ns, field="for_ns")
_SLOPE = Form(
    (
        _FOR,
        needed("from", _rate_or_zero, field="from_micro_per_s"),
        needed("to", _rate_or_zero, field="to_micro_per_s"),
    ),
    w.RateStep,
)
_LEVEL = Form((_FOR, needed("at", _rate_or_zero)), lambda for_ns, at: w.RateStep(for_ns, at, at))
_OFFSET = optional("offset", words.size_bytes, field="offset_bytes")
_LENGTH = optional("length", words.some_bytes, field="length_bytes")
REGION = optional(
    "region",
    read=nested(Form((_OFFSET, _LENGTH), w.Region)),
    help='`{offset = "1G", length = "4G"}`',
    default="the whole target",
)
"""The part of the target that a filament uses; without it, the whole target."""


# -- files beside the text -------------------------------------------------------

MOST_BYTES = 64 * 2**20
"""Maximum length of a file of paths, lines or a body."""


def file_beside(table: TomlTable, key: str) -> bytes | None:
    """Return the contents of a file that a key names, relative to the text; None if it cannot be
    read. The contents are added to the files of the text, in base64."""
    name = table.text(key)
    return None if name is None else _contents_beside(table, name, table.at(key))


def _contents_beside(table: TomlTable, name: str, place: Where) -> bytes | None:
    path = Path(place.file).parent / name
    stored = table.files.get(str(path))
    if stored is not None:
        return base64.b64decode(stored)
    try:
        if not path.is_file():
            table.refuse(place, f"there is no file {path}")
            return None
        if path.stat().st_size > MOST_BYTES:
            message = f"{path} is larger than {MOST_BYTES // 2**20} MiB"
            table.refuse(place, message, "use a part of it")
            return None
        contents = regular_bytes(path)
    except OSError as error:
        table.refuse(place, f"{path}: {error.strerror}")
        return None
    table.files[str(path)] = base64.b64encode(contents).decode()
    return contents


def lines_beside(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return the lines of a file that a key names, without empty ones; None if there are none."""
    contents = file_beside(table, key)
    if contents is None:
        return None
    try:
        text = contents.decode()
    except UnicodeDecodeError:
        table.refuse(table.at(key), f"{table.values[key]} is not UTF-8")
        return None
    lines = tuple(line for line in text.splitlines() if line)
    if not lines:
        table.refuse(table.at(key), f"{table.values[key]} has no lines")
        return None
    return lines


# -- targets ---------------------------------------------------------------------


def _refuse_later(table: TomlTable, text: str, key: str) -> None:
    """Report names that a trial sets, in a text that is the same in each trial."""
    named = brace_template(text, lambda _: table.at(key), table.later).slots
    if named:
        name = named[0].name
        hint = "write its value" if name in table.known else set_by_trial(name)
        table.refuse(table.at(key), f"{key}: {{{name}}} has no value here", hint)


def read_headers(table: TomlTable, key: str) -> tuple[tuple[str, str], ...] | None:
    """Return names and values of headers."""
    headers = table.table(key)
    if headers is None:
        return None
    texts = {name: headers.text(name) for name in headers.values}
    for name, text in texts.items():
        _refuse_later(headers, text or "", name)
    return tuple((name, text) for name, text in texts.items() if text is not None)


def _commands(table: TomlTable, key: str) -> Any:
    """Return the commands of a text, or of an array: each a text, or an array with its words."""
    if not isinstance(table.values[key], list):
        return table.read(key, words.commands_text)
    found: list[tuple[str, ...]] = []
    for index, one in enumerate(table.values["commands"]):
        if isinstance(one, list) and one and all(isinstance(word, str) for word in one):
            found.append(tuple(one))
        elif isinstance(one, str):
            found += table.scalar_of(one, words.redis_commands, "commands", index) or ()
        else:
            where = table.at("commands", index)
            table.refuse(where, "a command is a text, or an array of texts")
    if not table.values["commands"]:
        table.refuse(table.at("commands"), "commands is empty")
    for text in (word for command in found for word in command):
        _refuse_later(table, text, "commands")
    return tuple(found)


def read_payloads(table: TomlTable, key: str) -> tuple[Payload, ...]:
    """Return what operations send: a text, or an array of them."""
    said = table.values[key]
    each = list(enumerate(said)) if isinstance(said, list) else [(None, said)]
    if not each:
        table.refuse(table.at(key), f"{key} is empty")
    payloads = []
    for index, one in each:
        keys = (key,) if index is None else (key, index)
        where = table.at(*keys)
        if not isinstance(one, str):
            table.mistyped(where, f"a {key}", one, (str,))
            continue
        _refuse_later(table, one, key)
        name = words.payload_file(one)
        contents = None if name is None else _contents_beside(table, name, where)
        if name is not None and contents is None:
            continue
        try:
            made = words.payload(one) if contents is None else words.payload_of_bytes(contents)
        except ValueError as error:
            table.refuse(where, f"{key}: {error}")
            continue
        payloads.append(made)
    return tuple(payloads)


def _proto(table: TomlTable, key: str) -> tuple[ProtoFile, ...] | None:
    """Return a `.proto` file, relative to the text, and those that it imports."""
    name = table.text(key)
    if name is None:
        return None
    place = table.at(key)
    directory = Path(place.file).parent
    said = table.values.get("import_path")
    paths = [str(directory / one) for one in said.split(":")] if isinstance(said, str) else []

    def read(path: str) -> bytes | None:
        if path not in table.files and not Path(path).is_file():
            return None
        return _contents_beside(table, os.path.relpath(path, directory), place)

    try:
        found = words.proto_files(str(directory / name), ":".join(paths) or None, read)
    except ValueError as error:
        table.refuse(place, f"{key}: {error}")
        return None
    if not found:
        table.refuse(place, f"there is no file {directory / name}")
    return found or None


def read_data(table: TomlTable, key: str) -> str | None:
    """Return messages as JSON: a text of it, `@FILE` relative to the text, a table, or an array."""
    said = table.values[key]
    if not isinstance(said, str):
        return json.dumps(said, default=str)
    if not said.startswith("@"):
        return said
    contents = _contents_beside(table, said[1:], table.at(key))
    try:
        return None if contents is None else contents.decode()
    except UnicodeDecodeError:
        table.refuse(table.at(key), f"{said} is not UTF-8")
        return None


def _metadata(table: TomlTable, key: str) -> tuple[tuple[str, str], ...] | None:
    """Return names and values of metadata: a table, or an array of `NAME:VALUE`."""
    said = table.values[key]
    if isinstance(said, list):
        found = [
            table.scalar_of(one, words.grpc_metadata, key, place) for place, one in enumerate(said)
        ]
    else:
        inner = table.table(key)
        if inner is None:
            return None
        found = [inner.read(name, partial(words.grpc_pair, name)) for name in inner.values]
    return tuple(pair for pair in found if pair is not None)


_STATEMENT = Form(
    (
        needed("sql", read=of_type(str)),
        optional("parameters", read=lambda table, key: read_parameters(table, key)),
    ),
    Statement,
)


def read_parameters(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return values of parameters: texts or numbers."""
    if not table.has(key, list):
        return None
    found = []
    for index, value in enumerate(table.values[key]):
        text = table.scalar(value)
        if text is None:
            where = table.at(key, index)
            table.mistyped(where, f"a value of {key}", value, (str, int, float))
        else:
            _refuse_later(table, text, key)
            found.append(text)
    return tuple(found)


def _statements(table: TomlTable, key: str) -> tuple[tuple[Statement, ...], ...]:
    """Return the operations on a database: each a statement, or an array of them in order. A
    statement is a text of SQL, or a table with `sql` and `parameters`."""
    if not table.has(key, list):
        return ()
    if not table.values[key]:
        table.refuse(table.at(key), f"{key} is empty")
    found: list[tuple[Statement | None, ...]] = []
    for index, one in enumerate(table.values[key]):
        if not isinstance(one, list):
            found.append((_statement(table, one, key, index),))
            continue
        if not one:
            table.refuse(table.at(key, index), f"an operation of {key} is empty")
        found.append(
            tuple(_statement(table, inner, key, index, place) for place, inner in enumerate(one))
        )
    return tuple(
        tuple(statement for statement in statements if statement is not None)
        for statements in found
    )


def read_transaction(table: TomlTable, key: str) -> tuple[Statement, ...] | None:
    """Return the statements of one operation: an array of texts of SQL, or of tables with `sql` and
    `parameters`."""
    if not table.has(key, list):
        return None
    if not table.values[key]:
        table.refuse(table.at(key), f"{key} is empty")
    each = enumerate(table.values[key])
    read = [_statement(table, one, key, index) for index, one in each]
    return tuple(statement for statement in read if statement is not None)


def _statement(table: TomlTable, value: Any, *keys: str | int) -> Statement | None:
    where = table.at(*keys)
    if isinstance(value, dict):
        made: Statement | None = read_form(table.inner(value, *keys), _STATEMENT)
    elif isinstance(value, str):
        made = Statement(value)
    else:
        table.mistyped(where, "a statement", value, (str, dict))
        return None
    if made is not None:
        _refuse_later(table, made.sql, str(keys[0]))
        if not made.sql.strip():
            table.refuse(where, "a statement is empty")
    return made


_RANGE = re.compile(r"\[(\d{1,9})-(\d{1,9})\]", re.ASCII)
MOST_PATHS = 100_000


def _paths(table: TomlTable, key: str) -> tuple[str, ...]:
    """Return the paths of an HTTP target; `/[1-9].txt` is nine of them, as in curl."""
    paths: list[str] = []
    for text in table.texts(key):
        _refuse_later(table, text, key)
        if not text.startswith("/"):
            table.refuse(table.at(key), "a path begins with /")
        match = _RANGE.search(text)
        if match is None:
            paths.append(text)
            continue
        numbers = range(int(match[1]), int(match[2]) + 1)
        if not numbers or len(paths) + len(numbers) > MOST_PATHS:
            message = f"{match[0]} in {text} is not a range such as [1-100]: its end is below its beginning, or"
            table.refuse(table.at(key), f"{message} there are more than {MOST_PATHS:,} paths")
            continue
        before, after = text[: match.start()], text[match.end() :]
        paths += [f"{before}{number}{after}" for number in numbers]
    return tuple(paths)


def _paths_of_file(table: TomlTable, key: str) -> tuple[str, ...]:
    """Return the paths of a file, one a line, after those of the array."""
    paths = lines_beside(table, key) or ()
    wrong = next((n for n, path in enumerate(paths, 1) if path[0] != "/"), None)
    if wrong is not None:
        message = f"path {wrong} of {table.values[key]} does not begin with /"
        table.refuse(table.at(key), message)
    # Mistakes of the array have been reported.
    return (*(_paths(table.silent(), "paths") if "paths" in table else ()), *paths)


_stalls = each(
    Form(
        (
            needed("at", words.duration_ns, field="at_ns"),
            needed("for", words.some_ns, field="for_ns"),
        ),
        Stall,
    )
)
_IN_FILES = {
    "commands": _commands,
    "payload": read_payloads,
    "proto": _proto,
    "data": read_data,
    "metadata": _metadata,
}
"""Readers of options of `bw load` that a file has in another form."""
TARGET = Form(
    (
        *(
            key._replace(read=_IN_FILES.get(str(key.key), key.read))
            for key in keys_of(TargetOptions)
        ),
        optional("threads", words.some),
        optional("block", words.some_bytes, field="block_bytes"),
        optional("receive", words.size_bytes, field="receive_bytes"),
        optional("match", words.size_bytes, field="match_bytes"),
        optional("method", str),
        optional("meaning", choice("meaning", "plain", *MEANINGS)),
        optional("password_file", str),
        optional("resp", words.resp),
        optional("body", words.size_bytes, field="body_bytes"),
        optional("open_files", words.count),
        optional("root_handle", str),
        optional("requests_per_connection", words.some),
        optional("jukebox_retry", words.duration_ns, field="jukebox_retry_ns"),
        optional("paths", read=_paths),
        optional("paths_file", read=_paths_of_file, field="paths"),
        optional("statements", read=_statements),
        optional("headers", read=read_headers),
        optional("subprotocols", read=of_type(tuple[str, ...])),
        optional("message_limit", words.some_bytes, field="message_bytes"),
        optional("stalls", read=_stalls),
    )
)
"""Options of a target, in a workload's `[target]` and, but for its size and stalls, in `[load]` of a
spec. request.py defines the kinds of target that accept them."""


def refuse_options(
    table: TomlTable, target: LoadTarget, keys: Sequence[str] = TARGET.names
) -> None:
    """Report options among these keys that this target does not accept, and commands that it cannot
    read."""
    for key in keys:
        if key in table and (why := words.why_refused(target, TARGET.fields[key], key)):
            table.refuse(table.at(key), why)
    if "commands" in table and "commands" in words.options_of(target):
        said = {one: table.values[one] for one in ("commands", "statements") if one in table}
        try:
            words.with_own_options(target, said)
        except ValueError as error:
            table.refuse(table.at("commands"), f"commands: {error}")


def with_table(
    table: TomlTable, target: words.AnyTarget, *, checked: bool = True
) -> words.AnyTarget:
    """Return the target with those options of a table that it accepts; the others are reported,
    unless the target replaces the table's (`checked`)."""
    options = read_values(table, TARGET.keys)
    if checked:
        refuse_options(table, target)
    # Commands that it cannot read have been reported.
    with contextlib.suppress(ValueError):
        return words.with_own_options(target, options)
    return target


# --------------------------------------------------------------------------------------
# A table of a spec: texts and commands with slots, quantities; each error has its position.

# -- texts -----------------------------------------------------------------------


def read_template(table: TomlTable, key: str) -> Template | None:
    """Return a text with slots; None when it is absent or wrong."""
    table = table.as_written
    text = table.text(key)
    return None if text is None else template_of(table, text, key)


def template_of(table: TomlTable, text: str, *keys: str | int) -> Template:
    place = table.inside(text, *keys)
    refuse_unknown_names(table, text, place, shell=False)
    return brace_template(text, place, tuple(table.known))


def read_templates(table: TomlTable, key: str) -> tuple[tuple[str, Template], ...]:
    """Return the texts (or numbers) of a table by name, such as `environment`."""
    inner = table.as_written.table(key)
    if inner is None:
        return ()
    found = []
    for name in inner.names("a variable"):
        text = inner.scalar(inner.values[name])
        if text is None:
            inner.mistyped(inner.at(name), name, inner.values[name], (str, int))
        else:
            found.append((name, template_of(inner, text, name)))
    return tuple(found)


def template_value(parse: Callable[[str], Any]) -> Reader:
    """Return the reader of a text with slots; `parse` must accept it with their values."""

    def read(table: TomlTable, key: str) -> Template | None:
        template = read_template(table, key)
        if template is None:
            return None
        try:
            parse(fill_placeholders(template, table.known))
        except ValueError as error:
            table.refuse(table.at(key), f"{key}: {error}")
        return template

    return read


def refuse_unknown_names(table: TomlTable, text: str, place: OffsetLocator, *, shell: bool) -> None:
    """Report unknown names in braces; in a shell command, only those that resemble a known one."""
    for match in NAME_IN_BRACES.finditer(text):
        name = match[1]
        meant = suggestion(name, table.known, form="{%s}", least=0.8)
        if name in table.known or (shell and not meant):
            continue
        known = ", ".join(f"{{{one}}}" for one in table.known)
        message = f"there is no variable {name!r}"
        hint = f"{meant} known here: {known}".lstrip()
        if name in table.later:
            message, hint = f"{{{name}}} has no value here", set_by_trial(name)
        table.wrong(place(match.start()), "spec-unknown-name", message, hint)
