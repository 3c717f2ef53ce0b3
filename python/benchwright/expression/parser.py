"""A Pratt parser for expressions, with Perl's precedence.

All lexical mistakes and all unknown names of a text are reported together, with the
first place where the grammar breaks. Source: perlop(1), "Operator Precedence".
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from benchwright.expression.functions import FUNCTIONS
from benchwright.expression.lexer import MATCHES, SYNTAX, Lexer, Mistake, Token
from benchwright.expression.tree import (
    Binary,
    Call,
    Choice,
    Expression,
    Interpolation,
    Literal,
    Match,
    Node,
    Unary,
    Variable,
    regular,
)
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.pattern import PatternError

MAX_LENGTH = 10_000
"""Characters of one expression."""
MAX_HEIGHT = 150
"""Of the tree, and of nested parentheses: each level costs three Python frames."""

_BINARY: dict[str, tuple[int, str]] = {
    "or": (10, "left"),
    "and": (20, "left"),
    "||": (50, "left"),
    "&&": (60, "left"),
    **dict.fromkeys(("==", "!=", "<=>", "eq", "ne", "cmp"), (70, "none")),
    **dict.fromkeys(("<", ">", "<=", ">=", "lt", "gt", "le", "ge"), (80, "none")),
    **dict.fromkeys(("+", "-", "."), (100, "left")),
    **dict.fromkeys(("*", "/", "%"), (110, "left")),
    "=~": (115, "left"),
    "!~": (115, "left"),
    "**": (130, "right"),
}
"""Binding strength and associativity; `not` binds with 30, `?:` with 40."""
_NOT, _CHOICE, _PREFIX = 30, 40, 120


class _Broken(Exception):
    """The grammar does not go on from here."""

    def __init__(self, message: str, offset: int, hint: str = "") -> None:
        self.mistake = Mistake(SYNTAX, message, hint, offset)


def parse(
    text: str,
    *,
    variables: Collection[str] | None,
    file: str = "",
    line: int = 1,
    column_offset: int = 0,
    line_text: str = "",
) -> Expression:
    """Return the expression that the text writes.

    `variables` are the names that it may read; None allows any. `column_offset`
    characters stand before it on its line, whose whole text is `line_text`. Raises
    InputError with every mistake that can be told apart (`expression-syntax`,
    `expression-unknown-name`).
    """
    mistakes: list[Mistake] = []
    expression = _expression(text, variables, mistakes)
    if expression is not None and not mistakes:
        return expression
    raise InputError(
        [
            Diagnostic(
                m.code,
                m.message,
                m.hint,
                file=file,
                line=line,
                column=column_offset + m.offset + 1,
                text=line_text or text,
            )
            for m in sorted(mistakes, key=lambda m: m.offset)
        ]
    )


def _expression(
    text: str, variables: Collection[str] | None, mistakes: list[Mistake]
) -> Expression | None:
    if len(text) > MAX_LENGTH:
        message = f"an expression of {len(text)} characters is too long"
        mistakes.append(Mistake(SYNTAX, message, f"the limit is {MAX_LENGTH}", 0))
        return None
    lexer = Lexer(text)
    mistakes += lexer.mistakes
    names = [p for t in lexer.tokens for p in t.parts if isinstance(p, Variable)]
    if variables is not None:
        mistakes += [_unknown(n, variables) for n in names if n.name not in variables]
    if lexer.mistakes:
        return None
    try:
        root = _Parser(lexer.tokens).whole()
    except _Broken as broken:
        mistakes.append(broken.mistake)
        return None
    return Expression(text, root, frozenset(n.name for n in names))


def _unknown(variable: Variable, known: Collection[str]) -> Mistake:
    near = difflib.get_close_matches(variable.name, known, 1)
    hint = f"did you mean ${near[0]}? " if near else ""
    shown = sorted(known)[:20]
    hint += "known: " + ", ".join(f"${n}" for n in shown) if shown else "none is known"
    return Mistake(
        "expression-unknown-name",
        f"${variable.name} is not known here",
        hint,
        variable.offset,
    )


class _Parser:
    """Recursive over tokens; `_depth` bounds the recursion before Python does."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._here
        self._at += 1
        return token

    def whole(self) -> Node:
        """Return the tree of all tokens. Raises _Broken."""
        root = self._binary(0)
        if self._here.kind != "end":
            raise _Broken(
                f"{self._here.text!r} is not expected here",
                self._here.offset,
                "expected an operator or the end of the expression",
            )
        return root

    def _binary(self, floor: int) -> Node:
        self._depth += 1
        self._check_height(self._depth, self._here)
        left = self._prefix()
        while True:
            token = self._here
            if token.kind == "?" and floor <= _CHOICE:
                left = self._choice(left)
                continue
            strength, side = _BINARY.get(token.kind, (-1, ""))
            if strength < floor:
                break
            self._take()
            if token.kind in MATCHES:
                left = self._match(token, left)
                continue
            right = self._binary(strength if side == "right" else strength + 1)
            left = self._joined(token, left, right)
            if side == "none" and _BINARY.get(self._here.kind, (-1, ""))[0] == strength:
                raise _Broken(
                    f"{self._here.text!r} follows another comparison",
                    self._here.offset,
                    "comparisons do not chain; join them with &&",
                )
        self._depth -= 1
        return left

    def _joined(self, token: Token, left: Node, right: Node) -> Node:
        height = max(left.height, right.height) + 1
        self._check_height(height, token)
        return Binary(token.kind, left, right, token.offset, height)

    def _match(self, token: Token, subject: Node) -> Node:
        there = self._here
        if there.kind == "pattern":
            self._take()
            pattern = _string(there)
        else:
            pattern = self._binary(_BINARY[token.kind][0] + 1)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            _check_pattern(there, pattern.value)
        height = max(subject.height, pattern.height) + 1
        self._check_height(height, token)
        negated = token.kind == "!~"
        return Match(subject, pattern, there.flags, negated, token.offset, height)

    def _choice(self, condition: Node) -> Node:
        token = self._take()
        yes = self._binary(_CHOICE)
        self._expect(":", "the ? of a choice needs its :")
        no = self._binary(_CHOICE)
        height = max(condition.height, yes.height, no.height) + 1
        self._check_height(height, token)
        return Choice(condition, yes, no, token.offset, height)

    def _prefix(self) -> Node:
        token = self._take()
        match token.kind:
            case "number":
                return Literal(float(token.text), token.offset)
            case "string":
                return _string(token)
            case "variable":
                assert isinstance(token.parts[0], Variable)
                return token.parts[0]
            case "(":
                inner = self._binary(0)
                self._expect(")", "a parenthesis is not closed")
                return inner
            case "-" | "+" | "!":
                return self._unary(token, self._binary(_PREFIX))
            case "not":
                return self._unary(token, self._binary(_NOT))
            case "function":
                return self._call(token)
            case "end":
                raise _Broken("the expression ends too early", token.offset, _VALUE)
            case _:
                raise _Broken(
                    f"{token.text!r} is not expected here", token.offset, _VALUE
                )

    def _unary(self, token: Token, operand: Node) -> Node:
        self._check_height(operand.height + 1, token)
        return Unary(token.kind, operand, token.offset, operand.height + 1)

    def _call(self, token: Token) -> Node:
        self._expect("(", f"{token.text} takes its arguments in parentheses")
        function = FUNCTIONS[token.text]
        arguments = [self._binary(_CHOICE)]
        while self._here.kind == ",":
            comma = self._take()
            if function.most is not None and len(arguments) >= function.most:
                raise _Broken(f"{token.text} takes {function.arguments}", comma.offset)
            arguments.append(self._binary(_CHOICE))
        end = self._here
        self._expect(")", f"the arguments of {token.text} are not closed")
        if len(arguments) < function.least:
            raise _Broken(f"{token.text} takes {function.arguments}", end.offset)
        height = max(a.height for a in arguments) + 1
        self._check_height(height, token)
        return Call(token.text, tuple(arguments), token.offset, height)

    def _expect(self, kind: str, message: str) -> None:
        if self._here.kind != kind:
            raise _Broken(message, self._here.offset, f"expected {kind} here")
        self._take()

    def _check_height(self, height: int, token: Token) -> None:
        if height > MAX_HEIGHT:
            raise _Broken("the expression is nested too deeply", token.offset)


def _check_pattern(token: Token, text: str) -> None:
    """Raise _Broken, at its place in the text, for what is no regular expression."""
    try:
        regular(text, token.flags)
    except PatternError as error:
        # What precedes the pattern's text: a delimiter, with m before it or not.
        before = len(token.text) - len(token.text.lstrip("m")) + 1
        message = f"the pattern cannot be used: {error.message}"
        raise _Broken(
            message, token.offset + before + error.offset, error.hint
        ) from None


_VALUE = "expected a number, a string, a $variable, a function or ("


def _string(token: Token) -> Node:
    if any(isinstance(part, Variable) for part in token.parts):
        return Interpolation(token.parts, token.offset)
    return Literal("".join(p for p in token.parts if isinstance(p, str)), token.offset)
