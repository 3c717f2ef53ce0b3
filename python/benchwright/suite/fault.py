"""Mistakes on their way to becoming Diagnostics.

A `Fault` knows an offset in some text; the caller knows where that text stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from benchwright.model.errors import Diagnostic, InputError
from benchwright.suite.program import Where


class Fault(msgspec.Struct, frozen=True):
    """What is wrong at one offset of a text."""

    code: str
    message: str
    hint: str = ""
    offset: int = 0


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


def placed(faults: Iterable[Fault], place: Callable[[int], Where]) -> list[Diagnostic]:
    """Return the faults as Diagnostics; `place` tells where an offset stands."""
    return [diagnostic(place(f.offset), f.code, f.message, f.hint) for f in faults]


def raised(faults: Iterable[Fault], where: Where, text: str) -> InputError:
    """Return the InputError of faults in a text that exists only at run time.

    All stand at `where`; the message quotes the text when that is not what is written.
    """
    quoted = "" if text in where.text else f", in `{text}`"
    return InputError(
        [diagnostic(where, f.code, f.message + quoted, f.hint) for f in faults]
    )
