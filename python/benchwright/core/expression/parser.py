"""From the text of an expression to its tree: a lexer and a Pratt parser with Perl's precedence."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from benchwright.core.errors import Diagnostic, InputError, suggestion
from benchwright.core.expression.tree import (
    FUNCTIONS,
    Binary,
    Call,
    Conditional,
    Expression,
    Interpolation,
    Literal,
    Match,
    Node,
    Unary,
    Variable,
    perl_pattern,
)
from benchwright.core.pattern import PatternError

# -- Splits an expression into tokens, collecting every lexical mistake on the way -----


class ExpressionMistake(msgspec.Struct, frozen=True):
    """What is wrong at one offset of the text."""

    code: str
    message: str
    hint: str
    offset: int


class Token(msgspec.Struct, frozen=True):
    """A token; `kind` is `number`, `string`, `variable`, `function`, `pattern`, `end`, or
    the operator itself."""

    kind: str
    offset: int
    text: str = ""
    parts: tuple[str | Variable, ...] = ()
    flags: str = ""
    """Of a pattern."""


SYNTAX = "expression-syntax"
_OPERATOR = re.compile(r"<=>|=~|!~|\*\*|&&|\|\||<=|>=|==|!=|[-+*/%<>!?:(),.]", re.ASCII)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\})", re.ASCII
)
_WORD_OPERATORS = frozenset(("eq", "ne", "lt", "gt", "le", "ge", "cmp", "and", "or", "not"))
MATCHES = ("=~", "!~")
_PATTERN = re.compile(r"(m?)(/)|(m)([^\sA-Za-z0-9_$'])", re.ASCII)
"""How a pattern begins: /, m/, or m and another delimiter."""
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
_SUBSTITUTION = re.compile(r"(?:s|tr|y)[^\sA-Za-z0-9_,)]", re.ASCII)
_FLAGS = "ims"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_HINTS = {
    "=": "compare numbers with == and strings with eq; there is no assignment",
    "&": "write && for `and`",
    "|": "write || for `or`",
    "{": "a name in braces is written ${name}",
    "$": "a variable is written $name",
    "@": "there are no arrays",
    "~": "a text is matched with =~ or !~; there are no bit operations",
    "^": "powers are written with **",
    ";": "an expression is one expression, not a list of statements",
}


class Lexer:
    """Tokens and mistakes of one text."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self.tokens: list[Token] = []
        self.mistakes: list[ExpressionMistake] = []
        while self._at < len(source):
            self._next()
        self.tokens.append(Token("end", len(source)))

    def _wrong(self, message: str, hint: str, offset: int) -> None:
        self.mistakes.append(ExpressionMistake(SYNTAX, message, hint, offset))

    def _add(self, kind: str, end: int, parts: tuple[str | Variable, ...] = ()) -> None:
        text = self._source[self._at : end]
        self.tokens.append(Token(kind, self._at, text, parts))
        self._at = end

    def _next(self) -> None:
        character = self._source[self._at]
        if character.isspace():
            self._at += 1
        elif self._expects_pattern() and self._pattern():
            pass
        elif character == "'":
            self._single_quoted()
        elif character == '"':
            self._double_quoted()
        elif match := _VARIABLE.match(self._source, self._at):
            name = Variable(match[1] or match[2], self._at)
            self._add("variable", match.end(), (name,))
        elif match := _NUMBER.match(self._source, self._at):
            self._number(match.end())
        elif match := _WORD.match(self._source, self._at):
            self._word(match[0])
        elif match := _OPERATOR.match(self._source, self._at):
            self._add(match[0], match.end())
        else:
            self._unexpected(character)

    def _expects_pattern(self) -> bool:
        return bool(self.tokens) and self.tokens[-1].kind in MATCHES

    def _pattern(self) -> bool:
        """Read a pattern; False where the right side of =~ is another expression."""
        source, start = self._source, self._at
        if _SUBSTITUTION.match(source, start):
            hint = "an expression changes nothing; =~ /PATTERN/ only matches"
            self._wrong("there is no substitution", hint, start)
            self._add("wrong", len(source))
            return True
        begin = _PATTERN.match(source, start)
        if begin is None:
            return False
        opening = begin[2] or begin[4]
        closing = _CLOSING.get(opening, opening)
        parts: list[str | Variable] = []
        built: list[str] = []
        at, depth = begin.end(), 0
        while at < len(source) and (depth or source[at] != closing):
            if match := _VARIABLE.match(source, at):
                parts += ["".join(built), Variable(match[1] or match[2], at)]
                built.clear()
                at = match.end()
                continue
            if source[at] == "\\" and at + 1 < len(source):
                # The delimiter needs its backslash for Perl only.
                built.append(source[at : at + 2].replace("\\/", "/"))
                at += 2
                continue
            if opening != closing:
                depth += (source[at] == opening) - (source[at] == closing)
            built.append(source[at])
            at += 1
        if at >= len(source):
            self._wrong("the pattern is not closed", f"it ends with {closing}", start)
        self._finish_pattern((*parts, "".join(built)), min(at + 1, len(source)))
        return True

    def _finish_pattern(self, parts: tuple[str | Variable, ...], end: int) -> None:
        match = re.compile(r"[A-Za-z]*").match(self._source, end)
        flags = match[0] if match else ""
        for offset, letter in enumerate(flags):
            if letter not in _FLAGS:
                hint = f"known: {', '.join(_FLAGS)}"
                message = f"/{letter} is not supported"
                self._wrong(message, hint, end + offset)
        kept = tuple(part for part in parts if part != "")
        at = self._at
        self._at = end + len(flags)
        unique = "".join(dict.fromkeys(flags))
        text = self._source[at : self._at]
        self.tokens.append(Token("pattern", at, text, kept, unique))

    def _unexpected(self, character: str) -> None:
        hint = _HINTS.get(character, "")
        self._wrong(f"{character!r} means nothing here", hint, self._at)
        end = self._at + 1
        while end < len(self._source) and self._source[end] == character:
            end += 1
        self._add("wrong", end)

    def _number(self, end: int) -> None:
        text = self._source[self._at : end]
        if re.match(r"0[0-9]", text):
            self._wrong(
                f"{text} is an octal number in Perl", "write it without leading 0", self._at
            )
        match = _WORD.match(self._source, end)
        if match and match[0] not in _WORD_OPERATORS:
            end = match.end()
            text = self._source[self._at : end]
            self._wrong(f"{text!r} is not a number", "", self._at)
        self._add("number", end)

    def _word(self, word: str) -> None:
        end = self._at + len(word)
        if word in _WORD_OPERATORS:
            self._add(word, end)
        elif word in FUNCTIONS:
            self._add("function", end)
        else:
            known = ", ".join(FUNCTIONS)
            hint = f"functions are {known}; a variable is written ${word}, a string '{word}'"
            self._wrong(f"{word!r} is neither a function nor an operator", hint, self._at)
            self._add("wrong", end)

    def _single_quoted(self) -> None:
        built: list[str] = []
        at = self._at + 1
        while at < len(self._source) and self._source[at] != "'":
            if self._source[at] == "\\" and self._source[at + 1 : at + 2] in ("\\", "'"):
                at += 1
            built.append(self._source[at])
            at += 1
        self._string(at, "'", ("".join(built),))

    def _double_quoted(self) -> None:
        parts: list[str | Variable] = []
        built: list[str] = []
        at = self._at + 1
        while at < len(self._source) and self._source[at] != '"':
            if match := _VARIABLE.match(self._source, at):
                parts += ["".join(built), Variable(match[1] or match[2], at)]
                built.clear()
                at = match.end()
            elif self._source[at] == "\\" and at + 1 < len(self._source):
                built.append(self._escape(at))
                at += 2
            else:
                built.append(self._source[at])
                at += 1
        self._string(at, '"', (*parts, "".join(built)))

    def _escape(self, at: int) -> str:
        letter = self._source[at + 1]
        if letter.isalnum() and letter not in _ESCAPES:
            self._wrong(f"\\{letter} is not an escape here", "known: \\n \\t \\r \\0", at)
        return _ESCAPES.get(letter, letter)

    def _string(self, end: int, quote: str, parts: tuple[str | Variable, ...]) -> None:
        if end >= len(self._source):
            self._wrong("the string is not closed", f"it ends with {quote}", self._at)
        kept = tuple(part for part in parts if part != "")
        self._add("string", min(end + 1, len(self._source)), kept)


