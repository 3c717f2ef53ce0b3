"""Splits a text into words as a shell does, keeping each character's offset.

Quotes ('...', "...") and backslashes are removed. Decision: not shlex, which forgets
where its words came from, and a diagnostic needs the column.
Non-goals: no expansion of any kind. Source: POSIX sh, "Quoting".
"""

from __future__ import annotations

import msgspec

from benchwright.suite.fault import Fault


class Word(msgspec.Struct, frozen=True):
    """A word without its quotes."""

    text: str
    offset: int
    """Of its first character, quote included."""
    offsets: tuple[int, ...]
    """Of each character of `text`, and of the end: one more than `len(text)`."""


def split_words(text: str) -> tuple[list[Word], list[Fault]]:
    """Return the words, and a fault when a quote is not closed."""
    words: list[Word] = []
    faults: list[Fault] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start = at
        characters: list[tuple[str, int]] = []
        while at < len(text) and not text[at].isspace():
            at = _piece(text, at, characters, faults)
        offsets = (*(o for _, o in characters), at)
        words.append(Word("".join(c for c, _ in characters), start, offsets))
    return words, faults


def _piece(text: str, at: int, into: list[tuple[str, int]], faults: list[Fault]) -> int:
    """Read one character or one quoted part; return the offset after it."""
    quote = text[at]
    if quote == "\\":
        if at + 1 < len(text):
            into.append((text[at + 1], at + 1))
        return at + 2
    if quote not in "'\"":
        into.append((quote, at))
        return at + 1
    start, at = at, at + 1
    while at < len(text) and text[at] != quote:
        if (
            quote == '"'
            and text[at] == "\\"
            and text[at + 1 : at + 2] in tuple('$`"\\')
        ):
            at += 1
        into.append((text[at], at))
        at += 1
    if at >= len(text):
        message = "the quoted text is not closed"
        faults.append(Fault("suite-quote", message, f"it ends with {quote}", start))
    return at + 1
