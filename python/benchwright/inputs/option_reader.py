"""Reads the option texts of a request as values; collects the mistakes, each at its option."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.inputs.mistakes import Where, WrongText
from benchwright.inputs.options import options_of

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)


class OptionReader(Generic[R]):
    """Reads a request; adds a Diagnostic to `found` for each wrong value, and continues."""

    def __init__(self, request: R) -> None:
        self.request = request
        self.found: list[Diagnostic] = []
        self._options = options_of(type(request))

    def value(self, name: str, default: Any = None) -> Any:
        """Return the value of an option's text; `default` if it is not given or wrong."""
        option = self._options[name]
        assert option.parse is not None, f"{option.flag} has no parser"
        text = getattr(self.request, name)
        found = self.parsed(option.flag, text, option.parse, option.hint)
        return default if found is None else found

    def values(self, name: str) -> list[Any]:
        """Return the values of a repeatable option's texts, without the wrong ones."""
        option = self._options[name]
        assert option.parse is not None, f"{option.flag} has no parser"
        texts = getattr(self.request, name)
        found = (self.parsed(option.flag, text, option.parse, option.hint) for text in texts)
        return [value for value in found if value is not None]

    def fields(self) -> dict[str, Any]:
        """Return the values of the given options that set a field, by field."""
        values: dict[str, Any] = {}
        for name, option in self._options.items():
            text, mistakes = getattr(self.request, name), len(self.found)
            if option.field and text != option.initial:
                if isinstance(text, tuple):
                    value: Any = tuple(self.values(name))
                else:
                    value = text if option.kind == "flag" else self.value(name)
                if len(self.found) == mistakes:
                    values[option.field] = value
        return values

    def parsed(
        self, option: str, text: str | None, parse: Callable[[str], T | None], hint: str = ""
    ) -> T | None:
        """Return the value of a text; None if it is absent or wrong."""
        try:
            return None if text is None else parse(text)
        except WrongText as error:
            fault = error.fault
            self.wrong(option, text or "", fault.message, hint or fault.hint, fault.offset)
        except ValueError as error:
            self.wrong(option, text or "", str(error), hint)
        return None

    def named(
        self, option: str, text: str, parse: Callable[[str], T], hint: str
    ) -> tuple[str, T] | None:
        """Return the name and the value of `NAME=VALUE`; None if one is missing or wrong."""
        name, _, value = text.partition("=")
        if not name or not value:
            self.wrong(option, text, "no name or no value", hint)
            return None
        try:
            return name, parse(value)
        except ValueError as error:
            self.wrong(option, text, str(error), offset=len(name) + 1)
            return None

    def wrong(self, option: str, text: str, message: str, hint: str = "", offset: int = 0) -> None:
        where = at(option, text, offset)
        self.found.append(
            Diagnostic(
                "bad-argument", message, hint, file=option, column=where.column, text=where.text
            )
        )


def at(option: str, text: str, offset: int = 0) -> Where:
    """Return the position of a character of an option's value."""
    return Where(option, 1, offset + 1, shown(text))


def placer(option: str, text: str) -> Callable[[int], Where]:
    """Return the function from a character's offset to its position."""
    return lambda offset: at(option, text, offset)


def shown(text: str) -> str:
    """Return a text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)
