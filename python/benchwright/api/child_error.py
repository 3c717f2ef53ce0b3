"""An operating error as it passes from the child process to the parent."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.core.errors import BenchError, Diagnostic, InputError, OperatingError, StudyError


class _ErrorRecord(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["input", "study", "bench"]
    code: str = ""
    message: str = ""
    hint: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def encode_error(error: OperatingError) -> bytes:
    """Return an error as JSON."""
    if isinstance(error, InputError):
        record = _ErrorRecord(kind="input", diagnostics=error.diagnostics)
    else:
        record = _ErrorRecord(
            kind="study" if isinstance(error, StudyError) else "bench",
            code=error.code,
            message=getattr(error, "message", str(error)),
            hint=getattr(error, "hint", ""),
        )
    return msgspec.json.encode(record)


def decode_error(text: bytes) -> OperatingError:
    """Return the error that `encode_error` encoded."""
    record = msgspec.json.decode(text, type=_ErrorRecord)
    if record.kind == "input":
        return InputError(record.diagnostics)
    kind = StudyError if record.kind == "study" else BenchError
    return kind(record.code, record.message, record.hint)
