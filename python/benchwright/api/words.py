"""Keyword arguments of the Python API as words of the command line, by the options' declarations.

Decision: the declarations of the command are the list of keywords, so an option that a command gets
is a keyword too. Rejected: one Python signature for each command, which is a second list of
options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache

from benchwright.core.errors import Diagnostic, InputError, suggestion
from benchwright.inputs.options import Option, declared_in

Value = (
    str
    | int
    | float
    | bool
    | timedelta
    | os.PathLike[str]
    | Sequence[object]
    | Mapping[str, object]
    | None
)
"""What a keyword argument may be."""
_ELSEWHERE = {
    "json": "the result is the document",
    "quiet": "write progress=True to see the progress",
    "verbose": "the result has each finding with its evidence and remedy",
    "live": "run bw live STUDY in a terminal",
    "check": "it runs nothing: run bw in a terminal",
    "plan": "it runs nothing: run bw in a terminal",
}
"""Options that are no keywords, and what to do instead."""


@cache
def keywords_of(command: str) -> Mapping[str, Option]:
    """Return the options of a command by keyword: the name of the field, and that of the flag."""
    from benchwright.cli.main import parser

    found: dict[str, Option] = {}
    for option in declared_in(parser((command,), listed=False).of([command])):
        if option.name in _ELSEWHERE or option.prints:
            continue
        found[option.name] = option
        if not option.positional:
            found.setdefault(option.flag.lstrip("-").replace("-", "_"), option)
    return found


def option_words(command: str, options: Mapping[str, Value]) -> list[str]:
    """Return the words of the options, then those of arguments without a flag.

    Raises InputError with all mistakes: unknown keywords, values of a type that the option has not.
    """
    known = keywords_of(command)
    wrong: list[Diagnostic] = []
    flags: list[str] = []
    arguments: list[str] = []
    for keyword, value in options.items():
        option = known.get(keyword)
        if option is None:
            wrong.append(_unknown(command, keyword, known))
            continue
        try:
            words = _words(option, value)
        except ValueError as error:
            wrong.append(Diagnostic("bad-argument", str(error), option.hint, file=keyword))
            continue
        (arguments if option.positional else flags).extend(words)
    if wrong:
        raise InputError(wrong)
    return flags + arguments


def _unknown(command: str, keyword: str, known: Mapping[str, Option]) -> Diagnostic:
    hint = _ELSEWHERE.get(keyword, "")
    if not hint:
        hint = suggestion(keyword, known) or f"`bw help {command}` lists them"
    message = f"benchwright.{command} has no argument {keyword!r}"
    return Diagnostic("bad-argument", message, hint, file=keyword)


def _words(option: Option, value: Value) -> list[str]:
    """Return the words of one option. Raises ValueError for a value of a wrong type."""
    if value is None or value is False:
        return []
    if option.kind == "flag":
        if value is not True:
            raise ValueError(f"{option.name} must be True or False, not {value!r}")
        return [option.flag]
    if value is True:
        if option.bare:
            return [option.flag]
        raise ValueError(f"{option.name} needs a value, not True")
    texts = _texts(option, value)
    if option.positional:
        return texts
    if option.flag.startswith("--"):
        return [f"{option.flag}={text}" for text in texts]
    return [word for text in texts for word in (option.flag, text)]


def _texts(option: Option, value: Value) -> list[str]:
    """Return the texts of a value: several only for an option that can be repeated."""
    if isinstance(value, Mapping):
        if option.kind != "list":
            raise ValueError(f"{option.name} must be one value, not {value!r}")
        return [f"{name}={_levels(one)}" for name, one in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if option.kind == "list":
            return [text_of(one) for one in value]
        # --threads 1,2,4: one text with commas.
        return [_levels(value)]
    return [text_of(value)]


def _levels(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(text_of, value))
    return text_of(value)


def text_of(value: object) -> str:
    """Return a value as the command line has it; a timedelta in seconds.

    Raises ValueError for other types and for text with a NUL.
    """
    if isinstance(value, timedelta):
        microseconds = value // timedelta(microseconds=1)
        return f"{microseconds}us"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} must be text or a number")
    text = str(value)
    if "\0" in text:
        raise ValueError(f"{text!r} contains a NUL character")
    return text
