"""Reads the texts of suites, of any language."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

import msgspec

from benchwright.inputs.mistakes import Where, mistake


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
