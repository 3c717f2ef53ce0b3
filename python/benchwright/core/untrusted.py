"""Untrusted input: text without terminal commands, and files that others could have written."""

from __future__ import annotations

import os
import stat

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
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
        for c in text
    )


def visible_lines(text: str) -> str:
    """Return a text of several lines escaped, without escaping line ends and tabs."""
    return visible(text, "\n\t")


def one_line(text: str) -> str:
    """Return a text escaped and in one line, with single spaces for white space."""
    return visible(" ".join(text.split()))


def visible_json(text: str) -> str:
    """Return a JSON text with all unprintable characters in its strings escaped: `\\u009b`.

    Its meaning is the same. Source: RFC 8259, section 7.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        c if c.isprintable() or c in "\n\r\t" else _json_escape(c) for c in text
    )


def _json_escape(character: str) -> str:
    """Return `\\uXXXX`; two of them for a character beyond the first 65,536."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# -- Whether others could have written a file that we are about to follow --------------

_SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that allow users other than the owner to write."""


def others_could_write(found: os.stat_result, user: int) -> bool:
    """Return whether users other than this one and root may write the file."""
    return found.st_uid not in (0, user) or bool(found.st_mode & _SHARED)
