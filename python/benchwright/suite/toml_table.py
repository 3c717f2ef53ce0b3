"""A table of a TOML suite whose keys are read by type, collecting every mistake."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from benchwright.model.errors import Diagnostic
from benchwright.suite.fault import Fault, diagnostic
from benchwright.suite.levels import HINT, expanded
from benchwright.suite.program import Where
from benchwright.suite.template import NAME
from benchwright.suite.toml_locate import Locator, Path

_WORDS = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "an array",
    dict: "a table",
}


class Table:
    """The keys of one table; what is not asked for is an unknown key."""

    kind = "suite"
    """What the file is: the first word of the codes of its mistakes."""

    def __init__(
        self,
        values: Mapping[str, Any],
        path: Path,
        locator: Locator,
        found: list[Diagnostic],
    ) -> None:
        self.values = values
        self.path = path
        self._locator = locator
        self._found = found

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def silent(self) -> Self:
        """Return the same table; its mistakes are reported elsewhere."""
        return type(self)(self.values, self.path, self._locator, [])

    def at(self, key: str, *more: str | int) -> Where:
        """Return where the value of a key, or of an element of it, begins."""
        return self._locator.value((*self.path, key, *more))

    @property
    def where(self) -> Where:
        """Where the table begins."""
        return self._locator.key(self.path)

    def inside(self, value: str, *keys: str | int) -> Callable[[int], Where]:
        """Return the function that tells where a character of a string stands."""
        path = (*self.path, *keys)
        return lambda offset: self._locator.inside(path, value, offset)

    # -- mistakes --------------------------------------------------------------------

    def wrong(self, where: Where, code: str, message: str, hint: str = "") -> None:
        """Report a mistake at a place."""
        self._found.append(diagnostic(where, code, message, hint))

    def faults(self, faults: Iterable[Fault], value: str, *keys: str | int) -> None:
        """Report mistakes that were found in the string at a key."""
        for f in faults:
            where = self._locator.inside((*self.path, *keys), value, f.offset)
            self.wrong(where, f.code, f.message, f.hint)

    def only(self, known: Sequence[str]) -> None:
        """Report every key that is not among the known ones."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                hint += "known here: " + ", ".join(known)
                where = self._locator.key((*self.path, key))
                self.wrong(
                    where, f"{self.kind}-unknown-key", f"unknown key {key!r}", hint
                )

    def names(self, what: str) -> list[str]:
        """Return the keys that can name a variable; report the others."""
        good = []
        for key in self.values:
            if NAME.fullmatch(key):
                good.append(key)
            else:
                hint = "letters, digits and _, not beginning with a digit"
                where = self._locator.key((*self.path, key))
                self.wrong(
                    where, f"{self.kind}-name", f"{key!r} cannot name {what}", hint
                )
        return good

    # -- values by type --------------------------------------------------------------

    def has(self, key: str, *types: type) -> bool:
        """Return whether a key is there with one of the types; report another type."""
        if key not in self.values:
            return False
        value = self.values[key]
        if type(value) in types:
            return True
        self.mistyped(self.at(key), key, value, types)
        return False

    def mistyped(
        self, where: Where, what: str, value: object, types: Sequence[type]
    ) -> None:
        """Report that a value has the wrong type."""
        expected = " or ".join(_WORDS[t] for t in types)
        given = _WORDS.get(type(value), "a date or time")
        self.wrong(
            where, f"{self.kind}-type", f"{what} is {given}, expected {expected}"
        )

    def text(self, key: str) -> str | None:
        """Return a string, None when it is absent or wrong."""
        return self.values[key] if self.has(key, str) else None

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        return bool(self.values[key]) if self.has(key, bool) else default

    def whole(self, key: str, least: int, most: int = 10**9) -> int | None:
        """Return a whole number between bounds, None when it is absent or wrong."""
        if not self.has(key, int):
            return None
        number = int(self.values[key])
        if least <= number <= most:
            return number
        message = f"{key} is out of range"
        self.wrong(
            self.at(key), f"{self.kind}-range", message, f"from {least} to {most}"
        )
        return None

    def texts(self, key: str) -> list[str]:
        """Return an array of strings, or a single one as an array."""
        if not self.has(key, str, list):
            return []
        value = self.values[key]
        if isinstance(value, str):
            return [value]
        for index, one in enumerate(value):
            if not isinstance(one, str):
                self.mistyped(self.at(key, index), f"an element of {key}", one, (str,))
        return [one for one in value if isinstance(one, str)]

    def levels(self, key: str) -> list[str] | None:
        """Return an array of strings and numbers as texts, None when it is wrong."""
        if not self.has(key, list):
            return None
        texts = []
        for index, one in enumerate(self.values[key]):
            text = self.scalar(one)
            if text is None:
                self.mistyped(self.at(key, index), f"a level of {key}", one, (str, int))
            else:
                for level in self._expanded(text, key, index):
                    if level in texts:
                        message = f"{level!r} is there twice"
                        self.wrong(self.at(key, index), f"{self.kind}-range", message)
                    texts.append(level)
        if not texts:
            self.wrong(self.at(key), f"{self.kind}-range", f"{key} has no levels")
        return texts

    def _expanded(self, text: str, key: str, index: int) -> tuple[str, ...]:
        """Return a level, or the levels of a range; a mistake is noted."""
        try:
            return expanded(text)
        except ValueError as error:
            self.wrong(self.at(key, index), f"{self.kind}-range", str(error), HINT)
            return (text,)

    @staticmethod
    def scalar(value: object) -> str | None:
        """Return a string, number or boolean as a text, None for anything else."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            try:
                return str(value)
            except ValueError:
                return None
        return value if isinstance(value, str) else None

    def table(self, key: str) -> Self | None:
        """Return a table inside this one, None when it is absent or wrong."""
        if not self.has(key, dict):
            return None
        return type(self)(
            self.values[key], (*self.path, key), self._locator, self._found
        )

    def tables(self, key: str) -> list[Self]:
        """Return an array of tables."""
        if not self.has(key, list):
            return []
        tables = []
        for index, one in enumerate(self.values[key]):
            if isinstance(one, dict):
                path = (*self.path, key, index)
                tables.append(type(self)(one, path, self._locator, self._found))
            else:
                self.mistyped(self.at(key, index), f"an element of {key}", one, (dict,))
        return tables
