"""Lines of `.ap` files: logical lines that remember where each character stands.

A physical line that ends with a backslash goes on in the next one, as in a shell: the
backslash and the line's end are dropped and nothing is put in their place. A comment
begins where a shell's does: with a `#` at the beginning of a word, outside quotes and not
after a backslash. It ends with its physical line and does not go on. A quote that is not
closed is an apostrophe. Source: Auto-pilot's manual, "Auto-pilot Configurations".
"""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from benchwright.suite.program import Where

_COMMENT = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?P<comment>(?<!\S)#)""")


class Piece(msgspec.Struct, frozen=True):
    """The part of a logical line that one physical line contributed."""

    start: int
    """Offset in the logical line."""
    line: int
    column: int
    """1-based column of the part's first character."""
    text: str
    """The whole physical line."""


class Line(msgspec.Struct, frozen=True):
    """A logical line without the white space around it."""

    text: str
    file: str
    pieces: tuple[Piece, ...]

    def place(self, offset: int) -> Where:
        """Return where a character stands; past the end: just after the last one."""
        offset = max(0, min(offset, len(self.text)))
        starts = [piece.start for piece in self.pieces]
        piece = self.pieces[max(0, bisect_right(starts, offset) - 1)]
        column = piece.column + offset - piece.start
        return Where(
            self.file, piece.line, min(column, len(piece.text) + 1), piece.text
        )

    def placed_from(self, start: int) -> _Shifted:
        """Return `place` for a part of the line that begins at `start`."""
        return _Shifted(self, start)


class _Shifted:
    """Callable: the place of an offset within a part of a line."""

    def __init__(self, line: Line, start: int) -> None:
        self._line = line
        self._start = start

    def __call__(self, offset: int) -> Where:
        return self._line.place(self._start + offset)


def physical_lines(text: str) -> list[str]:
    """Return the lines of a file without their ends (LF or CR LF)."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def logical_lines(text: str, file: str) -> list[Line]:
    """Return the lines that say something: no blank lines, no comments."""
    lines: list[Line] = []
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
    """Return the offset of a line's comment, None where it has none."""
    for match in _COMMENT.finditer(text):
        if match["comment"]:
            return match.start()
    return None


def _joined(parts: list[str], number: int, file: str) -> Line:
    indent = len(parts[0]) - len(parts[0].lstrip())
    pieces: list[Piece] = []
    built = ""
    for index, part in enumerate(parts):
        skipped = indent if index == 0 else 0
        pieces.append(Piece(len(built), number + index, skipped + 1, part))
        built += part[skipped:].removesuffix("\\")
    return Line(built.rstrip(), file, tuple(pieces))
