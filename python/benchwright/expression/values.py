"""Perl's scalar values over float and str: numeric, string and truth contexts.

Decision: every number is a float, so no expression can build a huge integer. `inf` and
`nan` are values, as in Perl, and compare as IEEE 754 says; what Perl dies of (division
and modulus by zero, sqrt of a negative number, log of zero) is an `EvaluationError`.
The undefined value (`nan <=> 1`) is the empty string. Source: perlnumber(1), perlop(1).
"""

from __future__ import annotations

import math
import re

from benchwright.model.errors import OperatingError

Value = float | str
TRUE: Value = 1.0
FALSE: Value = ""
"""Perl's false: the empty string in string context, 0 in numeric context."""

_LEADING = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[+-]?(?:inf(?:inity)?|nan))",
    re.ASCII | re.IGNORECASE,
)
_EXACT = 2.0**53


class EvaluationError(OperatingError):
    """An expression that is well formed but has no value, and where in it."""

    code = "expression-evaluation"

    def __init__(self, message: str, text: str, column: int) -> None:
        self.message = message
        self.text = text
        self.column = column
        """1-based, within `text`."""
        super().__init__(f"{message}, at column {column} of `{text}` [{self.code}]")


def number(value: Value) -> float:
    """Return the value in numeric context: a string's leading number, else 0."""
    if isinstance(value, str):
        match = _LEADING.match(value)
        return float(match[1]) if match else 0.0
    return float(value)


def text(value: Value) -> str:
    """Return the value in string context: 15 significant digits, as Perl prints them.

    Whole numbers that a float holds exactly are printed in full.
    """
    if isinstance(value, str):
        return value
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) <= _EXACT:
        return str(int(value))
    return f"{value:.15g}"


def truth(value: Value) -> bool:
    """Return False for the empty string, "0" and 0, True for everything else."""
    if isinstance(value, str):
        return value not in ("", "0")
    return value != 0


def boolean(condition: bool) -> Value:
    """Return Perl's 1 or empty string."""
    return TRUE if condition else FALSE


def power(base: float, exponent: float) -> float:
    """Return base ** exponent as C's pow(3) gives it: inf and nan instead of errors."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent == int(exponent) and exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def modulus(left: float, right: float) -> float:
    """Return Perl's `%`: whole operands, the result has the right operand's sign.

    Raises ZeroDivisionError when the right operand's whole part is 0.
    """
    left, right = truncate(left), truncate(right)
    if right == 0:
        raise ZeroDivisionError
    if math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    rest = math.fmod(left, right)
    return rest + right if rest and (rest < 0) != (right < 0) else rest


def truncate(value: float) -> float:
    """Return the value without its fraction, towards 0; inf and nan are unchanged."""
    if math.isinf(value) or math.isnan(value):
        return value
    return float(math.trunc(value))


def negate(value: Value) -> Value:
    """Return Perl's unary minus: `-"foo"` is "-foo", any other string is a number."""
    if isinstance(value, str) and (value[:1].isalpha() or value[:1] == "_"):
        return "-" + value
    return -number(value)
