"""Reading what `bw stats` is given, through whichever parser recognises it.

Parsers are plug-ins of the entry-point group `benchwright.parsers`; those that we ship
are also known by name, so that an uninstalled checkout reads the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT
from importlib import import_module
from importlib.metadata import entry_points
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.model.errors import Diagnostic, InputError, OperatingError

if TYPE_CHECKING:
    from benchwright.study.parsers.api import ParsedInput, Parser

GROUP = "benchwright.parsers"
SHIPPED = ("study", "res", "csv", "gnu_time")
_HEAD_BYTES = 4096


def parsers() -> list[Parser]:
    """Return the parsers, ours first, then plug-ins by name.

    A plug-in under one of our names replaces ours. A plug-in that cannot be loaded is
    an InputError that names it, not a file that nobody recognises.
    """
    found: dict[str, Parser] = {}
    for name in SHIPPED:
        module = f"benchwright.study.parsers.{name}"
        try:
            found[name] = import_module(module).PARSER
        except ModuleNotFoundError as error:
            # Only the absence of the parser itself is no error.
            if error.name is None or not module.startswith(error.name):
                raise
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.value.startswith("benchwright.study.parsers.") and point.name in found:
            continue
        try:
            found[point.name] = point.load()
        except Exception as error:
            message = f"parser {point.value} cannot be loaded: {error}"
            raise InputError(
                [Diagnostic("bad-parser", message, file=point.name)]
            ) from error
    return list(found.values())


def read_inputs(paths: Sequence[str]) -> list[ParsedInput]:
    """Return the inputs of all paths, in order. Raises InputError with every path that
    cannot be read or that no parser recognises."""
    known = parsers()
    inputs: list[ParsedInput] = []
    wrong: list[Diagnostic] = []
    for text in paths:
        try:
            inputs.extend(_read(text, known))
        except InputError as error:
            wrong.extend(error.diagnostics)
        except OSError as error:
            message = error.strerror or str(error)
            wrong.append(Diagnostic("unreadable-input", message, file=text))
    if wrong:
        raise InputError(wrong)
    return _distinct(inputs)


def _read(text: str, known: Sequence[Parser]) -> list[ParsedInput]:
    path = Path(text)
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    for parser in known:
        if parser.detect(path, head):
            try:
                return parser.read(path)
            except (OperatingError, OSError):
                raise
            except ValueError as error:
                raise _unreadable(text, f"{parser.name}: {error}") from error
    if not path.exists():
        raise FileNotFoundError(ENOENT, strerror(ENOENT), text)
    names = ", ".join(parser.name for parser in known)
    raise _unreadable(text, f"no parser recognises this input (tried: {names})")


def _unreadable(file: str, message: str) -> InputError:
    hint = "bw stats reads studies, .res files, CSV with a header line, and GNU time output"
    return InputError([Diagnostic("unreadable-input", message, hint, file=file)])


def _distinct(inputs: list[ParsedInput]) -> list[ParsedInput]:
    """Return the inputs with names that differ, so that a report can tell them apart."""
    seen: dict[str, int] = {}
    result = []
    for one in inputs:
        seen[one.name] = seen.get(one.name, 0) + 1
        again = seen[one.name]
        name = one.name if again == 1 else f"{one.name}#{again}"
        result.append(msgspec.structs.replace(one, name=name))
    return result


def selected(inputs: list[ParsedInput], command: str | None) -> list[ParsedInput]:
    """Return the inputs with only the blocks of one command, given as its whole text,
    its first word, or that word's last path component. Raises InputError when no block
    of any input is of that command."""
    if command is None:
        return inputs
    chosen = [
        msgspec.structs.replace(
            one,
            blocks=tuple(b for b in one.blocks if _is_command(b.command, command)),
            trials=None,
        )
        for one in inputs
    ]
    if not any(one.blocks for one in chosen):
        names = sorted({b.command for one in inputs for b in one.blocks})
        hint = "commands there: " + ", ".join(names[:10]) if names else ""
        raise InputError(
            [
                Diagnostic(
                    "bad-argument",
                    f"no block is of command {command!r}",
                    hint,
                    file="--command",
                    text=command,
                )
            ]
        )
    return chosen


def _is_command(text: str, wanted: str) -> bool:
    first = (text.split() or [""])[0]
    return wanted in (text, first, first.rsplit("/", 1)[-1])
