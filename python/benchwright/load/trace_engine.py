"""The engine asked about traces: one request, one answer as types and as it came.

Decision: as in `result.py`, types are checked strictly and the document is kept whole.
A capture that records a command begins it when the engine says that it is ready, and ends
the recording when the command has ended. Source: docs/engine-protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from benchwright.load.engine import Conversation, conversation
from benchwright.load.result import EngineFault, error_of, foreign
from benchwright.load.trace_request import CaptureRequest

T = TypeVar("T")


class TraceAnswer(msgspec.Struct, Generic[T], frozen=True):
    """An answer as a type, and as the engine wrote it."""

    result: T
    document: dict[str, Any]
    """Without the protocol's own `type` and `schema`."""
    interrupted: bool = False


def ask(request: msgspec.Struct, kind: type[T]) -> TraceAnswer[T]:
    """Return the engine's answer to a request, which is of a `kind`.

    Raises InputError (with path, line and column) or BenchError, as the engine says.
    """
    with conversation(request) as engine:
        return _answer(engine, kind, lambda: None)


def capture(
    request: CaptureRequest, kind: type[T], during: Callable[[], None] | None
) -> TraceAnswer[T]:
    """Return what was recorded; `during` is called once events flow, and its end ends it.

    Without `during` the recording ends when its time is over, or by an interrupt.
    """
    with conversation(request) as engine:

        def ready() -> None:
            if during is not None:
                during()
                engine.end()

        return _answer(engine, kind, ready)


def _answer(
    engine: Conversation, kind: type[T], ready: Callable[[], None]
) -> TraceAnswer[T]:
    for line in engine.lines():
        said = _decoded(line)
        match said.pop("type", None):
            case "ready":
                ready()
            case "progress":
                pass
            case "error":
                raise error_of(_converted(line, said, EngineFault))
            case "result":
                said.pop("schema", None)
                result = _converted(line, said, kind)
                return TraceAnswer(result, said, engine.interrupted)
            case _:
                raise foreign(line, "it has no type that we know")
    raise engine.died()


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise foreign(line, str(error)) from None


def _converted(line: bytes, said: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(said, kind)
    except msgspec.MsgspecError as error:
        raise foreign(line, str(error)) from None
