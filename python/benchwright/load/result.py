"""The engine's lines, decoded: progress, then a result or an error.

Decision: types are checked strictly, because a number of the wrong kind would be a wrong
report; the whole result is kept as it came too, for `--json`. Source:
docs/engine-protocol.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.load.places import NOWHERE, Places, place_of
from benchwright.model.errors import BenchError, Diagnostic, InputError, OperatingError
from benchwright.model.load import LoadProgress, LoadResult
from benchwright.suite.fault import diagnostic

SCHEMA = "load/1"


class Answer(msgspec.Struct, frozen=True):
    """What a run yielded: as types, and as the engine wrote it."""

    result: LoadResult
    document: dict[str, Any]


class Wrong(msgspec.Struct, frozen=True):
    """One of several things that are wrong with a request."""

    field: str
    message: str


class EngineFault(msgspec.Struct, frozen=True):
    """An error as the engine tells it."""

    status: int
    code: str
    message: str
    remedy: str = ""
    path: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None
    problems: tuple[Wrong, ...] = ()


def decode_line(line: bytes) -> LoadProgress | Answer | EngineFault:
    """Return what a line says. Raises BenchError `engine-protocol`."""
    try:
        document = msgspec.json.decode(line)
        kind = document.get("type") if isinstance(document, dict) else None
        match kind:
            case "progress":
                return msgspec.convert(document, LoadProgress)
            case "result":
                return _answer(document)
            case "error":
                return msgspec.convert(document, EngineFault)
    except msgspec.MsgspecError as error:
        raise foreign(line, str(error)) from None
    raise foreign(line, "it has no type that we know")


def _answer(document: dict[str, Any]) -> Answer:
    result = msgspec.convert(document, LoadResult)
    if result.schema != SCHEMA:
        raise msgspec.ValidationError(f"its schema is {result.schema}, not {SCHEMA}")
    if "all" not in result.kinds:
        raise msgspec.ValidationError("its kinds have no `all`")
    return Answer(result, document)


def foreign(line: bytes, why: str) -> BenchError:
    """Return the error of a line that is none of the protocol's."""
    shown = line[:80].decode(errors="replace").strip()
    return BenchError(
        "engine-protocol",
        f"the engine said what is no line of its protocol: {why}: {shown}",
        "the engine and this program are not of one version: run `make setup`",
    )


def error_of(fault: EngineFault, places: Places = NOWHERE) -> OperatingError:
    """Return an engine's error as one of ours, with its place where it has one."""
    said = _said(fault, places)
    if said:
        error: OperatingError = InputError(said)
    elif fault.path is not None:
        place = Diagnostic(
            code=fault.code,
            message=fault.message,
            hint=fault.remedy,
            file=fault.path,
            line=fault.line or 1,
            column=fault.column or 1,
        )
        error = InputError([place])
    else:
        error = BenchError(fault.code, fault.message, fault.remedy)
    error.exit_status = 1 if fault.status == 1 else 2
    return error


def _said(fault: EngineFault, places: Places) -> list[Diagnostic]:
    """Return what is wrong where the user said it; nothing unless all of it has a place."""
    problems = fault.problems
    if not problems and fault.field is not None:
        problems = (Wrong(fault.field, fault.message),)
    found = []
    for one in problems:
        where = place_of(places, one.field, one.message)
        if where is None:
            return []
        message = one.message.replace(*_words(one.field))
        found.append(diagnostic(where, fault.code, message, fault.remedy))
    return found


def _words(field: str) -> tuple[str, str]:
    """Return how the engine calls a field, and its last word, which is enough at its place."""
    return field.removeprefix("workload."), field.rpartition(".")[2]
