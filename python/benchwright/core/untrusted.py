"""Untrusted input: text without terminal commands, and files that others could have written."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import stat
from collections.abc import Iterable
from typing import Any

# --------------------------------------------------------------------------------------
# Untrusted text in printable form: nothing in it is a command to the terminal.
#
# Purpose: names of processes and messages of servers and programs may contain escape
# characters, which could rewrite a screen. Decision: they are escaped (`\x1b`), not dropped, so
# that they are visible.


def visible(text: str, keep: str = "") -> str:
    """Return a text with all unprintable characters escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def visible_lines(text: str) -> str:
    """Return a text of several lines escaped, without escaping line ends and tabs."""
    return visible(text, "\n\t")


_SPACE = re.compile(r"\s+")


def one_line(text: str) -> str:
    """Return a text escaped and in one line, with single spaces for white space; several spaces, as
    of an argument (`'a  b'`), stay."""
    return visible(_SPACE.sub(_space, text.strip()))


def _space(found: re.Match[str]) -> str:
    return " " if found[0].strip(" ") else found[0]


def shell_text(words: Iterable[str]) -> str:
    """Return words as a line that can be copied into a shell, which reads these very words: `echo
    'a  b' $'a\\tb'`."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_shell_escape, word))}'"


def _shell_escape(character: str) -> str:
    """Return a character within `$'...'`, of which the shell reads `\\x9b` as a byte: one of a path
    that is not UTF-8."""
    if "\x80" <= character <= "\xff" and not character.isprintable():
        return f"\\u{ord(character):04x}"
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:x}"
    return f"\\{character}" if character in "\\'" else visible(character)


def visible_json(text: str) -> str:
    """Return a JSON text with all unprintable characters in its strings escaped: `\\u009b`.

    Its meaning is the same. Source: RFC 8259, section 7.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(c if c.isprintable() or c in "\n\r\t" else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    """Return `\\uXXXX`; two of them for a character beyond the first 65,536."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class TooDeep(ValueError):
    """A document that is nested more deeply than it can be read."""


def decode_json(data: bytes | memoryview | str, kind: Any = Any) -> Any:
    """Return a JSON document that somebody else wrote as a value of a type.

    Raises ValueError for one that is damaged, of another form, not UTF-8, or nested too deeply.
    """
    import msgspec  # every command imports this module at its start

    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None


# -- Whether others could have written a file that we are about to follow --------------

_SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that allow users other than the owner to write."""


def others_could_write(found: os.stat_result, user: int) -> bool:
    """Return whether users other than this one and root may write the file."""
    return found.st_uid not in (0, user) or bool(found.st_mode & _SHARED)


# -- Files that may be anything --------------------------------------------------------
#
# Purpose: opening a FIFO waits for its other end, and a device may never end; in a directory of
# others anybody can make one. Decision: every file that a user, a study or another program named is
# opened here, and nothing but a regular file is read. A pipe that the caller's shell has opened
# already (`<(command)`, /dev/stdin) is the user's own wish, and is read.

_OPENED_BY_CALLER = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> io.BufferedReader:
    """Return a regular file, open for reading; `flags` are further ones of open(2).

    Raises OSError, also for a directory, a FIFO, a device or a socket.
    """
    place = os.fspath(path)
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
        if not stat.S_ISREG(mode) and not (
            stat.S_ISFIFO(mode) and place.startswith(_OPENED_BY_CALLER)
        ):
            raise OSError(errno.EINVAL, "it is not a regular file", place)
        os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def regular_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a regular file. Raises OSError as `open_regular`."""
    with open_regular(path) as file:
        return file.read()
