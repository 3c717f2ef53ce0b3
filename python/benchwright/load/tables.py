"""Tables of a workload's or spec's TOML: typed values by key, with the position of every mistake."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
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
# Values of a workload's TOML, read by the user's words, with every mistake placed.

T = TypeVar("T")


class WorkloadTable(TomlTable):
    """A table whose values are quantities and forms."""

    kind = "workload"

    # -- forms -----------------------------------------------------------------------

    def distribution(self, key: str, parse: words.ParseText) -> w.Distribution | None:
        """Return a distribution of values that `parse` reads: a text or a table."""
        if isinstance(self.values.get(key), dict):
            table = self.table(key)
            assert table is not None, "its type was looked at"
            if table.values.get("type") == "weighted":
                return table.weighted(parse)
            return table.form(words.distribution_forms(parse), "distribution")  # type: ignore[no-any-return]
        return self.read(key, lambda text: words.parse_distribution(text, parse))

    def weighted(self, parse: words.ParseText) -> w.Weighted | None:
        """Return a distribution of single values with weights."""
        self.only(("type", "values"))
        pairs = [
            (self.scalar_of(one, parse, "values", index, 0), weight)
            for index, one, weight in self.pairs("values")
        ]
        good = tuple((value, weight) for value, weight in pairs if value is not None)
        return w.Weighted(good) if good else None

    def arrival(self, key: str) -> w.Arrival | None:
        """Return an arrival process: a text or a table."""
        if isinstance(self.values.get(key), dict):
            table = self.table(key)
            assert table is not None, "its type was looked at"
            if table.values.get("type") == "recorded":
                return table.recorded()
            forms = {
                **words.ARRIVALS,
                "recorded": words.ParameterForm((), w.PoissonArrival),
            }
            return table.form(forms, "arrival process")  # type: ignore[no-any-return]
        return self.read(key, words.parse_arrival)

    def recorded(self) -> w.RecordedArrival | None:
        """Return recorded gaps."""
        self.only(("type", "gaps"))
        if not self.need("gaps") or not self.has("gaps", list):
            return None
        gaps = [
            self.scalar_of(one, words.duration_ns, "gaps", index)
            for index, one in enumerate(self.values["gaps"])
        ]
        if not any(gaps):
            self.refuse(self.at("gaps"), "gaps has no gap above 0")
            return None
        return w.RecordedArrival(tuple(gap for gap in gaps if gap is not None))

    def location(self, key: str) -> w.Location | None:
        """Return where operations go: a text or a table."""
        value = self.values.get(key)
        if isinstance(value, dict):
            table = self.table(key)
            assert table is not None, "its type was looked at"
            if value.get("type") == "mixed":
                return table.mixed()
            return table.form(words.LOCATIONS, "location")  # type: ignore[no-any-return]
        return self.read(key, words.parse_location)

    def mixed(self) -> w.MixedLocation | None:
        """Return a mixture of locations."""
        self.only(("type", "parts"))
        parts: list[tuple[w.Location, int]] = []
        for index, one, weight in self.pairs("parts"):
            if isinstance(one, dict):
                inner = self.inner(one, "parts", index, 0)
                part = inner.form(words.LOCATIONS, "location")
            else:
                part = self.scalar_of(one, words.parse_location, "parts", index, 0)
            if part is not None:
                parts.append((part, weight))
        return w.MixedLocation(tuple(parts)) if parts else None

    def inner(self, values: dict[str, Any], *keys: str | int) -> WorkloadTable:
        """Return a table that stands inside an array."""
        return type(self)(values, (*self.path, *keys), self._locator, self._found)

    def pairs(self, key: str) -> list[tuple[int, Any, int]]:
        """Return an array of `[value, weight]` as (place, value, weight)."""
        if not self.need(key) or not self.has(key, list):
            return []
        found = []
        for index, one in enumerate(self.values[key]):
            if not isinstance(one, list) or len(one) != 2:
                self.refuse(self.at(key, index), f"{key}: expected [value, weight]")
                continue
            weight = self.scalar_of(one[1], words.some, key, index, 1)
            if weight is not None:
                found.append((index, one[0], weight))
        if not self.values[key]:
            self.refuse(self.at(key), f"{key} is empty")
        return found

    def named(self, known: Mapping[str, T], what: str) -> T | None:
        """Return what `type` names; None when it is missing or names nothing."""
        word = self.text("type") if self.need("type") else None
        if word is None:
            return None
        if word not in known:
            hint = one_of_words(word, known)
            self.refuse(self.at("type"), f"{word!r} is no {what}", hint)
            return None
        return known[word]

    def form(self, forms: ParameterForms, what: str) -> Any:
        """Return what this table with its `type` means; None when it is wrong."""
        form = self.named(forms, what)
        if form is None:
            return None
        self.only(("type", *(field.name for field in form.fields)))
        values = {field.name: self._field(field) for field in form.fields}
        required = [field.name for field in form.fields if field.required]
        if not self.need(*required) or any(values[name] is None for name in required):
            return None
        try:
            return form.made({k: v for k, v in values.items() if v is not None})
        except ValueError as error:
            self.refuse(self.where, str(error))
            return None

    def _field(self, field: FormField) -> Any:
        return self.read(field.name, field.parse)

    def rate(self, key: str) -> w.Rate | None:
        """Return a rate, or a profile: an array of `{for, from, to}` or `{for, at}`."""
        if not isinstance(self.values.get(key), list):
            micro = self.read(key, words.rate_micro)
            return None if micro is None else w.ConstantRate(micro)
        steps = [table.rate_step() for table in self.tables(key)]
        if not steps:
            self.refuse(self.at(key), f"{key} has no steps")
        elif steps[-1] is not None and not any(
            s is not None and (s.from_micro_per_s or s.to_micro_per_s) for s in steps
        ):
            self.refuse(self.at(key), f"{key} is 0 all the time")
        return w.RateProfile(tuple(step for step in steps if step is not None))

    def rate_step(self) -> w.RateStep | None:
        """Return one step of a profile."""
        level = "at" in self
        self.only(("for", "at") if level else ("for", "from", "to"))
        keys = ("for", "at", "at") if level else ("for", "from", "to")
        if not self.need(*dict.fromkeys(keys)):
            return None
        for_ns = self.read("for", words.some_ns)
        begin = self.read(keys[1], _rate_or_zero)
        end = begin if level else self.read("to", _rate_or_zero)
        if for_ns is None or begin is None or end is None:
            return None
        return w.RateStep(for_ns, begin, end)

    def region(self) -> w.Region:
        """Return the part of the target that `region` names; all of it without."""
        table = self.table("region")
        if table is None:
            return w.Region()
        table.only(("offset", "length"))
        offset = table.read("offset", words.size_bytes) or 0
        return w.Region(offset, table.read("length", words.some_bytes))


def _rate_or_zero(text: str) -> int:
    return 0 if text.strip() in ("0", "0/s") else words.rate_micro(text)


# --------------------------------------------------------------------------------------
# A table of a spec: texts and commands with slots, quantities, every mistake placed.

_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


class SpecTable(WorkloadTable):
    """A table of a spec; `known` are the names that may stand in braces."""

    kind = "spec"
    known: tuple[str, ...] = ()

    def knowing(self, *names: str) -> SpecTable:
        """Return the same table, whose texts may have these names in braces too."""
        table = type(self)(self.values, self.path, self._locator, self._found)
        table.known = (*self.known, *names)
        return table

    def table(self, key: str) -> SpecTable | None:
        """Return a table inside this one, None when it is absent or wrong."""
        inner = super().table(key)
        return None if inner is None else inner.knowing(*self.known)

    def only(
        self, known: Sequence[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        """Report every key that is not known; `elsewhere` says of some what says them."""
        misplaced = {k: v for k, v in (elsewhere or {}).items() if k not in known}
        super().only((*known, *(key for key in misplaced if key in self.values)))
        for key in self.values:
            if key in misplaced:
                where = self._locator.key((*self.path, key))
                message = f"unknown key {key!r}"
                self.wrong(where, "spec-unknown-key", message, misplaced[key])

    # -- texts -----------------------------------------------------------------------

    def template(self, key: str) -> Template | None:
        """Return a text with slots; None when it is absent or wrong."""
        text = self.text(key)
        return None if text is None else self._template(text, key)

    def _template(self, text: str, *keys: str | int) -> Template:
        place = self.inside(text, *keys)
        self._unknown(text, place, shell=False)
        return brace_template(text, place, self.known)

    def templates(self, key: str) -> tuple[tuple[str, Template], ...]:
        """Return the texts of a table of names, numbers among them; such as `environment`."""
        table = self.table(key)
        if table is None:
            return ()
        found = []
        for name in table.names("a variable"):
            text = table.scalar(table.values[name])
            if text is None:
                table.mistyped(table.at(name), name, table.values[name], (str, int))
            else:
                found.append((name, table._template(text, name)))
        return tuple(found)

    def template_value(
        self, key: str, parse: Callable[[str], Any], levels: Callable[[str], list[str]]
    ) -> Template | None:
        """Return a text with slots that `parse` accepts with every level in them.

        `levels` returns the texts that a name in braces may stand for; none: not checked.
        """
        template = self.template(key)
        if template is None:
            return None
        for text in _variants(template, levels):
            try:
                parse(text)
            except ValueError as error:
                self.refuse(self.at(key), f"{key}: {error}")
                break
        return template

    # -- commands --------------------------------------------------------------------

    def command(self, key: str) -> CommandText | None:
        """Return one command: a text, or an array of words."""
        if not self.has(key, str, list):
            return None
        return self._command(self.values[key], key)

    def commands(self, key: str) -> tuple[CommandText, ...]:
        """Return commands: one text, or an array of texts and of arrays of words."""
        if not self.has(key, str, list):
            return ()
        value = self.values[key]
        if isinstance(value, str):
            found = [self._command(value, key)]
        else:
            found = [self._command(one, key, at) for at, one in enumerate(value)]
        return tuple(one for one in found if one is not None)

    def _command(self, value: Any, *keys: str | int) -> CommandText | None:
        where = self.at(str(keys[0]), *keys[1:])
        if not isinstance(value, (str, list)):
            self.mistyped(where, f"a command of {keys[0]}", value, (str, list))
            return None
        empty = not value or not (value if isinstance(value, str) else value[0])
        if empty or (isinstance(value, str) and not value.strip()):
            self.wrong(where, "spec-no-command", f"a command of {keys[0]} is empty")
            return None
        if isinstance(value, str):
            return self._text_command(value, *keys)
        return self._word_command(value, *keys)

    def _word_command(self, value: list[Any], *keys: str | int) -> CommandText | None:
        found = []
        for index, word in enumerate(value):
            if not isinstance(word, str):
                where = self.at(str(keys[0]), *keys[1:], index)
                self.mistyped(where, f"a word of {keys[0]}", word, (str,))
                return None
            found.append(self._template(word, *keys, index))
        return CommandText(tuple(found))

    def _text_command(self, text: str, *keys: str | int) -> CommandText:
        """Return the command of a text: cut into words, or a shell's where it is written so."""
        place = self.inside(text, *keys)
        # Braces around a name are ours; what is left decides, as everywhere in a suite.
        shell = Command.from_text(_BRACES.sub("x", text)).argv[:2] == ("/bin/sh", "-c")
        self._unknown(text, place, shell=shell)
        if shell:
            return CommandText((brace_template(text, place, self.known),), shell=True)
        found, _ = split_words(text)
        return CommandText(
            tuple(
                brace_template(one.text, _shifted(place, one.offset), self.known)
                for one in found
            )
        )

    def _unknown(self, text: str, place: OffsetLocator, *, shell: bool) -> None:
        """Report names in braces that nothing is known of; a shell has braces of its own."""
        for match in _BRACES.finditer(text):
            name = match[1]
            near = difflib.get_close_matches(name, self.known, 1, 0.8)
            if name in self.known or (shell and not near):
                continue
            meant = f"did you mean {{{near[0]}}}? " if near else ""
            known = ", ".join(f"{{{one}}}" for one in self.known)
            message = f"nothing is named {name!r}"
            where = place(match.start())
            self.wrong(
                where, "spec-unknown-name", message, f"{meant}known here: {known}"
            )

    # -- quantities ------------------------------------------------------------------

    def duration_s(self, key: str) -> float | None:
        """Return a duration above 0 [s]."""
        ns = self.read(key, words.some_ns)
        return None if ns is None else ns / 1e9

    def rate_per_s(self, key: str) -> float | None:
        """Return a rate [1/s]."""
        micro = self.read(key, words.rate_micro)
        return None if micro is None else micro / 1e6


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
