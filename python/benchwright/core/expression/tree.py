"""The expression's tree and its evaluation, with Perl's scalars and the functions that an
expression may call.

Nodes are frozen; each knows the offset of its operator in the text, for errors, and its
height, so that a tree too high to be walked is never built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from benchwright.core.errors import OperatingError
from benchwright.core.pattern import Pattern, PatternError, compile_pattern
from benchwright.core.text import plural

# -- Perl's scalar values over float and str: numeric, string and truth contexts -------
#
# Decision: every number is a float, so no expression can build a huge integer. `inf` and
# `nan` are values, as in Perl, and compare as IEEE 754 says; what Perl dies of (division
# and modulus by zero, sqrt of a negative number, log of zero) is an `EvaluationError`.
# The undefined value (`nan <=> 1`) is the empty string. Source: perlnumber(1), perlop(1).

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


def to_number(value: Value) -> float:
    """Return the value in numeric context: a string's leading number, else 0."""
    if isinstance(value, str):
        match = _LEADING.match(value)
        return float(match[1]) if match else 0.0
    return float(value)


def to_text(value: Value) -> str:
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
    return -to_number(value)


# --------------------------------------------------------------------------------------
# The functions that an expression may call: Perl's of numbers and of texts, min and
# max.
#
# Each takes Perl scalars and reads them as it needs, in numeric or string context.
# Source: perlfunc(1).


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
            return f"at least {plural(self.least, 'argument')}"
        if self.most == self.least:
            return ("one argument", "two arguments")[self.least - 1]
        return f"{self.least} to {self.most} arguments"


def _of_number(function: Callable[[float], float]) -> Function:
    return Function(lambda a: function(to_number(a[0])))


