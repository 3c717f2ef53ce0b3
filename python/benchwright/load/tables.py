"""Tables of a workload's or spec's TOML: typed values by key, with the position of every
error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from benchwright.core.plan import Command
from benchwright.load import parse as words
from benchwright.load import workload as w
from benchwright.load.parse import FormField, ParameterForms
from benchwright.load.spec import CommandText, fill_placeholders
from benchwright.suite.program import Template
from benchwright.suite.template import OffsetLocator, brace_template, split_words
from benchwright.suite.toml_table import TomlTable, one_of_words

# --------------------------------------------------------------------------------------
# Values of a workload's TOML, read by the user's terms, with every error placed.

T = TypeVar("T")


# -- forms -----------------------------------------------------------------------


def read_distribution(
    table: TomlTable, key: str, parse: words.ParseText
) -> w.Distribution | None:
    """Return a distribution of values that `parse` reads: a text or a table."""
    if isinstance(table.values.get(key), dict):
        inner = table.table(key)
        assert inner is not None, "its type was looked at"
        if inner.values.get("type") == "weighted":
            return _weighted(inner, parse)
        return _form(inner, words.distribution_forms(parse), "distribution")  # type: ignore[no-any-return]
    return table.read(key, lambda text: words.parse_distribution(text, parse))


def _weighted(table: TomlTable, parse: words.ParseText) -> w.Weighted | None:
    """Return a distribution of single values with weights."""
    table.only(("type", "values"))
    pairs = [
        (table.scalar_of(one, parse, "values", index, 0), weight)
        for index, one, weight in _pairs(table, "values")
    ]
    good = tuple((value, weight) for value, weight in pairs if value is not None)
    return w.Weighted(good) if good else None


def read_arrival(table: TomlTable, key: str) -> w.Arrival | None:
    """Return an arrival process: a text or a table."""
    if isinstance(table.values.get(key), dict):
        inner = table.table(key)
        assert inner is not None, "its type was looked at"
        if inner.values.get("type") == "recorded":
            return _recorded(inner)
        forms = {
            **words.ARRIVALS,
            "recorded": words.ParameterForm((), w.PoissonArrival),
        }
        return _form(inner, forms, "arrival process")  # type: ignore[no-any-return]
    return table.read(key, words.parse_arrival)


def _recorded(table: TomlTable) -> w.RecordedArrival | None:
    """Return recorded gaps."""
    table.only(("type", "gaps"))
    if not table.need("gaps") or not table.has("gaps", list):
        return None
    gaps = [
        table.scalar_of(one, words.duration_ns, "gaps", index)
        for index, one in enumerate(table.values["gaps"])
    ]
    if not any(gaps):
        table.refuse(table.at("gaps"), "gaps has no gap above 0")
        return None
    return w.RecordedArrival(tuple(gap for gap in gaps if gap is not None))


def read_location(table: TomlTable, key: str) -> w.Location | None:
    """Return where operations go: a text or a table."""
    value = table.values.get(key)
    if isinstance(value, dict):
        inner = table.table(key)
        assert inner is not None, "its type was looked at"
        if value.get("type") == "mixed":
            return _mixed(inner)
        return _form(inner, words.LOCATIONS, "location")  # type: ignore[no-any-return]
    return table.read(key, words.parse_location)


def _mixed(table: TomlTable) -> w.MixedLocation | None:
    """Return a mixture of locations."""
    table.only(("type", "parts"))
    parts: list[tuple[w.Location, int]] = []
    for index, one, weight in _pairs(table, "parts"):
        if isinstance(one, dict):
            inner = table.inner(one, "parts", index, 0)
            part = _form(inner, words.LOCATIONS, "location")
        else:
            part = table.scalar_of(one, words.parse_location, "parts", index, 0)
        if part is not None:
            parts.append((part, weight))
    return w.MixedLocation(tuple(parts)) if parts else None


def _pairs(table: TomlTable, key: str) -> list[tuple[int, Any, int]]:
    """Return an array of `[value, weight]` as (place, value, weight)."""
    if not table.need(key) or not table.has(key, list):
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


def type_named(table: TomlTable, known: Mapping[str, T], what: str) -> T | None:
    """Return what `type` names; None when it is missing or names nothing."""
    word = table.text("type") if table.need("type") else None
    if word is None:
        return None
    if word not in known:
        hint = one_of_words(word, known)
        table.refuse(table.at("type"), f"{word!r} is no {what}", hint)
        return None
    return known[word]


def _form(table: TomlTable, forms: ParameterForms, what: str) -> Any:
    """Return what this table with its `type` means; None when it is wrong."""
    form = type_named(table, forms, what)
    if form is None:
        return None
    table.only(("type", *(field.name for field in form.fields)))
    values = {field.name: _field(table, field) for field in form.fields}
    required = [field.name for field in form.fields if field.required]
    if not table.need(*required) or any(values[name] is None for name in required):
        return None
    try:
        return form.made({k: v for k, v in values.items() if v is not None})
    except ValueError as error:
        table.refuse(table.where, str(error))
        return None


def _field(table: TomlTable, field: FormField) -> Any:
    return table.read(field.name, field.parse)


def read_rate(table: TomlTable, key: str) -> w.Rate | None:
    """Return a rate, or a profile: an array of `{for, from, to}` or `{for, at}`."""
    if not isinstance(table.values.get(key), list):
        micro = table.read(key, words.rate_micro)
        return None if micro is None else w.ConstantRate(micro)
    steps = [_rate_step(inner) for inner in table.tables(key)]
    if not steps:
        table.refuse(table.at(key), f"{key} has no steps")
    elif steps[-1] is not None and not any(
        s is not None and (s.from_micro_per_s or s.to_micro_per_s) for s in steps
    ):
        table.refuse(table.at(key), f"{key} is 0 all the time")
    return w.RateProfile(tuple(step for step in steps if step is not None))


def _rate_step(table: TomlTable) -> w.RateStep | None:
    """Return one step of a profile."""
    level = "at" in table
    table.only(("for", "at") if level else ("for", "from", "to"))
    keys = ("for", "at", "at") if level else ("for", "from", "to")
    if not table.need(*dict.fromkeys(keys)):
        return None
    for_ns = table.read("for", words.some_ns)
    begin = table.read(keys[1], _rate_or_zero)
    end = begin if level else table.read("to", _rate_or_zero)
    if for_ns is None or begin is None or end is None:
        return None
    return w.RateStep(for_ns, begin, end)


def read_region(table: TomlTable) -> w.Region:
    """Return the part of the target that `region` names; all of it without."""
    inner = table.table("region")
    if inner is None:
        return w.Region()
    inner.only(("offset", "length"))
    offset = inner.read("offset", words.size_bytes) or 0
    return w.Region(offset, inner.read("length", words.some_bytes))


def _rate_or_zero(text: str) -> int:
    return 0 if text.strip() in ("0", "0/s") else words.rate_micro(text)


# --------------------------------------------------------------------------------------
# A table of a spec: texts and commands with slots, quantities, every error placed.

_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


# -- texts -----------------------------------------------------------------------


def read_template(table: TomlTable, key: str) -> Template | None:
    """Return a text with slots; None when it is absent or wrong."""
    text = table.text(key)
    return None if text is None else _template(table, text, key)


def _template(table: TomlTable, text: str, *keys: str | int) -> Template:
    place = table.inside(text, *keys)
    _unknown(table, text, place, shell=False)
    return brace_template(text, place, table.known)


def read_templates(table: TomlTable, key: str) -> tuple[tuple[str, Template], ...]:
    """Return the texts of a table of names, numbers among them; such as `environment`."""
    inner = table.table(key)
    if inner is None:
        return ()
    found = []
    for name in inner.names("a variable"):
        text = inner.scalar(inner.values[name])
        if text is None:
            inner.mistyped(inner.at(name), name, inner.values[name], (str, int))
        else:
            found.append((name, _template(inner, text, name)))
    return tuple(found)


def read_template_value(
    table: TomlTable,
    key: str,
    parse: Callable[[str], Any],
    levels: Callable[[str], list[str]],
) -> Template | None:
    """Return a text with slots that `parse` accepts with every level in them.

    `levels` returns the texts that a name in braces may stand for; none: not checked.
    """
    template = read_template(table, key)
    if template is None:
        return None
    for text in _variants(template, levels):
        try:
            parse(text)
        except ValueError as error:
            table.refuse(table.at(key), f"{key}: {error}")
            break
    return template


# -- commands --------------------------------------------------------------------


def read_command(table: TomlTable, key: str) -> CommandText | None:
    """Return one command: a text, or an array of words."""
    if not table.has(key, str, list):
        return None
    return _command(table, table.values[key], key)


def read_commands(table: TomlTable, key: str) -> tuple[CommandText, ...]:
    """Return commands: one text, or an array of texts and of arrays of words."""
    if not table.has(key, str, list):
        return ()
    value = table.values[key]
    if isinstance(value, str):
        found = [_command(table, value, key)]
    else:
        found = [_command(table, one, key, at) for at, one in enumerate(value)]
    return tuple(one for one in found if one is not None)


def _command(table: TomlTable, value: Any, *keys: str | int) -> CommandText | None:
    where = table.at(*keys)
    if not isinstance(value, (str, list)):
        table.mistyped(where, f"a command of {keys[0]}", value, (str, list))
        return None
    empty = not value or not (value if isinstance(value, str) else value[0])
    if empty or (isinstance(value, str) and not value.strip()):
        table.wrong(where, "spec-no-command", f"a command of {keys[0]} is empty")
        return None
    if isinstance(value, str):
        return _text_command(table, value, *keys)
    return _word_command(table, value, *keys)


def _word_command(
    table: TomlTable, value: list[Any], *keys: str | int
) -> CommandText | None:
    found = []
    for index, word in enumerate(value):
        if not isinstance(word, str):
            where = table.at(*keys, index)
            table.mistyped(where, f"a word of {keys[0]}", word, (str,))
            return None
        found.append(_template(table, word, *keys, index))
    return CommandText(tuple(found))


def _text_command(table: TomlTable, text: str, *keys: str | int) -> CommandText:
    """Return the command of a text: split into words, or a shell's where it is written so."""
    place = table.inside(text, *keys)
    # Braces around a name are ours; what is left decides, as everywhere in a suite.
    shell = Command.from_text(_BRACES.sub("x", text)).argv[:2] == ("/bin/sh", "-c")
    _unknown(table, text, place, shell=shell)
    if shell:
        return CommandText((brace_template(text, place, table.known),), shell=True)
    found, _ = split_words(text)
    return CommandText(
        tuple(
            brace_template(one.text, _shifted(place, one.offset), table.known)
            for one in found
        )
    )


def _unknown(table: TomlTable, text: str, place: OffsetLocator, *, shell: bool) -> None:
    """Report unknown names in braces; a shell has its own braces."""
    for match in _BRACES.finditer(text):
        name = match[1]
        near = difflib.get_close_matches(name, table.known, 1, 0.8)
        if name in table.known or (shell and not near):
            continue
        meant = f"did you mean {{{near[0]}}}? " if near else ""
        known = ", ".join(f"{{{one}}}" for one in table.known)
        message = f"there is no variable {name!r}"
        where = place(match.start())
        table.wrong(where, "spec-unknown-name", message, f"{meant}known here: {known}")


def _shifted(place: OffsetLocator, by: int) -> OffsetLocator:
    return lambda offset: place(by + offset)


def _variants(template: Template, levels: Callable[[str], list[str]]) -> list[str]:
    """Return the texts that a template can be, one slot varied at a time."""
    names = [slot.name for slot in template.slots]
    if any(not levels(name) for name in names):
        return []
    first = {name: levels(name)[0] for name in names}
    others = [{**first, name: one} for name in names for one in levels(name)[1:]]
    return [fill_placeholders(template, one) for one in (first, *others)]
