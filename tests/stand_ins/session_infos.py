"""What a session stores about itself, for tests in which little of it matters."""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.study.journal import SessionInfo

_PLAIN = SessionInfo(
    started_ns=0,
    version="0",
    boot_id="",
    directory="/",
    arguments=(),
    defines=(),
    program_main="",
    sources=(),
    options={},
)


def session_info(**changes: Any) -> SessionInfo:
    """Return the information of a session with these members."""
    return msgspec.structs.replace(_PLAIN, **changes)


def suite_info(text: str, **changes: Any) -> SessionInfo:
    """Return the information of a session of the suite `s.ap` with this text."""
    return session_info(program_main="s.ap", sources=(("s.ap", text),), **changes)
