"""The functions that an expression may call: Perl's of numbers and of texts, min and max.

Each takes Perl scalars and reads them as it needs, in numeric or string context.
Source: perlfunc(1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from benchwright.expression import values as perl
from benchwright.expression.values import Value


class Function(msgspec.Struct, frozen=True):
    """A function, and how many arguments it takes."""

    call: Callable[[Sequence[Value]], Value]
    """ValueError: it has no value for these arguments."""
    least: int = 1
    most: int | None = 1
    """None: any number."""

    @property
    def arguments(self) -> str:
        """How many arguments it takes, in words."""
        if self.most is None:
            return f"at least {self.least} argument{'s' if self.least > 1 else ''}"
        if self.most == self.least:
            return ("one argument", "two arguments")[self.least - 1]
        return f"{self.least} to {self.most} arguments"


def _of_number(function: Callable[[float], float]) -> Function:
    return Function(lambda a: function(perl.number(a[0])))


def _of_text(function: Callable[[str], Value]) -> Function:
    return Function(lambda a: function(perl.text(a[0])))


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _circular(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return sin or cos, NaN for what is not finite, as in Perl."""
    return lambda value: function(value) if math.isfinite(value) else math.nan


def _atan2(arguments: Sequence[Value]) -> Value:
    return math.atan2(perl.number(arguments[0]), perl.number(arguments[1]))


def _substr(arguments: Sequence[Value]) -> Value:
    """Return a part of a text; negative numbers count from its end."""
    text = perl.text(arguments[0])
    begin = _place(arguments[1])
    begin = begin + len(text) if begin < 0 else begin
    if begin > len(text):
        return ""
    end = len(text)
    if len(arguments) > 2:
        length = _place(arguments[2])
        end = begin + length if length >= 0 else end + length
    return text[max(begin, 0) : max(end, 0)]


def _place(value: Value) -> int:
    number = perl.truncate(perl.number(value))
    if math.isnan(number):
        return 0
    return int(max(-(2.0**53), min(number, 2.0**53)))


FUNCTIONS: Mapping[str, Function] = {
    "abs": _of_number(abs),
    "sqrt": _of_number(math.sqrt),
    "log": _of_number(math.log),
    "exp": _of_number(_exp),
    "sin": _of_number(_circular(math.sin)),
    "cos": _of_number(_circular(math.cos)),
    "atan2": Function(_atan2, 2, 2),
    "int": _of_number(perl.truncate),
    "min": Function(lambda a: min(perl.number(one) for one in a), 1, None),
    "max": Function(lambda a: max(perl.number(one) for one in a), 1, None),
    "length": _of_text(lambda text: float(len(text))),
    "lc": _of_text(str.lower),
    "uc": _of_text(str.upper),
    "substr": Function(_substr, 2, 3),
}
