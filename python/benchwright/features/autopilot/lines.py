"""Logical lines of `.ap` files, and the files that they include."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.inputs.mistakes import (
    LIBRARY,
    SourceFile,
    SourceReader,
    Unreadable,
    Where,
    diagnostic,
    main_text,
    physical_lines,
    read_text,
)

# -- Lines of `.ap` files: logical lines with the position of each character -----------
#
# A physical line that ends with a backslash continues on the next line, as in a shell: the
# backslash and the line end are removed. A comment starts as in a shell: with a `#` at the
# beginning of a word, outside quotes and not after a backslash. It ends with its physical
# line, even after a backslash. A quote without a partner is an apostrophe.
# Source: Auto-pilot's manual, "Auto-pilot Configurations".

_COMMENT = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?P<comment>(?<!\S)#)""")


class Piece(msgspec.Struct, frozen=True):
    """The part of a logical line that comes from one physical line."""

    start: int
    """Offset in the logical line."""
    line: int
    column: int
    """1-based column of the part's first character."""
    text: str
    """The whole physical line."""


class SourceLine(msgspec.Struct, frozen=True):
    """A logical line without leading and trailing white space."""

    text: str
    file: str
    pieces: tuple[Piece, ...]

    def place(self, offset: int) -> Where:
        """Return the position of a character; past the end: just after the last one."""
        offset = max(0, min(offset, len(self.text)))
        starts = [piece.start for piece in self.pieces]
        piece = self.pieces[max(0, bisect_right(starts, offset) - 1)]
        column = piece.column + offset - piece.start
        return Where(self.file, piece.line, min(column, len(piece.text) + 1), piece.text)


def logical_lines(text: str, file: str) -> list[SourceLine]:
    """Return the logical lines without blank lines and comments."""
    lines: list[SourceLine] = []
    physical = physical_lines(text)
    at = 0
    while at < len(physical):
        first = physical[at]
        if not first.strip() or first.lstrip().startswith("#"):
            at += 1
            continue
        end = at
        while physical[end].endswith("\\") and end + 1 < len(physical):
            end += 1
        line = _joined(physical[at : end + 1], at + 1, file)
        if (comment := _comment(line.text)) is not None:
            last = line.place(comment).line
            line = msgspec.structs.replace(line, text=line.text[:comment].rstrip())
            end = last - 1
        if line.text:
            lines.append(line)
        at = end + 1
    return lines


def _comment(text: str) -> int | None:
    """Return the offset of a line's comment, None if it has none."""
    for match in _COMMENT.finditer(text):
        if match["comment"]:
            return match.start()
    return None


def _joined(parts: list[str], number: int, file: str) -> SourceLine:
    indent = len(parts[0]) - len(parts[0].lstrip())
    pieces: list[Piece] = []
    built = ""
    for index, part in enumerate(parts):
        skipped = indent if index == 0 else 0
        pieces.append(Piece(len(built), number + index, skipped + 1, part))
        built += part[skipped:].removesuffix("\\")
    return SourceLine(built.rstrip(), file, tuple(pieces))


# -- INCLUDE, OPTINCLUDE and INCLUDEPATH: one stream of lines from several files -------
#
# As in Auto-pilot, files are included before any other step, so the arguments cannot contain
# variables. A file is searched in the INCLUDEPATH directories, in the directory of the file
# that includes it, then in the shipped library. A relative INCLUDEPATH is relative to the file
# that contains it, so that a suite runs from any directory.

MAX_DEPTH = 50
MAX_LINES = 200_000
_KEYWORDS = ("INCLUDE", "OPTINCLUDE", "INCLUDEPATH")


class Includer:
    """Reads a suite with its included files; collects lines, sources and mistakes."""

    def __init__(self, read: SourceReader) -> None:
        self._read = read
        self._paths: list[str] = []
        self._open: list[str] = []
        self._count = 0
        self.lines: list[SourceLine] = []
        self.sources: dict[str, str] = {}
        self.diagnostics: list[Diagnostic] = []

    def main(self, path: str) -> None:
        """Read the main file and all included files."""
        try:
            self._file(path, main_text(path, self._read))
        except InputError as error:
            self.diagnostics += error.diagnostics

    def source_files(self) -> tuple[SourceFile, ...]:
        """Return every file read, the main one first."""
        return tuple(SourceFile(path, text) for path, text in self.sources.items())

    def _wrong(self, where: Where, code: str, message: str, hint: str = "") -> None:
        self.diagnostics.append(diagnostic(where, code, message, hint))

    def _file(self, path: str, text: str) -> None:
        self.sources[path] = text
        self._open.append(path)
        for line in logical_lines(text, path):
            self._count += 1
            keyword = line.text.split(None, 1)[0]
            if self._count > MAX_LINES:
                self._too_many(line)
                break
            if keyword in _KEYWORDS:
                self._directive(keyword, line)
            else:
                self.lines.append(line)
        self._open.pop()

    def _too_many(self, line: SourceLine) -> None:
        if self._count == MAX_LINES + 1:
            message = f"the suite has more than {MAX_LINES} lines"
            hint = "do its files include each other again and again?"
            self._wrong(line.place(0), "suite-too-long", message, hint)

    def _directive(self, keyword: str, line: SourceLine) -> None:
        words = line.text.split()
        if len(words) != 2:
            expected = "a directory" if keyword == "INCLUDEPATH" else "one file name"
            where = line.place(
                line.text.find(words[2], len(keyword)) if words[2:] else len(line.text)
            )
            message = f"{keyword} takes {expected}"
            self._wrong(where, "suite-arguments", message, f"write {keyword} NAME")
            return
        where = line.place(line.text.rindex(words[1]))
        if keyword == "INCLUDEPATH":
            here = posixpath.dirname(line.file)
            self._paths += [_join(here, p) for p in words[1].split(":") if p]
        elif len(self._open) >= MAX_DEPTH:
            message = f"includes are nested more than {MAX_DEPTH} deep"
            self._wrong(where, "suite-include-depth", message)
        else:
            self._include(words[1], line.file, where, optional=keyword == "OPTINCLUDE")

    def _include(self, name: str, current: str, where: Where, *, optional: bool) -> None:
        tried = []
        for candidate in self._candidates(name, current):
            try:
                text = self.sources.get(candidate)
                text = read_text(candidate, self._read) if text is None else text
            except Unreadable as error:
                self._wrong(error.where or where, "suite-unreadable", error.message)
                return
            if text is not None:
                self._found(candidate, text, where)
                return
            tried.append(candidate)
        if not optional:
            hint = "looked for " + ", ".join(tried)
            self._wrong(where, "suite-not-found", f"there is no file {name}", hint)

    def _found(self, path: str, text: str, where: Where) -> None:
        if path in self._open:
            chain = " -> ".join([*self._open[self._open.index(path) :], path])
            message = f"{path} includes itself"
            self._wrong(where, "suite-include-loop", message, chain)
        else:
            self._file(path, text)

    def _candidates(self, name: str, current: str) -> list[str]:
        places = [*self._paths, posixpath.dirname(current)]
        found = [_join(place, name) for place in places]
        if not posixpath.isabs(name):
            found.append(LIBRARY + posixpath.normpath(name))
        return list(dict.fromkeys(found))


def _join(directory: str, name: str) -> str:
    joined = posixpath.normpath(posixpath.join(directory, name))
    return posixpath.join(directory, name) if joined == "." else joined
