"""What a user says about a session: its name, its tags, its note.

Purpose: a session is found again by what it was for. Decision: the session stores them when it
starts; a later change is an entry `about/N` of the journal with all three, numbered in order, and
the last one holds. So nothing is rewritten, and the journal shows each change. Rejected: a file
beside the journal, which no hash covers.
A name stands where a session's number does (`STUDY@before`), so its form excludes what separates
the parts of a selector, and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

NAME_FLAG = "--session-name"
ABOUT_OPTION = "about"
"""The option of a session with what was said about it at its start."""
_NAME = re.compile(r"\w[\w.+-]*")
_TAG = re.compile(r"\w[\w.+:/=-]*")
_LONGEST_WORD = 80
_LONGEST_NOTE = 2000


class SessionAbout(msgspec.Struct, frozen=True):
    """Name, tags and note of a session."""

    name: str = ""
    """Unique in its study; empty: none."""
    tags: tuple[str, ...] = ()
    """In the order in which they were added, each once."""
    note: str = ""


def stated_about(options: Mapping[str, str]) -> SessionAbout:
    """Return what was said about a session at its start."""
    return msgspec.json.decode(options.get(ABOUT_OPTION, "{}"), type=SessionAbout)


def parse_name(text: str) -> str:
    """Return the name of a session. Raises ValueError."""
    if not _NAME.fullmatch(text) or len(text) > _LONGEST_WORD:
        raise ValueError(
            f"{text!r} is not a name: it has letters, digits, and . _ + - after the first "
            f"character, and at most {_LONGEST_WORD} characters"
        )
    if text.isdigit():
        raise ValueError(f"{text!r} would be the number of a session")
    return text


def parse_tag(text: str) -> str:
    """Return a tag. Raises ValueError."""
    if not _TAG.fullmatch(text) or len(text) > _LONGEST_WORD:
        raise ValueError(
            f"{text!r} is not a tag: it has letters, digits, and . _ + : / = - after the first "
            f"character, and at most {_LONGEST_WORD} characters"
        )
    return text


def parse_note(text: str) -> str:
    """Return a note, without blanks around it. Raises ValueError."""
    if len(text) > _LONGEST_NOTE:
        raise ValueError(f"a note has up to {_LONGEST_NOTE:,} characters")
    return text.strip()
