"""Reads TOML files: positions of keys and values, and tables by type; collects all mistakes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from benchwright.core.errors import Diagnostic, InputError, similar, suggestion
from benchwright.core.text import some_text
from benchwright.inputs.mistakes import Fault, Where, WrongText, diagnostic, physical_lines
from benchwright.inputs.template import (
    HINT,
    NAME,
    NAME_IN_BRACES,
    brace_template,
    expanded,
    misspelt,
    one_of,
)

# -- The line and column of every key and value of a TOML text -------------------------
#
# tomllib returns values without positions, which diagnostics need. Decision: a scanner for text
# that tomllib has accepted, so that the scanner checks nothing. Rejected: tomlkit, a dependency
# of 30 times the size. Source: the TOML 1.0.0 specification.

T = TypeVar("T")

Scalar = str | int | float | bool
"""A value that is neither a table nor an array."""
TomlPath = tuple[str | int, ...]
"""Keys and array indices, from the top-level table."""

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]*")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"""(?!"(?!""))"{0,2}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?!'(?!''))'{0,2}", re.DOTALL)


class Locator:
    """Positions of the keys and values of a text that tomllib has accepted."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._lines = physical_lines(self._text)
        self._file = file
        self._at = 0
        self._keys: dict[TomlPath, int] = {}
        self._values: dict[TomlPath, int] = {}
        self._tables: dict[TomlPath, int] = {}
        self._scan()

    def key(self, path: TomlPath) -> Where:
        """Return the position of a key, or of an element of an array."""
        return self.offset(self._keys.get(path, self._values.get(path, 0)))

    def value(self, path: TomlPath) -> Where:
        """Return the position of a value."""
        return self.offset(self._start(path))

    def inside(self, path: TomlPath, value: str, offset: int) -> Where:
        """Return the position of a character of a string's value.

        If there are escapes before it, return the position of the string.
        """
        start = self._start(path)
        for quotes in (3, 1):
            if self._text[start : start + 3] in ('"""', "'''") or quotes == 1:
                begin = start + quotes
                begin += quotes == 3 and self._text[begin : begin + 1] == "\n"
                if self._text[begin : begin + offset] == value[:offset]:
                    return self.offset(begin + offset)
        return self.offset(start)

    def offset(self, offset: int) -> Where:
        """Return the position of an offset in the text."""
        before = self._text[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        return self.line(line, column)

    def line(self, line: int, column: int) -> Where:
        """Return the position with this line and column, limited to the text."""
        return _placed(self._lines, self._file, line, column)

    def _start(self, path: TomlPath) -> int:
        return self._values.get(path, self._keys.get(path, 0))

    # -- scanning --------------------------------------------------------------------

    def _scan(self) -> None:
        prefix: TomlPath = ()
        while self._skip() < len(self._text):
            if self._text.startswith("[", self._at):
                prefix = self._header()
            else:
                self._pair(prefix)

    def _skip(self) -> int:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            self._at = len(self._text)
            return ""
        self._at = match.end()
        return match[0]

    def _header(self) -> TomlPath:
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        names, start = self._names()
        path: TomlPath = ()
        for name in names[:-1]:
            path = self._resolved((*path, name))
        path = (*path, *names[-1:])
        if array:
            self._tables[path] = self._tables.get(path, -1) + 1
            self._keys.setdefault(path, start)
        path = self._resolved(path)
        self._keys.setdefault(path, start)
        self._at += 2 if array else 1
        return path

    def _resolved(self, path: TomlPath) -> TomlPath:
        """Return a path with the current indices of the arrays of tables that it names."""
        return (*path, self._tables[path]) if path in self._tables else path

    def _names(self) -> tuple[list[str], int]:
        """Read a dotted key; return its parts and the offset of its start."""
        self._skip()
        start = self._at
        names = [self._name()]
        while self._skip() < len(self._text) and self._text[self._at] == ".":
            self._at += 1
            self._skip()
            names.append(self._name())
        return names, start

    def _name(self) -> str:
        quote = self._text[self._at : self._at + 1]
        if quote == '"':
            return self._take(_BASIC)[1:-1]
        if quote == "'":
            return self._take(_LITERAL)[1:-1]
        return self._take(_BARE_KEY)

    def _pair(self, prefix: TomlPath) -> None:
        names, start = self._names()
        path = prefix
        for name in names:
            path = (*path, name)
            self._keys.setdefault(path, start)
        self._at += 1
        self._skip()
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        self._values.setdefault(path, self._at)
        begin = self._text[self._at : self._at + 3]
        if begin == '"""':
            self._take(_LONG_BASIC)
        elif begin == "'''":
            self._take(_LONG_LITERAL)
        elif begin[:1] == '"':
            self._take(_BASIC)
        elif begin[:1] == "'":
            self._take(_LITERAL)
        elif begin[:1] in ("[", "{"):
            self._container(path, "]" if begin[0] == "[" else "}")
        else:
            self._take(_BARE_VALUE)

    def _container(self, path: TomlPath, end: str) -> None:
        self._at += 1
        index = 0
        while self._skip() < len(self._text) and self._text[self._at] != end:
            if self._text[self._at] == ",":
                self._at += 1
            elif end == "]":
                self._value((*path, index))
                index += 1
            else:
                self._pair(path)
        self._at += 1


def place_in(text: str, file: str, line: int, column: int) -> Where:
    """Return the position in a text with this line and column, limited to the text."""
    return _placed(physical_lines(text), file, line, column)


def _placed(lines: list[str], file: str, line: int, column: int) -> Where:
    line = max(1, min(line, len(lines)))
    text = lines[line - 1]
    return Where(file, line, max(1, min(column, len(text) + 1)), text)


# -- Decodes the text of a TOML file ---------------------------------------------------
#
# Purpose: suites and workloads are read, and mistakes reported, in the same way.
# Decision: a syntax error of TOML is reported alone, because the text after it is unreliable;
# mistakes in keys and values are collected (`read_toml`).

MAX_DEPTH = 100
"""Maximum nesting of tables and arrays; Python's recursion limit is reached soon after 300."""
_UNQUOTED = re.compile("Invalid value|Expected newline or end of document after")
_QUOTED = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*|'''
    r"""'''.*?'''|'[^'\n]*'|["']""",
    re.DOTALL,
)
"""Matches a string, a comment, or a quote without a partner."""
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


def decoded(text: str, file: str, code: str) -> tuple[dict[str, Any], Locator]:
    """Return a text's values and their positions. Raises InputError with this code."""
    try:
        values = tomllib.loads(text)
        if _is_deep(values):
            # tomllib itself reports brackets nested this deep, so the cause is a dotted key.
            dots = [line.count(".") for line in physical_lines(text)]
            where = place_in(text, file, dots.index(max(dots)) + 1, 1)
            where = msgspec.structs.replace(where, text=where.text[:80])
            message = f"tables are nested more than {MAX_DEPTH} deep"
            hint = "write fewer dots in a key"
            raise InputError([diagnostic(where, code, message, hint)])
        return values, Locator(text, file)
    except RecursionError:
        message, line, column = "arrays are nested too deeply", 1, 1
    except ValueError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        last = text.rstrip("\n").count("\n") + 1
        line = int(place[1]) if place and place[1] else last if place else 1
        column = int(place[2]) if place and place[2] else 10**6 if place else 1
    where, hint = place_in(text, file, line, column), "see https://toml.io"
    opened = _unclosed(text, file)
    if opened is not None and opened.line <= where.line:
        where, message = opened, "a quote is opened here and not closed"
    elif _UNQUOTED.match(message):
        hint = f"write a text in quotes; {hint}"
    raise InputError([diagnostic(where, code, message, hint)])


def _is_deep(values: dict[str, Any]) -> bool:
    """Return whether values are nested deeper than MAX_DEPTH."""
    layer: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in layer]
        layer = [x for one in inner for x in one if isinstance(x, (dict, list))]
    return bool(layer)


def _unclosed(text: str, file: str) -> Where | None:
    """Return the position of the first quote without a partner, or None.

    tomllib reports it lines later, at the next quote or at the end of the text.
    """
    for match in _QUOTED.finditer(text):
        if match[0] in ('"', "'"):
            before = text[: match.start()]
            column = match.start() - before.rfind("\n")
            return place_in(text, file, before.count("\n") + 1, column)
    return None


# -- Tables whose keys are read by type; all mistakes are collected --------------------

_WORDS = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "an array",
    dict: "a table",
}


class TomlSource(msgspec.Struct, frozen=True):
    """The text that tables come from, and the mistakes found in it so far."""

    locator: Locator
    kind: str
    """Kind of the file: `suite`, `workload` or `spec`; the first word of error codes."""
    mistakes: list[Diagnostic]
    known: Mapping[str, str] = {}
    """Names of placeholders, with a value of each."""
    written: Mapping[str, Any] | None = None
    """The top-level values before names in braces were replaced; None: none were."""
    later: Sequence[str] = ()
    """Names in braces that some readers know in addition, and replace later."""
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Texts of the files that the text names, by path, as far as they were read."""


def read_toml(
    text: str,
    file: str,
    kind: str,
    read: Callable[[TomlTable], T],
    beside: Iterable[tuple[str, str]] = (),
) -> T:
    """Return the result of `read` for a text's top-level table.

    `beside`: path and text of files that the text names, which are then not read from the disk.
    Raises InputError with all mistakes that `read` reported, in the order of the lines.
    """
    values, locator = decoded(text, file, f"{kind}-toml")
    source = TomlSource(locator, kind, [], files=dict(beside))
    result = read(TomlTable(values, (), source))
    if source.mistakes:
        mistakes = sorted(source.mistakes, key=lambda mistake: (mistake.line, mistake.column))
        raise InputError(list(dict.fromkeys(mistakes)))
    return result


class TomlTable:
    """A table; reads keys by type, and reports mistakes. `only` reports unknown keys."""

    def __init__(self, values: Mapping[str, Any], path: TomlPath, source: TomlSource) -> None:
        self.values = values
        self.path = path
        self._source = source

    def __contains__(self, key: str) -> bool:
        return key in self.values

    @property
    def kind(self) -> str:
        """Kind of the file: the first word of error codes."""
        return self._source.kind

    @property
    def known(self) -> Mapping[str, str]:
        """Names of placeholders in the table's texts, with a value of each."""
        return self._source.known

    def knowing(self, names: Mapping[str, str]) -> TomlTable:
        """Return the same table with further names of placeholders."""
        known = {**self.known, **names}
        source = msgspec.structs.replace(self._source, known=known)
        return TomlTable(self.values, self.path, source)

    def silent(self) -> TomlTable:
        """Return the same table, which discards mistakes; another reader reports them."""
        source = msgspec.structs.replace(self._source, mistakes=[])
        return TomlTable(self.values, self.path, source)

    def filled(self, values: Mapping[str, Scalar], later: Sequence[str] = ()) -> TomlTable:
        """Return the top-level table with these values for `{name}`, in every text of it.

        A text that is only `{name}` becomes the value itself, with its type. `later`: names that
        some readers replace later; a reader of texts with names reads `as_written`.
        """
        assert not self.path, "only a whole file is filled"
        source = msgspec.structs.replace(self._source, written=self.values, later=later)
        return TomlTable(_filled(self.values, values), (), source)

    @property
    def later(self) -> Sequence[str]:
        """Names in braces that some readers of a filled file replace later."""
        return self._source.later

    @property
    def as_written(self) -> TomlTable:
        """The same table with its names in braces."""
        values: Any = self._source.written
        if values is None:
            return self
        for key in self.path:
            values = values[key]
        source = msgspec.structs.replace(self._source, written=None)
        return TomlTable(values, self.path, source)

    @property
    def found(self) -> tuple[Diagnostic, ...]:
        """The mistakes found in the text so far."""
        return tuple(self._source.mistakes)

    def inner(self, values: dict[str, Any], *keys: str | int) -> TomlTable:
        """Return a table inside this one, with these values, at these keys."""
        return TomlTable(values, (*self.path, *keys), self._source)

    @property
    def is_sound(self) -> bool:
        """Whether no mistake was found in the text so far."""
        return not self._source.mistakes

    @property
    def files(self) -> dict[str, str]:
        """Texts of the files that the text names, by path; a reader of a file adds its text."""
        return self._source.files

    @property
    def mistakes(self) -> int:
        """Number of mistakes found in the text so far."""
        return len(self._source.mistakes)

    def at(self, *keys: str | int) -> Where:
        """Return the position of a key's value, or of an element of it."""
        return self._source.locator.value((*self.path, *keys))

    @property
    def where(self) -> Where:
        """Position of the table."""
        return self._source.locator.key(self.path)

    def inside(self, value: str, *keys: str | int) -> Callable[[int], Where]:
        """Return the function from a character of a string to its position."""
        path = (*self.path, *keys)
        return lambda offset: self._source.locator.inside(path, value, offset)

    # -- mistakes --------------------------------------------------------------------

    def note(self, mistake: Diagnostic) -> None:
        """Report a mistake that has its position."""
        self._source.mistakes.append(mistake)

    def wrong(self, where: Where, code: str, message: str, hint: str = "") -> None:
        """Report a mistake at a position."""
        self.note(diagnostic(where, code, message, hint))

    def faults(self, faults: Iterable[Fault], value: str, *keys: str | int) -> None:
        """Report mistakes that were found in the string at a key."""
        for f in faults:
            where = self._source.locator.inside((*self.path, *keys), value, f.offset)
            self.wrong(where, f.code, f.message, f.hint)

    def only(
        self,
        known: Sequence[str],
        elsewhere: Mapping[str, str] | None = None,
        unlisted: Collection[str] = (),
    ) -> None:
        """Report every key that is not among the known ones.

        `elsewhere`: the hints for keys that belong in another place; `unlisted`: keys that are
        known too, but that a hint does not suggest.
        """
        for key in self.values:
            if key not in known and key not in unlisted:
                hint = f"{suggestion(key, known)} known here: {', '.join(known)}".lstrip()
                hint = (elsewhere or {}).get(key, hint)
                where = self._source.locator.key((*self.path, key))
                self.wrong(where, f"{self.kind}-unknown-key", f"unknown key {key!r}", hint)

    def names(self, what: str) -> list[str]:
        """Return the keys that can name a variable; report the others."""
        good = []
        for key in self.values:
            if NAME.fullmatch(key):
                good.append(key)
            else:
                hint = "letters, digits and _, not beginning with a digit"
                where = self._source.locator.key((*self.path, key))
                self.wrong(where, f"{self.kind}-name", f"{key!r} cannot name {what}", hint)
        return good

    # -- values by type --------------------------------------------------------------

    def has(self, key: str, *types: type) -> bool:
        """Return whether a key is there with one of the types; report another type."""
        if key not in self.values:
            return False
        value = self.values[key]
        if type(value) in types:
            return True
        self.mistyped(self.at(key), key, value, types)
        return False

    def mistyped(self, where: Where, what: str, value: object, types: Sequence[type]) -> None:
        """Report that a value has the wrong type."""
        expected = " or ".join(_WORDS[t] for t in types)
        given = _WORDS.get(type(value), "a date or time")
        self.wrong(where, f"{self.kind}-type", f"{what} is {given}, expected {expected}")

    def text(self, key: str) -> str | None:
        """Return a string, None if it is absent or wrong."""
        if key not in self.values:
            return None
        text = self._as_text(key)
        if text is None:
            self.mistyped(self.at(key), key, self.values[key], (str,))
        return text

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean; `default` if it is absent or wrong."""
        return bool(self.values[key]) if self.has(key, bool) else default

    def whole(self, key: str, least: int, most: int = 10**9) -> int | None:
        """Return an integer between bounds, None if it is absent or wrong."""
        if not self.has(key, int):
            return None
        number = int(self.values[key])
        if least <= number <= most:
            return number
        message = f"{key} is out of range"
        self.wrong(self.at(key), f"{self.kind}-range", message, f"from {least} to {most}")
        return None

    def texts(self, key: str) -> list[str]:
        """Return the strings of an array, or a single string in a list."""
        if not self.has(key, str, list):
            return []
        value = self.values[key]
        if isinstance(value, str):
            return [value]
        found = []
        for index, one in enumerate(value):
            text = self._as_text(key, index)
            if text is None:
                self.mistyped(self.at(key, index), f"an element of {key}", one, (str,))
            else:
                found.append(text)
        return found

    def _as_text(self, *keys: Any) -> str | None:
        """Return the string at these keys, or the value that replaced it as a text; None for
        another value."""
        value, written = self.values, self.as_written.values
        for key in keys:
            value, written = value[key], written[key]
        if not isinstance(written, str):
            return None
        if self._source.written is not None:
            known = (*self.known, *self._source.later)
            for f in misspelt(written, known):
                where = self.inside(written, *keys)(f.offset)
                self.wrong(where, f"{self.kind}-unknown-name", f.message, f.hint)
        return self.scalar(value)

    def levels(self, key: str) -> list[str] | None:
        """Return an array of strings and numbers, or the range in a string, as texts; None if it is
        wrong."""
        value = self.values.get(key)
        is_range = isinstance(value, str) and ".." in value
        if not is_range and not self.has(key, list):
            return None
        texts = []
        for index, one in enumerate([value] if is_range else self.values[key]):
            text = self.scalar(one)
            where = self.at(key) if is_range else self.at(key, index)
            if text is None:
                self.mistyped(where, f"a level of {key}", one, (str, int))
            else:
                for level in self._expanded(text, where):
                    if level in texts:
                        message = f"{level!r} is given twice"
                        self.wrong(where, f"{self.kind}-range", message)
                    texts.append(level)
        if not texts:
            self.wrong(self.at(key), f"{self.kind}-range", f"{key} has no levels")
        return texts

    def _expanded(self, text: str, where: Where) -> tuple[str, ...]:
        """Return a level, or the levels of a range; report a mistake."""
        try:
            return expanded(text)
        except ValueError as error:
            self.wrong(where, f"{self.kind}-range", str(error), HINT)
            return (text,)

    def read(self, key: str, parse: Callable[[str], T]) -> T | None:
        """Return the value that `parse` returns for a scalar; None if it is absent or wrong."""
        if key not in self.values:
            return None
        return self.scalar_of(self.values[key], parse, key)

    def scalar_of(self, value: object, parse: Callable[[str], T], *keys: str | int) -> T | None:
        """Return the value that `parse` returns for the scalar at these keys; None if it is wrong."""
        text = self.scalar(value)
        where = self.at(*keys)
        if text is None:
            self.mistyped(where, str(keys[0]), value, (str, int, float))
            return None
        try:
            return parse(text)
        except WrongText as error:
            self.faults([error.fault], text, *keys)
        except ValueError as error:
            self.refuse(where, f"{keys[0]}: {error}", self.unknown_name(text))
        return None

    def unknown_name(self, text: str) -> str:
        """Return the hint about a name in braces that was not replaced; empty without one."""
        names = [match[1] for match in NAME_IN_BRACES.finditer(text)]
        if self._source.written is None or not names:
            return ""
        if names[0] in self.known:
            return f"{{{names[0]}}} has no value here: only texts and commands have it"
        if names[0] in self.later:
            return set_by_trial(names[0])
        known = [f"{{{name}}}" for name in self.known]
        return f"there is no factor {names[0]!r}: {one_of_words(f'{{{names[0]}}}', known)}"

    def refuse(self, where: Where, message: str, hint: str = "") -> None:
        """Report an invalid value."""
        code = "suite-range" if self.kind == "suite" else f"{self.kind}-value"
        self.wrong(where, code, message, hint)

    def need(self, *keys: str, hint: str = "") -> bool:
        """Return whether all keys are given; report missing ones."""
        absent = [key for key in keys if key not in self]
        for key in absent:
            # only() suggests other keys, but is not called for a table without its type.
            near = near_words(self.values, key) if key == "type" else ""
            message = f"{key} is missing here"
            self.wrong(self.where, f"{self.kind}-missing", message, near or hint)
        return not absent

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        """Return one of several words."""
        return self.read(key, lambda text: one_of(text, choices, key))

    @staticmethod
    def scalar(value: object) -> str | None:
        """Return a string, number or boolean as a text, None for anything else."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            try:
                return str(value)
            except ValueError:
                return None
        return value if isinstance(value, str) else None

    def table(self, key: str) -> TomlTable | None:
        """Return a table inside this one, None if it is absent or wrong."""
        return self.inner(self.values[key], key) if self.has(key, dict) else None

    def tables(self, key: str) -> list[TomlTable]:
        """Return an array of tables."""
        if not self.has(key, list):
            return []
        tables = []
        for index, one in enumerate(self.values[key]):
            if isinstance(one, dict):
                tables.append(self.inner(one, key, index))
            else:
                self.mistyped(self.at(key, index), f"an element of {key}", one, (dict,))
        return tables


def _filled(value: Any, names: Mapping[str, Scalar]) -> Any:
    """Return a value in which `{name}` is replaced in every text."""
    if isinstance(value, dict):
        return {key: _filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, names) for one in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    template = brace_template(value, lambda _: _NOWHERE, tuple(names))
    parts = [p if isinstance(p, str) else names[p.name] for p in template.parts]
    if len(parts) == 1:
        return parts[0]
    return "".join(str(TomlTable.scalar(part)) for part in parts)


_NOWHERE = Where("")


def set_by_trial(name: str) -> str:
    """Return the hint about a name in braces that only the texts of generators may hold."""
    return (
        f"{{{name}}} is set for each trial, and only the texts of a generator other than our "
        "engine hold it: write a value, or a factor of [factors]"
    )


def near_words(written: Iterable[str], key: str) -> str:
    """Return a hint if a similar key was given instead of a missing one, else an empty text."""
    near = similar(key, written, 0.7)
    return f"{near} is here: did you mean {key}?" if near else ""


def one_of_words(word: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown word; it lists at most 20 of the known ones."""
    words = list(known)
    return f"{suggestion(word, words)} one of {some_text(words, 20)}".lstrip()
