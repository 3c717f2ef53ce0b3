"""What comes from others: texts shown so that a terminal obeys nothing in them, files that only their owner can write."""

from __future__ import annotations

import os
import stat

# --------------------------------------------------------------------------------------
# Text of others as a person may see it: nothing that a terminal takes for a command.
#
# Purpose: names of processes, messages of servers and of programs come from anybody; with
# an escape character in them they could rewrite a screen. Decision: escaped (`\x1b`) and
# not dropped, so that it shows.


def visible(text: str, keep: str = "") -> str:
    """Return a text with all that is not printable escaped, but for the characters of `keep`."""
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
    """Return a text escaped in one line, its white space as single blanks."""
    return visible(" ".join(text.split()))


def visible_json(text: str) -> str:
    """Return a JSON text with all that is not printable in its strings escaped: `\\u009b`.

    It means the same: a string may hold any character so. Source: RFC 8259, section 7.
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


# -- Whether somebody else could have written a file that we are about to obey ---------

_SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Bits of a mode by which others than the owner may write."""


def others_could_write(found: os.stat_result, user: int) -> bool:
    """Return whether others than this user and root may write what was looked at."""
    return found.st_uid not in (0, user) or bool(found.st_mode & _SHARED)
