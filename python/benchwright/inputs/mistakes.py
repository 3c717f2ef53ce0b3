"""Makes Diagnostics of the mistakes in what the user wrote.

A `Fault` has an offset in a text, or a key; its caller knows their positions in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from benchwright.core.errors import Diagnostic, InputError


class Where(msgspec.Struct, frozen=True):
    """A position in a text or an option, for error messages; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1
    text: str = ""
    """The physical line."""


class Fault(msgspec.Struct, frozen=True):
    """A mistake in a text or at a key, before its position in the file is known."""

    code: str
    message: str
    hint: str = ""
    offset: int = 0
    """Offset in the text of the character at which it is wrong."""
    key: str = ""
    """The key or option to change."""

    def moved(self, by: int) -> Fault:
        """Return the fault in a longer text, in which this one begins at an offset."""
        return msgspec.structs.replace(self, offset=self.offset + by)

    @classmethod
    def of_key(cls, key: str, message: str, hint: str = "") -> Fault:
        """Return the fault of a key, or of the option that it stands for."""
        return cls("spec-value", message, hint, key=key)


class WrongText(ValueError):
    """Raised by the parser of a text: what is wrong, at which character."""

    def __init__(self, code: str, message: str, hint: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.fault = Fault(code, message, hint, offset)

    @classmethod
    def of(cls, fault: Fault) -> WrongText:
        """Return the error of a fault."""
        return cls(fault.code, fault.message, fault.hint, fault.offset)


def fault_of(parse: Callable[[str], object], text: str, hint: str = "") -> Fault | None:
    """Return what is wrong with a text that a parser refuses, or None; `hint`: the advice, if the
    parser has none or the caller knows better."""
    try:
        parse(text)
    except WrongText as error:
        return msgspec.structs.replace(error.fault, hint=hint or error.fault.hint)
    except ValueError as error:
        return Fault("bad-argument", str(error), hint)
    return None


def diagnostic(where: Where, code: str, message: str, hint: str = "") -> Diagnostic:
    """Return the Diagnostic of a mistake at a position."""
    return Diagnostic(
        code, message, hint, file=where.file, line=where.line, column=where.column, text=where.text
    )


def mistake(where: Where, code: str, message: str, hint: str = "") -> InputError:
    """Return the InputError of a single mistake at a position."""
    return InputError([diagnostic(where, code, message, hint)])


def option_mistake(option: str, message: str, hint: str = "", text: str = "") -> Diagnostic:
    """Return the Diagnostic of an option, or of an argument, by its name."""
    return Diagnostic("bad-argument", message, hint, file=option, text=text)


def at_key(mistake: Diagnostic, key: str, where: Where, code: str = "") -> Diagnostic:
    """Return the mistake of an option as that of the key with the same meaning; `code`: the code
    of mistakes there, if it differs."""
    message, hint = f"{key}: {mistake.message}", in_toml(mistake.hint, key)
    return diagnostic(where, code or mistake.code, message, hint)


def in_toml(hint: str, key: str) -> str:
    """Return a hint that shows the line of a file in place of an option: `write runs = 30`."""

    def line(found: re.Match[str]) -> str:
        value = found[1]
        return f"{key} = {value}" if value.isdecimal() else f'{key} = "{value}"'

    return re.sub(rf"--{re.escape(key.replace('_', '-'))}[ =]([^\s,;]+)", line, hint)


def within(where: Where, text: str, offset: int) -> Where:
    """Return the position of a character of a text that starts at `where`.

    Returns `where` if the line there does not contain the text.
    """
    start = where.column - 1
    if where.text[start : start + offset] == text[:offset]:
        return Where(where.file, where.line, where.column + offset, where.text)
    return where


def placed(faults: Iterable[Fault], place: Callable[[int], Where]) -> list[Diagnostic]:
    """Return the faults as Diagnostics; `place` returns the position of an offset."""
    return [diagnostic(place(f.offset), f.code, f.message, f.hint) for f in faults]


def raised(faults: Iterable[Fault], where: Where, text: str) -> InputError:
    """Return the InputError of faults in a text that exists only at run time.

    If the line at `where` contains the text, each fault has the position of its character.
    Otherwise all have the position `where`, and the messages quote the text.
    """
    written = where.text.startswith(text, where.column - 1)
    quoted = "" if written else f", in `{text}`"
    return InputError(
        [
            diagnostic(
                within(where, text, f.offset) if written else where,
                f.code,
                f.message + quoted,
                f.hint,
            )
            for f in faults
        ]
    )
