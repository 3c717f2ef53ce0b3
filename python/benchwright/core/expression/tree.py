"""The expression's tree and its evaluation.

Nodes are frozen; each knows the offset of its operator in the text, for errors, and its
height, so that a tree too high to be walked is never built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from benchwright.core.expression import values as perl
from benchwright.core.expression.values import FUNCTIONS, EvaluationError, Value
from benchwright.core.pattern import Pattern, PatternError, compile_pattern

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
        return perl.truth(self.evaluate(values))


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
                    (p if isinstance(p, str) else perl.to_text(self._variable(p)) for p in parts),
                    offset,
                )
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Conditional(condition, yes, no):
                return self.value(yes if perl.truth(self.value(condition)) else no)
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
            return perl.negate(operand)
        if node.operator == "+":
            return operand
        return perl.boolean(not perl.truth(operand))

    def _binary(self, node: Binary) -> Value:
        left = self.value(node.left)
        if node.operator in ("&&", "and"):
            return self.value(node.right) if perl.truth(left) else left
        if node.operator in ("||", "or"):
            return left if perl.truth(left) else self.value(node.right)
        right = self.value(node.right)
        if node.operator == ".":
            return self._joined((perl.to_text(left), perl.to_text(right)), node.offset)
        if node.operator in STRING_OPERATORS:
            return STRING_OPERATORS[node.operator](perl.to_text(left), perl.to_text(right))
        operator = NUMBER_OPERATORS[node.operator]
        try:
            return operator(perl.to_number(left), perl.to_number(right))
        except ZeroDivisionError:
            raise self._error(f"the right side of `{node.operator}` is 0", node.offset) from None

    def _call(self, node: Call) -> Value:
        arguments = [self.value(a) for a in node.arguments]
        try:
            return FUNCTIONS[node.function].call(arguments)
        except ValueError:
            given = perl.to_text(arguments[0])
            raise self._error(f"{node.function}({given}) has no value", node.offset) from None

    def _match(self, node: Match) -> Value:
        subject = perl.to_text(self.value(node.subject))
        pattern = perl.to_text(self.value(node.pattern))
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
        return perl.boolean(found is not node.negated)

    def _error(self, message: str, offset: int) -> EvaluationError:
        return EvaluationError(message, self._text, offset + 1)


def _compare(left: float, right: float) -> Value:
    if left < right:
        return -1.0
    if left > right:
        return 1.0
    return 0.0 if left == right else perl.FALSE


def _divide(left: float, right: float) -> float:
    if right == 0:
        raise ZeroDivisionError
    return left / right


NUMBER_OPERATORS: Mapping[str, Callable[[float, float], Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": perl.modulus,
    "**": perl.power,
    "<": lambda a, b: perl.boolean(a < b),
    ">": lambda a, b: perl.boolean(a > b),
    "<=": lambda a, b: perl.boolean(a <= b),
    ">=": lambda a, b: perl.boolean(a >= b),
    "==": lambda a, b: perl.boolean(a == b),
    "!=": lambda a, b: perl.boolean(a != b),
    "<=>": _compare,
}
STRING_OPERATORS: Mapping[str, Callable[[str, str], Value]] = {
    "lt": lambda a, b: perl.boolean(a < b),
    "gt": lambda a, b: perl.boolean(a > b),
    "le": lambda a, b: perl.boolean(a <= b),
    "ge": lambda a, b: perl.boolean(a >= b),
    "eq": lambda a, b: perl.boolean(a == b),
    "ne": lambda a, b: perl.boolean(a != b),
    "cmp": lambda a, b: float((a > b) - (a < b)),
}
