"""Parses texts of keys and options: one of several words, levels with ranges, the words of a
command, placeholders (`%NAME%`, `$NAME$`, `{name}`) and the names that samples give to tests.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec

from benchwright.core.errors import suggestion
from benchwright.inputs.mistakes import Fault, Where

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


class Slot(msgspec.Struct, frozen=True):
    """A variable in a text, to be replaced by its value."""

    name: str
    where: Where
    environment: bool = False
    """Whether its value comes from the environment instead of the suite's variables."""

    @property
    def raw(self) -> str:
        """The slot in the syntax of `.ap`."""
        mark = "$" if self.environment else "%"
        return f"{mark}{self.name}{mark}"


class Template(msgspec.Struct, frozen=True):
    """A text as literal parts and slots in order; empty literal parts are left out."""

    parts: tuple[str | Slot, ...]
    where: Where
    """Position of its first character."""

    @property
    def literal(self) -> str | None:
        """The text if it has no slots, else None."""
        if any(isinstance(part, Slot) for part in self.parts):
            return None
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Its slots, in order."""
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @property
    def raw(self) -> str:
        """The text with `%NAME%` or `$NAME$` for every slot, for messages and listings."""
        return "".join(p if isinstance(p, str) else p.raw for p in self.parts)


# -- Splits a text into words like a shell, with the offset of each character ----------
#
# Quotes ('...', "...") and backslashes are removed. Rejected: shlex, which does not report the
# offsets that a diagnostic needs.
# Non-goals: expansion of any kind. Source: POSIX sh, "Quoting".


class Word(msgspec.Struct, frozen=True):
    """A word without its quotes."""

    text: str
    offset: int
    """Offset of its first character, which may be a quote."""
    offsets: tuple[int, ...]
    """Offsets of the characters of `text` and of its end: `len(text) + 1` numbers."""


def split_words(text: str) -> tuple[list[Word], list[Fault]]:
    """Return the words, and a fault for a quote that is not closed."""
    words: list[Word] = []
    faults: list[Fault] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start = at
        characters: list[tuple[str, int]] = []
        while at < len(text) and not text[at].isspace():
            at = _piece(text, at, characters, faults)
        offsets = (*(o for _, o in characters), at)
        words.append(Word("".join(c for c, _ in characters), start, offsets))
    return words, faults


def has_quotes(template: Template) -> bool:
    """Return whether a text has quotes as it is written, outside its variables."""
    written = "".join(part for part in template.parts if isinstance(part, str))
    return not {'"', "'"}.isdisjoint(written)


def _piece(text: str, at: int, into: list[tuple[str, int]], faults: list[Fault]) -> int:
    """Read one character or one quoted part; return the offset after it."""
    quote = text[at]
    if quote == "\\":
        if at + 1 < len(text):
            into.append((text[at + 1], at + 1))
        return at + 2
    if quote not in "'\"":
        into.append((quote, at))
        return at + 1
    start, at = at, at + 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in tuple('$`"\\'):
            at += 1
        into.append((text[at], at))
        at += 1
    if at >= len(text):
        message = "the quoted text is not closed"
        faults.append(Fault("suite-quote", message, f"it ends with {quote}", start))
    return at + 1


# -- Finds `{name}` in texts -----------------------------------------------------------
#
# Braces are placeholders only around a known name: `awk '{print}'` is unchanged. A name that
# is similar to a known one is a mistake; `{{name}}` stands for the text `{name}`, where
# `{name}` would be a placeholder or a mistake.

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
NAME_IN_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)

OffsetLocator = Callable[[int], Where]
"""Offset in a text -> position in its file."""


_NEAR = 0.75
"""Minimum similarity of a misspelt name to a known one, by difflib."""


def _suggestion(name: str, known: Collection[str]) -> str:
    """Return the question whether a known name is meant by an unknown one; empty if none is near."""
    return "" if name in known else suggestion(name, sorted(known), form="{%s}", least=_NEAR)


def _is_doubled(text: str, match: re.Match[str]) -> bool:
    return text[match.start() - 1 : match.start()] == "{" == text[match.start()] and (
        text[match.end() : match.end() + 1] == "}"
    )


def misspelt(text: str, known: Collection[str]) -> list[Fault]:
    """Return a fault for each `{name}` that is similar to a known name."""
    faults = []
    for match in NAME_IN_BRACES.finditer(text):
        meant = _suggestion(match[1], known)
        if meant and not _is_doubled(text, match):
            message = f"there is no variable {match[1]!r}: {meant}"
            hint = f"write {{{{{match[1]}}}}} for the text {match[0]} itself"
            faults.append(Fault("suite-unknown-name", message, hint, match.start()))
    return faults


def brace_template(text: str, place: OffsetLocator, known: Collection[str]) -> Template:
    """Return a text with `{name}` as a slot for every known name."""
    parts: list[str | Slot] = []
    end = 0
    for match in NAME_IN_BRACES.finditer(text):
        if _is_doubled(text, match):
            if match[1] in known or _suggestion(match[1], known):
                parts += [text[end : match.start() - 1], match[0]]
                end = match.end() + 1
        elif match[1] in known:
            parts += [text[end : match.start()], Slot(match[1], place(match.start()))]
            end = match.end()
    parts.append(text[end:])
    return Template(tuple(p for p in parts if p != ""), place(0))


def fill_placeholders(template: Template, values: Mapping[str, str]) -> str:
    """Return a text with values in its slots; each slot has a value."""
    return "".join(part if isinstance(part, str) else values[part.name] for part in template.parts)


def fixed(text: str, where: Where) -> Template:
    """Return a template without slots."""
    return Template((text,) if text else (), where)


# -- Default names of tests: the program's name and the sample -------------------------

_UNFIT = re.compile(r"[^A-Za-z0-9.+-]+", re.ASCII)
_IN_FILES = re.compile(r"[/\s\x00-\x1f\x7f]+")


def command_name(program: str) -> str:
    """Return a short name for a command: the name of its program, safe in file names."""
    name = _UNFIT.sub("-", posixpath.basename(program)).strip("-.")
    return name[:60] or "command"


def with_sample(name: Template, factors: Sequence[str]) -> Template:
    """Return the name with `:factor=level` for each factor that it does not mention."""
    named = {slot.name for slot in name.slots}
    parts = list(name.parts)
    for factor in factors:
        if factor not in named:
            parts += [f":{factor}=", Slot(factor, name.where)]
    return Template(tuple(parts), name.where)


def file_friendly(name: str) -> str:
    """Return a name with _ in place of spaces and of characters that file names cannot contain."""
    return _IN_FILES.sub("_", name)
