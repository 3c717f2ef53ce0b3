"""Parses values of keys and options: one of several words, pairs, and levels with ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

T = TypeVar("T")

# -- One of several words --------------------------------------------------------------


def one_of(text: str, known: Sequence[str], what: str) -> str:
    """Return the text if it is one of the known words. Raises ValueError otherwise."""
    if text not in known:
        raise ValueError(f"{text!r} is not a {what}: must be one of {', '.join(known)}")
    return text


def choice(what: str, *known: str) -> Callable[[str], str]:
    """Return the parser of one of several words."""
    return lambda text: one_of(text, known, what)


def named(parse: Callable[[str], T]) -> Callable[[str], tuple[str, T]]:
    """Return the parser of `NAME=VALUE`: it raises ValueError if one of the two is missing or
    wrong."""

    def pair(text: str) -> tuple[str, T]:
        name, _, value = text.partition("=")
        if not name or not value:
            raise ValueError("no name or no value")
        return name, parse(value)

    return pair


# -- Levels of a factor: values, and ranges of numbers ---------------------------------
#
# `1..9` counts by one, `1..9:2` by two, `1..64*2` multiplies; the end is included if it is
# reached. Any other text is one level. Used by `-P`, `--threads`, and `factors` and
# `threads` of a suite.

_RANGE = re.compile(
    r"(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)\.\.(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)"
    r"(?:([:*])([0-9]{1,18}(?:\.[0-9]{1,9})?))?",
    re.ASCII,
)
_LIKE = re.compile(r"-?[0-9][0-9.]*\.\.\S*", re.ASCII)
MOST = 10_000
"""Maximum number of levels of a range."""
HINT = "write 1..9, 1..9:2 (steps of 2) or 1..64*2 (1, 2, 4 ... 64)"


def expanded(text: str) -> tuple[str, ...]:
    """Return the levels of a text: the numbers of a range, or the text itself.

    Raises ValueError for an invalid range, or one that never ends.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        if _LIKE.fullmatch(text):
            raise ValueError(f"{text!r} is not a range of numbers")
        return (text,)
    first, last, sign, by = match.groups()
    at, end, step = Decimal(first), Decimal(last), Decimal(by or "1")
    if at > end:
        raise ValueError(f"{text!r} ends before it begins")
    if not step:
        raise ValueError(f"{text!r} never reaches its end: its step is 0")
    if sign == "*" and (step <= 1 or at <= 0):
        raise ValueError(f"{text!r} never reaches its end")
    levels: list[str] = []
    while at <= end:
        if len(levels) == MOST:
            raise ValueError(f"{text!r} has more than {MOST} levels")
        levels.append(_level_text(at))
        at = at * step if sign == "*" else at + step
    return tuple(levels)


def _level_text(number: Decimal) -> str:
    """Return a number as text, without an exponent and without trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
