"""Mistakes on their way to becoming Diagnostics.

A `Fault` knows an offset in some text, or a key; the caller knows where those stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.suite.program import Where


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a text or a key, before its position is determined."""

    code: str
    message: str
    hint: str = ""
    offset: int = 0
    """Of a text: the character at which it is wrong."""
    key: str = ""
    """Of a table or of options: the one to change."""

    @classmethod
    def of_key(cls, key: str, message: str, hint: str = "") -> Fault:
        """Return what is wrong with a key or its option, given the others."""
        return cls("spec-value", message, hint, key=key)


def diagnostic(where: Where, code: str, message: str, hint: str = "") -> Diagnostic:
    """Return the Diagnostic of a mistake at a place."""
    return Diagnostic(
        code,
        message,
        hint,
        file=where.file,
        line=where.line,
        column=where.column,
        text=where.text,
    )


def mistake(where: Where, code: str, message: str, hint: str = "") -> InputError:
    """Return the InputError of a single mistake at a place."""
    return InputError([diagnostic(where, code, message, hint)])


def option_mistake(
    option: str, message: str, hint: str = "", text: str = ""
) -> Diagnostic:
    """Return the Diagnostic of an option, or of an argument, by its name."""
    return Diagnostic("bad-argument", message, hint, file=option, text=text)


def within(where: Where, text: str, offset: int) -> Where:
    """Return the place of a character of a text that begins at `where`.

    `where` itself when the text is not written there on one line.
    """
    start = where.column - 1
    if where.text[start : start + offset] == text[:offset]:
        return Where(where.file, where.line, where.column + offset, where.text)
    return where


def placed(faults: Iterable[Fault], place: Callable[[int], Where]) -> list[Diagnostic]:
    """Return the faults as Diagnostics; `place` returns the place of an offset."""
    return [diagnostic(place(f.offset), f.code, f.message, f.hint) for f in faults]


def raised(faults: Iterable[Fault], where: Where, text: str) -> InputError:
    """Return the InputError of faults in a text that exists only at run time.

    They stand in it if it is written there; else at `where`, and it is quoted.
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