# -- A Pratt parser for expressions, with Perl's precedence ----------------------------
#
# All lexical mistakes and all unknown names of a text are reported together, with the
# first place where the grammar breaks. Source: perlop(1), "Operator Precedence".

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


class _SyntaxFailure(Exception):
    """The grammar does not go on from here."""

    def __init__(self, message: str, offset: int, hint: str = "") -> None:
        self.mistake = ExpressionMistake(SYNTAX, message, hint, offset)


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
    InputError with every mistake that can be distinguished (`expression-syntax`,
    `expression-unknown-name`).
    """
    mistakes: list[ExpressionMistake] = []
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
    text: str, variables: Collection[str] | None, mistakes: list[ExpressionMistake]
) -> Expression | None:
    if len(text) > MAX_LENGTH:
        message = f"an expression of {len(text)} characters is too long"
        mistakes.append(ExpressionMistake(SYNTAX, message, f"the limit is {MAX_LENGTH}", 0))
        return None
    lexer = Lexer(text)
    mistakes += lexer.mistakes
    names = [p for t in lexer.tokens for p in t.parts if isinstance(p, Variable)]
    if variables is not None:
        mistakes += [_unknown(n, variables) for n in names if n.name not in variables]
    if lexer.mistakes:
        return None
    try:
        root = _ExpressionParser(lexer.tokens).whole()
    except _SyntaxFailure as broken:
        mistakes.append(broken.mistake)
        return None
    return Expression(text, root, frozenset(n.name for n in names))


def _unknown(variable: Variable, known: Collection[str]) -> ExpressionMistake:
    meant = suggestion(variable.name, known, form="$%s")
    shown = ", ".join(f"${name}" for name in sorted(known)[:20])
    hint = f"{meant} known: {shown}".lstrip() if shown else "none is known"
    return ExpressionMistake(
        "expression-unknown-name", f"${variable.name} is not known here", hint, variable.offset
    )


class _ExpressionParser:
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
            raise _SyntaxFailure(
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
                raise _SyntaxFailure(
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
        return Conditional(condition, yes, no, token.offset, height)

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
                raise _SyntaxFailure("the expression ends too early", token.offset, _VALUE)
            case _:
                raise _SyntaxFailure(f"{token.text!r} is not expected here", token.offset, _VALUE)

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
                raise _SyntaxFailure(f"{token.text} takes {function.arguments}", comma.offset)
            arguments.append(self._binary(_CHOICE))
        end = self._here
        self._expect(")", f"the arguments of {token.text} are not closed")
        if len(arguments) < function.least:
            raise _SyntaxFailure(f"{token.text} takes {function.arguments}", end.offset)
        height = max(a.height for a in arguments) + 1
        self._check_height(height, token)
        return Call(token.text, tuple(arguments), token.offset, height)

    def _expect(self, kind: str, message: str) -> None:
        if self._here.kind != kind:
            raise _SyntaxFailure(message, self._here.offset, f"expected {kind} here")
        self._take()

    def _check_height(self, height: int, token: Token) -> None:
        if height > MAX_HEIGHT:
            raise _SyntaxFailure("the expression is nested too deeply", token.offset)


def _check_pattern(token: Token, text: str) -> None:
    """Raise _Broken, at its place in the text, for what is no regular expression."""
    try:
        perl_pattern(text, token.flags)
    except PatternError as error:
        # What precedes the pattern's text: a delimiter, with m before it or not.
        before = len(token.text) - len(token.text.lstrip("m")) + 1
        message = f"the pattern cannot be used: {error.message}"
        raise _SyntaxFailure(message, token.offset + before + error.offset, error.hint) from None


_VALUE = "expected a number, a string, a $variable, a function or ("


def _string(token: Token) -> Node:
    if any(isinstance(part, Variable) for part in token.parts):
        return Interpolation(token.parts, token.offset)
    return Literal("".join(p for p in token.parts if isinstance(p, str)), token.offset)
