"""The values of `--draw NAME=WHAT`: `uniform:LOW..HIGH`, `choice:A,B,C`, or the lines of a file, `@FILE`."""

from __future__ import annotations

import re

from benchwright.core.draws import DrawnInput
from benchwright.inputs.mistakes import SourceReader, Unreadable, read_regular, read_text

DRAW_HINT = "write n=uniform:1..1000, q=choice:a,b,c, or file=@list.txt"
_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def parse_draw(text: str, read: SourceReader = read_regular) -> DrawnInput:
    """Return the input that a word declares; `read` reads the file that it names. Raises ValueError;
    also for a file that cannot be read."""
    name, equals, what = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} does not name an input")
    kind, _, rest = what.partition(":")
    if what.startswith("@"):
        return DrawnInput(name, _several(name, _lines(what[1:], read)))
    if kind == "choice":
        return DrawnInput(name, _several(name, tuple(rest.split(","))))
    if kind == "uniform" and (found := _RANGE.fullmatch(rest)):
        low, high = int(found[1]), int(found[2])
        if low >= high:
            raise ValueError(f"{rest} contains no two numbers")
        return DrawnInput(name, low=low, high=high)
    raise ValueError(f"{what!r} is nothing to draw from")


def _several(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    if "" in texts:
        raise ValueError(f"a value of {name} is empty")
    if len(set(texts)) < 2:
        raise ValueError(f"{name} has only one value")
    return texts


def _lines(path: str, read: SourceReader) -> tuple[str, ...]:
    try:
        text = read_text(path, read)
    except Unreadable as error:
        raise ValueError(error.message) from None
    if text is None:
        raise ValueError(f"there is no file {path}")
    return tuple(line for line in text.splitlines() if line.strip())
