"""Reads the texts of suites, and makes Diagnostics of the mistakes in what the user wrote.

A `Fault` has an offset in a text, or a key; its caller knows their positions in the file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
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


class SourceFile(msgspec.Struct, frozen=True):
    """The path of a file, as it was given, and its text."""

    path: str
    text: str
    beside: tuple[tuple[str, str], ...] = ()
    """Path and text of each file that it names, where they are stored with it."""


# -- The texts of suites ---------------------------------------------------------------

SourceReader = Callable[[str], str]
"""Path -> text. Raises OSError (after FileNotFoundError the next directory is tried) or
UnicodeError."""

MAX_BYTES = 4_000_000
"""Maximum size of a text; larger files are not suites."""
LIBRARY = "<library>/"
"""Path prefix of library files in sources and messages. The library's directory may change before
a resume."""


def physical_lines(text: str) -> list[str]:
    """Return the lines of a file without their ends (LF or CR LF)."""
    return [line.removesuffix("\r") for line in text.split("\n")]


class Unreadable(Exception):
    """A file that exists but cannot be used; the message says why."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.message = message
        self.where = where
        super().__init__(message)


def read_regular(path: str) -> str:
    """Return the UTF-8 text of a regular file: the SourceReader of the file system.

    Raises OSError, UnicodeError, and Unreadable if the file is not regular (a pipe may never
    end) or larger than MAX_BYTES.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, encoding="utf-8") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path} is not a regular file: write its text to one")
        if status.st_size > MAX_BYTES:
            raise Unreadable(f"{path} has {status.st_size} bytes: at most {MAX_BYTES}")
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise Unreadable(f"{path} has more than {MAX_BYTES} bytes")
    return text


def read_text(path: str, read: SourceReader) -> str | None:
    """Return a file's text, None if there is no such file. Raises Unreadable."""
    try:
        text = read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeError:
        raise Unreadable(f"{path} is not UTF-8 text") from None
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        before = physical_lines(text[: text.index("\0")])
        whole = physical_lines(text)[len(before) - 1]
        place = Where(path, len(before), len(before[-1]) + 1, whole.replace("\0", "?"))
        raise Unreadable(f"{path} has a NUL byte: it is not text", place)
    return text


def main_text(path: str, read: SourceReader) -> str:
    """Return the text of a suite's main file. Raises InputError."""
    start = Where(path)
    try:
        text = read_text(path, read)
    except Unreadable as error:
        where = error.where or start
        raise mistake(where, "suite-unreadable", error.message) from None
    if text is None:
        hint = "give the path of a suite: FILE.ap or FILE.toml"
        raise mistake(start, "suite-not-found", f"there is no file {path}", hint)
    return text
