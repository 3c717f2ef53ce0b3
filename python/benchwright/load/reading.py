"""Values of a workload's TOML, read by the user's words, with every mistake placed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from benchwright.load import words
from benchwright.load import workload as w
from benchwright.load.words import Field, Forms
from benchwright.suite.program import Where
from benchwright.suite.toml_table import Table

T = TypeVar("T")


class WorkloadTable(Table):
    """A table whose values are quantities and forms."""

    kind = "workload"

    def read(self, key: str, parse: Callable[[str], T]) -> T | None:
        """Return a scalar as `parse` understands it; None when absent or wrong."""
        if key not in self.values:
            return None
        return self.scalar_of(self.values[key], parse, key)

    def scalar_of(
        self, value: object, parse: Callable[[str], T], *keys: str | int
    ) -> T | None:
        """Return what a scalar at these keys means; None when it is wrong."""
        text = self.scalar(value)
        where = self.at(*keys)  # type: ignore[arg-type]
        if text is None:
            self.mistyped(where, str(keys[0]), value, (str, int, float))
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.refuse(where, f"{keys[0]}: {error}")
            return None

    def refuse(self, where: Where, message: str, hint: str = "") -> None:
        """Report a value that cannot be."""
        self.wrong(where, f"{self.kind}-value", message, hint)

    def need(self, *keys: str) -> bool:
        """Return whether all keys are there; report those that are not."""
        absent = [key for key in keys if key not in self]
        for key in absent:
            # Other keys are told by only(), which a table without its type never reaches.
            hint = near_words(self.values, key) if key == "type" else ""
            message = f"{key} is missing here"
            self.wrong(self.where, f"{self.kind}-missing", message, hint)
        return not absent

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        """Return one of several words."""
        return self.read(key, lambda text: words.one_of(text, choices, key))

    # -- forms -----------------------------------------------------------------------

    def distribution(self, key: str, parse: words.Parse) -> w.Distribution | None:
        """Return a distribution of values that `parse` reads: a text or a table."""
        if isinstance(self.values.get(key), dict):
            table = self.table(key)
            assert table is not None, "its type was looked at"
            if table.values.get("type") == "weighted":
                return table.weighted(parse)
            return table.form(words.distribution_forms(parse), "distribution")  # type: ignore[no-any-return]
        return self.read(key, lambda text: words.parse_distribution(text, parse))

    def weighted(self, parse: words.Parse) -> w.Weighted | None:
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
            forms = {**words.ARRIVALS, "recorded": words.Form((), w.PoissonArrival)}
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

    def form(self, forms: Forms, what: str) -> Any:
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

    def _field(self, field: Field) -> Any:
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


def near_words(written: Iterable[str], key: str) -> str:
    """Return the hint where a missing key was written a little differently, else nothing."""
    near = difflib.get_close_matches(key, list(written), 1, 0.7)
    return f"{near[0]} is here: did you mean {key}?" if near else ""


def one_of_words(word: str, known: Iterable[str]) -> str:
    """Return the hint for a word that is none of the known ones."""
    near = difflib.get_close_matches(word, list(known), 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}one of {', '.join(known)}"


def _rate_or_zero(text: str) -> int:
    return 0 if text.strip() in ("0", "0/s") else words.rate_micro(text)
