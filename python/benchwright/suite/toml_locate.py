"""Finds the line and column of every key and value of a TOML text.

tomllib gives values without places, and a diagnostic needs one. Decision: a scanner over
text that tomllib has accepted, so that it need not check anything; what lost was tomlkit,
a dependency of 30 times the size. Source: the TOML 1.0.0 specification.
"""

from __future__ import annotations

import re

from benchwright.suite.program import Where
from benchwright.suite.source import physical_lines

Path = tuple[str | int, ...]
"""Keys, and indices of arrays, from the top."""

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]*")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"""(?!"(?!""))"{0,2}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?!'(?!''))'{0,2}", re.DOTALL)


class Locator:
    """Places of one text; the text has been accepted by tomllib."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._lines = physical_lines(self._text)
        self._file = file
        self._at = 0
        self._keys: dict[Path, int] = {}
        self._values: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}
        self._scan()

    def key(self, path: Path) -> Where:
        """Return where a key stands; for an element of an array, the element."""
        return self.offset(self._keys.get(path, self._values.get(path, 0)))

    def value(self, path: Path) -> Where:
        """Return where a value begins."""
        return self.offset(self._start(path))

    def inside(self, path: Path, value: str, offset: int) -> Where:
        """Return where a character of a string's value stands.

        Where the string has escapes before it, the string's beginning.
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
        """Return the place of an offset of the text."""
        before = self._text[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        return self.line(line, column)

    def line(self, line: int, column: int) -> Where:
        """Return a place by its numbers, kept within the text."""
        return _placed(self._lines, self._file, line, column)

    def _start(self, path: Path) -> int:
        return self._values.get(path, self._keys.get(path, 0))

    # -- scanning --------------------------------------------------------------------

    def _scan(self) -> None:
        prefix: Path = ()
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

    def _header(self) -> Path:
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        names, start = self._names()
        path: Path = ()
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

    def _resolved(self, path: Path) -> Path:
        """Return a path with the index of the array of tables that it names."""
        return (*path, self._tables[path]) if path in self._tables else path

    def _names(self) -> tuple[list[str], int]:
        """Read a dotted key; return its parts and where it begins."""
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

    def _pair(self, prefix: Path) -> None:
        names, start = self._names()
        path = prefix
        for name in names:
            path = (*path, name)
            self._keys.setdefault(path, start)
        self._at += 1
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
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

    def _container(self, path: Path, end: str) -> None:
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
    """Return a place of a text by its numbers, kept within the text."""
    return _placed(physical_lines(text), file, line, column)


def _placed(lines: list[str], file: str, line: int, column: int) -> Where:
    line = max(1, min(line, len(lines)))
    text = lines[line - 1]
    return Where(file, line, max(1, min(column, len(text) + 1)), text)