def _of_text(function: Callable[[str], Value]) -> Function:
    return Function(lambda a: function(to_text(a[0])))


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _circular(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return sin or cos, NaN for what is not finite, as in Perl."""
    return lambda value: function(value) if math.isfinite(value) else math.nan


def _atan2(arguments: Sequence[Value]) -> Value:
    return math.atan2(to_number(arguments[0]), to_number(arguments[1]))


def _substr(arguments: Sequence[Value]) -> Value:
    """Return a part of a text; negative numbers count from its end."""
    text = to_text(arguments[0])
    begin = _integer(arguments[1])
    begin = begin + len(text) if begin < 0 else begin
    if begin > len(text):
        return ""
    end = len(text)
    if len(arguments) > 2:
        length = _integer(arguments[2])
        end = begin + length if length >= 0 else end + length
    return text[max(begin, 0) : max(end, 0)]


def _integer(value: Value) -> int:
    number = truncate(to_number(value))
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
    "int": _of_number(truncate),
    "min": Function(lambda a: min(to_number(one) for one in a), 1, None),
    "max": Function(lambda a: max(to_number(one) for one in a), 1, None),
    "length": _of_text(lambda text: float(len(text))),
    "lc": _of_text(str.lower),
    "uc": _of_text(str.upper),
    "substr": Function(_substr, 2, 3),
}


PREDICATE_VARIABLES: frozenset[str] = frozenset(
    ("name", "mean", "median", "delta", "count", "sdev", "min", "max", "slope", "sum")
)
"""What a predicate may ask about a quantity."""


MAX_TEXT = 1_000_000
"""Characters of a text that an expression puts together: variables may be long, and an
expression may name each a thousand times."""

MAX_WORK = 200_000_000
"""Characters that an evaluation searches, each times the instructions of its pattern: the
most that RE2 does for a match, a second or two in all."""


class Literal(msgspec.Struct, frozen=True):
    """A number or a string without variables."""

    value: Value
    offset: int
    height: int = 1


class Variable(msgspec.Struct, frozen=True):
    """`$name` or `${name}`."""

    name: str
    offset: int
    height: int = 1


class Interpolation(msgspec.Struct, frozen=True):
    """A double-quoted string with variables in it."""

    parts: tuple[str | Variable, ...]
    offset: int
    height: int = 1


class Unary(msgspec.Struct, frozen=True):
    """`-` `+` `!` `not` and an operand."""

    operator: str
    operand: Node
    offset: int
    height: int


class Binary(msgspec.Struct, frozen=True):
    """Two operands and an operator between them."""

    operator: str
    left: Node
    right: Node
    offset: int
    height: int


class Conditional(msgspec.Struct, frozen=True):
    """`condition ? yes : no`."""

    condition: Node
    yes: Node
    no: Node
    offset: int
    height: int


class Call(msgspec.Struct, frozen=True):
    """A function of FUNCTIONS with its arguments."""

    function: str
    arguments: tuple[Node, ...]
    offset: int
    height: int


class Match(msgspec.Struct, frozen=True):
    """`text =~ /pattern/`, or `!~`; any other right side is a pattern at run time."""

    subject: Node
    pattern: Node
    flags: str
    """Of `i`, `m` and `s`."""
    negated: bool
    offset: int
    height: int


Node = Literal | Variable | Interpolation | Unary | Binary | Conditional | Call | Match


def perl_pattern(pattern: str, flags: str) -> Pattern:
    """Return a pattern as Perl matches it: `^` and `$` at each line with /m only.

    Raises PatternError.
    """
    return compile_pattern(pattern, flags if "m" in flags else f"{flags}-m")


class Expression(msgspec.Struct, frozen=True):
    """A well-formed expression, ready to be evaluated any number of times."""

    text: str
    root: Node
    variables: frozenset[str] = frozenset()
    """The names that it reads."""

    def evaluate(self, values: Mapping[str, float | str]) -> Value:
        """Return the value, a number or a string.

        Raises EvaluationError for what Perl would die of and for a name not in `values`.
        """
        return _Walk(self.text, values).value(self.root)

    def truth(self, values: Mapping[str, float | str]) -> bool:
        """Return whether the value is true in Perl's sense. Raises EvaluationError."""
        return truth(self.evaluate(values))


class _Walk:
    """One evaluation over one set of values."""

    def __init__(self, text: str, values: Mapping[str, float | str]) -> None:
        self._text = text
        self._values = values
        self._work = 0
        """Of all its matches, as MAX_WORK."""

    def value(self, node: Node) -> Value:
        match node:
            case Literal(value):
                return value
            case Variable():
                return self._variable(node)
            case Interpolation(parts, offset):
                return self._joined(
                    (p if isinstance(p, str) else to_text(self._variable(p)) for p in parts), offset
                )
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Conditional(condition, yes, no):
                return self.value(yes if truth(self.value(condition)) else no)
            case Call():
                return self._call(node)
            case Match():
                return self._match(node)

    def _joined(self, parts: Iterable[str], offset: int) -> str:
        """Return texts in one. Raises EvaluationError where it is longer than MAX_TEXT."""
        kept, length = list[str](), 0
        for part in parts:
            length += len(part)
            if length > MAX_TEXT:
                message = f"the text has more than {MAX_TEXT:,} characters"
                raise self._error(message, offset)
            kept.append(part)
        return "".join(kept)

    def _variable(self, node: Variable) -> Value:
        try:
            return self._values[node.name]
        except KeyError:
            raise self._error(f"${node.name} has no value", node.offset) from None

    def _unary(self, node: Unary) -> Value:
        operand = self.value(node.operand)
        if node.operator == "-":
            return negate(operand)
        if node.operator == "+":
            return operand
        return boolean(not truth(operand))

    def _binary(self, node: Binary) -> Value:
        left = self.value(node.left)
        if node.operator in ("&&", "and"):
            return self.value(node.right) if truth(left) else left
        if node.operator in ("||", "or"):
            return left if truth(left) else self.value(node.right)
        right = self.value(node.right)
        if node.operator == ".":
            return self._joined((to_text(left), to_text(right)), node.offset)
        if node.operator in STRING_OPERATORS:
            return STRING_OPERATORS[node.operator](to_text(left), to_text(right))
        operator = NUMBER_OPERATORS[node.operator]
        try:
            return operator(to_number(left), to_number(right))
        except ZeroDivisionError:
            raise self._error(f"the right side of `{node.operator}` is 0", node.offset) from None

    def _call(self, node: Call) -> Value:
        arguments = [self.value(a) for a in node.arguments]
        try:
            return FUNCTIONS[node.function].call(arguments)
        except ValueError:
            given = to_text(arguments[0])
            raise self._error(f"{node.function}({given}) has no value", node.offset) from None

    def _match(self, node: Match) -> Value:
        subject = to_text(self.value(node.subject))
        pattern = to_text(self.value(node.pattern))
        try:
            compiled_pattern = perl_pattern(pattern, node.flags)
            self._work += len(subject) * compiled_pattern.size
            if self._work > MAX_WORK:
                message = "the texts are too long for patterns of this size"
                raise self._error(message, node.offset)
            found = compiled_pattern.search(subject) is not None
        except PatternError as error:
            message = f"the pattern {pattern!r} cannot be used: {error.message}"
            raise self._error(message, node.offset) from None
        return boolean(found is not node.negated)

    def _error(self, message: str, offset: int) -> EvaluationError:
        return EvaluationError(message, self._text, offset + 1)


def _compare(left: float, right: float) -> Value:
    if left < right:
        return -1.0
    if left > right:
        return 1.0
    return 0.0 if left == right else FALSE


def _divide(left: float, right: float) -> float:
    if right == 0:
        raise ZeroDivisionError
    return left / right


NUMBER_OPERATORS: Mapping[str, Callable[[float, float], Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": modulus,
    "**": power,
    "<": lambda a, b: boolean(a < b),
    ">": lambda a, b: boolean(a > b),
    "<=": lambda a, b: boolean(a <= b),
    ">=": lambda a, b: boolean(a >= b),
    "==": lambda a, b: boolean(a == b),
    "!=": lambda a, b: boolean(a != b),
    "<=>": _compare,
}
STRING_OPERATORS: Mapping[str, Callable[[str, str], Value]] = {
    "lt": lambda a, b: boolean(a < b),
    "gt": lambda a, b: boolean(a > b),
    "le": lambda a, b: boolean(a <= b),
    "ge": lambda a, b: boolean(a >= b),
    "eq": lambda a, b: boolean(a == b),
    "ne": lambda a, b: boolean(a != b),
    "cmp": lambda a, b: float((a > b) - (a < b)),
}
