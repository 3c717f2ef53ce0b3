"""One option's text, parsed; a mistake is noted so that all are told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from benchwright.model.errors import Diagnostic

T = TypeVar("T")


def checked(
    option: str,
    text: str | None,
    parse: Callable[[str], T],
    default: T,
    wrong: list[Diagnostic],
) -> T:
    """Return what an option's text means; `default` where nothing was said, or where
    `parse` raised ValueError, whose words are then in `wrong`."""
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        wrong.append(Diagnostic("bad-argument", str(error), file=option, text=text))
        return default
