"""Splits an expression into tokens, collecting every lexical mistake on the way."""

from __future__ import annotations

import re

import msgspec

from benchwright.expression.functions import FUNCTIONS
from benchwright.expression.tree import Variable


class Mistake(msgspec.Struct, frozen=True):
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
_WORD_OPERATORS = frozenset(
    ("eq", "ne", "lt", "gt", "le", "ge", "cmp", "and", "or", "not")
)
MATCHES = ("=~", "!~")
_PATTERN = re.compile(r"(m?)(/)|(m)([^\sA-Za-z0-9_$'])", re.ASCII)
"""How a pattern begins: /, m/, or m and another delimiter."""
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
_CHANGES = re.compile(r"(?:s|tr|y)[^\sA-Za-z0-9_,)]", re.ASCII)
_FLAGS = "ims"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INSTEAD = {
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
        self.mistakes: list[Mistake] = []
        while self._at < len(source):
            self._next()
        self.tokens.append(Token("end", len(source)))

    def _wrong(self, message: str, hint: str, offset: int) -> None:
        self.mistakes.append(Mistake(SYNTAX, message, hint, offset))

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
        if _CHANGES.match(source, start):
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
        hint = _INSTEAD.get(character, "")
        self._wrong(f"{character!r} means nothing here", hint, self._at)
        end = self._at + 1
        while end < len(self._source) and self._source[end] == character:
            end += 1
        self._add("wrong", end)

    def _number(self, end: int) -> None:
        text = self._source[self._at : end]
        if re.match(r"0[0-9]", text):
            self._wrong(
                f"{text} is an octal number in Perl",
                "write it without leading 0",
                self._at,
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
            self._wrong(
                f"{word!r} is neither a function nor an operator", hint, self._at
            )
            self._add("wrong", end)

    def _single_quoted(self) -> None:
        built: list[str] = []
        at = self._at + 1
        while at < len(self._source) and self._source[at] != "'":
            if self._source[at] == "\\" and self._source[at + 1 : at + 2] in (
                "\\",
                "'",
            ):
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
            self._wrong(
                f"\\{letter} is not an escape here", "known: \\n \\t \\r \\0", at
            )
        return _ESCAPES.get(letter, letter)

    def _string(self, end: int, quote: str, parts: tuple[str | Variable, ...]) -> None:
        if end >= len(self._source):
            self._wrong("the string is not closed", f"it ends with {quote}", self._at)
        kept = tuple(part for part in parts if part != "")
        self._add("string", min(end + 1, len(self._source)), kept)
