"""The values of `FOR V=A TO B [FACTOR M|ADD I]`.

Decision: decimal arithmetic, so that 0.1 TO 0.5 ADD 0.1 has five values and 1 TO 32
FACTOR 2 prints whole numbers. A loop that cannot reach its end is refused before its
first turn. Source: Auto-pilot paper, section 3.1, FOR.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Literal

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\Z", re.ASCII)
_CONTEXT = decimal.Context(prec=40)

Part = Literal["begin", "end", "factor", "add"]


class NeverEnds(Exception):
    """The loop has no last turn; `part` is what makes it so."""

    def __init__(self, part: Part, message: str) -> None:
        self.part = part
        self.message = message
        super().__init__(message)


def decimal_number(text: str) -> Decimal:
    """Return a number of at most 18 digits before the point and 9 after it.

    Raises ValueError with a message that says what was expected.
    """
    text = text.strip()
    if not _NUMBER.match(text):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text)


def counted(
    begin: Decimal, end: Decimal, *, factor: Decimal | None, add: Decimal | None
) -> Iterator[str]:
    """Return the values as text, none when `end` lies behind `begin`.

    Raises NeverEnds at once.
    """
    if factor is None:
        step = Decimal(1) if add is None else add
        if step == 0:
            raise NeverEnds("add", "ADD 0 never gets further")
        return _turns(begin, end, step, _CONTEXT.add, rising=step > 0)
    return _turns(
        begin, end, factor, _CONTEXT.multiply, rising=_rises(begin, end, factor)
    )


def _rises(begin: Decimal, end: Decimal, factor: Decimal) -> bool:
    """Return whether the values grow; raise NeverEnds when they cannot pass `end`."""
    if factor <= 0 or factor == 1:
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if begin == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    rising = (factor > 1) == (begin > 0)
    shrinks = factor < 1
    if shrinks and (end <= 0 if begin > 0 else end >= 0):
        raise NeverEnds("end", f"FACTOR {factor} approaches 0 and never passes {end}")
    if not shrinks and not rising and end > begin:
        raise NeverEnds("begin", f"{begin} times {factor} moves away from {end}")
    return rising


def _turns(
    begin: Decimal,
    end: Decimal,
    step: Decimal,
    move: Callable[[Decimal, Decimal], Decimal],
    *,
    rising: bool,
) -> Iterator[str]:
    value = begin
    while value <= end if rising else value >= end:
        yield _plain(value)
        value = move(value, step)


def _plain(value: Decimal) -> str:
    return f"{value.normalize(_CONTEXT) + 0:f}"


def check_ends(numbers: Mapping[Part, Decimal], *, complete: bool) -> None:
    """Raise NeverEnds when what is known of a loop says that it cannot end.

    `complete`: every number that the loop has is known.
    """
    if numbers.get("add") == 0:
        raise NeverEnds("add", "ADD 0 never gets further")
    factor = numbers.get("factor")
    if factor is not None and (factor <= 0 or factor == 1):
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if factor is not None and numbers.get("begin") == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    if complete:
        begin, end = numbers["begin"], numbers["end"]
        counted(begin, end, factor=factor, add=numbers.get("add"))
