"""Levels of a factor: values as they are, and ranges of numbers.

`1..9` counts by one, `1..9:2` by two, `1..64*2` multiplies; ends included where they are
reached. Anything else is a value as it is written. `-P`, `factors` of a suite and nothing
else read levels here.
"""

from __future__ import annotations

import re
from decimal import Decimal

_RANGE = re.compile(
    r"(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)\.\.(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)"
    r"(?:([:*])([0-9]{1,18}(?:\.[0-9]{1,9})?))?",
    re.ASCII,
)
_LIKE = re.compile(r"-?[0-9][0-9.]*\.\.\S*", re.ASCII)
MOST = 10_000
"""Levels of one range."""
HINT = "write 1..9, 1..9:2 (steps of 2) or 1..64*2 (1, 2, 4 ... 64)"


def expanded(text: str) -> tuple[str, ...]:
    """Return the levels that a text means: of a range all its numbers, else itself.

    Raises ValueError for what looks like a range and is none, or never ends.
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
    if (sign == "*" and (step <= 1 or at <= 0)) or not step:
        raise ValueError(f"{text!r} never reaches its end")
    levels: list[str] = []
    while at <= end:
        if len(levels) == MOST:
            raise ValueError(f"{text!r} has more than {MOST} levels")
        levels.append(_plain(at))
        at = at * step if sign == "*" else at + step
    return tuple(levels)


def _plain(number: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
